"""What runs the units, and how their results are committed."""
