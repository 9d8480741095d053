"""Charts: bars as high as their numbers, limits where they lie, nothing outside the picture."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cleanpipe.report.cuts import shown
from cleanpipe.report.svg import HIGH, WIDE, Bin, Limit, Series, bar, bars, decades, histogram, line, nice

RECT = re.compile(r'<rect class="(\w+)" x="([\d.e+-]+)" y="([\d.e+-]+)" width="([\d.e+-]+)" height="([\d.e+-]+)"/>')
LINE = re.compile(r'<line class="limit" x1="([\d.]+)"')


def rects(drawing):
    return [(c, *map(float, numbers)) for c, *numbers in RECT.findall(drawing)]


def test_bars_stand_on_each_other_and_are_as_high_as_their_numbers():
    drawn = rects(histogram([Bin(0, 1, 10, 30), Bin(1, 2, 20, 0)], title="t", x="x"))
    kept, lost, second = drawn
    assert [r[0] for r in drawn] == ["kept", "lost", "kept"]
    assert lost[4] == pytest.approx(3 * kept[4])
    assert second[4] == pytest.approx(2 * kept[4])
    assert lost[2] + lost[4] == pytest.approx(kept[2])  # lost stands on kept
    assert kept[2] + kept[4] == pytest.approx(second[2] + second[4])  # both on the axis
    assert second[1] - kept[1] == pytest.approx((WIDE - 56) / 2)


def test_a_limit_is_drawn_where_it_lies_and_named_with_its_place():
    drawing = histogram([Bin(0, 1, 1), Bin(1, 2, 1)], title="t", x="x", limits=[Limit(1.0, "kept ≥ 1", "/a/at")])
    _, middle = rects(drawing)
    assert float(LINE.search(drawing)[1]) == pytest.approx(middle[1], abs=0.7)
    assert 'data-n="1.0" data-of="/a/at">kept ≥ 1</text>' in drawing


def test_the_line_is_widened_for_a_limit_near_by_and_not_for_one_far_off():
    near = histogram([Bin(4, 5, 1)], title="t", x="x", limits=[Limit(3.4, "kept > 3.4")])
    assert LINE.search(near)
    assert float(LINE.search(near)[1]) < rects(near)[0][1]
    alone = histogram([Bin(0.98, 0.99, 1)], title="t", x="x", limits=[Limit(0.5, "kept < 0.5")])
    assert LINE.search(alone)  # one bar may be narrow
    assert rects(alone)[0][3] > 4
    few = [Bin(i / 10, (i + 1) / 10, 1) for i in range(9)]
    far = histogram(few, title="t", x="x", limits=[Limit(500, "kept ≤ 500")])
    assert not LINE.search(far)
    assert "kept ≤ 500 →" in far


def test_a_curve_that_goes_on_level_reaches_both_ends():
    curve = Series("s", [(4, 1.0), (4.5, 0.5), (5, 0.0)], level=True)
    drawing = line([curve], title="t", x="x", y="y", limits=[Limit(3.5, "a"), Limit(5.5, "b")])
    points = [tuple(map(float, p.split(","))) for p in re.search(r'points="([^"]+)"', drawing)[1].split()]
    assert len(points) == 5
    assert points[0][1] == points[1][1]
    assert points[-1][1] == points[-2][1]
    assert (points[0][0], points[-1][0]) == (46, WIDE - 10)


def test_a_logarithmic_line_gives_every_decade_the_same_room():
    drawing = histogram([Bin(1, 10, 1), Bin(10, 100, 1), Bin(100, 1000, 1)], title="t", x="x", log=True)
    widths = [r[3] for r in rects(drawing)]
    assert max(widths) - min(widths) < 0.01


def test_names_in_a_chart_are_text():
    evil = "</svg><script>alert(1)</script>"
    drawings = [
        histogram([Bin(0, 1, 1)], title=evil, x=evil, y=evil, limits=[Limit(0, evil, evil)]),
        line([Series(evil, [(0, 1)])], title=evil, x=evil, y=evil),
        bars([(evil, (("kept", 1),), evil)], title=evil),
    ]
    for drawing in drawings:
        assert "<script" not in drawing
        assert drawing.count("</svg>") == 1
        assert 'role="img"' in drawing
        assert "<title>" in drawing
        assert "<desc>" in drawing


def test_nothing_is_drawn_of_nothing():
    assert histogram([], title="t", x="x") == line([], title="t", x="x", y="y") == '<p class="note">No values.</p>'
    assert "rest" in bar(None)
    assert len(rects(bar(None))) == 1
    assert bars([], title="t").endswith("</svg>")


numbers = st.floats(-1e6, 1e12, allow_nan=False).map(lambda v: round(v, 6))


@given(
    st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**12)), min_size=1, max_size=60),
    numbers,
    st.floats(0.01, 1e6),
)
def test_everything_is_inside_the_picture(counts, start, width):
    found = [Bin(start + i * width, start + (i + 1) * width, *c) for i, c in enumerate(counts)]
    limits = [Limit(start + width, "a"), Limit(start - 1e9, "b"), Limit(start + 1e9, "c")]
    for _, x, y, wide, high in rects(histogram(found, title="t", x="x", limits=limits)):
        assert 0 <= x <= x + wide <= WIDE + 1
        assert 0 <= y <= y + high <= HIGH + 1


@given(st.floats(-1e9, 1e12), st.floats(1e-6, 1e12), st.integers(2, 8))
def test_ticks_are_round_few_and_inside(low, span, about):
    span = max(span, abs(low) * 1e-6)  # scores have no more digits
    ticks = nice(low, low + span, about)
    assert len(ticks) <= about + 2
    assert all(low - span * 0.01 <= t <= low + span * 1.01 for t in ticks)


@given(st.floats(0.01, 1e9), st.floats(1.5, 1e9))
def test_decades_are_few_and_inside(low, factor):
    ticks = decades(low, low * factor)
    assert len(ticks) <= 10
    assert all(low * 0.99 <= t <= low * factor * 1.01 for t in ticks)


@example([0.0, 100.0])  # the edge above the highest value lies beyond the last round one
@given(st.lists(st.floats(-9, 1e9).map(lambda v: round(v, 2)), min_size=1, max_size=40, unique=True))
def test_the_bars_hold_every_value_once_and_are_few(values):
    """But values below the first bar of a logarithmic line, which the table has in a row of its own."""
    import numpy as np

    from cleanpipe.audit.bins import by_edge, edges
    from cleanpipe.audit.bins import histogram as fine

    found = sorted(float(k) for k in by_edge(fine(np.array(values))))
    drawn = shown(found)
    assert list(drawn.edges) == sorted(set(drawn.edges))
    assert 2 <= len(drawn.edges) <= 62
    assert set(drawn.edges) <= set(edges().tolist())  # so that their counts are exact
    inside = [v for v in found if drawn.edges[0] <= v < drawn.edges[-1]]
    below = [v for v in found if v < drawn.edges[0]]
    assert len(inside) + len(below) == len(found)
    assert not below or (drawn.log and max(below) < 1) or drawn.edges[0] <= 1
