"""Rendering: render.jsonl (markup, text, Markdown), and laws: nothing invented, nothing lost, both formats the same."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.text.normalise import normalise

pytest.importorskip("turbohtml")
from cleanpipe_stages.html.blocks.render import render
from cleanpipe_stages.html.blocks.rules import unseen
from cleanpipe_stages.html.blocks.segment import segment

CASES = [json.loads(line) for line in (Path(__file__).parent / "render.jsonl").read_text("utf-8").splitlines()]


def rendered(markup, form, **options):
    blocks = segment(markup.encode(errors="replace"))
    return render(blocks, ~unseen(blocks), form, **options)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["comment"][:60])
@pytest.mark.parametrize("form", ["text", "markdown"])
def test_case(case, form):
    assert rendered(case["markup"], form) == case[form]


# laws over any tree of these pieces; markdown-it reads Markdown as CommonMark with GitHub's tables

NASTY = [
    *["word", "*a*", "_b_", "a_b", "**", "__", "`c`", "``", "~~d~~", "3~5", "[x](y)", "[z]:", "![i](j)", "#", "##"],
    *["-", "+", "*", "1.", "2)", ">", "|", "||", "a|b", "\\", "\\*", "\\|", "&lt;b&gt;", "&amp;copy;", "&amp;#65;"],
    *["---", "===", "~~~", "```", ":", "http://a.example/_x_", "é", "東京", "\xa0", "&shy;", "(n)", "x^2", "&lt;!--"],
]
WORDS = st.lists(st.sampled_from(NASTY), min_size=1, max_size=6).map(" ".join)
INLINE = st.one_of(
    WORDS,
    st.builds(
        "<{0}>{1}</{0}>".format, st.sampled_from(["b", "i", "code", "span", "a href=x", "sup", "x-y"]).map(str), WORDS
    ).map(lambda s: re.sub(r"</a href=x>", "</a>", s)),
)
LINE = st.lists(INLINE, min_size=1, max_size=4).map(lambda parts: " ".join(parts))
LINES = st.lists(LINE, min_size=1, max_size=3).map("<br>".join)


def _blocks(inner):
    several = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        LINES.map("<p>{}</p>".format),
        st.builds("<h{0}>{1}</h{0}>".format, st.integers(1, 6), LINE),
        several.map(lambda parts: "<ul>" + "".join(f"<li>{p}</li>" for p in parts) + "</ul>"),
        st.builds(
            lambda parts, start: f"<ol start={start}>" + "".join(f"<li>{p}</li>" for p in parts) + "</ol>",
            several,
            st.integers(0, 12),
        ),
        inner.map("<blockquote>{}</blockquote>".format),
        several.map(lambda parts: "<dl>" + "".join(f"<dt>t</dt><dd>{p}</dd>" for p in parts) + "</dl>"),
        several.map(lambda parts: "<table><tr>" + "</tr><tr>".join(f"<td>{p}<td>{p}" for p in parts) + "</table>"),
        st.lists(WORDS, min_size=1, max_size=3).map(lambda parts: "<pre>" + "\n  ".join(parts) + "</pre>"),
        LINES.map("<div>{}</div>".format),
    )


PAGES = st.lists(st.recursive(LINES.map("<p>{}</p>".format), _blocks, max_leaves=8), min_size=1, max_size=4).map(
    "".join
)


def shown(markdown):
    """What a reader of Markdown sees."""
    reader = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable(["table", "strikethrough"])
    out = []

    def walk(tokens):
        for token in tokens:
            if token.type == "inline":
                walk(token.children)
                out.append(" ")
            elif token.type in ("text", "code_inline", "fence", "code_block", "html_inline", "html_block", "entity"):
                out.append(token.content)
            elif token.type == "image":
                raise AssertionError(f"an image came of text: {markdown!r}")
            elif token.type in ("softbreak", "hardbreak"):
                out.append(" ")
            elif token.type in ("em_open", "strong_open", "s_open", "link_open", "hr"):
                raise AssertionError(f"{token.type} came of text: {markdown!r}")

    walk(reader.parse(markdown))
    return "".join(out)


def words(text):
    return [word for word in text.split() if word not in ("|", ":")]


@settings(max_examples=150, deadline=None)
@given(PAGES)
def test_a_reader_of_the_markdown_sees_the_text(markup):
    text = rendered(markup, "text", bullets=False)
    assert words(shown(rendered(markup, "markdown"))) == words(text)


@settings(max_examples=100, deadline=None)
@given(PAGES)
def test_nothing_is_invented_lost_or_moved(markup):
    blocks = segment(markup.encode())
    source = [word for n in range(len(blocks)) for word in blocks.text(n).split()]
    assert words(" ".join(source)) == words(rendered(markup, "text", bullets=False))


@settings(max_examples=100, deadline=None)
@given(PAGES, st.data())
def test_any_mask_keeps_the_order_and_gives_clean_lines(markup, data):
    blocks = segment(markup.encode())
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(blocks), max_size=len(blocks))), bool)
    for form in ("text", "markdown"):
        text = render(blocks, keep, form)
        assert text == text.strip("\n")
        assert "\n\n\n" not in text or "<pre>" in markup
        assert not any(sign in text for sign in "\0\1\2\3")
    rest = iter(words(rendered(markup, "text", bullets=False)))
    assert all(word in rest for word in words(render(blocks, keep, "text", bullets=False)))


@settings(max_examples=100, deadline=None)
@given(PAGES, st.sampled_from(["text", "markdown"]))
def test_normalisation_keeps_lines_and_is_idempotent(markup, form):
    text = rendered(markup, form)
    once = normalise(text)
    assert normalise(once) == once
    assert words(once) == words(normalise(text.replace("\n", "\n\n")))
