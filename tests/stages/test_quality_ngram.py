"""N-gram perplexity: golden scores of every shipped model, KenLM's sums, what a model must have, batches, tables."""

from __future__ import annotations

import hashlib
import json
import math
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, run
from cleanpipe_jobs import lm_percentiles
from cleanpipe_stages.quality import lm_text, percentiles
from cleanpipe_stages.quality.judge import PARAGRAPH_MEAN
from cleanpipe_stages.quality.measure import PARAGRAPHS, quantiles, sampled
from cleanpipe_stages.quality.scorers import NOT_MEASURED, Scored, ScorerOptions, ngram
from cleanpipe_stages.quality.scorers.ngram import LANGUAGES, MODELS, SHIPPED, load_model
from cleanpipe_stages.quality_score import QualityScore

FILE = Path(__file__).parent / "cases" / "perplexity_golden.jsonl"
GOLDEN = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
PROSE = (
    "The keeper weighs each hive every evening and writes the figure on the inside of the lid. "
    "Canal boats rise four metres in the lock, which takes about as long as boiling a kettle."
)
OFF = {"min_perplexity": 0.0, "max_perplexity": 0.0}


def scored(*texts: str, language: str | None = "en", **options: Any) -> Any:
    return run(QualityScore(**options), batch(text=list(texts), language=[language] * len(texts)))


@pytest.mark.parametrize("case", GOLDEN, ids=lambda c: f"{c['language']} {c['text'][:30]}")
def test_golden(case):
    """The model, its normaliser and the formula, held together: a change of any of them shows here."""
    found = scored(case["text"], language=case["language"]).scores
    assert found[col.PERPLEXITY] == [pytest.approx(case["perplexity"], rel=1e-6)]
    assert found[PARAGRAPH_MEAN] == [pytest.approx(case["paragraph_mean"], rel=1e-6)]


def test_every_language_has_golden_scores():
    assert {case["language"] for case in GOLDEN} == set(LANGUAGES)


# sums


def kenlm_model(language: str = "en") -> Any:
    import kenlm

    return kenlm.Model(str(SHIPPED[language]))


def test_the_sum_is_of_decimal_logarithms_over_tokens_and_line_ends():
    model = kenlm_model()
    first, second = model.score("The keeper weighs each hive ."), model.score("It ' s 0 .")
    text = "The keeper weighs each hive.\n\nIt’s 12."
    found = scored(text).scores
    whole = 10 ** (-(first + second) / (6 + 1 + 5 + 1))
    lines = [10 ** (-first / 7), 10 ** (-second / 6)]
    assert found[col.PERPLEXITY] == [pytest.approx(whole, abs=1e-6)]
    assert found[PARAGRAPH_MEAN] == [pytest.approx(math.sqrt(lines[0] * lines[1]), abs=1e-6)]
    assert found["quality_score_paragraph_p50"] == [pytest.approx(sum(lines) / 2, abs=1e-6)]
    assert found[PARAGRAPH_MEAN][0] != pytest.approx(found[col.PERPLEXITY][0], rel=0.01)  # per line is not per text


def test_each_word_is_asked_for_after_those_before_it_and_the_end_too():
    """The same by single words' probabilities, the line's start as context, its end as one more token."""
    model, words = kenlm_model(), ["He", "keeps", "bees", "."]
    each = [log10 for log10, *_ in model.full_scores(" ".join(words))]  # 32-bit
    assert len(each) == len(words) + 1
    assert scored("He keeps bees.").scores[col.PERPLEXITY] == [pytest.approx(10 ** (-sum(each) / 5), rel=1e-5)]


