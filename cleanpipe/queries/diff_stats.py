"""How much two samples differ by chance: shares of clustered documents, many lines at once, and distributions.

Documents come by the host: what is true of one page of a site is likely true of the next, so n pages say less than n
independent ones. Variances are therefore taken between clusters (hosts; inputs where there are enough), as survey
statistics do (Wolter, Introduction to Variance Estimation, 2nd ed. 2007, ch. 4: the jackknife over clusters). The
factor by which clustering widens a variance is Kish's design effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

FALSE_DISCOVERIES = 0.01  # expected share of chance among the lines that are said to have moved
CONFIDENCE = 0.95  # of the intervals
LEAST_CLUSTERS = 5.0  # clusters (effective, on each side) below which their spread cannot be known
MOVED, LARGE = 0.1, 0.25  # marks of PSI, see ``psi``
_NORMAL = NormalDist()
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Movement:
    """Two shares and what their difference says. difference, low, high: B − A, with the CONFIDENCE interval.

    p: of no difference. deff: design effect, 1 or more; infinite where nothing can be told.
    """

    difference: float
    low: float
    high: float
    p: float
    deff: float


def effective(sizes: Floats) -> float:
    """As how many clusters of one size these count: (Σx)² / Σx²."""
    squares = float((sizes**2).sum())
    return float(sizes.sum()) ** 2 / squares if squares else 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """A difference of two shares, its variance between clusters and the degrees of freedom of that."""

    difference: float
    variance: float
    freedom: float


def between(ya: Floats, xa: Floats, yb: Floats, xb: Floats) -> Spread | None:
    """Σyb/Σxb − Σya/Σxa with its variance, by the jackknife that leaves one cluster out at a time.

    Degrees of freedom as Satterthwaite has them (1946): 3 (Σc²)² / Σc⁴ of the clusters' changes c, so that a few large
    ones do not pass for many; clusters − 2 at most, 1 at least.

    Args:
        ya, xa, yb, xb: numerator and denominator of each run in each cluster; the same cluster at the same place. A
            cluster in both runs is left out of both: what is peculiar to a host, and the same in both, is no spread.

    Returns:
        None where both runs are of one and the same cluster; an infinite variance where all of a run is of one.
    """
    clusters = int(np.count_nonzero((xa > 0) | (xb > 0)))
    if clusters < 2:
        return None
    ta, tb = float(xa.sum()), float(xb.sum())
    pa, pb = float(ya.sum()) / ta, float(yb.sum()) / tb
    resta, restb = ta - xa, tb - xb
    if (resta <= 0).any() or (restb <= 0).any():
        return Spread(pb - pa, math.inf, 1.0)
    squares = ((yb - pb * xb) / restb - (ya - pa * xa) / resta) ** 2
    variance, fourth = float(squares.sum()), float((squares**2).sum())
    freedom = max(1.0, min(3 * variance**2 / fourth if fourth else 1.0, clusters - 2))
    return Spread(pb - pa, variance, freedom)


def simple(a: tuple[float, float], b: tuple[float, float], joint: float) -> float:
    """Variance of the difference of two shares (numerator, denominator) if documents were independent and there were
    no difference; ``joint`` documents are the same ones in both and add none.
    """
    (ya, na), (yb, nb) = a, b
    p = (ya + yb) / (na + nb)
    return p * (1 - p) * max(0.0, 1 / na + 1 / nb - 2 * min(joint, na, nb) / (na * nb))


def movement(
    a: tuple[float, float], b: tuple[float, float], joint: float, spreads: Sequence[Spread], deff: float
) -> Movement:
    """Compare two shares. The interval and p are of the same standard error and the same Student's t, so that what p
    is sure of (below 1 − CONFIDENCE) has an interval without 0.

    Args:
        a, b: numerator and denominator, the denominator in independent units (documents).
        joint: documents that stand in both denominators.
        spreads: what ``between`` found for each kind of cluster that could be measured; the one that makes the
            difference least sure decides.
        deff: design effect to assume where there is none.
    """
    (ya, na), (yb, nb) = a, b
    difference = yb / nb - ya / na
    alone = simple(a, b, joint)
    step = (1 / na + 1 / nb) / 2  # continuity correction, Yates 1934: counts are whole
    found = []
    for spread in spreads or [Spread(difference, alone * deff, math.inf)]:
        if math.isinf(spread.variance):
            return Movement(difference, -1.0, 1.0, 1.0, math.inf)
        variance = max(spread.variance, alone)
        half = student(CONFIDENCE, spread.freedom) * math.sqrt(variance)
        found.append((_tail(abs(difference), step, variance, spread.freedom), half, variance))
    p, half, variance = (max(f[i] for f in found) for i in range(3))
    effect = max(1.0, variance / alone) if alone else 1.0
    return Movement(difference, max(-1.0, difference - half), min(1.0, difference + half), p, effect)


def _tail(difference: float, step: float, variance: float, freedom: float) -> float:
    """Chance of a difference as large, either way."""
    if not variance:
        return 0.0 if difference else 1.0
    return 2 * _NORMAL.cdf(-normal_of(max(0.0, difference - step) / math.sqrt(variance), freedom))


def normal_of(t: float, freedom: float) -> float:
    """The normal deviate of the same tail as Student's t ≥ 0 (Wallace 1959, Ann. Math. Stat. 30: within .02 from 3
    degrees of freedom on, below that too small, which is on the safe side).
    """
    if math.isinf(freedom):
        return t
    freedom = max(freedom, 1.0)
    return (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(t * t / freedom))


def student(confidence: float, freedom: float) -> float:
    """Student's t of a two-sided interval; Wallace's formula turned round."""
    z = _NORMAL.inv_cdf((1 + confidence) / 2)
    if math.isinf(freedom):
        return z
    freedom = max(freedom, 1.0)
    return math.sqrt(freedom * math.expm1((z * (8 * freedom + 3) / (8 * freedom + 1)) ** 2 / freedom))


def discoveries(ps: Sequence[float], share: float = FALSE_DISCOVERIES) -> list[bool]:
    """Which of many tests to believe, so that ``share`` of these are chance at most (Benjamini & Hochberg 1995)."""
    ranked = sorted(ps)
    bound = max((p for i, p in enumerate(ranked, 1) if p <= share * i / len(ps)), default=-1.0)
    return [p <= bound for p in ps]


def psi(a: Floats, b: Floats) -> tuple[float, Floats]:
    """Population stability index of two histograms, Σ(q−p)·ln(q/p), and each bin's part; counts are raised by ½.

    Below .1 a population is read as stable, from .1 as moved, from .25 as another one: Siddiqi, Credit Risk
    Scorecards, 2006. The marks are a custom of scoring, no test: see ``psi_floor``.
    """
    p, q = (a + 0.5) / (a.sum() + 0.5 * len(a)), (b + 0.5) / (b.sum() + 0.5 * len(b))
    parts = (q - p) * np.log(q / p)
    return float(parts.sum()), parts


def psi_floor(a: Floats, b: Floats, joint: float, clusters: Sequence[tuple[Floats, Floats]], chance: float) -> float:
    """The PSI that two samples of one population exceed with this chance.

    Of independent documents it is (1/n + 1/m)·χ² of bins − 1 (Yurdakul, Statistical Properties of Population Stability
    Index, Western Michigan University 2018). Of clustered ones it is a sum of χ²s with the eigenvalues of the design
    effects' matrix, which is met by one χ² of the same mean and variance (Rao & Scott 1984, second order).

    Args:
        a, b: documents of each bin. joint: documents that are in both.
        clusters: for each kind of cluster, the documents (cluster, bin) of each run.

    Returns:
        The largest over independent documents and each kind of cluster; infinite where too few clusters are there.
    """
    n, m, k = float(a.sum()), float(b.sum()), len(a) - 1
    if k < 1:
        return 0.0
    fresh = max(0.0, 1 / n + 1 / m - 2 * min(joint, n, m) / (n * m))
    floors = [fresh * k * _f_bound(k, math.inf, chance)]
    root = np.sqrt((a + b + 0.5) / (n + m + 0.5 * len(a)))
    for one, other in clusters:
        if np.count_nonzero(one.sum(1) + other.sum(1)) < 2:
            continue
        rest = [m_.sum() - m_.sum(1, keepdims=True) for m_ in (one, other)]
        if any((r <= 0).any() for r in rest):
            return math.inf
        parts = [
            (m_ - m_.sum(0) / m_.sum() * m_.sum(1, keepdims=True)) / r for m_, r in zip((one, other), rest, strict=True)
        ]
        change = (parts[1] - parts[0]) / root
        trace, squares = float((change**2).sum()), float(((change.T @ change) ** 2).sum())
        if not trace:
            continue
        freedom = trace**2 / squares
        each = (change**2).sum(1)
        of_clusters = (1 + 2 / freedom) * float(each.sum()) ** 2 / float((each**2).sum())
        floors.append(trace * _f_bound(freedom, min(of_clusters, int(np.count_nonzero(each)) - 2), chance))
    return max(floors)


def _f_bound(freedom: float, of_clusters: float, chance: float) -> float:
    """What an F with these degrees of freedom exceeds with this chance (Paulson 1942's formula, Wilson & Hilferty
    1931's for an infinite second); infinite where the second are too few for the formula.
    """
    z, a = _NORMAL.inv_cdf(1 - chance), 2 / (9 * freedom)
    b = 2 / (9 * of_clusters) if of_clusters > 0 else math.inf
    lead = (1 - b) ** 2 - z * z * b if math.isfinite(b) else -1.0
    if lead <= 0:
        return math.inf
    half = (1 - a) * (1 - b)
    return float(((half + math.sqrt(half * half - lead * ((1 - a) ** 2 - z * z * a))) / lead) ** 3)
