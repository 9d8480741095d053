"""The ledger: one row for every document record or damaged range that was ever read.

``fate`` is kept, dropped or quarantined; ``stage`` and ``reason`` are null for kept rows only. The ledger balances
exactly: every report, replay and check is a query over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col

_FIXED: Mapping[str, pa.DataType] = {
    col.DOC_ID: col.ID,
    col.SOURCE: pa.string(),
    col.RECORD_OFFSET: pa.int64(),
    col.RECORD_LENGTH: pa.int64(),
    col.OFFSET_KIND: pa.string(),
    col.RECORD_ID: pa.string(),
    col.REFERS_TO: pa.string(),
    col.RECORD_TYPE: pa.string(),
    col.URL: pa.string(),
    col.DATE: col.TIME,
    col.FATE: pa.string(),
    col.STAGE: pa.string(),
    col.REASON: pa.string(),
    col.HTTP_STATUS: pa.int16(),
    col.IS_HTTP: pa.bool_(),
    col.DECLARED_TYPE: pa.string(),
    col.PAYLOAD_TYPE: pa.string(),
    col.SNIFFED_TYPE: pa.string(),
    col.MEDIA_TYPE: pa.string(),
    col.CHARSET: pa.string(),
    col.TRUNCATED: pa.string(),
    col.BYTES_IN: pa.int64(),
    col.CHARS_OUT: pa.int64(),  # length of the normalised text; also of rows dropped after it was made
}
_SCORES: Mapping[str, pa.DataType] = {  # columns every ledger has, whatever the recipe runs
    col.LANGUAGE_PREVIEW: pa.string(),
    col.LANGUAGE_PREVIEW_SCORE: pa.float64(),
    col.LANGUAGE: pa.string(),
    col.LANGUAGE_ID_SCORE: pa.float64(),
    col.PERPLEXITY: pa.float64(),
    col.ENTROPY: pa.float64(),
    col.ASCII_SHARE: pa.float64(),
}
_LAST: Mapping[str, pa.DataType] = {
    col.CONTENT_ID: col.ID,
    col.KEPT_DOC_ID: col.ID,
    col.JACCARD: pa.float64(),
    col.WINDOWS: pa.int32(),
    col.SHARD: pa.string(),
}
IDENTITY = tuple(n for n in _FIXED if n in col.READ_COLUMNS)


def schema(scores: Mapping[str, pa.DataType]) -> pa.Schema:
    """The ledger's columns for a pipeline with these score columns; the fixed ones are always there."""
    names = {**_FIXED, **_SCORES, **{n: t for n, t in scores.items() if n not in _LAST}, **_LAST}
    return pa.schema(list(names.items()))


def score_columns(scores: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Every score column of such a ledger with its type."""
    fields = schema(scores)
    return {
        n: fields.field(n).type
        for n in fields.names
        if n in _SCORES or n in scores or n in (col.KEPT_DOC_ID, col.JACCARD)
    }


def verdicts(fates: pa.RecordBatch, windows: pa.Array) -> pa.Table:
    """What a pass says of the rows that entered it (``Flowed.fates``), under the ledger's names."""
    table = pa.Table.from_batches([fates]).append_column(col.WINDOWS, windows)
    return table.rename_columns([col.CHARS_OUT if n == col.LENGTH else n for n in table.schema.names])


def conform(columns: Mapping[str, pa.Array], rows: int, to: pa.Schema) -> pa.Table:
    """A table of the ledger's schema; columns not given are null."""
    arrays = []
    for field in to:
        values = columns.get(field.name)
        if values is None:
            values = pa.nulls(rows, field.type)
        elif values.type != field.type:
            values = values.cast(field.type)
        arrays.append(values)
    return pa.Table.from_arrays(arrays, schema=to)


def merge(first: pa.Table, later: pa.Table) -> pa.Table:
    """The ledger after another pass: ``later`` has one row for each row of ``first`` without a fate, in order."""
    alive = np.flatnonzero(pc.is_null(first.column(col.FATE)).to_numpy())
    if len(alive) != later.num_rows:
        raise ValueError(f"{later.num_rows} fates for {len(alive)} rows")
    at = np.full(first.num_rows, -1, np.int64)
    at[alive] = np.arange(len(alive))
    index = pa.array(at, mask=at < 0)
    columns = {}
    for name in first.schema.names:
        values = first.column(name)
        if name in later.schema.names:
            spread = later.column(name).take(index)
            values = pc.coalesce(spread.cast(values.type), values)
        columns[name] = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return conform(columns, first.num_rows, first.schema)


def finish(table: pa.Table) -> pa.Table:
    """Rows without a fate by now are kept."""
    fate = pc.fill_null(table.column(col.FATE), col.KEPT)
    return table.set_column(table.schema.get_field_index(col.FATE), col.FATE, fate)


def concat(tables: Iterable[pa.Table], to: pa.Schema) -> pa.Table:
    """One table, in order; empty where there are none."""
    parts = list(tables)
    return pa.concat_tables(parts) if parts else to.empty_table()
