"""language_id: verdicts of cases/language_id.jsonl, models and thresholds, and the line that the model is given."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, check_stage, run
from cleanpipe_stages.language_id import LanguageId
from cleanpipe_stages.lid.line import letters, line_of
from cleanpipe_stages.lid.model import KNOWN, digest, find_model, load

FILE = Path(__file__).parent / "cases" / "language_id.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
ENGLISH = CASES[0]["text"]


def stage(options):
    return LanguageId(**{k: tuple(v) if isinstance(v, list) else v for k, v in options.items()})


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["comment"][:50])
def test_case(case):
    out = run(stage(case.get("set", {})), batch(text=[case["text"]]))
    if case.get("loose"):  # what so few words are called is the model's whim; that they are not kept is not
        assert out.reasons[0] is not None
        return
    assert out.reasons == [case["reason"]]
    if case["language"]:
        assert out.scores[col.LANGUAGE] == [case["language"]]
    assert 0 <= out.scores[col.LANGUAGE_ID_SCORE][0] <= 1


def test_all_cases_in_one_batch():
    plain = [c for c in CASES if "set" not in c and not c.get("loose")]
    out = check_stage(LanguageId(), batch(text=[c["text"] for c in plain]))
    assert out.reasons == [c["reason"] for c in plain]
    scores = out.scores[col.LANGUAGE_ID_SCORE]
    assert scores == [round(s, 6) for s in scores]
    silent = [s for s, c in zip(scores, plain, strict=True) if c["reason"] == "no_text"]
    assert silent == [0.0] * 4
    assert all(s > 0 for s, c in zip(scores, plain, strict=True) if c["reason"] == "undetermined")


def test_capitals_score_as_small_letters_do():
    both = run(LanguageId(), batch(text=[ENGLISH.lower(), ENGLISH.upper()]))
    assert both.scores[col.LANGUAGE_ID_SCORE][0] == both.scores[col.LANGUAGE_ID_SCORE][1]


# models


def test_the_packaged_model_is_known_by_its_digest():
    path = find_model("")
    assert KNOWN[digest(path)].name == "lid.176.ftz"
    assert LanguageId().limits() == {"en": 0.65}
    assert find_model("lid.176.ftz") == path
    assert find_model(f"sha256:{digest(path)}@{path}") == path
    assert LanguageId(second_model=False).models() == {"language_id": path}
    assert sorted(LanguageId().models()) == ["language_id", "second"]


def test_another_digest_is_refused():
    with pytest.raises(ConfigError, match="has SHA-256 8f3472"):
        LanguageId(model="sha256:" + "0" * 64 + "@lid.176.ftz").check()


def test_a_renamed_model_is_known_all_the_same(tmp_path):
    other = shutil.copy(find_model(""), tmp_path / "whatever.bin")
    assert LanguageId(model=str(other)).limits() == {"en": 0.65}


@pytest.mark.parametrize("content", [None, b"", b"not a model at all", b"\xba\x16\x4f\x2f and then nothing right"])
def test_a_model_that_cannot_be_read(tmp_path, content):
    path = tmp_path / "model.ftz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"model\.ftz"):
        LanguageId(model=str(path)).open()


def test_a_cut_model_is_no_crash(tmp_path):
    path = tmp_path / "cut.ftz"
    path.write_bytes(find_model("").read_bytes()[:300_000])
    with pytest.raises(ConfigError, match="no threshold is known"):
        LanguageId(model=str(path)).open()


def test_an_unknown_model_needs_a_threshold_of_its_own(tmp_path):
    path = tmp_path / "own.ftz"
    path.write_bytes(find_model("").read_bytes() + b"\0")  # another digest, the same answers
    with pytest.raises(ConfigError, match=r"set language_id\.threshold"):
        LanguageId(model=str(path)).check()
    assert run(LanguageId(model=str(path), threshold=0.65), batch(text=[ENGLISH])).reasons == [None]
    assert LanguageId(model=str(path), thresholds={"en": 0.7}).limits() == {"en": 0.7}


def test_the_required_model_and_both_ways_out(tmp_path):
    with pytest.raises(ConfigError, match=r"asks for the language model lid\.176\.bin, found lid\.176\.ftz") as refused:
        LanguageId(require_model="lid.176.bin").check()
    assert "--set language_id.model=/path/to/lid.176.bin" in str(refused.value)
    assert "--set language_id.threshold=0.65" in str(refused.value)
    for half in ({"model": "lid.176.ftz"}, {"threshold": 0.65}):
        with pytest.raises(ConfigError, match="Two ways out"):
            LanguageId(require_model="lid.176.bin", **half).open()
    out = run(LanguageId(require_model="lid.176.bin", model="lid.176.ftz", threshold=0.65), batch(text=[ENGLISH]))
    assert out.reasons == [None]


@pytest.mark.parametrize(
    "options",
    [
        {"languages": ()},
        {"chars": 0},
        {"threshold": 1.5},
        {"thresholds": {"en": -0.1}},
        {"thresholds": {"fr": 0.5}},
    ],
)
def test_options_that_cannot_work(options):
    with pytest.raises(ConfigError, match="language_id"):
        LanguageId(**options).check()


# the line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("One\nline\r\nof\ttext", "One line of text"),
        ("a\0b\u2028c\u2029d\x85e\x1ff", "a b c d e f"),
        ("say __label__fr twice", "say fr twice"),
        ("__label____label__x", "x"),
        ("SHOUTING AT YOU", "shouting at you"),
        ("ΚΑΛΗΜΕΡΑ ΚΟΣΜΕ", "καλημερα κοσμε"),
        ("ДОБРОЕ УТРО, Igor", "доброе утро, igor"),
        (
            "The NASA probe was launched in May of the same year, as planned",
            "The NASA probe was launched in May of the same year, as planned",
        ),
        ("A Day At The Sea", "a day at the sea"),
        ("Доброе утро", "Доброе утро"),
        ("東京タワー", "東京タワー"),
        ("a lone \ud800 surrogate", "a lone  surrogate"),
        ("² ½ ① Ⅳ", ""),
        ("12 + 30 = 42 €", ""),
        ("", ""),
        ("é", "é"),
    ],
)
def test_line(text, line):
    assert line_of(text, 1024) == line


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_any_text_gives_one_line_that_the_model_takes(text):
    line = line_of(text, 1024)
    assert not set(line) & set("\n\r\0\x85\u2028\u2029")
    assert "__label__" not in line
    ((label, score),) = load(find_model(""))([line])
    assert label and 0 <= score <= 1 and score == round(score, 6)
    assert (label == "und") == (letters(line) == 0)
