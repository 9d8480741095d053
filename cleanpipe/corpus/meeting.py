"""All documents of the corpus meet: exact and near duplicates, as the recipe's own exchange finds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.exchange import Exchange
from cleanpipe.io.arrow import RowFile, TableWriter

TOP = 20  # clusters that are shown


class Subset:
    """The documents of one unit that have text: an empty one is no copy of another. A ``Part``."""

    def __init__(self, file: RowFile) -> None:
        self._file = file
        self._stays = np.asarray(file.column(col.LENGTH).to_numpy()) > 0
        self.at = np.flatnonzero(self._stays)
        self.rows = len(self.at)
        self._all = self.rows == file.rows

    def column(self, name: str) -> pa.ChunkedArray:
        """One whole column."""
        values = self._file.column(name)
        if self._all:
            return values
        chunks, start = [], 0
        for chunk in values.chunks:  # one by one: offsets of 32 bits do not reach over all of them
            chunks.append(chunk.filter(pa.array(self._stays[start : start + len(chunk)])))
            start += len(chunk)
        return pa.chunked_array(chunks, type=values.type)

    def take(self, name: str, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Values of one column for ascending row numbers."""
        return self._file.take(name, self.at[rows])


@dataclass(slots=True)
class Met:
    """facts: the exchange's own. sizes: clusters by their size. biggest: (doc_id of the kept one, documents), larger
    first.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    biggest: list[tuple[str, int]] = field(default_factory=list)


def answers_name(unit: int) -> str:
    """The file with the exchange's answer for one unit: a row for each document, nulls for empty ones."""
    return f"answers-{unit:06d}.arrow"


def meet(exchange: Exchange, work: Path, units: Sequence[int]) -> Met:
    """Let the documents of all units meet; the answers are written beside them."""
    kept: list[npt.NDArray[np.uint8]] = [np.zeros((0, 16), np.uint8)]
    schema = pa.schema(list(exchange.writes.items()))
    with ExitStack():
        files = [RowFile(work / f"rows-{unit:06d}.arrow") for unit in units]
        parts = [Subset(file) for file in files]
        meeting = exchange.meet(parts)
        for unit, file, part, table in zip(units, files, parts, meeting.tables, strict=True):
            place = np.full(file.rows, -1, np.int64)
            place[part.at] = np.arange(part.rows)
            whole = table.combine_chunks().take(pa.array(place, mask=place < 0))
            writer = TableWriter(work / answers_name(unit), schema)
            writer.write(whole.cast(schema).combine_chunks())
            writer.close()
            if col.KEPT_DOC_ID in schema.names:
                ids = table.column(col.KEPT_DOC_ID).drop_null().combine_chunks()
                chunks = ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids]
                kept += [_bytes(c) for c in chunks]
    return _clusters(np.concatenate(kept), dict(meeting.facts))


def _bytes(values: pa.Array) -> npt.NDArray[np.uint8]:
    data = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    return data[16 * values.offset : 16 * (values.offset + len(values))].reshape(-1, 16)


def _clusters(kept: npt.NDArray[np.uint8], facts: Mapping[str, Any]) -> Met:
    keys = np.ascontiguousarray(kept).view("V16").reshape(-1)
    found, counts = np.unique(keys, return_counts=True)
    sizes, times = np.unique(counts + 1, return_counts=True)
    order = np.lexsort((found, -counts))[:TOP]
    return Met(
        facts,
        dict(zip(sizes.tolist(), times.tolist(), strict=True)),
        [(bytes(found[i]).hex(), int(counts[i]) + 1) for i in order.tolist()],
    )
