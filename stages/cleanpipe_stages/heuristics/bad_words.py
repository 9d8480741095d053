"""A list of words that the user does not want, and how often a text has one of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from cleanpipe.errors import ConfigError

_WORD = re.compile(r"\w+")


def load(path: Path, stage: str) -> Callable[[str], int]:
    """Reads a list, one word or phrase a line; empty lines and lines that begin with # are none.

    The case of letters does not count. A word counts where no letter or digit stands beside it; one in a script that
    puts no blanks between words counts anywhere.

    Raises:
        ConfigError: the file cannot be read, is not UTF-8, or names no word.
    """
    try:
        lines = path.read_text(encoding="utf-8").casefold().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the list of words {path} cannot be read as UTF-8: {error}", stage=stage) from error
    phrases = sorted({line.strip() for line in lines if line.strip() and not line.startswith("#")})
    if not phrases:
        raise ConfigError(f"the list of words {path} names none", stage=stage)
    spaced = [p for p in phrases if _spaced(p)]
    first = {found[0] for p in spaced if (found := _WORD.findall(p))}
    bare = [p for p in phrases if not _spaced(p)]
    anywhere = re.compile("|".join(map(re.escape, sorted(bare, key=len, reverse=True)))) if bare else None
    by_first: dict[str, list[str]] = {word: [p for p in spaced if _WORD.findall(p)[:1] == [word]] for word in first}

    def count(text: str) -> int:
        folded = text.casefold()
        found = sum(1 for _ in anywhere.finditer(folded)) if anywhere else 0
        if hit := first.intersection(_WORD.findall(folded)):
            likely = sorted((p for word in hit for p in by_first[word]), key=len, reverse=True)
            found += sum(1 for _ in re.finditer(rf"(?<!\w)(?:{'|'.join(map(re.escape, likely))})(?!\w)", folded))
        return found

    return count


def _spaced(phrase: str) -> bool:
    """Whether blanks part words where the phrase comes from."""
    import numpy as np

    from cleanpipe_stages.dedup import characters as ch

    points = np.array([ord(c) for c in phrase], np.int64)
    return not bool((ch.flags()[points] & ch.UNSPACED != 0).any()) and bool(_WORD.search(phrase))
