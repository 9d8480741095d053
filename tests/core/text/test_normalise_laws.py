"""Laws of normalise, on texts rich in what breaks them."""

from __future__ import annotations

import re
import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.text import normalise as module
from cleanpipe.text import unicode_tables as tables
from cleanpipe.text.normalise import INVISIBLE, NEVER, REPAIRS, WHITESPACE_RULES, normalise, text_facts


def characters(*names: str) -> list[str]:
    return [chr(p) for name in names for a, b in tables.spans(getattr(tables, name)) for p in range(a, b + 1)]


DECOMPOSED = [
    unicodedata.normalize("NFD", chr(p))
    for p in range(0x30000)
    if unicodedata.decomposition(chr(p)) and unicodedata.decomposition(chr(p))[0] != "<"
]
POOLS = [
    characters("MARKS"),
    characters("TAIL"),
    characters("JOINER_LETTERS"),
    characters("RTL_LETTERS"),
    characters("PICTOGRAPHIC"),
    sorted(INVISIBLE),
    sorted(NEVER - set(map(chr, range(0xD800, 0xE000)))),
    list("\ud800\udbff\udc00\udfff"),
    list(" \t\n\r\u00a0\u3000\u2028\u200e\u200f"),
    list("\u200c\u200d\u200c\u200d\ufe0f\U0001f3fd\U0001f3f4\U000e0067\U000e0062\U000e0031\U000e007f"),
    list("\u1100\u1161\u11a8\uac00\uac01\ua960\ud7b0\ud7cb"),
    [chr(p) for p in range(0x30000) if unicodedata.decomposition(chr(p))],
    DECOMPOSED,
    list("abcé ÅÑ.,;1"),
]
PIECES = st.one_of([st.sampled_from(pool) for pool in POOLS] + [st.characters()])
TEXTS = st.one_of(
    st.text(alphabet=st.characters(codec=None)),
    st.lists(PIECES, max_size=60).map("".join),
    # few kinds, long: runs
    st.lists(PIECES, min_size=1, max_size=4)
    .flatmap(lambda few: st.lists(st.sampled_from(few), max_size=90))
    .map("".join),
)
RULES = st.sampled_from(WHITESPACE_RULES)


@given(TEXTS, RULES)
@settings(max_examples=400, deadline=None)
def test_nothing_is_left_to_repair(text: str, whitespace: str) -> None:
    done = normalise(text, whitespace)
    assert normalise(done, whitespace) == done
    assert unicodedata.is_normalized("NFC", done)
    assert NEVER.isdisjoint(done)
    assert done.encode().decode() == done
    for repair, _ in REPAIRS:
        assert repair(done) == done, repair.__name__
    assert module.compose(done) == done


@given(TEXTS, RULES)
@settings(max_examples=200, deadline=None)
def test_letters_survive(text: str, whitespace: str) -> None:
    """Only white space, marks and invisible characters may be lost."""

    def visible(string: str) -> list[str]:
        nfd = unicodedata.normalize("NFD", re.sub("[\ud800-\udfff]", "\ufffd", string))
        return [c for c in nfd if not c.isspace() and c not in INVISIBLE and unicodedata.category(c)[0] != "M"]

    assert visible(normalise(text, whitespace)) == visible(text)


@given(st.text(alphabet=" \t\nab\u00a0\r", max_size=40))
@settings(max_examples=400, deadline=None)
def test_paragraphs_line_by_line(text: str) -> None:
    lines = re.sub("\r\n?", "\n", text).replace("\u00a0", " ").split("\n")
    tidy = []
    for line in lines:
        body = line.strip(" \t")
        indent = line[: len(line) - len(line.lstrip(" \t"))] if body else ""
        tidy.append(indent + re.sub("[ \t]+", " ", body))
    plain = re.sub("\n{3,}", "\n\n", "\n".join(tidy)).strip("\n")
    assert normalise(text) == plain
    assert normalise(text, "space") == " ".join(text.split())


@given(TEXTS, TEXTS)
@settings(max_examples=100, deadline=None)
def test_no_memory_of_other_texts(text: str, other: str) -> None:
    first = normalise(text)
    normalise(other)
    assert normalise(text) == first


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_facts_are_counts(text: str) -> None:
    done = normalise(text)
    facts = text_facts(text, done)
    assert facts.get("nuls_before", 0) == text.count("\0")
    assert facts.get("surrogates_before", 0) == len(re.findall("[\ud800-\udfff]", text))
    assert facts.get("private_use", 0) == sum(unicodedata.category(c) == "Co" for c in text)
    for c in set(text) & INVISIBLE:
        assert facts.get(f"invisible_before.U+{ord(c):04X}", 0) == text.count(c)
        assert facts.get(f"invisible_after.U+{ord(c):04X}", 0) == done.count(c)
    assert all(facts.values())
