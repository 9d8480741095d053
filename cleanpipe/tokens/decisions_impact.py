"""What decisions come to in a store: documents, tokens, shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cleanpipe.tokens.decisions_effects import NAMES, Effects, documents_of, pairs
from cleanpipe.tokens.decisions_lines import FOREVER, Decision

if TYPE_CHECKING:
    from cleanpipe.tokens.store import TokenStore

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Impact:
    """documents: global numbers, rising. tokens: of them together, BOS and EOS included. shards: numbers of those that
    hold one.
    """

    documents: Numbers
    tokens: int
    shards: tuple[int, ...]

    def facts(self, store: TokenStore) -> dict[str, Any]:
        """Counts, and shares of the store; plain data."""
        return {
            "documents": len(self.documents),
            "tokens": self.tokens,
            "share_of_tokens": self.tokens / store.tokens if store.tokens else 0.0,
            "shards": len(self.shards),
            "of_shards": len(store.shards),
        }


def hit_by(store: TokenStore, given: Sequence[Decision]) -> list[Numbers]:
    """The global documents that each decision hits, whatever else is decided of them. One pass over the spans."""
    parts: list[list[Numbers]] = [[] for _ in given]
    for shard in range(len(store.shards)):
        rows, places = pairs(given, documents_of(store.spans(shard)))
        order = np.lexsort((rows, places))
        rows, places = rows[order], places[order]
        edges = np.searchsorted(places, np.arange(len(given) + 1)).tolist()
        for part, low, high in zip(parts, edges, edges[1:], strict=False):
            if low < high:
                part.append(rows[low:high] + int(store.document_starts[shard]))
    return [np.concatenate(p) if p else np.zeros(0, np.int64) for p in parts]


def impact(store: TokenStore, documents: Numbers) -> Impact:
    """Of some global documents, rising."""
    tokens, shards = 0, []
    edges = np.searchsorted(documents, store.document_starts)
    for shard, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        if low < high:
            offsets = np.asarray(store.offsets(shard))
            here = documents[low:high] - int(store.document_starts[shard])
            tokens += int((offsets[here + 1] - offsets[here]).sum())
            shards.append(shard)
    return Impact(documents, tokens, tuple(shards))


def standing(store: TokenStore, found: Effects) -> Mapping[str, dict[str, Any]]:
    """What holds in the end, for the sequences that no line speaks of any more: action → counts."""
    last = found.at(FOREVER - 1)
    return {name: impact(store, last.documents[last.actions == code]).facts(store) for code, name in NAMES.items()}
