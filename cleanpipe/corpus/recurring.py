"""Lines that recur from document to document: counted by a 64-bit hash, partition by partition, on disk.

Each unit leaves a sorted table of its lines; the merge holds one partition of the hashes at a time. So memory is
bounded at any corpus size, and counts are exact but for two lines of one hash (1 in 10^6 at 6 million lines).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

LINE = np.dtype([("hash", "<u8"), ("documents", "<i8"), ("times", "<i8"), ("chars", "<i4"), ("place", "<i8")])
"""place: unit * 2^32 + row of the first document that holds it."""
Table = npt.NDArray[np.void]
AT_LEAST = (2, 3, 5, 10, 100, 1000)  # documents
TOP = 50
_ROWS = 4 << 20  # of the merge at a time: 140 MB
_PENDING, _HELD = 1 << 18, 2 << 20  # lines of a unit that wait, and that are held


def line_hash(line: str) -> bytes:
    """Eight bytes."""
    return blake2b(line.encode(), digest_size=8).digest()


class Lines:
    """The lines of one unit's documents."""

    def __init__(self, unit: int, folder: Path) -> None:
        self._unit, self._folder, self._files = unit, folder, 0
        self._merged: list[Table] = []
        self._hashes, self._chars, self._times, self._places = bytearray(), list[int](), list[int](), list[int]()

    def add(self, row: int, text: str) -> None:
        """One document's; white space around a line is no part of it, an empty line is none."""
        times: dict[str, int] = {}
        for line in text.split("\n"):
            if line := line.strip(" \t"):
                times[line] = times.get(line, 0) + 1
        for line, n in times.items():
            self._hashes += blake2b(line.encode(), digest_size=8).digest()
            self._chars.append(len(line))
            self._times.append(n)
            self._places.append(row)
        if len(self._chars) >= _PENDING:
            self._fold()

    def _fold(self, last: bool = False) -> None:
        fresh = np.zeros(len(self._chars), LINE)
        fresh["hash"] = np.frombuffer(bytes(self._hashes), "<u8")
        fresh["documents"], fresh["times"], fresh["chars"] = 1, self._times, self._chars
        fresh["place"] = np.array(self._places, np.int64) + (self._unit << 32)
        self._merged = [merge([*self._merged, fresh])]
        if last or len(self._merged[0]) >= _HELD:
            np.save(self._folder / f"lines-{self._unit:06d}-{self._files:04d}.npy", self._merged.pop())
            self._files += 1
        self._hashes = bytearray()
        self._chars, self._times, self._places = [], [], []

    def save(self) -> None:
        """What is held, sorted by hash, into a file of its own."""
        self._fold(last=True)


def merge(tables: Sequence[Table]) -> Table:
    """One row a hash: sums, and the least place."""
    rows = np.concatenate(tables)
    rows = rows[np.argsort(rows["hash"], kind="stable")]
    if not len(rows):
        return rows
    starts = np.flatnonzero(np.concatenate([[True], rows["hash"][1:] != rows["hash"][:-1]]))
    out = rows[starts].copy()
    for name in ("documents", "times"):
        out[name] = np.add.reduceat(rows[name], starts)
    out["place"] = np.minimum.reduceat(rows["place"], starts)
    return out


@dataclass(slots=True)
class Recurring:
    """lines, chars: distinct lines and characters in all lines, each as often as it stands. at_least: for each of
    AT_LEAST and "1 %" the distinct lines that so many documents hold, and the characters in them. top: LINE rows.
    """

    lines: int = 0
    chars: int = 0
    at_least: dict[int, list[int]] = field(default_factory=dict)
    top: Table = field(default_factory=lambda: np.zeros(0, LINE))


def recurring(folder: Path, documents: int) -> Recurring:
    """Merge the units' tables. documents: of the corpus."""
    tables = [np.load(p, mmap_mode="r") for p in sorted(folder.glob("lines-*.npy"))]
    total = sum(len(t) for t in tables)
    levels = sorted({*AT_LEAST, max(10, -(-documents // 100))})  # 1 % of documents too
    found = Recurring(at_least={k: [0, 0] for k in levels})
    for part in _partitions(tables, -(-total // _ROWS)):
        merged = merge(part)
        found.lines += len(merged)
        chars = merged["chars"].astype(np.int64) * merged["times"]
        found.chars += int(chars.sum())
        for k, sums in found.at_least.items():
            often = merged["documents"] >= k
            sums[0] += int(often.sum())
            sums[1] += int(chars[often].sum())
        best = np.concatenate([found.top, merged[merged["documents"] > 1]])
        found.top = best[np.lexsort((best["hash"], -best["chars"], -best["documents"]))][:TOP]
    return found


def _partitions(tables: Sequence[Table], count: int) -> Iterator[list[Table]]:
    borders = [(i << 64) // max(1, count) for i in range(1, max(1, count))]
    cuts = [[0, *np.searchsorted(t["hash"], np.array(borders, np.uint64)).tolist(), len(t)] for t in tables]
    for i in range(max(1, count)):
        yield [np.array(t[c[i] : c[i + 1]]) for t, c in zip(tables, cuts, strict=True)] or [np.zeros(0, LINE)]
