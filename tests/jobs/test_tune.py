"""``cleanpipe tune`` as a command: what it prints and writes, and what it answers to bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from cleanpipe import batch as col
from cleanpipe.observer import Observer
from cleanpipe.opening import ledger
from cleanpipe.queries.opened_run import open_run
from cleanpipe.queries.tune import CERTAIN, NOT_KNOWN, UNDECIDED, tune
from cleanpipe.recipe import load_recipe
from cleanpipe.run import run
from cleanpipe_jobs.cli import main


@pytest.fixture
def done(crawl: Path, tmp_path: Path) -> Path:
    run("web", [str(crawl)], tmp_path / "out", engine="serial")
    return tmp_path / "out"


def told(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main(["tune", *args, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["tune", *args]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cleanpipe: ")
    assert error.count("\n") == 1
    return error


def test_what_would_be_lost(done: Path, crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """http_filter takes text/html no more: all pages go for their type, the two WET and text rows stay."""
    answer = told(capsys, str(done), "--set", 'http_filter.types=["text/plain"]')
    rows = ledger(done).to_table().to_pylist()
    lost = [r for r in rows if r["fate"] == "kept" and r["media_type"] == "text/html"]
    stay = [r for r in rows if r["fate"] == "kept" and r["media_type"] != "text/html"]
    assert answer["changes"] == [
        {
            "option": "http_filter.types",
            "before": ["text/html", "application/xhtml+xml", "text/plain"],
            "after": ["text/plain"],
            "words": '["text/html", "application/xhtml+xml", "text/plain"] → ["text/plain"]',
        }
    ]
    documents = answer["kept"]["documents"]
    assert (documents["before"], documents["after"]) == (len(lost) + len(stay), len(stay))
    assert documents["least"] == documents["most"] == len(stay)
    assert answer["kept"]["characters"]["after"] == sum(r["chars_out"] for r in stay)
    assert answer["kept"]["bytes"]["before"] == sum(r["bytes_in"] for r in lost + stay)
    assert answer["flips"]["lost"] == len(lost)
    assert sum(row["documents"] for row in answer["by"]["lost"]["host"]) == len(lost)
    assert {s["url"] for s in answer["samples"]["lost"]} == {r["url"] for r in lost}
    funnel = {(row["stage"], reason): n for row in answer["funnel"] for reason, n in row["reasons"].items()}
    html = [
        r for r in rows if r["media_type"] == "text/html" and r["http_status"] == 200 and r["fate"] != "quarantined"
    ]
    before = sum(r["reason"] == "bad_type" for r in rows)
    assert funnel["http_filter", "bad_type"] == {"before": before, "after": before + len(html)}


def test_the_score_stands_beside_both_limits(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(capsys, str(done), "--set", "language_id.threshold=1.0")
    scores = {r["url"]: r["language_id_score"] for r in ledger(done).to_table().to_pylist()}
    assert answer["samples"]["lost"]
    for sample in answer["samples"]["lost"]:
        assert sample["after"] == "dropped/language_id/low_confidence"
        assert sample["scores"] == [
            {
                "score": "language_id_score", "value": scores[sample["url"]], "keeps": ">=", "old": 0.65, "new": 1.0,
                "option": "threshold",
            }
        ]  # fmt: skip


def test_it_reads_well(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", str(done), "--set", "language_id.threshold=1.0", "--samples", "1"]) == 0
    text = capsys.readouterr().out
    assert "language_id.threshold: not set (0.65 in force) → 1.0" in text
    assert "language_id low_confidence" in text
    assert "kept if at least 0.65 → 1\n" in text
    assert main(["tune", str(done), "--set", "language_id.threshold=0.65"]) == 0
    assert "no document's fate changes" in capsys.readouterr().out


def test_files_name_every_document(done: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flips, unknown = tmp_path / "flips.jsonl", tmp_path / "unknown.parquet"
    sets = ["--set", "http_filter.statuses=[404]"]
    answer = told(capsys, str(done), *sets, "--flips", str(flips), "--unknown", str(unknown))
    rows = {r["doc_id"].hex(): r for r in ledger(done).to_table().to_pylist()}
    lines = [json.loads(line) for line in flips.read_text().splitlines()]
    assert len(lines) == answer["flips"]["lost"] + answer["flips"]["gained"] + answer["flips"]["moved"] > 0
    for line in lines:
        row = rows[line["doc_id"]]
        assert (line["old_fate"], line["old_stage"], line["old_reason"]) == (row["fate"], row["stage"], row["reason"])
        assert (line["new_fate"], line["new_stage"], line["new_reason"]) == ("dropped", "http_filter", "bad_status")
        assert (line["url"], line["source"], line["record_offset"]) == (row["url"], row["source"], row["record_offset"])
    listed = pq.read_table(unknown).to_pylist()
    assert [rows[r["doc_id"]]["url"] for r in listed] == ["http://a.example.org/gone"]
    assert listed[0]["new_fate"] == NOT_KNOWN
    assert listed[0]["why"] == "it passes http_filter now, where it went: url_filter never saw it"
    assert answer["unknown"] == [{"stage": "url_filter", "why": listed[0]["why"], "documents": 1}]
    assert answer["written"] == {str(flips): len(lines), str(unknown): 1}


def test_the_written_recipe_is_the_runs_with_the_changes(
    done: Path, crawl: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "new.toml"
    sets = ["language_id.threshold=0.9", "minhash_drop.enabled=false"]
    told(capsys, str(done), "--set", sets[0], "--set", sets[1], "--write", str(file))
    assert load_recipe(file).canonical() == load_recipe("web", sets).canonical()
    again = run(str(file), [str(crawl)], tmp_path / "again", engine="serial")
    assert again.exit_code == 0


def test_options_that_decide_no_fate(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(capsys, str(done), "--set", "windowing.size=4096", "--set", "shards.max_bytes=100000")
    assert not any(answer["flips"].values())
    assert answer["notes"] == ["shards.max_bytes, windowing.size: decides no document's fate"]
    answer = told(capsys, str(done), "--set", "language_id.chars=1024")
    assert answer["notes"] == ["every option has the value that it had in the run: nothing changes"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "name what would be another: --set language_id.threshold=0.9"),
        (["--set", "storage.region=x"], "name what would be another"),
        (["--set", "language_id.treshold=0.9"], "did you mean 'threshold'?"),
        (["--set", "langage_id.threshold=0.9"], "did you mean 'language_id'?"),
        (["--set", "language_id.threshold=high"], "language_id.threshold"),
        (["--set", "language_id.threshold=1.5"], "threshold = 1.5: it must be from 0 to 1"),
        (["--set", "minhash_drop.threshold=0"], "threshold = 0.0: it must be above 0"),
        (["--set", "language_id"], "write stage.option=value"),
        (["--set", "language_id.chars=2", "--flips", "x.csv"], "ends in .parquet or .jsonl"),
        (["--set", "language_id.chars=2", "--unknown", "no/such/x.jsonl"], "no folder"),
        (["--set", "language_id.chars=2", "--write", "."], "--write . is a folder"),
        (["--set", "language_id.chars=2", "--samples", "-1"], "--samples"),
    ],
)
def test_bad_input(
    done: Path, args: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert says in refused(capsys, str(done), *args)


def test_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no run" in refused(capsys, str(tmp_path), "--set", "language_id.threshold=0.9")


def test_an_empty_run(make: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make.write_gz(tmp_path / "empty.warc.gz", [make.warcinfo()])
    run("web", [str(tmp_path / "empty.warc.gz")], tmp_path / "out", engine="serial")
    answer = told(capsys, str(tmp_path / "out"), "--set", "language_id.threshold=0.9")
    assert answer["rows"] == answer["kept"]["documents"]["after"] == 0
    assert main(["tune", str(tmp_path / "out"), "--set", "minhash_drop.threshold=0.9"]) == 0


def older(out: Path, without: list[str]) -> None:
    """Take columns out of the ledger, as a version that did not write them left it."""
    manifest = json.loads((out / "manifest.json").read_text())
    for part in sorted((out / "ledger").glob("*.parquet")):
        table = pq.read_table(part)
        pq.write_table(table.drop_columns(without), part)
        manifest["files"][f"ledger/{part.name}"]["bytes"] = part.stat().st_size
    (out / "manifest.json").write_text(json.dumps(manifest))


def test_the_ledger_of_an_older_version(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What its columns cannot tell is unknown; what they can is told."""
    rows = ledger(done).to_table().to_pylist()
    met = sum(r["fate"] == "kept" or r["stage"] == "minhash_drop" for r in rows)
    html = [r for r in rows if r["language_preview"] is not None]
    older(done, ["minhash_drop_component", "language_preview_letters"])
    answer = told(capsys, str(done), "--set", "minhash_drop.threshold=0.9")
    assert [u["documents"] for u in answer["unknown"]] == [met]
    assert "older version" in answer["unknown"][0]["why"]
    answer = told(capsys, str(done), "--set", "language_preview.letters=50")
    assert sum(u["documents"] for u in answer["unknown"]) >= len(html)
    assert answer["unknown"][0]["why"] == "the ledger has no language_preview_letters: an older version wrote it"
    answer = told(capsys, str(done), "--set", "minhash_drop.enabled=false")
    assert answer["unknown"] == []
    assert answer["kept"]["documents"]["after"] == met


