"""Arrow files: tables between passes, and shards in the layout of ``datasets.save_to_disk``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe.io.hashing import HashingFile

_PAD = 64  # a buffer is padded to at most this many bytes
_DTYPES = {"double": "float64", "float": "float32", "halffloat": "float16"}  # as `datasets` spells them


class TableWriter:
    """An Arrow IPC file of record batches: the form in which rows wait between passes (memory-mapped when read)."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path, self.rows, self.schema = path, 0, schema
        self._file = HashingFile(path)
        self._writer = pa.ipc.new_file(self._file, schema)

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Append rows; columns are put into the schema's order."""
        if rows.num_rows:
            chosen = rows.select(self.schema.names)
            self._writer.write(chosen)
            self.rows += rows.num_rows

    def close(self) -> dict[str, Any]:
        """Finish the file and make it durable; its name, size in bytes and SHA-256."""
        self._writer.close()
        self._file.sync()
        self._file.close()
        return {"name": self.path.name, "bytes": self._file.size, "sha256": self._file.hexdigest()}

    def abandon(self) -> None:
        """Let go of the file as it is; nothing to do once it is finished."""
        self._file.close()


class RowFile:
    """A finished TableWriter file; the ``Part`` that an exchange sees."""

    def __init__(self, path: Path) -> None:
        self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
        self.schema: pa.Schema = self._reader.schema
        counts = [self._reader.get_batch(i).num_rows for i in range(self._reader.num_record_batches)]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.rows = int(self._starts[-1])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The batches as they were written."""
        for i in range(self._reader.num_record_batches):
            yield self._reader.get_batch(i)

    def table(self) -> pa.Table:
        """All of it; mapped, not read."""
        return pa.Table.from_batches(list(self.batches()), schema=self.schema)

    def column(self, name: str) -> pa.ChunkedArray:
        """One whole column; nulls where the rows do not carry it (an optional one, its stage switched off)."""
        if name not in self.schema.names:
            return pa.chunked_array([pa.nulls(self.rows)])
        return pa.chunked_array([b.column(name) for b in self.batches()], type=self.schema.field(name).type)

    def take(self, name: str, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Values of one column for ascending row numbers."""
        at = np.searchsorted(self._starts, rows, side="right") - 1
        parts = []
        for i in np.unique(at):
            local = rows[at == i] - self._starts[i]
            parts.append(self._reader.get_batch(int(i)).column(name).take(pa.array(local)))
        return pa.concat_arrays(parts) if parts else pa.nulls(0, self.schema.field(name).type)

    def slice(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Rows start ≤ i < stop, as slices of the batches as written."""
        for i in range(self._reader.num_record_batches):
            low, high = int(self._starts[i]), int(self._starts[i + 1])
            if high > start and low < stop:
                a, b = max(start, low) - low, min(stop, high) - low
                yield self._reader.get_batch(i).slice(a, b - a)


@dataclass(frozen=True, slots=True)
class RowCost:
    """An upper bound of what rows take in an IPC stream of one schema, so that a plan can be made from sizes alone."""

    fixed: int  # bytes of a row in fixed-width buffers, offsets and null bits
    batch: int  # bytes of a record batch beside its rows
    base: int  # bytes of a file beside its batches

    @staticmethod
    def of(schema: pa.Schema) -> RowCost:
        """Measured on an empty file of that schema."""

        def size(batches: int) -> int:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, schema) as writer:
                for _ in range(batches):
                    writer.write_batch(_one_null_row(schema))
            return int(sink.getvalue().size)

        base = size(0)
        buffers = sum(3 if _is_var(f.type) else 2 for f in schema)
        fixed = sum(
            8 if f.type in (pa.large_string(), pa.large_binary()) else 4 if _is_var(f.type) else _width(f.type)
            for f in schema
        )
        return RowCost(fixed + math.ceil(len(schema) / 8), size(1) - base + buffers * _PAD, base)

    def rows(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Bytes of each row."""
        total = np.full(batch.num_rows, self.fixed, np.int64)
        for column in batch.columns:
            if _is_var(column.type):
                total += pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        return total


def _one_null_row(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in schema], schema=schema)


