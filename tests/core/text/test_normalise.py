"""Repairs of text: examples as data, limits, costs and what the audit is told."""

from __future__ import annotations

import json
import time
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe.text import normalise as module
from cleanpipe.text import unicode_tables as tables
from cleanpipe.text.normalise import (
    INVISIBLE,
    MAX_INDENT,
    MAX_MARKS,
    NEVER,
    invisible_counts,
    normalise,
    odd_characters,
    text_facts,
)

DATA = Path(__file__).parents[2] / "data" / "text" / "normalise.jsonl"
CASES = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", CASES, ids=[case["comment"] for case in CASES])
def test_cases(case: dict[str, str]) -> None:
    rule = case.get("whitespace", "paragraphs")
    assert ascii(normalise(case["in"], rule)) == ascii(case["out"])
    assert normalise(case["out"], rule) == case["out"]


def test_unknown_white_space_rule() -> None:
    with pytest.raises(ConfigError, match="paragraphs, space"):
        normalise("text", "spaces")


@pytest.mark.parametrize(
    "mark", ["\u0301", "\u0301\u0323", "\u0344", "\u0941\u0301", "\U0001d165", "\ufe0f", "\u200d\u0301"]
)
def test_mark_runs_are_cut(mark: str) -> None:
    text = normalise("xe" + mark * 40 + "y")
    assert text[0] == "x"
    assert text[-1] == "y"
    assert 2 <= len(text) - 2 <= MAX_MARKS + 2
    assert unicodedata.is_normalized("NFC", text)


def test_a_run_as_long_as_the_limit_stays() -> None:
    kept = "x" + "\u0301" * MAX_MARKS + "y"  # no letter of Unicode is an x with an acute
    assert normalise(kept) == kept
    for shift in range(MAX_MARKS):  # the search looks at every 32nd character
        assert normalise("a" * shift + kept[:-1] + "\u0301\u0301y") == "a" * shift + kept


def test_indentation_is_cut() -> None:
    for blank in (" ", "\t", " \t"):
        line = blank * 200_000 + "x"
        assert normalise(f"{line}\na\n{line}") == f"{line[:MAX_INDENT]}x\na\n{line[:MAX_INDENT]}x"


