"""The project's own extraction: a page is cut into blocks, and a small learned model says which are its main text."""
