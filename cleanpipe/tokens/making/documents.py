"""Windows back to documents: neighbouring rows of a shard, less what they repeat, are one document again.

A document is believed only where its windows are all there, in order, and say of themselves what is true; another one
is broken, and costs itself alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col

NEEDED = (
    col.DOC_ID, col.TEXT, col.LENGTH, col.BYTES, col.WINDOW, col.WINDOWS, col.CHAR_START, col.CHAR_END, col.OVERLAP,
)  # fmt: skip
DOCUMENTS, BYTES = 1000, 4 << 20  # of a piece, at most; a longer document is a piece of its own
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """Whole documents, neighbours in a shard.

    rows: all of their rows. starts: (documents + 1,) where each document's rows begin. texts: of each document, None of
    a broken one. first: the number of the first of them in the shard.
    """

    rows: pa.RecordBatch
    starts: Numbers
    texts: list[str | None]
    first: int

    def __len__(self) -> int:
        return len(self.texts)

    def numbers(self, name: str) -> Numbers:
        """A column of whole numbers, by row."""
        return _numbers(self.rows, name)

    def firsts(self, name: str) -> pa.Array:
        """A column, of each document's first row."""
        return self.rows.column(name).take(pa.array(self.starts[:-1]))

    def part(self, begin: int, end: int) -> Piece:
        """Some of its documents."""
        if (begin, end) == (0, len(self)):
            return self
        low, high = int(self.starts[begin]), int(self.starts[end])
        starts = self.starts[begin : end + 1] - low
        return Piece(self.rows.slice(low, high - low), starts, self.texts[begin:end], self.first + begin)


def documents_of(batches: Iterable[pa.RecordBatch], *, most: int = DOCUMENTS, size: int = BYTES) -> Iterator[Piece]:
    """The documents of a shard in pieces that do not depend on where its batches end.

    batches: of the shard, in order. most, size: documents of a piece, and bytes of its rows' texts.
    """
    first = 0
    for rows, starts in _whole(batches, most, size):
        yield _piece(rows, starts, first)
        first += len(starts) - 1


def _whole(batches: Iterable[pa.RecordBatch], most: int, size: int) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
    """Rows of whole documents, so many at a time, and where each document begins among them."""
    held: list[pa.RecordBatch] = []  # rows that are not given away yet, the first one begins a document
    begins: list[int] = []  # places among them where a document begins
    sizes: list[int] = []  # bytes of text up to there
    rows = taken = 0
    last: tuple[bytes | None, int] | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        lengths = pc.fill_null(pc.binary_length(batch.column(col.TEXT)), 0).to_numpy(zero_copy_only=False)
        before = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        found, last = _begins(batch, last)
        held.append(batch)
        for at in found.tolist():
            begins.append(rows + at)
            sizes.append(taken + int(before[at]))
            if len(begins) > 1 and (len(begins) - 1 >= most or sizes[-1] - sizes[0] >= size):
                cut = _cut(held, begins[-1], begins)
                yield cut
                gone = begins[-1]
                held = [b for b in held if b.num_rows]
                begins, sizes = [0], [sizes[-1]]
                rows -= gone
        rows += batch.num_rows
        taken += int(before[-1])
    if held:
        yield _cut(held, sum(b.num_rows for b in held), [*begins, sum(b.num_rows for b in held)])


def _cut(held: list[pa.RecordBatch], count: int, begins: Sequence[int]) -> tuple[pa.RecordBatch, Numbers]:
    """Take the first ``count`` rows away."""
    parts, left = [], count
    for at, batch in enumerate(held):
        part = batch.slice(0, left)
        parts.append(part)
        held[at] = batch.slice(part.num_rows)
        left -= part.num_rows
        if not left:
            break
    whole = parts[0] if len(parts) == 1 else pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
    return whole, np.array(begins, np.int64)


