"""What inflates without bound costs bounded memory and time."""

from __future__ import annotations

import gzip
import time
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from cleanpipe.io.archive import read_archive
from cleanpipe.io.record import Damage, RawRecord, ReadLimits


def record(number: int, block: bytes | None = None) -> bytes:
    block = f"block {number} ".encode() * 40 if block is None else block
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:x:{number}>\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def packed(*records: bytes, level: int = 6) -> bytes:
    return gzip.compress(b"".join(records), level, mtime=0)


MEMBERS = [packed(record(n)) for n in range(5)]


def read(path: Path, data: bytes, reader: str = "fast", limits: ReadLimits | None = None) -> list[RawRecord | Damage]:
    path.write_bytes(data)
    return list(read_archive(str(path), reader=reader, limits=limits or ReadLimits()))


def numbers(items: list[RawRecord | Damage]) -> list[int | str]:
    return [int(i.headers["warc-record-id"][7:-1]) if isinstance(i, RawRecord) else i.error for i in items]


def joined(members: list[bytes]) -> bytes:
    return b"".join(members)


@pytest.fixture(params=["fast", "member", "warcio"])
def reader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def bomb(prefix: bytes, byte: bytes, mebibytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(prefix)] + [packer.compress(byte * (1 << 20)) for _ in range(mebibytes)]
    return b"".join([*parts, packer.flush()])


HEAD = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:x:9>\r\n"


BOMBS = {
    "a block": (bomb(HEAD + b"Content-Length: 33554432\r\n\r\n", b"\0", 32), 9),
    "a head": (bomb(HEAD + b"X: ", b"a", 32), "no_record_head"),
    "no record": (bomb(b"", b"\0", 32), "no_record_head"),
    "blank lines behind a record": (bomb(record(9), b"\n", 32), 9),
}


@pytest.mark.parametrize("quick", ["fast", "member"])  # warcio itself has no bounds
@pytest.mark.parametrize("what", BOMBS)
def test_bombs_stay_in_bounded_memory(what: str, quick: str, tmp_path: Path) -> None:
    member, expected = BOMBS[what]
    limits = ReadLimits(max_body=1 << 16, max_head=1 << 14)
    tracemalloc.start()
    items = read(tmp_path / "a", joined([MEMBERS[0], member, MEMBERS[1]]), quick, limits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert numbers(items) == [0, expected, 1]
    assert peak < 8 << 20  # a chunk of the file, a window, a block; the member inflates to 32 MiB
    if what == "a block":
        assert isinstance(items[1], RawRecord)
        assert items[1].oversize
        assert len(items[1].block) == (1 << 16) + (1 << 14)


def test_an_oversize_block_counts_whole_and_ends_where_it_ends(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "a.warc"
    path.write_bytes(record(0, b"x" * 5000) + record(1))
    archive = read_archive(str(path), reader=reader, limits=ReadLimits(max_body=1000, max_head=1000))
    first, second = archive
    assert isinstance(first, RawRecord)
    assert (first.oversize, len(first.block), first.length) == (True, 2000, len(record(0, b"x" * 5000)))
    assert second.offset == first.length
    assert archive.facts.block_bytes == 5000 + len(record(1)) - record(1).index(b"\r\n\r\n") - 8


def cpu(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


@pytest.mark.parametrize("filler", [b"\r\n", b" "], ids=["line ends", "blanks"])
def test_a_member_of_nothing_costs_less_than_inflating_it(tmp_path, filler):
    """128 MiB in an eighth of a megabyte: no reader inflates it all, and its neighbours are read."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bait = b"".join(packer.compress(filler * ((1 << 20) // len(filler))) for _ in range(128)) + packer.flush()
    path = tmp_path / "bait.warc.gz"
    path.write_bytes(gzip.compress(record(1), mtime=0) + bait + gzip.compress(record(2), mtime=0))
    plain = cpu(lambda: zlib.decompress(bait, 31))
    for reader in ("fast", "member", "warcio"):
        items: list[RawRecord | Damage] = []
        cost = cpu(lambda reader=reader, items=items: items.extend(read_archive(str(path), reader=reader)))
        assert [type(i).__name__ for i in items] == ["RawRecord", "Damage", "RawRecord"], reader
        assert isinstance(items[1], Damage)
        assert items[1].error == "bad_gzip"
        assert cost < plain / 2 + 0.05, reader


def test_a_dictionary_that_inflates_without_bound_is_none(tmp_path):
    bomb = zstandard.ZstdCompressor().compress(b"\0" * (80 << 20))
    frame = b"\x5d\x2a\x4d\x18" + len(bomb).to_bytes(4, "little") + bomb
    path = tmp_path / "dictionary.warc.zst"
    path.write_bytes(frame + zstandard.compress(record(1)))
    (item,) = read_archive(str(path))
    assert isinstance(item, RawRecord)
    assert item.block == record(1).partition(b"\r\n\r\n")[2][:-4]
