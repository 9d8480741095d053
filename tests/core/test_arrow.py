"""Shards: what the packing plan promises, and that bytes do not show where rows came from."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.io.arrow import RowCost, RowFile, TableWriter, plan_shards, rebatch, write_shard
from cleanpipe.io.hashing import sha256_of

SCHEMA = pa.schema(
    [
        ("text", pa.large_string()),
        ("url", pa.string()),
        ("n", pa.int32()),
        ("score", pa.float64()),
        ("id", pa.binary(16)),
        ("flag", pa.bool_()),
    ]
)


def rows(sizes, seed=0):
    rng = np.random.default_rng(seed)
    n = len(sizes)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(["ä" * (s // 2) + "x" * (s % 2) for s in sizes], pa.large_string()),
            pa.array([None if i % 7 == 3 else "u" * int(rng.integers(0, 40)) for i in range(n)], pa.string()),
            pa.array(range(n), pa.int32()),
            pa.array([None if i % 3 else i / 3 for i in range(n)], pa.float64()),
            pa.array([bytes(16)] * n, pa.binary(16)),
            pa.array([None if i % 5 == 0 else True for i in range(n)], pa.bool_()),
        ],
        schema=SCHEMA,
    )


def written(tmp_path, batches, size=10):
    path = tmp_path / "shard.arrow"
    facts = write_shard(path, SCHEMA, rebatch(batches, SCHEMA, size))
    return path, facts


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.integers(1, 13))
def test_the_planned_size_is_never_exceeded(tmp_path_factory, sizes, batch_rows):
    batch, cost = rows(sizes), RowCost.of(SCHEMA)
    each = cost.rows(batch)
    bound = int(each.sum()) + cost.base + cost.batch * -(-len(sizes) // batch_rows)
    path, facts = written(tmp_path_factory.mktemp("s"), [batch], batch_rows)
    assert facts["bytes"] == path.stat().st_size <= bound


def test_the_plan_fills_shards_and_keeps_documents_whole():
    cost = RowCost(fixed=10, batch=100, base=50)
    units = [
        (np.full(40, 2), np.full(40, 1_000)),
        (np.zeros(0, np.int64), np.zeros(0, np.int64)),
        (np.full(5, 1), np.full(5, 3_000)),
    ]
    plan = plan_shards(units, cost, 10_000, 100)
    total = [sum((s.last - s.first) for s in shard) for shard in plan]
    assert sum(total) == 45
    seen = [(s.unit, d) for shard in plan for s in shard for d in range(s.first, s.last)]
    assert seen == [(0, d) for d in range(40)] + [(2, d) for d in range(5)]
    for shard in plan:
        for s in shard:
            per = 2 if s.unit == 0 else 1
            assert (s.first_row, s.last_row) == (s.first * per, s.last * per)


def test_a_document_larger_than_a_shard_has_its_own():
    plan = plan_shards([(np.array([1, 9, 1]), np.array([10, 99_999, 10]))], RowCost(1, 1, 1), 1_000, 10)
    assert [[(s.first, s.last) for s in shard] for shard in plan] == [[(0, 1)], [(1, 2)], [(2, 3)]]


def test_no_document_is_one_empty_shard():
    assert plan_shards([(np.zeros(0, np.int64), np.zeros(0, np.int64))], RowCost(1, 1, 1), 1_000, 10) == [[]]


@given(st.lists(st.integers(0, 30), min_size=2, max_size=50), st.lists(st.integers(1, 49), max_size=4))
def test_bytes_do_not_show_how_rows_were_cut(tmp_path_factory, sizes, cuts):
    batch = rows(sizes)
    edges = sorted({0, len(sizes), *(c for c in cuts if c < len(sizes))})
    slices = [batch.slice(a, b - a) for a, b in pairwise(edges)]
    copies = [pa.RecordBatch.from_pylist(s.to_pylist(), schema=SCHEMA) for s in slices]
    folder = tmp_path_factory.mktemp("s")
    digests = {written(folder, given)[1]["sha256"] for given in ([batch], slices, copies)}
    assert len(digests) == 1


def test_a_written_table_reads_back_by_column_slice_and_row(tmp_path):
    path = tmp_path / "t.arrow"
    writer = TableWriter(path, SCHEMA)
    whole = rows(range(25))
    for start in (0, 7, 14, 21):
        writer.write(whole.slice(start, 7))
    assert writer.close() == {"name": "t.arrow", "bytes": path.stat().st_size, "sha256": sha256_of(path)}
    file = RowFile(path)
    assert file.rows == 25
    assert file.column("n").to_pylist() == list(range(25))
    assert (
        file.take("text", np.array([0, 6, 7, 24])).to_pylist()
        == whole.column("text").take(pa.array([0, 6, 7, 24])).to_pylist()
    )
    assert pa.Table.from_batches(file.slice(5, 16)).column("n").to_pylist() == list(range(5, 16))


def test_the_digest_is_of_the_file(tmp_path):
    path, facts = written(tmp_path, [rows([5, 6])])
    assert facts["sha256"] == sha256_of(path)
    assert facts["rows"] == 2


@pytest.mark.parametrize("sizes", [[], [3]])
def test_shards_open_as_streams(tmp_path, sizes):
    path, facts = written(tmp_path, [rows(sizes)] if sizes else [])
    assert pa.ipc.open_stream(path.read_bytes()).read_all().num_rows == len(sizes) == facts["rows"]
