"""How many copies a sample speaks for: populations of known families, sampled as places are, many times."""

import numpy as np
import pytest

from cleanpipe.planning.families import duplicates
from cleanpipe.planning.intervals import interval, rare, weigh
from cleanpipe.planning.reading import Place
from cleanpipe.planning.trial import Met


def population(sizes, seed, blocks):
    """Family and block of each document: families of these sizes, spread evenly."""
    chance = np.random.Generator(np.random.PCG64(seed))
    family = np.repeat(np.arange(len(sizes)), sizes)
    chance.shuffle(family)
    return family, np.sort(chance.integers(0, blocks, len(family)))


def sampled(family, block, blocks, count, seed, lengths=None):
    """What a sample of ``count`` blocks shows: the first of a family stands for the others."""
    chosen = np.sort(np.random.Generator(np.random.PCG64([seed, 7])).choice(blocks, count, replace=False))
    rows = np.flatnonzero(np.isin(block, chosen))
    first: dict[int, int] = {}
    keeper = np.array([first.setdefault(int(f), i) for i, f in enumerate(family[rows])], np.int64)
    place = np.searchsorted(chosen, block[rows])
    text = np.full(len(rows), 1000) if lengths is None else lengths[family[rows]]
    reason = np.where(keeper != np.arange(len(rows)), 0, -1)
    places = [Place(0, 100, 100, read=True) for _ in range(count)]
    weights = weigh(places, [100 * blocks], seed=seed, whole=count == blocks)
    return Met(place, text, keeper, reason, (("dropped", "x", "y"),)), weights


MIXES = {  # sizes of families, blocks, of which are read
    "pairs": ([1] * 3000 + [2] * 1500, 400, 60),
    "threes": ([1] * 3000 + [3] * 1000, 400, 60),
    "many sizes": ([1] * 3000 + [2] * 500 + [3] * 200 + [5] * 100 + [20] * 20, 400, 60),
    "a few large ones": ([1] * 4000 + [300] * 4, 400, 40),
    "none": ([1] * 6000, 400, 60),
    "half is read": ([1] * 2000 + [2] * 1000, 100, 50),
}


@pytest.mark.parametrize("name", MIXES)
def test_the_interval_covers_what_is_there(name):
    sizes, blocks, count = MIXES[name]
    family, block = population(sizes, 1, blocks)
    truth = len(family) - len(sizes)
    covered, estimates = 0, []
    for seed in range(30):
        met, weights = sampled(family, block, blocks, count, seed)
        found = interval(duplicates(met, weights, blocks=blocks, seed=seed).documents)
        covered += found.low <= truth <= found.high
        estimates.append(found.estimate)
    assert covered >= 24  # of 30 with 90 %: fewer than 24 in one of 50 such tests
    assert np.mean(estimates) == pytest.approx(truth, rel=0.15, abs=60)


def test_copies_beside_each_other_count_once_for_each_place():
    """A site's copies that lie together are seen whole, not as the square of the share."""
    blocks = 300
    family = np.repeat(np.arange(1000), 3)  # each three times in a row
    block = np.repeat(np.sort(np.random.Generator(np.random.PCG64(1)).integers(0, blocks, 1000)), 3)
    covered, estimates = 0, []
    for seed in range(20):
        met, weights = sampled(family, block, blocks, 30, seed)
        found = interval(duplicates(met, weights, blocks=blocks, seed=seed).documents)
        covered += found.low <= 2000 <= found.high
        estimates.append(found.estimate)
    assert covered >= 15
    assert np.mean(estimates) == pytest.approx(2000, rel=0.12)


COPIED = {  # blocks whose documents come again in so many files, of which so many blocks are read; least that cover
    "24 times, one in eleven": (60, 24, 130, 24),
    "24 times, one in 24": (60, 24, 60, 20),
    "three times": (400, 3, 100, 23),
    "twice": (400, 2, 160, 24),
}


