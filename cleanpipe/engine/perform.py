"""One task in this process: what it costs is measured, and foreign errors are translated, once, here."""

from __future__ import annotations

import errno
import platform
import time
from collections.abc import Callable
from importlib import import_module

from cleanpipe.engine.base import Context, Result, Task, Watch
from cleanpipe.engine.machine import peak_memory
from cleanpipe.engine.opened import opening_seconds
from cleanpipe.engine.work import WORK
from cleanpipe.errors import CleanpipeError, RetryableError, StopError


def perform(context: Context, task: Task, watch: Watch) -> Result:
    """One task in this process. Foreign errors are translated here.

    Returns:
        What the task reports, and ``cpu_seconds`` (without ``opening_seconds``), ``wall_seconds``,
        ``peak_memory_bytes`` (of the process so far) and ``host``.

    Raises:
        StopError: the disk is full or the run folder's storage failed.
        ShardError: this input cannot be processed; carries what happened.
    """
    began, opened, clock = time.process_time(), opening_seconds(), time.monotonic()
    try:
        result = _work(task.kind)(context, task, watch)
    except CleanpipeError:
        raise
    except MemoryError as error:  # outside of any step: those are asked document by document
        raise RetryableError("not enough memory", source=task.label) from error
    except OSError as error:
        raise translate(error, task.label) from error
    result["cpu_seconds"] = time.process_time() - began - (opening_seconds() - opened)
    result["wall_seconds"] = time.monotonic() - clock
    result["opening_seconds"] = opening_seconds() - opened
    result["peak_memory_bytes"] = peak_memory()
    result["host"] = platform.node()
    return result


def _work(kind: str) -> Callable[[Context, Task, Watch], Result]:
    """What a kind of task names; see ``Task``."""
    if ":" not in kind:
        return WORK[kind]
    module, _, name = kind.partition(":")
    work: Callable[[Context, Task, Watch], Result] = getattr(import_module(module), name)
    return work


def translate(error: OSError, label: str) -> CleanpipeError:
    """What storage of the run folder answered, in our own words. Errors of reading were translated where they rose
    (io/bytesource.py), so whatever arrives here is no fault of an input: the run stops, and loses nothing.
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StopError("no space left on the device; free some and start the same line again", source=label)
    what = error.strerror or str(error)
    return StopError(f"the run folder failed ({what}); mend it and start the same line again", source=label)
