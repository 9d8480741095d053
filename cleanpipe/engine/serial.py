"""One process, one task after another: for tests, debuggers and profilers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from cleanpipe.engine.base import Context, Engine, Result, Task
from cleanpipe.engine.perform import perform
from cleanpipe.errors import ShardError


class SerialEngine(Engine):
    """Runs everything in this process."""

    name = "serial"

    def __init__(self, context: Context) -> None:
        self.context = context

    def run(
        self, tasks: Iterable[Task], progress: Callable[[Task, int], None]
    ) -> Iterator[tuple[Task, Result | ShardError]]:
        """In the order given."""
        for task in tasks:
            try:
                yield task, perform(self.context, task, lambda done, task=task: progress(task, done))  # type: ignore[misc]
            except ShardError as error:
                yield task, error

    def close(self) -> None:
        """Nothing to end."""
