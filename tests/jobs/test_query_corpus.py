"""The folder of a corpus audit: SQL over its ledger; every other question says what it is and what can be asked."""

import json

import pyarrow.parquet as pq
import pytest

from cleanpipe.corpus.run import audit_corpus
from cleanpipe.errors import ConfigError
from cleanpipe.queries.opened_run import open_run
from cleanpipe.run import run
from cleanpipe_jobs.cli import main

pytest.importorskip("duckdb")


@pytest.fixture
def out(make, tmp_path):
    rows = [{"text": " ".join(make.prose(i)), "url": f"http://h.example/{i}"} for i in range(3)]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    audit_corpus([str(tmp_path / "c.jsonl")], tmp_path / "audit")
    return tmp_path / "audit"


def test_its_ledger_is_asked_by_sql(out, capsys):
    fates = [f for p in sorted((out / "ledger").iterdir()) for f in pq.read_table(p).column("fate").to_pylist()]
    assert main(["query", str(out), "SELECT fate, count(*) AS n, min(host) AS h FROM ledger GROUP BY 1", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {r["fate"]: r["n"] for r in said["rows"]} == {f: fates.count(f) for f in set(fates)}
    assert {r["h"] for r in said["rows"]} == {"h.example"}
    assert main(["query", str(out), "FROM shards"]) == 2
    assert "The tables are ledger" in capsys.readouterr().err


def test_its_columns_and_examples_are_shown_and_work(out, capsys):
    assert main(["query", str(out), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert list(said["tables"]) == ["ledger"]
    assert said["tables"]["ledger"]["rows"] == 3
    meanings = {c["name"]: c["meaning"] for c in said["tables"]["ledger"]["columns"]}
    assert meanings["fails"]
    assert "archive" not in meanings["source"]
    for example in said["examples"]:
        assert main(["query", str(out), example]) == 0
    assert main(["query", str(out)]) == 0
    assert "3 rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [
        ["explain", "OUT", "http://h.example/1"],
        ["tune", "OUT", "--set", "language_id.threshold=0.9"],
        ["report", "OUT"],
        ["watch", "OUT"],
        ["watch", "OUT", "--once", "--json"],
        ["diff", "OUT", "OUT"],
    ],
    ids=" ".join,
)
def test_other_questions_say_what_it_is(command, out, capsys):
    before = sorted(out.rglob("*"))
    assert main([str(out) if w == "OUT" else w for w in command]) == 2
    said = capsys.readouterr().err
    assert "audit of a corpus" in said
    assert f"{out}/ledger/*.parquet" in said
    assert len(said.splitlines()) == 1
    assert sorted(out.rglob("*")) == before


def test_what_only_looks_like_one_is_none(tmp_path):
    for name, text in (("a", "{"), ("b", "[]"), ("c", '{"kind": "else"}'), ("d", "\x00")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "audit.json").write_text(text)
        with pytest.raises(ConfigError, match="holds no run"), open_run(tmp_path / name, corpus=True):
            pass


FILES = [
    "FROM 'ledger/part-*.parquet'", "FROM read_parquet('ledger/part-00000.parquet')", "FROM 'quarantine/*.parquet'",
    "FROM read_csv('x.csv')", "FROM read_json('x.json')", "FROM 'data/data-00000-of-00001.arrow'", "FROM glob('*')",
    "FROM read_text('/etc/passwd')",
]  # fmt: skip


def test_files_that_are_named_are_answered_with_the_tables(tmp_path, capsys):
    run("sample", [], tmp_path / "out", engine="serial")
    for sql in FILES:
        assert main(["query", str(tmp_path / "out"), sql]) == 2
        said = capsys.readouterr().err
        assert all(table in said for table in ("ledger", "quarantine", "shards")), (sql, said)
        assert "disabled by configuration" not in said
    assert main(["query", str(tmp_path / "out"), "FROM nothing"]) == 2
    assert "The tables are ledger, quarantine, shards" in capsys.readouterr().err
