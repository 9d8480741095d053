"""One set of bins for every score: histograms add up over any number of parts, and quantiles are read from them.

Bins are .01 wide inside [-10, 10) and 2 % wide beyond, up to 1e12 on either side; the last one on each side is open.
A bin is known by its ordinal: 0 is [0, .01), 1000 is [10, 10.2), -1 is [-.01, 0).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import numpy.typing as npt

_LIMIT = 1e12
WIDTH = ".01 wide, from 10 on 2 %"
QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


@cache
def edges() -> npt.NDArray[np.float64]:
    """Lower edges, ascending; by division and multiplication alone, which every processor rounds alike (log is not).

    Those beyond 10 have six digits: they can be written down exactly, and asked for in SQL.
    """
    beyond = [10.0]
    while beyond[-1] < _LIMIT:
        beyond.append(float(f"{beyond[-1] * 1.02:.6g}"))
    inside = [i / 100 for i in range(-999, 1000)]
    out = np.array([-e for e in reversed(beyond)] + inside + beyond)
    out.setflags(write=False)
    return out


@cache
def _zero() -> int:
    return int(np.searchsorted(edges(), 0.0))


def histogram(values: npt.NDArray[np.float64]) -> dict[str, int]:
    """Counts by ordinal; NaN is counted under "nan"."""
    real = values[~np.isnan(values)]
    at = np.clip(np.searchsorted(edges(), real, side="right") - 1, 0, None)
    counts = np.bincount(at, minlength=1)
    out = {str(i - _zero()): int(counts[i]) for i in np.flatnonzero(counts).tolist()}
    if len(real) < len(values):
        out["nan"] = len(values) - len(real)
    return out


def histograms(values: npt.NDArray[np.float64], groups: npt.NDArray[np.int64], count: int) -> list[dict[str, int]]:
    """The same for each of ``count`` groups: ``groups`` says of each value which one it is in."""
    order = np.argsort(groups, kind="stable")
    cuts = np.searchsorted(groups[order], np.arange(count + 1))
    ranked = values[order]
    return [histogram(ranked[a:b]) for a, b in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)]


def lower_edge(ordinal: int) -> float:
    """Where a bin begins, rounded to 6 decimals."""
    return round(float(edges()[ordinal + _zero()]), 6)


def quantiles(bins: Mapping[str, int]) -> dict[str, float]:
    """Lower edge of the bin that holds each of QUANTILES; the true value is less than a bin above. {} if none."""
    ordinals = sorted(int(k) for k in bins if k != "nan")
    if not ordinals:
        return {}
    upto = np.cumsum([bins[str(o)] for o in ordinals])
    total = int(upto[-1])
    out = {}
    for q in QUANTILES:
        rank = -(-total * round(q * 100) // 100)  # the smallest value that has this share at or below it
        out[f"{q:.2f}"] = lower_edge(ordinals[int(np.searchsorted(upto, rank))])
    return out


def upper_edge(ordinal: int) -> float:
    """Where a bin ends, rounded to 6 decimals; the last one has no end."""
    at = ordinal + _zero() + 1
    return round(float(edges()[at]), 6) if at < len(edges()) else float("inf")


def by_edge(bins: Mapping[str, int]) -> dict[str, int]:
    """The histogram with lower edges in place of ordinals, ascending; "nan" last."""
    out = {f"{lower_edge(o):g}": bins[str(o)] for o in sorted(int(k) for k in bins if k != "nan")}
    if "nan" in bins:
        out["nan"] = bins["nan"]
    return out
