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
