"""Columns of whole pages and texts: made and picked from in one copy of their bytes.

Arrow's own ways grow such an array value by value, or copy it where a row in a thousand is another: for bodies of
megabytes that is most of what they cost, and twice the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_WIDE = (pa.large_binary(), pa.large_string())


def joined(values: Sequence[bytes | memoryview]) -> pa.Array:
    """A large_binary array of these values. None of them is null."""
    return _array(pa.large_binary(), np.fromiter(map(len, values), np.int64, len(values)), values)


def replaced(column: pa.Array, others: Sequence[bytes | None]) -> pa.Array:
    """A large_binary or large_string column with others[n] in row n where that is not None; null in no row."""
    changed = np.array([n for n, other in enumerate(others) if other is not None], np.int64)
    if not len(changed):
        return column
    data, ends = parts(column)
    places, pieces, begin = ends.tolist(), list[bytes | memoryview](), 0
    sizes = np.diff(ends)
    for row in changed.tolist():
        other = others[row] or b""
        pieces += data[places[begin] : places[row]], other
        sizes[row], begin = len(other), row + 1
    return _array(column.type, sizes, [*pieces, data[places[begin] : places[-1]]])


def kept(rows: pa.RecordBatch, keep: npt.NDArray[np.bool_]) -> pa.RecordBatch:
    """The rows for which ``keep`` holds, [n]."""
    wide = {name: rows.column(name) for name, kind in zip(rows.schema.names, rows.schema.types, strict=True)
            if kind in _WIDE and not rows.column(name).null_count}  # fmt: skip
    rest = rows.drop_columns(list(wide)).filter(pa.array(keep))
    if not wide:
        return rest
    edges = np.flatnonzero(np.diff(np.concatenate(([False], keep, [False])).view(np.int8)))  # of runs that are kept
    columns = []
    for name in rows.schema.names:
        if name not in wide:
            columns.append(rest.column(name))
            continue
        data, ends = parts(wide[name])
        places = ends[edges].tolist()
        pieces = [data[a:b] for a, b in zip(places[::2], places[1::2], strict=True)]
        columns.append(_array(wide[name].type, np.diff(ends)[keep], pieces))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def parts(column: pa.Array) -> tuple[memoryview, npt.NDArray[np.int64]]:
    """The bytes, not copied, and n + 1 places between the n rows."""
    _, offsets, data = column.buffers()
    ends = np.zeros(1, np.int64) if offsets is None else np.frombuffer(offsets, np.int64)[column.offset :]
    return memoryview(b"" if data is None else data).cast("B"), ends[: len(column) + 1]


def _array(kind: pa.DataType, sizes: npt.NDArray[np.int64], pieces: Iterable[bytes | memoryview]) -> pa.Array:
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    data = pa.allocate_buffer(int(ends[-1]))  # of Arrow's pool, whose pages are used again
    view, at = memoryview(data).cast("B"), 0
    for piece in pieces:
        view[at : (at := at + len(piece))] = piece
    return pa.Array.from_buffers(kind, len(sizes), [None, pa.py_buffer(ends), data])
