"""The real shingle sets of candidates, read from disk when they are needed, within a bound of memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from cleanpipe import batch as col
from cleanpipe.errors import StageContractError
from cleanpipe.exchange import Part
from cleanpipe_stages.dedup.buckets import chunks
from cleanpipe_stages.dedup.hashing import Words
from cleanpipe_stages.dedup.shingles import shingle_sets

Ints = npt.NDArray[np.int64]
_TEXT = 4 << 20  # code points of text read at a time


def shared(one: Words, other: Words) -> int:
    """How many values two ascending sets have in common."""
    both = np.concatenate((one, other))
    both.sort()
    return int(np.count_nonzero(both[1:] == both[:-1]))


class SetStore:
    """Shingle sets by document number, the last used ones kept up to ``limit`` bytes.

    places: where each document stands (see order.Documents). sizes: its distinct shingles, as signed.
    """

    def __init__(
        self, parts: Sequence[Part], starts: Ints, lengths: Ints, places: Ints, sizes: Ints,
        *, words: int, characters: int, limit: int,
    ) -> None:  # fmt: skip
        self._parts, self._starts, self._lengths = parts, starts, lengths
        self._places, self._sizes = places, sizes
        self._words, self._characters, self._limit = words, characters, limit
        self._sets: OrderedDict[int, Words] = OrderedDict()
        self._bytes = 0
        self.reads = 0

    def __contains__(self, document: int) -> bool:
        return document in self._sets

    def __getitem__(self, document: int) -> Words:
        if document not in self._sets:
            self.load([document])
        self._sets.move_to_end(document)
        return self._sets[document]

    def load(self, documents: Iterable[int]) -> None:
        """Read those that are not here, part by part in reading order; the oldest go to make room."""
        wanted = np.array(sorted(d for d in documents if d not in self._sets), dtype=np.int64)
        if not wanted.size:
            return
        self._room(8 * int(self._sizes[wanted].sum()))
        wanted = wanted[np.argsort(self._places[wanted])]
        part_of = np.searchsorted(self._starts, self._places[wanted], side="right") - 1
        for part in np.unique(part_of).tolist():
            mine = wanted[part_of == part]
            for first, last in chunks(self._lengths[self._places[mine]], _TEXT):
                self._read(part, mine[first:last])

    def _read(self, part: int, documents: Ints) -> None:
        texts = self._parts[part].take(col.TEXT, self._places[documents] - self._starts[part])
        sets = shingle_sets(texts, words=self._words, characters=self._characters)
        if not np.array_equal(sets.counts, self._sizes[documents]):
            raise StageContractError("a text is not the one that was signed: its shingles changed on the way")
        for row, document in enumerate(documents.tolist()):
            self._sets[document] = sets[row].copy()  # its own memory, so that it can go alone
            self._bytes += 8 * self._sets[document].size
        self.reads += len(documents)

    def _room(self, more: int) -> None:
        while self._sets and self._bytes + more > self._limit:
            _, gone = self._sets.popitem(last=False)
            self._bytes -= 8 * gone.size
