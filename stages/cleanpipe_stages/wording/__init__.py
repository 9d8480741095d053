"""Texts as streams of hashed words, for looking words and phrases up without a Python object for each."""
