"""Pure functions over one string, named by what they repair or find."""
