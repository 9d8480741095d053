"""Features of blocks on pages made by hand, and that a page has the same ones whatever pages are beside it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe_stages.html.blocks.counts import CHARS, COMMAS, DIGITS, LINKED, STOPS, UPPER, WIDE, WORDS, counted
from cleanpipe_stages.html.blocks.elements import elements
from cleanpipe_stages.html.blocks.features import (
    _AROUND,
    _COLUMN,
    _HIDDEN,
    LEVELS,
    PAGE,
    features,
    log2,
)
from cleanpipe_stages.html.blocks.segment import balanced, forest, segment

OWN = 29  # features of a block's own text; those of the elements around it follow


def counts(text):
    blocks = segment(f"<p>{text}".encode())
    return counted(blocks, np.zeros((len(blocks.runs), 8), bool)).sum(axis=0)


COUNTS = [  # text, column, number
    ("ab c", CHARS, 3),
    (" ab  c ", WORDS, 2),
    ("\xe9\u4e2d\U0001f600", CHARS, 3),
    ("\xe9\u4e2d\U0001f600", WIDE, 3),
    ("Ab CD 12", UPPER, 3),
    ("Ab CD 12", DIGITS, 2),
    ("a, b; c: d. e! f?", COMMAS, 3),
    ("a, b; c: d. e! f?", STOPS, 3),
    ("\u6211\u3001\u4f60\uff0c\u4ed6\u3002\u597d\uff01\u5417\uff1f", COMMAS, 2),
    ("\u6211\u3001\u4f60\uff0c\u4ed6\u3002\u597d\uff01\u5417\uff1f", STOPS, 3),
    ("\u0647\u0644\u060c \u0646\u0639\u0645\u061f", COMMAS, 1),
    ("\u0647\u0644\u060c \u0646\u0639\u0645\u061f", STOPS, 1),
    ("\u0915\u0964", STOPS, 1),
]


@pytest.mark.parametrize(("text", "column", "number"), COUNTS)
def test_counts(text, column, number):
    assert counts(text)[column] == number


RUNS = [  # markup of one block, characters and words of each stretch of text between its tags
    ("ab <b>cd</b> ef", [(2, 1), (2, 1), (2, 1)], "a blank at a stretch's end begins no word in the next"),
    ("ab <b>cd </b>ef", [(2, 1), (2, 1), (2, 1)], "nor two such"),
    ("a<b> b c </b>d", [(1, 1), (2, 2), (1, 1)], "blanks at both ends"),
    ("\u4e2d <b>\u6587</b>", [(1, 1), (1, 1)], "bytes are no characters"),
]


@pytest.mark.parametrize(("markup", "expected", "why"), RUNS)
def test_counts_of_each_stretch(markup, expected, why):
    blocks = segment(f"<p>{markup}</p>".encode())
    found = counted(blocks, np.ones((len(blocks.runs), 1), bool))
    assert found[:, [CHARS, WORDS]].tolist() == [list(pair) for pair in expected], why
    assert found[:, LINKED].tolist() == found[:, CHARS].tolist()


@given(st.lists(st.text("ab \n\t,.!|$@(\xe9\u4e2d\u3002\uff0cA9\x0b", min_size=1), min_size=1, max_size=6))
def test_counts_are_what_one_by_one_counting_gives(parts):
    blocks = segment("".join(f"<b>{part}</b>" for part in parts).encode())
    found = counted(blocks, np.zeros((len(blocks.runs), 1), bool))
    for (begin, end), row in zip(blocks.runs.tolist(), found.tolist(), strict=True):
        text = blocks.html[begin:end].decode()
        blanks = sum(letter in " \t\n\r\f" for letter in text)
        assert row[CHARS] == len(text) - blanks
        assert row[WORDS] == len(re.findall("[^ \t\n\r\f]+", text))
        assert row[COMMAS] == sum(letter in ",;:\uff0c" for letter in text)
        assert row[STOPS] == sum(letter in ".!?\u3002" for letter in text)
        assert row[WIDE] == sum(letter > "\x7f" for letter in text)


def test_share_of_links():
    found = features(segment(b"<p>ab <a href=x>cd</a></p><p>e</p>"))
    assert found.own[:, 3].tolist() == [0.5, 0.0]
    assert found.weight.tolist() == [4, 1]
    assert LINKED == 10


def around(markup, block=0):
    own = features(segment(markup.encode())).own[block, OWN : OWN + len(_AROUND) + 2]
    return {name: own[column] for name, column in _COLUMN.items() if own[column]}, own[_HIDDEN]


def test_elements_around():
    found, hidden = around("<div><div><ul><li>a</ul></div></div>")
    assert found == {"div": 2, "ul": 1, "menu": 1, "dir": 1, "li": 1}
    assert not hidden


@pytest.mark.parametrize(
    ("markup", "hidden"),
    [
        ("<div style='display:none'>a", 1),
        ("<div style='color:red; display: none'><p>a", 1),
        ("<div hidden>a", 1),
        ("<div aria-hidden=true>a", 1),
        ("<div aria-hidden=false>a", 0),
        ("<div style='display:block'>a", 0),
        ("<p>display:none", 0),
        ("<div hidden><p>b</div><p>a", 0),
    ],
)
def test_hidden(markup, hidden):
    assert around(markup, -1)[1] == hidden


def slots(attributes):
    return sorted(set(elements(segment(f"<div {attributes}>a</div>".encode())).slots.tolist()))


def test_class_words():
    both = slots("class='post body'")
    assert len(both) == 2
    assert slots("class='post-body'") == slots("id='postBody'") == slots("class='POST_body2'") == both
    assert slots("role='post' itemprop='body'") == both
    assert slots("title='post body' href='post' data-class='post'") == []
    assert set(slots("class='post'")) < set(both)
    assert len(slots("class='averyveryverylongwordindeed'")) == 1


def test_class_words_of_text_count_for_nothing():
    assert not len(elements(segment(b'<p>say class="nav" and id="x"</p>')).slots)


def test_siblings_alike():
    tree = elements(segment(b"<ul><li class=x>a<li class=x>b<li>c</ul><ul><li class=x>d</ul>"))
    assert sorted(tree.alike[tree.of].tolist()) == [1, 1, 2, 2]


def test_logarithm_is_exact_at_powers_of_two():
    assert log2(np.array([0, 1, 3, 7, 1023])).tolist() == [0, 1, 2, 3, 10]
    assert 2 < log2(np.array([4.0]))[0] < 3


PAGES = [
    "<p>a",
    "<title>t</title><nav><a href=x>m</a></nav><article><h1>h</h1><p>" + "words, and more. " * 30 + "</article>",
    "<br>x<br><br>y",
    "<ul>" + "<li class=item><a href=y>b</a>" * 9 + "</ul>",
    "<pre>\n c </pre><table><tr><td>d<td>e</table>",
]


def test_a_page_has_the_same_features_among_others():
    alone = [features(segment(p.encode())) for p in PAGES]
    for order in ([0, 1, 2, 3, 4], [4, 2, 3, 0, 1], [1, 1, 1]):
        together = features(forest([balanced(PAGES[n].encode()) for n in order]))
        for place, n in enumerate(order):
            rows = slice(*together.pages[place : place + 2])
            assert (together.own[rows] == alone[n].own).all()
    assert np.isfinite(together.own).all()
    assert together.parents.shape[1] == LEVELS
    assert (together.own[: together.pages[1], -PAGE:] == together.own[0, -PAGE:]).all()


def test_features_do_not_read_words():
    """Other letters of the same kind are the same page."""
    first, second = (features(segment(p)) for p in (b"<p>Hello, world.</p>", b"<p>Xenon, yodel.</p>"))
    assert (first.own == second.own).all()
    assert replace(first, own=second.own).weight.tolist() == [12]
