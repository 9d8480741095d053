"""Languages too near for n-grams, told by the words that one of them alone has."""

from __future__ import annotations

import pytest

from cleanpipe import batch as col
from cleanpipe.testing import batch, run
from cleanpipe_stages.language_id import LanguageId
from cleanpipe_stages.lid.neighbours import NEAR, sides, tell

TOLD = [
    ("Prije hiljadu godina nauka i muzika", "hr", "bs", "hiljadu, nauka, muzika"),
    ("Prije tisuću godina znanost i glazba", "bs", "hr", "tisuću, znanost, glazba"),
    ("HILJADU GODINA NAUKE", "hr", "bs", "capitals"),
    ("Danas je lijep dan i mi smo sretni", "hr", "hr", "no word speaks: as it was"),
    ("Danas je lijep dan i mi smo sretni", "sh", "sh", "no word speaks: as it was"),
    ("nauka i glazba", "hr", "hr", "one each: as it was"),
    ("Gde je bilo mleko u to vreme", "hr", "sr", "Serbian in Latin letters: e"),
    ("Gdje je bilo mlijeko u to vrijeme", "hr", "hr", "ije"),
    ("Vreme Beograda, gdje je bio prije", "hr", "hr", "one word with e is a name"),
    ("Dia berkata bahawa dia tidak mahu datang kerana hujan", "id", "ms", "bahawa, mahu, kerana"),
    ("Dia berkata bahwa dia tidak bisa datang karena hujan", "ms", "id", "bahwa, bisa, karena"),
    ("Dia tidak datang", "ms", "ms", "no word speaks: as it was"),
    ("ljekarna i liječnik", "bs", "hr", "the longest stem counts"),
    ("", "hr", "hr", "nothing"),
]


@pytest.mark.parametrize(("line", "label", "expected", "why"), TOLD, ids=lambda x: str(x)[:24])
def test_neighbours(line, label, expected, why):
    assert tell(line, label) == expected, why


SILENT = "Danas je lijep dan i mi smo sretni"
ODDS = [
    ("hr", {"bs": 0.4, "hr": 0.1}, "bs", "more than three times as likely"),
    ("hr", {"bs": 0.2, "hr": 0.1}, "hr", "not enough"),
    ("sh", {"bs": 0.1, "hr": 0.1}, "hr", "not enough, and then Croatian"),
    ("bs", {"hr": 0.1}, "hr", "Croatian alone"),
    ("sr", {"bs": 0.4}, "sr", "Serbian is not asked about"),
    ("id", {"bs": 0.4}, "id", "nor is another"),
    ("hr", {}, "hr", "the models are silent too"),
]


@pytest.mark.parametrize(("label", "odds", "expected", "why"), ODDS, ids=lambda x: str(x)[:24])
def test_where_no_word_speaks_both_models_do(label, odds, expected, why):
    assert tell(SILENT, label, odds) == expected, why
    assert tell("Prije hiljadu godina nauka i muzika", "hr", {"hr": 1.0}) == "bs", "words come first"


def test_a_word_counts_once():
    assert sides("karena karena Karena bahwa")["id"] == 2


def test_tell_answers_with_a_neighbour():
    assert {tell(line, label) for line, label, _, _ in TOLD} <= NEAR


BOSNIAN = (
    "Prije dvije hiljade godina nauka nije bila ovo što je danas. Univerzitet u Sarajevu i fabrika instrumenata "
    "organizovali su u januaru takmičenje, a sudija je saopćio da su učesnici došli iz cijele Evrope."
)
CROATIAN = (
    "Prije dvije tisuće godina znanost nije bila ovo što je danas. Sveučilište u Zagrebu i tvornica glazbala "
    "organizirali su u siječnju natjecanje, a sudac je priopćio da su sudionici došli iz cijele Europe."
)
MALAY = (
    "Syarikat itu memberitahu bahawa kakitangan mereka mahu bercuti pada bulan Ogos kerana pejabat akan ditutup. "
    "Jurulatih pasukan bola sepak juga sahaja tidak faham maklumat dalam akhbar."
)
INDONESIAN = (
    "Perusahaan itu mengatakan bahwa karyawan mereka mau libur pada bulan Agustus karena kantor akan ditutup. "
    "Pelatih tim sepakbola juga tidak paham informasi dalam koran."
)


def test_the_stage_asks_them():
    out = run(LanguageId(segments="off"), batch(text=[BOSNIAN, CROATIAN, MALAY, INDONESIAN]))
    assert out.scores[col.LANGUAGE] == ["bs", "hr", "ms", "id"]
