"""The audit of a corpus on real prose of many languages: no false alarm of damage."""

import csv
import json

import pytest

from cleanpipe.corpus.files import Columns
from cleanpipe.corpus.run import Options, audit_corpus
from cleanpipe.text.mojibake import NOTHING, find_mojibake


def test_real_prose_of_many_languages(samples):
    """75 languages' sentences: the few that are found are damaged in the source itself."""
    with (samples / "lid" / "lingua-sentences.tsv").open(encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    found = [row for row in rows if find_mojibake(" ".join(row)).counts]
    assert len(rows) > 4000
    assert all("Ã¤" in r[-1] or "â€™" in r[-1] or "ï¿½" in r[-1] for r in found)
    assert len(found) == 6
    declarations = (samples / "lid" / "udhr-articles-01-14.tsv").read_text(encoding="utf-8")
    assert find_mojibake(declarations) is NOTHING


def test_ftfy_s_own_examples(samples):
    """Of 70 strings seen in the wild, 14 are of other kinds (CESU-8, C1 controls, ligatures) or too few to be sure."""
    wild = json.loads((samples / "unicode" / "ftfy-in-the-wild.json").read_text(encoding="utf-8"))
    missed = [c["label"] for c in wild if c["original"] != c["fixed"] and not find_mojibake(c["original"]).counts]
    assert len(missed) <= 14
    clean = json.loads((samples / "unicode" / "ftfy-negative.json").read_text(encoding="utf-8"))
    wrong = [c["label"] for c in clean if find_mojibake(c["original"]).counts]
    assert len(wrong) <= 1  # "DrÃ¥ber", which is damaged, whatever it was


@pytest.mark.parametrize(
    "language", ["es", "it", "nl", "pl", "pt", "ru", "vi", "hi", "zh", "tr", "cs", "ar", "ja", "ko"]
)
def test_a_clean_corpus_in_another_language_raises_no_alarm(samples, tmp_path, language):
    """Documents of five sentences each. That the default recipe keeps English alone is a choice, no fault of theirs."""
    with (samples / "lid" / "lingua-sentences.tsv").open(encoding="utf-8") as file:
        texts = [r[-1] for r in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE) if r[0] == language]
    path = tmp_path / "c.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for i in range(0, len(texts) - 4, 5):
            file.write(json.dumps({"text": "\n".join(texts[i : i + 5]), "url": f"http://{language}.org/{i}"}) + "\n")
    audit = audit_corpus([str(path)], tmp_path / "out", Options(workers=1))
    assert audit["documents"]["documents"]["value"] >= 10
    assert audit["damage"]["faults"]["mojibake"]["documents"]["numerator"] == 0
    assert [v["words"] for v in audit["verdicts"]] == []


def test_one_text_in_528_translations_is_damaged_in_the_few_that_are(samples, tmp_path):
    """C1 controls stand in two of them, ZWNJ at the end of words in two, U+200B in one; none of it is mojibake."""
    path = tmp_path / "u.tsv"
    path.write_bytes((samples / "lid" / "udhr-articles-01-14.tsv").read_bytes())
    audit = audit_corpus([str(path)], tmp_path / "out", Options(workers=1, columns=Columns("text", id="bcp47")))
    faults = {k: n["documents"]["numerator"] for k, n in audit["damage"]["faults"].items()}
    assert faults == {
        "invisible": 3, "mojibake": 0, "c1_controls": 2, "replacement": 0, "invalid_utf8": 0, "surrogates": 0,
        "private_use": 0, "entities": 0, "tags": 0,
    }  # fmt: skip
    shown = {s["id"] for fault in ("invisible", "c1_controls") for s in audit["samples"][fault]}
    assert not shown & {"en", "fr", "de-1996", "pl", "pt-PT", "ru", "vi", "hi", "zh-Hans"}
    needed = {p["point"]: p["needed_in"] for p in audit["damage"]["code_points"]}
    assert needed["U+200C"] > 5  # Persian and others need it, and keep it
