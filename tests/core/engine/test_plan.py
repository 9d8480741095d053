"""Units of a run: borders by size alone, made when asked for."""

import pytest

from cleanpipe.engine.plan import UnitPlan
from cleanpipe.io.inputs import Input
from cleanpipe.io.record import Span


def gz(name, size):
    return Input(name, f"/x/{name}", size, "s")


def test_gzip_archives_are_cut_and_the_rest_is_whole():
    plan = UnitPlan([gz("a.warc.gz", 250), gz("b.warc", 900), gz("c.warc.zst", 900), gz("d.warc.gz", 100)], 100)
    spans = [(u.source.source, u.span and (u.span.begin, u.span.end)) for u in plan]
    assert spans == [
        ("a.warc.gz", (0, 100)),
        ("a.warc.gz", (100, 200)),
        ("a.warc.gz", (200, 250)),
        ("b.warc", None),
        ("c.warc.zst", None),
        ("d.warc.gz", None),  # exactly one unit
    ]
    assert [u.number for u in plan] == list(range(6))
    assert [plan.input_of(n) for n in range(6)] == [0, 0, 0, 1, 2, 3]
    assert [list(plan.of_input(i)) for i in range(4)] == [[0, 1, 2], [3], [4], [5]]


@pytest.mark.parametrize("size", [0, 1, 99, 100])
def test_small_or_unknown_sizes_are_one_unit(size):
    plan = UnitPlan([gz("a.warc.gz", size)], 100)
    assert len(plan) == 1
    assert plan[0].span is None


def test_largest_first_and_equal_ones_in_order():
    plan = UnitPlan([gz("a.warc.gz", 150), gz("b.warc", 999), gz("c.warc.gz", 100)], 100)
    assert plan.by_size([0, 1, 2, 3]) == [2, 0, 3, 1]
    assert plan.by_size([]) == []


def test_the_label_says_where():
    plan = UnitPlan([gz("a.warc.gz", 250)], 100)
    assert plan[1].label == "a.warc.gz@100"
    assert plan[1].span == Span(100, 200)
    assert UnitPlan([gz("a.warc", 250)], 100)[0].label == "a.warc"


def test_a_million_units_cost_next_to_nothing():
    plan = UnitPlan([gz(f"{i}.warc.gz", 64_000) for i in range(1000)], 64)
    assert len(plan) == 1_000_000
    assert plan[999_999].span == Span(63_936, 64_000)
    assert plan[123_456].source.source == "123.warc.gz"
