"""The core's own two steps: decode and normalise."""

import hashlib
from functools import partial

import pytest

from cleanpipe import batch as col
from cleanpipe.builtin import Decode, Normalise
from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, check_stage, run
from cleanpipe.text.normalise import normalise, whitespace_rule


def page(**columns):
    n = len(next(iter(columns.values())))
    return batch(**{col.MEDIA_TYPE: [None] * n, col.URL: [f"http://a.example.org/{i}" for i in range(n)], **columns})


def test_text_is_the_scrubbed_or_the_markup_normalised_once():
    rows = page(
        markup=["<p>x", "WET  text \u200e", ""], scrubbed=["x\r\ny", None, None], media_type=["text/html", None, None]
    )
    done = check_stage(Normalise(), rows)
    assert done.rows.column(col.TEXT).to_pylist() == ["x\ny", "WET text"]
    assert done.reasons == [None, None, "empty_text"]
    assert done.rows.column(col.LENGTH).to_pylist() == [3, 8]
    assert done.rows.column(col.CONTENT_ID)[1].as_py() == hashlib.sha256(b"WET text").digest()[:16]
    assert col.MARKUP not in done.rows.schema.names


def test_what_was_repaired_is_counted_by_code_point():
    rows = page(markup=["a\u200eb\u200e\x00", "plain", "\u200e"])
    facts = run(Normalise(), rows).flowed.tally["normalise"]["facts"]
    assert facts["before U+200E"] == 3
    assert facts["before U+0000"] == 1
    assert facts["before documents"] == 2
    assert not [f for f in facts if f.startswith("after U+")]


def test_the_rule_of_the_recipe_is_used():
    assert run(Normalise(rule=whitespace_rule("space")), page(markup=["a\n\nb"])).rows.column(col.TEXT).to_pylist() == [
        "a b"
    ]


def test_a_text_above_the_limit_is_dropped():
    done = run(Normalise(max_text=4), page(markup=["four", "five5", "äöü"]))  # bytes, not characters
    assert done.reasons == [None, "too_large", "too_large"]


def test_html_that_nothing_scrubbed_is_refused():
    with pytest.raises(ConfigError, match=r"html_scrub is switched off.*a\.example\.org/1"):
        run(Normalise(), page(markup=["text", "<p>x"], media_type=[None, "text/html"]))


def test_decode_frees_the_bytes_and_drops_replacement_encodings():
    rows = page(
        body=["café".encode(), b"x", "é".encode("latin-1")],
        declared_charset=["utf-8", "hz-gb-2312", "iso-8859-1"],
        bytes_in=[5, 1, 1],
    )
    done = check_stage(Decode(), rows)
    assert done.reasons == [None, "replacement_encoding", None]
    assert done.rows.column(col.MARKUP).to_pylist() == ["café", "é"]
    assert done.rows.column(col.CHARSET).to_pylist() == ["utf-8", "windows-1252"]
    assert col.BODY not in done.rows.schema.names


def test_damage_is_scored_and_counted_of_every_row():
    rule = partial(normalise, mojibake=True)
    rows = page(markup=["cafÃ© noir\nfine", "a\ufffdb\ufffd", "\ue000\ue001xy", "plain", ""])
    flowed = run(Normalise(rule=rule), rows).flowed
    scores = {name: flowed.fates.column(name).to_pylist() for name in Normalise.scores}
    assert scores == {
        "replacement_share": [0, 0.5, 0, 0, 0],
        "private_share": [0, 0, 0.5, 0, 0],
        "private_run": [0, 0, 2, 0, 0],
        "mojibake_share": [0.5, 0, 0, 0, 0],
    }
    facts = flowed.tally["normalise"]["facts"]
    assert (facts["before mojibake_documents"], facts["before mojibake_lines"]) == (1, 1)
    assert "after mojibake_lines" not in facts
    left = run(Normalise(), rows).flowed.tally["normalise"]["facts"]  # the rule without that repair
    assert (left["before mojibake_lines"], left["after mojibake_lines"], left["after mojibake_documents"]) == (1, 1, 1)
