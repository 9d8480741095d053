"""Bins and hosts as the audit has them, counts as SQL has them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_runs import population, rows, write_run

from cleanpipe import batch as col
from cleanpipe.audit.bins import edges, histogram
from cleanpipe.audit.facts import ledger_tally
from cleanpipe.queries.diff_ledger import Outcomes, hashed
from cleanpipe.queries.diff_tally import host_of, hosts_of, ordinals, tally
from cleanpipe.queries.opened_run import open_run

duckdb = pytest.importorskip("duckdb")

URLS = {
    "http://A.example/x": "a.example",
    "https://b.example?x=/a/b": "b.example",
    "http://c.example#/d": "c.example",
    "http://u:p@d.example:80/": "d.example",
    "http://[::1]:80/": "[::1]",
    "ftp://h": "h",
    "HTTPS://MIXED.Example": "mixed.example",
    "http://a b/": "a b",
    "dns:foo": "",
    "http:/x/y": "",
    "//x/y": "",
    "http:///x": "",
    "1a://x/": "",
    "": "",
    None: "",
}


def test_hosts_are_those_of_the_audit():
    urls = pa.array(list(URLS), pa.string())
    places, hashes = hosts_of(urls)
    assert [host_of(u) for u in URLS] == list(URLS.values())
    assert hashes[places].tolist() == hashed(pa.array(list(URLS.values()))).tolist()
    empty, hashes = hosts_of(pa.array([], pa.string()))
    assert len(empty) == 0


@given(st.lists(st.floats(-1e13, 1e13).map(lambda x: round(x, 6)), min_size=1, max_size=60))
def test_bins_are_those_of_the_audit(values):
    borders = np.round(edges()[:: max(1, len(edges()) // 50)], 6)  # scores have 6 decimals
    inside = borders[np.abs(borders) < 10]
    values = np.concatenate([values, inside])
    found, counts = np.unique(ordinals(values), return_counts=True)
    assert {str(o): n for o, n in zip(found.tolist(), counts.tolist(), strict=True)} == histogram(values)


def test_counts_are_those_of_sql_and_of_the_audit(tmp_path):
    table = rows(population(5, pages=700, hosts=30))
    write_run(tmp_path / "a", table, parts=3)
    outcomes = Outcomes()
    with open_run(tmp_path / "a") as run:
        found = tally(run, outcomes)
    audit, _ = ledger_tally(table, {}, seed=0, samples=0)
    assert found.rows == 700
    charsets = found.values["charset"]
    assert {k: n for k, n in audit[col.CHARSET].items() if k != "not decoded"} == dict(
        zip(charsets.labels, charsets.totals.tolist(), strict=True)
    )
    with duckdb.connect() as db:
        view = f"from '{tmp_path}/a/ledger/*.parquet'"

        def sql(query):
            return dict(db.execute(query).fetchall())

        assert sql(f"select reason, count(*) {view} where stage is not null group by all") == {
            reason: n
            for (_, stage, reason), n in zip(outcomes.names, found.outcomes.totals.tolist(), strict=True)
            if stage
        }
        assert sql(f"select coalesce(reason, ''), sum(bytes_in) {view} group by all") == {
            reason: n for (_, _, reason), n in zip(outcomes.names, found.sizes.totals.tolist(), strict=True)
        }
        by_status = found.values["HTTP status"]
        assert sql(f"select http_status::text, count(*) filter (fate = 'kept') {view} group by all") == dict(
            zip(by_status.labels, by_status.kept.tolist(), strict=True)
        )
        hosts = sql(f"select split_part(url, '/', 3), count(*) {view} group by all")
    hashes = hashed(pa.array(list(hosts)))
    assert dict(zip(found.hosts.hashes.tolist(), found.hosts.documents.tolist(), strict=True)) == dict(
        zip(hashes.tolist(), hosts.values(), strict=True)
    )
    for kind in range(2):  # by hosts and by inputs
        assert (found.values["charset"].by[kind].sum(0) == charsets.totals).all()
