"""Where a document of a store came from: its record, its scores, and which tokens and bytes of the payload it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.queries.explain import plain
from cleanpipe.tokens import layout

if TYPE_CHECKING:
    from cleanpipe.tokens.store import TokenStore

Numbers = npt.NDArray[np.int64]
_NO_SCORES = frozenset(
    {*layout.SPAN_COLUMNS, *col.READ_COLUMNS, *col.WINDOW_COLUMNS, *col.TEXT_COLUMNS, col.LANGUAGE, layout.WEIGHT}
)


@dataclass(frozen=True, slots=True)
class Window:
    """A window of the run and its tokens.

    char_start, char_end: in the cleaned text, in code points. token_start, token_stop: global numbers. token_overlap:
    how many at its begin the window before holds already. stripped: blanks left out at the begin of what was encoded.
    """

    window: int
    windows: int
    char_start: int
    char_end: int
    token_start: int
    token_stop: int
    token_overlap: int
    stripped: int


@dataclass(frozen=True, slots=True)
class Origin:
    """A document of a store.

    document: its global number. shard: its file of the payload, where it is the tokens shard_start ≤ t < shard_stop,
    the bytes byte_start ≤ b < byte_stop. token_start, token_stop: the same tokens by global number; BOS and EOS are
    part of it. record_offset, record_length, offset_kind: of its record in ``source`` (see ``cleanpipe.batch``).
    scores: what the run measured, as JSON has it; null where it could not.
    """

    document: int
    doc_id: str
    content_id: str
    url: str | None
    source: str
    record_offset: int
    record_length: int
    offset_kind: str
    record_id: str | None
    date: str | None
    language: str | None
    scores: Mapping[str, Any]
    shard: str
    shard_start: int
    shard_stop: int
    token_start: int
    token_stop: int
    byte_start: int
    byte_stop: int
    windows: tuple[Window, ...] = field(repr=False)

    @property
    def tokens(self) -> int:
        """BOS and EOS included."""
        return self.token_stop - self.token_start


def rows_of(store: TokenStore, document: int) -> pa.Table:
    """The rows of a global document in its shard's spans: a slice of the map, found by bisection."""
    shard, within = store.shard_of_document(document)
    spans, first = store.spans(shard), 0
    low, high = -1, -1
    for chunk in spans.column(layout.DOCUMENT).chunks:
        numbers = chunk.to_numpy()
        if len(numbers) and numbers[0] <= within <= numbers[-1]:
            begin, end = np.searchsorted(numbers, [within, within + 1])
            low, high = first + int(begin) if low < 0 else low, first + int(end)
        elif low >= 0:
            break
        first += len(numbers)
    if low < 0:  # every document has a row
        raise IndexError(f"document {document:,} has no row in the spans of {store.shards[shard]}")
    return spans.slice(low, high - low)


def origin_of(store: TokenStore, document: int) -> Origin:
    """Of a global document."""
    rows = rows_of(store, document)
    shard, _ = store.shard_of_document(document)
    base = int(store.token_starts[shard])
    start, stop = store.document_range(document)
    first = {n: rows.column(n)[0].as_py() for n in rows.column_names}
    width = store.dtype.itemsize
    date = first.get(col.DATE)
    return Origin(
        document=document,
        doc_id=first[col.DOC_ID].hex(),
        content_id=first[col.CONTENT_ID].hex(),
        url=first.get(col.URL),
        source=str(first[col.SOURCE]),
        record_offset=int(first[col.RECORD_OFFSET]),
        record_length=int(first[col.RECORD_LENGTH]),
        offset_kind=str(first[col.OFFSET_KIND]),
        record_id=first.get(col.RECORD_ID),
        date=None if date is None else date.isoformat(),
        language=first.get(col.LANGUAGE),
        scores={n: None if v != v else v for n, v in plain(first).items() if n not in _NO_SCORES},
        shard=store.shards[shard],
        shard_start=start - base,
        shard_stop=stop - base,
        token_start=start,
        token_stop=stop,
        byte_start=(start - base) * width,
        byte_stop=(stop - base) * width,
        windows=tuple(_windows(rows, base)),
    )


def _windows(rows: pa.Table, base: int) -> list[Window]:
    names = (
        col.WINDOW, col.WINDOWS, col.CHAR_START, col.CHAR_END, layout.TOKEN_START, layout.TOKEN_COUNT,
        layout.TOKEN_OVERLAP, layout.STRIPPED,
    )  # fmt: skip
    return [
        Window(window, windows, begin, end, base + start, base + start + count, overlap, stripped)
        for window, windows, begin, end, start, count, overlap, stripped in zip(
            *(rows.column(n).to_pylist() for n in names), strict=True
        )
    ]
