"""How many documents have another that stands for them, in all inputs, from the families that a sample shows.

Two documents of one family rarely fall into one small sample: of pairs that lie anywhere, a sample of the share f shows
f² of them. So the number of families is an unseen-species problem. Members within one place are counted as they are
(they come or stay away together). For the rest a family is of b places, of which the sample holds x, binomial with
share f; the mixture of b that makes the observed numbers of families by x most likely is found by EM (the
nonparametric maximum-likelihood estimate of Norris and Pollock 1998).

Where archives were copied whole, families come and go together: the bootstrap takes those first seen in one place as
one observation. What is left is told by odds, so that an error in many copies is a small one in few survivors.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma, log

import numpy as np
import numpy.typing as npt

from cleanpipe.planning.intervals import Weights
from cleanpipe.planning.trial import Met, sums

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_STEPS = 400
_CHAINS = 0.08  # near copies are no families in truth: A may be near to B, B to C, and C not to A
_WIDER = 1.35  # places that are copies of each other tell less than as many that are not
_UNLIKE = 4.0  # by so much texts of which no copy was seen may be longer or shorter than all are
_ENOUGH = 5.0  # duplicates that count as one observation of their length


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Documents that go for another, and their text's bytes: the estimate and its replicates, of documents that met.

    seen: members of families beyond the first place in which the sample shows them. weight: of each row that met, for
    how many duplicates it speaks; 0 where no other document stands for it.
    """

    met: Floats
    met_text: Floats
    documents: Floats
    text: Floats
    seen: int
    weight: Floats

    @property
    def survivors(self) -> Floats:
        """Documents that no other stands for."""
        return np.clip(self.met - self.documents, 0, None)


def duplicates(met: Met, weights: Weights, *, blocks: int, seed: int) -> Duplicates:
    """Of the documents that met in a sample, what it says of all. blocks: places that there are in all."""
    places, rows = weights.rows.shape[1], np.arange(len(met.family))
    total = weights.totals(sums(met.place, None, places))
    total_text = weights.totals(sums(met.place, met.text, places))
    gone = met.family != rows
    if weights.share >= 1:
        weight = gone.astype(np.float64)
        lost = weights.totals(sums(met.place, met.text * weight, places))
        count = weights.totals(sums(met.place, weight, places))
        return Duplicates(total, total_text, count, lost, 0, weight)
    order = np.lexsort((rows, gone, met.place, met.family))  # in each family the places, in each the keeper first
    leads = np.ones(len(rows), bool)
    leads[order[1:]] = (np.diff(met.family[order]) != 0) | (np.diff(met.place[order]) != 0)
    _, family_of, times = np.unique(met.family[leads], return_inverse=True, return_counts=True)
    first = np.full(len(rows), places, np.int64)  # the lowest place of each family
    np.minimum.at(first, met.family[leads], met.place[leads])
    cluster = first[np.unique(met.family[leads])]
    members = weights.totals(sums(met.place[leads], None, places))
    ratio, visible, several = _apart(times, cluster, members, blocks, seed)
    doubt = np.random.Generator(np.random.PCG64([seed, 3])).normal(0, _CHAINS * (1 - weights.share), len(ratio))
    doubt[0] = 0.0
    more = ratio * np.exp(doubt)
    ratio = np.divide(more, 1 - ratio + more, out=np.ones_like(ratio), where=ratio < 1)
    apart = np.minimum(ratio, 1 - 1 / np.maximum(members, 1)) * np.clip(members, 0, None)
    documents = np.clip(total - members, 0, None) + apart
    weight = np.where(gone & ~leads, weights.rows[0][met.place], 0.0)
    weight[leads] = np.where(gone[leads], visible[np.minimum(times, len(visible) - 1)][family_of], 0.0)
    again = np.zeros(len(rows))  # members of families that were seen in several places
    again[leads] = times[family_of] > 1
    single = np.clip(members, 0, None) * (1 - several)
    copied = np.clip(members - apart - single, 0, None)
    mean = _mean_text(met, weights, again)
    all_ = np.clip(weights.totals(sums(met.place, met.text * leads, places)), 0, None)
    each = np.divide(all_, members, out=np.zeros_like(all_), where=members > 0)
    alone = np.divide(all_ - several * members * mean, single, out=each.copy(), where=single > 0)
    left = copied * mean + single * np.clip(alone, each / _UNLIKE, each * _UNLIKE)
    lost = np.clip(total_text - np.minimum(left, all_), 0, None)
    return Duplicates(total, total_text, documents, lost, int((times - 1).sum()), weight)