def _is_var(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _width(kind: pa.DataType) -> int:
    return max(1, int(kind.bit_width) // 8)


@dataclass(frozen=True, slots=True)
class Segment:
    """Documents first ≤ d < last of one unit; ``rows`` are the row numbers they take there."""

    unit: int
    first: int
    last: int
    first_row: int
    last_row: int


def plan_shards(
    units: Iterable[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]],
    cost: RowCost,
    max_bytes: int,
    batch_rows: int,
) -> list[list[Segment]]:
    """Which documents go into which shard: a pure function of the size tables, in unit order, one held at a time.

    Args:
        units: for each unit, rows and bytes of each of its documents (by ``RowCost.rows``).
        cost, max_bytes, batch_rows: of the shard files.

    A document stands in one shard. One that is larger than ``max_bytes`` by itself gets a file of its own.
    """
    per_row = -(-cost.batch // batch_rows)
    limit = max_bytes - cost.base - cost.batch
    shards: list[list[Segment]] = []
    open_shard: list[Segment] = []
    used = 0  # bytes in the open shard
    for unit, (rows, size) in enumerate(units):
        total = np.concatenate([[0], np.cumsum(size + rows * per_row)])
        row_start = np.concatenate([[0], np.cumsum(rows)])
        at = 0
        while at < len(rows):
            end = int(np.searchsorted(total, total[at] + limit - used, side="right")) - 1
            if end <= at and open_shard:  # nothing more fits
                shards.append(open_shard)
                open_shard, used = [], 0
                continue
            end = max(end, at + 1)
            open_shard.append(Segment(unit, at, end, int(row_start[at]), int(row_start[end])))
            used += int(total[end] - total[at])
            at = end
    if open_shard or not shards:
        shards.append(open_shard)
    return shards


def rebatch(slices: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of ``rows`` rows (the last one fewer), in fresh buffers: their bytes do not show where slices began."""
    held: list[pa.RecordBatch] = []
    count = 0
    for piece in slices:
        while piece.num_rows:
            part = piece.slice(0, rows - count)
            piece = piece.slice(part.num_rows)
            held.append(part)
            count += part.num_rows
            if count == rows:
                yield _fresh(held, schema)
                held, count = [], 0
    if held:
        yield _fresh(held, schema)


def _fresh(parts: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    table = pa.Table.from_batches([p.select(schema.names) for p in parts]).cast(schema)
    return table.take(pa.array(np.arange(table.num_rows))).combine_chunks().to_batches()[0]


def write_shard(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """One shard as an IPC stream; its rows, bytes and SHA-256. Durable when this returns."""
    rows = 0
    with HashingFile(path) as sink:
        with pa.ipc.new_stream(sink, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        sink.sync()
        return {"rows": rows, "bytes": sink.size, "sha256": sink.hexdigest()}


def shard_name(index: int, count: int) -> str:
    """``data-00000-of-00012.arrow``."""
    return f"data-{index:05d}-of-{count:05d}.arrow"


def dataset_files(schema: pa.Schema, shards: Sequence[str], fingerprint: str) -> Mapping[str, str]:
    """dataset_info.json and state.json, which make a folder of shards a saved ``datasets.Dataset``."""
    features = {f.name: {"dtype": _DTYPES.get(str(f.type), str(f.type)), "_type": "Value"} for f in schema}
    info = {"citation": "", "description": "Written by cleanpipe.", "features": features, "homepage": "", "license": ""}
    state: dict[str, Any] = {
        "_data_files": [{"filename": s} for s in shards],
        "_fingerprint": fingerprint[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    return {"dataset_info.json": json.dumps(info, indent=2), "state.json": json.dumps(state, indent=2)}
