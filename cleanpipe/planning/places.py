"""Where a sample is taken: blocks of the inputs' compressed bytes, drawn by a hash, each as likely as any other.

Inputs of one kind (WARC, WET, …) are one stratum. A stratum's bytes are cut into blocks of equal size, file by file,
and a simple random sample of the blocks is drawn without replacement. So the chance of a record is known, and that of a
pair: within one block the chance of the block, else the product of two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cleanpipe.io.inputs import Input

LEAST_PLACES = 8  # of a stratum, where it has so many
_KINDS = (".wet", ".wat", ".arc")


@dataclass(frozen=True, slots=True)
class Stratum:
    """Inputs of one kind: their number, compressed bytes, and blocks."""

    name: str
    files: int
    size: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """The blocks drawn of one input, ascending: block b are the bytes from ``b * block`` on. Empty: all of it."""

    source: Input
    stratum: int
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Places:
    """A sample's places. whole: everything is read, and nothing is estimated. block: bytes of a place."""

    strata: tuple[Stratum, ...]
    chosen: tuple[Chosen, ...]
    block: int
    whole: bool


def choose(inputs: Sequence[Input], *, seed: int, places: int, sample_bytes: int) -> Places:
    """The places of a sample of about ``sample_bytes``; all of the inputs where they are no larger.

    The same for the same seed, sources and sizes. Inputs without a size have no place.
    """
    block = max(1, sample_bytes // places)
    groups: dict[str, list[Input]] = {}
    for one in sorted(inputs, key=lambda i: i.source):
        groups.setdefault(_kind(one.source), []).append(one)
    total = sum(i.size for i in inputs)
    whole = total <= sample_bytes
    strata, chosen = [], list[Chosen]()
    for number, (name, members) in enumerate(sorted(groups.items())):
        counts = np.array([-(-i.size // block) for i in members], np.int64)
        starts = np.concatenate([[0], np.cumsum(counts)])
        blocks, size = int(starts[-1]), sum(i.size for i in members)
        strata.append(Stratum(name, len(members), size, blocks))
        if whole:
            chosen += [Chosen(i, number, ()) for i in members]
            continue
        wanted = min(blocks, max(LEAST_PLACES, round(places * size / total)))
        drawn: dict[int, list[int]] = {}
        for place in draw(f"{seed}\0{name}", blocks, wanted):
            at = int(np.searchsorted(starts, place, side="right")) - 1
            drawn.setdefault(at, []).append(place - int(starts[at]))
        chosen += [Chosen(members[at], number, tuple(found)) for at, found in sorted(drawn.items())]
    chosen.sort(key=lambda c: c.source.source)  # as a run reads them
    return Places(tuple(strata), tuple(chosen), block, whole)


def draw(key: str, population: int, count: int) -> list[int]:
    """``count`` different numbers below ``population``, ascending, by a hash; no list of all of them is made."""
    if count >= population:
        return list(range(population))
    if 2 * count > population:  # draw those that stay out
        out = set(draw(key, population, population - count))
        return [n for n in range(population) if n not in out]
    found: set[int] = set()
    turn = 0
    while len(found) < count:
        digest = hashlib.sha256(f"{key}\0{turn}".encode()).digest()
        found.add(int.from_bytes(digest[:16], "big") % population)
        turn += 1
    return sorted(found)


def _kind(source: str) -> str:
    name = source.rsplit("/", 1)[-1].lower()
    return next((kind[1:] for kind in _KINDS if kind in name), "warc")
