"""The answer of a meeting, document by document, and what it tells of clusters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.exchange import Part
from cleanpipe_stages.dedup.order import Documents, Ints, identifiers
from cleanpipe_stages.dedup.stars import Stars

DUPLICATE = "duplicate"
COMPONENT = "minhash_drop_component"
COMPONENT_TYPE = pa.binary(8)  # an identity, no number: the beginning of the first document's id
EXACT, NEAR = "exact_duplicate", "near_duplicate"
BIGGEST, MEMBERS = 10, 5  # clusters that the audit shows, and how many of those that went in each
_NONE, _EXACT, _NEAR = 0, 1, 2


class Verdict:
    """The answer, by rank: which kind of duplicate, the rank that stands for it, the Jaccard index."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        ranks = np.arange(len(documents))
        self._kind = np.where(documents.first == ranks, _NONE, _EXACT).astype(np.int8)
        self._keeper = documents.first.copy()
        self._jaccard = np.where(self._kind == _EXACT, 1.0, np.nan)
        self._component = np.full(len(documents), -1, dtype=np.int32)

    def near(self, ranks: Ints, found: Stars) -> None:
        """Nodes that go take the whole of their exact group with them. ranks: of the nodes."""
        gone = np.flatnonzero(found.keeper >= 0)
        keeper = np.full(len(self._documents), -1, dtype=np.int64)
        keeper[ranks[gone]] = ranks[found.keeper[gone]]
        jaccard = np.full(len(self._documents), np.nan)
        jaccard[ranks[gone]] = found.jaccard[gone]
        fallen = keeper[self._documents.first] >= 0
        first = self._documents.first[fallen]
        component = np.full(len(self._documents), -1, dtype=np.int32)
        component[ranks] = np.where(found.component < 0, -1, ranks[found.component])
        self._component = component[self._documents.first]
        self._kind[fallen], self._keeper[fallen], self._jaccard[fallen] = _NEAR, keeper[first], jaccard[first]

    def facts(self, parts: Sequence[Part]) -> dict[str, object]:
        """Counts, cluster sizes, and the biggest clusters with their first members."""
        exact = np.bincount(self._documents.first, minlength=1)
        sizes = np.bincount(self._keeper[self._kind != _NONE], minlength=1)
        clusters: dict[str, int] = {}
        for size in (np.sort(sizes[sizes > 0]) + 1).tolist():
            name = str(size) if size <= 8 else f"{1 << (size.bit_length() - 1)}-{(2 << (size.bit_length() - 1)) - 1}"
            clusters[name] = clusters.get(name, 0) + 1
        return {
            "exact_groups": int(np.count_nonzero(exact > 1)),
            "exact_duplicates": int(np.count_nonzero(self._kind == _EXACT)),
            "near_duplicates": int(np.count_nonzero(self._kind == _NEAR)),
            "cluster_sizes": clusters,
            "biggest": self._biggest(parts, sizes),
        }

    def _biggest(self, parts: Sequence[Part], sizes: Ints) -> list[dict[str, object]]:
        """The largest clusters, of equals the first by the order. sizes: by rank, documents that went for it."""
        keepers = np.flatnonzero(sizes)
        keepers = keepers[np.argsort(-sizes[keepers], kind="stable")[:BIGGEST]]
        gone = np.flatnonzero((self._kind != _NONE) & np.isin(self._keeper, keepers))
        out: list[dict[str, object]] = []
        for keeper in keepers.tolist():
            ranks = gone[self._keeper[gone] == keeper][:MEMBERS]
            members = [{**self._named(parts, r), "jaccard": float(self._jaccard[r])} for r in ranks.tolist()]
            out.append({**self._named(parts, keeper), "size": int(sizes[keeper]) + 1, "members": members})
        return out

    def _named(self, parts: Sequence[Part], rank: int) -> dict[str, object]:
        place = int(self._documents.places[rank])
        part = int(np.searchsorted(self._documents.starts, place, side="right")) - 1
        row = place - int(self._documents.starts[part])
        identity, url = (parts[part].column(n)[row].as_py() for n in (col.DOC_ID, col.URL))
        return {"doc_id": identity.hex(), "url": url}

    def tables(self, parts: Sequence[Part]) -> list[pa.Table]:
        """One table a part, row for row."""
        documents, count = self._documents, len(self._documents)
        ids = np.concatenate([np.zeros((0, 16), np.uint8), *(identifiers(p.column(col.DOC_ID)) for p in parts)])
        kind, jaccard = np.zeros(count, dtype=np.int8), np.zeros(count)
        stands = np.zeros(count, dtype=np.int64)
        together = np.full(count, -1, dtype=np.int64)
        together[documents.places] = np.where(self._component < 0, -1, documents.places[self._component])
        kind[documents.places], jaccard[documents.places] = self._kind, self._jaccard
        stands[documents.places] = documents.places[self._keeper]
        names = pa.array([None, EXACT, NEAR], pa.string())
        tables = []
        for first, last in zip(documents.starts[:-1].tolist(), documents.starts[1:].tolist(), strict=True):
            stays = kind[first:last] == _NONE
            columns = {
                col.KEPT_DOC_ID: _ids(ids[stands[first:last]], stays),
                col.JACCARD: pa.array(jaccard[first:last], mask=stays),
                DUPLICATE: names.take(pa.array(kind[first:last])),
                COMPONENT: _ids(ids[together[first:last], :8], together[first:last] < 0),
            }
            tables.append(pa.table(columns))
        return tables


def _ids(values: npt.NDArray[np.uint8], absent: npt.NDArray[np.bool_]) -> pa.Array:
    """Fixed-size binary of n from uint8 of (n, width); null where ``absent``."""
    valid = pa.py_buffer(np.packbits(~absent, bitorder="little"))
    data = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.binary(values.shape[1]), len(absent), [valid, data], int(absent.sum()))
