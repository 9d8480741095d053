"""``--log FILE``: what a run does, as one JSON object a line, for programs that collect logs."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from cleanpipe.errors import CleanpipeError, ConfigError
from cleanpipe.observer import Observer
from cleanpipe_jobs.figures import READING
from cleanpipe_jobs.output import scrubbed, show, warn

TASK = (  # what a task's line says beside its name, in this order
    "seconds",
    "cpu_seconds",
    "documents",
    "rows",
    "bytes",
    "tokens",
    "quarantined",
    "tries",
    "host",
    "peak_memory_bytes",
)
SUMS = ("documents", "rows", "bytes", "quarantined")  # of the passes' tasks, in the last line


class TaskLog(Observer):
    """Lines with ``time`` (UTC), ``run`` and ``event``: run, phase, task, warning, end. They are added to a file.

    Args:
        target: path of the file; "-" is standard output.

    Raises:
        ConfigError: the file cannot be opened. One that cannot be written later costs its lines, not the run.
    """

    def __init__(self, target: str) -> None:
        self.run, self.name = secrets.token_hex(4), ""  # the driver knows a better name
        self.began, self.tasks, self.warnings = time.monotonic(), 0, 0
        self.sums = dict.fromkeys(SUMS, 0)
        self.target, self._file = target, -1
        if target != "-":
            try:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
                self._file = os.open(target, flags, 0o644)
            except OSError as error:
                raise ConfigError(f"--log {target} cannot be written: {error.strerror or error}") from error

    def _write(self, event: str, **facts: Any) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps(
            {"time": now, "run": self.run, "event": event, **facts}, default=str
        )  # ASCII: splits at \n only
        if self.target == "-":
            show(line)
        elif self._file >= 0:
            try:
                os.write(self._file, line.encode() + b"\n")  # whole: several runs may write here
            except OSError as error:
                self._shut()
                warn(f"warning: --log {self.target} ends here: {error.strerror or error}")

    def _shut(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1

    def begun(self, run_id: str, facts: Mapping[str, Any]) -> None:
        """The first line."""
        self.run = run_id or self.run
        self._write("run", **{k: scrubbed(v) if isinstance(v, str) else v for k, v in facts.items()})

    def started(self, units: int, size: int, resumed: int, reused: int) -> None:
        """What there is to do."""
        self._write("start", units=units, bytes=size, resumed=resumed, reused=reused)

    def phase(self, name: str, tasks: int) -> None:
        """A phase."""
        self.name = name
        self._write("phase", phase=name, tasks=tasks)

    def result(self, kind: str, label: str, key: str, facts: Mapping[str, Any]) -> None:
        """One task."""
        self.tasks += 1
        facts = {**facts, "seconds": facts.get("wall_seconds")}
        if kind in ("pass", "encode"):
            for name in SUMS:
                if name in ("quarantined", "rows") or self.name in READING:  # a document enters the later passes again
                    self.sums[name] += int(facts.get(name, 0))
        said = {name: _short(facts[name]) for name in TASK if facts.get(name) is not None}
        self._write("task", phase=self.name, kind=kind, unit=scrubbed(label), key=key, **said)

    def warn(self, message: str) -> None:
        """A warning."""
        self.warnings += 1
        self._write("warning", message=scrubbed(message))

    def close(self, error: BaseException | None = None) -> None:
        """The last line."""
        status = "done" if error is None else "failed"
        facts: dict[str, Any] = {}
        if isinstance(error, CleanpipeError):
            status = "stopped" if error.exit_code == 3 else "failed"
            facts = {"exit_status": error.exit_code, "error": scrubbed(str(error))}
        elif error is not None:
            status = "failed" if isinstance(error, Exception) else "stopped"  # a signal, Ctrl-C
            facts = {"error": scrubbed(f"{type(error).__name__}: {error}".rstrip(": "))}
        seconds = round(time.monotonic() - self.began, 3)
        self._write(
            "end", status=status, seconds=seconds, tasks=self.tasks, **self.sums, warnings=self.warnings, **facts
        )
        self._shut()


def _short(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value
