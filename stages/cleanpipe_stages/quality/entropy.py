"""Figures that the counts of a text's code points give: entropy and shares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_CHUNK = 1 << 20  # code points counted at once: a 60 MB line must not become 480 MB of integers
_ASCII, _BMP = 0x80, 0x10000
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
    """How often each code point occurs: up to the highest below U+10000 (128 at least), then, densely, those beyond."""
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


def character_figures(text: str) -> CharacterFigures:
    """The figures of one text, over the whole of it; time is linear in its length."""
    n = len(text)
    if not n:
        return CharacterFigures(0.0, 0.0, 0.0, 0.0)
    counts = code_point_counts(text)
    seen = counts[counts > 0].astype(np.float64)
    # log2(n) - sum(c log2 c) / n is the same sum with one division; never below 0 by rounding
    entropy = max(0.0, math.log2(n) - float(seen @ np.log2(seen)) / n)
    return CharacterFigures(
        entropy=entropy,
        corrected=entropy + (len(seen) - 1) / (2.0 * n * _LN2),
        ascii_share=float(counts[:_ASCII].sum()) / n,
        digit_share=float(counts[48:58].sum()) / max(1, n - int(counts[9:14].sum()) - int(counts[32])),
    )
