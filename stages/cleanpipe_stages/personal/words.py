"""Words and phrases of the user's list in texts, as the share of all words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.dedup.hashing import Words, window_hashes
from cleanpipe_stages.wording.stream import blocks, stream


@dataclass(frozen=True, slots=True)
class WordList:
    """phrases: by number of words, the hashes of the list's entries, ascending."""

    phrases: tuple[tuple[int, Words], ...]

    def shares(self, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Words of each text that are, or stand in, an entry of the list, among all its words; 0 where it has none."""
        out = np.zeros(len(texts))
        for part in blocks(texts):
            words = stream(texts[part])
            covered = np.zeros(words.hashes.size + 1, np.int64)  # changes at each word of how many phrases hold it
            for size, keys in self.phrases:
                hashes = window_hashes(words.hashes, size)
                at = np.flatnonzero(keys[np.minimum(np.searchsorted(keys, hashes), keys.size - 1)] == hashes)
                row = np.searchsorted(words.offsets, at, side="right") - 1
                at = at[at + size <= words.offsets[row + 1]]
                np.add.at(covered, at, 1)
                np.add.at(covered, at + size, -1)
            held = np.concatenate(([0], np.cumsum(np.cumsum(covered[:-1]) > 0)))
            counts = np.diff(words.offsets)
            found = held[words.offsets[1:]] - held[words.offsets[:-1]]
            out[part] = found / np.maximum(counts, 1)
        return out


def word_list(entries: Iterable[str]) -> WordList:
    """A list of words and phrases; letter case and punctuation do not count."""
    words = stream(list(entries))
    made: dict[int, list[Words]] = {}
    for first, stop in zip(words.offsets[:-1].tolist(), words.offsets[1:].tolist(), strict=True):
        if stop > first:
            made.setdefault(stop - first, []).append(window_hashes(words.hashes[first:stop], stop - first))
    return WordList(tuple((size, np.unique(np.concatenate(keys))) for size, keys in sorted(made.items())))
