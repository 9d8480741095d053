"""Where a sample is taken: each block as likely, the same for the same seed."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.io.inputs import Input
from cleanpipe.planning.places import LEAST_PLACES, Stratum, choose, draw


def inputs(*sizes, ending=".warc.gz"):
    return [Input(f"{n:03}{ending}", f"/nowhere/{n:03}{ending}", size, "") for n, size in enumerate(sizes)]


@given(st.text(max_size=5), st.integers(0, 500), st.integers(0, 600))
def test_a_draw_has_no_number_twice(key, population, count):
    found = draw(key, population, count)
    assert found == sorted(set(found))
    assert len(found) == min(count, population)
    assert all(0 <= n < population for n in found)
    assert found == draw(key, population, count)


def test_a_draw_of_a_vast_population_is_cheap():
    found = draw("x", 10**15, 1000)
    assert len(found) == 1000
    assert max(found) > 9 * 10**14 > 10**14 > min(found)


@pytest.mark.parametrize("count", [3, 7])  # less and more than half: two ways
def test_each_number_is_as_likely(count):
    seen = Counter(n for seed in range(4000) for n in draw(str(seed), 10, count))
    expected = 400 * count
    chi = sum((seen[n] - expected) ** 2 / expected for n in range(10))
    assert chi < 27.9  # 0.999 of chi-square with 9 degrees of freedom


def test_the_same_for_any_order_and_only_for_one_seed():
    one = inputs(10_000, 3_000_000, 40, 700_000)
    first = choose(one, seed=4, places=20, sample_bytes=200_000)
    assert first == choose(one[::-1], seed=4, places=20, sample_bytes=200_000)
    assert first != choose(one, seed=5, places=20, sample_bytes=200_000)
    assert first.block == 10_000
    assert sum(len(c.blocks) for c in first.chosen) == 20


def test_places_lie_in_their_files():
    found = choose(inputs(1, 9_999, 10_001, 1_000_000, 0), seed=1, places=50, sample_bytes=500_000)
    for one in found.chosen:
        assert all(0 <= b * found.block < one.source.size for b in one.blocks)
    assert found.strata == (Stratum("warc", 5, 1_020_001, 1 + 1 + 2 + 100 + 0),)


def test_small_inputs_are_read_whole():
    found = choose(inputs(5, 7, 0), seed=1, places=3, sample_bytes=12)
    assert found.whole
    assert [c.blocks for c in found.chosen] == [()] * 3
    assert not choose(inputs(5, 7, 1), seed=1, places=3, sample_bytes=12).whole


def test_each_kind_has_places_of_its_own():
    mixed = inputs(10**9) + inputs(10**6, ending=".warc.wet.gz") + inputs(10**6, ending=".arc.gz")
    found = choose(mixed, seed=1, places=100, sample_bytes=10**6)
    assert [(s.name, s.files) for s in found.strata] == [("arc", 1), ("warc", 1), ("wet", 1)]
    of = Counter(found.strata[c.stratum].name for c in found.chosen for _ in c.blocks)
    assert of == {"arc": LEAST_PLACES, "wet": LEAST_PLACES, "warc": 100}


def test_large_files_get_their_share():
    counts = Counter()
    for seed in range(300):
        for one in choose(inputs(100_000, 300_000), seed=seed, places=8, sample_bytes=8_000).chosen:
            counts[one.source.source] += len(one.blocks)
    assert counts["001.warc.gz"] / counts["000.warc.gz"] == pytest.approx(3, rel=0.15)
