"""`cleanpipe query` reads the run and nothing else, writes nothing, and says in one line what is wrong."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cleanpipe.run import run
from cleanpipe_jobs.cli import main

pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    place = tmp_path_factory.mktemp("sealed") / "out"
    run("sample", [], place, engine="serial")
    return place


@pytest.fixture
def ask(out, capsys):
    """Standard output and error of `cleanpipe query OUT …`, which must exit so."""

    def ask(*args, status=0):
        assert main(["query", str(out), *map(str, args)]) == status
        return capsys.readouterr()

    return ask


@pytest.mark.parametrize(
    "sql",
    [
        "COPY ledger TO '{place}'",
        "COPY (SELECT 1) TO '{place}'",
        "COPY (PIVOT ledger ON fate USING count(*)) TO '{place}'",
        "EXPLAIN ANALYZE COPY ledger TO '{place}'",
        "EXPLAIN (ANALYZE) COPY ledger TO '{place}'",
        "/* a */ EXPLAIN ANALYZE COPY ledger TO '{place}'",
        "SELECT 1; COPY ledger TO '{place}'",
        "PREPARE p AS COPY ledger TO '{place}'; EXECUTE p",
        "EXPORT DATABASE '{place}'",
        "ATTACH '{place}' AS other",
        "FROM read_text('/etc/hostname')",
        "FROM '/etc/hostname'",
        "FROM read_csv('{folder}/*')",
        "FROM glob('{folder}/*')",
        "FROM read_blob('{run}/manifest.json')",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
        "PRAGMA enable_profiling",
        "CALL enable_logging()",
        "SELECT * FROM os",  # a name of this program
        "CREATE SECRET s (TYPE s3)",
        "CREATE PERSISTENT SECRET s (TYPE s3)",
        "IMPORT DATABASE '{folder}'",
        "COPY ledger TO '{part}'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{part}'",
        "COPY (PIVOT ledger ON fate USING count(*)) TO '{part}'",
    ],
)
def test_nothing_else_is_read_or_written(ask, out, tmp_path, sql):
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    part = next((out / "ledger").iterdir())
    text = sql.format(place=tmp_path / "stolen", folder=tmp_path, run=out, part=part)
    shown = ask(text, status=2)
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("selec 1", "syntax error at or near \"selec\" (line 1, at 'selec 1')"),
        ("SELECT nothing FROM ledger", "(line 1, at 'nothing FROM ledger')"),
        ("SELECT 1,\n  urll FROM ledger", "(line 2, at 'urll FROM ledger')"),
        ("SELECT 1;\n\nSELECT urll\nFROM ledger", "(line 3, at 'urll"),
        ("FROM legder", 'Did you mean "ledger"'),
        ("SELECT url::INT FROM ledger", "Could not convert"),
        ("", "no statement"),
        (" -- a comment", "no statement"),
    ],
)
def test_wrong_sql_is_one_line_with_its_place(ask, sql, said):
    shown = ask(sql, status=2)
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1
    assert "Traceback" not in shown.err


def test_what_is_made_in_memory_serves_the_statements_after_it(ask):
    sql = "CREATE MACRO twice(x) AS 2 * x; CREATE TABLE t AS SELECT 21 AS n; SELECT twice(n) AS answer FROM t"
    assert json.loads(ask(sql, "--json").out)["rows"] == [{"answer": 42}]


def begun(out, sql, **streams):
    command = [sys.executable, "-m", "cleanpipe_jobs.cli", "query", str(out), sql, "--format", "csv"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **streams)


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_long_query_can_be_stopped(out, number, status):
    with begun(out, "SELECT sum(hash(range) % 7) FROM range(100000000000)", stdout=subprocess.DEVNULL) as process:
        while cpu_seconds(process) < 2.5:  # it is past its imports, and at work
            time.sleep(0.1)
        process.send_signal(number)
        _, told = process.communicate(timeout=30)
    assert process.returncode == status
    assert told.splitlines() == [f"cleanpipe: stopped by {number.name}"]


def test_it_ends_when_nobody_reads_on(out):
    with begun(out, "SELECT range AS n FROM range(100000000000)", stdout=subprocess.PIPE) as process:
        assert [process.stdout.readline() for _ in range(3)] == ["n\n", "0\n", "1\n"]
        process.stdout.close()
        assert process.wait(timeout=60) == 0
        assert process.stderr.read() == ""
