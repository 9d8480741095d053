"""Totals of all inputs from sums over places, with what chance does to them.

A total is a ratio estimate: per compressed byte of the places of a stratum, times the stratum's bytes. Its interval is
of a bootstrap over places (Efron and Tibshirani 1993): the places are drawn again, with replacement, many times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from cleanpipe.planning.reading import Place

Floats = npt.NDArray[np.float64]
REPLICATES = 500
LEVEL = 0.9
_T = {2: 6.31, 3: 2.92, 4: 2.35, 5: 2.13, 6: 2.02, 8: 1.89, 10: 1.83, 15: 1.76, 20: 1.73, 30: 1.70}  # t at 0.95
_Z = 1.645


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure, and between which two it lies with 90 % confidence as far as chance goes."""

    estimate: float
    low: float
    high: float

    def scaled(self, by: float) -> Interval:
        """Each of the three times ``by``."""
        return Interval(self.estimate * by, self.low * by, self.high * by)


@dataclass(frozen=True, slots=True)
class Weights:
    """By how much each place counts: row 0 for the estimate, the others for the replicates. share: of the compressed
    bytes that was read, over all strata.
    """

    rows: Floats
    share: float

    def totals(self, sums: Floats) -> Floats:
        """The estimate of a total, and its replicates."""
        return self.rows @ sums

    def again(self, sums: Floats) -> Floats:
        """The sum over the sample itself, and with its places drawn again."""
        base = np.where(self.rows[0] > 0, self.rows[0], 1.0)
        return np.clip(self.rows / base, 0, None) @ sums


def weigh(places: Sequence[Place], sizes: Sequence[int], *, seed: int, whole: bool) -> Weights:
    """Weights for places of strata with so many compressed bytes; places that could not be read count nothing.

    A stratum of which nothing was read counts as the others do. Where all was read there is no chance in it.
    """
    stratum = np.array([p.stratum for p in places], np.int64)
    x = np.array([p.length if p.read else 0 for p in places], np.float64)
    usable = np.array([p.read for p in places], bool)
    base = np.zeros(len(places))
    rows = np.zeros((REPLICATES + 1, len(places)))
    if whole:
        rows[:] = usable
        return Weights(rows, 1.0)
    read = np.array([x[stratum == s].sum() for s in range(len(sizes))])
    total = float(sum(sizes))
    lost = sum(size for size, seen in zip(sizes, read, strict=True) if not seen)
    more = total / (total - lost) if total > lost else 1.0
    chance = np.random.Generator(np.random.PCG64(seed))
    for s, size in enumerate(sizes):
        mine = np.flatnonzero((stratum == s) & usable)
        if not read[s]:
            continue
        count = len(mine)
        share = min(1.0, read[s] / size)
        base[mine] = size * more / read[s]
        drawn = chance.multinomial(count, np.full(count, 1 / count), REPLICATES).astype(np.float64)
        sums = drawn @ x[mine]
        again = np.where(sums[:, None] > 0, drawn * size * more / np.maximum(sums, 1)[:, None], base[mine])
        if count == 1 and share < 1:  # one place says nothing about others
            again = base[mine] * np.exp(chance.normal(0, 0.5, (REPLICATES, 1)))
        wider = sqrt(1 - share) * (_student(count) / _Z) * sqrt(count / max(1, count - 1))
        rows[1:, mine] = base[mine] + (again - base[mine]) * wider
    rows[0] = base
    return Weights(rows, float(min(1.0, read.sum() / total)) if total else 1.0)


def _student(count: int) -> float:
    return next((t for n, t in _T.items() if count <= n), _Z)


def interval(values: Floats, *, least: float = 0.0, most: float = np.inf) -> Interval:
    """Of an estimate and its replicates; within bounds that are known."""
    low, high = np.quantile(values[1:], [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    estimate = float(np.clip(values[0], least, most))
    return Interval(
        estimate, min(estimate, float(np.clip(low, least, most))), max(estimate, float(np.clip(high, least, most)))
    )


def rare(values: Floats, seen: float, share: float, *, least: float = 0.0) -> Interval:
    """The same of a count of which few were seen: no tighter than a Poisson count's is."""
    found = interval(values, least=least)
    if share >= 1 or seen >= 50 or seen <= 0:
        return found
    spread = 1 - share
    scale = values[0] / seen
    low = values[0] - (seen - _poisson_low(seen)) * scale * spread
    high = values[0] + (_poisson_high(seen) - seen) * scale * spread
    return Interval(found.estimate, max(least, min(found.low, low)), max(found.high, high))


def _poisson_high(seen: float) -> float:
    """Upper end of a 90 % interval for a Poisson mean (Wilson and Hilferty 1931 for the chi-square quantile)."""
    n = seen + 1
    return float(n * (1 - 1 / (9 * n) + _Z / (3 * sqrt(n))) ** 3)


def _poisson_low(seen: float) -> float:
    return float(max(0.0, seen * (1 - 1 / (9 * seen) - _Z / (3 * sqrt(seen))) ** 3)) if seen > 0 else 0.0
