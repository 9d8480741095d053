"""Every number on the page stands in audit.json at the place it names, and equals an SQL over the ledger where the
ledger can tell. No number is in neither.
"""

import json

import pytest

from cleanpipe.recipe import load_recipe
from cleanpipe.report.audit_page import to_html
from cleanpipe.report.node import Node
from cleanpipe.run import run

pytest.importorskip("duckdb", reason="the numbers are counted again with DuckDB: pip install 'cleanpipe[sql]'")
from page_numbers import ELSEWHERE, Missing, Numbers, evaluate, known_elsewhere, terms
from page_oracle import Oracle


def hostile(make, folder):
    """Pages of every fate on hosts and under types that are markup, with near and exact duplicates."""
    records = [make.warcinfo()]
    hosts = ["<script>alert(1)<", "a" * 300 + ".example", "مثال.إختبار", 'x">.example', "c.example"]
    for i, host in enumerate(hosts):
        for k in range(30):
            text = make.prose(k % 8 + i * 8, 40)
            if k % 5 == 4:
                text = [*text[:-1], f"The last sentence is another one here, number {k}."]
            url = f"http://{host}/{k}?<img src=x>&[1:2]~/%20"
            kind = ("text/html; charset=utf-8", "application/pdf", "text/html", f"x/y-{'z' * 90}{k}")[k % 4]
            status = "404 Not Found" if k % 11 == 10 else "200 OK"
            records.append(make.response(url, make.page(text), content_type=kind, status=status))
    records += [make.response(f"http://spam.example/{k}", make.page([f"{k * 7919} " * 200])) for k in range(12)]
    german = "Der Hafenlotse kennt die Tiefe jeder Fahrrinne auswendig und geht vor der Barre an Bord."
    records += [make.response(f"http://de.example/{k}", make.page([f"{german} {k}"] * 9)) for k in range(25)]
    make.write_gz(folder / "a <b>[0].warc.gz", records)
    wet = [
        make.warcinfo(),
        *(make.conversion(f"http://w.example/{k}", "\n".join(make.prose(90 + k, 90))) for k in range(5)),
    ]
    path = make.write_gz(folder / "b.warc.wet.gz", wet)
    path.write_bytes(path.read_bytes()[:-40])


@pytest.fixture(params=["sample", "hostile", "crawl", "literal-like", "nothing", "one"])
def finished(request, tmp_path, make, crawl):
    """A finished run folder of some kind."""
    out, sets, recipe, inputs = tmp_path / "out", [], "web", []
    if request.param == "sample":
        recipe = "sample"
    elif request.param == "crawl":
        inputs = [str(crawl)]
    elif request.param == "literal-like":
        inputs = [str(crawl)]
        sets = ["audit.samples=3", "audit.alarm=0.5", "audit.alarm_rows=2", "audit.seed=9", "language_id.threshold=0.8"]
        sets += ["minhash_sign.enabled=false", "minhash_drop.enabled=false", "quality_score.min_entropy=4.3"]
    else:
        folder = tmp_path / "in"
        folder.mkdir()
        inputs = [str(folder)]
        if request.param == "hostile":
            hostile(make, folder)
            sets = ["audit.alarm=0.6", "audit.alarm_rows=10", "shards.max_bytes=20000"]
        elif request.param == "nothing":
            make.write_gz(folder / "n.warc.gz", [make.warcinfo()])
        else:
            make.write_gz(folder / "o.warc.gz", [make.response("http://one.example/", make.page(make.prose(3)))])
    run(load_recipe(recipe, sets), inputs, out, engine="serial")
    return out


