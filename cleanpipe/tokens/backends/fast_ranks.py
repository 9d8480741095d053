"""Merges in order of priority as ranks of pieces, the form in which tiktoken's engine wants them; exact or refused.

The engine joins any two neighbours whose bytes together have a rank, lowest rank first; merging by a list joins listed
pairs only. Both come to the same. While nothing was joined across a stretch's borders, the stretch goes through the
very states that it goes through alone. So two neighbours that make up piece P are a state of two tokens of P alone,
and there is at most one such state. Hence each piece is encoded alone, once, by the reference: if it becomes one token,
the two before were a listed pair, and no other two will ever meet; if it stays three tokens or more, none will; if it
stays two, the engine would join them, and it must not have that rank. What merging does not lead to stays out of the
ranks, and with ``ignore_merges`` is looked up as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.tokenizer.json_file import merges_of
from cleanpipe.tokens.tokenizer.needs import tokenizers
from cleanpipe.tokens.tokenizer.patterns import byte_alphabet

_OTHER = dict.fromkeys(range(0x100), "\uffff")
_TABLE: dict[int, str] = {**_OTHER, **{ord(letter): chr(byte) for byte, letter in enumerate(byte_alphabet())}}


@dataclass(frozen=True, slots=True)
class Ranked:
    """ranks: bytes → rank, for the engine. ids: (ranks,) the tokenizer's id of each rank. whole: ids of pieces that are
    tokens as a whole though merges do not lead to them; not among the ranks.
    """

    ranks: Mapping[bytes, int]
    ids: npt.NDArray[np.uint32]
    whole: Mapping[bytes, int] = field(default_factory=dict)


def _bytes(token: str) -> bytes | None:
    try:
        return token.translate(_TABLE).encode("latin-1")
    except UnicodeEncodeError:
        return None


def ranked(document: Mapping[str, Any], *, apart: bool) -> Ranked:
    """The ranks of a byte-level BPE (``model`` of a tokenizer.json).

    Args:
        document: it.
        apart: whole pieces are looked up before the engine sees them; else they must be among its ranks.

    Raises:
        ConfigError: they would not give the same ids.
    """
    model = document["model"]
    for key in ("dropout", "byte_fallback", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise ConfigError(f"its model has {key}")
    vocabulary: dict[str, int] = model["vocab"]
    spelled = {token: piece for token in vocabulary if (piece := _bytes(token))}
    letters = byte_alphabet()
    missing = [byte for byte, letter in enumerate(letters) if letter not in vocabulary]
    if missing:
        raise ConfigError(f"it has no token for {len(missing)} of the 256 bytes, the first is 0x{missing[0]:02x}")
    groups = _groups(model, spelled)
    whole = bool(model.get("ignore_merges"))
    candidates = [token for token, piece in spelled.items() if len(piece) > 1 and (whole or token in groups)]
    alone = _alone(model, candidates)
    order = list(letters) + [token for token in groups if alone[token] == 1 or (whole and not apart)]
    others = [token for token in candidates if whole and (alone[token] != 1 or token not in groups)]
    if not apart:
        for token in others:
            if alone[token] == 2:
                raise ConfigError(f"its token {token!r} is no merge, but two tokens side by side would become it")
        order += [token for token in others if token not in groups]
        others = []
    ids = np.array([vocabulary[token] for token in order], np.uint32)
    ranks = {spelled[token]: rank for rank, token in enumerate(order)}
    return Ranked(ranks, ids, {spelled[token]: vocabulary[token] for token in others})


def of_ranks(ranks: Mapping[bytes, int]) -> Ranked:
    """The ranks of a ranks file: every way to split a piece in two ranks is a merge, so nothing is to be checked."""
    order = sorted(ranks, key=ranks.__getitem__)
    return Ranked(
        {piece: place for place, piece in enumerate(order)}, np.array([ranks[piece] for piece in order], np.uint32)
    )


def _groups(model: Mapping[str, Any], spelled: Mapping[str, bytes]) -> dict[str, list[tuple[str, str]]]:
    """Piece → its merges, in order of priority."""
    groups: dict[str, list[tuple[str, str]]] = {}
    last = ""
    for left, right in merges_of(model):
        made = left + right
        if left not in spelled or right not in spelled or made not in spelled:
            raise ConfigError(f"its merge {left!r} {right!r} is not of byte-level tokens")
        if made in groups and made != last:
            raise ConfigError(f"its merges into {made!r} do not stand together")
        groups.setdefault(made, []).append((left, right))
        last = made
    return groups


def _alone(model: Mapping[str, Any], tokens: list[str]) -> dict[str, int]:
    """How many tokens each becomes by the merges alone (1: itself), by the reference."""
    bare = {**model, "ignore_merges": False}
    engine = tokenizers().Tokenizer.from_str(
        json.dumps({"version": "1.0", "added_tokens": [], "pre_tokenizer": None, "model": bare})
    )
    made: dict[str, int] = {}
    for begin in range(0, len(tokens), 20_000):
        part = tokens[begin : begin + 20_000]
        made.update((token, len(one)) for token, one in zip(part, engine.encode_batch_fast(part), strict=True))
    return made
