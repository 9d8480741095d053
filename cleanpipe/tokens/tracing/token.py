"""From one token to its document, its archive record and its characters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cleanpipe.tokens.tracing.characters import Characters, characters, holders, tokenizer_of
from cleanpipe.tokens.tracing.origin import Origin, Window, origin_of

if TYPE_CHECKING:
    from cleanpipe.tokens.store import TokenStore
    from cleanpipe.tokens.tokenizer import Tokenizer

BOS, EOS, TEXT = "bos", "eos", "text"


@dataclass(frozen=True, slots=True)
class Traced:
    """A token of a store.

    token: its global number. id: what the payload has there. kind: "text", or "bos" and "eos", which stand for no
    text. bytes: what a lossless tokenizer's id stands for, else None. characters: of the cleaned text; None of BOS and
    EOS. windows: of the run, that hold it; the first of them in which it is no repetition.
    """

    token: int
    id: int
    kind: str
    origin: Origin
    windows: tuple[Window, ...]
    bytes: bytes | None
    characters: Characters | None


def trace_token(store: TokenStore, token: int, *, tokenizer: Tokenizer | None = None) -> Traced:
    """Where a global token came from.

    tokenizer: the store's own, where it is open already.

    Raises:
        IndexError: the store has no such token. DamagedFileError: what is read is not as it was written.
    """
    tokenizer = tokenizer_of(store) if tokenizer is None else tokenizer
    origin = origin_of(store, store.document_of(token))
    number = int(store.read(token, token + 1)[0])
    kind = TEXT
    if store.bos is not None and token == origin.token_start:
        kind = BOS
    elif store.eos is not None and token == origin.token_stop - 1:
        kind = EOS
    return Traced(
        token=token,
        id=number,
        kind=kind,
        origin=origin,
        windows=tuple(holders(origin, token)) if kind == TEXT else (),
        bytes=tokenizer.token_bytes(number) if kind == TEXT and tokenizer.lossless else None,
        characters=characters(store, origin, token, token + 1, tokenizer) if kind == TEXT else None,
    )
