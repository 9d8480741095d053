"""Names of languages: labels of four models, users' words, and what is said of a word no model knows."""

from __future__ import annotations

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe_stages.lid.model import asked, codes, find_model, labels_of
from cleanpipe_stages.lid.names import UNDETERMINED, code_of, languages, near, parts, wanted

# label, code, script: as lid.176, lid218e, OpenLID and GlotLID spell them
LABELS = [
    ("__label__en", "en", ""),
    ("__label__eng_Latn", "en", "Latn"),
    ("__label__srp_Cyrl", "sr", "Cyrl"),
    ("__label__cmn_Hani", "zh", "Hani"),  # GlotLID
    ("__label__zho_Hans", "zh", "Hans"),  # lid218e
    ("__label__zho_Hant", "zh", "Hant"),
    ("__label__jpn_Jpan", "ja", "Jpan"),
    ("__label__kor_Hang", "ko", "Hang"),
    ("__label__yue_Hant", "yue", "Hant"),  # a member with a code of its own stays itself
    ("__label__arb_Arab", "ar", "Arab"),
    ("__label__arz_Arab", "arz", "Arab"),
    ("__label__nob_Latn", "no", "Latn"),
    ("__label__nno_Latn", "nn", "Latn"),
    ("__label__no", "no", ""),
    ("__label__pes_Arab", "fa", "Arab"),
    ("__label__zsm_Latn", "ms", "Latn"),
    ("__label__ind_Latn", "id", "Latn"),
    ("__label__swh_Latn", "sw", "Latn"),
    ("__label__ekk_Latn", "et", "Latn"),
    ("__label__lvs_Latn", "lv", "Latn"),
    ("__label__als", "als", ""),  # Wikipedia's: Alemannic
    ("__label__als_Latn", "sq", "Latn"),  # ISO 639-3: Tosk Albanian
    ("__label__gsw_Latn", "als", "Latn"),
    ("__label__ceb", "ceb", ""),
    ("__label__zul_Latn", "zu", "Latn"),
    ("__label__qqq_Zyyy", "qqq", "Zyyy"),  # in no table: itself
    ("und", UNDETERMINED, ""),
]


@pytest.mark.parametrize(("label", "code", "script"), LABELS)
def test_labels(label, code, script):
    assert parts(label) == (code, script)


WORDS = [
    ("en", "en"),
    ("EN", "en"),
    ("eng", "en"),
    ("English", "en"),
    ("ger", "de"),
    ("deu", "de"),
    ("iw", "he"),
    ("nb", "no"),
    ("nob", "no"),
    ("nn", "nn"),
    ("pt-BR", "pt"),
    ("zh_CN", "zh"),
    ("zho", "zh"),
    ("es-419", "es"),
    ("gsw", "als"),
]


@pytest.mark.parametrize(("word", "code"), WORDS)
def test_words_of_users(word, code):
    assert codes([word], find_model("")) == (code,)


def test_a_script_may_be_asked_for():
    assert asked(["sr_Latn", "eng_Latn"], find_model("")) == (("sr", "Latn"), ("en", "Latn"))


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("englsh", r"near it: en \(English\)"),
        ("germn", r"de \(German\)"),
        ("zulu", "no language 'zulu'"),
        ("zh_Hant", "tells no Hant apart"),
        ("xho", "no language 'xho'"),
        ("", "no language ''"),
    ],
)
def test_a_word_the_model_does_not_know(word, said):
    with pytest.raises(ConfigError, match=said):
        codes([word], find_model(""))


def test_every_label_of_the_packaged_model_has_a_row_and_comes_back():
    labels = labels_of(find_model(""))
    assert len(labels) == 176
    assert {code_of(x) for x in labels} == set(labels)  # none is renamed: a user's `language == "en"` goes on working
    assert labels <= set(languages())
    for label in labels:
        assert wanted(label, labels) == (label, "")


def test_the_table():
    rows = languages()
    assert len(rows) == len({r.iso3 for r in rows.values()})
    spellings = [s for r in rows.values() for s in {r.code, r.iso3, *r.also}]
    assert len(spellings) == len(set(spellings)), "one spelling, two languages"
    assert all(r.scripts and all(len(s) == 4 and s.istitle() for s in r.scripts) for r in rows.values())
    assert rows["ja"].scripts == ("Hira", "Kana", "Hani")


def test_near_names_of_a_model_of_two():
    assert near("engl", ["eng_Latn", "deu_Latn"]).startswith("near it: en (English)")
    assert near("qqqq", ["eng_Latn", "deu_Latn"]) == "it knows 2 languages"
