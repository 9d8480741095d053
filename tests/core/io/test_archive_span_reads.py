"""What reading a span costs: its own bytes and little more, wherever they lie, and no time that hostile bytes set."""

from __future__ import annotations

import hashlib
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import span_laws
import zstandard
from span_laws import READERS, blocks, members, packed, part, record

from cleanpipe.io.archive import read_archive, read_one
from cleanpipe.io.record import ReadFacts, Span
from cleanpipe.options import StorageOptions


class Reads:
    """What is read of a local file: (offset, size) of each read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ranges: list[tuple[int, int]] = []
        real = os.pread

        def counted(fd: int, size: int, offset: int) -> bytes:
            data = real(fd, size, offset)
            self.ranges.append((offset, len(data)))
            return data

        monkeypatch.setattr(os, "pread", counted)

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.ranges)

    def outside(self, begin: int, stop: int) -> int:
        """Bytes read before ``begin`` or from ``stop`` on."""
        return sum(max(min(at + n, begin) - at, 0) + max(at + n - max(at, stop), 0) for at, n in self.ranges)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


MIB = 1 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """About 12 MiB in 48 members."""
    path = tmp_path_factory.mktemp("spans") / "a"
    path.write_bytes(b"".join(members(14, 80, 300_000)))
    return path


class TestWhatIsRead:
    @pytest.mark.parametrize("reader", READERS)
    def test_a_span_and_little_more(self, reader: str, large: Path, reads: Reads) -> None:
        span = Span(4 * MIB, 8 * MIB)
        _, facts = part(large, span, reader)
        assert span.begin < facts.first
        assert span.end < facts.next
        assert reads.outside(span.begin, facts.next) <= 1024 + MIB + (1 << 18)  # one piece read ahead by each reader
        passes = 2 if reader == "warcio" else 1  # of warcio each member is looked at beside
        assert reads.bytes < passes * facts.file_bytes + 4 * MIB  # its start is looked for, its end looked at

    @pytest.mark.parametrize("reader", READERS)
    def test_progress_counts_its_own_bytes(self, reader: str, large: Path) -> None:
        told: list[int] = []
        archive = read_archive(str(large), reader=reader, span=Span(4 * MIB, 8 * MIB), progress=told.append)
        list(archive)
        assert told == sorted(set(told))
        assert told[-1] == archive.facts.file_bytes

    @pytest.mark.parametrize("reader", READERS)
    @pytest.mark.parametrize(
        ("name", "pack"),
        [("zstd.gz", zstandard.compress), ("plain.gz", bytes), ("junk.gz", lambda data: b"x" + packed(data))],
    )
    def test_a_file_that_is_not_gzip_belongs_to_the_first_span(
        self, name: str, pack: Callable[[bytes], bytes], reader: str, tmp_path: Path, reads: Reads
    ) -> None:
        path = tmp_path / name
        path.write_bytes(pack(b"".join(record(n, b) for n, b in enumerate(blocks(random.Random(1), 50)))))
        whole, _ = part(path, None, reader)
        items, facts = part(path, Span(0, 4096), reader)
        assert items == whole
        assert (facts.first, facts.next, facts.file_bytes) == (0, path.stat().st_size, path.stat().st_size)
        reads.ranges.clear()
        for span in (Span(4096, 8192), Span(4096, 8192, 5000), Span(4096, 8192, 1 << 30)):
            assert part(path, span, reader) == ([], ReadFacts(records={}, reader=reader, first=-1))
        assert reads.bytes <= 3 * 1024

    @pytest.mark.parametrize("reader", READERS)
    def test_one_member_belongs_to_the_first_span(self, reader: str, tmp_path: Path, reads: Reads) -> None:
        path = tmp_path / "a"
        path.write_bytes(packed(b"".join(record(n, b) for n, b in enumerate(blocks(random.Random(2), 200, 50_000)))))
        size = path.stat().st_size
        items, facts = part(path, Span(0, MIB), reader)
        assert items == part(path, None, reader)[0]
        assert (facts.first, facts.next, facts.relative) == (0, size, False)
        assert facts.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        reads.ranges.clear()
        part(path, Span(0, MIB), reader)
        assert reads.bytes < size + 3 * MIB  # what it goes on to behind its end is read once
        reads.ranges.clear()
        assert part(path, Span(MIB, 2 * MIB), reader)[1].first == -1
        assert reads.outside(MIB, 2 * MIB) <= 1024 + (1 << 16)

    @pytest.mark.parametrize("reader", ["fast", "member"])  # warcio goes through it by itself first
    def test_a_damage_behind_its_end_is_read_once(self, reader: str, tmp_path: Path, reads: Reads) -> None:
        path = tmp_path / "a"
        before, after = b"".join(members(16, 4)), b"".join(members(17, 4))
        path.write_bytes(before + b"x" * (6 * MIB) + after)
        _, facts = part(path, Span(0, MIB), reader)
        assert facts.next == len(before) + 6 * MIB
        assert reads.bytes < facts.file_bytes + 3 * MIB


class TestInAnObjectStore:
    @pytest.mark.parametrize("reader", ["fast", "member"])
    def test_ranges_of_the_span_alone_are_asked_for(self, reader: str, large: Path, s3: Any) -> None:
        s3.client.put_object(Bucket="crawls", Key="a.warc.gz", Body=large.read_bytes())
        uri, storage, span = "s3://crawls/a.warc.gz", StorageOptions(endpoint=s3.url), Span(4 * MIB, 8 * MIB)
        s3.forget()
        archive = read_archive(uri, reader=reader, span=span, storage=storage)
        items = list(archive)
        facts = archive.facts
        assert (items, facts) == part(large, span, reader)
        assert (facts.reader, facts.reread) == (reader, "")
        ranges = [tuple(map(int, r.range.removeprefix("bytes=").split("-"))) for r in s3.log("GET")]
        assert sum(last - first + 1 for first, last in ranges) < facts.file_bytes + 2 * MIB
        head, *rest = ranges
        assert head[1] < 1 << 16  # the first bytes tell the file's kind
        assert min(first for first, _ in rest) == span.begin
        assert max(last for _, last in rest) < facts.next + MIB
        for item in items[:2]:
            assert read_one(uri, item.offset, item.length, item.offset_kind, storage=storage) == item


HEADER = b"\x1f\x8b\x08\x08\x01\x01\x01\x01\x01\x01"  # of a gzip member that has a name
LINES = packed(b"\n" * 20_000_000 + b"x", 9)[10:]
BAIT = {
    "magics": b"\x1f\x8b\x08" * 6000 + b"a" * 4_000_000,
    "a name that does not end": HEADER * 2000 + b"a" * 4_000_000,
    "a name, and blank lines without end": HEADER * 2000 + b"\0" + LINES,
    "members of blank lines": packed(b"\n" * 100_000 + b"x", 9) * 500,
}


@pytest.mark.parametrize("bait", BAIT)
def test_what_looks_like_members_costs_little(bait: str, tmp_path: Path) -> None:
    """Each place that looks like a member is looked at, but no further than a head lies in one.

    Also in a file that is read whole, where damage is searched for its end: these took a minute.
    """
    path = tmp_path / "a"
    path.write_bytes(b"".join([packed(record(0, b"abc")), b"J", BAIT[bait], packed(record(1, b"abc"))]))
    began = time.process_time()
    span_laws.check(path, (1 << 20,), ("fast",))
    assert time.process_time() - began < 6
