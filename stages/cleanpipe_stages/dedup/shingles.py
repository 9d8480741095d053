r"""Shingle sets of whole batches, without a Python object for a word.

A document's shingles are its runs of ``words`` consecutive ``\w+`` of the case-folded text, or, where more than 30 %
of its letters are of scripts without blanks, of ``characters`` consecutive characters that are no blanks. The text
alone decides. ``plain.shingles`` says the same in five lines of Python; tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe_stages.dedup import characters as ch
from cleanpipe_stages.dedup.hashing import Words, mix, token_hashes, window_hashes

WORDS, CHARACTERS = 5, 8
_BLOCK = 1 << 18  # bytes of text at a time: the arrays of one block stay in the cache
_TAIL = bytes(16)  # hashing reads eight bytes at a time, past the end of the last word


@dataclass(frozen=True, slots=True)
class ShingleSets:
    """The sets of n documents, end to end.

    values: 64-bit hashes, ascending and distinct in each document. offsets: int64 of n + 1.
    by_characters: bool of n, the documents cut into characters instead of words.
    """

    values: Words
    offsets: npt.NDArray[np.int64]
    by_characters: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, row: int) -> Words:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Distinct shingles of each document."""
        return np.diff(self.offsets)


def shingle_sets(texts: pa.Array, *, words: int = WORDS, characters: int = CHARACTERS) -> ShingleSets:
    """The shingles of n texts (string or large_string; a null is a text without any)."""
    parts: list[Words] = []
    offsets, by_characters = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.bool_)]
    for documents in _blocks(texts):
        block = _block_sets(documents, words, characters)
        offsets.append(block.offsets[1:] + offsets[-1][-1])
        by_characters.append(block.by_characters)
        parts.append(block.values)
    values = np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)
    return ShingleSets(values, np.concatenate(offsets), np.concatenate(by_characters))


def _blocks(texts: pa.Array) -> Iterator[list[bytes | memoryview]]:
    """The UTF-8 bytes of neighbouring texts, in lists of about _BLOCK bytes."""
    array = texts.cast(pa.large_string())
    if array.null_count:
        array = array.fill_null("")
    _, at, data = array.buffers()
    bounds = (
        np.frombuffer(at, dtype=np.int64)[array.offset : array.offset + len(array) + 1] if at else np.zeros(1, np.int64)
    )
    view = memoryview(data) if data is not None else memoryview(b"")
    first = 0
    while first < len(array):
        last = max(first + 1, int(np.searchsorted(bounds, bounds[first] + _BLOCK, side="right")) - 1)
        edges = bounds[first : last + 1].tolist()
        yield [view[start:end] for start, end in pairwise(edges)]
        first = last


def _join(documents: list[bytes | memoryview]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """One buffer, a byte 0 before and after each document, and where each begins (and the next would)."""
    data = np.frombuffer(b"\0".join((b"", *documents, _TAIL)), dtype=np.uint8)
    sizes = np.fromiter((len(d) + 1 for d in documents), dtype=np.int64, count=len(documents))
    return data, np.concatenate((np.ones(1, dtype=np.int64), 1 + np.cumsum(sizes)))


def _block_sets(documents: list[bytes | memoryview], words: int, characters: int) -> ShingleSets:
    data, begins = _join(documents)
    leads = ch.lead_bytes(data)
    by_characters = np.zeros(len(documents), dtype=np.bool_)
    lower = ch.ascii_words().take(data)
    if leads.size:
        kinds = ch.flags()[ch.code_points(data, leads)]
        folding = leads[kinds & ch.FOLDS != 0]
        if folding.size:  # ASCII folds in the table; only documents with other capitals pay for str.casefold
            for row in np.unique(np.searchsorted(begins, folding, side="right") - 1):
                documents[row] = str(documents[row], "utf-8").casefold().encode()
            data, begins = _join(documents)
            lower, leads = ch.ascii_words().take(data), ch.lead_bytes(data)
            kinds = ch.flags()[ch.code_points(data, leads)]
        _blank_out(lower, leads[kinds & ch.WORD == 0])
        by_characters = _unspaced(data, begins, leads, kinds)
        for row in np.flatnonzero(by_characters):
            lower[begins[row] : begins[row + 1]] = 0

    is_word = lower != 0
    edges = np.flatnonzero(is_word[1:] != is_word[:-1])
    del is_word
    edges += 1
    starts, ends = edges[::2], edges[1::2]
    hashed = np.empty(starts.size, dtype=np.uint64)
    for first in range(0, starts.size, _BLOCK):  # one document may be 64 MiB of one-letter words
        last = first + _BLOCK
        hashed[first:last] = token_hashes(lower, starts[first:last], ends[first:last] - starts[first:last])
    hashes = window_hashes(hashed, words)
    del hashed
    tokens = np.searchsorted(starts, begins).tolist()
    sets = [hashes[a : max(a, b - words + 1)] for a, b in pairwise(tokens)]
    for row in np.flatnonzero(by_characters):
        sets[row] = _character_windows(
            bytes(documents[row]).lower().decode(), characters
        )  # lower() of bytes: ASCII alone
    return _distinct(sets, by_characters)


def _blank_out(lower: npt.NDArray[np.uint8], leads: npt.NDArray[np.int64]) -> None:
    """Put 0 over the characters that begin at ``leads``."""
    first = lower[leads]
    for more, least in enumerate((0xC0, 0xC0, 0xE0, 0xF0)):
        lower[leads[first >= least] + more] = 0


def _unspaced(
    data: npt.NDArray[np.uint8],
    begins: npt.NDArray[np.int64],
    leads: npt.NDArray[np.int64],
    kinds: npt.NDArray[np.uint8],
) -> npt.NDArray[np.bool_]:
    """Which documents have more than 30 % of their letters in scripts without blanks."""
    count = begins.size - 1
    found = leads[kinds & ch.UNSPACED != 0]
    if not found.size:
        return np.zeros(count, dtype=np.bool_)
    unspaced = np.bincount(np.searchsorted(begins, found, side="right") - 1, minlength=count)
    letters = leads[kinds & ch.LETTER != 0]
    total = np.bincount(np.searchsorted(begins, letters, side="right") - 1, minlength=count)
    for row in np.flatnonzero(unspaced):
        total[row] += np.count_nonzero(ch.ascii_letters().take(data[begins[row] : begins[row + 1]]))
    return unspaced * 10 > total * 3


def _character_windows(text: str, size: int) -> Words:
    codes = np.frombuffer(text.encode("utf-32-le"), dtype="<u4")
    codes = codes[ch.flags()[codes] & ch.BLANK == 0]
    if codes.size < size:
        return np.empty(0, dtype=np.uint64)
    return window_hashes(mix(codes.astype(np.uint64)), size)


def _distinct(sets: list[Words], by_characters: npt.NDArray[np.bool_]) -> ShingleSets:
    for values in sets:
        values.sort()
    bounds = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum([len(s) for s in sets])))
    flat = np.concatenate(sets)
    fresh = np.empty(flat.size + 1, dtype=np.bool_)  # one more, so that a last empty document has a place to begin
    np.not_equal(flat[1:], flat[:-1], out=fresh[1:-1])
    fresh[bounds] = True
    fresh = fresh[:-1]
    before = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(fresh)))
    return ShingleSets(flat[fresh], before[bounds], by_characters)
