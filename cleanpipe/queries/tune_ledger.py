"""A ledger's columns, read part by part on a few threads: what ``tune`` needs of many rows within a bound of memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cleanpipe.errors import StopError

PIECE = 1 << 18  # rows of a piece, at most (one row group at least)
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Piece:
    """Row groups of one part. first: place of its first row in the whole ledger. rows: how many."""

    part: int
    groups: tuple[int, ...]
    first: int
    rows: int

    @property
    def span(self) -> slice:
        """Its rows in arrays over the whole ledger."""
        return slice(self.first, self.first + self.rows)


class LedgerColumns:
    """Columns of all parts of a ledger, in order."""

    def __init__(self, parts: Sequence[Path]) -> None:
        self._parts = list(parts)
        self._facts = [self._open(i).metadata for i in range(len(self._parts))]
        self.names = frozenset(
            set.intersection(*(set(f.schema.to_arrow_schema().names) for f in self._facts)) if self._facts else ()
        )
        self._types = {f.name: f.type for f in self._facts[0].schema.to_arrow_schema()} if self._facts else {}
        self.pieces = list(self._cut())
        self.rows = sum(p.rows for p in self.pieces)

    def _open(self, part: int) -> pq.ParquetFile:
        try:
            known = self._facts[part] if hasattr(self, "_facts") else None
            return pq.ParquetFile(self._parts[part], metadata=known)
        except (OSError, pa.ArrowException) as error:
            raise StopError(f"cannot be read: {error}", source=str(self._parts[part])) from error

    def _cut(self) -> Iterator[Piece]:
        first = 0
        for part, facts in enumerate(self._facts):
            groups: list[int] = []
            rows = 0
            for group in range(facts.num_row_groups):
                more = facts.row_group(group).num_rows
                if groups and rows + more > PIECE:
                    yield Piece(part, tuple(groups), first, rows)
                    first, rows, groups = first + rows, 0, []
                groups.append(group)
                rows += more
            if groups:
                yield Piece(part, tuple(groups), first, rows)
                first += rows

    def type_of(self, name: str) -> pa.DataType:
        """The column's type; null where no part has it."""
        return self._types.get(name, pa.null())

    def read(self, piece: Piece, names: Sequence[str], *, coded: Sequence[str] = ()) -> pa.Table:
        """Some columns of a piece. coded: strings that come dictionary-encoded."""
        try:
            with pq.ParquetFile(
                self._parts[piece.part], metadata=self._facts[piece.part], read_dictionary=list(coded)
            ) as file:
                return file.read_row_groups(list(piece.groups), columns=list(names), use_threads=False)
        except (OSError, pa.ArrowException) as error:
            raise StopError(f"cannot be read: {error}", source=str(self._parts[piece.part])) from error

    def each(self, work: Callable[[Piece], _T], wanted: Callable[[Piece], bool] | None = None) -> Iterator[_T]:
        """``work`` of every wanted piece, in order, on as many threads as there are processors; few are read ahead."""
        workers = max(1, len(os.sched_getaffinity(0)))
        waiting: deque[Future[_T]] = deque()
        with ThreadPoolExecutor(workers) as pool:
            try:
                for piece in self.pieces:
                    if wanted is not None and not wanted(piece):
                        continue
                    waiting.append(pool.submit(work, piece))
                    if len(waiting) > workers + 1:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for one in waiting:
                    one.cancel()

    def numbers(self, name: str, out: npt.DTypeLike = np.int64) -> npt.NDArray[np.int64]:
        """A whole column of whole numbers, null as 0."""
        whole = np.zeros(self.rows, out)
        if name in self.names:
            pieces = iter(self.pieces)
            for values in self.each(lambda p: self.read(p, [name]).column(name).fill_null(0).to_numpy()):
                whole[next(pieces).span] = values
        return whole

    def chosen(self, name: str, mask: Flags) -> pa.ChunkedArray:
        """The column's values at the rows that ``mask`` names."""
        if name not in self.names:
            return pa.chunked_array([pa.nulls(int(mask.sum()), self.type_of(name))])

        def work(piece: Piece) -> pa.ChunkedArray:
            return self.read(piece, [name]).column(name).filter(pa.array(mask[piece.span]))

        chunks = [c for column in self.each(work, lambda p: bool(mask[p.span].any())) for c in column.chunks]
        return pa.chunked_array(chunks, self.type_of(name))

    def several(self, names: Sequence[str], mask: Flags) -> dict[str, pa.ChunkedArray]:
        """As ``chosen``, of many columns in one reading."""

        def work(piece: Piece) -> pa.Table:
            return self.read(piece, names).filter(pa.array(mask[piece.span]))

        tables = list(self.each(work, lambda p: bool(mask[p.span].any())))
        return {
            name: pa.chunked_array([c for t in tables for c in t.column(name).chunks], self.type_of(name))
            for name in names
        }


class Chosen:
    """Some rows of the ledger as a ``cleanpipe.exchange.Part``: columns are read when asked for."""

    def __init__(self, ledger: LedgerColumns, mask: Flags, own: dict[str, pa.ChunkedArray]) -> None:
        self._ledger, self._mask, self._own = ledger, mask, own
        self._at = np.flatnonzero(mask)
        self._held: dict[str, pa.ChunkedArray] = {}
        self.rows: int = self._at.size

    def read_ahead(self, names: Sequence[str]) -> None:
        """Hold columns that will be asked for, read at once."""
        self._held |= self._ledger.several([n for n in names if n in self._ledger.names], self._mask)

    def column(self, name: str) -> pa.ChunkedArray:
        """One whole column; narrow ones are held."""
        if name in self._own:
            return self._own[name]
        if name not in self._held:
            self._held[name] = self._ledger.chosen(name, self._mask)
        return self._held[name]

    def take(self, name: str, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Values at ascending row numbers; only the pieces that hold them are read."""
        if name in self._held:
            return _whole(self._held[name].take(pa.array(rows)))
        mask = np.zeros(self._ledger.rows, np.bool_)
        mask[self._at[rows]] = True
        return _whole(self._ledger.chosen(name, mask))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)
