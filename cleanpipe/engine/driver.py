"""The order of a run: first pass, meeting, later passes, plan, shards, ledger, audit, manifest. It holds no text."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe.audit.facts import merge_samples
from cleanpipe.engine.base import Task
from cleanpipe.engine.commit import Units, row_file, unit_key
from cleanpipe.engine.ending import Ending, Published
from cleanpipe.engine.folder import Finished
from cleanpipe.engine.going import Going
from cleanpipe.engine.journal import Journal
from cleanpipe.engine.machine import check_disk
from cleanpipe.engine.passes import Pass
from cleanpipe.engine.rows import row_cost
from cleanpipe.errors import ShardError, StopError
from cleanpipe.io.arrow import Segment, TableWriter, plan_shards, shard_name

Plan = Sequence[tuple[str, list[Segment]]]  # shard name, the documents in it


class Driver:
    """One run in progress."""

    def __init__(self, going: Going) -> None:
        self.going = going
        pa.array([""])  # the first one imports pandas where that is installed: no part of the work
        check_disk(going.store, going.plan.inputs, going.observer)
        self.meetings: dict[str, dict[str, Any]] = {}
        self.published: dict[str, dict[str, Any]] = {}

    def run(self) -> Finished:
        """All of it; see the module."""
        passes = [Pass(self.going, 0)]
        passes[0].read()
        for index in range(1, len(self.going.have.passes)):
            answers = self._meet(index, passes[-1])
            passes.append(Pass(self.going, index))
            passes[-1].after(passes[-2], answers)
        plan = self._shards(passes[-1])
        ledger = self._ledger(passes, plan)
        return Ending(self.going, passes, self.meetings, self.published).publish([n for n, _ in plan], ledger)

    def _meet(self, index: int, before: Pass) -> list[dict[str, Any]]:
        """Answers of the exchange before pass ``index``: one file a unit, below work/."""
        going = self.going
        exchange = going.have.passes[index].exchange
        assert exchange is not None
        units = Units(going.store, f"meet{index}")
        stages = {s.name for s in going.have.passes[index].stages}
        options = [s for s in going.identity["settings"]["stages"] if s[0] in stages]
        key = unit_key("meet", before.keys, options, going.identity["code"])
        manifest = units.done(key)
        going.observer.phase("meet", 1)
        if manifest is None:
            began, attempt = time.process_time(), units.attempt()
            files = {}
            with ExitStack() as stack:
                parts = [stack.enter_context(row_file(going.store, m["files"]["rows"])) for m in before]
                meeting = exchange.meet(parts)
            for unit, table in enumerate(meeting.tables):
                name = units.name(key, attempt, f"{unit:05d}")
                writer = TableWriter(going.store.draft(name, attempt), pa.schema(list(exchange.writes.items())))
                writer.write(table)
                file = {**writer.close(), "name": name}
                going.store.publish(writer.path, name, file)
                files[str(unit)] = file
            manifest = units.commit(key, {"files": files, "facts": dict(meeting.facts), "name": exchange.name})
            going.cost[exchange.name] = time.process_time() - began
        self.meetings[exchange.name] = manifest["facts"]
        return [manifest["files"][str(unit)] for unit in range(len(before.keys))]

    def _shards(self, last: Pass) -> Plan:
        going, options = self.going, self.going.context.recipe.shards

        def sizes() -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
            for manifest in last:
                with row_file(going.store, manifest["files"]["sizes"]) as file:
                    yield _numbers(file, "rows"), _numbers(file, "bytes")

        planned = plan_shards(sizes(), row_cost(going.have.shard), options.max_bytes, options.batch_rows)
        plan = [(shard_name(i, len(planned)), segments) for i, segments in enumerate(planned)]

        def tasks() -> Iterator[Task]:
            for name, segments in plan:
                where = [[last[s.unit]["files"]["rows"], s.first_row, s.last_row] for s in segments]
                of = [[last.keys[s.unit], s.first_row, s.last_row] for s in segments]
                key = unit_key("shard", name, of, options.batch_rows)
                args = {"name": name, "batch_rows": options.batch_rows, "segments": where}
                yield Task("shard", key, name, sum(s.last_row - s.first_row for s in segments), args)

        for _ in self._publishing(Journal(going.store, "shard"), tasks(), len(plan)):
            pass
        return plan

    def _ledger(self, passes: Sequence[Pass], plan: Plan) -> Published:
        going = self.going
        ends: dict[int, list[list[Any]]] = {}
        for name, segments in plan:
            for s in segments:
                ends.setdefault(s.unit, []).append([s.last, name])

        def tasks() -> Iterator[Task]:
            options = going.identity["settings"]["audit"]
            for unit in range(len(going.plan)):
                of = [p[unit]["files"] for p in passes]
                files = {role: [f[role] for f in of] for role in ("fates", "quarantine")}
                args = {"part": unit, "shards": ends.get(unit, []), **files}
                key = unit_key("ledger", unit, [p.keys[unit] for p in passes], ends.get(unit, []), options)
                planned = going.plan[unit]
                yield Task("ledger", key, planned.label, planned.size, args)

        out = Published()
        journal = Journal(going.store, "ledger")
        keys = []
        for key, result in self._publishing(journal, tasks(), len(going.plan)):
            keys.append(key)
            out.samples = merge_samples(out.samples, result["samples"], going.context.recipe.audit.samples)
            out.quarantined += int(result["quarantined"])
            out.again += int(result["again"])
            out.limits += result["limits"]
        out.tally = journal.tally(keys)
        return out

    def _publishing(
        self, journal: Journal, tasks: Iterator[Task], count: int
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Key and result of tasks that publish into the run folder; those done before, and still there, are not done
        again.
        """
        going = self.going
        there = {n: s for p in ("data/", "ledger/", "index/", "quarantine/") for n, s in going.store.names(p)}
        ready: list[str] = []

        def left() -> Iterator[Task]:
            for task in tasks:
                if task.key in journal:
                    published = journal[task.key]["published"]
                    if all(there.get(n) == f["bytes"] for n, f in published.items()):
                        ready.append(task.key)
                        continue
                    journal.forget(task.key)
                yield task

        for task, result in going.run("publish", left(), count):
            if isinstance(result, ShardError):
                raise StopError(
                    f"could not be published ({result.message}); start the same line again", source=task.label
                )
            journal.add(task.key, result)
            self.published |= result["published"]
            yield task.key, result
        for key in ready:
            result = journal[key]
            self.published |= result["published"]
            yield key, result


def _numbers(file: Any, name: str) -> npt.NDArray[np.int64]:
    return np.array(file.column(name).to_numpy(), dtype=np.int64)
