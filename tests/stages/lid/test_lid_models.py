"""Models by path: one with labels as GlotLID, OpenLID and lid218e write them, end to end; and what ties to a digest."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, check_stage, run
from cleanpipe_stages.language_id import LanguageId
from cleanpipe_stages.lid.judge import SCRIPT
from cleanpipe_stages.lid.model import KNOWN, clean, digest, find_model, labels_of, load
from cleanpipe_stages.lid.second import shipped

MODEL = Path(__file__).parents[2] / "data" / "languages" / "script-labels.ftz"  # 14 labels, see the README beside it
ENGLISH = "Everyone has the right to education, and the keeper weighs each hive every evening and writes it down."
GERMAN = "Der Wärter wiegt jeden Abend jeden Bienenstock und schreibt die Zahl auf die Innenseite des Deckels."
CYRILLIC = "Свако има право на слободно учешће у културном животу заједнице, уживање у уметности."
LATIN = "Svako ima pravo na slobodno učešće u kulturnom životu zajednice, uživanje u umetnosti."
SIMPLIFIED = "人人有权自由参加社会的文化生活,享受艺术,并分享科学进步及其产生的福利。"
TRADITIONAL = "人人有權自由參加社會的文化生活,享受藝術,並分享科學進步及其產生的福利。"
TEXTS = [ENGLISH, GERMAN, CYRILLIC, LATIN, SIMPLIFIED, TRADITIONAL]


def stage(*languages, **options):
    return LanguageId(model=str(MODEL), languages=languages, threshold=0.3, **options)


def kept(of):
    return [reason is None for reason in run(of, batch(text=TEXTS)).reasons]


@pytest.mark.parametrize(
    ("languages", "expected"),
    [
        (("en",), [1, 0, 0, 0, 0, 0]),
        (("eng",), [1, 0, 0, 0, 0, 0]),
        (("eng_Latn", "de"), [1, 1, 0, 0, 0, 0]),
        (("sr",), [0, 0, 1, 1, 0, 0]),
        (("sr_Cyrl",), [0, 0, 1, 0, 0, 0]),
        (("srp_Latn",), [0, 0, 0, 1, 0, 0]),
        (("zh",), [0, 0, 0, 0, 1, 1]),
        (("zh_Hant",), [0, 0, 0, 0, 0, 1]),
        (("cmn_Hans", "English"), [1, 0, 0, 0, 1, 0]),
    ],
)
def test_languages_as_users_name_them(languages, expected):
    assert kept(stage(*languages)) == [bool(x) for x in expected]


def test_codes_and_scripts_are_written_not_labels():
    out = check_stage(stage("en"), batch(text=TEXTS))
    assert out.scores[col.LANGUAGE] == ["en", "de", "sr", "sr", "zh", "zh"]
    assert out.scores[SCRIPT] == ["Latn", "Latn", "Cyrl", "Latn", "Hans", "Hant"]
    assert load(MODEL)(["everyone has the right to education"])[0][0] == "en"  # language_preview's way in


def test_the_second_model_does_not_speak_against_a_model_of_more_languages():
    assert set(stage("en").models()) == {"language_id"}
    assert set(LanguageId().models()) == {"language_id", "second"}
    assert set(LanguageId(second_model=False).models()) == {"language_id"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"languages": ("it",), "threshold": 0.5}, "has no language 'it'"),
        ({"languages": ("sr_Arab",), "threshold": 0.5}, "knows sr as sr_Cyrl and sr_Latn"),
        ({"languages": ("sr_Latn", "sr_Cyrl"), "threshold": 0.5}, "names sr twice"),
        ({"languages": ("en",)}, "no threshold is known"),
        ({"languages": ("en",), "precision": 0.9}, "nothing was measured of the model"),
        ({"languages": ("en",), "threshold": 0.5, "thresholds": {"deu": 0.5}}, "thresholds names 'de'"),
    ],
)
def test_what_cannot_be_asked_of_it(options, said):
    with pytest.raises(ConfigError, match=said):
        LanguageId(model=str(MODEL), **options).check()


def test_thresholds_go_by_digest_not_by_name(tmp_path):
    """A model of another digest has no threshold and no curve, whatever it is called."""
    as_packaged = shutil.copy(MODEL, tmp_path / "lid.176.ftz")
    with pytest.raises(ConfigError, match="no threshold is known"):
        LanguageId(model=str(as_packaged)).check()
    again = LanguageId(model=f"sha256:{digest(MODEL)}@{MODEL}", threshold=0.3, languages=("zh-Hans",))
    assert kept(again) == [False, False, False, False, True, False]


def test_a_language_that_a_model_knows_poorly_gets_its_own_threshold():
    """lid218e is weak on Chinese and Japanese: nothing of lid.176's is taken over, and each language has its own."""
    with pytest.raises(ConfigError, match="no threshold is known"):
        LanguageId(model=str(MODEL), languages=("en", "zh"), thresholds={"zh": 0.9}).check()
    strict = stage("en", "zh", thresholds={"zho_Hans": 1.0})
    assert strict.limits() == {"en": 0.3, "zh": 1.0}
    assert run(strict, batch(text=TEXTS)).reasons[4:] == ["low_confidence"] * 2
    assert kept(strict)[0]


