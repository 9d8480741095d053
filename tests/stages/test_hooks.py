"""What stages tell of themselves: words, cuts, and the verdict again from the ledger's columns, as each is defined."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.builtin import Decode, Normalise, read_in_words
from cleanpipe.options import ReadOptions
from cleanpipe.registry import catalogue, load
from cleanpipe.stage import Cut, Judge, Stage
from cleanpipe_stages.http_filter import HttpFilter
from cleanpipe_stages.language_id import LanguageId
from cleanpipe_stages.language_preview import LETTERS, LanguagePreview
from cleanpipe_stages.minhash_drop import MinhashDrop
from cleanpipe_stages.quality.judge import (
    CHARS,
    CORRECTED,
    DEFLATE,
    DIGITS,
    FIGURES,
    PARAGRAPH_MEAN,
    PARAGRAPH_P10,
    REPETITION,
)
from cleanpipe_stages.quality.scripts import is_latin
from cleanpipe_stages.quality_score import QualityScore
from cleanpipe_stages.utf8_normalize import Utf8Normalize
from cleanpipe_stages.windowing import Windowing

WORDS: list[tuple[Stage, list[str]]] = [
    (HttpFilter(statuses=(200, 203), types=("text/plain",)), ["200, 203", "text/plain"]),
    (HttpFilter(type_from="declared"), ["declared type"]),
    (LanguagePreview(languages=("en", "de"), confidence=0.8, letters=1200), ["en or de", "0.8", "1,200"]),
    (LanguageId(), ["en with a score of at least 0.65"]),
    (
        LanguageId(languages=("en", "de", "fr"), threshold=0.7, thresholds={"de": 0.9}),
        ["en or fr with a score of at least 0.7", "de with a score of at least 0.9"],
    ),
    (QualityScore(min_chars=1500, max_perplexity=2500), ["1,500", "2,500", "80 %", "3.4", "at least 100 characters"]),
    (QualityScore(max_digit_share=0), ["80 %"]),
    (MinhashDrop(threshold=0.9), ["at least 0.9"]),
    (Windowing(size=4096, overlap=128), ["4,096", "128"]),
    (Utf8Normalize(whitespace="space"), ["each run is one space"]),
    (Normalise(max_text=1000), ["1,000 bytes"]),
    (Decode(), ["byte order mark"]),
]


@pytest.mark.parametrize(("stage", "parts"), WORDS, ids=lambda v: v.name if isinstance(v, Stage) else "")
def test_in_words_with_the_values_in_force(stage: Stage, parts: list[str]) -> None:
    words = stage.in_words()
    assert all(part in words for part in parts), words
    assert words[0].isupper()
    assert words.endswith(".")


def test_a_limit_that_is_off_is_not_told() -> None:
    assert "digits" in QualityScore().in_words()
    assert "digits" not in QualityScore(max_digit_share=0).in_words()
    limits = ("min_entropy", "max_entropy", "min_ascii_share", "max_digit_share", "max_repetition", "min_deflate_ratio",
              "min_perplexity", "max_perplexity")  # fmt: skip
    none = QualityScore(**dict.fromkeys(limits, 0.0))
    assert none.cuts() == ()
    assert "no limit" in none.in_words()


def test_the_reader_too() -> None:
    assert "1,234 bytes" in read_in_words(ReadOptions(max_body=1234))


@pytest.mark.parametrize("name", sorted(catalogue()))
def test_hooks_fit_the_declaration(name: str) -> None:
    kind = load(catalogue()[name])
    stage = kind()
    assert len(stage.in_words()) > 20
    for cut in stage.cuts():
        assert cut.score in stage.scores
        assert cut.option in kind.__dataclass_fields__
        assert cut.reason in stage.reasons
        assert cut.at == round(cut.at, 6)
    judge = stage.judge()
    if judge is not None:
        assert judge.options <= set(kind.__dataclass_fields__)
        assert judge.columns <= {*stage.scores, *stage.reads, *stage.reads_optional}
    assert kind.ledger_only <= set(kind.scores)


def verdict(judge: Judge | None, **columns: tuple[Any, pa.DataType]) -> list[str | None]:
    assert judge is not None
    assert set(columns) >= judge.columns
    said = judge.judge(pa.RecordBatch.from_pydict({n: pa.array(v, t) for n, (v, t) in columns.items()}))
    assert said.type == pa.string()
    found: list[str | None] = said.to_pylist()
    return found


def keeps(cut: Cut, score: float) -> bool:
    return {">=": score >= cut.at, ">": score > cut.at, "<=": score <= cut.at, "<": score < cut.at}[cut.keeps]


LABELS = st.sampled_from(["en", "de", "und", "fr"])
SCORES = st.sampled_from([0.0, 0.4, 0.5, 0.649999, 0.65, 0.650001, 0.9, 1.0])


@given(st.lists(st.tuples(LABELS, SCORES), max_size=8), st.sampled_from([None, 0.5, 0.9, 0.0000004]))
def test_language_id(rows: list[tuple[str, float]], threshold: float | None) -> None:
    stage = LanguageId(languages=("en", "de"), threshold=threshold, thresholds={"de": 0.4})
    en = 0.65 if threshold is None else round(threshold, 6)
    expected: list[str | None] = []
    for label, score in rows:
        if label in ("en", "de"):
            expected.append(None if score >= {"en": en, "de": 0.4}[label] else "low_confidence")
        else:
            untold = "undetermined" if score else "no_text"
            expected.append(untold if label == "und" else "other_language")
    labels, scores = [r[0] for r in rows], [r[1] for r in rows]
    columns = {col.LANGUAGE: (labels, pa.string()), col.LANGUAGE_ID_SCORE: (scores, pa.float64())}
    assert verdict(stage.judge(), **columns) == expected
    by_language = {c.where[col.LANGUAGE]: c for c in stage.cuts()}
    for (label, score), reason in zip(rows, expected, strict=True):
        if label in by_language:
            assert keeps(by_language[label], score) == (reason is None)


LETTER = st.sampled_from([0, 99, 100, 101, 500])
SEEN = st.one_of(st.none(), st.tuples(LABELS, SCORES, LETTER))


@given(st.lists(SEEN, max_size=8), st.sampled_from([0.5, 0.65]), st.sampled_from([100, 101]))
def test_language_preview(rows: list[tuple[str, float, int] | None], confidence: float, least: int) -> None:
    stage = LanguagePreview(confidence=confidence, letters=least)
    columns = {
        col.LANGUAGE_PREVIEW: ([r and r[0] for r in rows], pa.string()),
        col.LANGUAGE_PREVIEW_SCORE: ([r and r[1] for r in rows], pa.float64()),
        LETTERS: ([r and r[2] for r in rows], pa.int32()),
    }
    expected = ["other_language" if r and r[0] != "en" and r[1] >= confidence and r[2] >= least else None for r in rows]
    assert verdict(stage.judge(), **columns) == expected
    for row, reason in zip(rows, expected, strict=True):
        if row and row[0] != "en":  # it stays if it keeps either cut
            values = {col.LANGUAGE_PREVIEW_SCORE: row[1], LETTERS: row[2]}
            assert any(keeps(c, values[c.score]) for c in stage.cuts()) == (reason is None)


KINDS = st.sampled_from(["response", "conversion", "resource", "revisit"])
STATUSES = st.sampled_from([None, 200, 203, 404])
TYPES = st.sampled_from([None, "text/html", "text/plain", "image/png"])
HTTP = st.sampled_from([None, True, False])


@given(
    st.lists(st.tuples(KINDS, STATUSES, HTTP, TYPES, TYPES), max_size=8),
    st.sampled_from([("table", 3), ("declared", 4)]),
    st.sampled_from([(200,), (200, 203)]),
)
def test_http_filter(rows: list[tuple[Any, ...]], by: tuple[Any, int], statuses: tuple[int, ...]) -> None:
    stage = HttpFilter(type_from=by[0], statuses=statuses, types=("text/html",))
    expected: list[str | None] = []
    for row in rows:
        kind, status, http = row[:3]
        wet = kind == "conversion"
        bare = wet or (kind == "resource" and not http)
        if not bare and http is False:
            expected.append("not_http")
        elif not bare and status is None:
            expected.append("unreadable_status")
        elif not bare and status not in statuses:
            expected.append("bad_status")
        else:
            expected.append(None if wet or row[by[1]] == "text/html" else "bad_type")
    names = (col.RECORD_TYPE, col.HTTP_STATUS, col.IS_HTTP, col.MEDIA_TYPE, col.DECLARED_TYPE)
    types = (pa.string(), pa.int16(), pa.bool_(), pa.string(), pa.string())
    columns = {n: ([r[i] for r in rows], t) for i, (n, t) in enumerate(zip(names, types, strict=True))}
    assert verdict(stage.judge(), **columns) == expected


SHARE = st.sampled_from([0.0, 0.1, 0.299999, 0.3, 0.5, 0.500001, 0.8, 0.800001, 1.0])
BITS = st.sampled_from([0.0, 3.4, 3.400001, 5.8, 5.800001, 8.0])
PERPLEXITY = st.sampled_from([None, 0.0, 2.9, 3.0, 10_000.0, 10_000.000001, 30_000.0, 30_000.000001, 1e9])
FIGURE = st.tuples(BITS, BITS, SHARE, SHARE, SHARE, SHARE)
OPTIONS: list[dict[str, Any]] = [
    {},
    {"min_chars": 60, "judge_from": 0},
    {"correct_entropy": False, "assume_language": "de"},
    {"min_entropy": 0.0, "max_entropy": 0.0, "min_perplexity": 0.0, "max_perplexity": 0.0},
    {"max_digit_share": 0.0, "max_repetition": 0.0, "min_deflate_ratio": 0.0, "min_ascii_share": 0.0},
    {"max_perplexity": 10_000.0, "max_paragraph_perplexity": 10_000.0},
    {"max_percentile": 50.0, "assume_language": "zh"},
]
QUALITY = st.tuples(
    st.sampled_from([0, 59, 60, 99, 100, 500]), st.sampled_from([None, "en", "zh", "pl"]), PERPLEXITY, FIGURE
)


@settings(max_examples=300, deadline=None)  # the first call reads the percentile tables
@given(st.lists(QUALITY, max_size=6), st.sampled_from(OPTIONS))
def test_quality_score(rows: list[tuple[int, str | None, float | None, tuple[float, ...]]], options: Any) -> None:
    stage = QualityScore(**options)
    limits = stage.limits()
    expected: list[str | None] = []
    for chars, language, perplexity, figures in rows:
        f = dict(zip(FIGURES, figures, strict=True))
        latin = is_latin(language or stage.assume_language or None)
        entropy = f[CORRECTED if stage.correct_entropy else col.ENTROPY]
        known = math.nan if perplexity is None else perplexity
        low, high, easiest = limits.perplexity.get(language or stage.assume_language, limits.perplexity[""])
        above = (0 < high < known and (easiest == 0 or easiest < known)) or 0 < limits.max_paragraph_perplexity < known
        looks_latin = latin or (latin is None and f[col.ASCII_SHARE] >= 0.5)
        rules = [
            ("repetitive", 0 < limits.max_repetition < f[REPETITION] or f[DEFLATE] < limits.min_deflate_ratio),
            ("many_digits", 0 < limits.max_digit_share < f[DIGITS]),
            ("low_ascii", latin and f[col.ASCII_SHARE] < limits.min_ascii_share),
            ("low_entropy", limits.min_entropy > 0 and entropy <= limits.min_entropy),
            ("high_entropy", looks_latin and 0 < limits.max_entropy < entropy),
            ("low_perplexity", known < low),
            ("high_perplexity", above),
        ]
        failed = [reason for reason, fails in rules if fails and chars >= limits.judge_from]
        expected.append("too_short" if chars < limits.min_chars else next(iter(failed), None))
    columns: dict[str, tuple[Any, pa.DataType]] = {
        CHARS: ([r[0] for r in rows], pa.int64()),
        col.LANGUAGE: ([r[1] for r in rows], pa.string()),
        col.PERPLEXITY: ([r[2] for r in rows], pa.float64()),
        PARAGRAPH_MEAN: ([r[2] for r in rows], pa.float64()),  # as of one paragraph
        PARAGRAPH_P10: ([r[2] for r in rows], pa.float64()),
    }
    columns |= {n: ([r[3][i] for r in rows], pa.float64()) for i, n in enumerate(FIGURES)}
    assert verdict(stage.judge(), **columns) == expected


@given(st.lists(QUALITY, min_size=1, max_size=20))
def test_rows_are_judged_one_by_one(rows: list[Any]) -> None:
    names = [CHARS, col.LANGUAGE, col.PERPLEXITY, PARAGRAPH_MEAN, PARAGRAPH_P10, *FIGURES]
    types = [pa.int64(), pa.string(), *[pa.float64()] * 9]
    values = zip(*([r[0], r[1], r[2], r[2], r[2], *r[3]] for r in rows), strict=True)
    arrays = [pa.array(v, t) for v, t in zip(values, types, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    judge = QualityScore().judge()
    whole = judge.judge(batch).to_pylist()
    parts = [judge.judge(batch.slice(i, 1)).to_pylist()[0] for i in range(batch.num_rows)]
    assert parts == whole
    some = np.arange(batch.num_rows) % 2 == 0
    assert judge.judge(batch.filter(pa.array(some))).to_pylist() == [w for w, s in zip(whole, some, strict=True) if s]
