"""Spans against the payload they describe: every document there, its windows in order, inside it and without a gap."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.errors import CleanpipeError
from cleanpipe.tokens.layout import (
    DOC_START,
    DOC_TOKENS,
    DOCUMENT,
    SPAN_COLUMNS,
    TOKEN_COUNT,
    TOKEN_OVERLAP,
    TOKEN_START,
)
from cleanpipe.tokens.store.damage import documents
from cleanpipe.tokens.store.names import spans_name
from cleanpipe.tokens.store.verify_payload import Finding, Payload

_SHOWN = 5
Numbers = npt.NDArray[np.int64]


def span_faults(payload: Payload, *, per_window: bool) -> Iterator[Finding]:
    """What is wrong with a shard's table of spans. per_window: windows follow one another in the payload."""
    name = spans_name(payload.name)
    try:
        table = payload.sides.spans
        table.validate(full=True)
    except (CleanpipeError, pa.ArrowException) as error:
        yield name, f"cannot be read: {' '.join(str(error).split())}"
        return
    for column, kind in {**SPAN_COLUMNS, col.DOC_ID: col.ID, col.URL: pa.string()}.items():
        if column not in table.schema.names or table.schema.field(column).type != kind:
            yield name, f"has no column {column!r} of {kind}"
            return
    if table.num_rows != payload.entry["windows"]:
        yield name, f"{table.num_rows:,} windows, {payload.entry['windows']:,} in store.json"
    offsets = payload.offsets
    if offsets is None or not table.num_rows:
        if offsets is not None and len(offsets) > 1:
            yield name, "has no windows"
        return
    nulls = [c for c in (*_NUMBERS, col.DOC_ID) if table.column(c).null_count]
    if nulls:
        yield name, f"rows without {nulls[0]}"
        return
    seen = 0
    for what, rows in _broken(payload, table, offsets, per_window=per_window):
        bad = np.flatnonzero(rows)
        if len(bad) and seen < _SHOWN:
            seen += 1
            number = int(table.column(DOCUMENT)[int(bad[0])].as_py())
            yield name, f"{what} in {len(bad):,} rows: first {documents(payload.sides, range(number, number + 1))[0]}"


_NUMBERS = (DOCUMENT, TOKEN_START, TOKEN_COUNT, TOKEN_OVERLAP, DOC_START, DOC_TOKENS)


def _broken(
    payload: Payload, table: pa.Table, offsets: Numbers, *, per_window: bool
) -> Iterator[tuple[str, npt.NDArray[np.bool_]]]:
    """Law by law, the rows that break it; the first that is broken as to which documents there are ends it."""
    document, start, count, overlap, begin, tokens = (table.column(c).to_numpy().astype(np.int64) for c in _NUMBERS)
    new = np.ones(len(document), bool)
    new[1:] = document[1:] != document[:-1]
    expected = np.cumsum(new) - 1
    yield "documents are not numbered in order", document != expected
    if bool((document != expected).any()) or int(expected[-1]) != len(offsets) - 2:
        lacking = len(offsets) - 1 - int(expected[-1]) - 1
        yield (
            f"{lacking:,} documents have no window; the last with one",
            document == document[-1] if lacking else ~new[:0],
        )
        return
    ids = table.column(col.DOC_ID).combine_chunks().cast(pa.binary())
    same = np.ones(len(document), bool)
    if len(ids) > 1:
        same[1:] = pa.compute.equal(ids.slice(1), ids.slice(0, len(ids) - 1)).to_numpy(zero_copy_only=False)
    same[0] = False
    yield "one document's windows have different doc_ids, or two documents the same", same == new
    yield f"{DOC_START} is not the payload's", begin != offsets[document]
    yield f"{DOC_TOKENS} is not the payload's", tokens != offsets[document + 1] - offsets[document]
    first = offsets[document] + (payload.bos is not None)
    last = offsets[document + 1] - (payload.eos is not None)
    yield "tokens lie outside their document", (count < 0) | (start < first) | (start + count > last)
    yield f"{TOKEN_OVERLAP} is not part of its window", (overlap < 0) | (overlap > count)
    ends = start + count
    before = np.where(new, first, np.concatenate([[0], ends[:-1]]))
    yield "a window does not follow the one before", (start if per_window else start + overlap) != before
    if not per_window:
        yield "a document's first window repeats tokens", new & (overlap != 0)
    final = np.ones(len(document), bool)
    final[:-1] = new[1:]
    yield "the last window does not end with its document", final & (ends != last)