@pytest.mark.parametrize("name", COPIED)
def test_files_that_were_copied_whole(name):
    """Their families come and go together: the interval of what is left covers it, and is never of nothing."""
    blocks, copies, count, least = COPIED[name]
    family = np.tile(np.arange(blocks * 5), copies)
    block = np.concatenate([np.repeat(np.arange(blocks), 5) + blocks * n for n in range(copies)])
    covered = 0
    for seed in range(30):
        met, weights = sampled(family, block, blocks * copies, count, seed)
        told = duplicates(met, weights, blocks=blocks * copies, seed=seed)
        left = interval(told.survivors)
        covered += left.low <= blocks * 5 <= left.high
        assert left.low > blocks
        text = told.met_text - told.text  # all texts are of 1,000 bytes: each draw tells both alike
        assert text == pytest.approx(told.survivors * 1000, rel=0.3)
    assert covered >= least


def test_the_text_of_copies_is_their_own():
    lengths = np.array([4000] * 3000 + [1000] * 1500)  # copies are short pages
    family, block = population([1] * 3000 + [2] * 1500, 2, 200)
    texts = [duplicates(*sampled(family, block, 200, 60, s, lengths), blocks=200, seed=s).text[0] for s in range(10)]
    assert np.mean(texts) == pytest.approx(1500 * 1000, rel=0.2)


def test_all_read_is_exact():
    family, block = population([1] * 50 + [2] * 20 + [7] * 3, 3, 10)
    met, weights = sampled(family, block, 10, 10, 0)
    found = duplicates(met, weights, blocks=10, seed=0)
    assert set(found.documents) == {20 + 3 * 6}
    assert set(found.met) == {50 + 40 + 21}
    assert set(found.text) == {1000.0 * 38}


def test_no_document_and_no_copy():
    met, weights = sampled(np.zeros(0, int), np.zeros(0, int), 10, 4, 0)
    found = duplicates(met, weights, blocks=10, seed=0)
    assert not found.documents.any()
    family, block = population([1] * 200, 3, 1000)
    met, weights = sampled(family, block, 1000, 20, 0)
    found = interval(duplicates(met, weights, blocks=1000, seed=0).documents)
    assert (found.estimate, found.low) == (0, 0)
    assert found.high > 20  # that none of four documents has a copy says little of two hundred


# --- intervals --------------------------------------------------------------------------------------------------------


def places_of(y, x, read=True):
    return [Place(0, int(n), int(n), read=read) for n in x], np.array(y, float)


def test_an_estimate_is_per_byte_of_what_was_read():
    places, y = places_of([1, 2, 3], [100, 100, 200])
    weights = weigh(places, [4000], seed=1, whole=False)
    assert weights.totals(y)[0] == pytest.approx(6 / 400 * 4000)
    assert weights.share == pytest.approx(0.1)


def test_strata_add_up_and_what_was_not_read_is_as_the_others():
    places = [Place(0, 10, 10, read=True), Place(1, 10, 10, read=True), Place(0, 0, 10, read=False)]
    weights = weigh(places, [100, 300], seed=1, whole=False)
    assert weights.totals(np.array([1.0, 2.0, 50.0]))[0] == pytest.approx(10 + 60)
    weights = weigh([*places[:1], Place(1, 10, 10, read=False)], [100, 300], seed=1, whole=False)
    assert weights.totals(np.array([1.0, 2.0]))[0] == pytest.approx(40)


def test_the_interval_of_a_total_covers_it():
    chance = np.random.Generator(np.random.PCG64(5))
    y = chance.gamma(0.5, 20, 2000)  # a heavy tail
    covered = 0
    for seed in range(100):
        at = chance.choice(2000, 40, replace=False)
        weights = weigh(places_of(y[at], np.full(40, 10))[0], [20_000], seed=seed, whole=False)
        found = interval(weights.totals(y[at]))
        covered += found.low <= y.sum() <= found.high
    assert 82 <= covered <= 98


def test_all_read_leaves_no_chance():
    places, y = places_of([1, 2, 3], [100, 100, 200])
    found = interval(weigh(places, [400], seed=1, whole=False).totals(y))
    assert (found.low, found.high) == (pytest.approx(6), pytest.approx(6))


def test_few_seen_is_no_tighter_than_poisson():
    places, y = places_of([1] + [0] * 99, [10] * 100)
    weights = weigh(places, [100_000], seed=1, whole=False)
    found = rare(weights.totals(y), 1, weights.share, least=1)
    assert found.estimate == pytest.approx(100)
    assert found.low <= 10
    assert found.high > 400  # one seen: up to 4.7 were as likely as one in ten
    assert rare(np.array([7.0, 7.0]), 7, 1.0).high == 7
