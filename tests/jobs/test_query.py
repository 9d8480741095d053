"""`cleanpipe query`: SQL over a run, and nothing but the run."""

import csv
import io
import json
import os
import pty
import shutil
import subprocess
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cleanpipe.opening import ledger, shards
from cleanpipe.queries.columns import MEANINGS, meanings
from cleanpipe.queries.sql import EXAMPLES
from cleanpipe.run import run
from cleanpipe_jobs.cli import main
from cleanpipe_jobs.query_tables import safe

pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    place = tmp_path_factory.mktemp("query") / "out"
    run("sample", [], place, engine="serial")
    return place


@pytest.fixture
def ask(out, capsys):
    """Standard output and error of `cleanpipe query OUT …`, which must exit so."""

    def ask(*args, status=0, on=out):
        assert main(["query", str(on), *map(str, args)]) == status
        return capsys.readouterr()

    return ask


def rows(shown):
    return json.loads(shown.out)["rows"]


def test_counts_are_the_ledgers(ask, out):
    table = ledger(out).to_table()
    (row,) = rows(
        ask("SELECT count(*) AS n, sum(bytes_in) AS bytes, count(DISTINCT url) AS urls FROM ledger", "--json")
    )
    assert row == {
        "n": table.num_rows,
        "bytes": pc.sum(table.column("bytes_in")).as_py(),
        "urls": pc.count_distinct(table.column("url"), mode="only_valid").as_py(),
    }


def test_hosts_are_counted_as_the_audit_counts_them(ask, out):
    from cleanpipe.audit.facts import ledger_tally

    tally, _ = ledger_tally(ledger(out).to_table(), {}, seed=0, samples=0)
    found = rows(
        ask("SELECT host(url) AS host, count(*) AS n FROM ledger WHERE host(url) IS NOT NULL GROUP BY 1", "--json")
    )
    assert {r["host"]: r["n"] for r in found} == tally["hosts"]["documents"]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://Example.ORG/a", "example.org"),
        ("https://u:p@h.example:8080/x@y", "h.example"),
        ("http://[2001:DB8::1]:80/", "[2001:db8::1]"),
        ("http://h?q=http://other/", "h"),
        ("http://h#f", "h"),
        ("dns:example.org", None),
        ("http:///path", None),
        ("", None),
        ("http://ÄÖ.example/", "äö.example"),
        ("svn+ssh://h.x", "h.x"),
        ("1http://h", None),
    ],
)
def test_hosts_of_single_urls(ask, url, host):
    from cleanpipe import ledger as ledgers
    from cleanpipe.audit.facts import ledger_tally

    (row,) = rows(ask(f"SELECT host('{url}') AS host", "--json"))
    assert row["host"] == host
    given = {"url": pa.array([url]), "fate": pa.array(["kept"]), "doc_id": pa.array([bytes(16)], pa.binary(16))}
    tally, _ = ledger_tally(ledgers.conform(given, 1, ledgers.schema({})), {}, seed=0, samples=0)
    assert list(tally["hosts"]["documents"]) == ([host] if host else [])


def test_identities_are_hexadecimal_both_ways(ask, out):
    first = ledger(out).to_table(columns=["doc_id", "url"]).to_pylist()[0]
    key = first["doc_id"].hex()
    for spelled in (key, key.upper()):
        sql = f"SELECT doc_id, url FROM ledger WHERE doc_id = id('{spelled}')"
        assert rows(ask(sql, "--json")) == [{"doc_id": key, "url": first["url"]}]
    assert ask(sql, "--format", "csv").out.splitlines()[1].startswith(key)


def test_the_text_joins_the_ledger(ask, out):
    table = shards(out).to_table()
    (row,) = rows(
        ask(
            "SELECT count(*) AS n, sum(length(text)) AS characters, count(DISTINCT shard) AS shards FROM shards "
            "JOIN ledger USING (doc_id) WHERE fate = 'kept'",
            "--json",
        )
    )
    assert row == {"n": table.num_rows, "characters": pc.sum(table.column("length")).as_py(), "shards": 1}


