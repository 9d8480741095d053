"""A language that models see too little text of to know it without its marks: told by its function words.

Yoruba is written with every tone and dot, with a part of them, or with none. lid.176 scores it near zero in each case,
and the second model has read sixteen articles of law in it. Its function words are a third or half of any text
(data/function_words.tsv).
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from importlib.resources import files

UNSURE = 0.5  # a first score above it is believed: no Yoruba text that was looked at had more than 0.3
# In 40 words of the declaration's articles 15 to 30 each of 32 pieces in Yoruba has a share of .45 or more and 3 own
# words; of the pieces in 446 other languages none has a share of .2 and 2 own words.
_SHARE, _OWN = 0.25, 2
_LEAST = 12  # words: of fewer, a quarter is chance
_MARKS = re.compile("[\u0300-\u036f]+")
_WORD = re.compile(r"[^\W\d_]+")


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[frozenset[str], frozenset[str]]]:
    """By language its function words, and those of them that hardly another language has."""
    every: dict[str, set[str]] = {}
    own: dict[str, set[str]] = {}
    for line in files("cleanpipe_stages.lid").joinpath("data", "function_words.tsv").read_text("utf-8").splitlines():
        if line and not line.startswith("#"):
            language, kind, words = line.split("\t")
            every.setdefault(language, set()).update(words.split())
            own.setdefault(language, set()).update(words.split() if kind == "own" else ())
    return {k: (frozenset(every[k]), frozenset(own[k])) for k in sorted(every)}


def tell(line: str) -> str | None:
    """The language whose function words a line in Latin letters is full of, or None. Marks on letters do not count."""
    words = _WORD.findall(_MARKS.sub("", unicodedata.normalize("NFD", line.lower())))
    if len(words) < _LEAST:
        return None
    for language, (every, own) in _table().items():
        if sum(w in every for w in words) >= _SHARE * len(words) and len(own.intersection(words)) >= _OWN:
            return language
    return None
