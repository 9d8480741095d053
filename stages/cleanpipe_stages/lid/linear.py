"""fastText's linear classifier, read from its file and evaluated a batch at a time, a word only once.

What a line is to the model is the mean of the vectors of its words and of their n-grams of characters. A word's sum is
the same wherever it stands, so that it is kept: nine words in ten of a page were seen before, where fastText hashes and
looks up every n-gram of every word again. Labels and scores are fastText's, scores within 2e-6 (it adds in 32 bits).

Covers what language models are: trained with supervision, hierarchical softmax or softmax, n-grams of characters but
not of words, quantised or not. The file's format: fastText 0.9, ``FastText::saveModel``.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MAGIC = 793712314
_HIERARCHICAL, _SOFTMAX = 1, 3
_SUPERVISED = 3
_EOS = b"</s>"
_LABEL = "__label__"
_LARGEST = (
    64 << 20
)  # bytes of a model that is read here; larger ones are left to the library, which maps no memory twice
_KEPT, _KEPT_LETTERS = 100_000, 4 << 20  # words that are remembered, and their letters: some 30 MB
_LINES = 256  # lines at once
_NEW = repeat(-1)  # the number of a word that was not met yet


class UnfitModelError(Exception):
    """The file is none that this module evaluates."""


@dataclass(frozen=True, slots=True)
class Model:
    """labels: by number. minn, maxn, bucket: of the n-grams. words: number of each word. input: a vector for each word,
    then for each kept bucket [rows, dim]. place: the row of each bucket behind the words, -1 for none. output: a vector
    for each label, or for each inner node of the tree [rows, dim]. counts: how often each label was seen.
    """

    labels: tuple[str, ...]
    minn: int
    maxn: int
    bucket: int
    words: dict[bytes, int]
    input: npt.NDArray[np.float32]
    place: npt.NDArray[np.int32]
    output: Floats
    counts: Ints
    tree: bool


def read_model(path: Path) -> Model:
    """The model of a file. Raises UnfitModelError; OSError as reading does."""
    if path.stat().st_size > _LARGEST:
        raise UnfitModelError("too large")
    try:
        return _parse(path.read_bytes())
    except (struct.error, ValueError, IndexError) as error:
        raise UnfitModelError(str(error)) from error


def _parse(data: bytes) -> Model:
    at = 0

    def take(form: str) -> tuple[Any, ...]:
        nonlocal at
        found = struct.unpack_from(f"<{form}", data, at)
        at += struct.calcsize(f"<{form}")
        return found

    def array(kind: str, count: int) -> npt.NDArray[Any]:
        nonlocal at
        found = np.frombuffer(data, kind, count, at)
        at += found.nbytes
        return found

    magic, version = take("ii")
    dim, _, _, _, _, word_ngrams, loss, model, bucket, minn, maxn, _ = take("12i")
    take("d")
    if (magic, version, model, word_ngrams) != (MAGIC, 12, _SUPERVISED, 1) or loss not in (_HIERARCHICAL, _SOFTMAX):
        raise UnfitModelError("not a supervised model of version 12 without n-grams of words")
    size, words, labels = take("iii")
    _, pruned = take("qq")
    names: list[bytes] = []
    counts: list[int] = []
    for _ in range(size):
        end = data.index(b"\0", at)
        names.append(data[at:end])
        at = end + 1
        counts.append(take("qb")[0])
    pairs = array("<i4", 2 * max(0, pruned)).reshape(-1, 2)
    rows = _matrix(take, array, quantised=take("?")[0], dim=dim)
    place = np.full(max(1, bucket), -1, np.int32)
    if pruned > 0:
        place[pairs[:, 0]] = pairs[:, 1]
    elif pruned < 0:  # nothing was pruned: every bucket has its row
        place = np.arange(max(1, bucket), dtype=np.int32)
    output = _matrix(take, array, quantised=take("?")[0], dim=dim).astype(np.float64)
    if at != len(data) or len(rows) < words or len(output) != labels or size != words + labels:
        raise UnfitModelError("sizes that do not fit")
    return Model(
        tuple(n.decode().removeprefix(_LABEL) for n in names[words:]),
        minn, maxn, max(1, bucket), {n: i for i, n in enumerate(names[:words])}, rows, place, output,
        np.array(counts[words:], np.int64), loss == _HIERARCHICAL,
    )  # fmt: skip


def _matrix(take: Any, array: Any, *, quantised: bool, dim: int) -> npt.NDArray[np.float32]:
    if not quantised:
        rows, columns = take("qq")
        return np.asarray(array("<f4", rows * columns).reshape(rows, columns))
    (has_norm,) = take("?")
    rows, columns = take("qq")
    (size,) = take("i")
    codes = array("u1", size)
    vectors = _products(take, array, codes.reshape(rows, -1))
    if has_norm:
        norms = array("u1", rows)
        vectors *= _products(take, array, norms.reshape(rows, 1))
    if vectors.shape != (rows, columns) or columns != dim:
        raise UnfitModelError("a quantised matrix of another size")
    return vectors


def _products(take: Any, array: Any, codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Product quantisation undone: each code names a piece of a vector."""
    dim, parts, part, last = take("4i")
    centroids = array("<f4", dim * 256)
    pieces = []
    for number in range(parts):
        width = last if number == parts - 1 else part
        start = number * 256 * part
        pieces.append(centroids[start : start + 256 * width].reshape(256, width)[codes[:, number]])
    return np.concatenate(pieces, axis=1)


