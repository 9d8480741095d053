"""windowing: where windows start and end, and that they are the document again."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.stage import Outcome
from cleanpipe.testing import batch, check_stage
from cleanpipe.text.graphemes import REACH, Clusters
from cleanpipe_stages.windowing import Windowing, cut_points, window_count

LINES = (Path(__file__).parent / "cases" / "windowing.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]
FAMILY = "👩‍👩‍👧‍👦"


def run(texts: list[str], **options: Any) -> Outcome:
    outcome = Windowing(**options).open()(batch(text=texts))
    assert isinstance(outcome, Outcome)
    return outcome


def check_laws(text: str, rows: list[dict[str, Any]], size: int, overlap: int) -> None:
    stride = size - overlap
    count = 1 if len(text) <= size else -(-(len(text) - size) // stride) + 1
    assert [r[col.WINDOW] for r in rows] == list(range(count))
    assert {r[col.WINDOWS] for r in rows} == {count}
    assert rows[0][col.CHAR_START] == rows[0][col.OVERLAP] == 0
    assert rows[-1][col.CHAR_END] == len(text)
    assert "".join(r[col.TEXT][r[col.OVERLAP] :] for r in rows) == text
    for k, r in enumerate(rows):
        start, end = r[col.CHAR_START], r[col.CHAR_END]
        assert r[col.TEXT] == text[start:end]
        assert r[col.LENGTH] == end - start <= size
        assert r[col.BYTES] == len(r[col.TEXT].encode())
        assert k * stride <= start <= k * stride + REACH
        assert k == count - 1 or k * stride + size - REACH <= end <= k * stride + size
        if k:
            before = rows[k - 1]
            assert before[col.CHAR_START] < start
            assert before[col.CHAR_END] < end
            assert 0 <= r[col.OVERLAP] == before[col.CHAR_END] - start <= overlap


@pytest.mark.parametrize("case", CASES, ids=[case["comment"] for case in CASES])
def test_cases(case: dict[str, Any]) -> None:
    text = "".join(n * piece for n, piece in case["text"])
    options = case.get("options", {})
    outcome = run([text], **options)
    rows = outcome.batch.to_pylist()
    assert [[r[col.CHAR_START], r[col.CHAR_END]] for r in rows] == case["windows"]
    assert outcome.facts["clusters_cut"] == case.get("cut", 0)
    check_laws(text, rows, options.get("size", 2048), options.get("overlap", 512))


def test_number_of_windows() -> None:
    known = {0: 1, 1: 1, 2047: 1, 2048: 1, 2049: 2, 3584: 2, 3585: 3, 5120: 3, 5121: 4, 1_000_000: 651}
    assert {n: window_count(n, 2048, 512) for n in known} == known


PIECES = [FAMILY, "🧑🏽‍🚀", "🇩🇪", "🇫", "1️⃣", "e\u0301\u0323", "\u0301", "한", "\u1100\u1161", "क्षि", "กำ"]
PIECES += ["שלום\u200f", "می\u200cکند", "日", "a", " word", "\ufffd", "\n", "\r\n"]


@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=40).map("".join), min_size=1, max_size=4),
    st.integers(2 * REACH, 150),
    st.integers(2 * REACH, 150),
)
@settings(max_examples=200, deadline=None)
def test_laws(texts: list[str], overlap: int, stride: int) -> None:
    texts = [text * 5 for text in texts]
    size = overlap + stride
    outcome = run(texts, size=size, overlap=overlap)
    rows, parents = outcome.batch.to_pylist(), outcome.parents.to_pylist()  # type: ignore[union-attr]
    assert parents == sorted(parents)
    for i, text in enumerate(texts):
        own = [r for r, p in zip(rows, parents, strict=True) if p == i]
        check_laws(text, own, size, overlap)
        clusters = Clusters(text)
        for r in own:
            for edge in (r[col.CHAR_START], r[col.CHAR_END]):
                whole = clusters.is_boundary(edge)
                assert (
                    whole
                    or not any(clusters.is_boundary(j) for j in range(edge - REACH, edge + 1))
                    or (
                        edge == r[col.CHAR_START]
                        and not any(clusters.is_boundary(j) for j in range(edge, edge + REACH + 1))
                    )
                )
    assert outcome.facts["windows"] == len(rows)
    assert outcome.facts["documents"] == len(texts)
    assert outcome.facts["characters"] - outcome.facts["overlap_characters"] == sum(map(len, texts))


@given(st.integers(0, 20_000), st.integers(64, 600), st.integers(64, 2000))
@settings(max_examples=200, deadline=None)
def test_plain_text_is_cut_at_nominal_edges(length: int, overlap: int, stride: int) -> None:
    plain, _ = cut_points("a" * length, overlap + stride, overlap)
    assert plain == cut_points("é" * length, overlap + stride, overlap)[0]
    assert [start for start, _ in plain] == [k * stride for k in range(len(plain))]


def test_other_columns_are_repeated() -> None:
    rows = batch(
        {"score": pa.float64()},
        text=["a" * 5000, "b", "c" * 3000],
        url=["http://one.example/", None, "http://three.example/"],
        content_id=[b"1" * 16, b"2" * 16, b"3" * 16],
        score=[0.5, None, 0.25],
    )
    outcome = Windowing().open()(rows)
    parents = [0, 0, 0, 1, 2, 2]
    assert outcome.parents.equals(pa.array(parents, pa.int32()))  # type: ignore[union-attr]
    for name in (col.URL, col.DOC_ID, col.CONTENT_ID, "score"):
        assert outcome.batch.column(name).to_pylist() == [rows.column(name)[p].as_py() for p in parents]
    assert outcome.drops is None
    for name, kind in Windowing.writes.items():
        assert outcome.batch.column(name).type == kind
        assert outcome.batch.column(name).null_count == 0


def test_no_rows() -> None:
    outcome = run([])
    assert outcome.batch.num_rows == 0
    assert set(Windowing.writes) <= set(outcome.batch.schema.names)


def test_contract() -> None:
    rows = batch(text=["a" * 5000, "", FAMILY * 700, "b" * 2048])
    checked = check_stage(Windowing(), rows)
    assert checked.rows.num_rows == 3 + 1 + 3 + 1


@pytest.mark.parametrize(
    ("size", "overlap"), [(2048, 2048), (2048, 3000), (2048, 0), (2048, 63), (2048, 1985), (100, 64), (0, 0), (-1, -70)]
)
def test_options_that_cannot_keep_the_laws(size: int, overlap: int) -> None:
    with pytest.raises(ConfigError, match="at least 64"):
        Windowing(size=size, overlap=overlap).open()


@pytest.mark.parametrize("piece", ["a", "é", "日", "🇩", FAMILY, "👩\u200d", "\U0001f3fb", "\u0301", "\u1100", "क्"])
def test_long_documents_cost_linear_time(piece: str) -> None:
    text = piece * (2_000_000 // len(piece))
    began = time.process_time()
    outcome = run([text])
    assert time.process_time() - began < 4  # a tenth of it is usual
    assert outcome.batch.num_rows == window_count(len(text), 2048, 512)
