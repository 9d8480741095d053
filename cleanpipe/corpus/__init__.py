"""The audit of any text corpus: what can be told of documents that came from no archive."""
