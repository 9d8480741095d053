"""What the guard believes to be open, against the trees of the parser in use: the same pieces again and again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from resiliparse.parse.html import HTMLTree

from cleanpipe_stages.html import guard
from cleanpipe_stages.html.mend import mended
from cleanpipe_stages.html.names import names_of
from cleanpipe_stages.html.tags import Tags

TIMES = 40
NAMES = sorted(
    names_of(
        "div p span a b nobr font i li dd dt ul table tr td th tbody caption select option optgroup button form h1 h2"
        " rt rp rb rtc ruby object svg math mi title desc foreignObject g x section address br img input hr center"
        " figure pre textarea script style colgroup col annotation-xml details dialog em marquee label fieldset nav"
        " header sup"
    )
)


def tree(markup):
    """Depth and number of the elements that the parser makes."""
    data = np.frombuffer((markup + " " * 20).encode(), np.uint8)
    parsed = HTMLTree.parse_from_bytes(mended(Tags(data))[0], "utf-8")  # nodes live as long as their tree
    node, depth, most, count = parsed.document.first_child, 1, 0, 0
    while node is not None:
        if node.type == 1:
            count += 1
            most = max(most, depth)
        if node.first_child is not None:
            node, depth = node.first_child, depth + 1
            continue
        while node is not None and node.next is None:
            node, depth = node.parent, depth - 1
            node = node if depth else None
        node = node.next if node is not None else None
    return most, count


def believed(markup):
    """The same by the guard: the least limits under which the page passes."""
    return tuple(
        _least(lambda n, limits=limits: guard._read_tags(markup, limits(n)) is None)
        for limits in (lambda n: guard.Limits(n, 10**9), lambda n: guard.Limits(10**9, n))
    )


def _least(passes):
    low, high = 0, 1 << 14
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle + 1, high)
    return low


def check(before, pieces):
    markup = before + pieces * TIMES
    depth, elements = tree(markup)
    most, made = believed(markup)
    assert depth <= most * 1.5 + 16, "deeper than the guard believes"
    assert elements <= made * 2 + 40, "more elements than the guard believes"
    if "<svg" not in markup and "<math" not in markup:  # there it believes few ends
        assert most <= depth * 2 + 20, "the guard sees depth where there is none"


# pieces, and by how many elements each repetition is deeper; worked out from the HTML standard
PIECES = [
    ("<rt>", 1),
    ("<optgroup>", 1),
    ("<ruby><rt></ruby>", 0),
    ("<option>", 0),
    ("<li>", 0),
    ("<li><dd>", 2),
    ("<p><li>", 0),
    ("<a><div></a>", 1),
    ("<a><div></a></div>", 0),
    ("<b><p></b>", 0),
    ("<nobr><div></nobr>", 1),
    ("<span><div></span></div>", 1),
    ("<div><object></div></object>", 1),
    ("<div><button></div></button>", 0),
    ("<div><table><td></div></table>", 1),
    ("<table>x", 0),
    ("<table><td>", 4),
    ("<table><div>", 0),
    ("<button>", 0),
    ("<select>", 0),
    ("<form>", 0),
    ("<form><div></form>", 2),
    ("<h1><h2>", 0),
    ("<h1><div></h2>", 0),
    ("<svg><g><p>", 0),
    ("<svg><g><div>", 1),
    ("<svg><desc><div></svg>", 3),
    ("<svg><desc><g></svg>", 3),
    ("<svg><desc></svg>", 0),
    ("<svg/>", 0),
    ("<div/>", 1),
    ("<math><mi><p></math>", 3),
    ("<figure></div>", 0),
    ("<div><!--></div>", 0),
    ("<div><!-- ></div> -->", 1),
    ("<div><script><!--<script></script></div></script>", 1),
    ("<div><title></div></title>", 1),
    ("<div><title></titles></div></title>", 1),
    ("<div a='</div>'>", 1),
    ("<div a=b'></div>", 0),
    ("<div a='b'c'></div>", 0),
    ("<div a=' b=></div>'>", 1),
]


@pytest.mark.parametrize(("pieces", "deeper"), PIECES)
def test_depth_of_pieces(pieces, deeper):
    most, _ = believed(pieces * TIMES)
    assert abs(most - deeper * TIMES) <= 8
    check("", pieces)


def pieces_of(names):
    one = st.sampled_from(names)
    tag = st.one_of(one.map("<{}>".format), one.map("</{}>".format), st.just("x"))
    return st.tuples(st.lists(tag, max_size=2).map("".join), st.lists(tag, min_size=1, max_size=8).map("".join))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).flatmap(pieces_of))
def test_the_guard_sees_what_the_parser_holds(pieces):
    check(*pieces)
