"""quality_score: figures against their textbook forms, verdicts from cases/quality_score.jsonl."""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, check_stage, run
from cleanpipe_stages.quality import entropy
from cleanpipe_stages.quality.judge import CORRECTED, DIGITS, REASONS
from cleanpipe_stages.quality.measure import PARAGRAPHS
from cleanpipe_stages.quality.repetition import deflate_ratio, duplicate_line_share
from cleanpipe_stages.quality_score import QualityScore

FILE = Path(__file__).parent / "cases" / "quality_score.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
PROSE = (
    "The keeper weighs each hive every evening and writes the figure on the inside of the lid. "
    "Canal boats rise four metres in the lock, which takes about as long as boiling a kettle."
)


def scored(*texts: str, language: str | None = "en", **options: Any) -> Any:
    return run(QualityScore(**options), batch(text=list(texts), language=[language] * len(texts)))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["comment"][:50])
def test_case(case):
    text = case["text"] * case.get("times", 1)
    out = scored(text, language=case.get("language", "en"), **case.get("set", {}))
    assert out.reasons == [case["reason"]]


def test_cases_meet_every_reason_but_one():
    assert {c["reason"] for c in CASES if c["reason"]} == set(REASONS) - {"high_entropy", "low_perplexity"}


def test_bounds_that_no_short_case_shows():
    every = "".join(map(chr, range(33, 127))) * 4  # 94 characters equally often: log2(94) = 6.55 bits
    assert scored(every, perplexity="off", min_deflate_ratio=0.0).reasons == ["high_entropy"]
    assert scored(every, language="ru", perplexity="off", min_deflate_ratio=0.0).reasons == [None]
    dots = ". " * 200
    off = {"max_repetition": 0.0, "min_deflate_ratio": 0.0, "min_entropy": 0.0}
    assert scored(dots, **off).reasons == ["low_perplexity"]
    assert scored(dots, **off, min_perplexity=0.0).reasons == [None]


def test_contract():
    texts = [c["text"] * c.get("times", 1) for c in CASES]
    check_stage(QualityScore(), batch(text=texts, language=[c.get("language", "en") for c in CASES]))
    check_stage(QualityScore(), batch(text=[], language=[]))


# entropy


def textbook(text: str) -> float:
    n = len(text)
    return -math.fsum(c / n * math.log2(c / n) for c in Counter(text).values()) if n else 0.0


ANY = st.text(st.characters(blacklist_categories=("Cs",)), max_size=300)
FEW = st.text("ab \nüЖ界😀", max_size=200)


@given(ANY | FEW)
@settings(max_examples=300, deadline=None)
def test_figures_are_the_textbook_sums(text):
    figures = entropy.character_figures(text)
    n = max(len(text), 1)
    assert figures.entropy == pytest.approx(textbook(text), abs=1e-9)
    assert figures.corrected - figures.entropy == pytest.approx(
        max(len(set(text)) - 1, 0) / (2 * n * math.log(2)), abs=1e-9
    )
    assert figures.ascii_share == pytest.approx(sum(c.isascii() for c in text) / n, abs=1e-12)
    seen = max(sum(c not in " \t\n\v\f\r" for c in text), 1)
    assert figures.digit_share == pytest.approx(sum(c in "0123456789" for c in text) / seen, abs=1e-12)


@given(FEW)
@settings(max_examples=100, deadline=None)
def test_counting_in_pieces_changes_nothing(text):
    whole = entropy.character_figures(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entropy, "_CHUNK", 7)
        assert entropy.character_figures(text) == whole


@pytest.mark.parametrize(
    ("text", "bits"),
    [("", 0.0), ("aaaa", 0.0), ("abab", 1.0), ("abcd", 2.0), ("aab", 0.9182958340544896), ("😀😃", 1.0)],
)
def test_entropy_by_hand(text, bits):
    assert entropy.character_figures(text).entropy == pytest.approx(bits, abs=1e-12)


@given(ANY | FEW)
@settings(max_examples=200, deadline=None)
def test_no_text_has_more_entropy_than_its_length_allows(text):
    """A text of n code points has at most log2(n) bits, k distinct ones log2(k): a short one looks repetitive."""
    figures = entropy.character_figures(text)
    n, k = max(len(text), 1), max(len(set(text)), 1)
    assert 0 <= figures.entropy <= math.log2(k) + 1e-9 <= math.log2(n) + 2e-9
    assert figures.corrected >= figures.entropy


