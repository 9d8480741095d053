"""A keyed permutation of 0 … n − 1 that needs no table: any place of it, or of its inverse, costs the same.

The numbers below n are split into two halves of bits and go through ``ROUNDS`` rounds, each of which adds (XOR) a keyed
hash of one half to the other: undone in the reverse order, hence one to one. A result that is not below n goes through
again (cycle walking; the bits are those of n − 1, so fewer than two passes on average).

The order that a key gives is a promise between versions: a state of an older cleanpipe must find the same sequences.
What changes it needs another ``ORDER`` in the plan's fingerprint.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ROUNDS = 8
LIMIT = 1 << 62  # of n: sums of places stay below 2^63

Numbers = npt.NDArray[np.int64]
_Words = npt.NDArray[np.uint64]
_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of SplitMix64's finaliser (Steele 2014)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


@dataclass(frozen=True, slots=True)
class Key:
    """The keys of the rounds: the 64 bytes of a SHA-512, as little-endian words."""

    rounds: tuple[int, ...]

    @classmethod
    def of(cls, *parts: int | str) -> Key:
        """The key that parts name, such as a seed and an epoch: SHA-512 of them, in decimal, a colon between."""
        text = ":".join(["cleanpipe-order", *(str(part) for part in parts)])
        return cls(tuple(np.frombuffer(hashlib.sha512(text.encode()).digest(), "<u8").tolist()))


def permute(places: Numbers, n: int, key: Key) -> Numbers:
    """Where each place of 0 … n − 1 goes. places: (m,) int64, each ≥ 0 and < n ≤ 2^62."""
    return _walk(places, n, key.rounds, inverse=False)


def unpermute(places: Numbers, n: int, key: Key) -> Numbers:
    """The inverse of ``permute``."""
    return _walk(places, n, key.rounds, inverse=True)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The block variant, for storage where neighbours are cheap: the blocks of ``block`` neighbours are permuted, then
    the places inside each window of ``window`` blocks of that order. What is read at one time comes from about
    ``window`` blocks.
    """

    block: int = 1024
    window: int = 16

    def permute(self, places: Numbers, n: int, key: Key) -> Numbers:
        """As the function of this name."""
        return self._whole(self._inside(places, n, key, inverse=False), n, key)

    def unpermute(self, places: Numbers, n: int, key: Key) -> Numbers:
        """The inverse of ``permute``."""
        blocks = -(-n // self.block)
        short = self._short_at(blocks, key)
        block, within = np.divmod(places, self.block)
        ordered = unpermute(block, blocks, key)
        ahead = ordered * self.block + within - (ordered > short) * (blocks * self.block - n)
        return self._inside(ahead, n, key, inverse=True)

    def _whole(self, places: Numbers, n: int, key: Key) -> Numbers:
        """Places in the order of permuted blocks → numbers. The last block may be short: what follows it moves up."""
        blocks = -(-n // self.block)
        missing = blocks * self.block - n
        end = (self._short_at(blocks, key) + 1) * self.block - missing
        block, within = np.divmod(places + (places >= end) * missing, self.block)
        return permute(block, blocks, key) * self.block + within

    def _short_at(self, blocks: int, key: Key) -> int:
        """Where in the order of blocks the last one of all stands."""
        return int(unpermute(np.array([blocks - 1], np.int64), blocks, key)[0])

    def _inside(self, places: Numbers, n: int, key: Key, *, inverse: bool) -> Numbers:
        size = self.block * self.window
        window = places // size
        out = np.empty_like(places)
        for number in np.unique(window):  # neighbours share a window
            here = window == number
            begin = int(number) * size
            rounds = Key.of(*key.rounds, int(number)).rounds
            out[here] = _walk(places[here] - begin, min(size, n - begin), rounds, inverse=inverse) + begin
        return out


def _walk(places: Numbers, n: int, rounds: tuple[int, ...], *, inverse: bool) -> Numbers:
    if not 0 < n <= LIMIT:
        raise ValueError(f"n = {n} is not within 1 … 2^62")
    if len(places) and not 0 <= int(places.min()) <= int(places.max()) < n:
        raise ValueError(f"a place is not within 0 … {n - 1}")
    out = _pass(places.astype(np.uint64), n, rounds, inverse=inverse)
    wide = np.flatnonzero(out >= np.uint64(n))
    while len(wide):
        out[wide] = _pass(out[wide], n, rounds, inverse=inverse)
        wide = wide[out[wide] >= np.uint64(n)]
    return out.astype(np.int64)


def _pass(x: _Words, n: int, rounds: tuple[int, ...], *, inverse: bool) -> _Words:
    """All rounds over numbers of as many bits as n − 1 has: even rounds change the low half, odd ones the high half."""
    bits = max(1, (n - 1).bit_length())
    low_bits = np.uint64(bits - bits // 2)
    low_mask, high_mask = np.uint64((1 << int(low_bits)) - 1), np.uint64((1 << bits // 2) - 1)
    low, high = x & low_mask, x >> low_bits
    order = range(len(rounds))
    for at in reversed(order) if inverse else order:
        if at % 2:
            high = high ^ (_mixed(low, rounds[at]) & high_mask)
        else:
            low = low ^ (_mixed(high, rounds[at]) & low_mask)
    return (high << low_bits) | low


def _mixed(x: _Words, key: int) -> _Words:
    z = x + np.uint64(key)
    z = (z ^ (z >> _30)) * _ONE
    z = (z ^ (z >> _27)) * _TWO
    return z ^ (z >> _31)