@pytest.mark.parametrize("sql", [sql for _, sql in EXAMPLES])
def test_examples_run(ask, out, sql):
    found = ledger(out).to_table(columns=["url", "kept_doc_id"]).to_pylist()
    url = next(r["url"] for r in found if r["url"])
    kept = next(r["kept_doc_id"] for r in found if r["kept_doc_id"])
    shown = rows(ask(sql.replace("http://…", url).replace("… 32 digits …", kept.hex()), "--json"))
    assert shown


def test_without_sql_every_column_is_explained(ask, out):
    shown = ask()
    for name in [*ledger(out).schema.names, *shards(out).schema.names]:
        assert f"  {name} " in shown.out
    assert all(sql in shown.out for _, sql in EXAMPLES)
    told = json.loads(ask("--json").out)["tables"]
    assert told["ledger"]["rows"] == ledger(out).count_rows()
    assert told["shards"]["rows"] == shards(out).count_rows()
    assert [c["name"] for c in told["ledger"]["columns"]] == ledger(out).schema.names
    assert [c["name"] for c in told["shards"]["columns"]] == shards(out).schema.names
    assert [c for t in told.values() for c in t["columns"] if not c["meaning"]] == []


def test_a_dictionary_without_dead_words():
    from cleanpipe.recipe import load_recipe

    pipeline = load_recipe("web").pipeline()
    from cleanpipe import ledger as ledgers

    names = ledgers.schema(pipeline.scores()).names
    assert set(MEANINGS) <= set(names)
    assert all(meanings(names, "ledger", pipeline.complete()).values())


# forms


def test_every_form_says_the_same(ask, out, tmp_path):
    sql = "SELECT doc_id, url, date, jaccard, windows, is_http, reason FROM ledger ORDER BY source, record_offset"
    whole = rows(ask(sql, "--json"))
    assert len(whole) == ledger(out).count_rows()
    assert json.loads(ask(sql, "--format", "json").out) == whole
    assert [json.loads(line) for line in ask(sql, "--format", "jsonl").out.splitlines()] == whole
    text = lambda v: "" if v is None else v if isinstance(v, str) else json.dumps(v)  # noqa: E731
    read = list(csv.DictReader(io.StringIO(ask(sql, "--format", "csv").out)))
    assert read == [{k: text(v) for k, v in r.items()} for r in whole]
    assert ask(sql, "--out", tmp_path / "x.parquet").err == f"{len(whole):,} rows written to {tmp_path / 'x.parquet'}\n"
    table = pq.read_table(tmp_path / "x.parquet")
    assert [v.hex() for v in table.column("doc_id").to_pylist()] == [r["doc_id"] for r in whole]
    assert table.column("jaccard").to_pylist() == [r["jaccard"] for r in whole]
    for name in ("x.csv", "x.jsonl", "x.json", "x.md", "x.txt"):
        ask(sql, "--out", tmp_path / name)
    assert json.loads((tmp_path / "x.json").read_text("utf-8")) == whole
    assert len((tmp_path / "x.md").read_text("utf-8").splitlines()) == len(whole) + 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.csv", "x.json", "x.jsonl", "x.md", "x.parquet", "x.txt"]


def test_values_of_every_kind(ask):
    sql = (
        "SELECT 1::HUGEINT AS big, 0.5 AS d, 'nan'::DOUBLE AS nan, NULL AS none, [1, NULL] AS list, "
        "{'a': 'x'} AS struct, DATE '2024-02-29' AS day, TIMESTAMP '2024-02-29 01:02:03.5' AS at, "
        "TIMESTAMPTZ '2024-02-29 00:00:00+01' AS instant, true AS yes, "
        "INTERVAL 1 DAY AS span, MAP {'k': 1} AS map, '\\x00FF'::BLOB AS blob, 1 AS x, 2 AS x"
    )
    (row,) = rows(ask(sql, "--json"))
    assert row.pop("span")
    assert row == {
        "big": 1, "d": 0.5, "nan": "nan", "none": None, "list": [1, None], "struct": {"a": "x"}, "day": "2024-02-29",
        "at": "2024-02-29T01:02:03.500000", "instant": "2024-02-28T23:00:00Z", "yes": True, "map": [["k", 1]],
        "blob": "004646", "x": 1, "x_2": 2,
    }  # fmt: skip


