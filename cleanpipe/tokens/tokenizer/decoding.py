"""Ids back to text by the libraries, for tokenizers that are not byte-level."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from cleanpipe.tokens.tokenizer.needs import sentencepiece, tokenizers


@lru_cache(maxsize=4)
def _decoder(kind: str, data: bytes) -> Any:
    if kind == "sentencepiece":
        return sentencepiece().SentencePieceProcessor(model_proto=data)
    return tokenizers().Tokenizer.from_buffer(data)


def decode(kind: str, data: bytes, ids: Sequence[int]) -> str:
    """The text of these ids, control tokens by name where the library names them."""
    found = _decoder(kind, data)
    if kind == "sentencepiece":
        return str(found.decode(list(ids)))
    return str(found.decode(list(ids), skip_special_tokens=False))
