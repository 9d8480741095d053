"""A job that is going on: what its phases share, and how they hand tasks to the engine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cleanpipe.engine.base import Context, Engine, Result, Task
from cleanpipe.engine.going import CHECK
from cleanpipe.errors import ShardError
from cleanpipe.io.store import Hold, Store
from cleanpipe.observer import Observer
from cleanpipe.tokens.audit.limits import OURS, Limits
from cleanpipe.tokens.making.source import Source


@dataclass(frozen=True, slots=True)
class Settings:
    """What a job was asked for. tokenizer: ``cleanpipe.tokens.tokenizer.Tokenizer``. identity: what decides the bytes.
    said: decisions that leave documents out (decided.quarantines); decisions: number and digest of all lines; limits:
    what the audit judges by.
    """

    tokenizer: Any
    identity: dict[str, Any]
    per_window: bool = False
    backend: str = "auto"
    device: str = "cpu"
    splitters: int | None = None
    said: tuple[dict[str, Any], ...] = ()
    decisions: dict[str, Any] = field(default_factory=dict)
    limits: Limits = OURS

    @property
    def digest(self) -> str:
        """Of the tokenizer's fingerprint."""
        return str(self.tokenizer.fingerprint["digest"])


class Job:
    """Also what it cost."""

    def __init__(
        self, context: Context, settings: Settings, source: Source, engine: Engine, observer: Observer, hold: Hold
    ) -> None:
        self.context, self.settings, self.source = context, settings, source
        self.engine, self.observer, self.hold = engine, observer, hold
        self.started, self.cpu = time.time(), time.process_time()
        self._checked = time.monotonic()
        self.work = dict.fromkeys(("task_seconds", "encode_seconds", "encoded_bytes", "peak_memory_bytes"), 0.0)
        self.tries = self.resumed = self.taken = 0

    @property
    def store(self) -> Store:
        """Of the tokens."""
        return self.context.store

    def still_ours(self) -> None:
        """Raises StopError where another process has taken the folder meanwhile."""
        if time.monotonic() - self._checked > CHECK:
            self.hold.check()
            self._checked = time.monotonic()

    def run(self, phase: str, tasks: Iterator[Task], count: int) -> Iterator[tuple[Task, Result | ShardError]]:
        """The tasks' results as they come; what they cost is added up and told."""
        self.still_ours()
        self.observer.phase(phase, count)
        for task, result in self.engine.run(tasks, lambda t, n: self.observer.progress(t.label, n)):
            self.still_ours()
            if isinstance(result, ShardError):
                self.observer.finished(task.label, 0, 0)
                yield task, result
                continue
            self.work["task_seconds"] += result.get("cpu_seconds", 0.0)
            if phase == "encode":
                self.work["encode_seconds"] += result.get("cpu_seconds", 0.0)
                self.work["encoded_bytes"] += result["counts"]["text_bytes"]
            self.work["peak_memory_bytes"] = max(self.work["peak_memory_bytes"], result.get("peak_memory_bytes", 0))
            self.tries += max(0, int(result.get("tries", 1)) - 1)
            self.observer.finished(task.label, int(result.get("entered", 0)), int(result.get("rows", 0)))
            facts = {"documents": int(result.get("entered", 0)), "rows": int(result.get("rows", 0))}
            if "tokens" in result:
                facts |= {"bytes": task.weight, "tokens": result["tokens"], "quarantined": result.get("aside", 0)}
            told = ("cpu_seconds", "wall_seconds", "peak_memory_bytes", "host", "tries")
            facts |= {name: result[name] for name in told if name in result}
            self.observer.result(phase, task.label, task.key, facts)
            yield task, result
