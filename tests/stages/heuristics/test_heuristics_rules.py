"""The rules of Gopher, C4 and FineWeb at their limits: just below, at and above, by hand."""

from __future__ import annotations

import hashlib
import json
import time
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.registry import catalogue, load
from cleanpipe.stage import Stage
from cleanpipe.testing import Checked, batch, check_stage, run
from cleanpipe_stages.heuristics import bad_words

FILE = Path(__file__).parents[1] / "cases" / "heuristics.jsonl"
LIST = FILE.with_name("unwanted_words.txt")
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
STAGES = ("gopher_quality", "gopher_repetition", "c4_quality", "fineweb_quality", "text_shape")


def stage(name: str, **options: Any) -> Stage:
    if options.get("bad_words") == "BADWORDS":
        options["bad_words"] = str(LIST)
    return load(catalogue()[name])(**options)


def text_of(case: dict[str, Any]) -> str:
    """Texts are given in parts, each with how often it stands."""
    return "".join(part * times for part, times in case["text"])


def rows_of(texts: list[str], languages: list[str | None] | None = None) -> pa.RecordBatch:
    ids = [hashlib.sha256(t.encode()).digest()[:16] for t in texts]
    sizes = [len(t.encode()) for t in texts]
    return batch(text=texts, language=languages or ["en"] * len(texts), bytes=sizes, content_id=ids)


def judged(name: str, text: str, language: str | None = "en", **options: Any) -> Checked:
    return run(stage(name, **options), rows_of([text], [language]))


@pytest.mark.parametrize("case", CASES, ids=[f"{c['stage']}: {c['comment']}" for c in CASES])
def test_case(case: dict[str, Any]) -> None:
    done = judged(case["stage"], text_of(case), case.get("language", "en"), **case.get("set", {}))
    assert done.reasons == [case["reason"]]
    for name, value in case.get("scores", {}).items():
        assert done.scores[f"{case['stage']}_{name}"] == [pytest.approx(value, abs=1e-6)], name
    if "left" in case:
        assert done.rows.column(col.TEXT).to_pylist() == [case["left"]]


def test_cases_meet_every_reason() -> None:
    for name in STAGES:
        met = {c["reason"] for c in CASES if c["stage"] == name and c["reason"]}
        assert met == stage(name).reasons, name


TEXTS = [text_of(c) for c in CASES]


@pytest.mark.parametrize("name", STAGES)
def test_contract(name: str) -> None:
    check_stage(stage(name), rows_of(TEXTS, [c.get("language", "en") for c in CASES]))
    check_stage(stage(name), rows_of([]))


@pytest.mark.parametrize("name", STAGES)
def test_the_order_of_rows_changes_nothing(name: str) -> None:
    rng = np.random.default_rng(3)
    whole = run(stage(name), rows_of(TEXTS))
    order = rng.permutation(len(TEXTS))
    mixed = run(stage(name), rows_of([TEXTS[i] for i in order]))
    assert mixed.reasons == [whole.reasons[i] for i in order]
    for score, values in whole.scores.items():
        assert mixed.scores[score] == [values[i] for i in order], score


CHARS = st.sampled_from("aab  \n\n.,'’#-…1é中ไ\u0301_“”!{[]2")
ANY = st.text(CHARS, max_size=120) | st.lists(st.sampled_from(TEXTS), max_size=3).map("\n".join)


@given(st.lists(ANY, max_size=6), st.data())
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("name", STAGES)
def test_the_ledger_judges_as_the_step_did(name: str, texts: list[str], data: Any) -> None:
    """With the options of the run, and with others that only judge: as a second run with them."""
    kind = load(catalogue()[name])
    shown = kind().judge()
    assert shown is not None
    changed = {}
    for option in data.draw(st.sets(st.sampled_from(sorted(shown.options)), max_size=3)):
        default = getattr(kind(), option)
        if isinstance(default, bool):
            changed[option] = not default
        elif isinstance(default, int):
            changed[option] = data.draw(st.integers(0, 60))
        else:
            changed[option] = data.draw(st.sampled_from([0.0, 0.05, 0.123456, 0.5, 0.9, 1.0]))
    other = kind(**changed)
    try:
        other.check()
    except ConfigError:
        return
    rows = rows_of(texts)
    first, second = run(kind(), rows), run(other, rows)
    ledger = {n: pa.array(v, kind.scores[n]) for n, v in first.scores.items()}
    again = other.judge()
    assert again is not None
    assert again.judge(pa.RecordBatch.from_pydict(ledger)).to_pylist() == second.reasons
    assert shown.judge(pa.RecordBatch.from_pydict(ledger)).to_pylist() == first.reasons


@pytest.mark.parametrize("name", STAGES)
def test_cuts_and_words_tell_the_limits(name: str) -> None:
    made: Any = stage(name, **({"bad_words": "BADWORDS"} if name == "c4_quality" else {}))
    rules = made.rules()
    assert {r.reason for r in rules} == made.reasons
    assert {r.score for r in rules} <= set(made.scores)
    assert len(made.cuts()) == len([r for r in rules if r.at])
    for cut in made.cuts():
        assert cut.at == next(r.at for r in rules if r.reason == cut.reason)
    off = {r.option: 0 if isinstance(getattr(made, r.option), int) else 0.0 for r in rules if r.replays}
    off = {o: False if isinstance(getattr(made, o), bool) else v for o, v in off.items()}
    none: Any = stage(name, **off, **({"lines": "score"} if name == "c4_quality" else {}))
    assert none.cuts() == []
    assert none.in_words() == "Measures; no limit is on."
    assert run(none, rows_of(TEXTS)).reasons == [None] * len(TEXTS)


