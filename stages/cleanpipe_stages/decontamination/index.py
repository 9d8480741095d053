"""The n-grams of benchmark items as sorted hashes; what a document shares with them is proven on the words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.dedup.hashing import Words, window_hashes
from cleanpipe_stages.wording.stream import Stream, blocks, stream

Places = npt.NDArray[np.int64]
_BLOCK = 1 << 16  # words at a time as Python objects


@dataclass(frozen=True, slots=True)
class Lengths:
    """How many words an n-gram has; in scripts without blanks, letters. An item that has fewer, but at least the
    smaller number, is one n-gram as a whole. common: n-grams of more items are ignored; 0: none is.
    """

    words: int = 13
    letters: int = 24
    least_words: int = 8
    least_letters: int = 15
    common: int = 0


@dataclass(frozen=True, slots=True)
class Grams:
    """The distinct n-grams of one length. keys: ascending. bounds: of each key, its part of ``items``. first: the word
    of the index that each begins with. sieve: bits, set at the topmost ``bits`` bits of each key: most hashes of most
    documents are known to be none of them without a search.
    """

    size: int
    keys: Words
    bounds: Places
    items: npt.NDArray[np.int32]
    first: Places
    sieve: npt.NDArray[np.uint8]
    bits: int

    def places(self, hashes: Words) -> tuple[Places, Places]:
        """Which of the hashes are keys, and which keys they are."""
        top = hashes >> np.uint64(64 - self.bits)
        at = np.flatnonzero(self.sieve[top >> np.uint64(3)] >> (top & np.uint64(7)).astype(np.uint8) & 1)
        key = np.minimum(np.searchsorted(self.keys, hashes[at]), self.keys.size - 1)
        found = self.keys[key] == hashes[at]
        return at[found], key[found]


@dataclass(frozen=True, slots=True)
class Shared:
    """What a document shares. grams: distinct n-grams. items: items that have one of them. share: of one item's
    n-grams, the largest part that the document has. first: number of the item whose n-gram comes first; -1: none.
    """

    grams: int = 0
    items: int = 0
    share: float = 0.0
    first: int = -1


NOTHING = Shared()


@dataclass(frozen=True, slots=True)
class Index:
    """grams: one for each length in use. counts: distinct n-grams of each item, int64 [items]. text: the words of all
    items, a blank behind each; begins: where each word begins there, and the next would.
    """

    grams: tuple[Grams, ...]
    counts: Places
    text: bytes
    begins: Places

    def find(self, texts: Sequence[str]) -> list[Shared]:
        """What each text shares with the items."""
        out: list[Shared] = []
        for part in blocks(texts):
            out += self._find(stream(texts[part])) if self.grams else [NOTHING] * len(texts[part])
        return out

    def _find(self, words: Stream) -> list[Shared]:
        found: dict[int, list[tuple[int, npt.NDArray[np.int32]]]] = {}  # by text: place and items of each n-gram
        for grams in self.grams:
            hashes = window_hashes(words.hashes, grams.size)
            at, key = grams.places(hashes)
            row = np.searchsorted(words.offsets, at, side="right") - 1
            whole = at + grams.size <= words.offsets[row + 1]
            at, row, key = at[whole], row[whole], key[whole]
            _, first = np.unique(row * grams.keys.size + key, return_index=True)
            for place, text, k in zip(at[first].tolist(), row[first].tolist(), key[first].tolist(), strict=True):
                if b" ".join(words.words(place, grams.size)) == self._proof(grams, k):
                    items = grams.items[grams.bounds[k] : grams.bounds[k + 1]]
                    found.setdefault(text, []).append((place, items))
        return [self._shared(found[text]) if text in found else NOTHING for text in range(words.offsets.size - 1)]

    def _proof(self, grams: Grams, key: int) -> bytes:
        first = int(grams.first[key])
        return self.text[self.begins[first] : self.begins[first + grams.size] - 1]

    def _shared(self, found: list[tuple[int, npt.NDArray[np.int32]]]) -> Shared:
        items, times = np.unique(np.concatenate([of for _, of in found]), return_counts=True)
        share = float((times / self.counts[items]).max())
        first = min((place, int(of[0])) for place, of in found)[1]
        return Shared(len(found), len(items), share, first)


def build(items: Iterable[str], lengths: Lengths) -> Index:
    """The index over items, numbered from 0 in their order. Memory: some 50 bytes for a word of theirs."""
    made: dict[int, list[tuple[Words, Places, Places]]] = {}
    texts: list[bytes] = []
    sizes: list[Places] = []
    total = before = 0
    for some in _some(items):
        words = stream(some)
        texts += [b" ".join([*words.words(at, _BLOCK), b""]) for at in range(0, words.hashes.size, _BLOCK)]
        sizes.append(words.ends - words.starts + 1)
        for number, (first, stop) in enumerate(pairwise(words.offsets.tolist())):
            if size := _size(words.letters[first:stop], lengths):
                keys, at = np.unique(window_hashes(words.hashes[first:stop], size), return_index=True)
                made.setdefault(size, []).append((keys, np.full(len(keys), total + number), at + first + before))
        total, before = total + len(some), before + words.hashes.size
    text, begins = b"".join(texts), np.concatenate([np.zeros(1, np.int64), *sizes]).cumsum()
    index = Index((), np.zeros(total, np.int64), text, begins)
    grams = [_grams(size, parts, lengths.common, index) for size, parts in sorted(made.items())]
    counts = sum((np.bincount(g.items, minlength=total) for g in grams), np.zeros(total, np.int64))
    return Index(tuple(g for g in grams if g.keys.size), counts, text, begins)


def _some(items: Iterable[str]) -> Iterator[list[str]]:
    held: list[str] = []
    size = 0
    for item in items:
        held.append(item)
        size += len(item)
        if size >= 1 << 20:
            yield held
            held, size = [], 0
    if held:
        yield held


def _size(letters: npt.NDArray[np.bool_], lengths: Lengths) -> int:
    """Words of this item's n-grams; 0: it has too few."""
    count = letters.size
    by_letters = 2 * int(letters.sum()) > count
    most, least = (lengths.letters, lengths.least_letters) if by_letters else (lengths.words, lengths.least_words)
    return min(most, count) if count >= min(most, least) else 0