HARD = {
    "marks of alternating class": "e" + "\u0301\u0323" * 300_000,
    "marks that are two": "e" + "\u0344" * 600_000,
    "marks beyond the basic plane": "e" + "\U0001d165\U0001d16d" * 300_000,
    "runs just below the limit": ("e" + "\u0301\u0323" * 16) * 18_000,
    "leading consonants": "\u1100" * 600_000,
    "jamo": "\u1100\u1161\u11a8" * 200_000,
    "composition exclusions": "\u0958" * 600_000,
    "joiners": "\u200d" * 600_000,
    "two joiners in turn": "\u200c\u200d" * 300_000,
    "joiners in letters": "\u200ca" * 300_000,
    "skin tones": "\U0001f3fb" * 600_000 + "\u200d",
    "skin tones with joiners": "\U0001f3fb\u200d" * 300_000,
    "spacing marks with joiners": "\u0903\u200d" * 300_000,
    "tags": "\U000e0041" * 600_000,
    "flags without end": "\U0001f3f4\U000e0061" * 300_000,
    "blanks before a letter": "a" + " \t" * 300_000 + "x",
    "blanks at an end": "a" + " \t" * 300_000,
    "lines of blanks": " \t\n" * 200_000,
    "line breaks": "\n" * 600_000,
    "indented lines": ("\n" + " " * 299 + "x") * 2_000,
    "surrogates": "\ud800\udc00" * 300_000,
    "all surrogates": "".join(map(chr, range(0xD800, 0xE000))) * 300,
    "all invisible characters": "".join(sorted(INVISIBLE)) * 1_500,
    "all of private use": "".join(map(chr, range(0xF0000, 0xFFFFE))) * 9,
    "vowel separators": "\u180e" * 600_000,
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("whitespace", module.WHITESPACE_RULES)
def test_hard_texts_cost_linear_time(name: str, whitespace: str) -> None:
    text = HARD[name]
    began = time.process_time()
    done = normalise(text, whitespace)
    text_facts(text, done)
    assert time.process_time() - began < 4  # a tenth of it is usual; what is quadratic takes minutes
    assert (normalise(done, whitespace) == done) is True  # not compared by pytest: the difference would take hours


def test_odd_characters_finds_them_in_every_chunk() -> None:
    for at in (0, 1, 65_535, 65_536, 65_537, 200_000):
        text = "\u200e" + "a" * at + "\u202e" + "b" * 10
        assert odd_characters(text) == {"\u200e", "\u202e"}
    assert odd_characters("plain\n\ttext") == set()
    assert odd_characters("déjà vu – 日本") == set()


def test_invisible_counts() -> None:
    assert invisible_counts("plain text\n") == {}
    assert invisible_counts("a\u200e\u200eb\0\ufeff\U000e0041\u00a0\t") == {
        "U+0000": 1,
        "U+200E": 2,
        "U+FEFF": 1,
        "U+E0041": 1,
    }
    every = "".join(sorted(INVISIBLE))
    assert invisible_counts(every * 3) == {f"U+{ord(c):04X}": 3 for c in every}


def test_text_facts() -> None:
    before = "a\0b\ud800  c\r\n\r\nd\u00a0 e\u200e\ue000 f\ufffd\u200d\U000f0000"
    facts = text_facts(before, normalise(before))
    assert facts == {
        "nuls_before": 1,
        "surrogates_before": 1,
        "invalid_before": 1,
        "invalid_after": 2,
        "private_use": 2,
        "white_runs_before": 3,  # two spaces; two line breaks; no-break space and space
        "white_runs_after": 1,  # the empty line
        "invisible_before.U+0000": 1,
        "invisible_before.U+200D": 1,
        "invisible_before.U+200E": 1,
    }
    assert text_facts("plain text", "plain text") == {}
    kept = text_facts("שלום\u200f", "שלום\u200f")
    assert kept == {"invisible_before.U+200F": 1, "invisible_after.U+200F": 1}


def test_constants_of_the_rules() -> None:
    """The characters that the rules name, spelled out once more: a slip in a range would show here."""
    named = {*range(9), *range(0x0E, 0x20), *range(0x7F, 0xA0), 0xAD, 0x200B, 0xFEFF, *range(0x202A, 0x202F)}
    named |= {*range(0x2066, 0x206A), *range(0xD800, 0xE000), 0xB, 0xC, 0xD, 0x2028, 0x2029, 0xA0, 0x3000}
    never = {ord(c) for c in NEVER}
    assert named <= never
    assert never.isdisjoint(
        {0x09, 0x0A, 0x20, 0x200C, 0x200D, 0x200E, 0x200F, 0xFFFD, 0xE0061, 0xE007F, 0x2011, 0x2800}
    )
    blanks = {p for p in range(0x110000) if unicodedata.category(chr(p)) in ("Zs", "Zl", "Zp")}
    assert blanks - {0x20} <= never
    assert all(unicodedata.category(chr(p)) in ("Cc", "Cf", "Cn", "Cs", "Zs", "Zl", "Zp") for p in never)


def test_every_repair_is_public_and_documented() -> None:
    for repair, triggers in module.REPAIRS:
        assert repair.__doc__
        assert triggers
        found: Any = getattr(module, repair.__name__)
        assert found is repair


def test_every_mark_is_counted() -> None:
    for first, last in tables.spans(tables.MARKS):
        for mark in map(chr, range(first, last + 1)):
            assert len(module.cut_mark_runs("x" + mark * 40 + "y")) == MAX_MARKS + 2, f"U+{ord(mark):04X}"


def test_joiners_are_judged_across_every_mark() -> None:
    for first, last in tables.spans(tables.TAIL):
        for mark in map(chr, range(first, last + 1)):
            if mark not in "\u200c\u200d":
                kept, loose = f"ک{mark}\u200c{mark}ک", f"a{mark}\u200c{mark}a"
                assert module.drop_loose_joiners(kept) == kept, f"U+{ord(mark):04X}"
                assert module.drop_loose_joiners(loose) == f"a{mark}{mark}a", f"U+{ord(mark):04X}"


@pytest.mark.parametrize(
    ("whitespace", "text", "repaired"),
    [
        ("space", "left\0right", "left right"),
        ("space", "a \0\0 b\0", "a b"),
        ("paragraphs", "left\0right", "leftright"),
    ],
)
def test_nul_is_replaced_by_the_literal_rule_and_removed_by_the_default(
    whitespace: str, text: str, repaired: str
) -> None:
    assert normalise(text, whitespace) == repaired
    assert normalise(repaired, whitespace) == repaired
