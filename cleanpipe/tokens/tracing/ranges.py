"""From documents back to their tokens: which to take out of a store, and which sequences of a plan held them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.tokens.decisions_effects import documents_of, pairs
from cleanpipe.tokens.decisions_lines import CONTENT_ID, DOC_ID, HOST_KEY, URL, Decision
from cleanpipe.tokens.tracing.origin import Origin

if TYPE_CHECKING:
    from cleanpipe.tokens.reading.plan import Plan
    from cleanpipe.tokens.store import TokenStore

_COLUMNS = (
    col.DOC_ID, col.CONTENT_ID, col.URL, col.SOURCE, col.RECORD_OFFSET, col.RECORD_LENGTH, col.OFFSET_KIND,
)  # fmt: skip
_WHOLE = re.compile(r"[0-9a-fA-F]{32}")
Numbers = npt.NDArray[np.int64]
__all__ = [
    "CONTENT_ID", "DOC_ID", "HOST_KEY", "URL", "Key", "Range", "beginning", "doc_ids", "documents_with", "ranges",
    "ranges_of", "sequences_of",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Key:
    """What documents are found by: a kind (doc_id, content_id, url, host) and a value, as in a decision."""

    kind: str
    value: str

    @classmethod
    def of(cls, text: str) -> Key:
        """A doc_id where it looks like one, else a URL."""
        return cls(DOC_ID if _WHOLE.fullmatch(text) else URL, text)

    def decision(self) -> Decision:
        """One that hits the same documents. Raises ConfigError where the value is none of its kind."""
        return Decision("mask", self.kind, self.value).checked()


def beginning(store: TokenStore, kind: str, digits: str) -> list[str]:
    """The doc_ids (or content_ids) of documents that begin with these hex digits, each once, sorted."""
    column = {DOC_ID: col.DOC_ID, CONTENT_ID: col.CONTENT_ID}[kind]
    low, high = (bytes.fromhex(digits.ljust(32, fill)) for fill in "0f")
    found: set[bytes] = set()
    for shard in range(len(store.shards)):
        for chunk in store.spans(shard).column(column).chunks:
            ids = _words(chunk)
            (a, b), (c, d) = _words(pa.array([low, high], col.ID))
            above = (ids[:, 0] > a) | ((ids[:, 0] == a) & (ids[:, 1] >= b))
            below = (ids[:, 0] < c) | ((ids[:, 0] == c) & (ids[:, 1] <= d))
            found.update(chunk.take(pa.array(np.flatnonzero(above & below))).to_pylist())
    return sorted(one.hex() for one in found if one is not None)


def _words(ids: pa.Array) -> npt.NDArray[np.uint64]:
    """(n, 2): ids of 16 bytes as two numbers that order as they do."""
    data = np.frombuffer(ids.buffers()[1], ">u8", 2 * len(ids), 16 * ids.offset)
    return data.reshape(-1, 2).astype(np.uint64)


def documents_with(store: TokenStore, keys: Sequence[Key]) -> Numbers:
    """The global numbers of all documents that one of the keys names, rising. One pass over the spans' columns."""
    wanted = [key.decision() for key in keys]
    found = [np.zeros(0, np.int64)]
    for shard in range(len(store.shards)):
        rows, _ = pairs(wanted, documents_of(store.spans(shard)))
        found.append(np.unique(rows) + int(store.document_starts[shard]))
    return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class Range:
    """A document's tokens, BOS and EOS included; the fields are those of ``Origin``."""

    document: int
    doc_id: str
    content_id: str
    url: str | None
    source: str
    record_offset: int
    record_length: int
    offset_kind: str
    shard: str
    shard_start: int
    shard_stop: int
    token_start: int
    token_stop: int
    byte_start: int
    byte_stop: int


def ranges_of(store: TokenStore, keys: Key | str | Sequence[Key | str]) -> list[Range]:
    """All documents that the keys name, with their ranges of tokens and bytes, in the store's order.

    keys: one or several; a text of 32 hex digits is a doc_id, any other text a URL.
    """
    given = [keys] if isinstance(keys, (Key, str)) else keys
    return ranges(store, documents_with(store, [k if isinstance(k, Key) else Key.of(k) for k in given]))


def ranges(store: TokenStore, documents: Numbers) -> list[Range]:
    """Of some global documents, rising. One shard's spans at a time."""
    out: list[Range] = []
    width = store.dtype.itemsize
    for shard, within in by_shard(store, documents):
        rows = documents_of(store.spans(shard), _COLUMNS).take(pa.array(within))
        columns = [rows.column(n).to_pylist() if n in rows.column_names else [None] * len(within) for n in _COLUMNS]
        offsets = np.asarray(store.offsets(shard))
        first, base = int(store.document_starts[shard]), int(store.token_starts[shard])
        spans = offsets[within].tolist(), offsets[within + 1].tolist()
        for number, a, b, *about in zip(within.tolist(), *spans, *columns, strict=True):
            doc_id, content_id, url, source, offset, length, kind = about
            record = url, str(source), int(offset), int(length), str(kind)
            places = a, b, base + a, base + b, a * width, b * width
            out.append(Range(first + number, doc_id.hex(), content_id.hex(), *record, store.shards[shard], *places))
    return out


def by_shard(store: TokenStore, documents: Numbers) -> Iterator[tuple[int, Numbers]]:
    """Global documents, rising, as shards and the documents' numbers there."""
    edges = np.searchsorted(documents, store.document_starts)
    for shard, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        if low < high:
            yield shard, documents[low:high] - int(store.document_starts[shard])


def sequences_of(plan: Plan, found: Range | Origin, *, source: int = 0, epoch: int = 0) -> Numbers:
    """The global sequences of an epoch of a plan that hold tokens of a document, rising. source: its store's place."""
    try:
        held: Numbers = plan.sequences_of(source, found.token_start, found.token_stop, epoch)
    except ValueError:  # a store of weight 0
        return np.zeros(0, np.int64)
    return held


def doc_ids(store: TokenStore, documents: Numbers) -> pa.Array:
    """The doc_ids of some global documents, rising. One shard's spans at a time."""
    parts: list[pa.Array] = []
    for shard, within in by_shard(store, documents):
        ids = documents_of(store.spans(shard)).column(col.DOC_ID).take(pa.array(within))
        parts += ids.chunks
    return pa.concat_arrays(parts) if parts else pa.array([], col.ID)
