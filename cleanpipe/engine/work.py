"""What workers do: passes over units, shards, ledger parts. Each publishes its outputs and returns a small dict."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.engine.base import Context, Result, Task, Watch
from cleanpipe.engine.commit import Units, row_file
from cleanpipe.engine.opened import opened
from cleanpipe.engine.plan import Unit
from cleanpipe.engine.publish import write_ledger_unit, write_shard_unit
from cleanpipe.engine.read import read_unit, unreadable
from cleanpipe.engine.rows import final_rows, row_sizes, waiting_columns
from cleanpipe.engine.treat import Treatment
from cleanpipe.flow import Flowed
from cleanpipe.io.arrow import TableWriter
from cleanpipe.pipeline import Pass
from cleanpipe.quarantine import QUARANTINE_SCHEMA, failure_rows
from cleanpipe.tally import Tally, add


class UnitFiles:
    """The files that one pass makes of one unit, under one attempt's names."""

    def __init__(self, context: Context, index: int, key: str) -> None:
        have = opened(context.recipe)
        self.last = index == len(have.passes) - 1
        self.units, self.key, self.attempt = Units(context.store, f"pass{index}"), key, uuid.uuid4().hex[:12]
        rows = have.shard if self.last else pa.schema(list(waiting_columns(have.passes, index).items()))
        schemas = {
            "rows": rows,
            "fates": have.ledger if index == 0 else _fates_schema(have.scores, have.passes[index]),
            "quarantine": QUARANTINE_SCHEMA,
        }
        if self.last:
            schemas["sizes"] = pa.schema([("rows", pa.int64()), ("bytes", pa.int64())])
        store = context.store
        self.files = {
            role: TableWriter(store.draft(self._name(role), self.attempt), schema) for role, schema in schemas.items()
        }
        self.shard = have.shard

    def _name(self, role: str) -> str:
        return self.units.name(self.key, self.attempt, role)

    def take(self, flowed: Flowed, entered: pa.RecordBatch) -> pa.Table:
        """Write what came through; the fates of what entered, with the number of rows that each became."""
        self.files["quarantine"].write(failure_rows(flowed, entered))
        out = final_rows(flowed.rows, self.shard) if self.last else flowed.rows
        self.files["rows"].write(out)
        if self.last:
            self.files["sizes"].write(row_sizes(out, flowed.origin, self.shard))
        counts = np.bincount(flowed.origin, minlength=entered.num_rows)
        windows = pa.array(counts, pa.int32(), mask=(counts == 0) | (not self.last))
        return ledger.verdicts(flowed.fates, windows)

    def publish(self) -> dict[str, dict[str, Any]]:
        """Role → File of each, all durable."""
        out = {}
        for role, writer in self.files.items():
            facts = {**writer.close(), "name": self._name(role)}
            self.units.store.publish(writer.path, facts["name"], facts)
            out[role] = facts
        return out

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for writer in self.files.values():
            writer.abandon()  # no-op once closed


def run_pass(context: Context, task: Task, watch: Watch) -> Result:
    """One pass over one unit: rows that came through, a fate for each that entered, what was quarantined.

    args: pass, unit; for the first source, span; for later ones rows, answers (Files).
    """
    index = int(task.args["pass"])
    flow = opened(context.recipe).flow(index)
    before, cost = dict(flow.cost), dict[str, float]()
    tally: Tally = {}
    facts: Mapping[str, Any] = {}
    with UnitFiles(context, index, task.key) as files:

        def take(flowed: Flowed, entered: pa.RecordBatch) -> pa.Table:
            add(tally, flowed.tally)
            return files.take(flowed, entered)

        treat = Treatment(flow, take, watch, task)
        if index == 0:
            sinks = files.files["fates"], files.files["quarantine"]
            facts = read_unit(context, task, treat, *sinks, tally, watch, cost)
        else:
            for batch in _waiting(context, task):
                for verdicts in treat(batch):
                    sink = files.files["fates"]
                    sink.write(ledger.conform(_columns(verdicts), verdicts.num_rows, sink.schema))
        cost |= {name: seconds - before[name] for name, seconds in flow.cost.items()}
        counts = {
            "rows": files.files["rows"].rows,
            "entered": files.files["fates"].rows,
            "aside": files.files["quarantine"].rows,
            "unit": int(task.args["unit"]),
        }
        result: Result = {"files": files.publish(), "tally": tally, "facts": facts, "stage_seconds": cost, **counts}
        return files.units.commit(task.key, result)


def failed_unit(context: Context, unit: Unit, key: str, message: str, first: int, stop: int) -> Result:
    """Outputs of a unit that could not be read at all: no documents, one damaged range from ``first`` to ``stop``.
    They are not committed, so that the next start tries the input again.
    """
    with UnitFiles(context, 0, key) as files:
        tally: Tally = {}
        sinks = files.files["fates"], files.files["quarantine"]
        facts = unreadable(unit.source, first, stop, message, *sinks, tally)
        counts = {"rows": 0, "entered": 1, "aside": 1, "unit": unit.number}
        return {"files": files.publish(), "tally": tally, "facts": facts, "stage_seconds": {}, **counts}


def _waiting(context: Context, task: Task) -> Iterator[pa.RecordBatch]:
    """Rows that wait before this pass, with what the meeting says of each."""
    store = context.store
    with row_file(store, task.args["rows"]) as source, row_file(store, task.args["answers"]) as said:
        answers = said.table()
        at = 0
        for batch in source.batches():
            part = answers.slice(at, batch.num_rows).combine_chunks().to_batches()
            at += batch.num_rows
            columns = {n: part[0].column(n) for n in answers.schema.names} if part else {}
            yield col.with_columns(batch, columns)


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: table.column(name) for name in table.schema.names}


def _fates_schema(scores: Mapping[str, pa.DataType], later: Pass) -> pa.Schema:
    """Of a later pass; where it changes texts, with what the ledger says of each text."""
    changed = any(col.CONTENT_ID in stage.writes for stage in later.stages)
    return pa.schema(
        [
            (col.FATE, pa.string()),
            (col.STAGE, pa.string()),
            (col.REASON, pa.string()),
            *scores.items(),
            (col.WINDOWS, pa.int32()),
            *([(col.CHARS_OUT, pa.int64()), (col.CONTENT_ID, col.ID)] if changed else []),
        ]
    )


WORK: Mapping[str, Callable[[Context, Task, Watch], Result]] = {
    "pass": run_pass,
    "shard": write_shard_unit,
    "ledger": lambda context, task, _: write_ledger_unit(context, task),
}
