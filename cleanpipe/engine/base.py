"""What an engine runs: tasks, each one unit of work that publishes its own outputs and returns a small dict."""

from __future__ import annotations

import errno
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cleanpipe.errors import CleanpipeError, ShardError, StopError
from cleanpipe.io.inputs import Input
from cleanpipe.recipe import Recipe

Progress = Callable[[int], None]  # bytes of the input consumed so far
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Context:
    """What every task of a run shares; sent to a worker once."""

    recipe: Recipe
    out: str
    inputs: tuple[Input, ...]

    @property
    def work(self) -> Path:
        """Pass outputs and manifests."""
        return Path(self.out) / "work"


@dataclass(frozen=True, slots=True)
class Task:
    """kind: a name in ``WORK``. key: identity of its outputs. label, weight: for people and for the order of work."""

    kind: str
    key: str
    label: str
    weight: int = 0
    args: Mapping[str, Any] = field(default_factory=dict)


class Engine(ABC):
    """Runs tasks, in any order and any number of times, and gives each result once."""

    name = ""

    @abstractmethod
    def run(
        self, tasks: Iterable[Task], progress: Callable[[Task, int], None]
    ) -> Iterator[tuple[Task, Result | ShardError]]:
        """Results as they come. A task whose input is beyond reading gives a ShardError; others raise.

        Raises:
            StopError, ConfigError, StageContractError: the run cannot go on.
        """

    @abstractmethod
    def close(self) -> None:
        """End the workers."""


def perform(context: Context, task: Task, progress: Progress) -> Result:
    """One task in this process. Foreign errors are translated here.

    Raises:
        StopError: the disk is full or the output storage is gone.
        ShardError: this input cannot be processed; carries what happened.
    """
    from cleanpipe.engine import work

    began, opened = time.process_time(), work.opening_seconds()
    try:
        result = work.WORK[task.kind](context, task, progress)
    except CleanpipeError:
        raise
    except MemoryError as error:
        raise ShardError("not enough memory", source=task.label) from error
    except OSError as error:
        raise translate(error, task.label) from error
    result["cpu_seconds"] = time.process_time() - began - (work.opening_seconds() - opened)
    result["opening_seconds"] = work.opening_seconds() - opened
    result["peak_memory_bytes"] = peak_memory()
    return result


def translate(error: OSError, label: str) -> CleanpipeError:
    """An error of the operating system in our own words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return StopError("no space left on the device; free some and start the same line again", source=label)
    return ShardError(f"{type(error).__name__}: {error}", source=label)


def peak_memory() -> int:
    """Largest resident set of this process so far, bytes (VmHWM: ru_maxrss would show the parent's across exec)."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
