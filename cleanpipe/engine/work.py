"""What workers do: passes over units, shards, ledger parts. Each publishes its outputs and returns a small dict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.engine.base import Context, Progress, Result, Task
from cleanpipe.engine.commit import Units
from cleanpipe.engine.opened import opened
from cleanpipe.engine.publish import write_ledger_unit, write_shard_unit
from cleanpipe.engine.read import read_unit, unreadable
from cleanpipe.engine.rows import final_rows, row_sizes, waiting_columns
from cleanpipe.flow import Flow, Flowed
from cleanpipe.io.arrow import RowFile, TableWriter
from cleanpipe.quarantine import QUARANTINE_SCHEMA, failure_rows
from cleanpipe.tally import Tally, add


class UnitFiles:
    """The files that one pass makes of one unit, under one attempt's names."""

    def __init__(self, context: Context, index: int, key: str) -> None:
        have = opened(context.recipe)
        self.last = index == len(have.passes) - 1
        self.units = Units(context.work, f"pass{index}")
        home, attempt = self.units.home(key), self.units.attempt()
        rows = have.shard if self.last else pa.schema(list(waiting_columns(have.passes, index).items()))
        schemas = {
            "rows": rows,
            "fates": have.ledger if index == 0 else _fates_schema(have.scores),
            "quarantine": QUARANTINE_SCHEMA,
        }
        if self.last:
            schemas["sizes"] = pa.schema([("rows", pa.int64()), ("bytes", pa.int64())])
        self.files = {role: TableWriter(home / f"{attempt}-{role}.arrow", schema) for role, schema in schemas.items()}
        self.shard = have.shard

    def take(self, flowed: Flowed, entered: pa.RecordBatch) -> pa.Table:
        """Write what came through; the fates of what entered, with the number of rows that each became."""
        self.files["quarantine"].write(failure_rows(flowed, entered))
        out = final_rows(flowed.rows, self.shard) if self.last else flowed.rows
        self.files["rows"].write(out)
        if self.last:
            self.files["sizes"].write(row_sizes(out, flowed.origin, self.shard))
        counts = np.bincount(flowed.origin, minlength=entered.num_rows)
        windows = pa.array(counts, pa.int32(), mask=(counts == 0) | (not self.last))
        return pa.Table.from_batches([flowed.fates]).append_column(col.WINDOWS, windows)

    def close(self) -> dict[str, dict[str, Any]]:
        """Role → name and size of each file, all durable."""
        return {role: writer.close() for role, writer in self.files.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for writer in self.files.values():
            writer.abandon()  # no-op once closed


def run_pass(context: Context, task: Task, progress: Progress) -> Result:
    """One pass over one unit: rows that came through, a fate for each that entered, what was quarantined."""
    index = int(task.args["pass"])
    flow = opened(context.recipe).flow(index)
    with UnitFiles(context, index, task.key) as files:
        return _run_pass(context, task, flow, files, progress)


def _run_pass(context: Context, task: Task, flow: Flow, files: UnitFiles, progress: Progress) -> Result:
    index, unit = int(task.args["pass"]), int(task.args["unit"])
    tally: Tally = {}
    before, cost = dict(flow.cost), dict[str, float]()

    def take(flowed: Flowed, entered: pa.RecordBatch) -> pa.Table:
        add(tally, flowed.tally)
        return files.take(flowed, entered)

    facts: Mapping[str, Any] = {}
    if index == 0:
        sinks = files.files["fates"], files.files["quarantine"]
        facts = read_unit(context, context.inputs[unit], flow, take, *sinks, tally, progress, cost)
    else:
        for batch in _waiting(context, task):
            files.files["fates"].write(take(flow.run(batch), batch))
    cost |= {name: seconds - before[name] for name, seconds in flow.cost.items()}
    counts = {"rows": files.files["rows"].rows, "entered": files.files["fates"].rows}
    result: Result = {"files": files.close(), "tally": tally, "facts": facts, "stage_seconds": cost, **counts}
    files.units.commit(task.key, result)
    return result


def failed_unit(context: Context, unit: int, key: str, message: str) -> Result:
    """Outputs of an input that could not be read at all: no documents, one damaged range. They are not committed, so
    that the next start tries the input again.
    """
    source = context.inputs[unit]
    files = UnitFiles(context, 0, key)
    tally: Tally = {}
    facts = unreadable(source, message, files.files["fates"], files.files["quarantine"], tally)
    counts = {"rows": 0, "entered": 1}
    return {"files": files.close(), "tally": tally, "facts": facts, "stage_seconds": {}, **counts}


def _waiting(context: Context, task: Task) -> Iterator[pa.RecordBatch]:
    """Rows that wait before this pass, with what the meeting says of each."""
    source = RowFile(context.work / task.args["rows"])
    answers = RowFile(context.work / task.args["answers"]).table()
    at = 0
    for batch in source.batches():
        said = answers.slice(at, batch.num_rows).combine_chunks().to_batches()
        at += batch.num_rows
        columns = {n: said[0].column(n) for n in answers.schema.names} if said else {}
        yield col.with_columns(batch, columns)


def _fates_schema(scores: Mapping[str, pa.DataType]) -> pa.Schema:
    return pa.schema(
        [
            (col.FATE, pa.string()),
            (col.STAGE, pa.string()),
            (col.REASON, pa.string()),
            *scores.items(),
            (col.WINDOWS, pa.int32()),
        ]
    )


WORK: Mapping[str, Callable[[Context, Task, Progress], Result]] = {
    "pass": run_pass,
    "shard": lambda context, task, _: write_shard_unit(context, task),
    "ledger": lambda context, task, _: write_ledger_unit(context, task),
}
