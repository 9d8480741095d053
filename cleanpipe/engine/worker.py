"""A worker process of the local engine: tasks in, progress and results out, until the pipe closes.

It is started as a program of its own, not forked (forks and threads do not mix) and not spawned by multiprocessing
(which runs the caller's script once more in every worker).
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any


def main(handle: int) -> None:
    """Serve the driver at the other end of the socket ``handle``."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "-1")  # see cleanpipe_jobs
    pipe: Connection = Connection(handle)
    sys.path[:] = pipe.recv()  # before anything else is unpickled: stage packs must be found as the driver finds them
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    from cleanpipe.engine.perform import perform
    from cleanpipe.errors import CleanpipeError

    context = pipe.recv()
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        if task is None:
            return
        try:
            answer: tuple[str, Any] = ("done", perform(context, task, lambda n: pipe.send(("progress", n))))
        except CleanpipeError as error:
            answer = ("error", error)
        except BrokenPipeError:
            return
        except Exception as error:  # a fault of the program: shown whole by --debug
            answer = ("error", RuntimeError(f"{type(error).__name__}: {error}\n{traceback.format_exc()}"))
        try:
            pipe.send(answer)
        except OSError:
            return


if __name__ == "__main__":
    main(int(sys.argv[1]))