def test_the_limit_and_what_is_left(ask, out):
    total = ledger(out).count_rows()
    assert len(rows(ask("FROM ledger", "--json", "--limit", 7))) == 7
    shown = ask("SELECT url FROM ledger", "--limit", 5)
    assert len(shown.out.splitlines()) == 7
    assert f"{total - 5:,} more rows" in shown.err
    assert len(ask("SELECT url FROM ledger", "--limit", 0).out.splitlines()) == total + 2
    assert ask("SELECT url FROM ledger LIMIT 5", "--limit", 5).err == ""


def terminal(columns, *args):
    """What stands on a terminal so wide."""
    master, slave = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    env = {**os.environ, "TERM": "xterm", "PYTHONUTF8": "1"}
    env.pop("COLUMNS", None)
    command = [sys.executable, "-m", "cleanpipe_jobs.cli", "query", *map(str, args)]
    with subprocess.Popen(command, stdout=slave, stderr=subprocess.PIPE, env=env) as process:
        os.close(slave)
        parts = []
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
        told = process.stderr.read().decode()
    os.close(master)
    assert process.returncode == 0, told
    return b"".join(parts).decode().replace("\r\n", "\n"), told


@pytest.mark.parametrize("columns", [60, 100])
def test_a_terminal_is_not_overrun(out, columns):
    shown, told = terminal(columns, out, "SELECT doc_id, url, source, record_offset FROM ledger")
    lines = shown.splitlines()
    assert len(lines) == 102  # head, rule, 100 rows
    assert max(map(len, lines)) <= columns
    assert "more rows" in told
    upright, _ = terminal(columns, out, "FROM ledger LIMIT 2")  # too many columns for a table
    assert upright.count("── row ") == 2
    assert all(any(line.startswith(n) for line in upright.splitlines()) for n in ("url ", "fate ", "perplexity "))
    assert max(map(len, upright.splitlines())) <= columns


HOSTILE = "a\x1b]0;title\x07\x9b31m\n\u202eb\u2028c\tend"


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_no_text_of_a_page_reaches_a_terminal_raw(out, form):
    shown, _ = terminal(100, out, f"SELECT '{HOSTILE}' AS x", "--format", form)
    assert not set(HOSTILE) - set(" \n") & {c for c in shown if not c.isprintable()}
    assert all(c.isprintable() or c == "\n" for c in shown)


def test_files_get_the_text_as_it_is(ask, tmp_path):
    ask(f"SELECT '{HOSTILE}' AS x", "--out", tmp_path / "x.csv")
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["x"], [HOSTILE]]


def test_safe_text_is_told_apart():
    assert safe("Ärger 漢字 \U0001f600") == "Ärger 漢字 \U0001f600"
    assert safe("\x1b[0m\u202e\n") == "\\x1b[0m\\u202e\\n"


# where the SQL and the run come from


def test_sql_from_a_file_and_from_standard_input(ask, tmp_path, monkeypatch):
    (tmp_path / "q.sql").write_text("SELECT 'ä' AS x", encoding="utf-8")
    assert rows(ask("--file", tmp_path / "q.sql", "--json")) == [{"x": "ä"}]
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 2 AS x"))
    assert rows(ask("-", "--json")) == [{"x": 2}]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["SELECT 1", "--file", "q.sql"], "not both"),
        (["--file", "nothing.sql"], "cannot be read"),
        (["SELECT 1", "--format", "parquet"], "--out FILE.parquet"),
        (["SELECT 1", "--out", "x.xyz"], "*.csv"),
        (["SELECT 1", "--out", "x.csv", "--json"], "leave --out out"),
        (["--out", "x.csv"], "no SQL"),
        (["SELECT 1", "--out", "/nowhere/at/all/x.csv"], "cannot be written"),
    ],
)
def test_usage(ask, tmp_path, monkeypatch, args, said):
    monkeypatch.chdir(tmp_path)
    shown = ask(*args, status=2)
    assert said in shown.err
    assert list(tmp_path.iterdir()) == []


