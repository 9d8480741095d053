"""Worker processes on this machine, one pipe each: the death of one is seen, named, and costs the others nothing."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from cleanpipe.engine.base import Context, Engine, Result, Task, perform
from cleanpipe.errors import CleanpipeError, ShardError

TRIES = 2  # a task whose worker died is tried once more


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    pipe: Connection
    task: Task | None = None


class LocalEngine(Engine):
    """``workers`` processes, started by spawn (fork and threads do not mix) and kept to the end of the run."""

    name = "local"

    def __init__(self, context: Context, workers: int) -> None:
        self.context, self.count = context, max(1, workers)
        self._mp = mp.get_context("spawn")
        self._workers: list[_Worker] = []

    def _start(self) -> _Worker:
        ours, theirs = self._mp.Pipe()
        process = self._mp.Process(target=_serve, args=(theirs, self.context), daemon=True)
        process.start()
        theirs.close()
        worker = _Worker(process, ours)
        self._workers.append(worker)
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
                    deaths[_key(task)] = deaths.get(_key(task), 0) + 1
                    if deaths[_key(task)] < TRIES:
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
            with suppress(BrokenPipeError, ConnectionResetError):  # died idle: seen at once by recv
                idle.pipe.send(idle.task)

    def _bury(self, worker: _Worker) -> str:
        worker.process.join(5)
        code = worker.process.exitcode
        self._workers.remove(worker)
        worker.pipe.close()
        if code is not None and code < 0:
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
            worker.process.join(5)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
        self._workers.clear()


def _key(task: Task) -> Any:
    return (task.kind, task.key)


def _serve(pipe: Connection, context: Context) -> None:
    """A worker: tasks in, progress and results out, until the pipe closes or None comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    while True:
        try:
            task: Task | None = pipe.recv()
        except (EOFError, OSError):
            return
        if task is None:
            return
        try:
            answer: tuple[str, Any] = ("done", perform(context, task, lambda n: pipe.send(("progress", n))))
        except CleanpipeError as error:
            answer = ("error", error)
        except Exception as error:  # a fault of the program: shown whole by --debug
            import traceback

            answer = ("error", RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
        try:
            pipe.send(answer)
        except (BrokenPipeError, OSError):
            return