def compared(page, audit, facts, tree):
    """(places that neither the ledger nor the list knows, numbers that differ from the SQL's, families compared)"""
    families, unknown, wrong = set(), [], []
    for shown, of, text in Numbers(page).found:
        value = json.loads(shown)
        assert value == evaluate(audit, facts, of), f"{of} is {evaluate(audit, facts, of)} in audit.json, {shown} shown"
        assert text, of
        try:
            again = evaluate(tree, facts, of)
        except Missing:
            if not all(known_elsewhere(t) or _has(tree, facts, t) for t in terms(of)):
                unknown.append(of)
            continue
        families.add(of.split("/")[1] if of.startswith("/") else "run.json")
        if value != again:
            wrong.append(f"{of}: {shown} shown, {again} by SQL")
    return unknown, wrong, families


def _has(tree, facts, of):
    try:
        evaluate(tree, facts, of)
    except Missing:
        return False
    return True


def test_every_number_is_the_audit_s_and_the_ledger_s(finished):
    audit, facts = (json.loads((finished / n).read_text()) for n in ("audit/audit.json", "run.json"))
    page = (finished / "audit/audit.html").read_text(encoding="utf-8")
    assert page == to_html(audit, facts)  # from the files alone, whatever order their keys have
    tree = Oracle(finished, audit, audit["recipe"]["audit"]).tree()
    unknown, wrong, families = compared(page, audit, facts, tree)
    assert not wrong
    assert not unknown
    assert {"ledger", "funnel", "input"} <= families
    if audit["ledger"]["totals"]["kept"]["documents"] > 5:
        assert {"samples", "windows", "shards", "lost", "languages", "stages"} <= families
        assert len(Numbers(page).found) > 500


WRONG = [  # where one is added
    ("ledger", "totals", "kept", "documents"),
    ("funnel", 3, "documents", "out"),
    ("stages", "http_filter", "dropped", "bad_status"),
    ("http", "status", "404"),
    ("http", "declared_by_sniffed", "text/html", "text/html"),
    ("input", "charsets", "utf-8"),
    ("languages", "keep_curve", "en", "0.8", "value"),
    ("stages", "language_id", "cuts", 0, "counts", "asked", "0.25"),
    ("stages", "language_id", "cuts", 0, "counts", "passes"),
    ("stages", "language_preview", "cuts", 1, "counts", "whole"),
    ("quality", "scores", "entropy", "histogram_kept", "4.1"),
    ("lost", "hosts", "items", 0, "lost"),
    ("alarms", "raised", 0, "lost", "numerator"),
    ("duplicates", "cluster_sizes", "2"),
    ("samples", "kept", 0, "scores", "perplexity"),
    ("samples", "language_id/low_confidence", 0, "decided", 0, "value"),
    ("windows", "per_document", "1"),
    ("shards", "files", 0, "rows"),
]


def test_one_wrong_number_of_any_family_is_found(tmp_path):
    out = tmp_path / "out"
    run("sample", [], out, engine="serial")
    text, facts = (out / "audit/audit.json").read_text(), json.loads((out / "run.json").read_text())
    audit = json.loads(text)
    tree = Oracle(out, audit, audit["recipe"]["audit"]).tree()
    places = []
    for *path, last in WRONG:
        part = Node(audit).at(*path)
        part.value[last] += 1
        places.append(
            f"{part.of}[" if part.of.endswith(("asked", "histogram_kept", "per_document")) else part.at(last).of
        )
    _, wrong, _ = compared(to_html(audit, facts), audit, facts, tree)
    for place in places:
        assert any(place in w for w in wrong), place


def test_the_list_of_what_no_ledger_knows_names_no_family_that_it_does():
    for of in ("/ledger/rows", "/http/status/200", "/samples/kept/0/scores/entropy", "/lost/hosts/items/0/lost",
               "/stages/x/dropped/y", "/funnel/0/documents/in", "/windows/per_document[1:2]", "/input/charsets/utf-8",
               "/quality/scores/entropy/histogram[4:5]", "/languages/keep_curve/en/0.5/value"):  # fmt: skip
        assert not known_elsewhere(of), of
    assert len(ELSEWHERE) < 40
