"""The laws of spans, checked on one file: what its spans give together is what a reading of the whole gives.

And archives to check them on.
"""

from __future__ import annotations

import gzip
import hashlib
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from cleanpipe.io.archive import read_archive
from cleanpipe.io.record import Damage, RawRecord, ReadFacts, Span

Item = RawRecord | Damage
READERS = ("fast", "member", "warcio")


def part(path: Path, span: Span | None, reader: str = "fast") -> tuple[list[Item], ReadFacts]:
    archive = read_archive(str(path), reader=reader, span=span)
    return list(archive), archive.facts


class Chain:
    """A file read in spans as a run does it: each on its own, then those again that begin elsewhere than they must.

    again: the numbers of those that found another beginning than the one where the span before them ended.
    """

    def __init__(self, path: Path, size: int, reader: str = "fast") -> None:
        total = path.stat().st_size
        self.spans = [Span(at, min(at + size, total)) for at in range(0, max(total, 1), size)]
        self.found = [part(path, span, reader) for span in self.spans]
        self.parts: list[tuple[list[Item], ReadFacts]] = []
        self.again: list[int] = []
        at = self.inflated = 0
        for number, (span, (items, facts)) in enumerate(zip(self.spans, self.found, strict=True)):
            right = facts.first == at if facts.first >= 0 else at >= span.end
            if not right:
                self.again.append(number)
            if not right or facts.relative:
                items, facts = part(path, replace(span, start=at, inflated=self.inflated), reader)
            self.parts.append((items, facts))
            assert not facts.relative
            assert facts.first == (at if at < span.end or not total else -1)
            if facts.first < 0:
                assert (items, facts) == ([], ReadFacts(records={}, reader=reader, first=-1))
                continue
            at = facts.next
            self.inflated += facts.inflated
        assert at == total
        self.items = [item for items, _ in self.parts for item in items]
        self.owners = [facts for _, facts in self.parts if facts.first >= 0]


def total(parts: Sequence[ReadFacts]) -> tuple[int, int, int, dict[str, int]]:
    records: dict[str, int] = {}
    for facts in parts:
        for kind, count in (facts.records or {}).items():
            records[kind] = records.get(kind, 0) + count
    sums = [sum(getattr(facts, name) for facts in parts) for name in ("file_bytes", "block_bytes", "inflated")]
    return sums[0], sums[1], sums[2], dict(sorted(records.items()))


def check(path: Path, sizes: Sequence[int], readers: Sequence[str] = READERS) -> list[Chain]:
    """Every law of spans, on one file; its chains, reader by reader."""
    data = path.read_bytes()
    whole, facts = part(path, None, "member")
    assert (facts.first, facts.next, facts.relative) == (0, len(data), False)
    chains = [Chain(path, size, reader) for reader in readers for size in sizes]
    for chain in chains:
        assert chain.items == whole
        assert total(chain.owners) == total([facts])
        for own in chain.owners:
            assert own.file_bytes == own.next - own.first
            assert own.sha256 == hashlib.sha256(data[own.first : own.next]).hexdigest()
    return chains


def record(number: int, block: bytes) -> bytes:
    head = f"WARC/1.0\r\nWARC-Type: t{number % 3}\r\nWARC-Date: 2020\r\nX-Number: {number}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(block) + block + b"\r\n\r\n"


def blocks(dice: random.Random, count: int, size: int = 3000) -> list[bytes]:
    return [dice.randbytes(dice.randrange(size)).hex().encode() for _ in range(count)]


def packed(data: bytes, level: int = 1) -> bytes:
    return gzip.compress(data, level, mtime=0)


def members(seed: int, count: int, size: int = 3000) -> list[bytes]:
    return [packed(record(n, block)) for n, block in enumerate(blocks(random.Random(seed), count, size))]


def starts(parts: Sequence[bytes]) -> list[int]:
    return [sum(map(len, parts[:n])) for n in range(len(parts))]
