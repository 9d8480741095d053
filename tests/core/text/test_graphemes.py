"""Cluster boundaries: Unicode's own test file, cases by hand, and a second wording of the rules."""

from __future__ import annotations

import gzip
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.text import unicode_tables as tables
from cleanpipe.text.graphemes import REACH, Clusters, boundary_after, boundary_before

DATA = Path(__file__).parents[2] / "data" / "text"


def boundaries(text: str) -> list[int]:
    clusters = Clusters(text)
    return [i for i in range(len(text) + 1) if clusters.is_boundary(i)]


def split(text: str) -> list[str]:
    cuts = boundaries(text)
    return [text[a:b] for a, b in pairwise(cuts)]


def test_file_of_unicode() -> None:
    checked = 0
    for line in gzip.decompress((DATA / "GraphemeBreakTest-15.0.0.txt.gz").read_bytes()).decode().splitlines():
        tokens = line.partition("#")[0].split()
        if not tokens or "D800" in tokens:
            continue
        text, cuts = "", []
        for token in tokens:
            if token == "÷":
                cuts.append(len(text))
            elif token != "×":
                text += chr(int(token, 16))
        assert boundaries(text) == cuts, line
        checked += 1
    assert checked == 602


@pytest.mark.parametrize(
    ("text", "clusters"),
    [
        ("", []),
        ("ab c", ["a", "b", " ", "c"]),
        ("\r\n\n\r", ["\r\n", "\n", "\r"]),
        ("e\u0301x\u0323\u0301", ["e\u0301", "x\u0323\u0301"]),
        ("\u0301a", ["\u0301", "a"]),
        ("\n\u0301", ["\n", "\u0301"]),
        ("👩‍👩‍👧‍👦👨‍👩‍👧", ["👩‍👩‍👧‍👦", "👨‍👩‍👧"]),
        ("🧑🏽‍🚀👍🏿👍", ["🧑🏽‍🚀", "👍🏿", "👍"]),
        ("🏳️‍🌈❤️‍🔥", ["🏳️‍🌈", "❤️‍🔥"]),
        ("🏴󠁧󠁢󠁥󠁮󠁧󠁿🏴", ["🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🏴"]),
        ("a\u200d👩", ["a\u200d", "👩"]),
        ("🇩🇪🇫🇷🇯🇵", ["🇩🇪", "🇫🇷", "🇯🇵"]),
        ("x🇩🇪🇫", ["x", "🇩🇪", "🇫"]),
        ("🇩\u200d🇪🇫", ["🇩\u200d", "🇪🇫"]),
        ("1️⃣#⃣2", ["1️⃣", "#⃣", "2"]),
        (
            "\u1100\u1161\u11a8\u1100\uac00\u11a8\uac01\u11a8\uac01\u1161",
            ["\u1100\u1161\u11a8", "\u1100\uac00\u11a8", "\uac01\u11a8", "\uac01", "\u1161"],
        ),
        ("한국어", ["한", "국", "어"]),
        ("क्षत्रिय", ["क्ष", "त्रि", "य"]),
        ("क्\u200cष", ["क्\u200c", "ष"]),
        ("क्\u200dष", ["क्\u200dष"]),
        ("्क", ["्", "क"]),
        ("কষ্ট", ["ক", "ষ্ট"]),
        ("தமிழ்நாடு", ["த", "மி", "ழ்", "நா", "டு"]),
        ("กำนี้ที่", ["กำ", "นี้", "ที่"]),
        ("\u0600\u0661\u0661", ["\u0600\u0661", "\u0661"]),
        ("\u0600\n", ["\u0600", "\n"]),
        ("日本語", ["日", "本", "語"]),
        ("ﷺ\u200f", ["ﷺ", "\u200f"]),
    ],
)
def test_by_hand(text: str, clusters: list[str]) -> None:
    assert split(text) == clusters


def test_nearest_boundary() -> None:
    text = "ab👩‍👩‍👧‍👦cd"  # the family is 2 to 9
    assert [boundary_before(text, i) for i in range(len(text) + 1)] == [0, 1, 2, 2, 2, 2, 2, 2, 2, 9, 10, 11]
    assert [boundary_after(text, i) for i in range(len(text) + 1)] == [0, 1, 2, 9, 9, 9, 9, 9, 9, 9, 10, 11]
    assert boundary_before(text, 8, reach=6) == 2
    assert boundary_before(text, 8, reach=5) == 8
    assert boundary_after(text, 3, reach=6) == 9
    assert boundary_after(text, 3, reach=5) == 3


