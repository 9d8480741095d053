"""What the second model and the scripts make of lid.176's answers."""

from __future__ import annotations

import numpy as np
import pytest

from cleanpipe import batch as col
from cleanpipe.testing import batch, check_stage, run
from cleanpipe_stages.language_id import LanguageId
from cleanpipe_stages.lid.judge import GUESS
from cleanpipe_stages.lid.model import digest
from cleanpipe_stages.lid.scripts import SCRIPTS
from cleanpipe_stages.lid.second import _best_elsewhere, _weigh, shipped

ZULU = "Umgcini ukala isidleke ngasinye njalo kusihlwa futhi abhale inani ngaphakathi kwesivalo sebhokisi lezinyosi."
XHOSA = "Umgcini ulinganisa indlu nganye yeenyosi rhoqo ngokuhlwa aze abhale inani ngaphakathi kwesiciko sayo."
MAORI = "Ka paunatia e te kaitiaki ia whare pī i ia ahiahi, ā, ka tuhia te nama ki roto i te taupoki o te whare."
TSWANA = "Motlhokomedi o kala lentlwana lengwe le lengwe la dinotshe maitseboa mangwe le mangwe mme o kwala palo."


@pytest.mark.parametrize("text", [ZULU, XHOSA, MAORI, TSWANA])
def test_languages_the_model_lacks(text):
    out = run(LanguageId(), batch(text=[text]))
    assert out.scores[col.LANGUAGE] == ["und"]
    assert out.reasons == ["undetermined"]
    assert out.scores[col.LANGUAGE_ID_SCORE][0] > 0  # of the label that did not hold
    assert out.scores[GUESS][0] not in ("und", None)
    alone = run(LanguageId(second_model=False), batch(text=[text]))
    assert alone.scores[col.LANGUAGE] == out.scores[GUESS]


def test_without_checks_the_first_model_s_answer_stands():
    text = "Ꮒ ᎦᏓ ᎠᏂᏴᏫ ᏂᎨᎫᏓᎸᎾ ᎠᎴ ᎤᏂᏠᏱ ᎤᎾᏕᎿ ᏚᏳᎧᏛ ᎨᏒᎢ"
    as_it_is = LanguageId(check_script=False, second_model=False)
    assert run(as_it_is, batch(text=[text])).scores[col.LANGUAGE] != ["und"]
    assert run(LanguageId(), batch(text=[text])).scores[col.LANGUAGE] == ["und"]


def test_batches_do_not_matter():
    texts = [ZULU, "The keeper weighs each hive every evening and writes the figure down.", "", MAORI, "123"] * 3
    out = check_stage(LanguageId(segments="all"), batch(text=texts))
    assert out.reasons == ["undetermined", None, "no_text", "undetermined", "no_text"] * 3


# the first model's label, its score, its scores, the second's; label and score
INSIDE = frozenset({"en", "fi", "yo", "id", "ms", "no", "da"})
WEIGHED = [
    ("fi", 0.3, {"fi": 0.3}, [(0.9, "__label__fi"), (0.05, "__label__xho")], ("fi", 0.3), "both agree"),
    ("fi", 0.3, {"fi": 0.3}, [(0.7, "__label__xho"), (0.2, "__label__fi")], ("und", 0.3), "outside: 0.5 + 0.12"),
    ("fi", 0.3, {"fi": 0.3}, [(0.4, "__label__xho"), (0.3, "__label__mri")], ("und", 0.3), "outside in two parts"),
    ("fi", 0.98, {"fi": 0.98}, [(0.88, "__label__xho")], ("fi", 0.98), "a sure first is harder to overrule"),
    ("fi", 0.98, {"fi": 0.98}, [(0.9, "__label__xho")], ("und", 0.98), "and can be"),
    ("fi", 0.2, {"fi": 0.2, "yo": 0.1}, [(0.8, "__label__yo")], ("yo", 0.1), "another known language: its own score"),
    ("fi", 0.2, {"fi": 0.2}, [(0.8, "__label__yo")], ("yo", 0.0), "one the first did not think of"),
    ("fi", 0.2, {"fi": 0.2}, [(0.5, "__label__yo"), (0.1, "__label__fi")], ("fi", 0.2), "that is not enough for it"),
    ("id", 0.4, {"id": 0.4, "ms": 0.3}, [(0.99, "__label__ms")], ("id", 0.4), "too alike for the second"),
    ("no", 0.4, {"no": 0.4, "da": 0.35}, [(0.6, "__label__da"), (0.3, "__label__no")], ("da", 0.35), "near languages"),
    ("fi", 0.4, {"fi": 0.4}, [], ("fi", 0.4), "the second is silent"),
]


@pytest.mark.parametrize(("label", "score", "seen", "found", "expected", "why"), WEIGHED, ids=lambda x: str(x)[:40])
def test_weighing(label, score, seen, found, expected, why):
    assert _weigh(label, score, seen, found, INSIDE) == expected, why


PAGES_OF_TWO_SCRIPTS = [
    # letters of the two scripts, the first's label and its scores; the best of the other script
    ("fa", {"Arab": 238, "Latn": 585}, {"fa": 0.707, "en": 0.113, "mzn": 0.049, "sco": 0.031}, 0.113, "English"),
    ("ru", {"Cyrl": 400, "Latn": 435}, {"ru": 0.93, "uk": 0.009, "be": 0.006}, 0.0, "no language of the other script"),
    ("en", {"Cyrl": 400, "Latn": 435}, {"en": 0.5, "ru": 0.3, "uk": 0.1}, 0.3, "Russian"),
    ("en", {"Latn": 500}, {"en": 0.5, "fr": 0.3}, 0.0, "one script alone"),
]


@pytest.mark.parametrize(("label", "letters", "seen", "expected", "why"), PAGES_OF_TWO_SCRIPTS)
def test_the_best_of_the_other_script(label, letters, seen, expected, why):
    counts = np.array([letters.get(name, 0) for name in SCRIPTS], np.int64)
    assert _best_elsewhere(label, counts, seen) == expected, why


def test_the_shipped_model_is_the_one_of_the_card():
    assert shipped().stat().st_size < 1_000_000
    assert digest(shipped()) in (shipped().parent / "MODEL_CARD.md").read_text("utf-8")
