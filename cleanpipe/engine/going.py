"""A run that is going on: what all its phases share, and how they hand tasks to the engine."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from cleanpipe.engine.base import Context, Engine, Result, Task
from cleanpipe.engine.opened import Opened, opened, opening_seconds
from cleanpipe.engine.plan import UnitPlan
from cleanpipe.errors import ShardError
from cleanpipe.io.inputs import Input
from cleanpipe.io.store import Hold, Store
from cleanpipe.observer import Observer
from cleanpipe.tally import add

Limits = Mapping[str, Mapping[str, tuple[str, str, str]]]  # source → doc_id in hex → error, message, stage


CHECK = 3.0  # seconds between two looks whether the run folder is still ours


class Going:
    """identity: what decides the run's bytes (run.py). limits: documents known to pass a guard. reuse: another run's
    folder whose units are taken over.
    """

    def __init__(
        self,
        context: Context,
        identity: Mapping[str, Any],
        inputs: tuple[Input, ...],
        engine: Engine,
        observer: Observer,
        hold: Hold,
        *,
        limits: Limits,
        reuse: Store | None,
        keep_work: bool,
    ) -> None:
        self.context, self.identity, self.engine, self.observer, self.hold = context, identity, engine, observer, hold
        self.limits, self.reuse, self.keep_work = limits, reuse, keep_work
        self.store = context.store
        self.have: Opened = opened(context.recipe)
        self.plan = UnitPlan(inputs, context.recipe.read.unit_bytes)
        self.started, self.cpu, self.opening = time.time(), time.process_time(), opening_seconds()
        self._checked = time.monotonic()
        self.failed: dict[str, str] = {}
        self.resumed = self.reused = self.tries = 0
        self.cost: dict[str, float] = {}
        self.work: dict[str, float] = {"task_seconds": 0.0, "opening_seconds": 0.0, "peak_memory_bytes": 0.0}

    def still_ours(self) -> None:
        """The folder is still held by this process: a driver that was frozen while another took over must not go on.

        Raises:
            StopError: it is not.
        """
        if time.monotonic() - self._checked > CHECK:
            self.hold.check()
            self._checked = time.monotonic()

    def code_of(self, unit: int) -> str:
        """The code version that reads a unit: where a run is completed after a fix, units without fault keep theirs."""
        kept = self.identity.get("kept_code")
        return str(kept if kept and unit not in self.identity["again"] else self.identity["code"])

    def run(self, phase: str, tasks: Iterator[Task], count: int) -> Iterator[tuple[Task, Result | ShardError]]:
        """The tasks' results as they come; what they cost is added up and told."""
        self.still_ours()
        self.observer.phase(phase, count)
        for task, result in self.engine.run(tasks, lambda t, n: self.observer.progress(t.label, n)):
            self.still_ours()
            if not isinstance(result, ShardError):
                self.work["task_seconds"] += result.get("cpu_seconds", 0.0)
                self.work["opening_seconds"] += result.get("opening_seconds", 0.0)
                self.work["peak_memory_bytes"] = max(self.work["peak_memory_bytes"], result.get("peak_memory_bytes", 0))
                self.tries += max(0, int(result.get("tries", 1)) - 1)
                add(self.cost, result.get("stage_seconds", {}))
                entered, rows = int(result.get("entered", 0)), int(result.get("rows", 0))
                self.observer.finished(task.label, entered, rows)
                size = result["facts"].get("file_bytes", 0) if "facts" in result else 0
                facts = {"documents": entered, "rows": rows, "bytes": size, "quarantined": result.get("aside", 0)}
                told = ("cpu_seconds", "wall_seconds", "peak_memory_bytes", "stage_seconds", "host", "tries")
                facts |= {name: result[name] for name in told if name in result}
                self.observer.result(task.kind, task.label, task.key, facts)
            else:
                self.observer.finished(task.label, 0, 0)  # without a ``result`` after it: the unit failed
            yield task, result
