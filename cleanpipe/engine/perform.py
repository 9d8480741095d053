"""One task in this process: what it costs is measured, and foreign errors are translated, once, here."""

from __future__ import annotations

import errno
import time

from cleanpipe.engine.base import Context, Progress, Result, Task
from cleanpipe.engine.machine import peak_memory
from cleanpipe.engine.opened import opening_seconds
from cleanpipe.engine.work import WORK
from cleanpipe.errors import CleanpipeError, ShardError, StopError


def perform(context: Context, task: Task, progress: Progress) -> Result:
    """One task in this process. Foreign errors are translated here.

    Raises:
        StopError: the disk is full or the run folder's storage failed.
        ShardError: this input cannot be processed; carries what happened.
    """
    began, opened = time.process_time(), opening_seconds()
    try:
        result = WORK[task.kind](context, task, progress)
    except CleanpipeError:
        raise
    except MemoryError as error:
        raise ShardError("not enough memory", source=task.label) from error
    except OSError as error:
        raise translate(error, task.label) from error
    result["cpu_seconds"] = time.process_time() - began - (opening_seconds() - opened)
    result["opening_seconds"] = opening_seconds() - opened
    result["peak_memory_bytes"] = peak_memory()
    return result


def translate(error: OSError, label: str) -> CleanpipeError:
    """What storage of the run folder answered, in our own words. Errors of reading were translated where they rose
    (io/bytesource.py), so whatever arrives here is no fault of an input: the run stops, and loses nothing.
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StopError("no space left on the device; free some and start the same line again", source=label)
    what = error.strerror or str(error)
    return StopError(f"the run folder failed ({what}); mend it and start the same line again", source=label)
