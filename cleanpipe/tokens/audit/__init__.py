"""The audit of a store of tokens: tallied in the workers, built at the end, told as JSON, Markdown, text and a page."""