BOUNDS = [
    ("abcdefgh", "en", None, "8 letters have 3 bits at most, under the limit of 3.4: too short to be judged"),
    ("abcdefgh" * 13, "en", "low_entropy", "the same 3 bits where 104 letters could have 6.7"),
    ("".join(map(chr, range(0x4E00, 0x4E00 + 600))), "zh", None, "600 Chinese characters: 9.2 bits, no Latin text"),
    ("".join(map(chr, range(0xC0, 0xC0 + 100))) * 2, "fr", "low_ascii", "100 accented letters: ASCII comes first"),
    ("".join(map(chr, range(33, 127))) * 2, "fr", "high_entropy", "6.6 bits in a language of Latin letters"),
    ("".join(map(chr, range(33, 127))) * 2, "ru", None, "the same in another script's language: no bound"),
]


@pytest.mark.parametrize(("text", "language", "reason", "comment"), BOUNDS, ids=[c[:40] for *_, c in BOUNDS])
def test_bounds_of_entropy_by_script_and_length(text, language, reason, comment):
    off = {"perplexity": "off", "min_deflate_ratio": 0.0, "max_repetition": 0.0}
    assert scored(text, language=language, **off).reasons == [reason]


def test_correction_by_hand():
    # "abcd": 2 bits + (4 - 1) / (2 * 4 * ln 2)
    assert scored("abcd").scores[CORRECTED] == [round(2 + 3 / (8 * math.log(2)), 6)]


# repetition


@pytest.mark.parametrize(
    ("text", "share"),
    [("", 0.0), ("one line", 0.0), ("a\nb\nc", 0.0), ("ab\nab", 0.5), ("ab\nab\ncd", 1 / 3), ("\n\n\n", 0.0)],
)
def test_duplicate_lines(text, share):
    assert duplicate_line_share(text) == pytest.approx(share)


def test_deflate_reads_only_the_beginning():
    letters = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=4096))
    assert deflate_ratio("") == 0
    assert deflate_ratio("ab" * 2048) < 0.02
    assert 0.6 < deflate_ratio(letters) == deflate_ratio(letters + "a" * 10_000) < 0.7


# facts, scores, options


def test_every_score_is_written_for_dropped_rows():
    out = scored(PROSE, "the " * 200)
    assert out.reasons == [None, "repetitive"]
    assert all(value is not None for values in out.scores.values() for value in values)
    assert set(PARAGRAPHS) < set(out.scores)
    assert out.scores[DIGITS] == [0.0, 0.0]


def test_facts_tell_joint_failures_from_lone_ones():
    facts = (
        QualityScore()
        .open()(batch(text=["the " * 200, "Buy now, best price, click here!\n" * 20], language=["en"] * 2))
        .facts
    )
    # 200 times one word: also low entropy (2 bits); the line twenty times: nothing else
    assert facts["failed_repetitive"] == 2
    assert facts["alone_repetitive"] == 1
    assert facts["failed_low_entropy"] == 1
    assert facts["alone_low_entropy"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"perplexity": "kenlm"}, "choose one of ngram, mlm, causal, off"),
        ({"device": "tpu"}, "device = 'tpu': choose one of auto, cpu, cuda"),
        ({"dtype": "int8"}, "dtype = 'int8': choose one of"),
        ({"sample": 1.1}, "sample = 1.1: it must be from 0 to 1"),
        ({"batch_tokens": 0}, "batch_tokens = 0: it must be 1 or more"),
        ({"mlm_passes": -1}, "mlm_passes = -1: it must be 0 or more"),
        ({"max_percentile": 101.0}, "max_percentile = 101.0: it must be from 0 to 100"),
        ({"min_percentile": 60.0, "max_percentile": 50.0}, "(en): it must be above min_perplexity = "),
        ({"min_perplexity": -1.0}, "min_perplexity = -1.0: it must be 0 or more"),
        ({"max_paragraph_perplexity": -1.0}, "max_paragraph_perplexity = -1.0: it must be 0 or more"),
        ({"max_percentile": 99.0, "chars": 2048}, "another number of characters than chars = 2,048"),
        ({"percentiles": "none.json"}, "percentile table not found: none.json"),
        ({"model": "x.binary"}, "belong to the shipped model"),
        ({"model": "x.binary", "min_perplexity": 0.0}, "belong to the shipped model"),
        ({"model": "x.binary", "min_perplexity": 0.0, "max_perplexity": 0.0}, "model file not found: x.binary"),
        ({"min_entropy": -1.0}, "min_entropy = -1.0: it must be 0 or more"),
        ({"min_entropy": 6.0}, "max_entropy = 5.8: it must be above min_entropy = 6.0"),
        ({"max_perplexity": 2.0}, "max_perplexity = 2.0 (en): it must be above min_perplexity = "),
        ({"chars": 0}, "chars = 0: it must be 1 or more"),
    ],
)
def test_options_that_cannot_work(options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        QualityScore(**options).open()


def test_long_odd_texts_take_linear_time_and_never_raise():
    texts = ["x" * 3_000_000, "é\n" * 500_000, "😀" * 300_000, "\x00\x01", "\u0301" * 5000, "\u2028" * 200]
    assert len(scored(*texts).reasons) == len(texts)
