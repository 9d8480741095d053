"""A page cut into blocks: what is one block, what is none, and what stands around each."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe_stages.html.blocks.balanced import few
from cleanpipe_stages.html.blocks.segment import balanced, forest, segment

CASES = [
    ("", [], "nothing"),
    ("<p> \n\t</p><div></div>", [], "blanks only"),
    ("abc", ["abc"], "no element at all"),
    ("<p>a<p>b", ["a", "b"], "elements that are never closed"),
    ("<div>a<p>b</p>c</div>", ["a", "b", "c"], "text beside a block is a block"),
    ("<p>a <b> b</b> <i> c</i><br> d</p>", ["a b c\nd"], "blanks on both sides of a tag are one"),
    ("<p>a <b>b</b><i>c</i> d</p>", ["a bc d"], "inline elements part nothing"),
    ("<p>a<br>b<br/>c</p>", ["a\nb\nc"], "one <br> ends a line"),
    ("a<br> <br>b", ["a", "b"], "two part blocks"),
    ("<p>  a \n b\t c  </p>", ["a b c"], "runs of blanks are one"),
    ("<p>a\xa0 b\u3000c</p>", ["a\xa0 b\u3000c"], "no-break and wide blanks are the page's own characters"),
    ("<pre>\n  a\n\n   b  c\n</pre>", ["  a\n\n   b  c"], "preformatted text as it is, less the newline after the tag"),
    ("<pre>x <b>y</b>\n<i> z</i></pre>", ["x y\n z"], "also with elements inside"),
    ("<xmp><b>a</b></xmp>", ["<b>a</b>"], "old preformatted text"),
    ("<p>&lt;unk&gt; &amp;lt; &amp;amp; a&nbsp;b</p>", ["<unk> &lt; &amp; a\xa0b"], "escapes are text, once"),
    ("<p title='a<b>c' class='x>y'>t</p>", ["t"], "angle brackets in values"),
    ("<div class=a <p>x</p>", ["x"], "an attribute that is named <p"),
    ("<a<b>c", ["c"], "an element that is named a<b"),
    (
        "a<?php echo '<b' ?>b<!-- <p>c --><![CDATA[<d>]]>",
        ["ab]]>"],
        "instructions and such end at the first >, as in a browser",
    ),
    ("<script>a<p>b</script><style>c</style><template><p>d</template><svg><text>e</text></svg>f", ["f"], "never text"),
    ("<select><option>a</select><textarea>b</textarea><iframe>c</iframe>d", ["d"], "controls and frames"),
    ("<noscript><p>a</p></noscript>b", ["a", "b"], "what stands in noscript is left to the model"),
    ("<table><tr><td>a<td>b<tr><td>c</table>", ["a", "b", "c"], "cells"),
    ("<ul><li>a<ul><li>b</ul>c</ul>", ["a", "b", "c"], "items"),
    ("<a href=x>a</a><a href=y>b</a>", ["a b"], "two links are two words"),
    ("H<sub>2</sub>O <x-icon></x-icon>z", ["H2O z"], "a custom element parts words"),
    ("<title>t</title><h1>a</h1>", ["t", "a"], "the title is a block; rendering leaves it"),
    (
        "<p>\ud83d\ude00 \U0001f600</p>".encode("utf-16", "surrogatepass").decode("utf-16"),
        ["\U0001f600 \U0001f600"],
        "emoji",
    ),
]


@pytest.mark.parametrize(("markup", "expected", "why"), CASES)
def test_blocks(markup, expected, why):
    blocks = segment(markup.encode())
    assert [blocks.text(n) for n in range(len(blocks))] == expected, why


AROUND = [
    ("<h2>a</h2>b<h6><b>c</b></h6>", "heading", [2, 0, 6]),
    ("a<ul><li>b<ol><li>c</ol></ul>d", "list_depth", [0, 1, 2, 0]),
    ("<blockquote>a<blockquote>b</blockquote></blockquote>c", "quote", [1, 2, 0]),
]


@pytest.mark.parametrize(("markup", "name", "expected"), AROUND)
def test_what_stands_around(markup, name, expected):
    assert getattr(segment(markup.encode()), name).tolist() == expected


def test_innermost_elements_are_rows_of_their_opening_tags():
    blocks = segment(b"<table><tr><td>a<table><tr><td>b</table>c<td>d<tr><td>e</table>f")
    texts = dict(zip([blocks.text(n) for n in range(len(blocks))], blocks.row.tolist(), strict=True))
    assert texts["a"] == texts["c"] == texts["d"]
    assert texts["f"] == -1
    assert len({texts[t] for t in "abe"}) == 3
    opened = blocks.tags.at[blocks.cell[0]]
    assert blocks.html[opened : opened + 3] == b"<td"


@given(st.text(alphabet="<>/abp!-?='\" &;\n\xe9\u4e2d", max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_cut(markup):
    blocks = segment(markup.encode())
    assert (blocks.start < blocks.end).all()
    assert (blocks.start[1:] >= blocks.end[:-1]).all()
    assert blocks.tags.sign.sum() == 0
    assert all(blocks.text(n).strip("\n ") for n in range(len(blocks)))


def test_pages_together_are_cut_as_alone():
    markups = [case[0].encode() for case in CASES]
    together = list(forest([balanced(m) for m in markups]).split())
    assert len(together) == len(markups)
    for blocks, markup in zip(together, markups, strict=True):
        alone = segment(markup)
        assert blocks.html == alone.html
        assert [blocks.text(n) for n in range(len(blocks))] == [alone.text(n) for n in range(len(alone))]
        assert (blocks.list_depth == alone.list_depth).all()
        assert (blocks.pages == alone.pages).all()
        assert (blocks.run_block == alone.run_block).all()


@pytest.mark.parametrize(
    "small",
    [
        b"<div>" * 5_000,
        b"<table>" + b"<td>x" * 20_000,
        b"word " * 60_000,
        b"<p>a<br>" * 10_000,
        b"<ul><li>x" * 400,
        b"<p>" + b" " * 200_000 + b"x",
    ],
    ids=["nested", "cells", "text", "breaks", "lists", "blanks"],
)
def test_time_grows_with_length(small):
    """Ten times the page may cost thirty times the time at most: a square would cost a hundred."""

    def cost(markup):
        times = []
        for _ in range(3):
            begin = time.process_time()
            blocks = segment(markup)
            _ = (blocks.item, blocks.cell, blocks.list_depth)
            times.append(time.process_time() - begin)
        return min(times)

    assert cost(small * 10) < 30 * max(cost(small), 0.002)


def test_arrays_are_of_places():
    blocks = segment(b"<p>a b</p><p>c</p>")
    assert blocks.runs.shape == (2, 2)
    assert [blocks.html[a:b] for a, b in blocks.runs] == [b"a b", b"c"]
    assert np.issubdtype(blocks.start.dtype, np.integer)


@given(st.lists(st.booleans(), max_size=70))
def test_places_of_few_flags(flags):
    assert few(np.array(flags, bool)).tolist() == [place for place, flag in enumerate(flags) if flag]
