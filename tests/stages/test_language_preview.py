"""language_preview: verdicts of cases/language_preview.jsonl, what its scan sees, and that hostile markup is cheap."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, check_stage, run
from cleanpipe_stages.html.paragraphs import first_paragraphs
from cleanpipe_stages.language_preview import LanguagePreview

FILE = Path(__file__).parent / "cases" / "language_preview.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def rows(cases):
    return batch(markup=[c["markup"] for c in cases], media_type=[c.get("media_type", "text/html") for c in cases])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["comment"][:50])
def test_case(case):
    options = {k: tuple(v) if isinstance(v, list) else v for k, v in case.get("set", {}).items()}
    outcome = LanguagePreview(**options).open()(rows([case]))
    assert outcome.drops.to_pylist() == [case["reason"]]
    applies = case.get("media_type", "text/html") == "text/html"
    assert outcome.skipped.to_pylist() == [not applies]
    if case["language"] or not applies:
        assert outcome.scores[col.LANGUAGE_PREVIEW].to_pylist() == [case["language"]]
    assert outcome.scores[col.LANGUAGE_PREVIEW_SCORE].is_null().to_pylist() == [not applies]


def test_all_cases_in_one_batch():
    plain = [c for c in CASES if "set" not in c]
    assert check_stage(LanguagePreview(), rows(plain)).reasons == [c["reason"] for c in plain]


def test_no_rows_and_no_html_rows():
    step = LanguagePreview().open()
    assert len(step(rows(CASES[:1]).slice(0, 0)).drops) == 0
    wet = [c for c in CASES if c.get("media_type", "") is None]
    assert step(rows(wet)).drops.to_pylist() == [None]


def test_confidence_and_letters_decide():
    french = next(c for c in CASES if c["comment"] == "a French page")
    score = run(LanguagePreview(), rows([french])).scores[col.LANGUAGE_PREVIEW_SCORE][0]
    assert run(LanguagePreview(confidence=score), rows([french])).reasons == ["other_language"]
    assert run(LanguagePreview(confidence=min(1.0, score + 1e-6)), rows([french])).reasons == [None]
    assert run(LanguagePreview(letters=400), rows([french])).reasons == [None]


@pytest.mark.parametrize("options", [{"languages": ()}, {"confidence": 0.4}, {"letters": 0}, {"chars": 0}])
def test_options_that_cannot_work(options):
    with pytest.raises(ConfigError, match="language_preview"):
        LanguagePreview(**options).check()


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("<p>one</p><p>two</p>", "one\ntwo"),
        ("<p>one<p>two", "one\ntwo"),
        ("<p>one<div>two</div>", "one"),
        ("<P class='a'>x &amp;lt; y</P>", "x &lt; y"),
        ("<p>a<b>b</b>c<br>d", "abcd"),
        ("<p/>x", ""),
        ("<pre>x</pre><param><path>", ""),
        ("<!-- <p>x</p> --><p>y</p>", "y"),
        ("<!-- <p>x</p>", ""),
        ("<p>a<!-- b -->c", "ac"),
        ("<script><p>x</p></script ><p>y</p>", "y"),
        ("<SCRIPT>'<p>x'</sCRIPT><p>y", "y"),
        ("<p>a<script>b</script><p>c", "a\nc"),
        ("", ""),
    ],
)
def test_first_paragraphs(markup, text):
    assert first_paragraphs(markup.encode(), 1000) == text


@pytest.mark.parametrize("piece", ["<p>", "<!-- -->", "<script></script>", "<p><b></b></p>"])
def test_the_scan_stops_after_ten_thousand_pieces(piece):
    assert first_paragraphs(piece.encode() * 9_999 + b"<p>words", 512) == "words"
    assert first_paragraphs(piece.encode() * 10_000 + b"<p>words", 512) == ""


def test_the_scan_stops_when_it_has_enough():
    page = b"<p>" + b"a" * 30 + b"</p><p>" + b"b" * 30 + b"</p><p>c</p>"
    assert first_paragraphs(page, 50) == "a" * 30 + "\n" + "b" * 30


N = 300_000
HOSTILE = [
    "<p ",
    "<p>",
    "<",
    "<!--",
    "<p title='",
    '<p a="',
    "<script>",
    "</p",
    "<p><",
    "<p>&",
    "<p><!--",
    "<style><!--",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_hostile_markup_costs_no_more_than_its_length(piece):
    began = time.process_time()
    first_paragraphs(piece.encode() * N, 1024)
    assert time.process_time() - began < 3  # a quadratic scan would take hours


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([*HOSTILE, "text ", "</p>", "</script>", "-->", ">", "é", "&lt;", "\0"]), max_size=40))
def test_no_markup_breaks_it(pieces):
    text = first_paragraphs("".join(pieces).encode(), 1024)
    assert text == text.strip()
