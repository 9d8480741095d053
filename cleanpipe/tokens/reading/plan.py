"""Which tokens are global sequence g: a pure function of the stores and a few numbers, for any g at the same cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.arguments import shown, whole
from cleanpipe.tokens.reading import packing as best_fit
from cleanpipe.tokens.reading.feistel import Blocks, Key, permute, unpermute
from cleanpipe.tokens.reading.mixing import Mixture, number_of
from cleanpipe.tokens.reading.packed import Packed, checked_cache, packed
from cleanpipe.tokens.reading.source import Source, same_tokenizer

if TYPE_CHECKING:
    from cleanpipe.tokens.store import TokenStore

Numbers = npt.NDArray[np.int64]
ORDER = 1  # of permutation, packing and mixing: what changes which tokens are sequence g needs another
CONCAT, BEST_FIT = "concat", "best-fit"
PACKINGS, SHUFFLES = (CONCAT, BEST_FIT), ("feistel", "block", "none")
_LONGEST = 1 << 27  # tokens of a sequence
LAST = 1 << 62  # of the numbers of sequences: sums of them stay below 2^63
SEAL = 8  # hex digits
_AHEAD = 1024  # places of the order that are worked out together


class Piece(NamedTuple):
    """Tokens [start, stop) of a store, that lie at ``place`` in a sequence. source: which store of the plan."""

    source: int
    start: int
    stop: int
    place: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Global sequences g as (source, index, epoch): the store of each, the number of its sequence there before the
    order was mixed up, and how often that store was read through before. All (m,) int64.
    """

    g: Numbers
    source: Numbers
    index: Numbers
    epoch: Numbers


