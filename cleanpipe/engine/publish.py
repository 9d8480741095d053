"""The last tasks of a run: shards by the packing plan, and each unit's final ledger and quarantine parts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.audit.facts import ledger_tally
from cleanpipe.engine.base import Context, Result, Task
from cleanpipe.engine.commit import Units
from cleanpipe.engine.opened import opened
from cleanpipe.io.arrow import RowFile, rebatch, sha256_of, write_shard
from cleanpipe.io.store import publish, temporary
from cleanpipe.quarantine import QUARANTINE_SCHEMA

LEDGER_ROWS = 1 << 16  # rows of a Parquet row group


def write_shard_unit(context: Context, task: Task) -> Result:
    """One shard of the plan: args name, batch_rows, segments [[rows file, first row, last row], …]."""
    have = opened(context.recipe)
    units = Units(context.work, "shard")
    target = Path(context.out) / "data" / task.args["name"]
    beside = temporary(target, units.attempt())
    chars = 0

    def slices() -> Iterator[pa.RecordBatch]:
        nonlocal chars
        for path, first, last in task.args["segments"]:
            for rows in RowFile(context.work / path).slice(first, last):
                chars += int(pc.sum(rows.column(col.LENGTH)).as_py()) - int(pc.sum(rows.column(col.OVERLAP)).as_py())
                yield rows

    facts = write_shard(beside, have.shard, rebatch(slices(), have.shard, int(task.args["batch_rows"])))
    facts["chars"] = chars  # of the documents: what windows repeat is not counted
    publish(beside, target)
    result: Result = {"files": {}, "published": {f"data/{target.name}": facts}}
    units.commit(task.key, result)
    return result


def write_ledger_unit(context: Context, task: Task) -> Result:
    """One unit's ledger and quarantine part. args: unit, part, fates [first pass's file, later ones …],
    quarantine [files], shards [[documents up to here, shard name], …].
    """
    have = opened(context.recipe)
    units = Units(context.work, "ledger")
    work = context.work
    table = RowFile(work / task.args["fates"][0]).table()
    for later in task.args["fates"][1:]:
        table = ledger.merge(table, RowFile(work / later).table())
    table = ledger.finish(with_shards(table, task.args["shards"]))
    unit_part = int(task.args["part"])
    name = f"part-{unit_part:05d}.parquet"
    published = {f"ledger/{name}": _parquet(Path(context.out) / "ledger" / name, table, units.attempt())}
    set_aside = ledger.concat((RowFile(work / q).table() for q in task.args["quarantine"]), QUARANTINE_SCHEMA)
    if set_aside.num_rows or unit_part == 0:  # the first is always there, so that queries find a schema
        published[f"quarantine/{name}"] = _parquet(Path(context.out) / "quarantine" / name, set_aside, units.attempt())
    options = context.recipe.audit
    tally, samples = ledger_tally(table, have.scores, seed=options.seed, samples=options.samples)
    result: Result = {
        "files": {},
        "published": published,
        "tally": tally,
        "samples": samples,
        "quarantined": set_aside.num_rows,
    }
    units.commit(task.key, result)
    return result


def with_shards(table: pa.Table, shards: list[list[Any]]) -> pa.Table:
    """The table with the shard's name on each kept row: documents are counted in order over the kept ones."""
    kept = np.flatnonzero(pc.is_null(table.column(col.FATE)).to_numpy())
    names = np.full(table.num_rows, None, dtype=object)
    if len(kept):
        ends = np.array([end for end, _ in shards])
        which = np.searchsorted(ends, np.arange(len(kept)), side="right")
        names[kept] = np.array([n for _, n in shards], dtype=object)[which]
    at = table.schema.get_field_index(col.SHARD)
    return table.set_column(at, table.schema.field(at), pa.array(names, pa.string()))


def _parquet(path: Path, table: pa.Table, attempt: str) -> dict[str, Any]:
    beside = temporary(path, attempt)
    pq.write_table(table, beside, compression="zstd", row_group_size=LEDGER_ROWS, store_schema=True)
    with beside.open("rb+") as file:
        os.fsync(file.fileno())
    facts = {"rows": table.num_rows, "bytes": beside.stat().st_size, "sha256": sha256_of(beside)}
    publish(beside, path)
    return facts
