"""The ledger of a token store: one row for every document of the run's shards, whatever became of it."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe.io.hashing import sha256_of
from cleanpipe.io.store import Store
from cleanpipe.tokens.layout import DOCUMENT

TOKENIZE = "tokenize"  # the stage of every fate but kept
EMPTY, BROKEN, DECISION, LIMIT = "empty", "broken_windows", "decision", "resource_limit"
CHARS, BYTES, TOKENS, DETAIL = "chars", "bytes", "tokens", "detail"
COMPONENT = "minhash_drop_component"  # of the run's ledger: the same for documents that hang together
ROWS = 1 << 16  # of a Parquet row group

COLUMNS: dict[str, pa.DataType] = {
    col.DOC_ID: col.ID,
    col.SOURCE: pa.string(),
    col.URL: pa.string(),
    col.LANGUAGE: pa.string(),
    col.CONTENT_ID: col.ID,
    CHARS: pa.int64(),  # code points of the document; so were its windows less what they repeat
    BYTES: pa.int64(),  # of these, in UTF-8
    col.WINDOWS: pa.int32(),
    TOKENS: pa.int64(),  # BOS and EOS included; null where the store does not have it
    col.FATE: pa.string(),
    col.STAGE: pa.string(),
    col.REASON: pa.string(),
    DETAIL: pa.string(),  # of a decision: its line and key; of an error: what it says
    DOCUMENT: pa.int64(),  # its number among those of the shard's tokens; null where the store does not have it
    col.SHARD: pa.string(),  # of tokens
}
OF_SHARD = (col.DOC_ID, col.SOURCE, col.URL, col.LANGUAGE)  # that a shard's rows know
SCHEMA = pa.schema(list(COLUMNS.items()))
WORK_SCHEMA = pa.schema([f for f in SCHEMA if f.name not in (col.SHARD, col.STAGE)])


def part_name(index: int) -> str:
    """``ledger/part-00000.parquet``: the documents of the shard with this number."""
    return f"ledger/part-{index:05d}.parquet"


def finished(documents: pa.Table, contents: pa.ChunkedArray, shard: str) -> pa.Table:
    """Rows of the ledger. documents: as the worker that encoded them left them; contents: the run's content_id."""
    rows = documents.num_rows
    kept = pc.equal(documents.column(col.FATE), col.KEPT)
    columns = {name: documents.column(name) for name in documents.schema.names}
    columns[col.CONTENT_ID] = contents
    columns[col.STAGE] = pc.if_else(kept, pa.scalar(None, pa.string()), TOKENIZE)
    columns[col.SHARD] = pa.repeat(pa.scalar(shard), rows)
    return pa.table({field.name: columns[field.name] for field in SCHEMA}, schema=SCHEMA)


def write_part(store: Store, name: str, table: pa.Table, attempt: str) -> dict[str, Any]:
    """Publish it; its rows, bytes and SHA-256."""
    draft = store.draft(name, attempt)
    pq.write_table(table, draft, compression="zstd", row_group_size=ROWS, store_schema=True)
    with draft.open("rb+") as file:
        os.fsync(file.fileno())
    facts = {"rows": table.num_rows, "bytes": draft.stat().st_size, "sha256": sha256_of(draft)}
    store.publish(draft, name, facts)
    return facts