def test_characters_are_tokens_where_words_are_not_parted():
    model = kenlm_model("ja")
    expected = 10 ** (-model.score("猫 が 好 き 。") / 6)
    assert scored("猫が好き。", language="ja").scores[col.PERPLEXITY] == [pytest.approx(expected, abs=1e-6)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_another_normaliser_gives_figures_that_mean_nothing(language):
    """cc_net's trap: a text that the model's normaliser did not see is far less likely: marks stick to words."""
    text = next(c["text"] for c in GOLDEN if c["language"] == language and c["comment"] == "prose")
    raw = 10 ** (-kenlm_model(language).score(text) / (len(text.split()) + 1))
    assert raw > 2 * scored(text, language=language).scores[col.PERPLEXITY][0]


def test_prose_is_likelier_than_its_words_shuffled_than_noise():
    perplexity, rng = load_model(SHIPPED["en"], "en", 2048), random.Random(1)
    words = PROSE.split()
    rng.shuffle(words)
    noise = " ".join("".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in words)
    measured = [perplexity(t).perplexity for t in (PROSE, " ".join(words), noise)]
    assert measured == sorted(measured)
    assert measured[1] > 2 * measured[0]
    assert measured[2] > 50 * measured[1]


def test_a_menu_is_stranger_than_prose_of_the_same_words():
    prose, menu = scored("You can search the help and read about the settings of the page.",
                         "Search\nHelp\nAbout\nSettings\nPage").scores[col.PERPLEXITY]  # fmt: skip
    assert menu > 20 * prose


def test_only_the_first_characters_are_read():
    long = PROSE + " " + "qzx " * 5000
    perplexity = scored(PROSE, long, chars=len(PROSE)).scores[col.PERPLEXITY]
    assert perplexity[0] == perplexity[1]
    assert scored(long, **OFF).scores[col.PERPLEXITY][0] > perplexity[0]


def test_a_text_without_blanks_is_cut_where_the_characters_end():
    text = "題\n" + "これは長い段落です。" * 200
    assert scored(text, language="ja", **OFF).scores == scored(text[:1024], language="ja", **OFF).scores | {
        k: v
        for k, v in scored(text, language="ja", **OFF).scores.items()
        if "paragraph" not in k and k != col.PERPLEXITY
    }


# what is measured


@pytest.mark.parametrize(
    ("options", "language", "text", "measured", "not_measured"),
    [
        ({}, "en", PROSE, True, 0),
        ({}, "de", PROSE, True, 0),
        ({}, "pl", PROSE, False, 1),
        ({}, None, PROSE, False, 1),
        ({"assume_language": "en"}, None, PROSE, True, 0),
        ({"assume_language": "en"}, "pl", PROSE, False, 1),
        ({}, "en", " \n ", False, 1),
        ({}, "zh", "", False, 1),
        ({"perplexity": "off"}, "en", PROSE, False, None),
        ({"sample": 0.0}, "en", PROSE, False, 0),
    ],
)
def test_what_is_not_measured_is_null_and_counted(options, language, text, measured, not_measured):
    rows = batch(text=[text], language=[language])
    outcome = QualityScore(**OFF, **options).open()(rows)
    for name in (col.PERPLEXITY, *PARAGRAPHS):
        assert outcome.scores[name].is_valid().to_pylist() == [measured]
    assert outcome.facts.get("perplexity_not_measured") == not_measured
    assert outcome.facts.get("perplexity_not_sampled") == (1 if "sample" in options else None)
    assert outcome.drops.to_pylist() == [None]


def test_batches_and_neighbours_change_nothing():
    rng = random.Random(3)
    texts = [c["text"] for c in GOLDEN] * 3
    languages = [c["language"] for c in GOLDEN] * 3
    order = rng.sample(range(len(texts)), len(texts))
    whole = run(QualityScore(**OFF), batch(text=texts, language=languages)).scores
    mixed = run(
        QualityScore(**OFF), batch(text=[texts[i] for i in order], language=[languages[i] for i in order])
    ).scores
    step = QualityScore(**OFF).open()
    alone = [step(batch(text=[t], language=[k])).scores for t, k in zip(texts, languages, strict=True)]
    for name, values in whole.items():
        assert [mixed[name][order.index(i)] for i in range(len(texts))] == values
        assert [one[name].to_pylist()[0] for one in alone] == values


def test_a_sample_is_of_ids_alone():
    ids = pa.array([hashlib.sha256(bytes([i, j])).digest()[:16] for i in range(40) for j in range(50)], pa.binary(16))
    some = set(sampled(ids, 0.25))
    assert 440 < len(some) < 560  # 500 expected, 19 standard deviation
    assert set(sampled(ids, 0.1)) < some
    assert [i in some for i in range(1000, 2000)] == [i in set(sampled(ids[1000:], 0.25)) for i in range(1000)]
    assert list(sampled(ids, 1.0)) == list(range(2000))
    assert list(sampled(ids, 0.0)) == []


# paragraphs


def test_quantiles_are_numpys():
    rng = random.Random(5)
    found = [Scored(1.0, [rng.uniform(1, 1e5) for _ in range(n)]) for n in (1, 2, 3, 10, 11, 57)]
    table = quantiles([found[0], NOT_MEASURED, *found[1:], Scored(None)])
    assert np.isnan(table[[1, 7]]).all()
    for row, scored_text in zip(table[[0, 2, 3, 4, 5, 6]], found, strict=True):
        values = np.array(scored_text.paragraphs)
        assert row[0] == pytest.approx(math.exp(np.log(values).mean()))
        assert row[1:] == pytest.approx(np.quantile(values, [0.1, 0.5, 0.9]))


def test_one_readable_paragraph_saves_a_list_of_names():
    names = ["Thranduil", "Galadhrim", "Legolas", "Mithrandir", "Undomiel", "Ancalagon", "Hyarmentir", "Telperion"]
    noise = "\n".join(names)
    assert scored(noise + "\n" + noise.upper()).reasons == ["high_perplexity"]
    readable = PROSE.replace(". ", ".\n")  # two paragraphs of eleven
    mixed = f"{readable}\n{noise}\n{' '.join(names * 4)}"
    assert scored(mixed).scores[col.PERPLEXITY][0] > 30_000
    assert scored(mixed).reasons == [None]
    assert scored(mixed, max_perplexity=30_000.0).reasons == ["high_perplexity"]  # as given, the whole alone counts


def test_a_limit_of_the_paragraphs_mean():
    menu = "\n".join(["Home", "About us", "Contact", "Privacy policy", "Terms of use", "Newsletter", "Search"] * 2)
    on = {"max_paragraph_perplexity": 50_000.0, **OFF, "max_repetition": 0.0, "min_deflate_ratio": 0.0}
    assert scored(menu, PROSE, **on).reasons == ["high_perplexity", None]
    assert scored(menu, PROSE, **on | {"max_paragraph_perplexity": 0.0}).reasons == [None, None]


# models


def test_the_shipped_models_are_what_their_card_says():
    card = (MODELS / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert f"version {lm_text.LM_TEXT_VERSION} " in card
    for language, path in SHIPPED.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() in card, language
        assert path.stat().st_size <= 9_000_000
        assert path.name == f"{language}.v{lm_text.LM_TEXT_VERSION}.binary"
    assert sorted(p.name for p in MODELS.glob("*.binary")) == sorted(p.name for p in SHIPPED.values())


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_shipped_tables_belong_to_the_shipped_models(language):
    table = percentiles.read(MODELS / f"{language}.percentiles.json")
    assert table.sha256 == percentiles.digest(SHIPPED[language])
    assert table.chars == QualityScore().chars
    low, high, easiest = table.limits
    assert 0 < low < table.at(0) < table.at(50) < table.at(95) < high == easiest
    assert QualityScore().limits().perplexity[language] == table.limits
    assert QualityScore(max_percentile=90.0).limits().perplexity[language] == (low, table.at(90), 0)
    assert QualityScore(max_perplexity=0.0).limits().perplexity[language] == (low, 0, 0)
    assert QualityScore(min_percentile=1.0).limits().perplexity[language] == (table.at(1), high, easiest)


def test_models_and_tables_are_part_of_a_runs_identity():
    assert set(SHIPPED) == set(LANGUAGES)
    tables = {f"{k}.percentiles": MODELS / f"{k}.percentiles.json" for k in LANGUAGES}  # limits come from them
    assert QualityScore().models() == SHIPPED | tables


def test_a_file_that_is_no_model(tmp_path):
    path = tmp_path / "model.binary"
    path.write_bytes(b"\0" * 1000)
    with pytest.raises(ConfigError, match="cannot be read as a KenLM model"):
        QualityScore(model=str(path), **OFF).open()


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


@pytest.fixture
def german(tmp_path):
    path = tmp_path / "de.arpa"
    path.write_text(ARPA)
    return path


def test_another_model_measures_its_own_language(german):
    own = {"model": str(german), "model_language": "de", "min_perplexity": 0.0, "max_perplexity": 4.0}
    assert QualityScore(**own).models() == {"de": german}
    # log10: keeper -0.25, unknown -1, end -0.5, over 3
    found = scored("keeper other", language="de", **own).scores[col.PERPLEXITY]
    assert found == [pytest.approx(10 ** (1.75 / 3), abs=1e-5)]
    assert scored("keeper other", language="en", **own).scores[col.PERPLEXITY] == [None]
    off = {"min_deflate_ratio": 0.0, "min_entropy": 0.0}
    assert scored("keeper " * 40, language="de", **own, **off).reasons == [None]
    assert scored("other x " * 40, language="de", **own, **off).reasons == ["high_perplexity"]
    assert str(german) in QualityScore(**own).in_words()


def test_a_model_without_unknown_words_is_refused(tmp_path):
    """kaldingram writes such: KenLM takes 1e-100 for each unknown word, and one of them drowns the text."""
    path = tmp_path / "no-unk.arpa"
    path.write_text(ARPA.replace("ngram 1=4", "ngram 1=3").replace("-1.0\t<unk>\t0\n", ""))
    with pytest.raises(ConfigError, match="has no <unk>"):
        QualityScore(model=str(path), **OFF).open()


def test_a_model_that_is_away(tmp_path):
    with pytest.raises(ConfigError, match="model file not found"):
        ngram.open_scorer(ScorerOptions(model=str(tmp_path / "x"), language="en"))


# tables


def texts_file(tmp_path: Path) -> Path:
    path = tmp_path / "good.jsonl"
    texts = ["keeper keeper", "keeper other", "other other", "", "keeper"]
    path.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    return path


def test_a_table_of_another_model(german, tmp_path, capsys):
    out = tmp_path / "de.json"
    command = ["--model", str(german), "--language", "de", "--texts", str(texts_file(tmp_path)), "--reference", "toy",
               "--limits", "1", "9", "0", "--out", str(out)]  # fmt: skip
    assert lm_percentiles.main(command) == 0
    assert "4 of 5 texts" in capsys.readouterr().out
    table = percentiles.read(out)
    assert (table.documents, table.reference, table.limits) == (4, "toy", (1.0, 9.0, 0.0))
    assert table.at(0) == pytest.approx(10 ** (0.35 / 2), abs=1e-3)  # "keeper" and its end
    assert table.at(100) == pytest.approx(10 ** (2.5 / 3), abs=1e-3)  # two unknown words and their end
    own = {"model": str(german), "model_language": "de", "percentiles": str(out)}
    assert QualityScore(**own).limits().perplexity == {"": (0.0, 0.0, 0.0), "de": (1.0, 9.0, 0.0)}
    two_sided = QualityScore(**own, min_percentile=10.0, max_percentile=90.0)
    low, high, _ = two_sided.limits().perplexity["de"]
    assert table.at(0) < low < high < table.at(100)
    assert {c.option for c in two_sided.cuts() if c.score == col.PERPLEXITY} == {"min_percentile", "max_percentile"}
    assert QualityScore(**own, max_perplexity=3.0).limits().perplexity["de"] == (1.0, 3.0, 0.0)


def test_a_table_holds_for_its_model_and_its_number_of_characters_alone(german, tmp_path):
    table = {"model": str(german), "model_language": "de", "percentiles": str(MODELS / "de.percentiles.json")}
    with pytest.raises(ConfigError, match="table of another model"):
        QualityScore(**table).open()
    with pytest.raises(ConfigError, match="max_percentile needs the model's percentile table"):
        QualityScore(model=str(german), model_language="de", max_percentile=9.0, min_perplexity=0.0).open()


BAD = [
    ("[]", "TypeError"),
    ("{}", "KeyError"),
    ("nothing", "JSONDecodeError"),
    (
        '{"sha256": "x", "chars": 1, "reference": "", "documents": 1, "perplexity": {"0": 1}, "limits": [0, 0, 0]}',
        "KeyError",
    ),
]


@pytest.mark.parametrize(("content", "why"), BAD)
def test_no_table(tmp_path, content, why):
    path = tmp_path / "t.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=re.escape(f"{path} is no percentile table: {why}")):
        percentiles.read(path)


def test_a_table_that_falls(tmp_path):
    table = json.loads((MODELS / "en.percentiles.json").read_text())
    table["perplexity"]["50"] = 1.0
    path = tmp_path / "t.json"
    path.write_text(json.dumps(table))
    with pytest.raises(ConfigError, match="do not rise"):
        percentiles.read(path)


@pytest.mark.parametrize(("texts", "why"), [("", "0 texts"), ('{"text": "keeper"}\n', "1 texts"), ("x\n", "error: ")])
def test_a_reference_that_is_none(german, tmp_path, capsys, texts, why):
    path = tmp_path / "t.jsonl"
    path.write_text(texts)
    command = ["--model", str(german), "--language", "de", "--texts", str(path), "--reference", "", "--out", str(path)]
    assert lm_percentiles.main(command) == 2
    assert why in capsys.readouterr().err
