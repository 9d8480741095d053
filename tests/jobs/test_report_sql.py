"""The SQL that the page gives runs as it stands, in the run's folder, and gives the counts of the table above it."""

import json
import re
from html import unescape
from html.parser import HTMLParser

import pytest

from cleanpipe.queries.opened_run import open_run
from cleanpipe.queries.sql import open_sql
from cleanpipe.recipe import load_recipe
from cleanpipe.report.sql import VIEW
from cleanpipe.run import run

duckdb = pytest.importorskip("duckdb", reason="the SQL is DuckDB's: pip install 'cleanpipe[sql]'")

LEDGER = re.compile(r"\b(FROM|JOIN) ledger\b")
# tables that hold more than counts of the ledger: what else is in them, by place
NOT_COUNTED = ("/input/records/", "%28others%29", "/shards/files/", "/funnel/", "/quantiles")


class Tables(HTMLParser):
    """(caption, numbers as (exact value, place), blocks of SQL) of every table that has some."""

    def __init__(self, page):
        super().__init__()
        self.tables, self.numbers, self.blocks, self.caption, self.sql, self.inside = [], [], [], "", "", ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("table", "ol", "dl", "h3"):
            self.numbers, self.caption = [], ""
        elif tag == "caption" or (tag == "details" and given.get("class") == "sql"):
            self.inside, self.sql = tag, ""
        elif tag == "code" and self.inside == "details":
            self.inside = "code"
        if "data-n" in given and self.caption:
            self.numbers.append((given["data-n"], given["data-of"]))

    def handle_data(self, data):
        if self.inside == "caption":
            self.caption += data
        elif self.inside == "code":
            self.sql += data

    def handle_endtag(self, tag):
        if self.inside == "caption" and tag == "caption":
            self.inside = ""
        elif self.inside == "code" and tag == "code":
            self.inside = "details"
            self.blocks.append(self.sql)
            self.sql = ""
        elif self.inside == "details" and tag == "details":
            self.tables.append((self.caption, self.numbers, self.blocks))
            self.inside, self.numbers, self.caption, self.blocks = "", [], "", []


def numbers_of(value):
    if isinstance(value, dict):
        return [n for v in value.values() for n in numbers_of(v)]
    if isinstance(value, (list, tuple)):
        return [n for v in value for n in numbers_of(v)]
    return [value] if hasattr(value, "__float__") else []


@pytest.mark.parametrize("recipe", ["sample", "web"])
def test_each_query_gives_the_counts_of_its_table(recipe, crawl, tmp_path, monkeypatch):
    out = tmp_path / "out"
    sets = ["audit.alarm=0.5", "audit.alarm_rows=2"]
    run(load_recipe(recipe, sets), [] if recipe == "sample" else [str(crawl)], out, engine="serial")
    monkeypatch.chdir(out)
    tables = Tables((out / "audit/audit.html").read_text(encoding="utf-8")).tables
    checked = set()
    duck = duckdb.connect()
    duck.sql(VIEW)  # as the page says
    assert VIEW in unescape((out / "audit/audit.html").read_text("utf-8"))
    for caption, numbers, sql in tables:
        found = set()
        for query in sql:
            assert LEDGER.search(query), query
            assert "part-" not in query
            rows = duck.sql(query).fetchall()
            found |= {float(n) for row in rows for n in numbers_of(row) if hasattr(n, "__float__")} | {float(len(rows))}
        for shown, of in numbers:
            value = json.loads(shown)
            if isinstance(value, float) or " ÷ " in of or any(part in of for part in NOT_COUNTED):
                continue
            assert float(value) in found or value == 0, f"{caption}: {of} = {shown} is not in\n{sql}"
            checked.add(caption)
    names = " | ".join(checked)
    wanted = (
        "Why documents went",
        "HTTP status",
        "Charsets",
        "Languages, and",
        "Types, those",
        "entropy",
        "perplexity",
    )
    for part in (*wanted, "Hosts, those", "Documents by their number of windows", "Clusters by size"):
        assert part in names or part.startswith("Documents by"), part
    assert len(checked) >= 12


def test_the_funnel_by_its_query_is_the_funnel(tmp_path, monkeypatch):
    out = tmp_path / "out"
    run("sample", [], out, engine="serial")
    monkeypatch.chdir(out)
    audit = json.loads((out / "audit/audit.json").read_text())
    sql = next(
        s for c, _, s in Tables((out / "audit/audit.html").read_text("utf-8")).tables if c == "The funnel in numbers"
    )
    want = [(r["stage"], r["documents"]["out"], r["bytes"]["out"]) for r in audit["funnel"]]
    duck = duckdb.connect()
    duck.sql(VIEW)
    assert [(s, int(n), int(b)) for s, n, b in duck.sql(*sql).fetchall()] == want


def test_each_query_works_as_it_stands_in_the_command_with_the_same_answer(tmp_path, monkeypatch):
    """``cleanpipe query`` asks by the same tables: its answers are those of plain DuckDB, number by number."""
    out = tmp_path / "out"
    run("sample", [], out, engine="serial")
    monkeypatch.chdir(out)
    duck = duckdb.connect()
    duck.sql(VIEW)
    blocks = {b for _, _, sql in Tables((out / "audit/audit.html").read_text("utf-8")).tables for b in sql}
    assert len(blocks) > 25
    with open_run(out) as opened, open_sql(opened, shards=False) as asked:
        for block in sorted(blocks):
            ours = [r for b in asked.ask(block).batches for r in b.to_pylist()]
            theirs = duck.sql(block).fetchall()
            assert sorted(sorted(map(float, numbers_of(list(r.values())))) for r in ours) == sorted(
                sorted(map(float, numbers_of(r))) for r in theirs
            ), block
