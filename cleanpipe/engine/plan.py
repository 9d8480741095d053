"""Which units a run has: parts of its inputs, in source order. Borders depend on file and recipe alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from cleanpipe.io.inputs import Input
from cleanpipe.io.record import Span


@dataclass(frozen=True, slots=True)
class Unit:
    """One part of one input. span: None where the input is one unit; label: for people."""

    number: int
    source: Input
    span: Span | None

    @property
    def label(self) -> str:
        """The source, and where in it."""
        return self.source.source if self.span is None else f"{self.source.source}@{self.span.begin:,}"

    @property
    def size(self) -> int:
        """Bytes of the input, about."""
        return self.source.size if self.span is None else self.span.end - self.span.begin


class UnitPlan:
    """Units by number, made when they are asked for: there may be millions.

    A gzip archive (by its name: nothing is opened) larger than ``unit_bytes`` is cut into spans of that many bytes.
    """

    def __init__(self, inputs: Sequence[Input], unit_bytes: int) -> None:
        self.inputs, self._bytes = inputs, unit_bytes
        counts = [
            -(-i.size // unit_bytes) if i.source.lower().endswith(".gz") and i.size > unit_bytes else 1 for i in inputs
        ]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def input_of(self, number: int) -> int:
        """The input that a unit is part of."""
        return int(np.searchsorted(self._starts, number, side="right")) - 1

    def of_input(self, index: int) -> range:
        """Numbers of an input's units."""
        return range(int(self._starts[index]), int(self._starts[index + 1]))

    def __getitem__(self, number: int) -> Unit:
        index = self.input_of(number)
        source, units = self.inputs[index], self.of_input(index)
        if len(units) == 1:
            return Unit(number, source, None)
        begin = (number - units.start) * self._bytes
        return Unit(number, source, Span(begin, min(begin + self._bytes, source.size)))

    def __iter__(self) -> Iterator[Unit]:
        return (self[n] for n in range(len(self)))

    def by_size(self, numbers: Sequence[int]) -> list[int]:
        """Largest first, so that the last worker is not alone for long; equal ones in order."""
        sizes = np.fromiter((self[n].size for n in numbers), np.int64, len(numbers))
        return [numbers[i] for i in np.argsort(-sizes, kind="stable")]
