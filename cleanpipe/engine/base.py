"""What an engine runs: tasks, each one unit of work that publishes its own outputs and returns a small dict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cleanpipe.errors import ShardError
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
