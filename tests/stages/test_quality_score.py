"""quality_score: figures against their textbook forms, verdicts from cases/quality_score.jsonl."""

from __future__ import annotations

import hashlib
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

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, check_stage, run
from cleanpipe_stages.quality import entropy, lm_text
from cleanpipe_stages.quality.judge import CORRECTED, DIGITS, REASONS
from cleanpipe_stages.quality.perplexity import SHIPPED, load_perplexity
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


# the model's text


def plain_lines(text: str) -> list[str]:
    """The rules of version 1, written down plainly."""
    text = text.lower()
    for old, new in zip("‘’“”–—", "''\"\"--", strict=True):
        text = text.replace(old, new)
    text = re.sub(r"\d", "0", text.replace("…", "...").replace("\u00ad", ""))
    text = re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", " ", text)
    return [" ".join(re.findall(r"[^\W_]+|[^\w\s]|_", line)) for line in text.split("\n")]


@given(ANY | st.text("aZ9_ \t\n.,'’“–…\u00ad\u00a0éЖß²٣界😀İ\u0301", max_size=80))
@settings(max_examples=300, deadline=None)
def test_lines_follow_their_rules(text):
    assert [b" ".join(line.split()).decode() for line in lm_text.lines(text)] == plain_lines(text)


def test_lines_by_hand():
    assert [b" ".join(x.split()) for x in lm_text.lines("It’s 2024:\nsnake_case(x)…\n\n Ünï")] == [
        b"it ' s 0000 :", b"snake _ case ( x ) . . .", b"", "ünï".encode(),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "chars", "head"),
    [
        ("one two three", 13, "one two three"),
        ("one two three", 10, "one two"),  # inside "three"
        ("one two three", 7, "one two"),  # just before a blank
        ("one two three", 8, "one two "),
        ("one\ntwo", 5, "one"),
        ("onetwothree", 5, "onetw"),  # nothing else is there
    ],
)
def test_head_leaves_out_the_word_that_is_cut(text, chars, head):
    assert lm_text.head(text, chars) == head


# perplexity

GOLDEN = {
    "The quick brown fox jumps over the lazy dog.": 2428.017572,
    "In the beginning God created the heaven and the earth.": 85.241864,
    "Click the button to open the dialog.": 13.890717,
    "Home\nAbout us\nContact\nPrivacy policy": 8293.025436,
    "colourless green ideas sleep furiously": 53170.158322,
    "Returns the number of items in the list.\nRaises ValueError if the list is empty.": 11.559333,
    "zxcv qwer asdf": 322588.847703,
}


@pytest.mark.parametrize("text", GOLDEN)
def test_golden_perplexity(text):
    """The model, its normaliser and the formula, held together: a change of any of them shows here."""
    assert scored(text).scores[col.PERPLEXITY] == [pytest.approx(GOLDEN[text], rel=1e-6)]


def test_formula_is_over_tokens_and_line_ends():
    import kenlm

    model = kenlm.Model(str(SHIPPED["en"]))
    first, second = model.score("the keeper weighs each hive ."), model.score("it ' s 00 .")
    expected = 10 ** (-(first + second) / (6 + 1 + 5 + 1))
    assert scored("The keeper weighs each hive.\n\nIt’s 12.").scores[col.PERPLEXITY] == [round(expected, 6)]


def test_prose_is_likelier_than_its_words_shuffled_than_noise():
    perplexity, rng = load_perplexity(SHIPPED["en"], 2048), random.Random(1)
    words = PROSE.split()
    rng.shuffle(words)
    noise = " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in words)
    measured = [perplexity(t) for t in (PROSE, " ".join(words), noise)]
    assert measured == sorted(measured)
    assert measured[1] > 2 * measured[0]
    assert measured[2] > 50 * measured[1]


def test_only_the_first_characters_are_read():
    long = PROSE + " " + "qzx " * 5000
    perplexity = scored(PROSE, long, chars=len(PROSE)).scores[col.PERPLEXITY]
    assert perplexity[0] == perplexity[1]
    assert scored(long, max_perplexity=0.0).scores[col.PERPLEXITY][0] > perplexity[0]