def _begins(batch: pa.RecordBatch, last: tuple[bytes | None, int] | None) -> tuple[Numbers, tuple[bytes | None, int]]:
    """Rows where a document begins: another doc_id, or the first window again."""
    ids = batch.column(col.DOC_ID)
    windows = _numbers(batch, col.WINDOW)
    other = np.ones(batch.num_rows, bool)
    if batch.num_rows > 1:
        same = pc.fill_null(pc.equal(ids.slice(1), ids.slice(0, len(ids) - 1)), False)
        other[1:] = ~same.to_numpy(zero_copy_only=False) | (windows[1:] == 0)
    if last is not None:
        other[0] = ids[0].as_py() != last[0] or windows[0] == 0
    return np.flatnonzero(other), (ids[-1].as_py(), int(windows[-1]))


def _piece(rows: pa.RecordBatch, starts: Numbers, first: int) -> Piece:
    texts = _texts(rows)
    sound = _sound(rows, starts, texts).tolist()
    overlaps, ends = _numbers(rows, col.OVERLAP).tolist(), starts.tolist()
    out = [_joined(texts, overlaps, a, b) if good else None for good, a, b in zip(sound, ends, ends[1:], strict=False)]
    return Piece(rows, starts, out, first)


def _joined(texts: list[str | None], overlaps: list[int], begin: int, end: int) -> str | None:
    """The text of one document; None where windows do not repeat what they say."""
    if end - begin == 1:
        return texts[begin]
    parts, before = [], ""
    for row in range(begin, end):
        text, overlap = texts[row], overlaps[row]
        if text is None or (overlap and before[-overlap:] != text[:overlap]):
            return None
        parts.append(text[overlap:] if overlap else text)
        before = text
    return "".join(parts)


def _texts(rows: pa.RecordBatch) -> list[str | None]:
    try:
        return list(rows.column(col.TEXT).to_pylist())
    except UnicodeDecodeError:
        out: list[str | None] = []
        for value in rows.column(col.TEXT):
            try:
                out.append(value.as_py())
            except UnicodeDecodeError:
                out.append(None)
        return out


def _sound(rows: pa.RecordBatch, starts: Numbers, texts: list[str | None]) -> npt.NDArray[np.bool_]:
    """Of each document, whether every row is what it says and stands where it should."""
    n = rows.num_rows
    if not n:
        return np.zeros(0, bool)
    good = np.ones(n, bool)
    for name in NEEDED:
        if rows.column(name).null_count:
            good &= rows.column(name).is_valid().to_numpy(zero_copy_only=False)
    length, begin, end = (_numbers(rows, c) for c in (col.LENGTH, col.CHAR_START, col.CHAR_END))
    window, windows, overlap = (_numbers(rows, c) for c in (col.WINDOW, col.WINDOWS, col.OVERLAP))
    size = pc.fill_null(pc.binary_length(rows.column(col.TEXT)), -1).to_numpy(zero_copy_only=False)
    good &= np.fromiter((-1 if t is None else len(t) for t in texts), np.int64, n) == length
    good &= (size == _numbers(rows, col.BYTES)) & (end - begin == length)
    counts = np.diff(starts)
    row = np.arange(n) - np.repeat(starts[:-1], counts)
    good &= (window == row) & (windows == np.repeat(counts, counts))
    first = row == 0
    before = np.concatenate([[0], end[:-1]])
    good &= begin + overlap == np.where(first, 0, before)
    good &= (overlap >= 0) & (overlap <= np.maximum(length - 1, 0)) & (~first | (overlap == 0))
    rising = (begin > np.concatenate([[0], begin[:-1]])) & (end > before)
    good &= first | rising
    return np.logical_and.reduceat(good, starts[:-1])


def _numbers(rows: pa.RecordBatch, name: str) -> Numbers:
    values = rows.column(name)
    if values.null_count:
        values = pc.fill_null(values, -1)
    return np.asarray(values.to_numpy(zero_copy_only=False), np.int64)