class Stop(Observer):
    """Ends the driver in a phase, after so many of its tasks."""

    def __init__(self, phase: str, after: int) -> None:
        self.wanted, self.left, self.now = phase, after, ""

    def phase(self, name: str, tasks: int) -> None:
        self.now = name
        self._count()

    def finished(self, label: str, documents: int, alive: int) -> None:
        self._count()

    def _count(self) -> None:
        if self.now == self.wanted:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt


@pytest.mark.parametrize("sets", [["language_id.threshold=0.9"], ["minhash_drop.threshold=0.6"]])
@pytest.mark.parametrize(("phase", "after"), [("read", 2), ("meet", 0), ("window", 1), ("window", 2)])
def test_a_run_that_is_not_finished(
    crawl: Path, tmp_path: Path, phase: str, after: int, sets: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What is decided is told, and holds; what waits for the others is not decided yet."""
    with pytest.raises(KeyboardInterrupt):
        run("web", [str(crawl)], tmp_path / "half", engine="serial", observer=Stop(phase, after))
    answer = told(capsys, str(tmp_path / "half"), "--set", sets[0])
    assert "not finished" in answer["caution"]
    whole = run("web", [str(crawl)], tmp_path / "again", engine="serial", sets=sets).out
    real = {
        r[col.DOC_ID]: (r["fate"], r["stage"] or "", r["reason"] or "") for r in ledger(whole).to_table().to_pylist()
    }
    with open_run(tmp_path / "half") as opened:
        tuned = tune(opened, sets)
        ids = opened.ledger().to_table(columns=[col.DOC_ID]).column(col.DOC_ID).to_pylist()
        undecided = opened.undecided
    claims = [tuned.after[c] for c in tuned.new.tolist()]
    for name, claim in zip(ids, claims, strict=True):
        if claim.fate not in (NOT_KNOWN, UNDECIDED) and claim.sure == CERTAIN:
            assert real[name] == (claim.fate, claim.stage, claim.reason)
    waiting = np.array([f.fate == "undecided" for f in tuned.before] or [False])[tuned.old]
    assert int(waiting.sum()) == undecided
    for claim in (c for c, w in zip(claims, waiting.tolist(), strict=True) if w):
        assert claim.fate == UNDECIDED or (claim.fate == col.DROPPED and claim.stage == sets[0].partition(".")[0])
    assert answer["undecided"] == {"before": undecided, "after": sum(c.fate == UNDECIDED for c in claims)}
    assert answer["flips"]["decided"] == undecided - answer["undecided"]["after"]
    sums_hold(answer)
    assert main(["tune", str(tmp_path / "half"), "--set", sets[0]]) == 0
    text = capsys.readouterr().out
    assert ("not decided yet  " in text) == bool(undecided)
    assert "undecided → dropped" not in text.partition("not decided yet in the run, decided now")[0]


def sums_hold(answer: dict[str, Any]) -> None:
    """Every record has one fate before and one after."""
    for when in ("before", "after"):
        went = sum(n[when] for row in answer["funnel"] for n in row["reasons"].values())
        assert went + answer["kept"]["documents"][when] + answer["undecided"][when] == answer["rows"]


@pytest.mark.parametrize(
    "sets",
    ["http_filter.statuses=[404]", "language_preview.enabled=false", "minhash_sign.rows=4", "windowing.size=999"],
)
def test_the_columns_sum_to_the_ledger(done: Path, sets: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In the answer, and as it is printed."""
    answer = told(capsys, str(done), "--set", sets)
    sums_hold(answer)
    assert answer["rows"] == ledger(done).count_rows()
    assert main(["tune", str(done), "--set", sets, "--samples", "0"]) == 0
    lines = capsys.readouterr().out.partition("\nwent at ")[2].split("\n\n")[0].splitlines()[1:]
    for place in (0, 1):
        numbers = [int(re.split(r"  +", line)[1:][place].replace(",", "")) for line in lines]
        assert sum(numbers[:-1]) == numbers[-1] == answer["rows"]


def test_limits_in_words(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for sets, says in [
        ("quality_score.max_perplexity=5000", "quality_score.max_perplexity: not set ("),
        ("quality_score.max_perplexity=5000", " in force) → 5000"),
        ("quality_score.min_chars=100000", "kept if no limit → at least 100,000"),
        ("quality_score.max_perplexity=0", "→ 0"),
        ("language_id.languages=en,de", "language_preview.languages keeps en only, so documents of de may go there"),
        ("language_id.languages=en,de", """--set 'language_preview.languages=["en", "de"]'"""),
        ("language_preview.languages=en,de", "language_id.languages keeps en only, so documents of de may go there"),
        ("language_id.chars=99", "language_id.chars changes language, language_id_score and 5 more, which the ledger"),
        ("html_scrub.main_content=false", "html_scrub.main_content changes scrubbed, which the ledger knows"),
        ("minhash_sign.rows=4", "minhash_drop reads band_keys, which minhash_sign.rows changes"),
    ]:
        assert main(["tune", str(done), "--set", sets, "--samples", "3"]) == 0
        assert says in capsys.readouterr().out, sets
    assert (
        main(["tune", str(done), "--set", "language_id.languages=en,de", "--set", "language_preview.languages=en,de"])
        == 0
    )
    assert "may go there" not in capsys.readouterr().out


def test_an_estimate_stands_before_the_bounds(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One page of status 404 passes now; of those that reached url_filter, a share was kept: it is like them."""
    answer = told(capsys, str(done), "--set", "http_filter.statuses=[200,404]")
    rows = ledger(done).to_table().to_pylist()
    kept = sum(r["fate"] == "kept" for r in rows)
    reached = sum(r["fate"] == "kept" or r["stage"] not in ("read", "http_filter") for r in rows)
    documents = answer["kept"]["documents"]
    assert documents["open"] == {"http_filter": 1}
    assert documents["shares"] == {"url_filter": round(kept / reached, 6)}
    assert documents["likely"] == kept + round(kept / reached)
    assert (documents["stay"], documents["stay_open"], documents["come"]) == (kept, 0, 0)
    assert answer["kept"]["characters"]["most"] is None  # nobody knows how long its text would be
    assert main(["tune", str(done), "--set", "http_filter.statuses=[200,404]"]) == 0
    text = capsys.readouterr().out
    assert f"{kept} → about {documents['likely']} (an estimate; certain: from " in text
    assert f"{kept} of the {kept} kept now stay, unless the unknown document is their duplicate" in text
    assert "cleanpipe plan new.toml" in text


def test_hosts_of_very_many_are_read_of_a_part(
    done: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Languages are counted of all."""
    sets = ["--set", 'http_filter.types=["text/plain"]']
    whole = told(capsys, str(done), *sets)
    assert whole["hosts"]["read"] == whole["hosts"]["of"] == sum(whole["flips"].values())
    monkeypatch.setattr("cleanpipe.queries.tune_tell.HOSTS_READ", 1)
    part = told(capsys, str(done), *sets)
    assert 0 < part["hosts"]["read"] <= part["hosts"]["of"] == whole["hosts"]["of"]
    assert part["by"]["lost"]["language"] == whole["by"]["lost"]["language"]
    read = sum(row["documents"] for kind in part["by"].values() for row in kind.get("host", ()))
    assert read == part["hosts"]["read"]