class Classifier:
    """Probabilities of every label for lines of text. Remembers words, which changes no result."""

    def __init__(self, model: Model) -> None:
        self.labels = model.labels
        self._model = model
        self._steps = _tree(model.counts) if model.tree else None
        self._columns = np.ascontiguousarray(model.output.T)
        end = model.words.get(_EOS)
        self._end = model.input[end].astype(np.float64) if end is not None else None
        self._forget()

    def _forget(self) -> None:
        self._words: dict[str, int] = {}
        self._letters = 0
        self._sums = np.zeros((1024, self._model.input.shape[1]))
        self._sizes = np.zeros(1024)

    def probabilities(self, lines: Sequence[str]) -> Floats:
        """[n, labels] for n lines, words parted by single spaces; rows of lines that tell the model nothing are 0."""
        parts = [self._some(lines[at : at + _LINES]) for at in range(0, len(lines), _LINES)]
        return np.concatenate(parts, axis=1).T if parts else np.zeros((0, len(self.labels)))

    def _some(self, lines: Sequence[str]) -> Floats:
        """[labels, n]: lines lie side by side, so that a label's sums run over them."""
        if len(self._words) > _KEPT or self._letters > _KEPT_LETTERS:
            self._forget()
        tokens = [line.split(" ") for line in lines]
        sizes = np.fromiter(map(len, tokens), np.int64, len(tokens))
        words = list(chain.from_iterable(tokens))
        ids = np.fromiter(map(self._words.get, words, _NEW), np.int64, len(words))
        new = np.flatnonzero(ids < 0)
        if len(new):
            unseen = [words[n] for n in new.tolist()]
            self._learn(list(dict.fromkeys(unseen)))
            ids[new] = np.fromiter(map(self._words.__getitem__, unseen), np.int64, len(unseen))
        starts = np.cumsum(sizes) - sizes
        hidden = np.add.reduceat(self._sums.take(ids, axis=0, mode="clip"), starts, axis=0)  # no id is out of bounds
        count = np.add.reduceat(self._sizes[ids], starts)
        if self._end is not None:
            hidden, count = hidden + self._end, count + 1
        hidden /= np.maximum(count, 1)[:, None]
        found = self._output(np.ascontiguousarray(hidden.T))
        found[:, count == 0] = 0
        return found

    def _output(self, hidden: Floats) -> Floats:
        """Probabilities [labels, n] of hidden [dim, n]."""
        logits = np.zeros((self._columns.shape[1], hidden.shape[1]))
        part = np.empty_like(logits)
        for d, column in enumerate(self._columns):  # in this order always: a matrix product's depends on its size
            np.multiply(column[:, None], hidden[d], out=part)
            logits += part
        return self._leaves(logits) if self._steps is not None else _softmax(logits)

    def _leaves(self, logits: Floats) -> Floats:
        right = 1 / (1 + np.exp(-logits))
        yes, no = np.log(right + 1e-5), np.log(1 - right + 1e-5)  # fastText's std_log
        leaves = len(self.labels)
        score = np.zeros((2 * leaves - 1, logits.shape[1]))
        for node, low, high in self._steps or ():
            np.add(score[node], no[node - leaves], out=score[low])
            np.add(score[node], yes[node - leaves], out=score[high])
        return np.asarray(np.exp(score[:leaves]))

    def _learn(self, new: Sequence[str]) -> None:
        """Sums of words that were met for the first time."""
        first = len(self._words)
        self._words.update(zip(new, range(first, first + len(new)), strict=True))
        self._letters += sum(map(len, new))
        short = first + len(new) - len(self._sizes)
        if short > 0:
            room = max(short, len(self._sizes))
            self._sums = np.concatenate([self._sums, np.zeros((room, self._sums.shape[1]))])
            self._sizes = np.concatenate([self._sizes, np.zeros(room)])
        sums, sizes = _word_sums(self._model, [w.encode("utf-8", "replace") for w in new])
        self._sums[first : first + len(new)], self._sizes[first : first + len(new)] = sums, sizes


