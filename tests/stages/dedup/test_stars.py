"""The greedy walk over buckets given by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cleanpipe_stages.dedup.buckets import Buckets
from cleanpipe_stages.dedup.stars import Stars, stars


class Held(dict[int, np.ndarray]):
    """A store that has read everything."""

    def load(self, documents: Any) -> None:
        assert all(d in self for d in documents)


def walk(sets: list[set[int]], buckets: list[list[int]], *, hot: int = 64, at_once: int = 1 << 20) -> Stars:
    held = Held({i: np.array(sorted(s), dtype=np.uint64) for i, s in enumerate(sets)})
    made = Buckets(
        np.array([m for b in buckets for m in b], dtype=np.int32),
        np.cumsum([0, *map(len, buckets)]),
        np.ones(len(buckets), dtype=np.int32),
    )
    sizes = np.array([len(s) for s in sets], dtype=np.int64)
    return stars(made, sizes, held, threshold=0.85, hot=hot, at_once=at_once)  # type: ignore[arg-type]


def some(start: int) -> set[int]:
    return set(range(start, start + 100))


@pytest.mark.parametrize(
    ("near_to", "hot", "keeper"),
    [
        (0, 3, 0),
        (1, 3, 1),
        (2, 3, 2),
        (0, 2, -1),  # the earliest was pushed out
        (1, 2, 1),
        (2, 2, 2),
        (1, 1, -1),
        (2, 1, 2),
    ],
)
def test_a_bucket_offers_the_last_kept(near_to: int, hot: int, keeper: int) -> None:
    """Three unlike documents and a copy of one, all in one bucket."""
    sets = [some(0), some(1000), some(2000), some(1000 * near_to)]
    found = walk(sets, [[0, 1, 2, 3]], hot=hot)
    assert found.keeper.tolist() == [-1, -1, -1, keeper]
    expected = max(0, 3 - hot) + (keeper == -1)  # one that is kept pushes out too
    assert found.tally.pushed_out == expected


def test_only_those_in_a_bucket_are_compared() -> None:
    found = walk([some(0), some(0), some(0)], [[0, 2]])
    assert found.keeper.tolist() == [-1, -1, 0]
    assert found.jaccard[2] == 1.0
    assert np.isnan(found.jaccard[:2]).all()
    assert sum(found.tally.verified.values()) == 1


def test_one_that_goes_stands_for_no_other() -> None:
    """0-1 and 1-2 are near, 0-2 are not: with 1 gone, 2 stays."""
    found = walk([some(0), some(5), some(10)], [[0, 1, 2]])
    assert found.keeper.tolist() == [-1, 0, -1]
    assert found.jaccard[1] == round(95 / 105, 6)


def test_components_and_batches_do_not_mix() -> None:
    """Two components whose documents alternate, read one document at a time."""
    sets = [some(0), some(1000), some(1), some(1001), some(2), some(1002)]
    buckets = [[0, 2], [1, 3], [2, 4], [0, 4], [1, 5], [3, 5]]
    for at_once in (1, 800, 1700, 1 << 20):
        found = walk(sets, buckets, at_once=at_once)
        assert found.keeper.tolist() == [-1, -1, 0, 1, 0, 1]


def test_sizes_rule_out_without_reading() -> None:
    found = walk([set(range(100)), set(range(84)), set(range(85))], [[0, 1, 2]])
    assert found.keeper.tolist() == [-1, -1, 0]
    assert found.tally.ruled_out == 1
    assert found.tally.verified == {85: 1}


def test_bands_in_common_are_counted_with_their_weight() -> None:
    held = Held({i: np.arange(100, dtype=np.uint64) for i in range(2)})
    made = Buckets(np.array([0, 1], np.int32), np.array([0, 2]), np.array([7], np.int32))
    found = stars(made, np.array([100, 100]), held, threshold=0.85, hot=4, at_once=1)  # type: ignore[arg-type]
    assert found.tally.bands == {100: 7}
