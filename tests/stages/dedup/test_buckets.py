"""Buckets and components against dictionaries."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe_stages.dedup.buckets import by_member, chunks, collect, components

COLUMNS = st.integers(0, 25).flatmap(
    lambda count: st.lists(st.lists(st.integers(0, 12), min_size=count, max_size=count), max_size=5)
)


def arrays(columns: list[list[int]]) -> list[np.ndarray]:
    return [np.array(column, dtype=np.uint64) for column in columns]


@settings(max_examples=200, deadline=None)
@given(COLUMNS)
def test_buckets_are_the_sets_that_share_a_key(columns: list[list[int]]) -> None:
    expected: Counter[tuple[int, ...]] = Counter()
    for column in columns:
        groups = defaultdict(list)
        for row, key in enumerate(column):
            groups[key].append(row)
        expected.update(tuple(g) for g in groups.values() if len(g) > 1)
    found = collect(iter(arrays(columns)))
    sets = [tuple(found.members[a:b].tolist()) for a, b in zip(found.starts, found.starts[1:], strict=False)]
    assert dict(zip(sets, found.bands.tolist(), strict=True)) == expected
    assert len(sets) == len(expected)

    count = len(columns[0]) if columns else 0
    mine = by_member(found, count)
    for member in range(count):
        assert [sets[b] for b in mine[member]] == [s for s in sets if member in s]

    lowest = list(range(count))
    for _ in range(count):
        for group in sets:
            least = min(lowest[i] for i in group)
            for i in group:
                lowest[i] = least
    assert components(found, mine).tolist() == lowest


def test_a_long_chain_is_one_component() -> None:
    """0-1, 2-3, … share a key in one band, 1-2, 3-4, … in the other."""
    place = np.arange(10_001)
    found = collect(iter([(place // 2).astype(np.uint64), ((place + 1) // 2).astype(np.uint64)]))
    assert not components(found, by_member(found, place.size)).any()


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(1, 40))
def test_chunks_cover_all_and_keep_the_limit(sizes: list[int], limit: int) -> None:
    runs = chunks(np.array(sizes, dtype=np.int64), limit)
    assert [i for a, b in runs for i in range(a, b)] == list(range(len(sizes)))
    assert all(sum(sizes[a:b]) <= limit or b - a == 1 or sum(sizes[a : b - 1]) == 0 for a, b in runs)