# text that is no running words


ODD = [
    "",
    "x",
    "one",
    ".",
    "\n",
    "中",
    "a" * 100_000,
    "中文" * 5000,
    "ไทย" * 3000,
    "#" * 3000,
    "😀 " * 500,
    "1 2 3 " * 200,
]


@pytest.mark.parametrize("name", STAGES)
def test_odd_texts_cost_nothing_but_themselves(name: str) -> None:
    good = text_of(next(c for c in CASES if c["comment"] == "prose" and c["stage"] == name))
    alone = run(stage(name), rows_of([good]))
    done = run(stage(name), rows_of([*ODD, good, *ODD]))
    assert done.reasons[len(ODD)] is None
    for score, values in alone.scores.items():
        assert done.scores[score][len(ODD)] == values[0]
        assert done.scores[score][: len(ODD)] == done.scores[score][len(ODD) + 1 :]


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("gopher_quality", {"words": "letters"}, "words = 'letters'"),
        ("gopher_quality", {"min_words": -1}, "min_words = -1"),
        ("gopher_quality", {"min_words": 60, "max_words": 50}, "max_words = 50: it must be at least min_words = 60"),
        ("gopher_quality", {"min_alpha_words": 80.0}, "min_alpha_words = 80.0: it must be from 0 to 1"),
        ("gopher_repetition", {"dup_line_frac": 1.2}, "dup_line_frac = 1.2: it must be from 0 to 1"),
        ("gopher_repetition", {"top_2_gram": float("nan")}, "top_2_gram = nan"),
        ("gopher_repetition", {"words": ""}, "words = ''"),
        ("fineweb_quality", {"max_char_dup_ratio": -0.1}, "max_char_dup_ratio = -0.1"),
        ("fineweb_quality", {"short_line_length": -3}, "short_line_length = -3"),
        ("fineweb_quality", {"words": "x"}, "words = 'x'"),
        ("c4_quality", {"max_word_length": -1}, "max_word_length = -1"),
        ("c4_quality", {"max_removed_lines": 2.0}, "max_removed_lines = 2.0"),
        ("c4_quality", {"bad_words": "/no/such/list"}, "/no/such/list"),
        ("text_shape", {"max_symbol_share": 1.5}, "max_symbol_share = 1.5"),
    ],
)
def test_options_that_cannot_work(name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        stage(name, **options).open()
    assert says in str(refused.value)


# C4 changes texts


@given(st.lists(ANY, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_what_c4_leaves_is_named_by_its_content(texts: list[str]) -> None:
    made = stage("c4_quality", min_sentences=0, terminal=False, min_words_per_line=0, curly_bracket=False)
    done = run(made, rows_of(texts))
    for row in done.rows.to_pylist():
        text = row[col.TEXT]
        assert text
        assert row[col.LENGTH] == len(text)
        assert row[col.BYTES] == len(text.encode())
        assert row[col.CONTENT_ID] == hashlib.sha256(text.encode()).digest()[:16]
        assert unicodedata.is_normalized("NFC", text)
        assert "\n\n" not in text


def test_scoring_alone_leaves_the_text_as_it_was() -> None:
    rows = rows_of(TEXTS)
    score = run(stage("c4_quality", lines="score"), rows)
    remove = run(stage("c4_quality"), rows)
    assert score.scores == remove.scores
    kept = [t for t, r in zip(TEXTS, score.reasons, strict=True) if r is None]
    assert score.rows.column(col.TEXT).to_pylist() == kept


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("The Darn cat.", 1),
        ("A darnel grows here; darning too.", 0),
        ("DARN, darn and darn!", 3),
        ("he went to the hot  dog stand", 0),
        ("a hot dog, a HOT DOG.", 2),
        ("我们不要坏词在这里", 1),
        ("nothing of the kind # at all", 0),
        ("", 0),
    ],
)
def test_unwanted_words_are_the_users(tmp_path: Path, text: str, count: int) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("# not a word\n\nDarn\nhot dog\n坏词\n", encoding="utf-8")
    done = judged("c4_quality", text, bad_words=str(listed), min_sentences=0, lines="score")
    assert done.scores["c4_quality_bad_words"] == [count]
    assert done.reasons == ["bad_words" if count else None]


@pytest.mark.parametrize("content", [b"", b"# only this\n", b"\xff\xfe\x00", b"a\0b\n", b"caf\xe9\n"])
def test_a_list_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    listed = tmp_path / "list.txt"
    listed.write_bytes(content)
    with pytest.raises(ConfigError, match=r"list\.txt"):
        stage("c4_quality", bad_words=str(listed)).open()


def test_a_long_list_is_read_in_one_pass_without_its_mark_of_byte_order(tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("\ufeffdarn\r" + "\r".join(f"word{i}" for i in range(100_000)), encoding="utf-8", newline="")
    began = time.process_time()
    count = bad_words.load(listed, "c4_quality")
    assert time.process_time() - began < 10  # 0.2 s here; a square would be half an hour
    assert [count("Darn word7 word99999 word100000"), count("no wording")] == [3, 0]
