"""The made ledger of the benchmarks is one that a run could have written: what is measured on it means something."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from cleanpipe import batch as col
from cleanpipe.queries.index import index_of
from cleanpipe.queries.opened_run import open_run
from cleanpipe.verify import verify


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
    try:
        from synthetic_ledger import make
    finally:
        sys.path.pop(0)
    folder = tmp_path_factory.mktemp("synthetic")
    make(folder / "again", 3000, seed=5, part_rows=1000)
    return make(folder / "run", 12_000, seed=5, part_rows=1000)


@pytest.fixture(scope="module")
def table(made):
    with open_run(made) as opened:
        return pa.concat_tables([pq.read_table(p) for p in opened.parts])


def test_it_balances_and_can_be_opened(made):
    with open_run(made) as opened:
        assert opened.finished
        assert len(opened.parts) == opened.units == 12
        assert [li for li in opened.audit["conservation"]["lines"] if not li["ok"]] == []
        assert opened.audit["ledger"]["rows"] == 12_000
    without_shards = ("data/", "its list of shards")
    assert [f for f in verify(made).findings if not any(w in f for w in without_shards)] == []


def test_the_same_rows_for_the_same_seed(made):
    first, again = (sorted((made.parent / n / "ledger").iterdir())[1] for n in ("run", "again"))
    drop = [col.SHARD]
    assert pq.read_table(first).drop_columns(drop) == pq.read_table(again).drop_columns(drop)


def test_duplicates_name_kept_rows(table):
    assert len(set(table[col.DOC_ID].to_pylist())) == 12_000
    rows = {r[col.DOC_ID]: r for r in table.to_pylist()}
    gone = [r for r in rows.values() if r[col.KEPT_DOC_ID] is not None]
    assert 0.08 < len(gone) / len(rows) < 0.12
    for row in gone:
        kept = rows[row[col.KEPT_DOC_ID]]
        assert kept[col.FATE] == col.KEPT
        same = row[col.REASON] == "exact_duplicate"
        assert (row[col.CONTENT_ID] == kept[col.CONTENT_ID], row[col.JACCARD] == 1) == (same, same)
        if same:
            assert row[col.CHARS_OUT] == kept[col.CHARS_OUT]
        assert row["minhash_drop_component"] == kept["minhash_drop_component"]


def test_every_stage_judges_as_the_rows_say(made, table):
    with open_run(made) as opened:
        order = [s.name for s in opened.recipe.pipeline().complete()]
        place = pc.index_in(table[col.STAGE], pa.array(order))
        for stage in opened.recipe.pipeline().stages:
            judge = stage.judge()
            if judge is None:
                continue
            later = pc.fill_null(pc.greater_equal(place, order.index(stage.name)), False)
            rows = table.filter(pc.or_(pc.equal(table[col.FATE], col.KEPT), later)).combine_chunks().to_batches()[0]
            mine = pc.fill_null(pc.equal(rows.column(col.STAGE), stage.name), False)
            said = pc.if_else(mine, rows.column(col.REASON), pa.scalar(None, pa.string()))
            assert judge.judge(rows).to_pylist() == said.to_pylist(), stage.name


def test_its_index_is_that_of_a_run(made):
    for part in sorted((made / "ledger").iterdir()):
        assert (made / "index" / f"{part.stem}.keys").read_bytes() == index_of(pq.read_table(part))