def _grams(size: int, parts: list[tuple[Words, Places, Places]], common: int, index: Index) -> Grams:
    keys, items, first = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.lexsort((items, keys))
    keys, items, first = keys[order], items[order], first[order]
    kept = np.ones(keys.size, bool)
    bounds = _bounds(keys)
    counts = np.diff(bounds)
    for at in np.flatnonzero(counts > 1).tolist():  # two n-grams of one hash: the later ones are left out
        rows = range(int(bounds[at]), int(bounds[at + 1]))
        proofs = [
            index.text[index.begins[f] : index.begins[f + size] - 1] for f in first[rows.start : rows.stop].tolist()
        ]
        kept[rows.start : rows.stop] = [proof == proofs[0] for proof in proofs]
    if common:
        kept &= np.repeat(counts <= common, counts)
    keys, items, first = keys[kept], items[kept], first[kept]
    bounds = _bounds(keys)
    distinct = keys[bounds[:-1]]
    bits = max(10, (16 * distinct.size).bit_length())
    top = distinct >> np.uint64(64 - bits)
    sieve = np.zeros(1 << (bits - 3), np.uint8)
    np.bitwise_or.at(sieve, top >> np.uint64(3), np.uint8(1) << (top & np.uint64(7)).astype(np.uint8))
    return Grams(size, distinct, bounds, items.astype(np.int32), first[bounds[:-1]], sieve, bits)


def _bounds(keys: Words) -> Places:
    """Where each distinct key begins, and the next would."""
    fresh = np.ones(keys.size, bool)
    fresh[1:] = keys[1:] != keys[:-1]
    return np.append(np.flatnonzero(fresh), keys.size)