def test_reach_is_counted() -> None:
    text = "a" + "\u0301" * REACH + "b"  # a cluster of 33
    assert boundary_before(text, REACH) == 0
    assert boundary_after(text, 1) == REACH + 1
    longer = "a" + "\u0301" * (REACH + 5) + "b"
    clusters = Clusters(longer)
    assert clusters.before(REACH + 1) == REACH + 1
    assert clusters.after(2) == 2
    assert clusters.cuts == 2


@pytest.mark.parametrize("lead", ["", "x", "xx", "🇩"])
def test_pairs_of_a_long_run_of_flags(lead: str) -> None:
    text = lead + "🇩🇪" * 50_000 + "x"
    first = 0 if lead == "🇩" else len(lead)
    clusters, began = Clusters(text), time.process_time()
    for start in range(1536, 98_000, 1536):
        for edge in (start + 512, start):  # as windows ask
            assert (clusters.before(edge) - first) % 2 == 0
            assert (clusters.after(edge + 1) - first) % 2 == 0
    assert time.process_time() - began < 4  # counting each time anew would take minutes


def cls(*names: str) -> str:
    return f"[{tables.char_class(*(getattr(tables, name) for name in names))}]"


SYLLABLE_LV = "[" + "".join(chr(p) for p in range(0xAC00, 0xD7A4, 28)) + "]"
EXTENDING = f"(?:{cls('GRAPHEME_EXTEND', 'CONJUNCT_LINKER')}|[\u200c\u200d])"
JOINING = cls("GRAPHEME_EXTEND", "CONJUNCT_LINKER")[:-1] + "\u200d]"  # InCB=Extend and Linker
CLUSTER = re.compile(  # UAX #29, table 1c
    f"\r\n|{cls('GRAPHEME_CONTROL')}|[\r\n]"
    f"|(?:{cls('GRAPHEME_PREPEND')}(?![\r\n]|{cls('GRAPHEME_CONTROL')}))*"
    f"(?:{cls('HANGUL_L')}*(?:{SYLLABLE_LV}{cls('HANGUL_V')}*|[\uac00-\ud7a3]|{cls('HANGUL_V')}+){cls('HANGUL_T')}*"
    f"|{cls('HANGUL_L')}+|{cls('HANGUL_T')}+"
    "|[\U0001f1e6-\U0001f1ff]{2}"
    f"|{cls('PICTOGRAPHIC')}(?:{EXTENDING}*\u200d{cls('PICTOGRAPHIC')})*"
    f"|{cls('CONJUNCT_CONSONANT')}(?:{JOINING}*{cls('CONJUNCT_LINKER')}{JOINING}*{cls('CONJUNCT_CONSONANT')})*"
    f"|(?!{cls('GRAPHEME_CONTROL')})[^\r\n])"
    f"(?:{EXTENDING}|{cls('GRAPHEME_SPACING_MARK')})*",
    re.DOTALL,
)


def pool(*names: str) -> st.SearchStrategy[str]:
    return st.sampled_from(
        [chr(p) for n in names for a, b in tables.spans(getattr(tables, n)) for p in range(a, b + 1)]
    )


PIECES = st.one_of(
    *(pool(name) for name in vars(tables) if name.startswith(("GRAPHEME", "HANGUL", "CONJUNCT", "PICT"))),
    st.sampled_from("\u200d\u200d\u200c\r\n ab\u0915\u094d\u0937"),
    st.integers(0xAC00, 0xD7A3).map(chr),
    st.integers(0x1F1E6, 0x1F1FF).map(chr),
)


@given(st.lists(PIECES, max_size=14).map("".join))
@settings(max_examples=600, deadline=None)
def test_the_rules_as_one_expression(text: str) -> None:
    assert split(text) == CLUSTER.findall(text)


@given(st.one_of(st.lists(PIECES, max_size=40).map("".join), st.text("🇩🇪🇫x", max_size=80)), st.data())
@settings(max_examples=150, deadline=None)
def test_the_order_of_questions_does_not_matter(text: str, data: st.DataObject) -> None:
    clusters = Clusters(text)
    order = data.draw(st.permutations(range(len(text) + 1)))
    asked = {i: clusters.is_boundary(i) for i in order}
    assert sorted(i for i, yes in asked.items() if yes) == boundaries(text)
    assert boundaries(text) == [i for i in range(len(text) + 1) if Clusters(text).is_boundary(i)]  # nothing remembered
