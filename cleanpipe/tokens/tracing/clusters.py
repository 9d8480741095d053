"""Which documents a kept one stands for: its duplicates, by the ledger of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.options import StorageOptions
from cleanpipe.queries.shelf import open_shelf

if TYPE_CHECKING:
    from cleanpipe.tokens.store import TokenStore

_HERE = StorageOptions()
_NAMES = (col.DOC_ID, col.KEPT_DOC_ID, col.JACCARD, col.URL)


def duplicates_of(
    store: TokenStore, documents: npt.NDArray[np.int64], run: str, storage: StorageOptions = _HERE
) -> dict[str, list[dict[str, Any]]]:
    """For each of some global documents that stands for others, these: doc_id, url, jaccard; in the ledger's order.

    Raises:
        ConfigError: there is no run, or its ledger is damaged.
    """
    from cleanpipe.tokens.tracing.ranges import doc_ids

    out: dict[str, list[dict[str, Any]]] = {}
    wanted = doc_ids(store, documents)
    with open_shelf(run, storage) as shelf:
        for part in shelf.parts:
            table = shelf.columns(part, _NAMES)
            if col.KEPT_DOC_ID not in table.column_names:  # no stage of the recipe looks for duplicates
                continue
            mine = table.filter(pc.is_in(table.column(col.KEPT_DOC_ID), wanted))
            for row in mine.to_pylist():
                found = {"doc_id": row[col.DOC_ID].hex(), "url": row[col.URL], "jaccard": row[col.JACCARD]}
                out.setdefault(row[col.KEPT_DOC_ID].hex(), []).append(found)
    return out
