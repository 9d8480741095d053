"""The order of sequences: one to one, its own inverse's inverse, and the same in every version."""

import hashlib
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.tokens.reading.feistel import Blocks, Key, permute, unpermute

MASK = (1 << 64) - 1
FROZEN_TEN = [0, 7, 5, 1, 8, 4, 6, 2, 9, 3]
FROZEN_FAR = [181859136883, 161017514826, 360955710170, 54062066592]
FROZEN_OTHER = [466, 635, 450]
FROZEN_BLOCKS = [2, 1, 7, 5, 0, 6, 4, 3, 10, 8, 11, 9, 13, 12, 17, 16, 15, 14]


def in_full(n, key):
    return permute(np.arange(n, dtype=np.int64), n, key)


def plainly(place, n, key):
    """The same in Python's own numbers, from the description alone."""
    bits = max(1, (n - 1).bit_length())
    low_bits = bits - bits // 2
    while True:
        low, high = place & ((1 << low_bits) - 1), place >> low_bits
        for at, one in enumerate(key.rounds):
            z = ((high if at % 2 == 0 else low) + one) & MASK
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            z ^= z >> 31
            if at % 2 == 0:
                low ^= z & ((1 << low_bits) - 1)
            else:
                high ^= z & ((1 << bits // 2) - 1)
        place = high << low_bits | low
        if place < n:
            return place


def test_every_n_up_to_two_thousand_is_one_to_one_in_full():
    key = Key.of(7, 0, 0)
    for n in range(1, 2001):
        out = in_full(n, key)
        assert np.array_equal(np.sort(out), np.arange(n)), n
        assert np.array_equal(unpermute(out, n, key), np.arange(n)), n


def test_fifty_random_n_up_to_a_million_are_one_to_one_in_full():
    draw = random.Random(5)
    for n in [draw.randrange(1, 10**6 + 1) for _ in range(49)] + [10**6]:
        out = in_full(n, Key.of(draw.randrange(1 << 60), 0, 3))
        assert np.array_equal(np.bincount(out, minlength=n), np.ones(n)), n


@pytest.mark.parametrize("n", [10**12, (1 << 40) + 1, (1 << 62) - 1, 1 << 62])
def test_the_inverse_undoes_it_at_places_of_a_huge_n(n):
    key = Key.of(3, 1, 4)
    places = np.array([0, 1, n // 2, n - 2, n - 1, *(random.Random(1).randrange(n) for _ in range(5000))], np.int64)
    out = permute(places, n, key)
    assert 0 <= out.min() <= out.max() < n
    assert np.array_equal(unpermute(out, n, key), places)
    assert np.array_equal(permute(unpermute(places, n, key), n, key), places)
    assert len(np.unique(out)) == len(np.unique(places))


def test_the_order_is_a_promise_between_versions():
    """Frozen: if this fails, states of older versions find other sequences. Raise ``plan.ORDER`` or mend the code."""
    key = Key.of(0, 0, 0)
    assert key.rounds[0] == int.from_bytes(hashlib.sha512(b"cleanpipe-order:0:0:0").digest()[:8], "little")
    assert in_full(10, key).tolist() == FROZEN_TEN
    assert permute(np.array([0, 1, 10**9, 10**12 - 1]), 10**12, key).tolist() == FROZEN_FAR
    assert permute(np.array([0, 1, 2]), 1000, Key.of(1, 2, 3)).tolist() == FROZEN_OTHER
    assert Blocks(4, 2).permute(np.arange(18), 18, key).tolist() == FROZEN_BLOCKS


def test_numpy_and_the_description_agree():
    draw = random.Random(9)
    for n in [1, 2, 3, 5, 64, 65, 1000, 10**6 + 3, 10**12, 1 << 62]:
        key = Key.of(n, 1)
        places = [draw.randrange(n) for _ in range(50)]
        assert permute(np.array(places, np.int64), n, key).tolist() == [plainly(p, n, key) for p in places]


def test_seed_source_and_epoch_each_give_another_order():
    orders = {tuple(in_full(50, Key.of(*parts))) for parts in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (10, 0, 0)]}
    assert len(orders) == 5
    assert Key.of(1, 11, 1) != Key.of(11, 1, 1)


def test_places_are_spread_as_chance_would():
    """Of 64 × 64 cells (place, image) of n = 2^16 + 1, each within six standard deviations of its mean, 16."""
    n = (1 << 16) + 1
    out = in_full(n, Key.of(2, 0, 0))
    cells = np.histogram2d(np.arange(n), out, bins=64)[0]
    assert np.abs(cells - n / 4096).max() < 6 * 4
    assert abs(int((out == np.arange(n)).sum()) - 1) < 8  # fixed points: one on average
    assert abs(np.corrcoef(np.arange(n), out)[0, 1]) < 0.02
    assert (np.diff(out) == 1).sum() < 10  # neighbours do not stay neighbours


@pytest.mark.parametrize("bad", [-1, 10])
def test_a_place_beyond_n_is_refused(bad):
    with pytest.raises(ValueError, match="not within"):
        permute(np.array([bad]), 10, Key.of(0))
    with pytest.raises(ValueError, match="not within"):
        permute(np.array([0]), 0, Key.of(0))


@given(st.integers(1, 700), st.integers(1, 40), st.integers(1, 8), st.integers(0, 9))
@settings(max_examples=150, deadline=None)
def test_blocks_are_one_to_one_and_undone(n, block, window, seed):
    blocks, key = Blocks(block, window), Key.of(seed, 0, 0)
    places = np.arange(n, dtype=np.int64)
    out = blocks.permute(places, n, key)
    assert np.array_equal(np.sort(out), places)
    assert np.array_equal(blocks.unpermute(out, n, key), places)
    one = [int(blocks.permute(places[i : i + 1], n, key)[0]) for i in range(0, n, 37)]
    assert one == out[::37].tolist()


def test_what_is_read_at_one_time_comes_from_few_blocks():
    n, blocks = 100_000, Blocks(256, 8)
    out = blocks.permute(np.arange(n), n, Key.of(1, 0, 0))
    for begin in range(0, n - 2048, 2048):
        assert len(np.unique(out[begin : begin + 2048] // 256)) <= 9
    assert len(np.unique(out[:64] // 256)) >= 7  # and not from one after the other
    assert np.abs(np.diff(out[::2048] // 256)).mean() > 50  # windows come from everywhere
