"""Whatever a page said reaches the report as text: no markup, nothing hidden, no second line, of bounded length."""

import json
import re
import unicodedata
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.report.markup import Html, clean, code, escape, foreign, join, line, middle, number, share, tag, url
from cleanpipe.report.node import Node

HOSTILE = [  # text, what a reader sees of it
    ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    ("\"><img src=x onerror=alert(11)>", "\"><img src=x onerror=alert(11)>"),
    ("a&lt;b&amp;", "a&lt;b&amp;"),
    ("x\u202egnp.exe", "x\ufffdgnp.exe"),
    ("a\x00b\x1b[31mc", "a\ufffdb\ufffd[31mc"),
    ("two\nlines\r\n\tthree", "two lines   three"),
    ("\ufeffbom\u200bzero\U000e0041tag", "\ufffdbom\ufffdzero\ufffdtag"),
    ("\ud800lone", "\ufffdlone"),
    ("مثال.إختبار", "مثال.إختبار"),
    ("z" + "\u0300" * 40 + "algo", "z" + "\u0300" * 4 + "algo"),
    ("a\u3000b\u00a0c", "a b c"),
    ("", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "seen"), HOSTILE)
def test_text_from_outside_is_text(text, seen):
    out = escape(text)
    assert unescape(out) == seen
    assert not set(out) & set("<>\"'")
    out.encode()  # no lone surrogate is left


@given(st.text(max_size=400))
def test_no_text_is_markup_or_hidden_or_long(text):
    for shown in (escape(text), foreign(text), code(text), url(text)):
        inner = re.fullmatch(r"(?:<[a-z]+(?: class=\"\w+\")?>)?(.*?)(?:</[a-z]+>)?", shown, re.S)[1]
        assert not re.search(r"[<>\"']", inner)
        plain = unescape(inner)
        assert len(plain) <= 160
        assert plain.isprintable()
    marks = "".join("m" if unicodedata.combining(c) else "." for c in clean(text))
    assert "m" * 5 not in marks


def test_long_text_loses_its_middle():
    assert middle("abcdefghij", 10) == "abcdefghij"
    assert middle("abcdefghijk", 10) == "abcdef…ijk"
    assert len(middle("x" * 10_000, 120)) == 120
    assert url("http://host.example/" + "p" * 500 + "?end=1").endswith("?end=1</bdi>")


def test_a_url_is_never_a_link():
    for text in ("javascript:alert(1)", "http://evil.example/", "data:text/html,x"):
        assert "href" not in url(text)
    assert "no URL" in url(None)


def test_markup_passes_and_strings_do_not():
    assert tag("p", "<b>", Html("<i>x</i>"), None, 1234, class_="a b", data_of='"x"', hidden=True, title=None) == (
        '<p class="a b" data-of="&quot;x&quot;" hidden>&lt;b&gt;<i>x</i><span class="n">1,234</span></p>'
    )
    assert join("a", None, "<", between="-") == "a-&lt;"


NUMBERS = [  # value, kind, what is shown, exact value
    (1234567, "count", "1,234,567", "1234567"),
    (0, "count", "0", "0"),
    (0.65, "score", "0.65", "0.65"),
    (10860.8, "score", "10,860.8", "10860.8"),
    (123456.7, "score", "123,457", "123456.7"),
    (0.123456, "share", "12.3 %", "0.123456"),
    (1.0, "share", "100.0 %", "1.0"),
    (0.99999, "share", "&gt;99.9 %", "0.99999"),
    (0.0, "share", "0.0 %", "0.0"),
    (0.000123, "share", "0.012 %", "0.000123"),
    (0.0000001, "share", "&lt;0.0001 %", "1e-07"),
    (57.1853, "share", "5,718.5 %", "57.1853"),
    (12_700_000_000_000, "bytes", "12.7 TB", "12700000000000"),
    (999, "bytes", "999 bytes", "999"),
    (1.3333, "factor", "1.33×", "1.3333"),
    (3.815851, "mean", "3.82", "3.815851"),
    (12345.67, "rate", "12,346", "12345.67"),
    (0.6521, "seconds", "0.652 s", "0.6521"),
    (123.4567, "seconds", "123.5 s", "123.4567"),
    (float("inf"), "score", "∞", "inf"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind", "shown", "exact"), NUMBERS)
def test_numbers_are_shown_short_and_carried_exactly(value, kind, shown, exact):
    assert number(Node(value, "/a/b"), kind) == f'<span class="n" data-n="{exact}" data-of="/a/b">{shown}</span>'
    if value != float("inf"):
        assert json.loads(exact) == value


def test_words_in_place_of_numbers_are_no_numbers():
    assert "n/a" in number("not applicable")
    assert "not measured" in number(Node({"value": "not measured", "reason": "<why>"}, "/x"))
    assert "—" in number(None)
    for shown in (number("not applicable"), number(None), number(Node("not applicable", "/x"))):
        assert "data-n" not in shown
    assert number(True) == "yes"


def test_a_line_shows_both_its_numbers():
    whole = Node({"value": 0.25, "numerator": 1, "denominator": 4, "unit": "documents <b>"}, "/a")
    text = re.sub(r"<[^>]+>", "", line(whole))
    assert text == "1 of 4 documents &lt;b&gt; (25.0 %)"
    assert re.findall(r'data-of="([^"]+)"', line(whole)) == ["/a/numerator", "/a/denominator", "/a/value"]
    one = {"value": 0.0, "numerator": 0, "denominator": 1, "unit": "documents"}
    assert re.sub(r"<[^>]+>", "", line(Node(one, "/a"))) == "0 of 1 documents (0.0 %)"
    count = {"value": 7, "numerator": 7, "denominator": 1, "unit": "files"}
    assert re.sub(r"<[^>]+>", "", line(Node(count, "/a"))) == "7 files"
    assert line(Node({"value": "not measured", "reason": "<no>"}, "/a")).count("&lt;no&gt;") == 1


@given(st.floats(0, 1))
def test_a_share_that_is_not_all_is_not_shown_as_all(value):
    shown = share(round(value, 6))
    assert (shown == "100.0 %") == (round(value, 6) == 1)
    assert (shown == "0.0 %") == (round(value, 6) == 0)
