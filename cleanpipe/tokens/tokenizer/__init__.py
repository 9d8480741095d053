"""Tokenizers as files: opened, checked, named by what they do. What encodes with them is in ``tokens.backends``."""

from cleanpipe.tokens.tokenizer.model import Tokenizer
from cleanpipe.tokens.tokenizer.opening import embedded, open_tokenizer

__all__ = ["Tokenizer", "embedded", "open_tokenizer"]
