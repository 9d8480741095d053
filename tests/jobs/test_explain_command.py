"""``cleanpipe explain``: what is said, to a person and as JSON, and with which exit status."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cleanpipe.observer import Observer
from cleanpipe.run import run
from cleanpipe_jobs.cli import main
from cleanpipe_jobs.explain_text import safe, words_apart


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    out = tmp_path_factory.mktemp("explain") / "run"
    run("sample", [], out, engine="serial")
    return out


@pytest.fixture
def ask(capsys):
    """Runs the command: exit status, what was printed, what was warned of."""

    def asked(*args):
        status = main(["explain", *map(str, args)])
        said = capsys.readouterr()
        return status, said.out, said.err

    return asked


def rows_of(out):
    return [r for p in sorted((Path(out) / "ledger").iterdir()) for r in pq.read_table(p).to_pylist()]


def first(out, **wanted):
    return next(r for r in rows_of(out) if all(r[n] == v for n, v in wanted.items()))


def as_json(ask, *args):
    status, out, _ = ask(*args, "--json")
    return status, json.loads(out)


def test_a_dropped_document_with_its_scores_beside_the_limits(sample, ask):
    row = first(sample, reason="low_confidence")
    status, out, _ = ask(sample, row["doc_id"].hex())
    assert status == 0
    lines = out.splitlines()
    assert lines[1].endswith("dropped by language_id: low_confidence")
    line = next(li for li in lines if "DECIDED" in li)
    assert "language_id_score" in line
    assert f"{row['language_id_score']:.6f}".rstrip("0") in line
    assert "at least 0.65 (threshold)" in line
    assert "the replay gives the same" in out
    assert "markup after decode" in out
    assert "quality_score       not reached" in out


def test_the_same_as_json(sample, ask):
    row = first(sample, reason="low_confidence", media_type="text/html")
    status, said = as_json(ask, sample, row["url"])
    assert status == 0
    assert (said["fate"], said["stage"], said["reason"]) == ("dropped", "language_id", "low_confidence")
    assert said["doc_id"] == row["doc_id"].hex()
    stages = {s["stage"]: s for s in said["stages"]}
    decided = [li for s in said["stages"] for li in s["limits"] if li["mark"] == "decided"]
    assert [(li["score"], li["value"], li["at"]) for li in decided] == [
        ("language_id_score", row["language_id_score"], 0.65)
    ]
    assert stages["http_filter"]["outcome"] == "passed"
    assert stages["windowing"]["outcome"] == "not reached"
    assert said["provenance"]["content_id"] == row["content_id"].hex()
    assert said["provenance"]["record_offset"] == row["record_offset"]
    replay = said["replay"]
    assert (replay["proven"], replay["differences"], replay["undone"]) == (True, [], "")
    assert {"content_id", "language_id_score", "fate"} <= set(replay["same"])
    assert [b["column"] for b in replay["boundaries"]] == ["markup", "scrubbed", "text"]


def test_every_limit_of_every_stage_agrees_with_the_fate(sample, ask):
    """Kept documents pass what is asked of all; of a dropped one a decisive limit is of its stage and reason."""
    seen = set()
    for row in rows_of(sample):
        if (row["stage"], row["reason"]) in seen:
            continue
        seen.add((row["stage"], row["reason"]))
        _, said = as_json(ask, sample, row["doc_id"].hex(), "--no-replay")
        assert said["replay"] is None
        for stage in said["stages"]:
            for limit in stage["limits"]:
                if limit["mark"] == "decided":
                    assert (stage["stage"], limit["reason"]) == (row["stage"], row["reason"])
                if stage["outcome"] == "passed":
                    assert limit["mark"] in ("passed", "not asked", "not measured"), limit
                if limit["mark"] == "not asked":
                    assert limit["of"], limit
    assert len(seen) >= 8


def test_a_kept_document(sample, ask):
    row = first(sample, fate="kept")
    status, said = as_json(ask, sample, row["doc_id"].hex(), "--full")
    assert status == 0
    assert (said["windows"], said["shard"]) == (row["windows"], row["shard"])
    assert said["replay"]["shard_rows"] == row["windows"]
    assert said["replay"]["shard_differs"] == []
    assert len(said["replay"]["boundaries"][-1]["text"]) == row["chars_out"]
    status, out, _ = ask(sample, row["doc_id"].hex())
    assert f"kept: {row['windows']:,} window" in out
    assert "are the same, and join to the same text" in out


def test_duplicates_name_the_kept_one_and_the_kept_one_counts_them(crawl, tmp_path, ask):
    out = tmp_path / "out"
    run("web", [str(crawl)], out, engine="serial")
    near = first(out, reason="near_duplicate")
    status, said = as_json(ask, out, near["doc_id"].hex())
    assert status == 0
    other = said["stands_for_it"]
    assert (other["doc_id"], other["jaccard"]) == (near["kept_doc_id"].hex(), near["jaccard"])
    kept = next(r for r in rows_of(out) if r["doc_id"] == near["kept_doc_id"])
    assert (other["url"], other["fate"]) == (kept["url"], "kept")
    assert said["replay"]["met_again"]["differences"] == []
    words = said["replay"]["words"]
    assert 0 < words["only_here_count"] < words["here"]
    status, text, _ = ask(out, near["url"])
    assert status == 0
    assert f"stands for it, Jaccard index {near['jaccard']:g}" in text
    assert "only here" in text
    assert "the two met" in text
    _, said = as_json(ask, out, kept["doc_id"].hex())
    assert said["stands_for"] == sum(r["kept_doc_id"] == kept["doc_id"] for r in rows_of(out))
    exact = first(out, reason="exact_duplicate")
    status, text, _ = ask(out, exact["doc_id"].hex())
    assert status == 0
    assert "both texts are the same" in text


def test_captures_of_one_url(make, tmp_path, ask):
    pages = [make.response("http://a.example/", make.page(make.prose(i, 20))) for i in range(3)]
    path = make.write_gz(tmp_path / "a.warc.gz", pages)
    run("web", [str(path)], tmp_path / "out", engine="serial")
    rows = rows_of(tmp_path / "out")
    status, out, _ = ask(tmp_path / "out", "http://a.example/", "--no-replay")
    assert status == 0
    assert out.startswith("3 rows of the ledger have this key")
    assert all(r["doc_id"].hex() in out for r in rows)
    status, said = as_json(ask, tmp_path / "out", "http://a.example/", "--no-replay")
    assert [c["doc_id"] for c in said["captures"]] == [r["doc_id"].hex() for r in rows]
    assert said["doc_id"] == rows[0]["doc_id"].hex()


def test_an_unknown_key(sample, ask):
    row = first(sample, fate="kept")
    status, out, err = ask(sample, row["url"] + "#part")
    assert (status, out) == (2, "")
    assert row["url"] in err
    assert "the same page" in err
    status, said = as_json(ask, sample, row["url"] + "#part")
    assert (status, said["exit_code"]) == (2, 2)
    assert said["nearest"][0]["doc_id"] == row["doc_id"].hex()
    status, _, err = ask(sample, "\x1b[31mred\n" + "x" * 100_000)
    assert status == 2
    assert "\x1b" not in err
    assert len(err) < 2000


HOSTILE = "\x1b[31mRED\x1b[0m\x07\x08 \x9b31m \u202eright-to-left \u2066 <script>alert(1)</script> "


def test_nothing_of_a_page_reaches_the_terminal_unescaped(make, tmp_path, ask):
    html = make.page([HOSTILE + p for p in make.prose(1, 20)], title=HOSTILE)
    record = make.response("http://a.example/\x1b[31m\u202e", html, extra="X-Evil: \x1b]0;title\x07\r\n")
    near = make.response("http://b.example/", make.page([HOSTILE + p for p in make.prose(1, 20)] + [HOSTILE + "more"]))
    path = make.write_gz(tmp_path / "a.warc.gz", [record, near])
    run("web", [str(path)], tmp_path / "out", engine="serial")
    for row in rows_of(tmp_path / "out"):
        for options in ((), ("--full", "--diff")):
            status, out, err = ask(tmp_path / "out", row["doc_id"].hex(), *options)
            assert status == 0
            odd = {c for c in out + err if not c.isprintable() and c != "\n"}
            assert not odd, odd
    assert "RED" in out


def test_diff_and_full(sample, ask):
    row = first(sample, fate="kept")
    _, short, _ = ask(sample, row["doc_id"].hex())
    _, full, _ = ask(sample, row["doc_id"].hex(), "--full")
    _, diff, _ = ask(sample, row["doc_id"].hex(), "--diff")
    assert len(full) > len(short)
    assert "lines more (--full)" in short
    assert "lines more (--full)" not in full
    assert "--- before" in diff
    assert "--- before" not in short
    _, said = as_json(ask, sample, row["doc_id"].hex(), "--diff")
    assert all(len(b.get("diff", [])) <= 61 for b in said["replay"]["boundaries"])


def test_moved_and_changed_inputs(crawl, tmp_path, ask):
    out = tmp_path / "out"
    run("web", [str(crawl)], out, engine="serial")
    crawl.rename(tmp_path / "moved")
    key = "http://a.example.org/1"
    status, text, _ = ask(out, key)
    assert status == 1
    assert "not proven" in text
    assert "--input" in text
    assert "dropped" in text or "kept" in text  # the ledger's answer is given all the same
    assert ask(out, key, "--no-replay")[0] == 0
    for place in ("moved", "moved/one.warc.gz"):
        status, text, err = ask(out, key, "--input", tmp_path / place, "--input", tmp_path / "moved")
        assert status == 0, text
        assert "the input" not in err
    data = gzip.decompress((tmp_path / "moved/one.warc.gz").read_bytes()).replace(b"harbour", b"HARBOUR")
    (tmp_path / "moved/one.warc.gz").write_bytes(gzip.compress(data, mtime=0))
    status, text, err = ask(out, key, "--input", tmp_path / "moved")
    assert status == 1
    assert "when it was run" in err


def test_a_ledger_that_was_changed_is_found_out(sample, tmp_path, ask):
    out = Path(shutil.copytree(sample, tmp_path / "run"))
    path = next(p for p in sorted((out / "ledger").iterdir()) if "kept" in pq.read_table(p)["fate"].to_pylist())
    table = pq.read_table(path)
    rows = [{**r, "content_id": bytes(16)} if r["fate"] == "kept" else r for r in table.to_pylist()]
    pq.write_table(table.from_pylist(rows, table.schema), path)
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["files"][f"ledger/{path.name}"]["bytes"] = path.stat().st_size
    (out / "manifest.json").write_text(json.dumps(manifest))
    row = next(r for r in rows if r["fate"] == "kept")
    status, text, _ = ask(out, row["doc_id"].hex())
    assert status == 1
    assert f"DIFFERS: content_id is {'00' * 16} in the ledger" in text


def test_a_shard_that_was_changed_is_found_out(sample, tmp_path, ask):
    out = Path(shutil.copytree(sample, tmp_path / "run"))
    row = first(out, fate="kept")
    path = out / "data" / row["shard"]
    with pa.memory_map(str(path)) as source:
        whole = pa.ipc.open_stream(source).read_all()
    for change, said in (
        (lambda rows: [{**r, "text": r["text"].replace("e", "E")} for r in rows], "column text"),
        (lambda rows: [r for r in rows if r["doc_id"] != row["doc_id"]], "0 windows in the shard"),
        (lambda rows: [{**r, "language_id_score": 0.5} for r in rows], "column language_id_score"),
    ):
        table = pa.Table.from_pylist(change(whole.to_pylist()), whole.schema)
        path.unlink()
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        status, text, _ = ask(out, row["doc_id"].hex())
        assert status == 1
        assert f"DIFFERS in the shard: {said}" in text
    path.write_bytes(b"no shard")
    status, text, _ = ask(out, row["doc_id"].hex())
    assert status == 1
    assert "is damaged" in text
    path.unlink()
    status, text, _ = ask(out, row["doc_id"].hex())
    assert status == 0
    assert "the shard is not at hand" in text


def test_damaged_ranges_and_their_error(crawl, tmp_path, ask):
    out = tmp_path / "out"
    run("web", [str(crawl)], out, engine="serial")
    row = first(out, fate="quarantined")
    status, said = as_json(ask, out, f"{row['source']}@{row['record_offset']}")
    assert status == 0
    quarantine = next(r for p in (out / "quarantine").iterdir() for r in pq.read_table(p).to_pylist())
    assert said["quarantine"]["error"] == quarantine["error"]
    assert said["replay"]["error"].startswith(quarantine["error"])
    status, text, _ = ask(out, row["doc_id"].hex())
    assert status == 0
    assert quarantine["message"] in text


class Stop(Observer):
    def finished(self, label, documents, alive):
        raise KeyboardInterrupt


def test_an_unfinished_run(crawl, tmp_path, ask):
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        run("web", [str(crawl)], out, engine="serial", observer=Stop())
    from cleanpipe.queries.shelf import open_shelf

    with open_shelf(out) as shelf:
        rows = [r for p in shelf.parts for r in shelf.columns(p, ["url", "fate"]).to_pylist()]
    waiting = next(r for r in rows if r["fate"] is None)
    status, text, err = ask(out, waiting["url"], "--input", crawl)
    assert status == 0, text
    assert "not finished" in err
    assert "not decided yet" in text
    status, said = as_json(ask, out, waiting["url"], "--no-replay")
    assert said["fate"] is None
    assert "not finished" in said["caution"]
    assert {s["outcome"] for s in said["stages"]} <= {"passed", "not decided"}


@pytest.mark.parametrize("out", ["nowhere", "file"])
def test_no_run(tmp_path, ask, out):
    (tmp_path / "file").write_text("x")
    status, _, err = ask(tmp_path / out, "http://a.example/")
    assert status == 2
    assert err.startswith("cleanpipe: ")


def test_an_empty_run(make, tmp_path, ask):
    path = make.write_gz(tmp_path / "a.warc.gz", [make.warcinfo()])
    run("web", [str(path)], tmp_path / "out", engine="serial")
    status, _, err = ask(tmp_path / "out", "http://a.example/")
    assert status == 2
    assert "no row of the ledger" in err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\x1bb", "a\\x1bb"),
        ("a\u202eb", "a\\u202eb"),
        ("a\nb\t", "a\\nb\\t"),
        ("é中", "é中"),
        ("\ud800", "\\ud800"),
    ],
)
def test_safe(text, shown):
    assert safe(text) == shown


def test_words_apart():
    said = words_apart("a b c c d", "c b a a e")
    assert (said["here"], said["there"], said["common"]) == (5, 5, 3)
    assert (said["only_here"], said["only_there"]) == (["c", "d"], ["a", "e"])
    assert (said["only_here_count"], said["only_there_count"], said["same_text"]) == (2, 2, False)
    assert words_apart("a", "a")["same_text"]
    assert words_apart(None, "a") is None


def test_a_run_on_an_object_store(s3, sample, tmp_path, ask):
    for path in sample.rglob("*"):
        if path.is_file():
            s3.client.put_object(Bucket="crawls", Key=f"run/{path.relative_to(sample)}", Body=path.read_bytes())
    sets = [f"storage.endpoint={s3.url}", f"storage.scratch={tmp_path / 'scratch'}"]
    options = [word for one in sets for word in ("--set", one)]
    near = first(sample, reason="exact_duplicate")
    for row in (first(sample, fate="kept"), near, first(sample, reason="low_confidence")):
        status, said = as_json(ask, "s3://crawls/run", row["doc_id"].hex(), *options)
        assert status == 0
        assert said["fate"] == row["fate"]
        assert said["replay"]["proven"]
    status, _, err = ask("s3://crawls/run", "http://nowhere.example/", *options)
    assert status == 2
    assert "no row" in err


def test_a_model_that_is_not_here(sample, ask, monkeypatch):
    """The ledger is told all the same; that the replay cannot be done is said."""
    from cleanpipe.errors import ConfigError
    from cleanpipe_stages.language_id import LanguageId

    def gone(self):
        raise ConfigError("model file not found: /gone", stage="language_id")

    for name in ("cuts", "models", "open"):
        monkeypatch.setattr(LanguageId, name, gone)
    from cleanpipe.engine import opened

    monkeypatch.setattr(opened, "_held", {})
    row = first(sample, fate="kept")
    status, out, err = ask(sample, row["doc_id"].hex())
    assert status == 1
    assert "kept" in out
    assert "not proven: language_id: model file not found" in out
    assert "the limits of language_id are not known here" in err


def test_a_terminal_of_ascii_alone(sample, tmp_path):
    row = first(sample, reason="other_language")
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    line = [sys.executable, "-m", "cleanpipe_jobs.cli", "explain", str(sample), row["doc_id"].hex()]
    done = subprocess.run(line, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
