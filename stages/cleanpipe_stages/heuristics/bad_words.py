"""A list of words that the user does not want, and how often a text has one of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from cleanpipe_stages.blocklists.lines import text_lines

_WORD = re.compile(r"\w+")


def load(path: Path, stage: str) -> Callable[[str], int]:
    """Reads a list, one word or phrase a line; empty lines and lines that begin with # are none.

    The case of letters does not count. A word counts where no letter or digit stands beside it; one in a script that
    puts no blanks between words counts anywhere.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8, or names no word.
    """
    by_first: dict[str, list[str]] = {}
    bare: list[str] = []
    for phrase in sorted({line.casefold() for line in text_lines(path, stage)}):
        found = _WORD.search(phrase)
        if found and _spaced(phrase):
            by_first.setdefault(found[0], []).append(phrase)
        else:
            bare.append(phrase)
    first = frozenset(by_first)
    anywhere = re.compile("|".join(map(re.escape, sorted(bare, key=len, reverse=True)))) if bare else None

    def count(text: str) -> int:
        folded = text.casefold()
        found = sum(1 for _ in anywhere.finditer(folded)) if anywhere else 0
        if hit := first.intersection(_WORD.findall(folded)):
            likely = sorted((p for word in hit for p in by_first[word]), key=len, reverse=True)
            found += sum(1 for _ in re.finditer(rf"(?<!\w)(?:{'|'.join(map(re.escape, likely))})(?!\w)", folded))
        return found

    return count


def _spaced(phrase: str) -> bool:
    """Whether blanks part words where the phrase, which has a word, comes from."""
    if phrase.isascii():
        return True
    import numpy as np

    from cleanpipe_stages.dedup import characters as ch

    points = np.array([ord(c) for c in phrase], np.int64)
    return not bool((ch.flags()[points] & ch.UNSPACED != 0).any())
