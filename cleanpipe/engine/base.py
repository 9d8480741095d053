"""What an engine runs: tasks, each one unit of work that publishes its own outputs and returns a small dict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cleanpipe.errors import ShardError
from cleanpipe.io.store import Store, open_store
from cleanpipe.recipe import Recipe

Result = dict[str, Any]


class Watch:
    """What a task says while it works. The base class listens to nothing: a task without a guard."""

    def consumed(self, size: int) -> None:
        """Bytes of the input read so far."""

    def at(self, first: int, count: int, doc_id: bytes | None = None) -> None:
        """About to treat ``count`` documents, the first being the ``first``-th (from 0) of this task; count 0: about to
        read on. Each call starts the guards' clocks anew. doc_id: of a document that is treated alone, or with count 0
        read alone.
        """


@dataclass(frozen=True, slots=True)
class Context:
    """What every task of a run shares; sent to a worker once."""

    recipe: Recipe
    out: str  # an absolute path or s3://bucket/prefix
    run_id: str = ""  # for logs and metrics: names this start of the run

    @property
    def store(self) -> Store:
        """The run folder, opened once a process."""
        return open_store(self.out, self.recipe.storage)


@dataclass(frozen=True, slots=True)
class Task:
    """kind: a name in ``WORK``, or the import path of a function like those ("package.module:function"). key: identity
    of its outputs. label, weight: for people and for the order of work. gpus: how many it needs; an engine that knows
    of none lets the task see what there is.

    Of every kind, ``args`` may hold what earlier tries taught (engine/attempts.py). ``careful``: [[first, count], …],
    documents that are treated one by one. ``condemned``: {doc_id in hex: [error, message]}, documents that are set
    aside untreated, with reason ``resource_limit``; a third item names the stage that must not see it. ``announce``:
    each document is announced before its body is touched.
    """

    kind: str
    key: str
    label: str
    weight: int = 0
    args: Mapping[str, Any] = field(default_factory=dict)
    gpus: float = 0


class Engine(ABC):
    """Runs tasks, in any order and any number of times, and gives each result once."""

    name = ""

    @abstractmethod
    def run(
        self, tasks: Iterable[Task], progress: Callable[[Task, int], None]
    ) -> Iterator[tuple[Task, Result | ShardError]]:
        """Results as they come. A task whose input is beyond reading gives a ShardError; others raise.

        tasks: taken as workers get free, in the order given (the driver puts the largest first): there may be millions.
        progress: called with bytes of the task's input consumed so far, where the engine knows.

        Raises:
            StopError, ConfigError, StageContractError: the run cannot go on.
        """

    @abstractmethod
    def close(self) -> None:
        """End the workers."""
