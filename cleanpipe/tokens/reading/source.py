"""What a plan asks of a store, by global token numbers: where documents begin, which tokens repeat, who is who."""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import xxhash

from cleanpipe import batch as col
from cleanpipe.tokens.layout import DECISIONS, DOCUMENT, TOKEN_OVERLAP, TOKEN_START

if TYPE_CHECKING:
    from cleanpipe.tokens.decisions import Effects
    from cleanpipe.tokens.store import TokenStore

Numbers = npt.NDArray[np.int64]
NO_LINES = hashlib.sha256(b"").hexdigest()  # digest of no decisions
_NONE = np.zeros(0, np.int64)
_NEAR = 16  # documents that a sequence mostly ends within
_HELD = 64  # shards whose offsets are at hand


@dataclass(frozen=True, slots=True)
class InForce:
    """What is decided about a store's documents: all of it, replaced at once, as another thread may be reading it.

    weighted: the documents that have a weight at some time, rising; names: the doc_id of each.
    """

    effects: Effects
    weighted: Numbers
    names: list[bytes]


class Source:
    """A store as a plan reads it; holds the maps of the shards that were touched, and the decisions in force."""

    def __init__(self, store: TokenStore) -> None:
        self.store = store
        self.tokens, self.documents = int(store.tokens), int(store.documents)
        self.token_starts = [int(n) for n in store.token_starts]
        self.document_starts = [int(n) for n in store.document_starts]
        self.repeats = bool(store.info.get("per_window"))
        self.lines = 0, NO_LINES  # how many lines of decisions are in force, and their digest
        self.decided: InForce | None = None  # None: nothing
        self._offsets: dict[int, Numbers] = {}
        self._repeated: dict[int, tuple[Numbers, Numbers]] = {}
        self._seen: tuple[int, int, int] | None = (-1, 0, 0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_offsets": {}, "_repeated": {}}  # maps are made again where they are needed

    def borders(self, start: int, stop: int, origin: int = 0) -> tuple[Numbers, int]:
        """Where documents end among the tokens (start, stop], with ``start`` counted as ``origin``, and the number of
        the first of those documents (the one that holds the token ``start``). Those without tokens have equal ends.
        """
        shard = bisect_right(self.token_starts, start) - 1
        base = self.token_starts[shard]
        offsets = self.offsets(shard)
        values, low, high = offsets.data, start - base, stop - base  # of a few numbers bisect is faster than NumPy
        first = bisect_right(values, low)
        near = min(first + _NEAR, len(values))
        last = bisect_right(values, high, first, near if values[near - 1] > high else len(values))
        number = self.document_starts[shard] + first - 1
        found = offsets[first:last] - (low - origin)
        if stop <= self.token_starts[shard + 1]:
            return found, number
        parts = [found]
        while stop > self.token_starts[shard + 1]:
            shard += 1
            base = self.token_starts[shard]
            offsets = self.offsets(shard)
            parts.append(offsets[1 : int(offsets.searchsorted(stop - base, "right"))] + (base - start + origin))
        return np.concatenate(parts), number

    def offsets(self, shard: int) -> Numbers:
        """Where documents begin in a shard, and the end of the last: (documents + 1,)."""
        found = self._offsets.get(shard)
        if found is None:
            if len(self._offsets) >= _HELD:
                self._offsets.clear()  # a map holds a file: the store has its own bound
            found = self._offsets[shard] = self.store.offsets(shard)
        return found

    def document_start(self, start: int, document: int) -> int:
        """The first token of a document that holds the token ``start``."""
        shard = bisect_right(self.token_starts, start) - 1
        return self.token_starts[shard] + int(self.offsets(shard)[document - self.document_starts[shard]])

    def ends(self) -> Numbers:
        """Where each document ends, in tokens of the store: (documents,)."""
        parts = [self.offsets(s)[1:] + base for s, base in enumerate(self.token_starts[:-1])]
        return np.concatenate(parts) if parts else _NONE

    def repeated(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Ranges of tokens within [start, stop), counted from ``start``, that the window before them holds already."""
        out: list[tuple[int, int]] = []
        shard = bisect_right(self.token_starts, start) - 1
        while shard < len(self.token_starts) - 1 and self.token_starts[shard] < stop:
            base = self.token_starts[shard]
            begins, ends = self._overlaps(shard)
            low, high = start - base, stop - base
            part = slice(int(ends.searchsorted(low, "right")), int(begins.searchsorted(high, "left")))
            found = np.maximum(begins[part], low) - low, np.minimum(ends[part], high) - low
            out += zip(found[0].tolist(), found[1].tolist(), strict=True)
            shard += 1
        return out

    def _overlaps(self, shard: int) -> tuple[Numbers, Numbers]:
        found = self._repeated.get(shard)
        if found is None:
            spans = self.store.spans(shard)
            begins = np.asarray(spans.column(TOKEN_START).to_numpy(), np.int64)
            counts = np.asarray(spans.column(TOKEN_OVERLAP).to_numpy(), np.int64)
            begins, counts = begins[counts > 0], counts[counts > 0]
            found = self._repeated[shard] = begins, begins + counts
        return found

    def refresh(self) -> bool:
        """Look whether decisions were added (one ``stat``; a far store's are read once) and take them up.

        Raises:
            ConfigError: the file does not begin with the lines in force any more. DamagedFileError: a line is not as it
                was written.
        """
        from cleanpipe.tokens import decisions

        root = str(self.store.root)
        seen: tuple[int, int, int] | None = None
        if "://" not in root:
            try:
                facts = os.stat(f"{root}/{DECISIONS}")  # noqa: PTH116  # before every batch
                seen = facts.st_ino, facts.st_size, facts.st_mtime_ns
            except FileNotFoundError:
                seen = None
        if seen == self._seen:
            return False
        found = decisions.load(self.store, known=self.lines)
        changed = found.version != self.lines[0]
        if changed:
            effects = decisions.effects(self.store, found)
            weighted = np.unique(effects.documents[effects.actions == decisions.WEIGHT])
            self.decided = InForce(effects, weighted, self._names(weighted)) if len(effects) else None
        self.lines = found.version, found.digest  # after what they mean: whoever sees the number sees them
        self._seen = seen
        return changed

    def digest_at(self, version: int) -> str:
        """Of so many of the lines in force, the first; "" where there are fewer."""
        from cleanpipe.tokens import decisions

        return decisions.load(self.store).digest_at(version) if version <= self.lines[0] else ""

    def unlearned(self, first: int, last: int, epoch: int, g: int) -> list[int]:
        """Documents of first … last that are not learned at the global sequence g, by the decisions in force."""
        from cleanpipe.tokens.decisions import RELEASED, WEIGHT

        decided = self.decided
        if decided is None:
            return []
        effects = decided.effects
        low, high = np.searchsorted(effects.documents, (first, last + 1))
        if low == high:
            return []
        documents = np.unique(effects.documents[low:high])
        actions, weights = effects.of(documents, g)
        out = documents[(actions != RELEASED) & (actions != WEIGHT)].tolist()
        for at in np.flatnonzero(actions == WEIGHT):
            name = decided.names[int(np.searchsorted(decided.weighted, documents[at]))]
            if not kept(name, epoch, float(weights[at])):
                out.append(int(documents[at]))
        return sorted(out)

    def _names(self, documents: Numbers) -> list[bytes]:
        """The 16 bytes that name each of these documents (global numbers, rising) in every run."""
        out: list[bytes] = []
        shards = np.searchsorted(self.document_starts, documents, side="right") - 1
        for shard in np.unique(shards).tolist():
            spans = self.store.spans(shard)
            within = documents[shards == shard] - self.document_starts[shard]
            rows = np.searchsorted(spans.column(DOCUMENT).to_numpy(), within)
            out += [bytes(one) for one in spans.column(col.DOC_ID).take(rows).to_pylist()]
        return out


def kept(doc_id: bytes, epoch: int, weight: float) -> bool:
    """Whether a document of this weight is learned in an epoch: hash(doc_id, epoch) < weight, a share of 2^64.

    The hash is xxh3_64 of the 16 bytes and the epoch as 8 little-endian bytes: a promise between versions.
    """
    return xxhash.xxh3_64_intdigest(doc_id + epoch.to_bytes(8, "little")) < weight * 2.0**64


def same_tokenizer(stores: list[Any]) -> str:
    """What differs between the tokenizers of stores; "" where nothing does."""
    first = stores[0].info.get("fingerprint") or {}
    for store in stores[1:]:
        here = store.info.get("fingerprint") or {}
        if here != first:
            parts = [k for k in sorted({*first, *here}) if first.get(k) != here.get(k)]
            return (
                f"{store.root} was not tokenized as {stores[0].root} was: {', '.join(parts)} of the fingerprint differ"
            )
    return ""
