"""Shingles as plain strings: the definition. Slow; for the datasketch scheme and for the tests of the fast one."""

from __future__ import annotations

import re
from functools import cache

from cleanpipe_stages.dedup.characters import UNSPACED_RANGES
from cleanpipe_stages.dedup.shingles import CHARACTERS, WORDS

_WORD = re.compile(r"\w+")


@cache
def _unspaced() -> re.Pattern[str]:
    return re.compile("[" + "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in UNSPACED_RANGES) + "]")


def by_characters(text: str) -> bool:
    """Whether more than 30 % of the letters of a folded text are of scripts without blanks."""
    letters = sum(map(str.isalpha, text))
    unspaced = sum(map(str.isalpha, _unspaced().findall(text)))
    return unspaced * 10 > letters * 3


def shingles(text: str, *, words: int = WORDS, characters: int = CHARACTERS) -> set[str]:
    """The distinct shingles of a text; words are joined by one blank."""
    folded = text.casefold()
    if by_characters(folded):
        solid = "".join(folded.split())
        return {solid[i : i + characters] for i in range(len(solid) - characters + 1)}
    found = _WORD.findall(folded)
    return {" ".join(found[i : i + words]) for i in range(len(found) - words + 1)}
