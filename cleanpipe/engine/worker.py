"""A worker process under a guard (engine/guard.py): tasks in; places, progress and results out, until the line closes.

It is started as a program of its own, not forked (forks and threads do not mix) and not spawned by multiprocessing
(which runs the caller's script once more in every worker). It never outlives the process that started it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import pickle
import resource
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from cleanpipe.engine.channel import Line

REPORT = 0.25  # seconds between two reports of bytes consumed
SHOW = signal.SIGUSR1  # "show where you are": the Python stack goes to standard error, from within any C call
OOM_SCORE = 500  # of 1000; Ray gives its own workers 1000
_PR_SET_PDEATHSIG = 1


def main(handle: int, parent: int) -> None:
    """Serve the guard at the other end of the socket ``handle``; ``parent`` is its process."""
    _die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.enable(all_threads=False)
    faulthandler.register(SHOW, all_threads=False)
    with suppress(OSError, ValueError):  # where memory ends, the kernel shall end a worker rather than the driver
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(max(int(score.read_text(encoding="ascii")), OOM_SCORE)), encoding="ascii")
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")  # see cleanpipe_jobs
    line = Line(socket.socket(fileno=handle))
    try:
        _serve(line)
    except (EOFError, ConnectionError):
        return


def _die_with(parent: int) -> None:
    """Also when the parent is killed, and also in the middle of an endless C call."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before that
        os._exit(0)


def _serve(line: Line) -> None:
    setup = line.receive()
    sys.path[:] = setup["path"]  # before anything else is unpickled: stage packs must be found as the driver finds them
    os.environ.pop("PYTHONPATH", None)
    os.environ.update(setup["environ"])
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    from cleanpipe.engine.base import Watch
    from cleanpipe.engine.perform import perform
    from cleanpipe.errors import CleanpipeError

    class Told(Watch):
        """Tells the guard."""

        def __init__(self) -> None:
            self._next, self._size = 0.0, 0

        def consumed(self, size: int) -> None:
            self._size, now = size, time.monotonic()
            if now >= self._next:
                self._next = now + REPORT
                line.send(("consumed", size))

        def at(self, first: int, count: int, doc_id: bytes | None = None) -> None:
            line.send(("at", (first, count, doc_id), self._size))
            self._next = 0.0

    context = line.receive()
    line.send(("ready",))
    while (task := line.receive()) is not None:
        answer: tuple[str, Any]
        try:
            answer = ("done", perform(context, task, Told()))
        except CleanpipeError as error:
            answer = ("error", error)
        except (EOFError, ConnectionError):
            raise
        except Exception as error:  # a fault of the program: shown whole by --debug
            answer = ("error", RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
        try:
            line.send(answer)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            line.send(("error", RuntimeError(f"what the task {task.kind} returned cannot be sent: {error}")))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
