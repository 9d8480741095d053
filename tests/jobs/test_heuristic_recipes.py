"""The recipes of published filters: they run whole, in the published order, and ``tune`` tells their limits again."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cleanpipe import batch as col
from cleanpipe.opening import ledger
from cleanpipe.queries.opened_run import open_run
from cleanpipe.queries.tune import CERTAIN, tune
from cleanpipe.recipe import load_recipe
from cleanpipe.run import run
from cleanpipe.verify import verify

ARCHIVES = str(Path(__file__).parents[2] / "cleanpipe" / "recipes" / "sample-archives")
ENGINE = ["html_scrub.engine=resiliparse"]
ORDERS = {
    "fineweb": ["url_filter", "html_scrub", "language_id", "gopher_repetition", "gopher_quality", "c4_quality",
                "fineweb_quality", "minhash_sign", "minhash_drop", "mask_personal"],
    "gopher": ["url_filter", "html_scrub", "gopher_quality", "gopher_repetition", "minhash_sign", "minhash_drop",
               "decontaminate"],
}  # fmt: skip
LIMITS = [
    ("fineweb", ["gopher_repetition.dup_line_frac=0.02", "gopher_repetition.top_2_gram=0.03"]),
    ("fineweb", ["gopher_repetition.dup_5_gram=0.02"]),
    ("fineweb", ["gopher_quality.min_words=400"]),
    ("fineweb", ["gopher_quality.min_alpha_words=0.9", "gopher_quality.min_stop_words=5"]),
    ("fineweb", ["c4_quality.min_sentences=30", "c4_quality.max_removed_lines=0.6"]),
    ("fineweb", ["fineweb_quality.min_line_punct_ratio=0.5"]),
    ("fineweb", ["fineweb_quality.max_char_dup_ratio=0.0", "fineweb_quality.max_list_ratio=0.02"]),
    ("gopher", ["gopher_quality.max_bullet_lines=0.3"]),
    ("gopher", ["gopher_repetition.dup_para_frac=0.01"]),
]
Fates = dict[bytes, tuple[str, str, str]]


def fates(out: Path) -> Fates:
    table = ledger(out).to_table(columns=[col.DOC_ID, col.FATE, col.STAGE, col.REASON])
    return {r[col.DOC_ID]: (r[col.FATE], r[col.STAGE] or "", r[col.REASON] or "") for r in table.to_pylist()}


_RUNS: dict[tuple[str, ...], Path] = {}


@pytest.fixture
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A function that gives a run of a recipe on the sample archives; each is made once."""

    def make(recipe: str, *sets: str) -> Path:
        key = (recipe, *sets)
        if key not in _RUNS:
            _RUNS[key] = tmp_path_factory.mktemp("published") / "run"
            run(recipe, [ARCHIVES], _RUNS[key], engine="serial", sets=[*ENGINE, *sets])
        return _RUNS[key]

    return make


@pytest.mark.parametrize("recipe", sorted(ORDERS))
def test_the_published_order(recipe: str) -> None:
    names = [s.ref.name for s in load_recipe(recipe).settings if s.enabled]
    assert [n for n in names if n in ORDERS[recipe]] == ORDERS[recipe]
    assert names[0] == "http_filter"
    assert names[-2:] == ["windowing", "utf8_normalize"]
    assert not {"quality_score", "language_preview"} & set(names)


def test_the_published_values() -> None:
    made = {s.name: s for s in load_recipe("fineweb", ENGINE).pipeline().stages}
    c4: Any = made["c4_quality"]
    assert (c4.lines, c4.terminal, c4.min_words_per_line, c4.min_sentences) == ("remove", False, 3, 5)
    sign: Any = made["minhash_sign"]
    assert (sign.bands, sign.rows, sign.ngram) == (14, 8, 5)
    language: Any = made["language_id"]
    assert (language.languages, language.threshold) == (("en",), 0.65)
    gopher = {s.name: s for s in load_recipe("gopher").pipeline().stages}
    shingles: Any = gopher["minhash_sign"]
    near: Any = gopher["minhash_drop"]
    assert (shingles.ngram, near.threshold) == (13, 0.8)


@pytest.mark.parametrize("recipe", sorted(ORDERS))
def test_it_runs_whole_and_verifies(recipe: str, ran: Any) -> None:
    out = ran(recipe)
    assert verify(out).findings == []
    seen = Counter(fates(out).values())
    assert seen[col.KEPT, "", ""] >= 10
    for stage in ORDERS[recipe]:
        if stage.startswith("gopher"):
            assert any(s == stage for _, s, _ in seen), f"{stage} dropped nothing"


def test_fineweb_with_the_engine_it_names(tmp_path: Path) -> None:
    if importlib.util.find_spec("trafilatura") is None:
        pytest.skip("trafilatura is not installed: cleanpipe[trafilatura]")
    one = str(Path(ARCHIVES) / "cc-main-2020-34-16pages.warc.gz")
    run("fineweb", [one], tmp_path / "out", engine="serial")
    assert verify(tmp_path / "out").findings == []


@pytest.mark.parametrize(("recipe", "sets"), LIMITS, ids=lambda v: " ".join(v) if isinstance(v, list) else v)
def test_tune_tells_what_a_second_run_does(recipe: str, sets: list[str], ran: Any) -> None:
    before, after = ran(recipe), ran(recipe, *sets)
    real = fates(after)
    with open_run(before) as opened:
        tuned = tune(opened, sets)
        ids = opened.ledger().to_table(columns=[col.DOC_ID]).column(col.DOC_ID).to_pylist()
    claims = dict(zip(ids, (tuned.after[c] for c in tuned.new.tolist()), strict=True))
    certain = {i: c for i, c in claims.items() if c.sure == CERTAIN and c.fate != "unknown"}
    for i, claim in certain.items():
        assert real[i] == (claim.fate, claim.stage, claim.reason)
    assert len(certain) >= 250
    assert fates(before) != real, "the limit decides nothing here"


def test_one_unit_or_many(tmp_path: Path, ran: Any) -> None:
    """Batches of other sizes give the same fates and texts."""
    sets = [*ENGINE, "read.unit_bytes=400000", "read.batch_rows=37"]
    run("fineweb", [ARCHIVES], tmp_path / "out", engine="serial", sets=sets)
    assert fates(tmp_path / "out") == fates(ran("fineweb"))
    columns = [col.DOC_ID, col.CONTENT_ID, col.CHARS_OUT, "c4_quality_removed_chars", "gopher_repetition_dup_5_gram"]
    rows = [
        sorted(ledger(o).to_table(columns=columns).to_pylist(), key=lambda r: r[col.DOC_ID])
        for o in (tmp_path / "out", ran("fineweb"))
    ]
    assert rows[0] == rows[1]


def test_every_limit_of_a_recipe_is_a_limit_of_tune(ran: Any) -> None:
    for recipe in sorted(ORDERS):
        for stage in load_recipe(recipe, ENGINE).pipeline().stages:
            if stage.name.endswith(("_quality", "_repetition")):
                judge = stage.judge()
                assert judge is not None
                assert {c.option for c in stage.cuts()} - {"lines"} <= judge.options
