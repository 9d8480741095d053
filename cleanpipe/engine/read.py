"""The first pass over one input: archive → records → documents → the flow, with a ledger row for everything read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.builtin import READ
from cleanpipe.engine.base import Context, Progress
from cleanpipe.flow import Flow, Flowed
from cleanpipe.io.archive import read_archive
from cleanpipe.io.arrow import TableWriter
from cleanpipe.io.documents import DAMAGED_RANGE, DocumentBatches, FailedRecord, ReadBatch, doc_id
from cleanpipe.io.inputs import Input
from cleanpipe.io.record import ReadLimits
from cleanpipe.quarantine import failed_rows, ledger_columns, order
from cleanpipe.tally import Tally, add

Take = Callable[[Flowed, pa.RecordBatch], pa.Table]


def read_unit(
    context: Context,
    source: Input,
    flow: Flow,
    take: Take,
    fates: TableWriter,
    quarantine: TableWriter,
    tally: Tally,
    progress: Progress,
    cost: dict[str, float],
) -> dict[str, Any]:
    """Read, judge and record one input. Returns the reader's facts of the file."""
    options = context.recipe.read
    limits = ReadLimits(max_body=options.max_body, expansion=options.expansion)
    archive = read_archive(source.uri, reader=options.reader, limits=limits, progress=progress, stamp=source.stamp)
    began = time.process_time()
    documents = DocumentBatches()
    aside: list[FailedRecord] = []  # the first, to name it, and how many
    lost = 0
    for part in documents.rows(
        archive, source.source, limits, max_rows=options.batch_rows, max_bytes=options.batch_bytes
    ):
        cost[READ] = cost.get(READ, 0.0) + time.process_time() - began
        _count(tally, part)
        rows: list[pa.Table] = []
        if part.batch.num_rows:
            verdicts = take(flow.run(part.batch), part.batch)
            columns = {n: part.batch.column(n) for n in ledger.IDENTITY}
            columns |= {n: verdicts.column(n) for n in verdicts.schema.names}
            if col.LENGTH in columns:
                columns[col.CHARS_OUT] = columns[col.LENGTH]
            rows.append(ledger.conform(columns, part.batch.num_rows, fates.schema))
        if part.failed:
            rows.append(
                ledger.conform(ledger_columns(part.failed, ledger.IDENTITY, READ), len(part.failed), fates.schema)
            )
            quarantine.write(failed_rows(part.failed, READ))
            aside, lost = aside or part.failed[:1], lost + len(part.failed)
        fates.write(order(pa.concat_tables(rows)))
        began = time.process_time()
    cost[READ] = cost.get(READ, 0.0) + time.process_time() - began
    add(tally, {READ: {"facts": dict(documents.notes)}})
    facts = archive.facts
    records = dict(sorted((facts.records or {}).items()))
    reads = {"files": 1, "file_bytes": facts.file_bytes, "block_bytes": facts.block_bytes, "records": records}
    add(tally, {READ: {**reads, "readers": {facts.reader: 1}, "reread": {facts.reread: 1} if facts.reread else {}}})
    return {
        "sha256": facts.sha256,
        "file_bytes": facts.file_bytes,
        "records": records,
        "reader": facts.reader,
        "reread": facts.reread,
        "aside": f"{lost:,} set aside, the first at {aside[0].record_offset:,}: {aside[0].message}" if aside else "",
    }


def unreadable(
    source: Input, message: str, fates: TableWriter, quarantine: TableWriter, tally: Tally
) -> dict[str, Any]:
    """The record of an input that could not be read at all: one damaged range of all its bytes."""
    identity = doc_id(source.source, 0, None)
    size = max(source.size, 0)
    lost = FailedRecord(identity, source.source, 0, size, "file", DAMAGED_RANGE, "unreadable_input", message)
    fates.write(ledger.conform(ledger_columns([lost], ledger.IDENTITY, READ), 1, fates.schema))
    quarantine.write(failed_rows([lost], READ))
    _count(tally, ReadBatch(pa.RecordBatch.from_pydict({}), [lost]))
    add(
        tally,
        {READ: {"files": 1, "file_bytes": size, "block_bytes": 0, "records": {}, "readers": {"none": 1}, "reread": {}}},
    )
    return {"sha256": "", "file_bytes": size, "records": {}, "reader": "none", "reread": message}


def _count(tally: Tally, part: ReadBatch) -> None:
    """The reader as the first stage: what came in, what it could not turn into documents."""
    size = int(part.batch.column(col.BYTES_IN).to_numpy(zero_copy_only=False).sum()) if part.batch.num_rows else 0
    docs, failed = part.batch.num_rows, part.failed
    lost = sum(f.bytes_in or 0 for f in failed)
    reasons: dict[str, int] = {}
    for f in failed:
        reasons[f.reason] = reasons.get(f.reason, 0) + 1
    damage: list[FailedRecord] = [f for f in failed if f.reason == DAMAGED_RANGE]
    counts = {
        "docs_in": docs + len(failed),
        "docs_out": docs,
        "rows_out": docs,
        "bytes_in": size + lost,
        "bytes_out": size,
    }
    facts = {"damaged_ranges": len(damage), "damaged_bytes": sum(f.record_length for f in damage)}
    zero = dict.fromkeys(("chars_in", "chars_dropped", "chars_removed", "chars_added", "chars_out", "skipped"), 0)
    add(tally, {READ: {**counts, **zero, "dropped": reasons, "facts": facts}})
