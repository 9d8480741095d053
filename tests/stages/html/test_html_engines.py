"""All engines: pure functions of one page, whatever stands beside it; formats; what an engine cannot do is said."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch
from cleanpipe_stages.html import engines
from cleanpipe_stages.html.tags import Tags
from cleanpipe_stages.html_scrub import HtmlScrub

NEEDS = {"blocks": "turbohtml", "trafilatura": "trafilatura", "html2text": "html2text", "resiliparse": "resiliparse"}
PARAGRAPH = "<p>The harbour pilot boards each ship outside the bar and knows the depth of every channel by heart.</p>"
TEXT = PARAGRAPH[3:-4]
RENDER = [json.loads(line) for line in (Path(__file__).parent / "render.jsonl").read_text("utf-8").splitlines()]
OLD = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "cases" / "html_scrub.jsonl").read_text("utf-8").splitlines()
]
PAGES = [
    *(case["markup"] for case in RENDER),
    *(case["markup"] for case in OLD if "media_type" not in case),
    *(f"<title>{n}</title><nav><a href=x>Home</a></nav>{PARAGRAPH * n}<footer>Imprint</footer>" for n in range(1, 12)),
    "",
    "<",
    "\ufdd0\0",
    "<p>" * 50,
]


def tags(markup):
    return Tags(np.frombuffer(markup.encode(errors="replace"), np.uint8))


@pytest.fixture(params=engines.NAMES)
def name(request):
    pytest.importorskip(NEEDS[request.param])
    return request.param


def column(step, pages):
    rows = batch(markup=pages, media_type=["text/html"] * len(pages))
    outcome = step(rows)
    return list(zip(outcome.batch.column(col.SCRUBBED).to_pylist(), outcome.drops.to_pylist(), strict=True))


def test_a_page_has_one_text_whatever_stands_beside_it(name):
    step = HtmlScrub(engine=name).open()
    together = column(step, PAGES)
    order = list(range(len(PAGES)))
    random.Random(5).shuffle(order)
    assert [together[n] for n in order] == column(step, [PAGES[n] for n in order])
    assert together == [found for n in range(0, len(PAGES), 3) for found in column(step, PAGES[n : n + 3])]
    assert together == column(HtmlScrub(engine=name).open(), PAGES)  # nor in another process
    assert column(step, [PAGES[-8]] * 40) == [together[-8]] * 40


def test_the_reader_says_what_the_engine_says(name):
    options = engines.Options()
    engine, reader = engines.open_engine(name, options), engines.open_reader(name, options)
    some = [tags(page) for page in PAGES[::7]]
    assert list(reader(some)) == [engine(one) for one in some]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PAGES), min_size=1, max_size=6), st.sampled_from(["text", "markdown"]))
def test_groups_of_blocks_are_single_pages(pages, form):
    pytest.importorskip("turbohtml")
    reader = engines.open_reader("blocks", engines.Options(format=form))
    group = [tags(page) for page in pages]
    assert list(reader(group)) == [found for one in group for found in reader([one])]


def test_markdown_and_text(name):
    page = f"<main><h1>Head</h1>{PARAGRAPH * 6}<ul><li>One of it<li>Two of it</ul><pre>if x:\n    y</pre>"
    page += PARAGRAPH.replace("harbour", "river")
    if name == "resiliparse":
        with pytest.raises(ConfigError, match=r"blocks.*trafilatura"):
            HtmlScrub(engine=name, format="markdown").check()
        return
    ((text, _),) = column(HtmlScrub(engine=name, format="markdown").open(), [page])
    assert TEXT in text
    if name == "blocks":
        assert f"# Head\n\n{TEXT}\n\n" in text
        assert "\n\n- One of it\n- Two of it\n\n```\nif x:\n    y\n```\n\n" in text


def test_a_missing_package_is_named(name, monkeypatch):
    if name == "resiliparse":
        pytest.skip("a dependency of the package")
    monkeypatch.setitem(sys.modules, NEEDS[name], None)
    with pytest.raises(ConfigError, match=f"pip install {NEEDS[name]}"):
        HtmlScrub(engine=name).check()


def test_where_the_parser_fails_resiliparse_reads(monkeypatch):
    pytest.importorskip("turbohtml")
    from cleanpipe_stages.html.engines import blocks

    written = blocks.written

    def breaks(markup):
        if b"bad" in markup:
            raise MemoryError
        return written(markup)

    step = HtmlScrub(engine="blocks").open()
    monkeypatch.setattr(blocks, "written", breaks)
    pages = [PARAGRAPH * 6, f"<p>bad</p>{PARAGRAPH * 6}", "<p>bad", PARAGRAPH * 7]
    outcome = step(batch(markup=pages, media_type=["text/html"] * 4))
    assert outcome.facts["by_resiliparse"] == 2
    assert outcome.drops.to_pylist() == [None] * 4
    assert outcome.batch.column(col.SCRUBBED)[1].as_py() == f"bad\n\n{TEXT}" + f"\n\n{TEXT}" * 5


def test_one_page_of_a_group_that_fails_costs_the_others_nothing(monkeypatch):
    pytest.importorskip("turbohtml")
    from cleanpipe_stages.html.engines import blocks

    judged = blocks.model.judged

    def breaks(together):
        if b"bad" in together.html:
            raise ValueError("by its own fault")
        return judged(together)

    pages = [f"<h1>{n}</h1>{PARAGRAPH * 6}" for n in range(5)]
    step = HtmlScrub(engine="blocks").open()
    alone = column(step, pages)
    monkeypatch.setattr(blocks.model, "judged", breaks)
    mixed = column(step, [*pages[:2], f"<p>bad</p>{PARAGRAPH * 6}", *pages[2:]])
    assert mixed[:2] + mixed[3:] == alone
    assert mixed[2][0].startswith("bad")


def test_what_the_parser_blows_up_is_read_by_resiliparse():
    pytest.importorskip("turbohtml")
    fonts = "".join(f"<font color={'x' * 200}{n}>" for n in range(20))
    step = HtmlScrub(engine="blocks").open()
    outcome = step(batch(markup=[PARAGRAPH * 6 + f"<p>{fonts}" + "<p>x" * 1_500], media_type=["text/html"]))
    assert outcome.facts["by_resiliparse"] == 1
    assert outcome.drops[0].as_py() is None


SHORT = [  # lines that say little, and belong to the text for where they stand
    ("a row between paragraphs", "<table><tr><td>wide cell</td><td>narrow</td></tr></table>", "wide cell"),
    ("hours in cells", "<table><tr><td>Monday</td><td><ul><li>10:15 - 20:45</ul></td></tr></table>", "10:15 - 20:45"),
    ("loose text", "Loose text number two", "Loose text number two"),
    ("a short list", "<ol><li>Item one of it</li><li>Item two of it</li></ol>", "Item two of it"),
    ("a question", "<h3>How deep is the pond?</h3>", "How deep is the pond?"),
    ("code", "<pre>n -= 1\nreturn n // 2</pre>", "n -= 1\nreturn n // 2"),
    ("a term", "<dl><dt>Tide</dt><dd>Rise of the sea</dd></dl>", "Rise of the sea"),
]


@pytest.mark.parametrize("case", SHORT, ids=lambda c: c[0])
@pytest.mark.parametrize("where", ["between", "behind"])
def test_short_lines_inside_the_text_stay(case, where):
    pytest.importorskip("turbohtml")
    _, piece, want = case
    page = f"<header><a href=x>Home</a></header><main><h1>Log book</h1>{PARAGRAPH * 4}{piece}"
    page += f"{PARAGRAPH * 3 if where == 'between' else ''}</main><footer>Imprint and contact</footer>"
    ((text, _),) = column(HtmlScrub(engine="blocks").open(), [page])
    assert want in text
    assert text.startswith(f"Log book\n\n{TEXT}")
    assert "Home" not in text
    assert "Imprint" not in text
