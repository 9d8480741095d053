"""Mixing by arithmetic: shares are exact, nothing is lost or repeated, and any sequence is found without the others."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.reading.mixing import Mixture, integer_weights

WEIGHTS = st.lists(st.integers(0, 50), min_size=1, max_size=9).filter(any)


def numbers(count, start=0):
    return np.arange(start, start + count, dtype=np.int64)


@given(WEIGHTS)
@settings(max_examples=150, deadline=None)
def test_each_store_gives_its_share_in_its_own_order(weights):
    mixture = Mixture(weights)
    source, count = mixture.split(numbers(600))
    levels = max(1, math.ceil(math.log2(len(weights))))
    seen = [0] * len(weights)
    for g, (s, c) in enumerate(zip(source.tolist(), count.tolist(), strict=True)):
        assert c == seen[s]  # 0, 1, 2 … of each: none lost, none twice
        seen[s] += 1
        for at, weight in enumerate(weights):
            assert abs(seen[at] - (g + 1) * weight / sum(weights)) < levels + 1e-9
        if g % 97 == 0:
            assert list(mixture.counts(g + 1)) == seen


@given(WEIGHTS, st.integers(0, 10**15))
@settings(max_examples=100, deadline=None)
def test_far_sequences_are_found_as_near_ones(weights, start):
    mixture = Mixture(weights)
    source, count = mixture.split(numbers(40, start))
    before = list(mixture.counts(start))
    for g, (s, c) in enumerate(zip(source.tolist(), count.tolist(), strict=True)):
        assert c == before[s]
        assert mixture.nth(s, c) == start + g
        before[s] += 1
    assert list(mixture.counts(start + 40)) == before


def test_a_whole_round_gives_exactly_the_weights():
    weights = (3, 1, 0, 7, 2)
    assert Mixture(weights).counts(13) == weights
    assert Mixture(weights).counts(13 * 10**11) == tuple(w * 10**11 for w in weights)


def test_two_halves_take_turns():
    assert Mixture([1, 1]).split(numbers(6))[0].tolist() == [1, 0, 1, 0, 1, 0]
    assert Mixture([2, 1]).split(numbers(6))[0].tolist() == [1, 0, 0, 1, 0, 0]


def test_weights_beyond_32_bits_are_exact():
    mixture = Mixture((10**12 + 1, 7, 10**12))
    assert mixture.counts(2 * 10**12 + 8) == (10**12 + 1, 7, 10**12)
    source, count = mixture.split(numbers(10, 10**12))
    assert [mixture.nth(s, c) for s, c in zip(source.tolist(), count.tolist(), strict=True)] == list(
        range(10**12, 10**12 + 10)
    )


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ((2, 4), (1, 2)),
        ((0.1, 0.2, 0.7), (1, 2, 7)),
        ((0.5, 1), (1, 2)),
        ((0, 3), (0, 1)),
        ((1e-3, 1.0), (1, 1000)),
        ((np.float32(0.5), np.int64(1)), (1, 2)),
    ],
)
def test_decimals_become_the_smallest_integers(given_, expected):
    assert integer_weights(given_) == expected


@pytest.mark.parametrize(
    "weights",
    [
        [0, 0],
        [],
        [0.0],
        [-1, 2],
        [float("nan"), 1],
        [float("inf"), 1],
        [-0.5],
        [True, False],
        ["1", 2],
        [None, 1],
        [1j],
    ],
)
def test_weights_that_mean_nothing_are_refused(weights):
    with pytest.raises(ConfigError, match="weight"):
        Mixture(weights)


def test_changed_weights_hold_from_their_sequence_on_and_lose_nothing():
    plain, changed = Mixture([1, 3]), Mixture([1, 3], [(1001, [1, 1]), (2000, [0, 1])])
    source, count = changed.split(numbers(3000))
    assert source[:1001].tolist() == plain.split(numbers(1001))[0].tolist()
    for s in (0, 1):
        assert count[source == s].tolist() == list(range(int((source == s).sum())))
    assert abs(int((source[1001:2000] == 0).sum()) - 999 / 2) <= 1
    assert (source[2000:] == 1).all()
    assert changed.counts(3000) == (int((source == 0).sum()), int((source == 1).sum()))
    assert changed.nth(1, int(count[2500])) == 2500
    with pytest.raises(ValueError, match="no"):
        changed.nth(0, 10**6)


@pytest.mark.parametrize("changes", [[(0, [1, 1])], [(5, [1, 1]), (5, [2, 1])], [(5, [1])], [(5, [0, 0])]])
def test_changes_that_mean_nothing_are_refused(changes):
    with pytest.raises(ConfigError):
        Mixture([1, 2], changes)


def test_a_version_knows_only_what_was_read():
    one, two = Mixture([1, 3]), Mixture([1, 3], [(100, [1, 1])])
    assert one.version(0) == two.version(0)
    assert one.version(100) == two.version(100)  # sequence 99 was the last one read
    assert one.version(101) != two.version(101)
    assert one.version(0) != Mixture([1, 4]).version(0)
    assert Mixture([2, 6]).version(5) == one.version(5)