class Plan:
    """Sequences of ``length`` tokens over one or more stores, in an order that a seed decides.

    Sequence g of the plan is the (c mod n)-th of its store's n in the order of epoch c // n, where c is how many the
    store gave before g. With one store, or stores without weights, ``sequences`` global sequences are every token of
    every store exactly once.

    Args:
        stores: open token stores, or one; all of one tokenizer.
        length: tokens of a sequence.
        packing: "concat" cuts the store every ``length`` tokens; "best-fit" cuts no document that fits (see packing).
        seed: of the order.
        shuffle: "feistel" over all sequences; "block" keeps neighbours near each other, for object storage; "none".
        blocks: of "block".
        weights: of the stores in the mixture; by default as many sequences as each has.
        changes: (global sequence, weights) from which others hold; see ``Mixture``.
        cache: a folder that keeps best-fit indexes; in memory without.
        workers: processes that make a best-fit index.

    Raises:
        ConfigError: an argument is none of these, stores differ in their tokenizer, or have no tokens.
    """

    def __init__(
        self,
        stores: TokenStore | Sequence[TokenStore],
        *,
        length: int,
        packing: str = CONCAT,
        seed: int = 0,
        shuffle: str = "feistel",
        blocks: Blocks | None = None,
        weights: Sequence[float] | None = None,
        changes: Sequence[tuple[int, Sequence[float]]] = (),
        cache: str | Path | None = None,
        workers: int = 1,
    ) -> None:
        given = list(stores) if isinstance(stores, Sequence) else [stores]
        self.length, self.seed = whole("length", length, 1, _LONGEST), whole("seed", seed, 0, (1 << 63) - 1)
        self.packing, self.shuffle, self.blocks = packing, shuffle, blocks or Blocks()
        workers, folder = whole("workers", workers, 1), checked_cache(cache)
        self._check(given, weights)
        self.sources = [Source(store) for store in given]
        self.packed: list[Packed | None] = [None] * len(given)
        if packing == BEST_FIT:
            self.packed = [packed(s, self.length, cache=folder, workers=workers) for s in self.sources]
        self.counts = tuple(self._count(at) for at in range(len(given)))
        self.sequences = sum(self.counts)
        if not self.sequences:
            raise ConfigError(f"{', '.join(str(store.root) for store in given)}: no tokens to read")
        self.mixture = Mixture(self.counts if weights is None else weights, changes)
        if any(w and not n for s in self.mixture.segments for w, n in zip(s.weights, self.counts, strict=True)):
            raise ConfigError("a store without tokens has a weight above 0")
        self._keys: dict[tuple[int, int], Key] = {}
        self.fingerprint = hashlib.sha256(self._spelled()).hexdigest()[:32]

    def _check(self, stores: list[TokenStore], weights: Sequence[float] | None) -> None:
        if not stores:
            raise ConfigError("a plan needs a token store")
        for store in stores:
            if not hasattr(store, "token_starts"):
                raise ConfigError(f"store {shown(store)}: open it first, with open_tokens(folder)")
        if self.packing not in PACKINGS:
            raise ConfigError(f"packing {shown(self.packing)}: {' or '.join(PACKINGS)}")
        if self.shuffle not in SHUFFLES:
            raise ConfigError(f"shuffle {shown(self.shuffle)}: {', '.join(SHUFFLES)}")
        if not isinstance(self.blocks, Blocks):
            raise ConfigError(f"blocks {shown(self.blocks)}: Blocks(block, window)")
        block, window = whole("block", self.blocks.block, 1, 1 << 40), whole("window", self.blocks.window, 1, 1 << 20)
        self.blocks = Blocks(block, window)
        if weights is not None and (given := number_of("weights", weights)) != len(stores):
            raise ConfigError(f"mixing weights: {len(stores)} are needed, {given} given")
        if differs := same_tokenizer(stores):
            raise ConfigError(f"{differs}; tokenize both with one tokenizer")

    @property
    def decided(self) -> tuple[int, str]:
        """The decisions in force: how many lines, of all stores, and their seal.

        The seal of one store is how its digest begins: 8 hex digits. Of several it is the same of their digests, a
        colon, and the lines of each with points between: ``1c9e08ab:2.0.17``.
        """
        held = [source.lines for source in self.sources]
        return sum(lines for lines, _ in held), seal(held)

    def facts(self) -> dict[str, Any]:
        """What the fingerprint is of, in short: for a state, and to say what differs."""
        shuffle = f"block {self.blocks.block}x{self.blocks.window}" if self.shuffle == "block" else self.shuffle
        stores = hashlib.sha256(json.dumps([str(s.store.digest) for s in self.sources]).encode()).hexdigest()[:12]
        return {"stores": stores, "length": self.length, "packing": self.packing, "seed": self.seed, "shuffle": shuffle}

    def _spelled(self) -> bytes:
        rule = [ORDER, best_fit.VERSION, best_fit.GROUP] if self.packing == BEST_FIT else [ORDER]
        digests = [str(s.store.digest) for s in self.sources]
        return json.dumps({**self.facts(), "stores": digests, "rule": rule}, sort_keys=True).encode()

    def _count(self, source: int) -> int:
        index = self.packed[source]
        return -(-self.sources[source].tokens // self.length) if index is None else len(index.ends)

    def rows(self, g: Numbers) -> Rows:
        """Where global sequences come from. g: (m,) int64 ≥ 0, else IndexError."""
        if len(g) and int(g.min()) < 0:
            raise IndexError(f"global sequence {int(g.min()):,}")
        source, count = self.mixture.split(g)
        index, epoch = np.empty_like(count), np.empty_like(count)
        for at, n in enumerate(self.counts):
            if not (here := source == at).any():
                continue
            epoch[here], place = np.divmod(count[here], n)
            index[here] = self._ordered(at, place, epoch[here], n)
        return Rows(g, source, index, epoch)

    def _ordered(self, source: int, place: Numbers, epochs: Numbers, n: int, *, inverse: bool = False) -> Numbers:
        if self.shuffle == "none":
            return place
        out = np.empty_like(place)
        for epoch in np.unique(epochs).tolist():
            here = epochs == epoch
            key = self.key(source, epoch)
            if self.shuffle == "block":
                out[here] = (self.blocks.unpermute if inverse else self.blocks.permute)(place[here], n, key)
            else:
                out[here] = (unpermute if inverse else permute)(place[here], n, key)
        return out

    def key(self, source: int, epoch: int) -> Key:
        """The key of the order of a store's epoch: of the seed, the store's place in the plan, and the epoch."""
        if (source, epoch) not in self._keys:
            if len(self._keys) > 64 * len(self.counts):
                self._keys.clear()
            self._keys[source, epoch] = Key.of(self.seed, source, epoch)
        return self._keys[source, epoch]

    def locate(self, g: int) -> list[Piece]:
        """The pieces of a global sequence, in their order; what they leave of ``length`` is padding."""
        rows = self.rows(np.array([numbered(g)], np.int64))
        return self.pieces(int(rows.source[0]), int(rows.index[0]))

    def pieces(self, source: int, index: int) -> list[Piece]:
        """The same, of a sequence of one store."""
        found = self.packed[source]
        if found is None:
            start = index * self.length
            return [Piece(source, start, min(start + self.length, self.sources[source].tokens), 0)]
        part = found.pieces(index)
        starts, tokens = found.starts[part], found.tokens[part]
        places = np.cumsum(tokens, dtype=np.int64) - tokens
        return [
            Piece(source, a, a + n, p)
            for a, n, p in zip(starts.tolist(), tokens.tolist(), places.tolist(), strict=True)
        ]

    def documents(self, g: int) -> Numbers:
        """The numbers (in their store) of the documents of a global sequence, as they come in it."""
        out: list[int] = []
        for piece in self.locate(g):
            source = self.sources[piece.source]
            ends, first = source.borders(piece.start, piece.stop)
            begins = np.concatenate([[0], ends])
            held = np.flatnonzero(
                np.minimum(np.append(ends, piece.stop - piece.start), piece.stop - piece.start) > begins
            )
            out += [first + int(at) for at in held if not out or out[-1] != first + int(at)]
        return np.array(out, np.int64)

    def sequences_of(self, source: int, start: int, stop: int, epoch: int = 0) -> Numbers:
        """The other way: the global sequences of a store's epoch that hold tokens of [start, stop), rising.

        Raises:
            ConfigError: an epoch so late that its sequences would have numbers beyond LAST.
        """
        if epoch < 0 or (epoch + 1) * self.counts[source] > LAST:
            raise ConfigError(f"epoch {epoch:,}: the numbers of sequences end at 2^62")
        if start >= stop:
            return np.zeros(0, np.int64)
        found = self.packed[source]
        if found is None:
            index = np.arange(start // self.length, -(-stop // self.length), dtype=np.int64)
        else:
            pieces = np.flatnonzero((found.starts < stop) & (found.starts + found.tokens > start))
            index = np.unique(np.searchsorted(found.ends, pieces, "right")).astype(np.int64)
        n = self.counts[source]
        place = self._ordered(source, index, np.full(len(index), epoch, np.int64), n, inverse=True)
        wanted = place + epoch * n
        return np.sort(np.array([self.mixture.nth(source, int(c)) for c in wanted], np.int64))


def numbered(g: int) -> int:
    """The number of a global sequence.

    Raises:
        IndexError: it is below 0. ConfigError: it is above LAST.
    """
    if g < 0:
        raise IndexError(f"sequence {g:,}")
    if g > LAST:
        raise ConfigError(f"sequence {g:,}: the numbers of sequences end at 2^62")
    return g


def seal(held: Sequence[tuple[int, str]]) -> str:
    """See ``Plan.decided``; held: of each store its lines and their digest."""
    if len(held) == 1:
        return held[0][1][:SEAL]
    mixed = hashlib.sha256("".join(digest for _, digest in held).encode()).hexdigest()[:SEAL]
    return f"{mixed}:{'.'.join(str(lines) for lines, _ in held)}"


class Ahead:
    """``Plan.rows`` of neighbours, for one reader: the order is worked out for some more at once, and kept."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._made, self._last = Rows(*(np.zeros(0, np.int64) for _ in range(4))), 0

    def rows(self, start: int, stop: int) -> Rows:
        """Of start … stop − 1."""
        made = self._made
        begin = start - int(made.g[0]) if len(made.g) else -1
        if not 0 <= begin <= begin + stop - start <= len(made.g):
            more = start + _AHEAD if start - self._last < _AHEAD else 0  # what many ranks read between is not worth it
            made = self._made = self.plan.rows(np.arange(start, max(stop, more), dtype=np.int64))
            begin = 0
        self._last = start
        part = slice(begin, begin + stop - start)
        return Rows(made.g[part], made.source[part], made.index[part], made.epoch[part])
