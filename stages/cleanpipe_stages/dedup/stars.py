"""Greedy star clusters: in order, a document goes if one that is kept is within the threshold; else it is kept.

The kept one that stands for it is the first in the order, so each star is what it would be if every kept document in
turn took all that are near to it and not yet taken. Candidates are looked at lazily: only kept ones, and no further
than the first that is near enough.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.dedup.buckets import Buckets, Lists, by_member, chunks, components
from cleanpipe_stages.dedup.verify import SetStore, shared

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class Tally:
    """What was compared. verified: pairs by hundredths of their Jaccard index; bands: bands they shared, likewise."""

    candidates: int = 0
    ruled_out: int = 0
    pushed_out: int = 0
    verified: Counter[int] = field(default_factory=Counter)
    bands: Counter[int] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Stars:
    """keeper: int32 of n, the document that stands for each one that goes, else -1. jaccard: float64, else NaN.
    component: int32 of n, the first document that each one hangs together with through shared keys; -1 where none.
    """

    keeper: npt.NDArray[np.int32]
    jaccard: npt.NDArray[np.float64]
    component: npt.NDArray[np.int32]
    tally: Tally


def stars(buckets: Buckets, sizes: Ints, sets: SetStore, *, threshold: float, hot: int, at_once: int) -> Stars:
    """The stars of documents 0, 1, 2… (numbered by the order) among those that share a bucket.

    buckets: who shares keys with whom. sizes: shingles of each document. sets: where their shingles are read.
    threshold: least Jaccard index, rounded to 6 decimals, at which a document goes. at_once: bytes of shingles read
    ahead. hot: kept documents that one bucket offers for comparison. Where more are kept, the earliest (longest) are
    pushed out, as they are the least like what is still to come; so a bucket of n costs n * hot, never n * n.
    """
    count = sizes.size
    mine = by_member(buckets, count)
    label = components(buckets, mine)
    rows = np.flatnonzero(np.diff(mine.starts))
    rows = rows[np.argsort(label[rows], kind="stable")]  # component by component, each in order: sets are read once
    walk = _Walk(buckets, mine, sizes, sets, threshold, hot, count)
    for first, last in chunks(8 * sizes[rows], at_once):
        batch = rows[first:last].tolist()
        sets.load(batch)
        sets.load(walk.needed(batch, at_once))
        for document, component in zip(batch, label[rows[first:last]].tolist(), strict=True):
            walk.visit(document, component)
    return Stars(walk.keeper, walk.jaccard, np.where(np.diff(mine.starts) > 0, label, -1).astype(np.int32), walk.tally)


class _Walk:
    def __init__(
        self, buckets: Buckets, mine: Lists, sizes: Ints, sets: SetStore, threshold: float, hot: int, count: int
    ) -> None:
        self._bands, self._mine, self._sizes, self._sets = buckets.bands, mine, sizes, sets
        self._threshold, self._hot = threshold, hot
        self._kept: dict[int, list[int]] = {}  # of the component at hand
        self._component = -1
        self.keeper = np.full(count, -1, dtype=np.int32)
        self.jaccard = np.full(count, np.nan)
        self.tally = Tally()

    def _candidates(self, document: int) -> list[int]:
        kept = self._kept
        return sorted({other for bucket in self._mine[document] if bucket in kept for other in kept[bucket]})

    def needed(self, batch: list[int], limit: int) -> list[int]:
        """Kept documents of earlier batches that this one will be compared with, as far as they fit."""
        found = sorted({other for document in batch for other in self._candidates(document)})
        total = np.cumsum([8 * int(self._sizes[other]) for other in found])
        return found[: int(np.searchsorted(total, limit, side="right"))]

    def visit(self, document: int, component: int) -> None:
        """Decide on one document; all before it in its component are decided, and no other begun before is open."""
        if component != self._component:
            self._kept.clear()
            self._component = component
        tally, size = self.tally, int(self._sizes[document])
        for other in self._candidates(document):
            tally.candidates += 1
            theirs = int(self._sizes[other])
            if _index(min(size, theirs), max(size, theirs)) < self._threshold:
                tally.ruled_out += 1  # even the smaller set inside the larger one would not do
                continue
            both = shared(self._sets[document], self._sets[other])
            union = size + theirs - both
            hundredth = 100 * both // union
            tally.verified[hundredth] += 1
            tally.bands[hundredth] += self._shared_bands(document, other)
            jaccard = _index(both, union)
            if jaccard >= self._threshold:
                self.keeper[document], self.jaccard[document] = other, jaccard
                return
        for bucket in self._mine[document]:
            kept = self._kept.setdefault(bucket, [])
            if len(kept) == self._hot:
                tally.pushed_out += 1
                del kept[0]
            kept.append(document)

    def _shared_bands(self, one: int, other: int) -> int:
        return sum(int(self._bands[b]) for b in set(self._mine[one]).intersection(self._mine[other]))


def _index(both: int, union: int) -> float:
    return round(both / union, 6)
