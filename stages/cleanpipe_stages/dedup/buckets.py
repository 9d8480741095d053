"""Documents that share a band key, found by sorting; and the components that hang together through such buckets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe.exchange import Part
from cleanpipe_stages.dedup.bands import BAND_KEYS, Layout, from_arrow
from cleanpipe_stages.dedup.hashing import Words, mix

Ints = npt.NDArray[np.int64]
_AT_ONCE = 16 << 20  # bytes of band keys read in one sweep over the parts


@dataclass(frozen=True, slots=True)
class Lists:
    """Whole numbers in lists, end to end: list i is values[starts[i] : starts[i + 1]]."""

    values: npt.NDArray[np.int32]
    starts: Ints

    def __getitem__(self, row: int) -> list[int]:
        found: list[int] = self.values[self.starts[row] : self.starts[row + 1]].tolist()
        return found


@dataclass(frozen=True, slots=True)
class Buckets:
    """Sets of two or more members that share a key; a set found in several bands is one bucket.

    members: int32, ascending in each bucket. starts: int64 of buckets + 1. bands: int32, the bands with this very set.
    """

    members: npt.NDArray[np.int32]
    starts: Ints
    bands: npt.NDArray[np.int32]

    @property
    def sizes(self) -> Ints:
        """Members of each bucket."""
        return np.diff(self.starts)


def layout_of(parts: Sequence[Part]) -> tuple[Layout | None, npt.NDArray[np.bool_]]:
    """How all keys were made (None if there is no key at all), and which documents have keys, by place.

    Raises ConfigError if the parts were signed with different options.
    """
    words: set[int] = set()
    present = [np.zeros(0, dtype=np.bool_)]
    for part in parts:
        column = part.column(BAND_KEYS)
        present.append(np.asarray(column.is_valid().to_numpy()))
        words.update(int(keys[0, 0]) for keys in map(from_arrow, column.chunks) if len(keys))
    if len(words) > 1:
        raise ConfigError("band keys of several layouts: the inputs were signed with different options")
    return (Layout.read(words.pop()) if words else None), np.concatenate(present)


def key_columns(parts: Sequence[Part], layout: Layout, present: npt.NDArray[np.bool_]) -> Iterator[Words]:
    """The keys of one band after the other, by place, 0 where there is none. Memory: a few bands at a time."""
    together = min(layout.bands, max(4, _AT_ONCE // (8 * max(1, present.size))))
    for band in range(0, layout.bands, together):
        count = min(together, layout.bands - band)
        keys = np.zeros((count, present.size), dtype=np.uint64)
        rows, done = np.flatnonzero(present), 0
        for part in parts:
            for chunk in part.column(BAND_KEYS).chunks:
                stored = from_arrow(chunk)
                if len(stored):
                    keys[:, rows[done : done + len(stored)]] = stored[:, 1 + band : 1 + band + count].T
                    done += len(stored)
        yield from keys


def collect(columns: Iterator[Words]) -> Buckets:
    """The buckets of members 0, 1, 2… from their keys, one band at a time."""
    members, sizes = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.int64)]
    prints, known = [np.zeros(0, dtype=np.uint64)], np.zeros(0, dtype=np.uint64)
    for keys in columns:
        member, starts = _band(keys)
        ends = np.append(starts[1:], member.size)
        marks = mix(member.astype(np.uint64) + np.uint64(1))
        found = np.add.reduceat(marks, starts) if starts.size else marks
        prints.append(found)
        fresh = ~np.isin(found, known)
        known = np.concatenate((known, found[fresh]))
        members.append(member[np.repeat(fresh, ends - starts)])
        sizes.append((ends - starts)[fresh])
    bounds = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(np.concatenate(sizes))))
    every, times = np.unique(np.concatenate(prints), return_counts=True)
    return Buckets(np.concatenate(members), bounds, times[np.searchsorted(every, known)].astype(np.int32))


def _band(keys: Words) -> tuple[npt.NDArray[np.int32], Ints]:
    """The members of the buckets of one band, bucket after bucket, ascending in each; and where each bucket starts."""
    order = np.argsort(keys)
    ranked = keys[order]
    same = ranked[1:] == ranked[:-1]
    inside = np.zeros(keys.size, dtype=np.bool_)
    inside[1:] |= same
    inside[:-1] |= same
    heads = np.ones(keys.size, dtype=np.bool_)
    heads[1:] = ~same
    heads = heads[inside]
    member, run = order[inside].astype(np.int32), np.cumsum(heads)
    return member[np.lexsort((member, run))], np.flatnonzero(heads)


def by_member(buckets: Buckets, count: int) -> Lists:
    """The buckets of each of ``count`` members."""
    number = np.repeat(np.arange(buckets.bands.size, dtype=np.int32), buckets.sizes)
    order = np.argsort(buckets.members, kind="stable")
    starts = np.searchsorted(buckets.members[order], np.arange(count + 1))
    return Lists(number[order], starts.astype(np.int64))


def components(buckets: Buckets, mine: Lists) -> npt.NDArray[np.int32]:
    """For each member the lowest one that it hangs together with through buckets; itself if with none."""
    label = np.arange(mine.starts.size - 1, dtype=np.int32)
    rows = np.flatnonzero(np.diff(mine.starts))
    while rows.size:
        lowest = np.minimum.reduceat(label[buckets.members], buckets.starts[:-1])
        better = label.copy()
        better[rows] = np.minimum.reduceat(lowest[mine.values], mine.starts[rows])
        better = better[better]  # a label is a member of the same component: go where it points
        if np.array_equal(better, label):
            break
        label = better
    return label


def chunks(sizes: Ints, limit: int) -> list[tuple[int, int]]:
    """Borders of runs of neighbours whose sizes sum to at most ``limit``; a larger one is alone."""
    borders, total = [0], 0
    for row, size in enumerate(sizes.tolist()):
        if total and total + size > limit:
            borders.append(row)
            total = 0
        total += size
    borders.append(len(sizes))
    return [(a, b) for a, b in pairwise(borders) if b > a]
