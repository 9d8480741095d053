"""What training reads of token stores: plans of sequences, and readers that give them in a plan's order."""
