"""Windows as ranges of tokens, and the tables that say so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.tokens.layout import (
    CLUSTER,
    DOC_START,
    DOC_TOKENS,
    DOCUMENT,
    SPAN_COLUMNS,
    STRIPPED,
    TOKEN_COUNT,
    TOKEN_OVERLAP,
    TOKEN_START,
)

PLACE = "place"  # in work files: which document of the shard, whatever became of it
LATER = (col.CONTENT_ID, col.RECORD_LENGTH, col.OFFSET_KIND, CLUSTER)  # columns of spans/ that the run's ledger knows
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Ranges:
    """Of each window of one document: its first token, counted from the document's first; its tokens; and how many of
    these, at its begin, the window before holds. cut: windows but the first that begin within a token.
    """

    start: Numbers
    count: Numbers
    overlap: Numbers
    cut: int = 0


def ranges_of(begins: Numbers, ends: Numbers, starts: Numbers) -> Ranges:
    """Windows of a document that was encoded as a whole.

    begins, ends: of the windows, code points from the begin of the text that was encoded, so perhaps below 0. starts:
    code point at which each token begins. A window's edge moves on to the next token that begins there or later; the
    last one ends with the document.
    """
    first = np.searchsorted(starts, begins, side="left").astype(np.int64)
    last = np.searchsorted(starts, ends, side="left").astype(np.int64)
    first[0], last[-1] = 0, len(starts)
    overlap = np.zeros(len(first), np.int64)
    overlap[1:] = np.maximum(last[:-1] - first[1:], 0)
    inner = (first > 0) & (first < len(starts)) & (begins > 0)
    inner[0] = False
    cut = int((starts[first[inner]] != begins[inner]).sum()) if inner.any() else 0
    return Ranges(first, last - first, overlap, cut)


def repeated(starts: Numbers, length: int, overlap: int, stops: Numbers | None = None) -> int:
    """Tokens at the begin of a window, encoded by itself, that lie wholly in its first ``overlap`` code points.

    starts: code point at which each of its tokens begins. length: of the window. stops: where each ends; None: where
    the next one begins.
    """
    if overlap <= 0 or not len(starts):
        return 0
    ends = np.append(starts[1:], length) if stops is None else np.maximum.accumulate(stops)
    whole = int(np.searchsorted(ends, overlap, side="right"))
    return min(whole, int(np.searchsorted(starts, overlap, side="left")))


def cuts_of(begins: Numbers, starts: Numbers) -> int:
    """How many of these places, code points within a text, lie within a token of it."""
    inner = begins[begins > 0]
    at = np.searchsorted(starts, inner, side="left")
    there = at < len(starts)
    return int((starts[at[there]] != inner[there]).sum())


def work_schema(shard: pa.Schema) -> pa.Schema:
    """Of the rows that wait for the run's ledger: a shard's without the text, and what the tokens say."""
    fields = [(PLACE, pa.int64()), *((n, t) for n, t in SPAN_COLUMNS.items() if n not in LATER)]
    return pa.schema([*fields, *(f for f in shard if f.name != col.TEXT and f.name not in SPAN_COLUMNS)])


def span_schema(shard: pa.Schema) -> pa.Schema:
    """Of spans/NAME.arrow; ``shard``: the schema of the work file."""
    own = set(SPAN_COLUMNS) | {PLACE}
    return pa.schema([*SPAN_COLUMNS.items(), *(f for f in shard if f.name not in own)])


def work_rows(rows: pa.RecordBatch, columns: Mapping[str, Numbers], schema: pa.Schema) -> pa.RecordBatch:
    """Rows of kept documents, for the work file. columns: PLACE and those of SPAN_COLUMNS that are known by now."""
    arrays = []
    for field in schema:
        own = columns.get(field.name)
        arrays.append(rows.column(field.name) if own is None else pa.array(own).cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


__all__ = [
    "CLUSTER", "DOCUMENT", "DOC_START", "DOC_TOKENS", "LATER", "PLACE", "STRIPPED", "TOKEN_COUNT", "TOKEN_OVERLAP",
    "TOKEN_START", "Ranges", "cuts_of", "ranges_of", "repeated", "span_schema", "work_rows", "work_schema",
]  # fmt: skip
