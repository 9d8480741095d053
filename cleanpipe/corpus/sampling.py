"""Which documents are shown or, of a large corpus, judged: those of the smallest hash, the same in every run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.audit.facts import mixed

Sample = dict[str, Any]
Samples = dict[str, list[Sample]]
Words = npt.NDArray[np.uint64]


def doc_id(source: str, offset: int) -> bytes:
    """Sixteen bytes: of the file's name and the row's place in it."""
    return hashlib.sha256(f"{source}\0{offset}".encode("utf-8", "surrogateescape")).digest()[:16]


def order_of(identity: bytes, seed: int) -> str:
    """Sixteen hex digits; the k documents of the smallest are shown."""
    return hashlib.blake2b(identity, digest_size=8, key=seed.to_bytes(8, "little")).hexdigest()


class Keeper:
    """The k samples of smallest order of each group; what is shown of one is made only if it stays."""

    def __init__(self, k: int) -> None:
        self.k = k
        self._held: Samples = {}

    def wants(self, group: str, order: str) -> bool:
        """Whether a sample of this order would stay."""
        held = self._held.get(group, [])
        return self.k > 0 and (len(held) < self.k or order < held[-1]["order"])

    def add(self, group: str, sample: Sample) -> None:
        """Take it, and let the largest go."""
        held = self._held.setdefault(group, [])
        held.append(sample)
        held.sort(key=_key)
        del held[self.k :]

    @property
    def samples(self) -> Samples:
        """By group."""
        return self._held


def _key(sample: Sample) -> tuple[str, str]:
    return sample["order"], sample["doc_id"]


def merge_samples(a: Mapping[str, Sequence[Sample]], b: Mapping[str, Sequence[Sample]], k: int) -> Samples:
    """The k smallest of both in each group; commutative and associative."""
    return {g: sorted([*a.get(g, ()), *b.get(g, ())], key=_key)[:k] for g in {*a, *b}}


def row_orders(source: str, first: int, rows: int, seed: int) -> Words:
    """For each row of a segment the hash by which ``--sample`` chooses: of the file's name and the row's place."""
    digest = hashlib.sha256(f"{seed}\0{source}\0{first}".encode("utf-8", "surrogateescape")).digest()
    base = np.uint64(int.from_bytes(digest[:8], "little"))
    return mixed(base ^ mixed(np.arange(rows, dtype=np.uint64)))


def interval(numerator: int, denominator: int, z: float = 1.96) -> list[float] | None:
    """Wilson's 95 % interval of a share, rounded to 6 decimals; None where there is no whole."""
    if not denominator:
        return None
    p, n = numerator / denominator, denominator
    middle, spread = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return [
        round(max(0.0, (middle - spread) / (1 + z * z / n)), 6),
        round(min(1.0, (middle + spread) / (1 + z * z / n)), 6),
    ]
