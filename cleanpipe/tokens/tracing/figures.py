"""What makes a document's tokens suspect after a step that went wrong: rare ids, and the same few again and again."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cleanpipe.io.store import open_store

if TYPE_CHECKING:
    from cleanpipe.tokens.store import TokenStore

PERIODS, TIMES = (
    13,
    32,
)  # repeated n-grams: up to this period, as often or more (the instance filter of OLMo's training)
TAIL = 100  # rare ids: the seldomest, that are together one in so many tokens at most
HISTOGRAM = "audit/shards/{}.ids.npy"  # that the job which made a store publishes
SAMPLE, PIECE = 4 << 20, 1 << 15  # tokens that are counted to know them, in pieces of so many
Ids = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Repeats:
    """The same ``period`` ids, ``times`` times one after another: the most often that it is so for a period of 1 to 13.

    times is 1 where nothing is repeated; of equal ones the shortest period.
    """

    period: int = 1
    times: int = 1

    @property
    def many(self) -> bool:
        """What is commonly kept from training."""
        return self.times >= TIMES


def repeats(ids: Ids) -> Repeats:
    """Of some tokens. O(13 n), without a loop over them."""
    best = Repeats()
    for period in range(1, min(PERIODS, len(ids) - 1) + 1):
        same = np.flatnonzero(np.concatenate([[True], ids[period:] != ids[:-period], [True]]))
        times = int(np.diff(same).max() - 1 + period) // period
        if times > best.times:
            best = Repeats(period, times)
    return best


def rare_ids(store: TokenStore) -> npt.NDArray[np.bool_]:
    """(vocabulary,) which ids are rare in a store: as many of the seldomest as make up 1 % of its tokens at most.

    By the counts that the store was published with; without them counted on all tokens of a store of 4 Mi or fewer,
    else on 128 pieces at even distances. BOS and EOS are left out. Ids of one count are all rare, or none of them.
    """
    counts = _published(store)
    if counts is None:
        counts = np.zeros(store.vocabulary, np.int64)
        for start, stop in _sampled(store.tokens):
            counts += np.bincount(store.read(start, stop), minlength=store.vocabulary)
    marks = [mark for mark in (store.bos, store.eos) if mark is not None]
    counts[marks] = 0
    values, ids = np.unique(counts, return_counts=True)
    together = np.cumsum(values * ids)
    few = values[together * TAIL <= together[-1]]
    rare: npt.NDArray[np.bool_] = counts <= (few[-1] if len(few) else -1)
    rare[marks] = False
    return rare


def _published(store: TokenStore) -> npt.NDArray[np.int64] | None:
    """How often each id is in the store, by the histograms of its shards; None where one of them is not there."""
    files = open_store(store.root, store.storage)
    counts = np.zeros(store.vocabulary, np.int64)
    try:
        for name in store.shards:
            found = np.load(io.BytesIO(files.read(HISTOGRAM.format(name))), allow_pickle=False)
            counts += found
    except (FileNotFoundError, ValueError, EOFError):
        return None
    return counts


def _sampled(tokens: int) -> list[tuple[int, int]]:
    if tokens <= SAMPLE:
        return [(s, min(s + PIECE, tokens)) for s in range(0, tokens, PIECE)]
    pieces = SAMPLE // PIECE
    return [(s, s + PIECE) for s in (tokens - PIECE) * np.arange(pieces, dtype=object) // (pieces - 1)]
