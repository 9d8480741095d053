"""Which documents are judged by segments, and what is found of them, as columns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe_stages.lid.judge import SCORES, SECOND, SECOND_SHARE, SHARE
from cleanpipe_stages.lid.second import Decide
from cleanpipe_stages.lid.segments import shares

MIXED_BELOW = 0.9  # a document with less of its characters in its language is counted as mixed


def sampled(ids: pa.Array, every: int) -> npt.NDArray[np.int64]:
    """Rows of one document in ``every``, by the last 8 bytes of its id, which are a digest's; 0: of none."""
    if not every:
        return np.zeros(0, np.int64)
    whole = np.frombuffer(ids.buffers()[1] or b"", ">u8")[2 * ids.offset : 2 * (ids.offset + len(ids))]
    return np.flatnonzero(whole[1::2] % np.uint64(every) == 0)


def measured(
    batch: pa.RecordBatch, languages: pa.Array, rows: npt.NDArray[np.int64], decide: Decide
) -> tuple[dict[str, pa.Array], Mapping[str, int]]:
    """The share columns, null but in ``rows``; and how many documents were measured, and were mixed."""
    n = batch.num_rows
    if not len(rows):
        return {name: pa.nulls(n, SCORES[name]) for name in (SHARE, SECOND, SECOND_SHARE)}, {}
    chosen = pa.array(rows)
    texts = [t or "" for t in batch.column(col.TEXT).take(chosen).to_pylist()]
    found = shares(texts, languages.take(chosen).to_pylist(), decide)
    at = np.full(n, -1)
    at[rows] = np.arange(len(rows))
    places = pa.array(at, mask=at < 0)
    values = {SHARE: [f.share for f in found], SECOND: [f.second for f in found],
              SECOND_SHARE: [f.second_share for f in found]}  # fmt: skip
    columns = {name: pa.array(v, SCORES[name]).take(places) for name, v in values.items()}
    told = [f.share for f in found if f.share is not None]
    facts = {"segments_documents": len(told), "mixed_documents": sum(share < MIXED_BELOW for share in told)}
    return columns, facts
