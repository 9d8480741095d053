"""Worker processes on this machine, one pipe each: the death of one is seen, named, and costs the others nothing."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from cleanpipe.engine.base import Context, Engine, Result, Task
from cleanpipe.errors import ShardError

TRIES = 2  # a task whose worker died is tried once more
PATIENCE = 5.0  # seconds for a worker to end by itself


@dataclass(slots=True)
class _Worker:
    process: subprocess.Popen[bytes]
    pipe: Connection
    task: Task | None = None


class LocalEngine(Engine):
    """``workers`` processes (cleanpipe.engine.worker), kept to the end of the run."""

    name = "local"

    def __init__(self, context: Context, workers: int) -> None:
        self.context, self.count = context, max(1, workers)
        self._workers: list[_Worker] = []

    def _start(self) -> _Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            handle = theirs.fileno()
            command = [sys.executable, "-m", "cleanpipe.engine.worker", str(handle)]
            quiet = subprocess.DEVNULL
            process = subprocess.Popen(command, pass_fds=[handle], stdin=quiet, stdout=quiet)  # noqa: S603  our own
        worker = _Worker(process, Connection(ours.detach()))
        self._workers.append(worker)
        with suppress(OSError):  # died at once: seen by recv
            worker.pipe.send(sys.path)
            worker.pipe.send(self.context)
        return worker

    def run(
        self, tasks: Iterable[Task], progress: Callable[[Task, int], None]
    ) -> Iterator[tuple[Task, Result | ShardError]]:
        """Largest first, so that the last worker is not alone for long; results as they come."""
        todo = sorted(tasks, key=lambda t: (t.weight, t.label))
        deaths: dict[Any, int] = {}
        while todo or any(w.task for w in self._workers):
            self._feed(todo)
            busy = {w.pipe: w for w in self._workers if w.task}
            for pipe in wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                task = worker.task
                assert task is not None
                try:
                    kind, value = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    how = self._bury(worker)
                    key = (task.kind, task.key)
                    deaths[key] = deaths.get(key, 0) + 1
                    if deaths[key] < TRIES:
                        todo.append(task)
                    else:
                        yield task, ShardError(f"its worker died {TRIES} times ({how})", source=task.label)
                    continue
                if kind == "progress":
                    progress(task, value)
                    continue
                worker.task = None
                if kind == "error" and not isinstance(value, ShardError):
                    raise value
                yield task, value

    def _feed(self, todo: list[Task]) -> None:
        while todo:
            idle = next((w for w in self._workers if w.task is None), None)
            if idle is None:
                if len(self._workers) >= self.count:
                    return
                idle = self._start()
            idle.task = todo.pop()
            with suppress(OSError):  # died idle: seen by recv
                idle.pipe.send(idle.task)

    def _bury(self, worker: _Worker) -> str:
        code = _end(worker)
        self._workers.remove(worker)
        if code < 0:
            return f"signal {signal.Signals(-code).name}" + (": out of memory?" if code == -signal.SIGKILL else "")
        return f"exit {code}"

    def close(self) -> None:
        """Ask the workers to end; end those that do not."""
        for worker in self._workers:
            if worker.task is not None:
                worker.process.terminate()
            else:
                with suppress(OSError):
                    worker.pipe.send(None)
        for worker in self._workers:
            _end(worker)
        self._workers.clear()


def _end(worker: _Worker) -> int:
    try:
        worker.process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        worker.process.kill()
    worker.pipe.close()
    return worker.process.wait()
