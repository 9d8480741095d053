"""The stage contract: everything a stage author needs, on one screen.

A stage is a frozen dataclass: its fields are its options, its class attributes its declaration. ``open()`` runs once
in each worker, loads what is heavy and returns a step: a pure function of one batch. A step judges, and removes
nothing: the core drops, counts and keeps the ledger (``cleanpipe.flow``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

if TYPE_CHECKING:
    from cleanpipe.exchange import Exchange


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a step says about one batch of n rows.

    batch: the rows with columns added or changed; n rows, or as many as ``parents`` has.
    drops: string array of n, one declared reason or null; null keeps the row.
    parents: int32 array, the input row of each output row, when their number changes.
    scores: arrays of n rows of the declared types; the core puts them into the batch and, dropped rows too, the ledger.
    skipped: boolean array of n, true where the stage does not apply ("not applicable" in the audit, never 0).
    facts: whole numbers that add up over batches, by name, for the audit.
    """

    batch: pa.RecordBatch
    drops: pa.Array | None = None
    parents: pa.Array | None = None
    scores: Mapping[str, pa.Array] = field(default_factory=dict)
    skipped: pa.Array | None = None
    facts: Mapping[str, int] = field(default_factory=dict)


Step = Callable[[pa.RecordBatch], Outcome]
TextRule = Callable[[str], str]


@dataclass(frozen=True, kw_only=True)
class Stage(ABC):
    """One file, one rule. ``name`` equals the file's name, the recipe's table and the prefix of its columns."""

    name: ClassVar[str]
    reads: ClassVar[frozenset[str]] = frozenset()
    reads_optional: ClassVar[frozenset[str]] = frozenset()  # null columns where no stage before wrote them
    writes: ClassVar[Mapping[str, pa.DataType]] = {}
    scores: ClassVar[Mapping[str, pa.DataType]] = {}
    reasons: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def open(self) -> Step:
        """Load what is heavy; return the step. Raises ConfigError if the options cannot work."""

    def models(self) -> Mapping[str, Path]:
        """Files whose content decides results, by name; their digests are part of the run's identity."""
        return {}

    def text_rule(self) -> TextRule | None:
        """A pure, idempotent repair that every document's text passes before any stage reads it."""
        return None

    def exchange(self) -> Exchange | None:
        """What must happen across all shards before this stage's step runs."""
        return None


def option(default: Any, doc: str, *, source: str = "") -> Any:  # Any: the field's own annotation is its type
    """A stage option: its default, one line saying what it does, and where the default comes from."""
    metadata = {"doc": doc, "source": source}
    if isinstance(default, (dict, list, set)):  # a dataclass takes no mutable default
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def rounded(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Scores at 6 decimals: rounded before they judge and as they are stored, so that a replay judges the same."""
    return np.round(values, 6)
