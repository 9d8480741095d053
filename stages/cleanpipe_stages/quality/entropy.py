"""Figures that the counts of a text's code points give: entropy and shares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_CHUNK = 1 << 20  # code points counted at once: a 60 MB line must not become 480 MB of integers
_ASCII, _BMP = 0x80, 0x10000
_MOSTLY_ASCII = 1.25  # UTF-8 bytes a code point up to which the code points beyond ASCII are few enough to sort
_ASCII_BYTES = bytes(range(_ASCII))
_ONE_BY_ONE = 16  # distinct code points that are quicker counted one after the other than sorted
_LN2 = math.log(2.0)


@dataclass(frozen=True, slots=True)
class CharacterFigures:
    """Of one text of n code points; all are 0 for an empty one.

    entropy: -sum(p log2 p) over code points, bits a character.
    corrected: entropy + (k - 1) / (2 n ln 2) with k distinct code points (Miller 1955, Madow): the plain value
        is too low for short texts.
    ascii_share: code points below U+0080 / n.
    digit_share: ASCII digits / code points that are no ASCII blank: hex in pairs is as much hex as in one run.
    """

    entropy: float
    corrected: float
    ascii_share: float
    digit_share: float


def code_point_counts(text: str) -> npt.NDArray[np.int64]:
    """How often each code point occurs: in their order, 0 for some that do not; the first 128 are ASCII."""
    if len(text) <= _CHUNK and not text.isascii():
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) < _MOSTLY_ASCII * len(text):
            return _of_few_beyond_ascii(raw)
    total: npt.NDArray[np.int64] | None = None
    beyond: list[npt.NDArray[np.uint32]] = []
    for start in range(0, len(text), _CHUNK):
        part = text if len(text) <= _CHUNK else text[start : start + _CHUNK]
        if part.isascii():
            counts = np.bincount(np.frombuffer(part.encode("ascii"), dtype=np.uint8), minlength=_ASCII)
        else:
            points = np.frombuffer(part.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
            if int(points.max()) >= _BMP:  # bins up to an emoji's would cost more than the text
                beyond.append(points[points >= _BMP])
                points = points[points < _BMP]
            counts = np.bincount(points, minlength=_ASCII)
        if total is None or len(total) <= len(counts):
            if total is not None:
                counts[: len(total)] += total
            total = counts
        else:
            total[: len(counts)] += counts
    if total is None:
        return np.zeros(0, dtype=np.int64)
    if beyond:
        total = np.concatenate([total, np.unique(np.concatenate(beyond), return_counts=True)[1]])
    return total


def _of_few_beyond_ascii(raw: bytes) -> npt.NDArray[np.int64]:
    """The same of UTF-8 whose other code points are few: bins for ASCII, the others one by one or by sorting."""
    ascii_counts = np.bincount(np.frombuffer(raw, dtype=np.uint8), minlength=_ASCII)[:_ASCII]
    few = raw.translate(None, _ASCII_BYTES).decode("utf-8", "surrogatepass")
    distinct = sorted(set(few))
    if len(distinct) > _ONE_BY_ONE:
        points = np.frombuffer(few.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        return np.concatenate([ascii_counts, np.unique(points, return_counts=True)[1]])
    return np.concatenate([ascii_counts, np.array([few.count(c) for c in distinct], np.int64)])


def character_figures(text: str) -> CharacterFigures:
    """The figures of one text, over the whole of it; time is linear in its length."""
    n = len(text)
    if not n:
        return CharacterFigures(0.0, 0.0, 0.0, 0.0)
    counts = code_point_counts(text)
    seen = counts[counts > 0].astype(np.float64)
    # log2(n) - sum(c log2 c) / n is the same sum with one division; never below 0 by rounding
    entropy = max(0.0, math.log2(n) - float(seen @ np.log2(seen)) / n)
    first = counts[:_ASCII].tolist()  # sums of a few numbers are quicker without NumPy
    return CharacterFigures(
        entropy=entropy,
        corrected=entropy + (len(seen) - 1) / (2.0 * n * _LN2),
        ascii_share=float(sum(first)) / n,
        digit_share=float(sum(first[48:58])) / max(1, n - sum(first[9:14]) - first[32]),
    )
