"""The first pass over one input: archive → records → documents → the flow, with a ledger row for everything read."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.builtin import READ
from cleanpipe.engine.announce import Announced
from cleanpipe.engine.base import Context, Task, Watch
from cleanpipe.engine.treat import Treatment
from cleanpipe.io.archive import read_archive
from cleanpipe.io.arrow import TableWriter
from cleanpipe.io.documents import DAMAGED_RANGE, DocumentBatches, FailedRecord, ReadBatch, doc_id
from cleanpipe.io.inputs import Input
from cleanpipe.io.record import ReadLimits, Span
from cleanpipe.quarantine import UNREADABLE, failed_rows, ledger_columns, order
from cleanpipe.tally import Tally, add


def read_unit(
    context: Context,
    task: Task,
    treat: Treatment,
    fates: TableWriter,
    quarantine: TableWriter,
    tally: Tally,
    watch: Watch,
    cost: dict[str, float],
) -> dict[str, Any]:
    """Read, judge and record one unit; the reader's facts. args: source, span, and ``reader`` where a try asks for a
    careful one.
    """
    source, span = Input(**task.args["source"]), Span(*task.args["span"]) if task.args.get("span") else None
    options = context.recipe.read
    limits = ReadLimits(max_body=options.max_body, expansion=options.expansion)
    archive = read_archive(
        source.uri,
        reader=task.args.get("reader", options.reader),
        limits=limits,
        progress=watch.consumed,
        stamp=source.stamp,
        size=source.size,
        span=span,
        storage=context.recipe.storage,
    )
    began = time.process_time()
    documents = DocumentBatches()
    aside: list[FailedRecord] = []  # the first, to name it, and how many
    lost = 0
    announced = Announced(archive, task, watch)
    sizes = {"max_rows": options.batch_rows, "max_bytes": options.batch_bytes}
    for part in documents.rows(announced, source.source, limits, **sizes, before=announced.before):
        cost[READ] = cost.get(READ, 0.0) + time.process_time() - began
        _count(tally, part)
        rows = [_ledger_rows(entered, verdicts, fates.schema) for entered, verdicts in treat.pieces(part.batch)]
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
    owns = facts.first >= 0
    reads: dict[str, Any] = {"files": int(span is None or span.begin == 0), "file_bytes": facts.file_bytes}
    reads |= {"block_bytes": facts.block_bytes, "records": records, "readers": {facts.reader: 1} if owns else {}}
    add(tally, {READ: {**reads, "reread": {facts.reread: 1} if facts.reread else {}}})
    return {
        "sha256": facts.sha256,
        "file_bytes": facts.file_bytes,
        "records": records,
        "reader": facts.reader,
        "reread": facts.reread,
        "first": facts.first,
        "next": facts.next,
        "inflated": facts.inflated,
        "relative": facts.relative,
        "aside": f"{lost:,} set aside, the first at {aside[0].record_offset:,}: {aside[0].message}" if aside else "",
    }


def _ledger_rows(entered: pa.RecordBatch, verdicts: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = {n: entered.column(n) for n in ledger.IDENTITY}
    columns |= {n: verdicts.column(n) for n in verdicts.schema.names}
    return ledger.conform(columns, entered.num_rows, schema)


def unreadable(
    source: Input, first: int, stop: int, message: str, fates: TableWriter, quarantine: TableWriter, tally: Tally
) -> dict[str, Any]:
    """The record of a unit that could not be read at all: one damaged range of all its bytes."""
    identity, size = doc_id(source.source, first, None), max(stop - first, 0)
    lost = FailedRecord(identity, source.source, first, size, "file", DAMAGED_RANGE, UNREADABLE, message)
    fates.write(ledger.conform(ledger_columns([lost], ledger.IDENTITY, READ), 1, fates.schema))
    quarantine.write(failed_rows([lost], READ))
    _count(tally, ReadBatch(pa.RecordBatch.from_pydict({}), [lost]))
    reads: dict[str, Any] = {"files": int(first == 0), "file_bytes": size, "block_bytes": 0, "records": {}}
    add(tally, {READ: {**reads, "readers": {"none": 1}, "reread": {}}})
    facts = {"sha256": "", "file_bytes": size, "records": {}, "reader": "none", "reread": message}
    return {**facts, "first": first, "next": stop, "inflated": 0, "relative": False}


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
