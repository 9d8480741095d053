"""What a text is made of: shares of characters by their kind, of stop words, and of lines of furniture."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.heuristics import stop_words
from cleanpipe_stages.heuristics.boilerplate import furniture
from cleanpipe_stages.heuristics.units import Units, quotient

FIGURES: Mapping[str, str] = {
    "symbol_share": "symbols (Unicode's S: money, mathematics, emoji …) among characters that are no blanks",
    "punctuation_share": "punctuation marks (Unicode's P) among characters that are no blanks",
    "upper_share": "capitals among the letters that have a case",
    "stop_word_share": "stop words of its language by words and marks",
    "boilerplate_line_share": "lines of furniture (notices, calls to share, labels, crumbs) of all lines",
    "boilerplate_char_share": "characters in lines of furniture, by those of all lines",
}
_SEEN, _SYMBOL, _MARK, _UPPER, _LOWER = range(5)
_LAST = 0x40000  # above lie plane 14 and private use: seen, and of no kind


def shape(documents: Sequence[bytes], languages: Sequence[str]) -> dict[str, npt.NDArray[np.float64]]:
    """FIGURES of each document. documents: UTF-8. languages: ISO 639-1, of each."""
    kinds = np.array([_kinds(d) for d in documents], np.int64).reshape(-1, 5).T
    units = Units([_lower(d) for d in documents])
    lines = units.lines
    boilerplate = furniture(units, languages)
    characters = units.characters(lines.starts, lines.ends)
    return {
        "symbol_share": quotient(kinds[_SYMBOL], kinds[_SEEN]),
        "punctuation_share": quotient(kinds[_MARK], kinds[_SEEN]),
        "upper_share": quotient(kinds[_UPPER], kinds[_UPPER] + kinds[_LOWER]),
        "stop_word_share": stop_words.share(units, languages),
        "boilerplate_line_share": quotient(lines.total(boilerplate), np.diff(lines.at)),
        "boilerplate_char_share": quotient(lines.total(characters * boilerplate), lines.total(characters)),
    }


def _lower(document: bytes) -> bytes:
    return document.lower() if document.isascii() else document.decode().lower().encode()


def _kinds(document: bytes) -> tuple[int, ...]:
    """How many characters are seen, symbols, marks, capitals, small letters."""
    ascii_only, every = tables()
    if document.isascii():
        counts = np.bincount(np.frombuffer(document, np.uint8), minlength=128)
        return tuple((ascii_only @ counts).tolist())
    points = np.frombuffer(document.decode().encode("utf-32-le"), "<u4")
    found = np.bincount(every[points], minlength=32)
    return tuple(int(found[(np.arange(found.size) >> bit) & 1 == 1].sum()) for bit in range(5))


@cache
def tables() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Kinds of ASCII, 0 or 1, [5, 128]; and of every code point as bits."""
    bits = np.full(0x110000, 1 << _SEEN, np.uint8)
    for code in range(_LAST):
        kind = unicodedata.category(chr(code))
        if kind[0] in "ZC":
            bits[code] = 0
        elif kind[0] == "S":
            bits[code] |= 1 << _SYMBOL
        elif kind[0] == "P":
            bits[code] |= 1 << _MARK
        elif kind in ("Lu", "Lt"):
            bits[code] |= 1 << _UPPER
        elif kind == "Ll":
            bits[code] |= 1 << _LOWER
    ascii_only = np.array([(bits[:128] >> bit) & 1 for bit in range(5)], np.int64)
    return ascii_only, bits
