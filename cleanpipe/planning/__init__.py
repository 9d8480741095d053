"""What a run would give and cost, told from a sample of its records before it is started."""
