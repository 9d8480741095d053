"""One shard of a token store, written once, as it comes: the payload, its checksums, and the index of each dialect."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import StageContractError
from cleanpipe.io.hashing import HashingFile
from cleanpipe.io.store import Store
from cleanpipe.tokens.store.dialects import INDEXES, LONGEST, write_index
from cleanpipe.tokens.store.names import LINK, OFFSETS, PAYLOAD, SUMS, TOKENS
from cleanpipe.tokens.store.offsets import OffsetsFile, mapped
from cleanpipe.tokens.store.sums import BlockSums


class PayloadWriter:
    """Writes ``tokens/NAME.*`` of a store: drafts until ``close``, which publishes them, the payload last.

    Memory: 8 bytes for each 64 KiB of the payload, whatever the number of documents.

    Args:
        store: where it is published.
        name: of the shard, as ``layout.shard_name`` spells it.
        dtype: of an id, as ``layout.width`` gives it.
        attempt: of this try; attempts do not meet.
        vocabulary: ids lie below it; None: below what the dtype holds.
    """

    def __init__(
        self, store: Store, name: str, dtype: npt.DTypeLike, attempt: str, *, vocabulary: int | None = None
    ) -> None:
        self.dtype = np.dtype(dtype).newbyteorder("<")
        if self.dtype not in (np.dtype("<u2"), np.dtype("<i4")):
            raise StageContractError(f"ids are written as uint16 or int32, not {self.dtype}")
        holds = int(np.iinfo(self.dtype).max) + 1
        self.limit = min(holds, holds if vocabulary is None else vocabulary)
        self.store, self.name, self.attempt, self.tokens = store, name, attempt, 0
        self._drafts: dict[str, Path] = {}
        self._payload = HashingFile(self._draft(PAYLOAD))
        self._offsets = OffsetsFile(self._draft(OFFSETS))
        self._sums = BlockSums()

    def _draft(self, suffix: str) -> Path:
        path = self.store.draft(f"{TOKENS}{self.name}{suffix}", self.attempt)
        self._drafts[suffix] = path
        return path

    @property
    def documents(self) -> int:
        """Documents added so far."""
        return self._offsets.documents

    def add(self, ids: npt.ArrayLike, ends: npt.ArrayLike) -> None:
        """Append whole documents, their BOS and EOS in place.

        ids: (n,) integers. ends: (documents,) where each document ends in ``ids``; the last is n.

        Raises:
            StageContractError: an id is not below the limit, a document is too long for Megatron's index, or ``ends``
                do not fit. Nothing was written then: the caller may leave that document out and go on.
        """
        given, stops = np.asarray(ids), np.asarray(ends, np.int64)
        if not len(stops) and not len(given):
            return
        if len(given) and given.dtype.kind not in "iu":
            raise StageContractError(f"{self.name}: ids are whole numbers, not {given.dtype}")
        lengths = np.diff(stops, prepend=0)
        if not len(stops) or int(stops[-1]) != len(given) or bool((lengths < 0).any()):
            raise StageContractError(f"{self.name}: ends of documents do not fit {len(given):,} ids")
        if int(lengths.max()) > LONGEST:
            at = self.documents + int(lengths.argmax())
            raise StageContractError(
                f"{self.name}: document {at:,} has {int(lengths.max()):,} tokens: {LONGEST:,} at most"
            )
        if len(given) and (int(given.max()) >= self.limit or int(given.min()) < 0):
            raise StageContractError(self._beyond(given, stops))
        data = np.ascontiguousarray(given.astype(self.dtype, copy=False)).data.cast("B")
        self._payload.write(data)
        self._sums.update(data)
        self._offsets.add(stops + self.tokens)
        self.tokens += len(given)

    def _beyond(self, ids: npt.NDArray[Any], ends: npt.NDArray[np.int64]) -> str:
        at = int(np.flatnonzero((ids >= self.limit) | (ids < 0))[0])
        document = int(np.searchsorted(ends, at, side="right"))
        within = at - (int(ends[document - 1]) if document else 0)
        return (
            f"{self.name}: id {int(ids[at])} at token {within:,} of document {self.documents + document:,}: ids of "
            f"this store lie from 0 to {self.limit - 1:,}"
        )

    def close(self) -> dict[str, dict[str, Any]]:
        """Publish everything; for each published name its ``bytes``, ``sha256`` and, of the payload, ``tokens`` and
        ``documents``. ``.ds`` is the payload under another name; where the storage has no links it is not made.
        """
        width = self.dtype.itemsize
        self._payload.sync()
        self._payload.close()
        if self._payload.size != self.tokens * width:
            raise StageContractError(f"{self.name}: {self._payload.size:,} bytes for {self.tokens:,} ids of {width}")
        facts: dict[str, dict[str, Any]] = {OFFSETS: self._offsets.close()}
        offsets = mapped(self._drafts[OFFSETS])
        for suffix in INDEXES:
            facts[suffix] = write_index(suffix, self._draft(suffix), offsets, self.dtype)
        del offsets
        with HashingFile(self._draft(SUMS)) as file:
            file.write(self._sums.close())
            file.sync()
            facts[SUMS] = {"bytes": file.size, "sha256": file.hexdigest()}
        payload = {"bytes": self._payload.size, "sha256": self._payload.hexdigest()}
        if self._link():
            facts[LINK] = dict(payload)
        facts[PAYLOAD] = {**payload, "tokens": self.tokens, "documents": self.documents}
        published = {}
        for suffix, about in facts.items():  # the payload last: where it is, all is
            name = f"{TOKENS}{self.name}{suffix}"
            self.store.publish(self._drafts.pop(suffix), name, about)
            published[name] = about
        return dict(sorted(published.items()))

    def _link(self) -> bool:
        if not self.store.local:
            return False
        path = self._draft(LINK)
        try:
            path.unlink(missing_ok=True)
            os.link(self._drafts[PAYLOAD], path)
        except OSError:  # a file system without links
            del self._drafts[LINK]
            return False
        return True

    def abandon(self) -> None:
        """Remove the drafts; after ``close`` there are none."""
        self._payload.close()
        self._offsets.abandon()
        for path in self._drafts.values():
            path.unlink(missing_ok=True)
        self._drafts.clear()
