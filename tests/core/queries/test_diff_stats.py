"""Figures worked out by hand, from tables, or by brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.queries.diff_stats import (
    Spread,
    between,
    discoveries,
    movement,
    normal_of,
    psi,
    psi_floor,
    simple,
    student,
)

# the 15 p-values of Benjamini and Hochberg's paper (1995, section 4.1): at .05 four are believed
PS = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.324, 0.4262, 0.5719, 0.6528, 0.759, 1.0]


def test_discoveries_are_those_of_the_paper():
    assert discoveries(PS, 0.05) == [True] * 4 + [False] * 11
    assert discoveries(PS[::-1], 0.05) == [False] * 11 + [True] * 4  # in any order
    assert discoveries([], 0.05) == []
    assert discoveries([0.02, 0.02, 0.02], 0.05) == [True] * 3  # ties go together
    assert discoveries([0.5], 0.05) == [False]


@pytest.mark.parametrize(("freedom", "table"), [(3, 3.182), (5, 2.571), (10, 2.228), (30, 2.042), (math.inf, 1.960)])
def test_students_t(freedom, table):
    assert student(0.95, freedom) == pytest.approx(table, abs=0.04)
    assert normal_of(table, freedom) == pytest.approx(1.96, abs=0.02)


def test_psi_by_hand():
    # counts are raised by .5: p = .5, .5; q = 80.5/101, 20.5/101 = .797030, .202970
    # (.297030)(ln 1.594059 = .466284) + (-.297030)(ln .405941 = -.901548) = .138500 + .267787
    index, parts = psi(np.array([50.0, 50.0]), np.array([80.0, 20.0]))
    assert index == pytest.approx(0.406287, abs=1e-5)
    assert parts == pytest.approx([0.138500, 0.267787], abs=1e-5)
    assert psi(np.array([7.0, 3.0]), np.array([7.0, 3.0]))[0] == 0
    a, b = np.array([5.0, 0.0, 9.0]), np.array([1.0, 7.0, 3.0])
    assert psi(a, b)[0] == pytest.approx(psi(b, a)[0])  # whichever comes first


def test_simple_variance_knows_documents_that_are_in_both():
    # p = 45/150 = .3; pq = .21; 1/100 + 1/50 = .03; all of B in A: less 2·50/5000 = .02
    assert simple((30, 100), (15, 50), 0) == pytest.approx(0.21 * 0.03)
    assert simple((30, 100), (15, 50), 50) == pytest.approx(0.21 * 0.01)
    assert simple((30, 100), (30, 100), 100) == 0


def test_between_is_what_leaving_each_cluster_out_gives():
    rng = np.random.default_rng(3)
    xa, xb = rng.integers(1, 20, 12).astype(float), rng.integers(1, 20, 12).astype(float)
    ya, yb = np.floor(xa * rng.random(12)), np.floor(xb * rng.random(12))
    whole = yb.sum() / xb.sum() - ya.sum() / xa.sum()
    changes = []
    for left_out in range(12):
        keep = np.arange(12) != left_out
        changes.append(yb[keep].sum() / xb[keep].sum() - ya[keep].sum() / xa[keep].sum() - whole)
    found = between(ya, xa, yb, xb)
    assert found.difference == pytest.approx(whole)
    assert found.variance == pytest.approx(sum(c**2 for c in changes))


def test_between_says_when_nothing_can_be_told():
    one, none = np.array([5.0, 0.0]), np.array([0.0, 7.0])
    assert between(one, one, one, one) is None  # both of one and the same host: its documents are the sample
    assert between(one, one, none, none).variance == math.inf  # of two hosts, one each
    found = movement((5, 5), (0, 7), 0, [between(one, one, none * 0, none)], 1.0)
    assert (found.p, found.low, found.high) == (1.0, -1.0, 1.0)


def test_a_host_that_is_alike_in_both_is_no_spread():
    x = np.array([900.0, 50, 50, 50, 50])
    y = np.array([890.0, 5, 6, 4, 5])  # the large one is unlike the others, in both runs alike
    alone = between(y, x, np.array([889.0, 5, 5, 5, 5]), x)
    apart = between(y, x, np.array([0.0, 5, 5, 5, 5]), np.array([0.0, 50, 50, 50, 50]))
    assert alone.variance < apart.variance / 100


def test_where_one_host_decides_nothing_is_claimed():
    """60 hosts: 59 of 100 documents lose a tenth, and one of 3,000 loses everything: 37 points, but of one host."""
    x = np.full(60, 100.0)
    rng = np.random.default_rng(4)
    ya, yb = rng.binomial(100, 0.5, 60).astype(float), rng.binomial(100, 0.4, 60).astype(float)
    x[0], ya[0], yb[0] = 3000, 2700, 0
    sizes = float(x.sum())
    found = movement((ya.sum(), sizes), (yb.sum(), sizes), 0, [between(ya, x, yb, x)], 1.0)
    assert found.difference < -0.3
    assert found.p > 0.05
    assert found.low < 0 < found.high
    rest = slice(1, None)
    found = movement(
        (ya[rest].sum(), 5900.0), (yb[rest].sum(), 5900.0), 0, [between(ya[rest], x[rest], yb[rest], x[rest])], 1.0
    )
    assert found.p < 1e-6  # without it the others are sure
    assert found.high < 0


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 300), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12
    ),
    st.integers(1, 2),
)
def test_the_interval_says_what_the_test_says(clusters, kinds):
    """Whatever the clusters: p below .05 has an interval without 0; and one that holds 0 has none such."""
    xa, xb, a, b = np.array(clusters, float).T
    if not xa.any() or not xb.any():
        return
    ya, yb = np.round(xa * a), np.round(xb * b)
    spread = between(ya, xa, yb, xb)
    spreads = [spread, Spread(spread.difference, spread.variance * 2, 1.0)][:kinds] if spread else []
    found = movement((ya.sum(), xa.sum()), (yb.sum(), xb.sum()), 0, spreads, 3.0)
    assert found.low <= found.difference <= found.high
    if found.p < 0.05:
        assert not found.low <= 0 <= found.high


def test_few_clusters_take_students_t():
    """Three hosts on each side, one way in A and one way in B: 4 degrees of freedom at most, t 2.776, not 1.96."""
    x, none = np.full(3, 100.0), np.zeros(3)
    ya, yb = np.array([50.0, 60, 70]), np.array([60.0, 70, 80])
    spread = between(np.append(ya, none), np.append(x, none), np.append(none, yb), np.append(none, x))
    # each side: s of the mean by leaving one out, Σ(.05)² + 0 + (.05)² = .005; both .01; c are 4 × .05
    assert spread.variance == pytest.approx(0.01)
    assert spread.freedom == 4  # 3·(.01)²/(4·.05⁴) = 12, but 6 clusters − 2
    found = movement((180, 300), (210, 300), 0, [spread], 1.0)
    assert (found.low, found.high) == pytest.approx((0.1 - 2.776 * 0.1, 0.1 + 2.776 * 0.1), abs=0.003)


def test_movement_of_independent_documents_is_the_two_proportion_test():
    # 100 of 1,000 against 150 of 1,000: p = .125, s = √(.125·.875·.002) = .014790; |d| less 1/1000: z = 3.313
    found = movement((100, 1000), (150, 1000), 0, [], 1.0)
    assert found.difference == pytest.approx(0.05)
    assert found.p == pytest.approx(0.000923, rel=0.01)
    assert (found.low, found.high) == pytest.approx((0.05 - 1.96 * 0.01479, 0.05 + 1.96 * 0.01479), abs=1e-4)
    assert movement((0, 10), (0, 10), 0, [], 1.0).p == 1
    assert movement((5, 10), (6, 10), 10, [], 1.0).p == 0  # the same documents: a difference is one


def _shares(rng, chance_floor, clustered):
    """How often PSI passes its floor between samples of one population."""
    passed, tries, bins = 0, 400, 6
    for _ in range(tries):
        hosts = 60
        mixes = rng.dirichlet([3.0] * bins, hosts) if clustered else np.full((hosts, bins), 1 / bins)
        one, other = (np.array([rng.multinomial(20, m) for m in mixes[part]]) for part in (slice(0, 30), slice(30, 60)))
        none = np.zeros_like(one)
        clusters = [(np.vstack([one, none]).astype(float), np.vstack([none, other]).astype(float))]
        a, b = one.sum(0).astype(float), other.sum(0).astype(float)
        passed += psi(a, b)[0] > psi_floor(a, b, 0, clusters, chance_floor)
    return passed / tries


@pytest.mark.parametrize("clustered", [False, True])
def test_psi_passes_its_floor_as_often_as_it_says(clustered):
    # 5 % are asked for; 400 tries have a standard error of 1.1 points, and the floor may be on the safe side
    assert _shares(np.random.default_rng(11), 0.05, clustered) <= 0.08


def test_psi_floor_of_independent_documents_is_chi_squared():
    # χ² of 9 degrees of freedom is passed by 21.67 with a chance of .01; (1/1000 + 1/1000)
    a = np.full(10, 100.0)
    assert psi_floor(a, a, 0, [], 0.01) == pytest.approx(0.002 * 21.67, rel=0.01)
    assert psi_floor(a, a, 1000, [], 0.01) == 0  # the same documents
    one = np.zeros((2, 10))
    one[0] = 100
    assert psi_floor(a, a, 0, [(one, one[::-1])], 0.01) == math.inf  # one host each
