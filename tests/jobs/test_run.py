"""Whole runs on small archives: fates, engines, resuming, refusing, storage that fails."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from cleanpipe.errors import ConfigError
from cleanpipe.opening import ledger, shards
from cleanpipe.run import run


def published(out):
    """What must be the same however a run ran."""
    out = Path(out)
    folders = ("data", "ledger", "index", "quarantine", "audit")
    keep = [p for folder in folders for p in sorted((out / folder).iterdir()) if p.name != "audit.html"]  # has costs
    return {str(p.relative_to(out)): p.read_bytes() for p in [*keep, out / "config_hash.txt", out / "recipe.toml"]}


def fates(out):
    rows = ledger(out).to_table().to_pylist()
    return {r["url"]: (r["fate"], r["stage"], r["reason"]) for r in rows if r["url"]}


@pytest.fixture
def done(crawl, tmp_path):
    return run("web", [str(crawl)], tmp_path / "out", engine="serial")


def test_every_record_has_its_fate(done):
    got = fates(done.out)
    assert got["http://a.example.org/0"] == ("kept", None, None)
    assert got["http://a.example.org/gone"] == ("dropped", "http_filter", "bad_status")
    assert got["http://a.example.org/pdf"] == ("dropped", "http_filter", "bad_type")
    assert got["http://a.example.org/de"][:2] == ("dropped", "language_preview")
    assert got["http://a.example.org/empty"][0] == "dropped"
    pair = {u: got[u] for u in ("http://a.example.org/1", "http://b.example.org/same")}
    assert sorted(p[2] or "" for p in pair.values()) == ["", "exact_duplicate"]
    near = [got[f"http://b.example.org/{u}"][2] for u in ("base", "near")]
    assert sorted(n or "" for n in near) == ["", "near_duplicate"]
    assert got["http://c.example.org/wet"] == ("kept", None, None)


def test_a_near_duplicate_names_its_keeper_and_the_exact_jaccard(done):
    rows = ledger(done.out).to_table().to_pylist()
    by_id = {r["doc_id"]: r for r in rows}
    gone = [r for r in rows if r["reason"] == "near_duplicate"]
    assert len(gone) == 1
    assert by_id[gone[0]["kept_doc_id"]]["fate"] == "kept"
    assert 0.85 <= gone[0]["jaccard"] < 1


def test_a_cut_tail_is_a_quarantined_range_and_the_rest_is_kept(done):
    rows = [r for r in ledger(done.out).to_table().to_pylist() if r["source"] == "two.warc.gz"]
    lost = [r for r in rows if r["reason"] == "damaged_range"]
    assert [(r["fate"], r["stage"], r["record_type"]) for r in lost] == [("quarantined", "read", None)]
    assert len(rows) == 4  # three pages before the cut, and the range
    (aside,) = ds.dataset(sorted((Path(done.out) / "quarantine").glob("*.parquet"))).to_table().to_pylist()
    assert aside["record_offset"] == lost[0]["record_offset"]
    assert aside["message"]
    assert done.exit_code == 0  # warned of and counted; --strict makes it 1


def test_wet_text_keeps_its_angle_bracket_and_http_does_not_apply(done):
    text = "".join(r["text"] for r in shards(done.out).to_table().to_pylist() if r["url"] == "http://c.example.org/wet")
    assert text.startswith("if a < b then")
    row = next(r for r in ledger(done.out).to_table().to_pylist() if r["url"] == "http://c.example.org/wet")
    assert row["http_status"] is None
    skipped = {s["stage"]: s["not_applicable"] for s in done.audit["funnel"]}
    assert skipped["http_filter"] == skipped["html_scrub"] == 1


def test_the_balance_closes_and_the_counts_are_right(done):
    assert done.audit["conservation"]["balanced"]
    assert done.audit["input"]["records"]["total"] == {"conversion": 1, "response": 13, "warcinfo": 3}
    assert done.audit["input"]["records"]["by_source"]["one.warc.gz"] == {"response": 10, "warcinfo": 1}


def test_engines_workers_and_input_order_give_the_same_bytes(crawl, done, tmp_path):
    files = sorted(map(str, crawl.iterdir()))
    other = run("web", files[::-1], tmp_path / "local", engine="local", workers=2)
    assert published(other.out) == published(done.out)


@pytest.mark.ray
def test_ray_gives_the_same_bytes(crawl, done, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    other = run("web", [str(crawl)], tmp_path / "ray", engine="ray", workers=2)
    assert published(other.out) == published(done.out)


def test_batches_and_shards_of_another_size_keep_the_same_documents(crawl, done, tmp_path):
    sets = ["read.batch_rows=2", "shards.max_bytes=30000", "shards.batch_rows=3"]
    other = run("web", [str(crawl)], tmp_path / "small", engine="serial", sets=sets)
    assert fates(other.out) == fates(done.out)
    files = sorted((Path(other.out) / "data").glob("*.arrow"))
    assert len(files) > 1
    assert all(f.stat().st_size <= 30_000 for f in files)
    columns = ["text", "doc_id", "window", "char_start"]
    assert shards(other.out).to_table(columns=columns) == shards(done.out).to_table(columns=columns)


def test_a_finished_run_is_left_alone(crawl, done):
    before = {p: p.stat().st_mtime_ns for p in Path(done.out).rglob("*") if p.is_file()}
    again = run("web", [str(crawl)], done.out, engine="serial")
    assert again.already
    assert again.audit == json.loads((Path(done.out) / "audit" / "audit.json").read_text())
    assert {p: p.stat().st_mtime_ns for p in Path(done.out).rglob("*") if p.is_file()} == before


REFUSALS = [
    ({"sets": ["language_id.threshold=0.7"]}, "language_id.threshold: .* → 0.7"),
    ({"recipe": "literal", "sets": ["language_id.threshold=0.65", "language_id.model=MODEL"]}, "differs"),
    ({"drop": "one.warc.gz"}, "one.warc.gz: no longer among the inputs"),
    ({"add": "four.warc.gz"}, "four.warc.gz: new among the inputs"),
    ({"touch": "one.warc.gz"}, "one.warc.gz: changed on disk"),
]


@pytest.mark.parametrize(("change", "message"), REFUSALS, ids=[m for _, m in REFUSALS])
def test_a_folder_of_another_run_is_refused_and_the_difference_named(crawl, done, change, message):
    if "drop" in change:
        (crawl / change["drop"]).unlink()
    if "add" in change:
        shutil.copy(crawl / "one.warc.gz", crawl / change["add"])
    if "touch" in change:
        data = (crawl / change["touch"]).read_bytes()
        (crawl / change["touch"]).write_bytes(data + data[-1:])
    sets = [s.replace("MODEL", str(next(iter(_model().values())))) for s in change.get("sets", [])]
    with pytest.raises(ConfigError, match=message):
        run(change.get("recipe", "web"), [str(crawl)], done.out, engine="serial", sets=sets)


def _model():
    from cleanpipe.registry import find, load

    return load(find("language_id"))().models()


def test_a_killed_run_goes_on_where_it_was(crawl, done, tmp_path):
    out = tmp_path / "killed"
    code = (
        "import os, sys\nfrom cleanpipe.engine import commit\nfrom cleanpipe.run import run\n"
        "real = commit.Units.commit\n"
        "def commit_two(self, key, result, seen=[]):\n"
        "    result = real(self, key, result)\n"
        "    seen.append(key)\n"
        "    if len(seen) == int(sys.argv[3]): os._exit(9)\n"
        "    return result\n"
        "commit.Units.commit = commit_two\n"
        "run('web', [sys.argv[1]], sys.argv[2], engine='serial')\n"
    )
    for after in (1, 2, 1, 3):  # killed four times, each after some units more
        assert (
            subprocess.run([sys.executable, "-c", code, str(crawl), str(out), str(after)], check=False).returncode == 9
        )
        assert not (out / "manifest.json").exists()
    resumed = run("web", [str(crawl)], out, engine="local", workers=2)
    assert resumed.facts["units"]["resumed"] == 3
    assert published(out) == published(done.out)
    assert not (out / "work").exists()


def test_reuse_takes_over_what_matches(crawl, tmp_path):
    run("web", [str(crawl)], tmp_path / "old", engine="serial", keep_work=True)
    sets = ["windowing.size=1024", "windowing.overlap=256"]
    new = run("web", [str(crawl)], tmp_path / "new", engine="serial", sets=sets, reuse=tmp_path / "old")
    assert new.facts["units"]["reused"] == 3  # reading and judging were not done again
    fresh = run("web", [str(crawl)], tmp_path / "fresh", engine="serial", sets=sets)
    assert published(new.out) == published(fresh.out)


def test_no_document_at_all_is_an_honest_empty_result(make, tmp_path):
    path = make.write_gz(tmp_path / "none.warc.gz", [make.warcinfo()])
    done = run("web", [str(path)], tmp_path / "out", engine="serial")
    assert done.exit_code == 0
    assert ledger(done.out).count_rows() == shards(done.out).count_rows() == 0
    assert "text" in shards(done.out).schema.names


def test_html_without_its_scrubber_is_refused(crawl, tmp_path):
    with pytest.raises(ConfigError, match="html_scrub is switched off"):
        run("web", [str(crawl)], tmp_path / "out", engine="serial", sets=["html_scrub.enabled=false"])


@pytest.mark.parametrize(
    "stage",
    [
        "http_filter",
        "language_preview",
        "language_id",
        "quality_score",
        "minhash_sign",
        "minhash_drop",
        "windowing",
        "utf8_normalize",
    ],
)
def test_every_other_stage_can_be_switched_off(crawl, tmp_path, stage):
    wet = [str(crawl / "three.warc.wet.gz")]
    done = run("web", wet, tmp_path / "out", engine="serial", sets=[f"{stage}.enabled=false"])
    assert done.audit["conservation"]["balanced"]
    assert fates(done.out) == {"http://c.example.org/wet": ("kept", None, None)}
    assert stage not in {s["stage"] for s in done.audit["funnel"]}
