"""What the meeting tells beside its verdicts: which documents hang together by keys, and the biggest clusters."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe_stages.dedup.bands import BAND_KEYS, from_arrow
from cleanpipe_stages.dedup.meet import COMPONENT, DUPLICATE, NearDuplicates


def words(first: int, last: int) -> str:
    return " ".join(f"w{i}" for i in range(first, last))


def by_definition(table: pa.Table) -> dict[bytes, frozenset[bytes]]:
    """Documents → those that they hang together with, through keys of unequal texts; none: not in it."""
    ids, contents = (table.column(n).to_pylist() for n in (col.DOC_ID, col.CONTENT_ID))
    column = table.column(BAND_KEYS)
    keys: dict[int, set[tuple[int, int]]] = {i: set() for i in range(len(ids))}
    at = np.flatnonzero(column.is_valid().to_numpy())
    stored = [k for chunk in column.chunks for k in from_arrow(chunk).tolist()]
    for i, row in zip(at.tolist(), stored, strict=True):
        keys[i] = set(enumerate(row[1:]))
    group = list(range(len(ids)))
    for i in range(len(ids)):
        for j in range(i):
            if keys[i] & keys[j]:
                old, new = group[i], group[j]
                group = [new if g == old else g for g in group]
    out = {}
    for i in range(len(ids)):
        mine = [j for j in range(len(ids)) if group[j] == group[i] and keys[j]]
        if len({contents[j] for j in mine}) > 1:
            out[ids[i]] = frozenset(ids[j] for j in mine)
    return out


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 40)), min_size=1, max_size=12), st.data()
)
def test_components(sign: Any, part: Any, spans: list[tuple[int, int, int]], data: st.DataObject) -> None:
    texts = [words(1000 * base + start, 1000 * base + start + length) for base, start, length in spans]
    table = sign(texts, bands=6, rows=2)
    expected = by_definition(table)
    order = data.draw(st.permutations(range(len(texts))))
    cut = data.draw(st.integers(0, len(texts)))
    mixed = table.take(pa.array(order, pa.int64()))
    told = []
    for pieces in ([table], [mixed.slice(a, b - a) for a, b in pairwise([0, cut, len(texts)])]):
        answer = NearDuplicates().meet([part(p) for p in pieces])
        names = [i for p in pieces for i in p.column(col.DOC_ID).to_pylist()]
        labels = [c for t in answer.tables for c in t.column(COMPONENT).to_pylist()]
        told.append(dict(zip(names, labels, strict=True)))
    assert told[0] == told[1], "the order of documents and parts does not matter"
    assert {name for name, label in told[0].items() if label is not None} == set(expected)
    for name, members in expected.items():
        assert {n for n, label in told[0].items() if label == told[0][name]} == members
        assert any(m.startswith(told[0][name]) for m in members)


def test_the_biggest_clusters(sign: Any, part: Any) -> None:
    """One of 8 (7 copies), one of 3 (two near ones), one of 2 that comes after another of 2 in the order."""
    big, near, one, two = words(0, 50), words(100, 160), words(200, 231), words(300, 330)
    texts = [*[big] * 8, near, words(100, 158), words(101, 160), two, two, one, one, words(500, 540)]
    table = sign(texts)
    urls = [f"http://{i}.example.org/" for i in range(len(texts))]
    table = table.set_column(table.schema.get_field_index(col.URL), col.URL, pa.array(urls))
    answer = NearDuplicates().meet([part(table.slice(0, 5)), part(table.slice(5))])
    rows = {r[col.DOC_ID]: r[col.URL] for r in table.to_pylist()}
    biggest = answer.facts["biggest"]
    assert isinstance(biggest, list)
    assert [b["size"] for b in biggest] == [8, 3, 2, 2]
    assert [len(b["members"]) for b in biggest] == [5, 2, 1, 1]
    assert biggest[1]["url"] == "http://8.example.org/"
    assert [m["jaccard"] for m in biggest[1]["members"]] == [round(55 / 56, 6), round(54 / 56, 6)]
    assert [m["jaccard"] for m in biggest[0]["members"]] == [1.0] * 5
    assert {biggest[2]["url"], biggest[2]["members"][0]["url"]} == {urls[13], urls[14]}, "the longer comes first"
    for cluster in biggest:
        for document in (cluster, *cluster["members"]):
            assert rows[bytes.fromhex(document["doc_id"])] == document["url"]


def test_ten_at_most_and_none_of_nothing(sign: Any, part: Any) -> None:
    texts = [t for i in range(12) for t in [words(100 * i, 100 * i + 20 + i)] * 2]
    answer = NearDuplicates().meet([part(sign(texts))])
    biggest = answer.facts["biggest"]
    assert isinstance(biggest, list)
    assert len(biggest) == 10
    empty = NearDuplicates().meet([part(sign(["a b c"]))])
    assert empty.facts["biggest"] == []
    assert empty.tables[0].column(DUPLICATE).to_pylist() == [None]
