"""``tune`` against real second runs: what it claims for certain is what a run with these options does."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cleanpipe import batch as col
from cleanpipe.opening import ledger
from cleanpipe.queries.opened_run import open_run
from cleanpipe.queries.tune import CERTAIN, IF, NOT_KNOWN, SOMEHOW, Fate, tune
from cleanpipe.queries.tune_tell import tell
from cleanpipe.run import run

LIMITS = [  # and how many of the 67 documents of the zoo are certain, at least
    (["language_id.threshold=0.4"], 67),
    (["language_id.threshold=0.9"], 67),
    (["language_id.threshold=0.95", "minhash_drop.threshold=0.9"], 63),
    (['language_id.languages=["en","de"]'], 57),
    (['language_id.languages=["en","de","fr"]', "language_id.thresholds={de=0.3}"], 56),
    (["language_preview.confidence=0.97"], 67),
    (["language_preview.letters=400"], 67),
    (["language_preview.letters=20"], 67),
    (["language_preview.languages=en,de"], 19),
    (["language_preview.enabled=false"], 19),
    (["http_filter.statuses=[200,404]"], 18),
    (['http_filter.types=["text/html"]'], 65),
    (['http_filter.types=["text/plain"]'], 67),
    (['http_filter.type_from="declared"'], 67),
    (["http_filter.enabled=false"], 6),
    (["quality_score.max_perplexity=300"], 67),
    (["quality_score.max_perplexity=50000"], 67),
    (["quality_score.min_entropy=4.2"], 67),
    (["quality_score.max_entropy=4.3", "quality_score.correct_entropy=false"], 65),
    (["quality_score.max_repetition=0.2", "quality_score.judge_from=10"], 66),
    (["quality_score.min_deflate_ratio=0.4"], 66),
    (["quality_score.enabled=false"], 19),
    (["minhash_drop.threshold=0.5"], 52),
    (["minhash_drop.threshold=0.8"], 52),
    (["minhash_drop.threshold=0.93"], 63),
    (["minhash_drop.threshold=1.0"], 62),
    (["minhash_drop.hot_bucket=1"], 60),
    (["minhash_drop.hot_bucket=2", "quality_score.max_perplexity=700"], 67),
    (["minhash_drop.enabled=false"], 67),
    (["minhash_drop.enabled=false", "language_id.threshold=0.9"], 67),
    (["minhash_sign.rows=4"], 20),
    (["minhash_sign.enabled=false"], 20),
    (["html_scrub.main_content=false"], 15),
    (["utf8_normalize.whitespace=space"], 16),
    (["windowing.size=900", "shards.max_bytes=100000", "audit.samples=3"], 67),
    (["windowing.enabled=false"], 67),
    (["language_id.threshold=0.8", "quality_score.max_perplexity=500", "minhash_drop.threshold=0.95"], 67),
    (["quality_score.min_chars=900"], 60),
]  # fmt: skip
GERMAN = "Der Hafenlotse kennt die Tiefe jeder Fahrrinne auswendig und geht weit vor der Barre an Bord der Schiffe."


def zoo(make: Any, folder: Path, *, bases: int = 24, seed: int = 5) -> list[str]:
    """Archives of pages in families of near copies, in two languages and between them, short and long, good and bad."""
    rng = random.Random(seed)
    folder.mkdir(exist_ok=True)
    records: list[bytes] = []
    for base in range(bases):
        text = make.prose(base, rng.choice([3, 8, 20, 40]))
        for copy in range(rng.choice([1, 2, 3, 6])):
            mine = list(text)
            for _ in range(rng.choice([0, 0, 1, 2, 4])):
                mine[rng.randrange(len(mine))] = f"Another sentence number {rng.randrange(10**6)} stands at this place."
            if rng.random() < 0.3:
                mine += [GERMAN] * rng.randrange(1, len(mine) + 2)
            if rng.random() < 0.1:
                mine = [mine[0]] * 30
            if rng.random() < 0.1:
                mine += ["".join(rng.choices("abcdefghijklmnop0123456789", k=rng.randrange(5, 400)))] * 2
            url = f"http://host{rng.randrange(5)}.example.org/{base}/{copy}"
            status = rng.choice(["200 OK"] * 8 + ["404 Not Found", "301 Moved"])
            kind = rng.choice(["text/html; charset=utf-8"] * 6 + ["application/xhtml+xml", "image/png"])
            if rng.random() < 0.15:
                records.append(make.conversion(url, "\n\n".join(mine)))
            else:
                records.append(make.response(url, make.page(mine, title=f"Page {base}"), status, kind))
    records += [make.response("http://d.example.org/de", make.page([GERMAN] * 12)), make.response("http://d/e", "")]
    rng.shuffle(records)
    cut = len(records) // 2
    make.write_gz(folder / "a.warc.gz", [make.warcinfo(), *records[:cut]])
    make.write_gz(folder / "b.warc.gz", [make.warcinfo(), *records[cut:]])
    return [str(folder)]


def fates(out: Path | str) -> dict[bytes, tuple[str, str, str, bytes | None]]:
    table = ledger(out).to_table(columns=[col.DOC_ID, col.FATE, col.STAGE, col.REASON, col.KEPT_DOC_ID])
    return {
        r[col.DOC_ID]: (r[col.FATE], r[col.STAGE] or "", r[col.REASON] or "", r[col.KEPT_DOC_ID])
        for r in table.to_pylist()
    }


def check(before: Path | str, sets: list[str], after: Path | str) -> Counter[str]:
    """Hold every claim against the second run; how many of each kind there were."""
    real = fates(after)
    with open_run(before) as opened:
        tuned = tune(opened, sets)
        ids = opened.ledger().to_table(columns=[col.DOC_ID]).column(col.DOC_ID).to_pylist()
        answer = tell(opened, tuned, samples=0)
    assert len(ids) == len(real) == tuned.new.size
    claims: dict[bytes, Fate] = {i: tuned.after[c] for i, c in zip(ids, tuned.new.tolist(), strict=True)}
    open_ones = {i for i, claim in claims.items() if claim.fate == NOT_KNOWN or claim.sure != CERTAIN}
    seen: Counter[str] = Counter()
    for i, claim in claims.items():
        fate, stage, reason, keeper = real[i]
        if claim.fate == NOT_KNOWN:
            seen[NOT_KNOWN] += 1
            order = [s.name for s in tuned.plan.steps]
            assert not stage or order.index(stage) >= order.index(claim.stage), "it goes before it is unknown"
            assert claim.why
        elif claim.sure == SOMEHOW:
            assert (fate, stage) == (claim.fate, claim.stage)
        elif claim.sure == IF:
            same = (fate, stage, reason) == (claim.fate, claim.stage, claim.reason)
            assert same or fate == col.KEPT or keeper in open_ones
        else:
            assert (fate, stage, reason) == (claim.fate, claim.stage, claim.reason), i.hex()
        if claim.fate != NOT_KNOWN:
            seen[claim.sure] += 1
    sums_hold(answer)
    documents, kept = answer["kept"]["documents"], sum(fate == col.KEPT for fate, *_ in real.values())
    assert documents["least"] <= kept <= documents["most"]
    if documents["likely"] is not None:
        assert documents["least"] <= documents["likely"] <= documents["most"]
    return seen


def sums_hold(answer: dict[str, Any]) -> None:
    """Every record has one fate before and one after."""
    for when in ("before", "after"):
        went = sum(n[when] for row in answer["funnel"] for n in row["reasons"].values())
        assert went + answer["kept"]["documents"][when] + answer["undecided"][when] == answer["rows"]


_DONE: dict[str, tuple[list[str], Path]] = {}


@pytest.fixture
def base(make: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """The zoo, and a finished run of it; made once a process."""
    if "zoo" not in _DONE:
        folder = tmp_path_factory.mktemp("zoo")
        inputs = zoo(make, folder / "crawl")
        run("web", inputs, folder / "out", engine="serial")
        _DONE["zoo"] = inputs, folder / "out"
    return _DONE["zoo"]


@pytest.mark.parametrize(("sets", "floor"), LIMITS, ids=lambda v: " ".join(v) if isinstance(v, list) else "")
def test_as_a_real_run(base: tuple[list[str], Path], sets: list[str], floor: int, tmp_path: Path) -> None:
    inputs, out = base
    run("web", inputs, tmp_path / "again", engine="serial", sets=sets)
    seen = check(out, sets, tmp_path / "again")
    assert seen[CERTAIN] >= floor


@pytest.fixture
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the sample corpus; made once a process."""
    if "sample" not in _DONE:
        out = tmp_path_factory.mktemp("sample") / "out"
        run("sample", [], out, engine="serial")
        _DONE["sample"] = [], out
    return _DONE["sample"][1]


