"""Counts equal to SQL over the two ledgers, and samples that say what decided."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from made_runs import population, rows, some, write_run

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.queries.diff import diff
from cleanpipe.queries.diff_text import text
from cleanpipe.queries.opened_run import open_run
from cleanpipe.report.diff_page import diff_page

duckdb = pytest.importorskip("duckdb")

OUTCOME = """case when fate = 'kept' then 'kept' else fate || ' by ' || stage || ': ' || reason end"""


def undecided(folder, table, parts=1, **options):
    """A run folder with rows of no fate yet; its audit has them among the kept, as an unfinished run's has."""
    write_run(folder, ledger.finish(table), parts=parts, **options)
    bounds = [table.num_rows * i // parts for i in range(parts + 1)]
    for i in range(parts):
        part = table.slice(bounds[i], bounds[i + 1] - bounds[i])
        pq.write_table(part, folder / "ledger" / f"part-{i:05d}.parquet")


def compared(tmp_path, one, other, sets=((), ()), **options):
    write_run(tmp_path / "a", one, sets=sets[0], parts=2)
    write_run(tmp_path / "b", other, sets=sets[1], parts=3)
    with open_run(tmp_path / "a") as a, open_run(tmp_path / "b") as b:
        return diff(a, b, **options)


def sql(tmp_path, query):
    with duckdb.connect() as db:
        for name in "ab":
            db.execute(
                f"create view {name} as select *, {OUTCOME} as outcome from '{tmp_path}/{name}/ledger/*.parquet'"
            )
        return db.execute(query).fetchall()


def _with(table, name, values):
    return table.set_column(table.schema.get_field_index(name), name, values)


@pytest.fixture(scope="module")
def pages():
    return population(4, pages=900, hosts=40)


def test_matrix_equals_sql(pages, tmp_path):
    found = compared(tmp_path, rows(pages), rows(pages, threshold=0.8, most_perplexity=1500))["documents"]
    want = sql(tmp_path, "select a.outcome, b.outcome, count(*) from a join b using (doc_id) group by all")
    assert {(m["a"], m["b"], m["documents"]) for m in found["matrix"]} == set(want)
    assert found["changed"] == sum(n for x, y, n in want if x != y) > 100
    assert found["same_fate"] == sum(n for x, y, n in want if x == y)
    assert [c["documents"] for c in found["changes"]] == sorted((n for x, y, n in want if x != y), reverse=True)


def test_documents_of_one_run_alone_equal_sql(pages, tmp_path):
    left, right = pages["file"] < 8, pages["file"] > 3
    found = compared(tmp_path, rows(some(pages, left)), rows(some(pages, right), threshold=0.8))["documents"]
    for side, other in ("ab", "ba"):
        query = f"select outcome, count(*) from {side} anti join {other} using (doc_id) group by all"
        assert found[f"only_{side}"]["by_outcome"] == dict(sql(tmp_path, query))
        assert len(found[f"only_{side}"]["samples"]) == 20
        assert all(set(s) == {col.URL, side} for s in found[f"only_{side}"]["samples"])
    assert found["joined"] == sql(tmp_path, "select count(*) from a join b using (doc_id)")[0][0]


def test_samples_say_what_decided_on_either_side(pages, tmp_path):
    sets = ["language_id.threshold=0.65"], ["language_id.threshold=0.8"]
    found = compared(tmp_path, rows(pages), rows(pages, threshold=0.8), sets)["documents"]
    kept = next(c for c in found["changes"] if c["a"] == "kept")
    assert kept["b"] == "dropped by language_id: low_confidence"
    assert len(kept["samples"]) == 20
    scores = dict(sql(tmp_path, f"select hex(doc_id), {col.LANGUAGE_ID_SCORE} from a"))
    for sample in kept["samples"]:
        score = scores[sample["a"][col.DOC_ID].upper()]
        assert sample["a"]["decided"] == [f"language_id_score {score:,.6g} ≥ 0.65 (language_id.threshold)"]
        assert sample["b"]["decided"] == [f"language_id_score {score:,.6g} < 0.8 (language_id.threshold)"]


def test_samples_are_seeded_and_the_same_from_both_sides(pages, tmp_path):
    one, other = rows(pages), rows(pages, threshold=0.8)
    write_run(tmp_path / "a", one, parts=1)
    write_run(tmp_path / "b", other, parts=4)
    with open_run(tmp_path / "a") as a, open_run(tmp_path / "b") as b:

        def ids(left, right, side, **options):
            cells = diff(left, right, **options)["documents"]["changes"]
            cell = next(c for c in cells if "kept" in (c["a"], c["b"]))
            return [s[side][col.DOC_ID] for s in cell["samples"]]

        first = ids(a, b, "a")
        assert first == ids(a, b, "a") == ids(b, a, "a")
        assert first != ids(a, b, "a", seed=1)
        assert first[:5] == ids(a, b, "a", samples=5)
        assert ids(a, b, "a", samples=0) == []


def test_texts_that_changed(pages, tmp_path):
    one = rows(pages)
    content = one.column(col.CONTENT_ID).to_pylist()
    kept = [i for i, f in enumerate(one.column(col.FATE).to_pylist()) if f == "kept"]
    dropped = [i for i, f in enumerate(one.column(col.FATE).to_pylist()) if f == "dropped" and content[i]]
    for i in [*kept[:7], *dropped[:3]]:  # of those that are dropped it is no change of what is published
        content[i] = bytes(16 * [i % 250 + 1])
    found = compared(tmp_path, one, _with(one, col.CONTENT_ID, pa.array(content, col.ID)))
    text = found["documents"]["text"]
    assert (text["kept_in_both"], text["changed"], len(text["samples"])) == (len(kept), 7, 7)
    assert not found["same_result"]
    assert all(s["a"][col.CONTENT_ID] != s["b"][col.CONTENT_ID] for s in text["samples"])


def test_keepers_that_changed(pages, tmp_path):
    one = rows(pages)
    keepers = one.column(col.KEPT_DOC_ID).to_pylist()
    doubles = [i for i, k in enumerate(keepers) if k]
    for i in doubles[:4]:
        keepers[i] = bytes(range(16))
    found = compared(tmp_path, one, _with(one, col.KEPT_DOC_ID, pa.array(keepers, col.ID)))["documents"]["keepers"]
    assert (found["duplicates_in_both"], found["changed"], found["not_compared"]) == (len(doubles), 4, 0)
    assert {s["b"][col.KEPT_DOC_ID] for s in found["samples"]} == {bytes(range(16)).hex()}


def test_keepers_are_not_compared_across_containers(pages, tmp_path):
    one = rows(pages)
    ids = pa.array([bytes([255 - b for b in i]) for i in one.column(col.DOC_ID).to_pylist()], col.ID)
    found = compared(tmp_path, one, _with(one, col.DOC_ID, ids))["documents"]
    assert found["joined_by"] == {"record id": 900}
    assert found["keepers"]["changed"] == 0
    assert found["keepers"]["not_compared"] == int(
        pages["twice"].sum() - (one.column(col.KEPT_DOC_ID).null_count - 900 + pages["twice"].sum())
    )


def test_undecided_documents_of_an_unfinished_run(pages, tmp_path):
    one = rows(pages)
    fates = [None if f == "kept" else f for f in one.column(col.FATE).to_pylist()]
    write_run(tmp_path / "a", one, parts=2)
    undecided(tmp_path / "b", _with(one, col.FATE, pa.array(fates, pa.string())), parts=3)
    with open_run(tmp_path / "a") as a, open_run(tmp_path / "b") as b:
        found = diff(a, b)["documents"]
    kept = one.column(col.FATE).to_pylist().count("kept")
    assert {"a": "kept", "b": "not decided yet", "documents": kept} in found["matrix"]
    assert (found["changes"], found["changed"]) == ([], 0)  # what is not decided has met no other fate
    assert found["undecided"] == {"documents": kept, "a": 0, "b": kept}
    assert found["same_fate"] == 900 - kept


def test_undecided_documents_are_not_called_kept(pages, tmp_path):
    one = rows(pages)
    fates = [None if f == "kept" else f for f in one.column(col.FATE).to_pylist()]
    waiting = fates.count(None)

    write_run(tmp_path / "a", one)
    undecided(tmp_path / "b", _with(one, col.FATE, pa.array(fates, pa.string())))
    with open_run(tmp_path / "a") as a, open_run(tmp_path / "b") as b:
        found = diff(a, b)
        itself = diff(b, b)
    assert (found["a"]["kept"], found["a"]["undecided"]) == (waiting, 0)
    assert (found["b"]["kept"], found["b"]["undecided"]) == (0, waiting)
    assert not found["same_result"]
    assert itself["same"]
    assert list(text(itself))[-1] == "no difference"
    assert any(f"{waiting:,} documents of B are not decided yet" in line for line in text(itself))
    lines = list(text(found))
    assert lines[0].endswith(f"900 documents, {waiting:,} kept")
    assert lines[1].endswith(f"900 documents, {waiting:,} not decided yet")
    assert f"  {waiting:,} of those in both are not decided yet in B" in lines
    assert "undecided" not in "\n".join(lines).replace(str(tmp_path), "")
    page = diff_page(found)
    assert "not decided yet" in page
    assert "undecided" not in page.replace(str(tmp_path), "")


def test_many_small_changes_are_left_out_and_counted(tmp_path):
    n = 40
    table = rows(population(1, pages=n, hosts=5))
    table = _with(table, col.FATE, pa.array(["dropped"] * n))
    table = _with(table, col.STAGE, pa.array(["http_filter"] * n))
    one = _with(table, col.REASON, pa.array([f"reason{i}" for i in range(n)]))
    other = _with(table, col.REASON, pa.array(["bad_type"] * n))
    found = compared(tmp_path, one, other)["documents"]
    assert (len(found["changes"]), found["changes_left_out"], found["changed"]) == (30, 10, 40)


def test_scores_that_do_not_explain_are_not_made_to(pages, tmp_path):
    """A row whose scores keep all limits says no score; nor does a missing score."""
    one = rows(pages)
    score = np.where(np.arange(900) % 2, 1.0, np.nan)
    other = _with(rows(pages, threshold=0.8), col.LANGUAGE_ID_SCORE, pa.array(score, from_pandas=True))
    found = compared(tmp_path, one, other)["documents"]
    cell = next(c for c in found["changes"] if c["a"] == "kept")
    assert all(s["b"]["decided"] == [] for s in cell["samples"])
