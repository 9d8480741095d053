"""Corpora of columns: Parquet by row groups, Arrow by record batches; our own shards' windows joined to documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe.corpus import rows as why
from cleanpipe.corpus.files import PARQUET, STREAM, CorpusFile, Segment
from cleanpipe.corpus.rows import MAX_BYTES, MAX_ROWS, MAX_TEXT, Pieces, Problem, Rows, as_name, decoded

_AS_BYTES = {"large_string": pa.large_binary(), "string_view": pa.binary_view()}  # no look at the bytes, as `cast` goes
_DAMAGE = (OSError, pa.ArrowException, ValueError, KeyError, IndexError)
Numbered = tuple[int, pa.RecordBatch]  # its first row, counted from the segment's first


def shape(file: CorpusFile) -> tuple[pa.Schema, list[int]]:
    """Schema, and bytes of each row group or record batch ([] for a stream). Raises OSError or ArrowException."""
    if file.kind == PARQUET:
        with pq.ParquetFile(file.path) as parquet:
            meta = parquet.metadata
            return parquet.schema_arrow, [_group_bytes(meta.row_group(i)) for i in range(meta.num_row_groups)]
    if file.kind == STREAM:
        with pa.ipc.open_stream(pa.OSFile(file.path)) as reader:
            return reader.schema, []
    reader = pa.ipc.open_file(pa.memory_map(file.path))
    count = reader.num_record_batches
    return reader.schema, [max(1, file.size // max(1, count))] * count


def _group_bytes(group: Any) -> int:
    return max(1, sum(int(group.column(i).total_compressed_size) for i in range(group.num_columns)))


def _size(group: Any) -> tuple[int, int]:
    return int(group.num_rows), int(group.total_byte_size)


def _few(rows: int, size: int) -> int:
    """Rows that are held at once, so that long texts do not come by the thousand."""
    return max(1, min(MAX_ROWS, MAX_BYTES * rows // max(1, size)))


def rows_before(segment: Segment) -> int:
    """Rows of the file that lie before the segment."""
    if segment.first == 0:
        return 0
    if segment.file.kind == PARQUET:
        with pq.ParquetFile(segment.file.path) as parquet:
            return sum(int(parquet.metadata.row_group(i).num_rows) for i in range(segment.first))
    reader = pa.ipc.open_file(pa.memory_map(segment.file.path))
    return sum(reader.get_batch(i).num_rows for i in range(segment.first))


def count_rows(segment: Segment) -> int:
    """Rows of the segment, by metadata where there are some."""
    if segment.file.kind == PARQUET:
        with pq.ParquetFile(segment.file.path) as parquet:
            return sum(int(parquet.metadata.row_group(i).num_rows) for i in range(segment.first, segment.last))
    return sum(batch.num_rows for batch in _batches(segment, [], 0, 0))


@contextmanager
def _parquet(path: str) -> Iterator[pq.ParquetFile]:
    with pq.ParquetFile(path, memory_map=True, pre_buffer=False) as parquet:
        yield parquet


def _batches(segment: Segment, names: Sequence[str], first: int, last: int) -> Iterator[pa.RecordBatch]:
    """Record batches of pieces first..last-1 with the named columns; all columns for []."""
    file = segment.file
    roots = sorted({n.split(".")[0] for n in names if n})
    if file.kind == PARQUET:
        with _parquet(file.path) as parquet:
            top = set(parquet.schema_arrow.names)
            wanted = [n if n in top else r for n, r in ((n, n.split(".")[0]) for n in names if n)]
            groups = list(range(first, last))
            rows = min((_few(*_size(parquet.metadata.row_group(g))) for g in groups), default=MAX_ROWS)
            yield from parquet.iter_batches(rows, row_groups=groups, columns=wanted or None, use_threads=False)
    elif file.kind == STREAM:
        with pa.ipc.open_stream(pa.OSFile(file.path)) as reader:
            yield from reader
    else:
        keep = None
        with pa.memory_map(file.path) as source:
            schema = pa.ipc.open_file(source).schema
            if names:
                keep = sorted(schema.get_field_index(n) for n in schema.names if n in names or n in roots)
            options = pa.ipc.IpcReadOptions(included_fields=keep)
            reader = pa.ipc.open_file(source, options=options)
            stop = reader.num_record_batches if last < 0 else last
            for i in range(first, stop):
                yield reader.get_batch(i)


def _pieces(segment: Segment, problems: list[Problem], names: Sequence[str]) -> Iterator[Numbered]:
    """Batches in slices of MAX_ROWS; a row group that cannot be read is one problem, the next is tried."""
    at = 0
    starts = [(n, n + 1) for n in range(segment.first, segment.last)] if segment.last >= 0 else [(0, -1)]
    for first, last in starts:
        begin = at
        try:
            for batch in _batches(segment, names, first, last):
                step = _few(batch.num_rows, batch.nbytes)
                for start in range(0, batch.num_rows, step):
                    yield at + start, batch.slice(start, step)
                at += batch.num_rows
        except _DAMAGE as error:
            what = "row group" if segment.file.kind == PARQUET else "record batch" if last >= 0 else "rest"
            problems.append(Problem(why.DAMAGED, at, f"{what} {first}: {type(error).__name__}: {error}"[:200]))
            if segment.file.kind == PARQUET:
                with _parquet(segment.file.path) as parquet:
                    at = begin + parquet.metadata.row_group(first).num_rows


def field_of(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    """A column by its dotted name; None where it is not there."""
    if not name:
        return None
    if name in batch.schema.names:
        return batch.column(name)
    root, *rest = name.split(".")
    if root not in batch.schema.names:
        return None
    values = batch.column(root)
    for at, part in enumerate(rest):
        whole = ".".join(rest[at:])
        if not pa.types.is_struct(values.type):
            return None
        names = [f.name for f in values.type]
        if whole in names:
            return pc.struct_field(values, whole)
        if part not in names:
            return None
        values = pc.struct_field(values, part)
    return values


def _strings(values: pa.Array | None, n: int) -> tuple[list[Any], list[int]]:
    """Values as Python has them, text decoded; and for each the bytes that are no UTF-8."""
    if values is None:
        return [None] * n, [0] * n
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    try:
        if not (pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)):
            return values.to_pylist(), [0] * n
    except UnicodeDecodeError:
        values = values.cast(_AS_BYTES.get(str(values.type), pa.binary()))
    both = [(None, 0) if v is None else decoded(v) for v in values.to_pylist()]
    return [t for t, _ in both], [i for _, i in both]


def _names(values: pa.Array | None, n: int) -> list[str | None]:
    if values is None:
        return [None] * n
    if pa.types.is_fixed_size_binary(values.type):
        return [None if v is None else v.hex() for v in values.to_pylist()]
    return [as_name(v) for v in _strings(values, n)[0]]


def read_table(segment: Segment, chosen: frozenset[int] | None) -> Pieces:
    """One document a row."""
    columns = segment.columns
    names = [columns.text, columns.url, columns.id]
    base = rows_before(segment)
    problems: list[Problem] = []
    for at, batch in _pieces(segment, problems, names):
        rows = Rows(read=batch.num_rows)
        rows.problems, problems[:] = list(problems), []
        n = batch.num_rows
        wanted = [at + i for i in range(n) if chosen is None or at + i in chosen]
        if len(wanted) < n:
            batch = batch.take(pa.array([w - at for w in wanted], pa.int64()))
            n = len(wanted)
        texts, invalid = _strings(field_of(batch, columns.text), n)
        urls, ids = (_names(field_of(batch, name), n) for name in (columns.url, columns.id))
        for place, text, url, id_, bad in zip(wanted, texts, urls, ids, invalid, strict=True):
            if not isinstance(text, str):
                kind = why.NULL_TEXT if text is None else why.NOT_TEXT
                rows.problems.append(Problem(kind, place, f"{columns.text!r} is {type(text).__name__}"))
            elif len(text) > MAX_TEXT:
                rows.problems.append(Problem(why.TOO_LARGE, place, f"{len(text):,} characters"))
            else:
                rows.add(place, base + place, text, url, id_, bad)
        yield rows
    yield Rows(problems=problems)


_OURS = (col.TEXT, col.URL, col.DOC_ID, col.WINDOW, col.WINDOWS, col.OVERLAP)


def read_windows(segment: Segment, chosen: frozenset[int] | None) -> Pieces:
    """One document for all its windows; a document belongs to the segment where its first window stands."""
    rows = Rows()
    held: list[dict[str, Any]] = []
    number, begun = -1, segment.first == 0
    base = rows_before(segment)

    def close() -> None:
        nonlocal number
        if not held:
            return
        number += 1
        first = held[0]
        rows.read += 1
        if chosen is None or number in chosen:
            text = first[col.TEXT] + "".join(w[col.TEXT][w[col.OVERLAP] :] for w in held[1:])
            if [w[col.WINDOW] for w in held] != list(range(int(first[col.WINDOWS] or 1))):
                rows.problems.append(Problem(why.TORN, number, f"{len(held)} of {first[col.WINDOWS]} windows"))
            rows.add(number, first["row"], text, as_name(first[col.URL]), as_name(first[col.DOC_ID]), 0, len(held))
        held.clear()

    problems: list[Problem] = []
    for at, batch in _with_tail(segment, problems):
        rows.problems += problems
        problems.clear()
        for i, row in enumerate(batch.select([n for n in _OURS if n in batch.schema.names]).to_pylist()):
            mine = at >= 0  # else only what the last document still needs
            new = row[col.WINDOW] == 0 or (held and held[-1][col.DOC_ID] != row[col.DOC_ID])
            if new:
                close()
                if not mine:
                    yield rows
                    return
                begun = True
            if begun and isinstance(row[col.TEXT], str):
                held.append({**row, "row": base + at + i})
            if rows.full:
                yield rows
                rows = Rows()
    close()
    rows.problems += problems
    yield rows


def _with_tail(segment: Segment, problems: list[Problem]) -> Iterator[Numbered]:
    """The segment's batches, then those behind it, numbered -1 and less, until the reader has had enough."""
    yield from _pieces(segment, problems, _OURS)
    if segment.last >= 0 and segment.file.kind != STREAM:
        try:
            count = len(shape(segment.file)[1])
            for n in range(segment.last, count):
                for batch in _batches(segment, _OURS, n, n + 1):
                    for start in range(0, batch.num_rows, MAX_ROWS):
                        yield -1 - start - batch.num_rows, batch.slice(start, MAX_ROWS)
        except _DAMAGE as error:
            problems.append(Problem(why.DAMAGED, -1, f"{type(error).__name__}: {error}"[:200]))
