"""Every example of the README's SQL section runs, in DuckDB and polars, and they agree with the audit."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cleanpipe_jobs.cli import main

README = Path(__file__).parents[2] / "README.md"
SECTION = "## The ledger in SQL"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("readme") / "out"
    assert main(["run", "sample", "--out", str(out), "--engine", "serial", "--quiet"]) == 0
    return out


@pytest.fixture(scope="module")
def audit(run):
    return json.loads((run / "audit" / "audit.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def blocks(run):
    """The section's code blocks by language, on this run."""
    text = README.read_text("utf-8")
    assert SECTION in text
    section = text.split(SECTION + "\n")[1].split("\n## ")[0]
    found = re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL)
    return {kind: [b.replace("run/web", str(run)) for k, b in found if k == kind] for kind, _ in found}


@pytest.fixture(scope="module")
def answers(blocks):
    """What each SELECT gives, by a word of its comment."""
    duckdb = pytest.importorskip("duckdb")
    (block,) = blocks["sql"]
    with duckdb.connect() as connection:
        found = {}
        for statement in connection.extract_statements(block):
            rows = connection.execute(statement).fetchall()
            names = [d[0] for d in connection.description]
            found[re.sub(r"\W+", " ", statement.query).strip()] = [dict(zip(names, row, strict=True)) for row in rows]
    return found


def one(answers, words):
    (found,) = [rows for text, rows in answers.items() if words in text]
    return found


def lost(audit):
    """Documents by stage and reason, and bytes, from the audit."""
    fates = audit["ledger"]["fates"]
    out = {("kept", None, None): (fates["kept"]["documents"], fates["kept"]["bytes"])}
    for fate in ("dropped", "quarantined"):
        for stage, reasons in fates.get(fate, {}).items():
            out |= {(fate, stage, r): (n["documents"], n["bytes"]) for r, n in reasons.items()}
    return out


def test_the_funnel_is_the_audits(answers, audit):
    rows = one(answers, "the funnel")
    assert {(r["fate"], r["stage"], r["reason"]): (r["n"], r["bytes"]) for r in rows} == lost(audit)
    assert [r["n"] for r in rows] == sorted((r["n"] for r in rows), reverse=True)


def test_why_a_url_went(answers, run):
    (row, *_) = one(answers, "why was this page dropped")
    assert row["fate"] in ("kept", "dropped")
    assert (row["fate"] == "kept") == (row["reason"] is None)


def test_hosts_balance(answers, audit):
    rows = one(answers, "share kept by host")
    documents = audit["input"]["documents"]["total"]["value"]
    assert sum(r["n"] for r in rows) == documents
    assert sum(r["n"] - r["lost"] for r in rows) == audit["ledger"]["fates"]["kept"]["documents"]
    assert all(r["kept"] == pytest.approx(1 - r["lost"] / r["n"]) for r in rows)


def test_thresholds_are_the_keep_curves(answers, audit):
    (row,) = one(answers, "what if")
    curve = audit["languages"]["keep_curve"]["en"]
    assert row["judged"] == curve["0.8"]["denominator"]
    assert (row["at_80"], row["at_90"]) == (curve["0.8"]["numerator"], curve["0.9"]["numerator"])


def test_duplicates_are_the_dropped_ones(answers, audit):
    rows = one(answers, "duplicates by the document")
    dropped = audit["stages"]["minhash_drop"]["dropped"]
    assert {r["reason"] for r in rows} == set(dropped)
    assert len(rows) == sum(dropped.values())
    assert all(r["stands"] and 0.85 <= r["jaccard"] <= 1 for r in rows)


def test_the_quarantine_is_empty_here(answers):
    assert one(answers, "what was set aside") == []


def python(code):
    """Run as a reader would, in a process of its own; what it leaves in ``out`` comes back."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_polars_says_the_same(blocks, answers, audit):
    pytest.importorskip("polars")
    names = ["why", "funnel", "hosts", "what_if", "duplicates", "quarantine"]
    out = python(
        blocks["python"][0]
        + "import json\nout = {n: globals()[n].collect().to_dicts() for n in "
        + f"{names!r}}}\nprint(json.dumps(out, default=bytes.hex))"
    )
    assert {(r["fate"], r["stage"], r["reason"]): (r["n"], r["bytes"]) for r in out["funnel"]} == lost(audit)
    hosts = {r["host"]: (r["n"], r["lost"]) for r in out["hosts"]}
    assert hosts == {r["host"]: (r["n"], r["lost"]) for r in one(answers, "share kept by host")}
    (what_if,) = out["what_if"]
    (same,) = one(answers, "what if")
    assert what_if == {k: same[k] for k in what_if}
    rows = one(answers, "duplicates by the document")
    key = ("stands", "url", "reason", "jaccard")
    assert sorted([r[k] for k in key] for r in out["duplicates"]) == sorted([r[k] for k in key] for r in rows)
    assert out["quarantine"] == []
    shown = ("fate", "stage", "reason", "perplexity", "language_id_score")
    why = one(answers, "why was this page dropped")
    assert sorted(str([r[k] for k in shown]) for r in out["why"]) == sorted(str([r[k] for k in shown]) for r in why)


def test_shards_join_the_ledger(blocks, audit):
    pytest.importorskip("polars")
    pytest.importorskip("duckdb")
    out = python(
        blocks["python"][1]
        + "import json\nrows = text.fetchall()\n"
        + "characters = sum(len(r[1]) for r in rows), int(same['text'].str.len_chars().sum())\n"
        + "print(json.dumps([len(rows), len(same), *characters, len({r[2] for r in rows})]))"
    )
    rows, again, characters, counted, shards = out
    assert rows == again == audit["shards"]["rows"]["value"]
    assert characters == counted == audit["ledger"]["chars_kept"] + audit["windows"]["overlap_characters"]["value"]
    assert shards == len(audit["shards"]["files"])
