"""The last tasks of a run: shards by the packing plan, and each unit's final ledger and quarantine parts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.audit.facts import ledger_tally
from cleanpipe.card.facts import captured
from cleanpipe.engine.base import Context, Result, Task, Watch
from cleanpipe.engine.commit import Units, row_file
from cleanpipe.engine.opened import opened
from cleanpipe.io.arrow import rebatch, write_shard
from cleanpipe.io.hashing import sha256_of
from cleanpipe.io.store import Store
from cleanpipe.quarantine import QUARANTINE_SCHEMA, limits, may_end_otherwise
from cleanpipe.queries.index import index_name, index_of

LEDGER_ROWS = 1 << 16  # rows of a Parquet row group


def write_shard_unit(context: Context, task: Task, watch: Watch) -> Result:
    """One shard of the plan. args: name, batch_rows, segments [[rows File, first row, last row], …]."""
    have, store = opened(context.recipe), context.store
    units = Units(store, "shard")
    name = f"data/{task.args['name']}"
    draft = store.draft(name, units.attempt())
    chars = 0

    def slices() -> Iterator[pa.RecordBatch]:
        nonlocal chars
        for at, (file, first, last) in enumerate(task.args["segments"]):
            watch.at(at, 0)
            with row_file(store, file) as rows_of:
                for rows in rows_of.slice(first, last):
                    chars += int(pc.sum(rows.column(col.LENGTH)).as_py()) - int(
                        pc.sum(rows.column(col.OVERLAP)).as_py()
                    )
                    yield rows

    facts = write_shard(draft, have.shard, rebatch(slices(), have.shard, int(task.args["batch_rows"])))
    facts["chars"] = chars  # of the documents: what windows repeat is not counted
    store.publish(draft, name, facts)
    return units.commit(task.key, {"files": {}, "published": {name: facts}})


def write_ledger_unit(context: Context, task: Task) -> Result:
    """One unit's ledger part with its index, and quarantine part. args: part, fates [File of the first pass, of later
    ones …], quarantine [Files], shards [[documents up to here, shard name], …].
    """
    have, store = opened(context.recipe), context.store
    units = Units(store, "ledger")
    with ExitStack() as stack:
        parts = [stack.enter_context(row_file(store, f)).table() for f in task.args["fates"]]
        table = parts[0]
        for later in parts[1:]:
            table = ledger.merge(table, later)
        table = ledger.finish(with_shards(table, task.args["shards"]))
        aside = (stack.enter_context(row_file(store, f)).table() for f in task.args["quarantine"])
        set_aside = ledger.concat(aside, QUARANTINE_SCHEMA)
        part = int(task.args["part"])
        name = f"part-{part:05d}.parquet"
        published = {f"ledger/{name}": _parquet(store, f"ledger/{name}", table, units.attempt())}
        published[index_name(part)] = store.write(index_name(part), index_of(table))
        if set_aside.num_rows or part == 0:  # the first is always there, so that queries find a schema
            published[f"quarantine/{name}"] = _parquet(store, f"quarantine/{name}", set_aside, units.attempt())
        options = context.recipe.audit
        tally, samples = ledger_tally(table, have.scores, seed=options.seed, samples=options.samples)
        tally["captured"] = captured(table)
        result: Result = {
            "files": {},
            "published": published,
            "tally": tally,
            "samples": samples,
            "quarantined": set_aside.num_rows,
            "again": may_end_otherwise(set_aside).num_rows,
            "limits": limits(set_aside),
        }
    return units.commit(task.key, result)


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


def _parquet(store: Store, name: str, table: pa.Table, attempt: str) -> dict[str, Any]:
    draft = store.draft(name, attempt)
    pq.write_table(table, draft, compression="zstd", row_group_size=LEDGER_ROWS, store_schema=True)
    with draft.open("rb+") as file:
        os.fsync(file.fileno())
    facts = {"rows": table.num_rows, "bytes": draft.stat().st_size, "sha256": sha256_of(draft)}
    store.publish(draft, name, facts)
    return facts
