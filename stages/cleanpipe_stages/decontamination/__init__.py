"""Benchmark items, their n-grams, and the documents that hold them."""
