"""Quarantine: records and byte ranges that could not be treated, each with its error and where to re-read it from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.flow import STAGE_ERROR, Flowed
from cleanpipe.io.documents import RESOURCE_LIMIT, FailedRecord

LIMITS = "quarantine/limits.json"
UNREADABLE = "unreadable_input"
_PLACE = (col.DOC_ID, col.SOURCE, col.RECORD_OFFSET, col.RECORD_LENGTH, col.OFFSET_KIND, col.RECORD_ID, col.URL)
_ERROR = ("error", "message", "trace")
QUARANTINE_SCHEMA = pa.schema(
    [(n, col.READ_COLUMNS[n]) for n in _PLACE]
    + [(col.STAGE, pa.string()), (col.REASON, pa.string())]
    + [(n, pa.string()) for n in _ERROR]  # class, text, first 16 hex digits of the traceback's SHA-256
)


def failure_rows(flowed: Flowed, entered: pa.RecordBatch) -> pa.RecordBatch:
    """Quarantine rows of documents on which a step raised."""
    index = pa.array([f.row for f in flowed.failures], pa.int32())
    place = {n: _place(entered, n).take(index) for n in _PLACE}
    stages = flowed.fates.column(col.STAGE).take(index)
    reasons = flowed.fates.column(col.REASON).take(index)
    failures = flowed.failures
    rest = [
        [f.error for f in failures],
        [f.message for f in failures],
        [f.trace for f in failures],
    ]
    columns = [*place.values(), stages, reasons, *(pa.array(r, pa.string()) for r in rest)]
    return pa.RecordBatch.from_arrays(columns, schema=QUARANTINE_SCHEMA)


def _place(rows: pa.RecordBatch, name: str) -> pa.Array:
    return rows.column(name) if name in rows.schema.names else pa.nulls(rows.num_rows, col.READ_COLUMNS[name])


def failed_rows(failed: Sequence[FailedRecord], stage: str) -> pa.RecordBatch:
    """Quarantine rows of records and ranges that the reader could not turn into documents."""
    columns: list[pa.Array] = []
    for field in QUARANTINE_SCHEMA:
        if field.name == col.STAGE:
            columns.append(pa.array([stage] * len(failed), pa.string()))
        elif field.name == "trace":
            columns.append(pa.nulls(len(failed), pa.string()))
        else:
            columns.append(pa.array([getattr(f, field.name) for f in failed], field.type))
    return pa.RecordBatch.from_arrays(columns, schema=QUARANTINE_SCHEMA)


def may_end_otherwise(table: pa.Table) -> pa.Table:
    """Rows that may end otherwise when they are tried again, the bytes being the same: a step raised, a guard ended the
    worker, or the input could not be read.
    """
    retried = pc.is_in(table.column(col.REASON), pa.array([STAGE_ERROR, RESOURCE_LIMIT]))
    unread = pc.fill_null(pc.equal(table.column("error"), UNREADABLE), False)
    return table.filter(pc.or_(retried, unread))


def limits(table: pa.Table) -> list[dict[str, Any]]:
    """The documents that a guard set aside: what a re-run must know to give the same bytes (see ``--limits``)."""
    found = table.filter(pc.equal(table.column(col.REASON), RESOURCE_LIMIT))
    names = (col.SOURCE, col.RECORD_OFFSET, col.RECORD_ID, col.STAGE, "error", "message")
    rows = found.select([col.DOC_ID, *names]).to_pylist()
    return [{**row, col.DOC_ID: row[col.DOC_ID].hex()} for row in rows]


def read_limits(data: bytes, where: str) -> dict[str, dict[str, tuple[str, str, str]]]:
    """A published list as source → doc_id in hex → error, message, stage ("" where none is said).

    Raises:
        ConfigError: it is none.
    """
    out: dict[str, dict[str, tuple[str, str, str]]] = {}
    try:
        for row in json.loads(data)["documents"]:
            key = bytes.fromhex(row[col.DOC_ID]).hex()
            said = str(row["error"]), str(row["message"]), str(row.get(col.STAGE) or "")
            out.setdefault(str(row[col.SOURCE]), {})[key] = said
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{where} is no list of limits (a run writes one to {LIMITS}): {error}") from error
    return out


def ledger_columns(failed: Sequence[FailedRecord], names: Sequence[str], stage: str) -> dict[str, pa.Array]:
    """Ledger columns of the same."""
    n = len(failed)
    out = {name: pa.array([getattr(f, name, None) for f in failed], col.READ_COLUMNS[name]) for name in names}
    out[col.FATE] = pa.array([col.QUARANTINED] * n, pa.string())
    out[col.STAGE] = pa.array([stage] * n, pa.string())
    out[col.REASON] = pa.array([f.reason for f in failed], pa.string())
    return out


def order(rows: pa.Table) -> pa.Table:
    """In the order of the file."""
    offsets = rows.column(col.RECORD_OFFSET).to_numpy()
    return rows if (np.diff(offsets) >= 0).all() else rows.take(pa.array(np.argsort(offsets, kind="stable")))
