"""The one line of text that a language model is given for a document."""

from __future__ import annotations

import numpy as np

_UPPER = bytes(range(0x41, 0x5B))
_LOWER = bytes(range(0x61, 0x7B))
_SHARE = 6  # more than one capital in six: title case has one in four or five, German with its nouns one in twelve
_NEAR = 4  # one cased ASCII letter in four characters: enough to judge by these alone


def line_of(text: str, chars: int) -> str:
    """The first ``chars`` characters on one line; "" if they hold no letter, for then no language can be told.

    ``__label__`` would be read as a label and ``</s>`` as the line's end, a lone surrogate cannot be passed on, and a
    text with many capitals is lower-cased: the case of letters is not a language (English in capitals scores 0.22 as it
    is, in title case 0.60).
    """
    # NUL ends fastText's line; every other break, U+0085 and U+2028 too, is white space to split
    line = " ".join(text[:chars].replace("__label__", " ").replace("</s>", " ").replace("\0", " ").split())
    if not any(map(str.isalpha, line)):
        return ""
    try:
        coded = line.encode()
    except UnicodeEncodeError:
        coded = line.encode(errors="ignore")
        line = coded.decode()
    return line.lower() if _in_capitals(line, coded) else line


def _in_capitals(line: str, coded: bytes) -> bool:
    small = len(coded) - len(coded.translate(None, _LOWER))
    large = len(coded) - len(coded.translate(None, _UPPER))
    if not line.isascii() and _NEAR * (small + large) < len(line):
        lower, upper = line.lower(), line.upper()
        if len(lower) == len(upper) == len(line):  # ß and its like: rare, and then the ASCII letters speak
            points, lows, highs = (np.frombuffer(s.encode("utf-32-le"), np.uint32) for s in (line, lower, upper))
            large, small = int(np.count_nonzero(points != lows)), int(np.count_nonzero(points != highs))
    return _SHARE * large > small + large


def letters(line: str) -> int:
    """How many letters a line has."""
    if line.isascii():
        return len(line) - len(line.encode().translate(None, _UPPER + _LOWER))
    return sum(map(str.isalpha, line))