def test_thresholds_of_several_languages():
    both = LanguageId(languages=("eng", "fra", "deu"), thresholds={"fr": 0.9})
    assert both.limits() == {"en": 0.65, "fr": 0.9, "de": 0.5}
    assert LanguageId(languages=("en", "fra"), threshold=0.7, thresholds={"fra": 0.9}).limits() == {
        "en": 0.7,
        "fr": 0.9,
    }
    assert LanguageId(languages=("nb", "no")).limits().keys() == {"no"}


def test_precision_picks_thresholds_and_explicit_ones_win():
    at = [LanguageId(languages=("en",), precision=p).limits()["en"] for p in (0.9, 0.95, 0.98, 0.99)]
    assert at == sorted(at)
    assert at[0] < 0.65 < at[-1]
    assert LanguageId(languages=("en", "fr"), precision=0.99, thresholds={"fr": 0.2}).limits()["fr"] == 0.2
    assert LanguageId(precision=0.99, threshold=0.4).limits() == {"en": 0.4}
    with pytest.raises(ConfigError, match=r"id by lid\.176\.ftz is right"):
        LanguageId(languages=("id",), precision=0.99).check()


def test_in_words_with_the_evidence():
    words = LanguageId(languages=("en", "de")).in_words()
    assert "en with a score of at least 0.65" in words
    assert "Right among labelled texts of that score: en 9" in words
    assert "labelled texts" not in stage("en").in_words()


def test_a_full_model_is_asked_for_by_the_literal_recipe():
    assert digest(find_model("")) != digest(MODEL)
    with pytest.raises(ConfigError, match=r"found script-labels\.ftz"):
        LanguageId(model=str(MODEL), require_model="lid.176.bin").check()


@pytest.mark.parametrize(
    ("score", "expected"), [(1.00002, 1.0), (1.0, 1.0), (0.1234567, 0.123457), (-0.00001, 0.0), (0, 0.0)]
)
def test_a_score_is_no_more_than_one(score, expected):
    """fastText's sums go beyond 1 by rounding: seen is 1.00002."""
    assert clean(score) == expected


def test_the_model_answers_under_numpy_2():
    """The method ``predict`` of one fastText package fails under NumPy 2 (``np.array(copy=False)``); the binding does
    not touch NumPy.
    """
    assert int(np.__version__.split(".")[0]) >= 2
    ((label, score),) = load(find_model(""))([ENGLISH])
    assert label == "en"
    assert 0.5 < score <= 1


def test_two_models_disagree_on_what_a_score_means():
    """lid.176.ftz never reaches what is lid.176.bin's threshold; each is known by its digest alone."""
    strict = LanguageId(model="lid.176.ftz", threshold=0.995)
    assert run(strict, batch(text=[ENGLISH])).reasons == ["low_confidence"]
    assert run(LanguageId(), batch(text=[ENGLISH])).reasons == [None]
    assert {k.name: k.threshold for k in KNOWN.values()} == {"lid.176.ftz": 0.65, "lid.176.bin": 0.995}


@pytest.mark.parametrize("path", [find_model(""), MODEL, shipped()], ids=lambda p: p.name)
def test_labels_are_read_without_loading_the_model(path):
    """Models of gigabytes are asked for their names before a run; here against what the loaded model says."""
    fasttext = pytest.importorskip("fasttext")
    told = fasttext.load_model(str(path)).f.predict("a\n", -1, -1.0, "strict")
    assert labels_of(path) == {label.removeprefix("__label__") for _, label in told}


@pytest.mark.parametrize("size", [4, 60, 70, 100, 2000])
def test_a_model_cut_in_its_dictionary(tmp_path, size):
    path = tmp_path / "cut.ftz"
    path.write_bytes(find_model("").read_bytes()[:size])
    with pytest.raises(ConfigError, match=r"cut\.ftz cannot be loaded, it is damaged or cut off"):
        LanguageId(model=str(path), threshold=0.5).check()
