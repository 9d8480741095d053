"""What each code point is, as one table of flags, and how code points are found in a buffer of UTF-8 bytes.

The table is read off Python's own ``str``, so it says what ``re`` and ``casefold`` of the same interpreter say.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

WORD = 1  # matches \w
LETTER = 2  # str.isalpha
UNSPACED = 4  # a letter of a script that puts no blanks between words
BLANK = 8  # str.isspace
FOLDS = 16  # str.casefold changes it

UNSPACED_RANGES: tuple[tuple[int, int], ...] = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x2E80, 0x2FDF),  # Han radicals
    (0x3005, 0x3007),  # Han iteration marks
    (0x3021, 0x303B),  # Han numerals
    (0x3041, 0x312F),  # Hiragana, Katakana, Bopomofo
    (0x31A0, 0x31FF),  # Bopomofo and Katakana extensions
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),  # Han
    (0xA000, 0xA4CF),  # Yi
    (0xA9E0, 0xA9FF),  # Myanmar
    (0xAA60, 0xAADF),  # Myanmar, Tai Viet
    (0xF900, 0xFAFF),  # Han
    (0xFF66, 0xFF9F),  # half-width Katakana
    (0x11700, 0x1174F),  # Ahom
    (0x1AFF0, 0x1B16F),  # Kana
    (0x20000, 0x3FFFF),  # Han, planes 2 and 3
)
"""Blocks of the scripts that Unicode breaks between ideographs (class ID) or by a dictionary (class SA), UAX #14."""

_LAST_CASED = 0x20000  # planes 2 and above know no case
_LAST_ASSIGNED = 0x40000  # above lie plane 14 (tags, selectors: no flag at all) and private use


@cache
def flags() -> npt.NDArray[np.uint8]:
    """The flags of every code point, uint8 of 0x110000; made once a process, in some 20 ms."""
    table = np.zeros(0x110000, dtype=np.uint8)
    singles = np.arange(_LAST_ASSIGNED, dtype=np.uint32).view("<U1")  # NumPy asks Python's own tables of each
    low = table[:_LAST_ASSIGNED]
    low[np.strings.isalnum(singles)] = WORD
    low[0x5F] = WORD
    low[np.strings.isalpha(singles)] |= LETTER
    low[np.strings.isspace(singles) & (low == 0)] = BLANK
    low[[code for code in range(_LAST_CASED) if (char := chr(code)).casefold() != char]] |= FOLDS
    for first, last in UNSPACED_RANGES:
        block = table[first : last + 1]
        block[block & LETTER != 0] |= UNSPACED
    table.setflags(write=False)
    return table


@cache
def ascii_words() -> npt.NDArray[np.uint8]:
    """Byte → its lower-case word character, or 0 where it is none; bytes above 0x7F stay as they are."""
    table = np.arange(256, dtype=np.uint8)
    for code in range(128):
        char = chr(code)
        table[code] = ord(char.lower()) if char.isalnum() or char == "_" else 0
    table.setflags(write=False)
    return table


@cache
def ascii_letters() -> npt.NDArray[np.bool_]:
    """Byte → whether it is one of A-Z and a-z."""
    return np.array([chr(code).isalpha() and code < 128 for code in range(256)])


def lead_bytes(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Where the characters above U+007F begin."""
    return np.flatnonzero(data >= 0xC0)


def code_points(data: npt.NDArray[np.uint8], leads: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """The code points that begin at ``leads`` of valid UTF-8; at least three bytes must follow the last."""
    first = data[leads].astype(np.uint32)
    second = data[leads + 1].astype(np.uint32) & 0x3F
    codes = ((first & 0x1F) << 6 | second).astype(np.uint32)
    long = np.flatnonzero(first >= 0xE0)
    if long.size:
        third = data[leads[long] + 2].astype(np.uint32) & 0x3F
        codes[long] = (first[long] & 0x0F) << 12 | second[long] << 6 | third
        longest = np.flatnonzero(first >= 0xF0)
        if longest.size:
            at = leads[longest]
            tail = (data[at + 2].astype(np.uint32) & 0x3F) << 6 | (data[at + 3].astype(np.uint32) & 0x3F)
            codes[longest] = (first[longest] & 0x07) << 18 | second[longest] << 12 | tail
    return codes
