"""Which columns rows keep between passes and in shards, and what they cost there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.io.arrow import RowCost
from cleanpipe.pipeline import Pass, Pipeline

_FIRST: Mapping[str, pa.DataType] = {
    col.TEXT: pa.large_string(),
    col.URL: pa.string(),
    col.LENGTH: pa.int32(),
    col.BYTES: pa.int64(),
    col.DOC_ID: col.ID,
    **col.WINDOW_COLUMNS,
    col.LANGUAGE: pa.string(),
}
_LAST: Mapping[str, pa.DataType] = {
    col.SOURCE: pa.string(),
    col.RECORD_OFFSET: pa.int64(),
    col.RECORD_ID: pa.string(),
    col.DATE: col.TIME,
}
_UNITS: Mapping[str, str] = {
    **dict.fromkeys((col.LENGTH, col.CHAR_START, col.CHAR_END, col.OVERLAP), "code points"),
    col.BYTES: "bytes",
    col.RECORD_OFFSET: "bytes",
}


def shard_schema(pipeline: Pipeline) -> pa.Schema:
    """Columns of a shard: text first, then what it is, its scores, where it came from.

    Lengths and places name their unit in the field's metadata, ``unit``: "code points" or "bytes".
    """
    left_out = pipeline.ledger_only()
    middle = {n: t for n, t in pipeline.scores().items() if n not in left_out}
    columns = {**_FIRST, **middle, **_LAST}
    return pa.schema(
        [pa.field(n, t, metadata={"unit": _UNITS[n]} if n in _UNITS else None) for n, t in columns.items()]
    )


def waiting_columns(passes: Sequence[Pass], index: int) -> dict[str, pa.DataType]:
    """Columns that rows carry from pass ``index`` to the later ones."""
    wanted = {*_FIRST, *_LAST, col.BYTES_IN, col.RECORD_LENGTH, col.OFFSET_KIND}  # the last two for the quarantine
    for later in passes[index + 1 :]:
        wanted |= later.exchange.reads if later.exchange else set()
        for stage in later.stages:
            wanted |= stage.reads | stage.reads_optional
    scores = {n for p in passes for s in p.stages for n in {*s.scores} - s.ledger_only}
    return {n: t for n, t in passes[index].columns.items() if n in wanted | scores}


def final_rows(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of the last pass in the shards' schema; a document that was not cut is one window."""
    names = set(rows.schema.names)
    if col.WINDOW not in names:
        n = rows.num_rows
        length = rows.column(col.LENGTH).cast(pa.int64())
        zero, one = pa.array(np.zeros(n, np.int32)), pa.array(np.ones(n, np.int32))
        start = pa.array(np.zeros(n, np.int64))
        whole = {col.WINDOW: zero, col.WINDOWS: one, col.CHAR_START: start, col.CHAR_END: length, col.OVERLAP: zero}
        rows = col.with_columns(rows, whole)
    columns = []
    for field in schema:
        values = rows.column(field.name) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)
        columns.append(values if values.type == field.type else values.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@lru_cache(maxsize=4)
def row_cost(schema: pa.Schema) -> RowCost:
    """The cost of rows of a shard schema, measured once a process."""
    return RowCost.of(schema)


def row_sizes(rows: pa.RecordBatch, origin: npt.NDArray[np.int32], schema: pa.Schema) -> pa.RecordBatch:
    """Rows and bytes of each document, in order: the table that the packing plan is made from."""
    if not rows.num_rows:
        return pa.RecordBatch.from_pydict({"rows": pa.array([], pa.int64()), "bytes": pa.array([], pa.int64())})
    starts = np.flatnonzero(np.concatenate([[True], origin[1:] != origin[:-1]]))
    total = np.add.reduceat(row_cost(schema).rows(rows), starts)
    counts = np.diff(np.concatenate([starts, [rows.num_rows]]))
    return pa.RecordBatch.from_pydict({"rows": pa.array(counts.astype(np.int64)), "bytes": pa.array(total)})
