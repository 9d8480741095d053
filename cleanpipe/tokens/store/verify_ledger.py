"""The token ledger against the store: for each shard its documents that became tokens, in order, and none else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe.tokens.layout import DOC_TOKENS, DOCUMENT
from cleanpipe.tokens.making.ledger import TOKENS, part_name
from cleanpipe.tokens.store.names import LEDGER, spans_name

_NEEDED = (DOCUMENT, col.DOC_ID, TOKENS, col.FATE, col.REASON)


def ledger_faults(
    folder: Path, info: Mapping[str, Any], named: Mapping[str, Mapping[str, Any]], sound: set[str]
) -> Iterator[tuple[str, str]]:
    """What is wrong with the ledger's parts, one a shard."""
    parts = sorted(n for n in named if n.startswith(LEDGER))
    expected = [part_name(i) for i in range(len(info["shards"]))]
    if parts != expected:
        yield LEDGER, f"{len(parts):,} parts for {len(expected):,} shards"
        return
    for name, entry in zip(parts, info["shards"], strict=True):
        if name in sound:
            yield from ((name, what) for what in _part(folder, name, entry, sound))


def _part(folder: Path, name: str, entry: Mapping[str, Any], sound: set[str]) -> Iterator[str]:
    try:
        table = pq.read_table(folder / name)
        table.validate(full=True)
    except (OSError, pa.ArrowException) as error:
        yield f"cannot be read: {' '.join(str(error).split())}"
        return
    for column in _NEEDED:
        if column not in table.schema.names:
            yield f"has no column {column!r}"
            return
    kept = table.filter(pc.equal(table.column(col.FATE), col.KEPT))
    reasons = pc.sum(pc.is_null(table.column(col.REASON))).as_py() or 0
    if reasons != kept.num_rows:
        yield "rows that were kept have no reason, all others one: not so here"
    if kept.num_rows != entry["documents"]:
        yield f"{kept.num_rows:,} documents kept, {entry['documents']:,} in store.json"
    if (total := pc.sum(kept.column(TOKENS)).as_py() or 0) != entry["tokens"]:
        yield f"{total:,} tokens, {entry['tokens']:,} in store.json"
    spans = spans_name(entry["name"])
    if spans in sound and kept.num_rows == entry["documents"] and kept.num_rows:
        yield from _same(kept, folder / spans, spans)


def _same(kept: pa.Table, path: Path, spans: str) -> Iterator[str]:
    """Document by document: number, id and tokens, in the payload's order."""
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
        if any(n not in table.schema.names for n in (DOCUMENT, DOC_TOKENS, col.DOC_ID)):
            return  # told with the spans
        numbers = table.column(DOCUMENT).to_numpy()
        first = np.flatnonzero(np.diff(numbers, prepend=-1))
        for own, theirs in ((DOCUMENT, DOCUMENT), (col.DOC_ID, col.DOC_ID), (TOKENS, DOC_TOKENS)):
            wanted = table.column(theirs).take(pa.array(first)).combine_chunks()
            if not kept.column(own).combine_chunks().equals(wanted):
                yield f"{own}: not the documents of {spans} in their order"
