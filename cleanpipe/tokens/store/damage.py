"""Whose tokens a damaged block holds: told by document and URL, as far as the other files of the shard can be read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.errors import CleanpipeError, DamagedFileError
from cleanpipe.tokens.layout import BLOCK, DOCUMENT
from cleanpipe.tokens.store.names import payload_name
from cleanpipe.tokens.store.shard import Sides

_SHOWN = 100  # a checksum cannot say which of a block's documents has the wrong bit: all are told, if that can be read

MEND = "the `cleanpipe tokenize` line that made the store, with --repair, makes it again"


def damaged(shard: Sides, block: int) -> DamagedFileError:
    """The error for a block whose checksum does not fit: shard, block, and the documents that lie in it."""
    width = shard.dtype.itemsize
    start, stop = block * BLOCK // width, min((block + 1) * BLOCK // width, shard.tokens)
    what = f"block {block:,} (tokens {start:,} to {stop - 1:,}) is damaged; it holds {holds(shard, start, stop)}"
    error = DamagedFileError(f"{what}; {MEND}", source=payload_name(shard.name))
    error.public = True  # pages are known by their whole URL
    return error


def holds(shard: Sides, start: int, stop: int) -> str:
    """The documents of a range of a shard's tokens, for a person: up to a hundred, and how many more."""
    try:
        offsets = shard.offsets
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, stop, side="left"))
    except CleanpipeError as error:
        return f"documents that cannot be named ({error})"
    named = ", ".join(documents(shard, range(first, min(last, first + _SHOWN))))
    more = last - first - _SHOWN
    return f"{last - first:,} document{'s' * (last - first != 1)}: {named}" + (
        f" and {more:,} more" if more > 0 else ""
    )


def documents(shard: Sides, numbers: range) -> list[str]:
    """``DOC_ID (URL)`` of documents of a shard, by number; their number alone where the spans cannot be read."""
    try:
        table = shard.spans
        column = table.column(DOCUMENT)
        chosen = table.filter(pc.and_(pc.greater_equal(column, numbers.start), pc.less(column, numbers.stop)))
        rows = chosen.select([DOCUMENT, col.DOC_ID, col.URL]).to_pylist()
    except (CleanpipeError, KeyError, pa.ArrowException) as error:
        return [f"document {n} of {shard.name} (spans: {error})" for n in numbers]
    found = {row[DOCUMENT]: f"{row[col.DOC_ID].hex()} ({row[col.URL] or 'no URL'})" for row in rows}
    return [found.get(n, f"document {n} of {shard.name}") for n in numbers]
