"""Exchange: the one way rows meet across shards.

A stage whose verdict needs other shards (near duplicates) names an exchange. The pipeline breaks there: pass A runs up
to it on every unit, then ``meet`` sees the named columns of all units at once, then pass C goes on with its answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

TOOK_PART, TAKES_PART = "took_part", "takes_part"
YES, NO, MAYBE = "yes", "no", "maybe"
UNKNOWN, CONTINGENT, GOES = "?", "?if", "?goes"  # verdicts of ``again`` that are no reasons


class Part(Protocol):
    """The documents of one unit that are still alive, on disk, in reading order."""

    rows: int

    def column(self, name: str) -> pa.ChunkedArray:
        """One whole column; meant for narrow ones (ids, keys, lengths)."""

    def take(self, name: str, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Values of a wide column (text) for ascending row numbers, read from disk."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """tables: one for each part, row for row, with the columns of ``Exchange.writes``. facts: numbers for the audit,
    plain JSON values, the same for any order of work.
    """

    tables: Sequence[pa.Table]
    facts: Mapping[str, object] = field(default_factory=dict)


class Exchange(ABC):
    """reads: columns that every document carries to the meeting. writes: columns it brings back."""

    name: ClassVar[str]
    reads: ClassVar[frozenset[str]]
    writes: ClassVar[Mapping[str, pa.DataType]]

    @abstractmethod
    def meet(self, parts: Sequence[Part]) -> Meeting:
        """Decide over all parts; they come sorted by source, so the answer depends on the documents alone."""

    def again_reads(self) -> frozenset[str]:
        """Ledger columns that ``again`` reads."""
        return frozenset()

    def again(self, rows: Part, before: Exchange) -> pa.Array | None:  # noqa: ARG002
        """The verdict again, from the ledger alone, when other documents take part or other options hold.

        Args:
            rows: every row that took part, or may take part now, read when asked for: the columns of ``again_reads``,
                ``reason`` as it was (null: kept; null too where it did not take part), and TOOK_PART and TAKES_PART:
                "yes", "no", "maybe"; strings may come dictionary-encoded.
            before: the exchange as it was when the run met.

        Returns:
            A string array (dictionary-encoded or not) with a verdict for each row, that of rows that do not take part
            being null. A reason, or null for kept: certain. UNKNOWN. CONTINGENT, or CONTINGENT:reason: kept, or gone
            for this reason, unless a row that "maybe" takes part, or whose likes are not known, is equal or near to it
            or to the one that stands for it. GOES:reason: certain to go, for this reason or another of the stage.
            None where nothing can be told.
        """
        return None
