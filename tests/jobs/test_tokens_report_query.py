"""`cleanpipe report` and `cleanpipe query` of a token store; what the other commands say of one."""

import json

import pytest

from cleanpipe.run import run
from cleanpipe.tokens.audit.page import to_html
from cleanpipe.tokens.audit.page_made import FUNNEL_SQL, LENGTHS_SQL, WINDOWS_SQL
from cleanpipe.tokens.making.run import tokenize
from cleanpipe_jobs.cli import main

duckdb = pytest.importorskip("duckdb", reason="SQL needs DuckDB: pip install 'cleanpipe[sql]'")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokens")
    run("sample", [], folder / "run", engine="serial")
    made = tokenize(folder / "run", folder / "tokens", engine="serial")
    assert made.exit_code == 0
    return folder / "tokens"


def test_the_published_page_is_drawn_again(tokens, tmp_path, capsys):
    assert main(["report", str(tokens), "--out", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "page.html")
    published = (tokens / "audit/audit.html").read_text()
    assert (tmp_path / "page.html").read_text() == published
    assert published == to_html(json.loads((tokens / "audit/audit.json").read_text()))


def test_the_page_is_not_written_into_the_sealed_folder(tokens, capsys):
    assert main(["report", str(tokens), "--out", str(tokens / "page.html")]) == 2
    assert "sealed" in capsys.readouterr().err


def asked(capsys, tokens, sql):
    assert main(["query", str(tokens), sql, "--json"]) == 0
    return json.loads(capsys.readouterr().out)["rows"]


def test_ledger_and_spans_by_sql_agree_with_the_audit(tokens, capsys):
    audit = json.loads((tokens / "audit/audit.json").read_text())
    totals = audit["totals"]
    marks = (totals["bos"] + totals["eos"]) // totals["documents"]
    (row,) = asked(capsys, tokens, "SELECT count(*) AS n, sum(tokens) AS t FROM ledger WHERE fate = 'kept'")
    assert row == {"n": totals["documents"], "t": totals["stored"]}
    (row,) = asked(capsys, tokens, "SELECT count(*) AS n, sum(token_count) AS t FROM spans")
    assert row == {"n": totals["windows"], "t": audit["windows"]["tokens"]}
    (row,) = asked(
        capsys,
        tokens,
        "SELECT count(*) AS n FROM ledger l JOIN (SELECT doc_id, sum(token_count - token_overlap) AS t FROM spans "
        f"GROUP BY 1) s USING (doc_id) WHERE s.t + {marks} = l.tokens",  # BOS and EOS are in no window
    )
    assert row == {"n": totals["documents"]}
    rows = asked(capsys, tokens, f"SELECT language, sum(tokens) - {marks} * count(*) AS t FROM ledger GROUP BY 1")
    assert {r["language"]: r["t"] for r in rows} == {k: n["tokens"] for k, n in audit["languages"].items()}


def test_the_sql_on_the_page_gives_the_numbers_on_the_page(tokens, capsys):
    audit = json.loads((tokens / "audit/audit.json").read_text())
    kept, lengths = audit["funnel"]["kept"], audit["lengths"]
    (row,) = [r for r in asked(capsys, tokens, FUNNEL_SQL) if r["fate"] == "kept"]
    assert {k: row[k] for k in ("documents", "windows", "characters")} == {k: kept[k] for k in row if k in kept}
    (row,) = asked(capsys, tokens, LENGTHS_SQL)
    assert row["quantiles"] == [lengths["quantiles"]["0.50"], lengths["quantiles"]["0.95"]]
    assert row["longest"] == lengths["longest"]
    assert row["mean"] == pytest.approx(lengths["mean"]["value"], abs=1e-6)
    (row,) = asked(capsys, tokens, WINDOWS_SQL)
    assert row == {
        "windows": audit["totals"]["windows"], "documents": audit["totals"]["documents"],
        "tokens": audit["windows"]["tokens"], "tokens_once": audit["totals"]["tokens"],
    }  # fmt: skip


def test_tables_columns_and_examples_are_shown_and_work(tokens, capsys):
    assert main(["query", str(tokens), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert list(said["tables"]) == ["ledger", "spans"]
    for table in said["tables"].values():
        assert table["rows"] > 0
        assert [c["name"] for c in table["columns"] if not c["meaning"]] == []
    for example in said["examples"]:
        assert main(["query", str(tokens), example]) == 0
    assert main(["query", str(tokens)]) == 0
    assert "spans: one row for every window" in capsys.readouterr().out


def test_a_table_of_runs_is_not_there(tokens, capsys):
    assert main(["query", str(tokens), "FROM text"]) == 2
    assert "The tables are ledger, spans" in capsys.readouterr().err


def test_a_damaged_span_file_is_named(tokens, tmp_path, capsys):
    import shutil

    broken = tmp_path / "tokens"
    shutil.copytree(tokens, broken)
    (part,) = (broken / "spans").iterdir()
    data = part.read_bytes()
    part.write_bytes(b"x" * len(data))
    assert main(["query", str(broken), "FROM spans"]) == 2
    said = capsys.readouterr().err
    assert "spans is damaged" in said
    assert "cleanpipe verify" in said
    part.write_bytes(data[:-1])
    assert main(["query", str(broken), "FROM spans"]) == 2
    assert "bytes, not" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["explain", "OUT", "http://h.example/1"],
        ["tune", "OUT", "--set", "language_id.threshold=0.9"],
        ["watch", "OUT", "--once"],
        ["diff", "OUT", "OUT"],
    ],
    ids=" ".join,
)
def test_other_questions_say_what_it_is(tokens, command, capsys):
    line = [str(tokens) if word == "OUT" else word for word in command]
    assert main(line) == 2
    said = capsys.readouterr().err
    assert len(said.strip().splitlines()) == 1
    assert "tokens" in said.removeprefix(f"cleanpipe: {tokens}")


@pytest.mark.parametrize("command", [["report"], ["query"], ["explain", "http://h.example/1"]], ids=" ".join)
def test_a_store_that_is_not_finished(tokens, tmp_path, command, capsys):
    half = tmp_path / "half"
    (half / "work").mkdir(parents=True)
    (half / "tokens").mkdir()
    facts = json.loads((tokens / "run.json").read_text())
    (half / "work/plan.json").write_text(json.dumps(facts["identity"]))
    assert main([command[0], str(half), *command[1:]]) == 2
    assert "start the same `cleanpipe tokenize` again" in capsys.readouterr().err
