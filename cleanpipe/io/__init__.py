"""The outside world: archives, stores, Arrow and text files."""