def test_an_answer_into_the_run_is_refused(ask, out):
    before = sorted(out.rglob("*"))
    for place in (out / "x.csv", out / "data" / "x.csv", out / ".." / out.name / "x.csv"):
        assert "lies in the run" in ask("SELECT 1", "--out", place, status=2).err
    assert sorted(out.rglob("*")) == before


def test_an_answer_that_fails_leaves_no_file(ask, tmp_path):
    (tmp_path / "x.csv").write_text("mine")
    ask("SELECT url::INT FROM ledger", "--out", tmp_path / "x.csv", status=2)
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]
    assert (tmp_path / "x.csv").read_text() == "mine"


def test_odd_folder_names(ask, out, tmp_path):
    for name in ("it's", "[a]*?", "a b;--", "ä"):
        place = shutil.copytree(out, tmp_path / name)
        (row,) = rows(ask("SELECT count(*) AS n FROM ledger", "--json", on=place))
        assert row["n"] == ledger(out).count_rows()


def test_no_run_there(ask, tmp_path):
    assert "holds no run" in ask("SELECT 1", status=2, on=tmp_path).err


def test_a_damaged_part_is_one_line_that_names_it(ask, out, tmp_path):
    place = shutil.copytree(out, tmp_path / "damaged")
    part = place / "ledger" / "part-00003.parquet"
    part.write_bytes(part.read_bytes()[:-7])
    shown = ask("SELECT count(*) FROM ledger", status=2, on=place)
    assert len(shown.err.splitlines()) == 1
    assert "part-00003.parquet" in shown.err
    assert "cleanpipe verify" in shown.err
    shard = place / "data" / "data-00000-of-00001.arrow"
    shard.write_bytes(b"nothing of the kind")
    shutil.copy(out / "ledger" / part.name, part)
    shown = ask("SELECT count(*) FROM shards", status=2, on=place)
    assert len(shown.err.splitlines()) == 1
    assert "data-00000-of-00001.arrow" in shown.err
    assert "cleanpipe verify" in shown.err


def test_an_empty_run(ask, make, tmp_path):
    source = make.write_gz(tmp_path / "empty.warc.gz", [make.warcinfo()])
    run("web", [str(source)], tmp_path / "out", engine="serial")
    for name in ("ledger", "shards", "quarantine"):
        assert rows(ask(f"SELECT count(*) AS n FROM {name}", "--json", on=tmp_path / "out")) == [{"n": 0}]
    assert ask("FROM ledger", "--format", "json", on=tmp_path / "out").out == "[]\n"
    assert "0 rows" in ask(on=tmp_path / "out").out


def test_an_unfinished_run_says_so(ask, crawl, tmp_path):
    place = tmp_path / "out"
    run("web", [str(crawl)], place, engine="serial", keep_work=True)
    (place / "manifest.json").unlink()  # as a driver leaves it that dies before its last step
    shown = ask("SELECT count(*) AS n FROM ledger", "--json", on=place)
    told = json.loads(shown.out)
    assert "is not finished" in told["caution"]
    assert told["caution"] in shown.err
    assert told["rows"][0]["n"] > 0
    assert "not finished" in ask("FROM shards", status=2, on=place).err
    assert "not written yet" in ask(on=place).out


def test_a_run_on_an_object_store(ask, make, tmp_path, s3):
    source = make.write_gz(
        tmp_path / "one.warc.gz", [make.response(f"http://a.example/{i}", make.page(make.prose(i))) for i in range(3)]
    )
    sets = [f"storage.endpoint={s3.url}"]
    run("web", [str(source)], "s3://crawls/run", engine="serial", sets=sets)
    sql = (
        "SELECT count(*) AS n, sum(length(text)) > 0 AS some FROM shards JOIN ledger USING (doc_id) WHERE fate = 'kept'"
    )
    s3.forget()
    found = rows(ask(sql, "--json", "--set", sets[0], on="s3://crawls/run"))
    assert found[0]["some"] is True
    s3.forget()
    assert rows(ask("SELECT count(*) AS n FROM ledger", "--json", "--set", sets[0], on="s3://crawls/run")) == [{"n": 3}]
    assert not s3.log("GET", r"\.arrow$")  # the text is fetched where it is asked for
