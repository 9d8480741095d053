"""Yoruba by its function words."""

from __future__ import annotations

import unicodedata

import pytest

from cleanpipe import batch as col
from cleanpipe.testing import batch, run
from cleanpipe_stages.language_id import LanguageId
from cleanpipe_stages.lid.function_words import _table, tell

MARKED = "Gbogbo ènìyàn ló ní ẹ̀tọ́ láti wá ilé fún ọmọ wọn ní ìlú tí àwọn fẹ́, àti láti ṣe iṣẹ́ pẹ̀lú àwọn ará wọn."
BARE = "Gbogbo eniyan lo ni eto lati wa ile fun omo won ni ilu ti awon fe, ati lati se ise pelu awon ara won."
TOLD = [
    (MARKED, "yo", "all tones and dots"),
    (unicodedata.normalize("NFD", MARKED), "yo", "the same decomposed"),
    (BARE, "yo", "no marks"),
    (MARKED.upper(), "yo", "capitals"),
    ("Gbogbo awon omo", None, "too short"),
    ("Il a dit à son ami de ne pas aller à la fête, et ils ont ri de lui a la fin de la nuit.", None, "French"),
    (
        "Onye ọ bụla nwere ikike ịnweta ụlọ na ọrụ, ma ọ bụ ịga obodo ọ bụla o chọrọ na ala ya.",
        None,
        "Igbo has dots too",
    ),
    ("A o wa fun ti ni si je lo de se ka mo ba", None, "short words that many languages have"),
    ("", None, "nothing"),
]


@pytest.mark.parametrize(("line", "expected", "why"), TOLD, ids=lambda x: str(x)[:20])
def test_function_words(line, expected, why):
    assert tell(line) == expected, why


def test_the_table_has_no_marks_and_no_word_twice():
    for every, own in _table().values():
        assert own < every
        assert all(w == "".join(c for c in unicodedata.normalize("NFD", w.lower()) if c.isalpha()) for w in every)


def test_the_stage_asks_them():
    out = run(LanguageId(segments="off"), batch(text=[MARKED, BARE, BARE * 3]))
    assert out.scores[col.LANGUAGE] == ["yo"] * 3
