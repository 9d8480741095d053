"""Two ledgers side by side: chunks of columns as numbers, whatever the recipe, and a hash of strings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe.queries.opened_run import OpenRun, damaged

CHUNK = 1 << 18  # rows held of each run at a time
_PIECE = 1 << 16  # rows whose strings are hashed at a time
_CODED = (
    col.SOURCE, col.RECORD_TYPE, col.FATE, col.STAGE, col.REASON, col.DECLARED_TYPE, col.SNIFFED_TYPE, col.MEDIA_TYPE,
    col.CHARSET, col.TRUNCATED, col.LANGUAGE, col.LANGUAGE_PREVIEW,
)  # fmt: skip  # few values each: read as dictionaries
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)  # the first n bytes of 8
UNDECIDED = "undecided"  # no fate yet, in an unfinished run
Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


def fields(run: OpenRun) -> dict[str, pa.DataType]:
    """Columns of the run's ledger, which all its parts have; {} where there is no part."""
    out: dict[str, pa.DataType] = {}
    for part in run.parts[:1]:
        with _readable(run, part):
            out = {field.name: field.type for field in pq.read_schema(part)}
    return out


def rows_of(run: OpenRun) -> int:
    """How many rows the ledger has."""
    rows = 0
    for part in run.parts:
        with _readable(run, part):
            rows += pq.read_metadata(part).num_rows
    return rows


def has_values(run: OpenRun, column: str) -> bool:
    """Whether a column may have a value, as far as the parts' statistics tell."""
    for part in run.parts:
        with _readable(run, part):
            facts = pq.read_metadata(part)
        at = facts.schema.to_arrow_schema().get_field_index(column)
        for group in range(facts.num_row_groups if at >= 0 else 0):
            counted = facts.row_group(group).column(at).statistics
            if counted is None or not counted.has_null_count or counted.null_count < facts.row_group(group).num_rows:
                return True
    return False


@contextmanager
def _readable(run: OpenRun, part: Path) -> Iterator[None]:
    """Raises ConfigError for a part that cannot be read."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        raise damaged(run.root, f"ledger/{part.name}", str(error)) from error


def chunks(run: OpenRun, columns: Sequence[str], rows: int = CHUNK) -> Iterator[tuple[int, pa.Table]]:
    """The ledger in the order of its parts, ``rows`` at a time (the last has fewer): the first row's number in the
    run, and the columns; those that the ledger does not have are null.
    """
    first, held = 0, 0
    waiting: list[pa.RecordBatch] = []
    for part in run.parts:
        with _readable(run, part), pq.ParquetFile(part, read_dictionary=[c for c in _CODED if c in columns]) as file:
            have = set(file.schema_arrow.names)
            for found in file.iter_batches(rows, columns=[c for c in columns if c in have]):
                batch = _completed(found, columns)
                while held + batch.num_rows >= rows:
                    waiting.append(batch.slice(0, rows - held))
                    batch = batch.slice(rows - held)
                    yield first, _together(waiting, columns)
                    first, held, waiting = first + rows, 0, []
                held += batch.num_rows
                waiting.append(batch)
    if held:
        yield first, _together(waiting, columns)


def take(run: OpenRun, numbers: npt.NDArray[np.int64], columns: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Rows by their numbers in the run; row groups without one of them are not read."""
    out: dict[int, dict[str, Any]] = {}
    wanted, first = np.unique(numbers), 0
    for part in run.parts:
        with _readable(run, part), pq.ParquetFile(part) as file:
            have = [c for c in columns if c in set(file.schema_arrow.names)]
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                here = wanted[np.searchsorted(wanted, first) : np.searchsorted(wanted, first + rows)]
                if len(here):
                    found = file.read_row_group(group, columns=have).take(pa.array(here - first)).to_pylist()
                    out.update({int(n): {**dict.fromkeys(columns), **row} for n, row in zip(here, found, strict=True)})
                first += rows
    return out


