"""What a tokenizer's file holds, whatever its kind: read once, kept for the process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cleanpipe.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Parts:
    """ids: every token's string → id (a piece of a ranks file in the byte alphabet). specials: those that the file
    calls special or control. fixed: ids that ordinary text needs (letters of the alphabet, parts or results of merges):
    they cannot be set aside as controls. pieces: bytes of each id, for lossless tokenizers. content: what decides
    the ids, in canonical form.
    """

    ids: Mapping[str, int]
    specials: Mapping[str, int]
    vocabulary: int
    unk: int | None = None
    byte_ids: tuple[int, ...] = ()
    fixed: frozenset[int] = frozenset()
    lossless: bool = False
    pieces: tuple[bytes, ...] = ()
    content: str = ""
    bos: int | None = None  # as the file itself says
    eos: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


def canonical(value: object) -> str:
    """SHA-256 of a value as JSON with sorted keys: how the file was spelled plays no part."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def check_ids(ids: Iterable[int], kind: str, *, holes: Iterable[int] = ()) -> int:
    """The size of a vocabulary whose ids are these.

    Raises:
        ConfigError: an id that is negative, no whole number, given twice or left out.
    """
    seen = list(ids)
    for value in seen:
        if type(value) is not int or value < 0:
            raise ConfigError(f"{kind}: {value!r} is no id: ids are whole numbers from 0; export the tokenizer again")
    if not seen:
        raise ConfigError(f"{kind}: the vocabulary is empty; give a trained tokenizer")
    unique = set(seen)
    if len(unique) < len(seen):
        twice = next(value for value in sorted(unique) if seen.count(value) > 1)
        raise ConfigError(f"{kind}: id {twice} is given to two tokens; export the tokenizer again")
    size = max(unique) + 1
    missing = size - len(unique | {hole for hole in holes if hole < size})
    if missing:
        first = next(value for value in range(size) if value not in unique)
        raise ConfigError(
            f"{kind}: {missing} ids below {size} belong to no token, the first is {first}: the vocabulary has gaps; "
            "fill them with reserved tokens or export the tokenizer again"
        )
    return size


@lru_cache(maxsize=4)
def parts_of(kind: str, data: bytes, pattern: str) -> Parts:
    """Read a tokenizer's bytes, once in a process.

    Raises:
        ConfigError: they are not of this kind, or broken.
    """
    if kind == "json":
        from cleanpipe.tokens.tokenizer.json_file import read
    elif kind == "tiktoken":
        from cleanpipe.tokens.tokenizer.ranks_file import read
    else:
        from cleanpipe.tokens.tokenizer.pieces_file import read
    return read(data, pattern)


@lru_cache(maxsize=2)
def names_of(kind: str, data: bytes, pattern: str) -> dict[int, str]:
    """Id → string of every token."""
    return {value: name for name, value in parts_of(kind, data, pattern).ids.items()}
