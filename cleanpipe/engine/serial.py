"""One process, one task after another: for tests, debuggers and profilers. Nothing guards it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator

from cleanpipe.engine.attempts import Attempts
from cleanpipe.engine.base import Context, Engine, Result, Task, Watch
from cleanpipe.engine.perform import perform
from cleanpipe.engine.tasklog import log_try
from cleanpipe.errors import CleanpipeError, ShardError


class _Progress(Watch):
    def __init__(self, task: Task, progress: Callable[[Task, int], None]) -> None:
        self._task, self._progress = task, progress

    def consumed(self, size: int) -> None:
        self._progress(self._task, size)


class SerialEngine(Engine):
    """Runs everything in this process. What a task's args condemn is set aside here too."""

    name = "serial"

    def __init__(self, context: Context) -> None:
        self.context = context

    def run(
        self, tasks: Iterable[Task], progress: Callable[[Task, int], None]
    ) -> Iterator[tuple[Task, Result | ShardError]]:
        """In the order given."""
        for task in tasks:
            yield task, self._one(task, progress)

    def _one(self, task: Task, progress: Callable[[Task, int], None]) -> Result | ShardError:
        attempts, began = Attempts(task), time.monotonic()
        result: Result | None = None
        failed: CleanpipeError | None = None
        try:
            result = perform(self.context, task, _Progress(task, progress))
            return result | attempts.facts()
        except ShardError as error:
            failed = error
            return error
        except CleanpipeError as error:
            failed = error
            raise
        finally:
            log_try(
                self.context,
                task,
                tries=1,
                pid=os.getpid(),
                seconds=time.monotonic() - began,
                result=result,
                error=str(failed) if failed else None,
            )

    def close(self) -> None:
        """Nothing to end."""