class Outcomes:
    """(fate, stage, reason) as one number, the same in both runs. ``names`` by number; "" for null."""

    def __init__(self) -> None:
        self.names: list[tuple[str, str, str]] = []
        self._known: dict[tuple[str, str, str], int] = {}

    def codes(self, table: pa.Table) -> Ints:
        """The number of each row's."""
        parts = [coded(table.column(n)) for n in (col.FATE, col.STAGE, col.REASON)]
        code = np.zeros(table.num_rows, np.int64)
        for codes, labels in parts:
            code = code * (len(labels) + 1) + codes + 1
        found, first, at = np.unique(code, return_index=True, return_inverse=True)
        numbers = np.empty(len(found), np.int64)
        for i, row in enumerate(first.tolist()):
            fate, stage, reason = (labels[c[row]] if c[row] >= 0 else "" for c, labels in parts)
            name = (fate or UNDECIDED, stage, reason)
            if name not in self._known:
                self._known[name] = len(self.names)
                self.names.append(name)
            numbers[i] = self._known[name]
        return numbers[at]


def _completed(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    have = set(batch.schema.names)
    arrays = [batch.column(c) if c in have else pa.nulls(batch.num_rows) for c in columns]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _together(batches: Sequence[pa.RecordBatch], columns: Sequence[str]) -> pa.Table:
    """Dictionaries of several parts are made one; a column that only some parts have is null in the others."""
    out = []
    for i in range(len(columns)):
        arrays = [b.column(i) for b in batches]
        kinds = {a.type for a in arrays} - {pa.null()}
        kind = kinds.pop() if kinds else pa.null()
        out.append(pa.chunked_array([a.cast(kind) for a in arrays]).unify_dictionaries())
    return pa.table(out, names=list(columns))


def whole(values: pa.ChunkedArray) -> pa.Array:
    """In one piece."""
    return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)


def coded(values: pa.ChunkedArray) -> tuple[Ints, list[str]]:
    """For each row the index of its label, -1 for null; labels are the values as text."""
    if not pa.types.is_dictionary(values.type):
        values = values.cast(pa.string()).dictionary_encode()
    one = whole(values)
    codes = pc.fill_null(one.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes, [str(v) for v in one.dictionary.cast(pa.string()).to_pylist()]


def words(values: pa.ChunkedArray) -> tuple[Hashes, Hashes]:
    """16-byte ids as two numbers each; (0, 0) for null."""
    if pa.types.is_null(values.type) or not len(values):
        none = np.zeros(len(values), np.uint64)
        return none, none
    one = whole(values)
    raw = np.frombuffer(one.buffers()[1], "<u8").reshape(-1, 2)[one.offset : one.offset + len(one)]
    if one.null_count:
        raw = np.where(np.asarray(one.is_valid())[:, None], raw, 0)
    return raw[:, 0], raw[:, 1]


def floats(values: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """Null as NaN."""
    return np.asarray(whole(values.cast(pa.float64())).to_numpy(zero_copy_only=False), dtype=np.float64)


def mixed(x: Hashes, seed: int = 0) -> Hashes:
    """splitmix64's finish, keyed: a bijection that leaves no order of the input."""
    x = x + np.uint64(0x9E3779B97F4A7C15 * (seed + 1) % (1 << 64))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def hashed(values: pa.Array, seed: int = 0) -> Hashes:
    """64-bit hashes of strings, the same in every process; null is hashed as "".

    Each 8 bytes, keyed by their place, are mixed by splitmix64 and added up; two strings share a hash by chance alone,
    unless someone aims at it.
    """
    out = np.empty(len(values), np.uint64)
    for at in range(0, len(values), _PIECE):
        piece = pa.concat_arrays([pc.fill_null(values.slice(at, _PIECE), "").cast(pa.large_binary())])
        offsets = np.frombuffer(piece.buffers()[1], np.int64)[piece.offset : piece.offset + len(piece) + 1]
        lengths, first = np.diff(offsets), offsets[0]
        data = bytes(memoryview(piece.buffers()[2] or b"")[first : offsets[-1]]) + bytes(8)
        words_at = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))  # the 8 bytes from every byte on
        many = (lengths + 7) // 8
        ends = np.cumsum(many)
        place = np.arange(int(many.sum())) - np.repeat(ends - many, many)
        left = np.repeat(lengths, many) - 8 * place
        word = words_at[np.repeat(offsets[:-1] - first, many) + 8 * place] & _MASKS[np.minimum(left, 8)]
        terms = mixed(word ^ mixed(np.arange(int(many.max(initial=0))).astype(np.uint64), seed + 1)[place])
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        out[at : at + len(piece)] = mixed(sums[ends] - sums[ends - many] + lengths.astype(np.uint64), seed)
    return out
