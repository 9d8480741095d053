"""All documents of a meeting in one total order, and their exact groups."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.exchange import Part
from cleanpipe_stages.dedup.hashing import Words

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Documents:
    """n documents by rank: longest first, then the earliest capture, then by a hash of the URL, then by doc_id.

    Capture and URL come before doc_id (which is of the file's name and offset), so that the same pages in another
    container, ARC or WARC, keep the same copy. A place counts rows through the parts as they come.

    places: int64 of n, the place of each rank. first: int64 of n, the lowest rank with the same content.
    lengths: int64 of n, code points, by place. starts: int64 of parts + 1, the place of each part's first row.
    """

    places: Ints
    first: Ints
    lengths: Ints
    starts: Ints

    def __len__(self) -> int:
        return self.places.size


def arrange(parts: Sequence[Part]) -> Documents:
    """Read the narrow columns of all parts and put the documents in order."""
    starts = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum([part.rows for part in parts], dtype=np.int64)))
    lengths = np.concatenate([np.zeros(0, dtype=np.int64), *(_integers(part.column(col.LENGTH)) for part in parts)])
    ids = _gather(parts, col.DOC_ID)
    urls = np.concatenate([np.zeros(0, dtype=np.uint64), *(addresses(part.column(col.URL)) for part in parts)])
    captured = np.concatenate([np.zeros(0, dtype=np.int64), *(dates(part.column(col.DATE)) for part in parts)])
    keys = (ids[1], ids[0], urls, captured, -lengths)
    places = np.lexsort(keys)  # keep priority; equal ids cannot be, and would go by place
    del ids, keys, urls, captured
    content = _gather(parts, col.CONTENT_ID, instead=col.DOC_ID)[:, places]
    by_content = np.lexsort((content[1], content[0]))  # stable: inside a group the ranks ascend
    content = content[:, by_content]
    head = np.ones(places.size, dtype=np.bool_)
    head[1:] = np.any(content[:, 1:] != content[:, :-1], axis=0)
    del content
    first = np.empty_like(by_content)
    first[by_content] = by_content[head][np.cumsum(head) - 1]
    return Documents(places, first, lengths, starts)


def identifiers(column: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    """The bytes of a column of 16-byte ids: uint8 of (rows, 16); nulls are whatever lies there."""
    pieces = [np.zeros((0, 16), dtype=np.uint8)]
    for chunk in column.chunks:
        if len(chunk):
            data = np.frombuffer(chunk.buffers()[1], dtype=np.uint8)
            pieces.append(data[16 * chunk.offset : 16 * (chunk.offset + len(chunk))].reshape(-1, 16))
    return np.concatenate(pieces)


def dates(column: pa.ChunkedArray) -> Ints:
    """Seconds since 1970 of each capture; an unknown one is the latest."""
    return np.asarray(column.cast(pa.int64()).fill_null(np.iinfo(np.int64).max).to_numpy())


def addresses(column: pa.ChunkedArray | pa.Array) -> Words:
    """A 64-bit hash of each URL: a total order of few bytes."""
    out = np.empty(len(column), dtype=np.uint64)
    place = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        for url in chunk.to_pylist():
            digest = hashlib.blake2b((url or "").encode(), digest_size=8).digest()
            out[place] = int.from_bytes(digest, "big")
            place += 1
    return out


def words_of(column: pa.ChunkedArray | pa.Array, half: int = 0) -> tuple[Words, npt.NDArray[np.bool_]]:
    """Eight bytes of each value of a column of ids (of 8 or 16 bytes), the first or the second; and which are there."""
    words = [np.zeros(0, dtype=np.uint64)]
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        if len(chunk):
            width = chunk.type.byte_width // 8
            stored = np.frombuffer(chunk.buffers()[1], dtype=">u8")[width * chunk.offset :]
            words.append(stored[half : width * len(chunk) : width].astype(np.uint64))
    return np.concatenate(words), np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def _integers(column: pa.ChunkedArray) -> Ints:
    return np.asarray(column.cast(pa.int64()).fill_null(0).to_numpy())


def _gather(parts: Sequence[Part], name: str, *, instead: str | None = None) -> Words:
    """The ids of all parts: uint64 of (2, documents), the upper eight bytes first; ``instead`` serves where null."""
    halves = np.empty((2, sum(part.rows for part in parts)), dtype=np.uint64)
    done = 0
    for part in parts:
        column = part.column(name)
        ids = identifiers(column)
        if column.null_count and instead is not None:
            absent = np.asarray(column.is_null().to_numpy())
            ids[absent] = identifiers(part.column(instead))[absent]
        halves[:, done : done + len(ids)] = ids.view(">u8").T
        done += len(ids)
    return halves
