"""Words of the data card: YAML that parses whatever stands in it, sizes, languages, days."""

import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.card.facts import Card, captured, plain
from cleanpipe.card.readme import escape_all, quoted, size_category
from cleanpipe.recipe import load_recipe
from cleanpipe.tally import add


@given(st.text(st.characters(exclude_categories=[])))  # lone surrogates too
def test_a_quoted_scalar_is_the_text_again(text):
    line = quoted(text)
    assert "\n" not in line
    assert yaml.safe_load(f"a: {line}\nb: 1\n") == {"a": plain(text), "b": 1}


@pytest.mark.parametrize(
    "text", ["no", "yes", "null", "1", "- a", "---", "...", "#", "&a *a", "{a: b}", "a: b", "\u2028", ""]
)
def test_a_quoted_scalar_is_always_text(text):
    assert yaml.safe_load(quoted(text)) == text


@pytest.mark.parametrize(
    ("rows", "name"),
    [
        (0, "n<1K"),
        (999, "n<1K"),
        (1000, "1K<n<10K"),
        (9999, "1K<n<10K"),
        (10_000, "10K<n<100K"),
        (10**6, "1M<n<10M"),
        (10**9, "1B<n<10B"),
        (10**12 - 1, "100B<n<1T"),
        (10**12, "n>1T"),
        (10**15, "n>1T"),
    ],
)
def test_sizes_are_the_hubs(rows, name):
    assert size_category(rows) == name


def card(languages, days=()):
    audit = {"languages": languages if isinstance(languages, str) else {"kept": languages}}
    return Card(audit, load_recipe("web"), (), pa.schema([]), dict.fromkeys(days, 1))


@pytest.mark.parametrize(
    ("kept", "codes"),
    [
        ({"en": 5}, ["en"]),
        ({"de": 2, "en": 5, "fr": 2}, ["en", "de", "fr"]),  # of more documents first, then by name
        ({"no": 1}, ["no"]),
        ({"als": 3, "sh": 2, "bh": 1}, ["gsw", "hbs", "bih"]),  # Wikipedia's names; als is Tosk Albanian in ISO 639-3
        ({"und": 9, "eml": 2, "(others)": 4}, []),  # nothing that a hub would take
        ({"eng_Latn": 2, "zh-Hans": 1}, ["eng", "zh"]),
        ({"xx": 1, "EN": 1, "english": 1, "": 1, "e\nn": 1, "ceb": 1}, ["ceb"]),
        ({"en": 1, "en_US": 2}, ["en"]),
        ({}, []),
        ("not applicable", []),
    ],
)
def test_languages_are_iso_codes(kept, codes):
    assert card(kept).languages == codes


@pytest.mark.parametrize(
    ("days", "span"),
    [
        (["2024-05-17"], ("2024-05-17", "2024-05-17")),
        (["2024-05-17", "2008-01-02", "2023-12-31"], ("2008-01-02", "2024-05-17")),
        ([], None),
        (["12024-05-17", "-001-01-01"], None),  # no day that Croissant can say
    ],
)
def test_days_are_the_first_and_the_last(days, span):
    assert card({}, days).days == span


def rows(*found):
    """A ledger part of (fate, day or None)."""
    dates = pa.array([d and f"{d}T23:59:59" for _, d in found]).cast(pa.timestamp("s")).cast(pa.int64()).cast(col.TIME)
    given = {col.FATE: pa.array([f for f, _ in found], pa.string()), col.DATE: dates}
    return ledger.conform(given, len(found), ledger.schema({}))


def test_days_of_kept_documents_are_counted_and_halves_add_up():
    found = [
        ("kept", "2024-05-17"),
        ("dropped", "2020-01-01"),
        ("kept", None),
        ("kept", "2024-05-17"),
        ("kept", "1999-12-31"),
    ]
    whole = {"2024-05-17": 2, "1999-12-31": 1}
    assert captured(rows(*found)) == whole
    assert add(captured(rows(*found[:2])), captured(rows(*found[2:]))) == whole
    assert captured(rows()) == {}
    assert captured(rows(("dropped", "2020-01-01"))) == {}


@given(st.text(max_size=400))
def test_escaped_text_stays_one_line_without_markup(text):
    out = escape_all(text)
    assert "\n" not in out
    assert out.isprintable()
    bare = out
    for special in "\\`*{}[]<>()#|~!&":
        bare = bare.replace(f"\\{special}", "")
    assert not set("`*[]<>|~!") & set(bare)
