"""Windows back to documents: whole ones are believed, broken ones cost themselves alone."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.tokens.making.documents import NEEDED, documents_of

TYPES = {
    col.DOC_ID: col.ID,
    col.TEXT: pa.large_string(),
    col.LENGTH: pa.int32(),
    col.BYTES: pa.int64(),
    **col.WINDOW_COLUMNS,
}


def windows(number, text, size, overlap):
    """Rows of one document, cut every size - overlap code points."""
    starts = [0]
    while starts[-1] + size < len(text):
        starts.append(starts[-1] + size - overlap)
    edges = [(s, min(s + size, len(text))) for s in starts]
    identity = number.to_bytes(16, "big")
    return [
        {
            col.DOC_ID: identity,
            col.TEXT: text[a:b],
            col.LENGTH: b - a,
            col.BYTES: len(text[a:b].encode()),
            col.WINDOW: k,
            col.WINDOWS: len(edges),
            col.CHAR_START: a,
            col.CHAR_END: b,
            col.OVERLAP: edges[k - 1][1] - a if k else 0,
        }
        for k, (a, b) in enumerate(edges)
    ]


def batches(rows, sizes=(1000,)):
    """Record batches of so many rows each, the last size repeated."""
    table = pa.Table.from_pylist(rows, schema=pa.schema([(n, TYPES[n]) for n in NEEDED]))
    at, out, k = 0, [], 0
    while at < table.num_rows:
        n = sizes[min(k, len(sizes) - 1)]
        out += table.slice(at, n).combine_chunks().to_batches()
        at, k = at + n, k + 1
    return out


def texts(rows, sizes=(1000,), **limits):
    return [t for piece in documents_of(batches(rows, sizes), **limits) for t in piece.texts]


DOCS = ["one", "", "x" * 50, "ein längerer Text: 日本語 🙂 " * 9, "tail"]


def rows_of(docs, size=20, overlap=6):
    return [row for n, text in enumerate(docs) for row in windows(n, text, size, overlap)]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=90), max_size=12),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(1, 5),
    st.integers(1, 200),
)
@settings(deadline=None, max_examples=80)
def test_documents_come_back_whatever_the_batches_and_pieces(docs, sizes, most, size):
    rows = rows_of(docs)
    pieces = list(documents_of(batches(rows, sizes), most=most, size=size))
    assert [t for p in pieces for t in p.texts] == docs
    assert [p.first for p in pieces] == [sum(map(len, pieces[:i])) for i in range(len(pieces))]
    assert all(len(p) <= most for p in pieces)
    whole = list(documents_of(batches(rows), most=most, size=size))
    assert [p.texts for p in whole] == [p.texts for p in pieces]  # a piece does not show where batches ended
    assert [p.starts.tolist() for p in whole] == [p.starts.tolist() for p in pieces]
    assert sum(p.rows.num_rows for p in pieces) == len(rows)


def test_a_part_of_a_piece_is_its_documents():
    (piece,) = documents_of(batches(rows_of(DOCS)))
    part = piece.part(2, 4)
    assert part.texts == DOCS[2:4]
    assert part.first == 2
    assert part.firsts(col.DOC_ID).to_pylist() == [n.to_bytes(16, "big") for n in (2, 3)]
    assert part.numbers(col.WINDOW).tolist()[:4] == [0, 1, 2, 3]
    assert piece.part(0, 5) is piece


def third(rows):
    """Rows of the document in the middle: five windows or so."""
    return [i for i, r in enumerate(rows) if r[col.DOC_ID] == (3).to_bytes(16, "big")]


def change(name, value):
    def do(rows):
        rows[third(rows)[1]][name] = value(rows[third(rows)[1]][name])

    return do


def swap(rows):
    a, b = third(rows)[1:3]
    rows[a], rows[b] = rows[b], rows[a]


def other_text(rows):
    row = rows[third(rows)[1]]
    row[col.TEXT] = "?" + row[col.TEXT][1:]
    row[col.BYTES] = len(row[col.TEXT].encode())


FAULTS = {
    "the first window is lost": lambda rows: rows.pop(third(rows)[0]),
    "one in the middle is lost": lambda rows: rows.pop(third(rows)[2]),
    "the last is lost": lambda rows: rows.pop(third(rows)[-1]),
    "two change places": swap,
    "one stands twice": lambda rows: rows.insert(third(rows)[1], dict(rows[third(rows)[1]])),
    "another length": change(col.LENGTH, lambda n: n - 1),
    "other bytes": change(col.BYTES, lambda n: n + 1),
    "begins elsewhere": change(col.CHAR_START, lambda n: n + 1),
    "ends elsewhere": change(col.CHAR_END, lambda n: n + 1),
    "another overlap": change(col.OVERLAP, lambda n: n + 1),
    "a negative overlap": change(col.OVERLAP, lambda n: -n),
    "another number of windows": change(col.WINDOWS, lambda n: n + 1),
    "a text that is null": change(col.TEXT, lambda _: None),
    "a length that is null": change(col.LENGTH, lambda _: None),
    "it does not repeat what it says": other_text,
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("sizes", [(1000,), (1,), (7, 2)])
def test_a_broken_document_costs_itself_alone(fault, sizes):
    rows = rows_of(DOCS)
    fault(rows)
    assert texts(rows, sizes) == [None if i == 3 else t for i, t in enumerate(DOCS)]


def test_windows_that_begin_again_are_two_documents_and_both_broken_if_they_say_so():
    rows = windows(1, "a" * 30, 20, 6)
    assert texts([*rows, *rows]) == ["a" * 30] * 2  # neighbours of one identity, each of them whole
    assert texts([*rows[:1], *rows]) == [None, "a" * 30]


def test_a_text_that_is_no_utf8_is_a_broken_document():
    rows = rows_of(["good", "bad!", "fine"])
    (batch,) = batches(rows)
    data = batch.column(col.TEXT).cast(pa.large_binary()).to_pylist()
    data[1] = b"b\xff\xfe!"
    bad = pa.array(data, pa.large_binary()).view(pa.large_string())
    batch = col.with_columns(batch, {col.TEXT: bad})
    assert [t for p in documents_of([batch]) for t in p.texts] == ["good", None, "fine"]


def test_no_rows_are_no_documents():
    assert list(documents_of([])) == []
    assert list(documents_of([batches(rows_of(["x"]))[0].slice(0, 0)])) == []
