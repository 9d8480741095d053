"""Which store gives sequence g, and how many it gave before: both by arithmetic, so that nothing is kept.

The stores are the leaves of a binary tree. At a node with weights a (left) and b (both), the left child takes the
sequence g of the node if ⌊(g+1)·a/b⌋ > ⌊g·a/b⌋, and ⌊g·a/b⌋ is how many it took before (Beatty's splits): after any
number of sequences each child's share is exact to less than one.
"""

from __future__ import annotations

import hashlib
import json
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.arguments import shown, whole

Numbers = npt.NDArray[np.int64]
_FITS = 1 << 31  # a weight times a rest below it stays within int64


def integer_weights(weights: Sequence[float]) -> tuple[int, ...]:
    """Weights as the smallest integers of the same ratios; floats count as their decimal spelling (0.1 is 1/10).

    Raises:
        ConfigError: one is negative or not finite, or all are 0.
    """
    number_of("weights", weights)
    found = [_exact(weight) for weight in weights]
    if not sum(found):
        raise ConfigError("the mixing weights sum to 0: give at least one store a weight above 0")
    scale = math.lcm(*(f.denominator for f in found))
    whole = [int(f * scale) for f in found]
    shared = math.gcd(*whole)
    return tuple(w // shared for w in whole)


def number_of(name: str, given: Any) -> int:
    """How many there are, of an argument that is a list or an array."""
    try:
        if not isinstance(given, str | bytes | Mapping):
            return len(given)
    except TypeError:
        pass
    raise ConfigError(f"{name} {shown(given)}: a list is needed")


def _exact(weight: Any) -> Fraction:
    number = isinstance(weight, numbers.Real) and not isinstance(weight, bool)
    if not number or not (isinstance(weight, numbers.Rational) or math.isfinite(weight)) or weight < 0:
        raise ConfigError(f"mixing weight {shown(weight)}: a number of 0 or more is needed")
    return Fraction(weight) if isinstance(weight, numbers.Rational) else Fraction(repr(float(weight)))


@dataclass(frozen=True, slots=True)
class Segment:
    """Weights that hold from a global sequence on. before: how many sequences each store gave until then."""

    since: int
    weights: tuple[int, ...]
    before: tuple[int, ...]

    def split(self, g: Numbers) -> tuple[Numbers, Numbers]:
        """The store of each sequence, and how many sequences that store gave before it. g: (m,) int64 ≥ since."""
        source, count = np.zeros(len(g), np.int64), np.zeros(len(g), np.int64)
        self._descend(0, len(self.weights), np.arange(len(g)), g - self.since, source, count)
        return source, count + np.asarray(self.before, np.int64)[source]

    def counts(self, g: int) -> tuple[int, ...]:
        """How many of the sequences below g each store gives."""
        out: list[int] = []
        self._counted(0, len(self.weights), g - self.since, out)
        return tuple(b + n for b, n in zip(self.before, out, strict=True))

    def _descend(self, lo: int, hi: int, rows: Numbers, place: Numbers, source: Numbers, count: Numbers) -> None:
        if hi - lo == 1:
            source[rows], count[rows] = lo, place
            return
        mid = (lo + hi) // 2
        a, b = sum(self.weights[lo:mid]), sum(self.weights[lo:hi])
        if a == 0 or a == b:
            self._descend(*((lo, mid) if a else (mid, hi)), rows, place, source, count)
            return
        earlier = _share(place, a, b)
        left = _share(place + 1, a, b) > earlier
        if left.any():
            self._descend(lo, mid, rows[left], earlier[left], source, count)
        if not left.all():
            self._descend(mid, hi, rows[~left], (place - earlier)[~left], source, count)

    def _counted(self, lo: int, hi: int, n: int, out: list[int]) -> None:
        if hi - lo == 1:
            out.append(n)
            return
        mid = (lo + hi) // 2
        total = sum(self.weights[lo:hi])
        left = n * sum(self.weights[lo:mid]) // total if total else 0
        self._counted(lo, mid, left, out)
        self._counted(mid, hi, n - left, out)


def _share(g: Numbers, a: int, b: int) -> Numbers:
    """⌊g·a/b⌋ without a product beyond 64 bits."""
    if b < _FITS:
        whole, rest = np.divmod(g, b)
        return np.asarray(whole * a + rest * a // b, np.int64)
    return np.array([int(x) * a // b for x in g], np.int64)


class Mixture:
    """Weights of stores, and from which global sequence on they hold.

    Args:
        weights: one for each store, integers or decimals.
        changes: (global sequence, weights) from which others hold, in rising order; only what lies ahead of what was
            read may be added or changed.

    Raises:
        ConfigError: see ``integer_weights``; the numbers of weights differ; the sequences do not rise.
    """

    def __init__(self, weights: Sequence[float], changes: Sequence[tuple[int, Sequence[float]]] = ()) -> None:
        first = integer_weights(weights)
        self.segments = [Segment(0, first, (0,) * len(first))]
        number_of("changes", changes)
        for change in changes:
            if number_of("changes", change) != 2:
                raise ConfigError(f"changes {shown(change)}: (sequence, weights) is needed")
            since, changed = whole("changes from sequence", change[0], 1), change[1]
            found, last = integer_weights(changed), self.segments[-1]
            if len(found) != len(first):
                raise ConfigError(f"mixing weights from sequence {since}: {len(first)} are needed, {len(found)} given")
            if since <= last.since:
                raise ConfigError(f"mixing weights from sequence {since}: it must lie behind sequence {last.since}")
            self.segments.append(Segment(since, found, last.counts(since)))
        self._since = np.array([s.since for s in self.segments], np.int64)

    def __len__(self) -> int:
        return len(self.segments[0].weights)

    def split(self, g: Numbers) -> tuple[Numbers, Numbers]:
        """The store of each global sequence, and how many sequences that store gave before it. g: (m,) int64."""
        if len(self.segments) == 1:
            return self.segments[0].split(g)
        source, count = np.empty(len(g), np.int64), np.empty(len(g), np.int64)
        at = np.searchsorted(self._since, g, side="right") - 1
        for number in np.unique(at):
            here = at == number
            source[here], count[here] = self.segments[number].split(g[here])
        return source, count

    def counts(self, g: int) -> tuple[int, ...]:
        """How many of the global sequences below g each store gives."""
        return self.segments[int(np.searchsorted(self._since, g, side="right")) - 1].counts(g)

    def nth(self, source: int, count: int) -> int:
        """The global sequence that is the ``count``-th (from 0) of a store.

        Raises:
            ValueError: the store has weight 0 from then on.
        """
        low, high = 0, 1
        while self.counts(high)[source] <= count:
            low, high = high, high * 2
            if high > 1 << 62:
                raise ValueError(f"store {source} gives no {count}-th sequence")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.counts(middle)[source] <= count else (low, middle)
        return low

    def version(self, consumed: int) -> str:
        """A short digest of the weights that sequences below ``consumed`` were read by."""
        used = [[s.since, s.weights] for s in self.segments if s.since < max(1, consumed)]
        return hashlib.sha256(json.dumps(used).encode()).hexdigest()[:12]