@pytest.mark.parametrize(
    ("options", "language", "text", "measured", "not_measured"),
    [
        ({}, "en", PROSE, True, 0),
        ({}, "de", PROSE, False, 1),
        ({}, None, PROSE, False, 1),
        ({"assume_language": "en"}, None, PROSE, True, 0),
        ({"assume_language": "en"}, "de", PROSE, False, 1),
        ({}, "en", " \n ", False, 1),
        ({"perplexity": "mlm"}, "en", PROSE, False, 1),
        ({"perplexity": "off"}, "en", PROSE, False, None),
    ],
)
def test_what_is_not_measured_is_null_and_counted(options, language, text, measured, not_measured):
    rows = batch(text=[text], language=[language])
    outcome = QualityScore(**options).open()(rows)
    assert outcome.scores[col.PERPLEXITY].is_valid().to_pylist() == [measured]
    assert outcome.facts.get("perplexity_not_measured") == not_measured
    assert outcome.drops.to_pylist() == [None]


# facts, scores, options


def test_every_score_is_written_for_dropped_rows():
    out = scored(PROSE, "the " * 200)
    assert out.reasons == [None, "repetitive"]
    assert all(value is not None for values in out.scores.values() for value in values)
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
        ({"perplexity": "causal"}, "choose one of ngram, mlm, off"),
        ({"model": "x.binary"}, "belong to the shipped model"),
        ({"model": "x.binary", "min_perplexity": 0.0}, "belong to the shipped model"),
        ({"model": "x.binary", "min_perplexity": 0.0, "max_perplexity": 0.0}, "model file not found: x.binary"),
        ({"min_entropy": -1.0}, "min_entropy = -1.0: it must be 0 or more"),
        ({"min_entropy": 6.0}, "max_entropy = 5.8: it must be above min_entropy = 6.0"),
        ({"max_perplexity": 5.0}, "max_perplexity = 5.0: it must be above min_perplexity = "),
        ({"chars": 0}, "chars = 0: it must be 1 or more"),
    ],
)
def test_options_that_cannot_work(options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        QualityScore(**options).open()


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "model.binary"
    path.write_bytes(b"\0" * 1000)
    with pytest.raises(ConfigError, match="cannot be read as a KenLM model"):
        QualityScore(model=str(path), min_perplexity=0.0, max_perplexity=0.0).open()


ARPA = """\\data\\
ngram 1=4
ngram 2=1

\\1-grams:
-1.0\t<unk>\t0
-99\t<s>\t0
-0.5\t</s>
-0.25\tkeeper\t0

\\2-grams:
-0.1\tkeeper </s>

\\end\\
"""


def test_another_model_measures_its_own_language(tmp_path):
    path = tmp_path / "de.arpa"
    path.write_text(ARPA)
    own = {"model": str(path), "model_language": "de", "min_perplexity": 0.0, "max_perplexity": 4.0}
    assert QualityScore(**own).models() == {"de": path}
    text = "Keeper other"
    # log10: keeper -0.25, unknown -1, end -0.5, over 3
    expected = round(10 ** (1.75 / 3), 6)
    assert scored(text, language="de", **own).scores[col.PERPLEXITY] == [pytest.approx(expected, abs=1e-5)]
    assert scored(text, language="en", **own).scores[col.PERPLEXITY] == [None]
    assert scored("keeper " * 40, language="de", **own, min_deflate_ratio=0.0, min_entropy=0.0).reasons == [None]
    assert scored("other x " * 40, language="de", **own, min_deflate_ratio=0.0, min_entropy=0.0).reasons == [
        "high_perplexity"
    ]


def test_the_shipped_model_is_what_its_card_says():
    card = (SHIPPED["en"].parent / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert hashlib.sha256(SHIPPED["en"].read_bytes()).hexdigest() in card
    assert SHIPPED["en"].stat().st_size <= 9_000_000
    assert f"version {lm_text.LM_TEXT_VERSION} " in card
    assert SHIPPED["en"].name == f"en.v{lm_text.LM_TEXT_VERSION}.binary"


def test_long_odd_texts_take_linear_time_and_never_raise():
    texts = ["x" * 3_000_000, "é\n" * 500_000, "😀" * 300_000, "\x00\x01", "\u0301" * 5000, "\u2028" * 200]
    assert len(scored(*texts).reasons) == len(texts)
