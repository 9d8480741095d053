"""A value of audit.json together with its place there, so that no number reaches the page without it.

Places are JSON pointers (RFC 6901, as URI fragments: percent-encoded, so that blanks and brackets below are unique).
A key of more than 64 characters is written as ``@N``, its place among the sorted keys. Numbers that are computed say
how: ``/a[lo:hi]`` is the sum of the entries of /a whose keys are numbers in [lo, hi), an open side is left out;
``/a[*]`` the sum of all; ``/a[#]`` how many; ``/a - /b`` a difference, ``/a ÷ /b`` a quotient rounded to 6 decimals.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any
from urllib.parse import quote

from cleanpipe.audit.lines import NOT_MEASURED

_LONGEST = 64


@dataclass(frozen=True, slots=True)
class Node:
    """value: plain JSON, None where there is none. of: its place."""

    value: Any
    of: str = ""

    def at(self, *keys: str | int) -> Node:
        """The value below; None where a key is not there."""
        value, of = self.value, self.of
        for key in keys:
            of = f"{of}/{_segment(value, key)}"
            if isinstance(key, int):
                value = value[key] if _is_list(value) and -1 < key < len(value) else None
            else:
                value = value.get(key) if isinstance(value, Mapping) else None
        return Node(value, of)

    @property
    def absent(self) -> bool:
        """Whether there is nothing: no such key, words in place of a section, or a line that was not measured."""
        value = self.value
        return (
            value is None
            or isinstance(value, str)
            or (isinstance(value, Mapping) and value.get("value") == NOT_MEASURED)
        )

    def items(self) -> list[tuple[str, Node]]:
        """Entries of a mapping by their keys, for a file may have them in another order; none of anything else."""
        value, of = self.value, self.of
        if not isinstance(value, Mapping):
            return []
        return [(k, Node(value[k], f"{of}/{_spelled(k, i)}")) for i, k in enumerate(sorted(value))]

    def values(self) -> list[Node]:
        """Entries of a mapping, without their keys."""
        return [n for _, n in self.items()]

    def ranked(self, last: str = "(others)") -> list[tuple[str, Node]]:
        """Entries of a mapping of numbers: larger first, then by name; the rest that was summed up comes last."""
        return sorted(self.items(), key=lambda item: (item[0] == last, -item[1].value, item[0]))

    def nodes(self, most: int | None = None) -> list[Node]:
        """Entries of a list, the first ``most``; none of anything else."""
        return [Node(v, f"{self.of}/{i}") for i, v in enumerate(self.value[:most])] if _is_list(self.value) else []

    def numbered(self) -> list[tuple[float, int]]:
        """Entries of a mapping whose keys are numbers, ascending."""
        if not isinstance(self.value, Mapping):
            return []
        return sorted((float(k), int(n)) for k, n in self.value.items() if k != "nan")

    def binned(self) -> Bins:
        """The same, to be summed up over many ranges."""
        entries = self.numbered()
        return Bins(self.of, [at for at, _ in entries], [0, *accumulate(n for _, n in entries)])

    def within(self, low: float | None, high: float | None) -> Node:
        """Sum of the entries whose keys are numbers in [low, high)."""
        return self.binned().within(low, high)

    def total(self) -> Node:
        """Sum of the entries of a mapping of numbers."""
        total = sum(self.value.values()) if isinstance(self.value, Mapping) else 0
        return Node(total, f"{self.of}[*]")

    def size(self) -> Node:
        """How many entries."""
        return Node(len(self.value) if isinstance(self.value, (Mapping, Sequence)) else 0, f"{self.of}[#]")

    def over(self, whole: Node) -> Node:
        """The quotient; None where there is no whole."""
        value = round(self.value / whole.value, 6) if whole.value and self.value is not None else None
        return Node(value, f"{self.of} ÷ {whole.of}")

    def less(self, other: Node) -> Node:
        """The difference."""
        return Node(self.value - other.value, f"{self.of} - {other.of}")

    def number(self, otherwise: int = 0) -> int:
        """The value of a line, or the number itself; ``otherwise`` where there is none."""
        value = self.value.get("value") if isinstance(self.value, Mapping) else self.value
        return value if isinstance(value, int) else otherwise


@dataclass(frozen=True, slots=True)
class Bins:
    """A mapping of numbers by numbers. at: the keys, ascending. upto: sums of the entries before each, and of all."""

    of: str
    at: Sequence[float]
    upto: Sequence[int]

    def within(self, low: float | None, high: float | None) -> Node:
        """Sum of the entries in [low, high); an open side is None."""
        first = 0 if low is None else bisect_left(self.at, low)
        last = len(self.at) if high is None else bisect_left(self.at, high)
        ends = ("" if end is None else f"{end:.12g}" for end in (low, high))
        return Node(self.upto[max(first, last)] - self.upto[first], f"{self.of}[{':'.join(ends)}]")


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _segment(value: Any, key: str | int) -> str:
    if isinstance(key, int):
        return str(key)
    known = len(key) > _LONGEST and isinstance(value, Mapping) and key in value
    return _spelled(key, sorted(value).index(key) if known else -1)


def _spelled(key: str, place: int) -> str:
    """A key in a pointer; ``place`` is its place among the sorted keys, -1 if it has none."""
    if len(key) > _LONGEST and place >= 0:
        return f"@{place}"
    return quote(key.replace("~", "~0").replace("/", "~1"), safe="~", errors="surrogatepass")
