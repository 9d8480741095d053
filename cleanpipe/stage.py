"""The stage contract: everything a stage author needs, on one screen.

A stage is a frozen dataclass: its fields are its options, its class attributes its declaration. ``open()`` runs once
in each worker, loads what is heavy and returns a step: a pure function of one batch. A step judges, and removes
nothing: the core drops, counts and keeps the ledger (``cleanpipe.flow``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

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


@dataclass(frozen=True, slots=True)
class Cut:
    """One limit that a score is held against: of the documents it is asked of, those are kept whose score ``keeps`` it
    (``score >= at``); the others go for ``reason``.

    score: a ledger column. at: rounded to 6 decimals, as scores are. option: of the stage, the one that sets it.
    of: which documents it is asked of, in words; "" for all. where: columns that have these values in all of them.
    """

    score: str
    keeps: Literal[">=", ">", "<=", "<"]
    at: float
    option: str
    reason: str
    of: str = ""
    where: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judge:
    """The stage's verdict again, from the ledger alone. The step itself calls the same function, so both are one.

    columns: of the ledger, those that ``judge`` reads, of the ledger's types. options: of the stage, those that have no
    other effect than on ``judge``: with other values of these the verdict can be told without a second run. judge: of n
    rows that reached the stage, a string array of n: one declared reason, or null for those it keeps, as
    ``Outcome.drops``. Rows are judged one by one: any part of them may be asked about.
    """

    columns: frozenset[str]
    options: frozenset[str]
    judge: Callable[[pa.RecordBatch], pa.Array]


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
    ledger_only: ClassVar[frozenset[str]] = frozenset()  # scores that shards do not carry
    meanings: ClassVar[Mapping[str, str]] = {}  # of scores that only this stage knows: what each is, in a few words
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

    def in_words(self) -> str:
        """What the stage does, in words for people, with its options' values: one or two sentences."""
        return (self.__doc__ or "").strip().partition("\n\n")[0].replace("\n", " ")

    def looked_for(self) -> Mapping[str, str]:
        """Sentences of the data card on what else was "not looked for": personal, content, rights, evaluation."""
        return {}

    def cuts(self) -> Sequence[Cut]:
        """The limits in force, of every score that is held against one."""
        return ()

    def judge(self) -> Judge | None:
        """How the ledger's columns decide; None where they do not suffice."""
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