def _mean_text(met: Met, weights: Weights, weight: Floats) -> Floats:
    """Mean bytes of the text of duplicates, drawn to that of all documents where few were seen."""
    if not len(met.text):
        return np.zeros(len(weights.rows))
    places = weights.rows.shape[1]
    scale = np.count_nonzero(weight) / max(float(weight.sum()), 1e-9)
    size = weights.again(sums(met.place, weight * scale, places))
    text = weights.again(sums(met.place, weight * scale * met.text, places))
    mean: Floats = (text + _ENOUGH * float(met.text.mean())) / (size + _ENOUGH)
    return mean


def _apart(times: Ints, cluster: Ints, members: Floats, blocks: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Of members those in other places than their family's first, as a share: the estimate and its replicates; for how
    many of them stands one that was seen, by the number of places in which its family was seen; and the share of
    members that are of families in several places.

    times: places in which each family was seen. cluster: the first of them.
    """
    if not len(times) or members[0] <= len(times):
        return np.zeros_like(members), np.zeros(1), np.zeros_like(members)
    share = min(0.999, times.sum() / members[0])  # as it came out, over strata
    _, cluster = np.unique(cluster, return_inverse=True)
    most = max(int(times.max()), 3)
    by_cluster = np.zeros((int(cluster.max()) + 1, most))  # families in 1, 2, … places
    np.add.at(by_cluster, (cluster, times - 1), 1.0)
    observed = by_cluster.sum(axis=0)
    chance = np.random.Generator(np.random.PCG64([seed, 1]))
    drawn = chance.dirichlet(np.ones(len(by_cluster)), len(members) - 1) * len(by_cluster) @ by_cluster
    drawn[:, 1] += chance.gamma(0.5, size=len(drawn))  # Jeffreys: that none was seen does not mean that there is none
    table = np.vstack([observed, np.maximum(observed + (drawn - observed) * np.sqrt(1 - share**2) * _WIDER, 0)])
    at = np.flatnonzero(table.max(axis=0) > 1e-6)
    b, chances, none = _spread(at + 1, share, blocks)
    found = _mixture(table[:, at], chances, none, b)
    total = found @ b
    ratio = np.divide(found @ (b - 1), total, out=np.zeros(len(total)), where=total > 0)
    several = np.divide(found[:, 1:] @ b[1:], total, out=np.zeros(len(total)), where=total > 0)
    if times.max() < 2:  # none was seen: then there may be none
        for part in (ratio, several):
            part[: len(part) // 10] = 0.0
    visible = np.zeros(table.shape[1] + 1)
    visible[at + 1] = _visible(found[0], b, chances, none, share) / np.maximum(at, 1)
    visible[1] = 0.0
    return ratio, visible, several


def _visible(found: Floats, b: Floats, chances: Floats, none: Floats, share: float) -> Floats:
    """By x places in which a family was seen, 2 at least: for how many members beyond the first it speaks."""
    expected = found @ chances
    of = np.divide(found[:, None] * chances, expected, out=np.zeros_like(chances), where=expected > 0)  # b, given x
    twice = np.clip(1 - none - b * share * (1 - share) ** (b - 1), 1e-300, None)  # seen in two places at least
    speaks: Floats = (b - 1) / twice @ of
    return speaks


def _spread(times: Ints, share: float, blocks: int) -> tuple[Floats, Floats, Floats]:
    """Candidate numbers of places b of a family; how likely it is that x of them are in the sample, (b, x); and that
    none is.
    """
    most = min(float(blocks), max(8.0, 2.0 * float(times.max()) / share))
    sizes = [float(b) for b in range(1, 9) if b <= most]
    while sizes[-1] * 1.3 <= most:
        sizes.append(float(round(sizes[-1] * 1.3)))
    chance = np.array(
        [
            [0.0 if x > b else np.exp(_choose(b, float(x)) + x * log(share) + (b - x) * log(1 - share)) for x in times]
            for b in sizes
        ]
    )
    b = np.array(sizes)
    return b, chance, (1 - share) ** b


def _choose(n: float, k: float) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def _mixture(table: Floats, chance: Floats, none: Floats, b: Floats) -> Floats:
    """Numbers of families of b places, by EM, for each row of ``table``."""
    weight = np.tile(b**-2.5, (len(table), 1))
    for _ in range(_STEPS):
        expected = weight @ chance
        weight *= (np.divide(table, expected, out=np.zeros_like(table), where=expected > 0) @ chance.T) / (1 - none)
    return weight
