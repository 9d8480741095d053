"""The classifier that reads fastText's files says what fastText says."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import fasttext
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe_stages.lid import linear
from cleanpipe_stages.lid.linear import Classifier, UnfitModelError, read_model
from cleanpipe_stages.lid.model import find_model
from cleanpipe_stages.lid.second import shipped

MODELS = {"lid.176.ftz": find_model(""), "second": shipped()}
NEAR = 3e-6  # fastText adds in 32 bits, we in 64

LINES = [  # line, why
    ("the quick brown fox jumps over the lazy dog", "plain words"),
    ("de in and la", "words of the model's own list"),
    ("Der Kaffee wird in kleinen Kannen über offenem Feuer gekocht und sehr süß getrunken", "two bytes a letter"),
    ("Солнце взошло над рекой, и рыбаки вышли на берег", "Cyrillic"),
    ("渡し船は夜明け前に港を出て、島の市場へ野菜を運ぶ。", "three bytes a letter, one word of the whole line"),
    ("𐍅𐌿𐌻𐍆𐌹𐌻𐌰 𝒶𝒷𝒸 👩‍👩‍👧", "four bytes a letter"),
    ("a", "one letter: its n-grams are <a and a>, never < alone"),
    ("x y z", "words of one letter"),
    ("<b> </b> > <", "the marks of a word's ends as text"),
    ("naïve naïve naïve", "the same word again"),
    ("\ufffd\ufffd", "what no n-gram knows"),
    ("1234 5678", "digits"),
]


@lru_cache
def both(name: str) -> tuple[Classifier, object]:
    return Classifier(read_model(MODELS[name])), fasttext.load_model(str(MODELS[name])).f


def compare(name: str, line: str) -> None:
    ours, theirs = both(name)
    told = {label.removeprefix("__label__"): p for p, label in theirs.predict(line + "\n", -1, 0.0, "strict")}
    found = dict(zip(ours.labels, ours.probabilities([line])[0], strict=True))
    assert {label: p for label, p in told.items() if abs(found[label] - p) > NEAR} == {}
    assert len(told) == 0 or max(found, key=found.__getitem__) == max(told, key=told.__getitem__)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("line", "why"), LINES, ids=[why for _, why in LINES])
def test_every_label_has_fasttexts_probability(name: str, line: str, why: str) -> None:
    compare(name, line)


def test_the_name_of_the_lines_end_does_not_end_it() -> None:
    """fastText reads no further; to a reader it is text."""
    ours, theirs = both("lid.176.ftz")
    line = "</s> Der Kaffee wird in kleinen Kannen über offenem Feuer gekocht"
    assert ours.labels[int(ours.probabilities([line])[0].argmax())] == "de"
    assert theirs.predict(line + "\n", 1, 0.0, "strict")[0][1] != "__label__de"


words = st.text(st.characters(exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=12)


@settings(max_examples=150, deadline=None)
@given(st.lists(words, min_size=1, max_size=12), st.sampled_from(sorted(MODELS)))
def test_any_line(line: list[str], name: str) -> None:
    compare(name, " ".join(line))


def test_neither_company_nor_what_is_remembered_changes_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [line for line, _ in LINES] * 40
    model = read_model(MODELS["lid.176.ftz"])
    whole = Classifier(model).probabilities(lines)
    alone = np.concatenate([Classifier(model).probabilities([line]) for line in lines[: len(LINES)]] * 40)
    assert np.array_equal(whole, alone)
    monkeypatch.setattr(linear, "_KEPT", 5)
    monkeypatch.setattr(linear, "_LINES", 3)
    assert np.array_equal(Classifier(model).probabilities(lines[::-1])[::-1], whole)


def test_no_lines() -> None:
    assert Classifier(read_model(MODELS["lid.176.ftz"])).probabilities([]).shape == (0, 176)


@pytest.mark.parametrize("cut", [0, 3, 8, 60, 5_000, 400_000, -1])
def test_a_damaged_file_is_unfit(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.ftz"
    path.write_bytes(MODELS["lid.176.ftz"].read_bytes()[:cut])
    with pytest.raises(UnfitModelError):
        read_model(path)