@pytest.mark.parametrize(
    ("sets", "floor"),
    [(["language_id.threshold=0.9"], 345), (["language_id.threshold=0.5"], 204),
     (["quality_score.max_perplexity=700"], 345),
     (["language_id.languages=en,de,es", "minhash_drop.threshold=0.8"], 257)],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)  # fmt: skip
def test_on_the_sample_corpus(sampled: Path, sets: list[str], floor: int, tmp_path: Path) -> None:
    """345 documents each time: 1,380 verdicts held against real runs. floor: certain ones, at least."""
    run("sample", [], tmp_path / "again", engine="serial", sets=sets)
    seen = check(sampled, sets, tmp_path / "again")
    assert sum(seen.values()) == 345
    assert seen[CERTAIN] >= floor


CHANGING = ["c4_quality.enabled=true", "c4_quality.min_sentences=0", "mask_personal.enabled=true"]
AROUND = [
    ["quality_score.min_chars=1060"],
    ["quality_score.judge_from=1060", "quality_score.max_repetition=0.05"],
    ["quality_score.judge_from=0", "quality_score.max_entropy=4.3"],
]


@pytest.fixture
def changed(make: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], Path]:
    """A run whose texts are shortened by c4_quality and mask_personal, after quality_score; made once a process."""
    if "changed" not in _DONE:
        folder = tmp_path_factory.mktemp("changed")
        records = []
        for i in range(24):
            lines = make.prose(i, 4 + i // 4)
            lines += [f"Write to the keeper of tower {i}, {c}.{i}@lighthouse.example.net, today." for c in "abc"]
            lines += [f"Tower {c} of site {i}" for c in "abcdefghij"[: i % 10]]  # no sentences: c4_quality removes them
            lines += lines[:1] * (i % 4)
            records.append(make.conversion(f"http://a.example.org/{i}", "\n".join(lines)))
        make.write_gz(folder / "a.warc.wet.gz", [make.warcinfo(), *records])
        run("web", [str(folder / "a.warc.wet.gz")], folder / "out", engine="serial", sets=CHANGING)
        _DONE["changed"] = [str(folder / "a.warc.wet.gz")], folder / "out"
    return _DONE["changed"]


@pytest.mark.parametrize("sets", AROUND, ids=" ".join)
def test_a_text_that_later_stages_change(changed: tuple[list[str], Path], sets: list[str], tmp_path: Path) -> None:
    """The length that quality_score judged is not that of the text in the end."""
    inputs, out = changed
    rows = ledger(out).to_table(columns=["quality_score_chars", col.CHARS_OUT, "mask_personal_emails"]).to_pylist()
    assert sum(r[col.CHARS_OUT] < 1060 <= r["quality_score_chars"] for r in rows) >= 2, "no text is on both sides"
    assert any(r["mask_personal_emails"] for r in rows)
    run("web", inputs, tmp_path / "again", engine="serial", sets=[*CHANGING, *sets])
    seen = check(out, sets, tmp_path / "again")
    assert seen[CERTAIN] >= 20
    assert fates(tmp_path / "again") != fates(out)


@pytest.mark.slow
def test_on_the_hostile_corpus(tmp_path: Path) -> None:
    build = Path(__file__).parents[1] / "hostile" / "build.py"
    subprocess.run([sys.executable, str(build), str(tmp_path / "in")], check=True)
    sets = ["language_id.threshold=0.9", "minhash_drop.threshold=0.93"]
    run("web", [str(tmp_path / "in")], tmp_path / "out", engine="serial")
    run("web", [str(tmp_path / "in")], tmp_path / "again", engine="serial", sets=sets)
    seen = check(tmp_path / "out", sets, tmp_path / "again")
    assert sum(seen.values()) >= 1000
    assert seen[CERTAIN] >= 0.95 * sum(seen.values())