def _word_sums(model: Model, words: Sequence[bytes]) -> tuple[Floats, Floats]:
    """For each word the sum of its own and its n-grams' vectors, and how many these are; nothing for an empty word."""
    sums, sizes = np.zeros((len(words), model.input.shape[1])), np.zeros(len(words))
    rows = np.fromiter(map(model.words.get, words, _NEW), np.int64, len(words))
    known = np.flatnonzero(rows >= 0)
    if _EOS in words:
        known = known[rows[known] != model.words.get(_EOS)]
    sums[known] += model.input[rows[known]]
    sizes[known] += 1
    if model.maxn > 0:
        marked = [b"<" + w + b">" if w else b"" for w in words]
        for owner, hashes in _every_ngram(marked, model.minn, model.maxn):
            place = model.place[hashes - hashes // np.uint32(model.bucket) * np.uint32(model.bucket)]  # quicker than %
            kept = np.flatnonzero(place >= 0)
            if not len(kept):
                continue
            of = owner[kept]  # in order, so that a word's n-grams stand side by side
            starts = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
            vectors = model.input.take(place[kept] + len(model.words), axis=0, mode="clip").astype(np.float64)
            sums[of[starts]] += np.add.reduceat(vectors, starts, axis=0)
            sizes[of[starts]] += np.diff(np.append(starts, len(of)))
    return sums, sizes


Grams = list[tuple[Ints, npt.NDArray[np.uint32]]]
_BASIS, _PRIME = 2166136261, np.uint32(16777619)  # FNV-1a, 32 bits


def _every_ngram(words: Sequence[bytes], minn: int, maxn: int) -> Grams:
    """Owner and hash (FNV-1a, bytes read as signed) of every n-gram of characters, for each n; words of ASCII alone
    first. The n-grams of a word stand side by side.
    """
    plain = [w.isascii() for w in words]
    if all(plain):
        return _ascii_ngrams(words, minn, maxn)
    some = _ascii_ngrams([w if is_plain else b"" for w, is_plain in zip(words, plain, strict=True)], minn, maxn)
    return some + _ngrams([b"" if is_plain else w for w, is_plain in zip(words, plain, strict=True)], minn, maxn)


def _ascii_ngrams(words: Sequence[bytes], minn: int, maxn: int) -> Grams:
    """Where a character is a byte, the n-grams at every place are one step for all."""
    data = np.frombuffer(b"".join(words), np.uint8).astype(np.uint32)
    sizes = np.fromiter(map(len, words), np.int64, len(words))
    owner = np.repeat(np.arange(len(words)), sizes)
    room = np.cumsum(sizes)[owner] - np.arange(len(data))  # characters from here to the word's end
    hashes = np.full(len(data), _BASIS, np.uint32)
    found: Grams = []
    for n in range(1, min(maxn, len(data)) + 1):
        hashes = hashes[: len(data) - n + 1]
        hashes ^= data[n - 1 :]
        hashes *= _PRIME
        if n >= minn:
            inside = room[: len(hashes)] >= n
            if n == 1:  # the marks around the word are no n-grams
                inside &= (room > 1) & (room < sizes[owner])
            whole = np.flatnonzero(inside)
            found.append((owner[whole], hashes[whole]))
    return found


def _ngrams(words: Sequence[bytes], minn: int, maxn: int) -> Grams:
    """As ``_every_ngram``, of any words."""
    data = np.frombuffer(b"".join(words) + b"\0" * 8, np.uint8)
    end = len(data) - 8
    lead = np.flatnonzero((data[:end] & 0xC0) != 0x80)  # where characters begin
    if not len(lead):
        return []
    sizes = np.array([len(w) for w in words], np.int64)
    edge = np.cumsum(sizes)
    start = edge - sizes
    owner = np.searchsorted(edge, lead, "right")
    signed = data.view(np.int8).astype(np.int32).view(np.uint32)
    hashes = np.full(len(lead), _BASIS, np.uint32)
    following = np.append(lead[1:], end)  # where the next character begins
    found: Grams = []
    alive = np.arange(len(lead))
    for n in range(1, maxn + 1):
        begin, stop = lead[alive + n - 1], following[alive + n - 1]
        state = hashes[alive]
        for k in range(int((stop - begin).max())):
            inside = begin + k < stop
            state = np.where(inside, (state ^ signed[begin + k]) * _PRIME, state)
        hashes[alive] = state
        if n >= minn:
            whole = alive
            if n == 1:  # the marks around the word are no n-grams
                whole = whole[(lead[whole] != start[owner[whole]]) & (following[whole] != edge[owner[whole]])]
            found.append((owner[whole], hashes[whole]))
        alive = alive[alive + n < len(lead)]
        alive = alive[owner[alive] == owner[alive + n]]
        if not len(alive):
            break
    return found


def _tree(counts: Ints) -> list[tuple[int, int, int]]:
    """The inner nodes from the root down, each with its two children: fastText's Huffman tree over the labels."""
    leaves = len(counts)
    weight = [*map(int, counts), *[10**15] * (leaves - 1)]
    leaf, node = leaves - 1, leaves
    nodes: list[tuple[int, int, int]] = []
    for parent in range(leaves, 2 * leaves - 1):
        pair = [0, 0]
        for side in range(2):
            if leaf >= 0 and weight[leaf] < weight[node]:
                pair[side], leaf = leaf, leaf - 1
            else:
                pair[side], node = node, node + 1
        weight[parent] = weight[pair[0]] + weight[pair[1]]
        nodes.append((parent, pair[0], pair[1]))
    return nodes[::-1]


def _softmax(logits: Floats) -> Floats:
    weights = np.exp(logits - logits.max(axis=0))
    total = np.zeros(weights.shape[1])
    for label in weights:
        total += label
    return np.asarray(weights / total + 1e-5)  # as fastText's, which takes the log and back
