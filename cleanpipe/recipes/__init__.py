"""The recipes that come with cleanpipe."""
