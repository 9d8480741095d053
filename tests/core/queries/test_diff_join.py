"""Pairs as a loop over dictionaries finds them, in memory and by partitions on disk."""

from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_runs import population, rows, write_run

from cleanpipe import batch as col
from cleanpipe.queries import diff_join
from cleanpipe.queries.diff_join import DOC_ID, PAGE, RECORD, ROW, VISIT, join, pairs
from cleanpipe.queries.diff_ledger import Outcomes, hashed
from cleanpipe.queries.opened_run import open_run

KEYS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), max_size=30)


def _keyed(keys):
    out = np.zeros(len(keys), ROW)
    if keys:
        out["hi"], out["lo"] = np.array(keys, np.uint64).T
    out["row"] = np.arange(len(keys))
    return out


@given(KEYS, KEYS)
def test_pairs_are_the_kth_of_a_key_with_the_kth(a, b):
    places = defaultdict(lambda: ([], []))
    for side, keys in enumerate((a, b)):
        for i, key in enumerate(keys):
            places[key][side].append(i)
    want = {pair for left, right in places.values() for pair in zip(left, right, strict=False)}
    left, right = pairs(_keyed(a), _keyed(b))
    assert len(left) == len(want)
    assert set(zip(left["row"].tolist(), right["row"].tolist(), strict=True)) == want


def _joined(one, other, tmp_path, **changes):
    found = []
    write_run(tmp_path / "a", one, parts=3)
    write_run(tmp_path / "b", other, parts=2)
    with open_run(tmp_path / "a") as a, open_run(tmp_path / "b") as b:
        outcomes = Outcomes()

        def told(key, left, right):
            found.extend((key, x, y) for x, y in zip(left["row"].tolist(), right["row"].tolist(), strict=True))

        paired = join(a, b, outcomes, told, **changes)
    assert [int(p.sum()) for p in paired] == [len(found)] * 2
    return found, paired


def _with(table, name, values):
    return table.set_column(table.schema.get_field_index(name), name, values)


@pytest.fixture(scope="module")
def ledger():
    return rows(population(1, pages=200, hosts=10))


def test_the_same_ledger_is_joined_row_by_row(ledger, tmp_path):
    found, _ = _joined(ledger, ledger, tmp_path)
    assert found == [(DOC_ID, i, i) for i in range(200)]


@pytest.mark.parametrize("partition", [1 << 20, 32])
def test_shuffled_rows_and_rows_of_one_run_alone(ledger, tmp_path, monkeypatch, partition):
    monkeypatch.setattr(diff_join, "PARTITION", partition)  # 32: a dozen partitions on disk
    order = np.random.default_rng(5).permutation(200)[:150]
    found, paired = _joined(ledger, ledger.take(pa.array(order)), tmp_path, scratch=str(tmp_path))
    assert {(x, y) for _, x, y in found} == {(int(x), y) for y, x in enumerate(order)}
    assert {k for k, _, _ in found} == {DOC_ID}
    assert np.flatnonzero(~paired[0]).tolist() == sorted(set(range(200)) - set(order.tolist()))
    assert not [f for f in tmp_path.iterdir() if f.name.startswith("cleanpipe-")]  # nothing is left behind


def _other_container(ledger):
    """The same pages in other files: other doc_ids, sources, offsets."""
    ids = [bytes([255 - b for b in i]) for i in ledger.column(col.DOC_ID).to_pylist()]
    return _with(ledger, col.DOC_ID, pa.array(ids, col.ID))


def test_other_containers_are_joined_by_record_id(ledger, tmp_path):
    order = np.random.default_rng(6).permutation(200)
    found, _ = _joined(ledger, _other_container(ledger).take(pa.array(order)), tmp_path)
    assert {(k, x, y) for k, x, y in found} == {(RECORD, int(x), y) for y, x in enumerate(order)}


def test_wet_is_joined_to_the_records_it_was_made_from(ledger, tmp_path):
    wet = _other_container(ledger)
    wet = _with(wet, col.REFERS_TO, ledger.column(col.RECORD_ID))
    wet = _with(wet, col.RECORD_ID, pa.array([f"<urn:uuid:own-{i}>" for i in range(200)]))
    wet = _with(wet, col.RECORD_TYPE, pa.array(["conversion"] * 200))
    found, _ = _joined(ledger, wet, tmp_path)
    assert set(found) == {(PAGE, i, i) for i in range(200)}


def test_arc_without_record_ids_is_joined_by_url_and_date(ledger, tmp_path):
    arc = _with(_other_container(ledger), col.RECORD_ID, pa.nulls(200, pa.string()))
    found, _ = _joined(ledger, arc, tmp_path)
    assert {(k, x, y) for k, x, y in found} == {(VISIT, i, i) for i in range(200)}


def test_other_visits_of_a_url_are_other_documents(ledger, tmp_path):
    arc = _with(_other_container(ledger), col.RECORD_ID, pa.nulls(200, pa.string()))
    later = _with(arc, col.DATE, pa.array(np.full(200, 1_795_000_000)).cast(ledger.schema.field(col.DATE).type))
    assert _joined(ledger, later, tmp_path)[0] == []


def test_null_keys_join_nothing(ledger, tmp_path):
    bare = _other_container(ledger)
    for name in (col.RECORD_ID, col.URL, col.DATE, col.RECORD_TYPE):
        bare = _with(bare, name, pa.nulls(200, bare.schema.field(name).type))
    assert _joined(bare, _other_container(bare), tmp_path)[0] == []


def test_empty_runs(ledger, tmp_path):
    assert _joined(ledger, ledger.slice(0, 0), tmp_path)[0] == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=12)), max_size=40))
def test_hashes_are_of_the_text_alone(texts):
    values = pa.array(["pad", *texts], pa.string())
    whole = hashed(values)[1:].tolist()
    assert whole == [int(hashed(pa.array([t], pa.string()))[0]) for t in texts]  # whatever stands around
    assert whole == hashed(values.slice(1)).tolist()  # and of slices
    named = {t or "" for t in texts}
    assert len(set(whole)) == len(named)
    assert whole != hashed(values, 1)[1:].tolist() or not texts
