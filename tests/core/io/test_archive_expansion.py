"""Members that inflate out of all proportion: what is no record of theirs is bounded, what a head announces is not."""

from __future__ import annotations

import gzip
import hashlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard

from cleanpipe.io.archive import read_archive, read_one
from cleanpipe.io.record import MIB, OFFSET_IN_FILE, Damage, RawRecord, ReadLimits, Span

Items = list[RawRecord | Damage]
Pack = Callable[[bytes], bytes]


def record(number: int, block: bytes = b"a block") -> bytes:
    return head(number, len(block)) + block + b"\r\n\r\n"


def head(number: int, length: int) -> bytes:
    named = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:x:{number}>\r\nContent-Length: {length}\r\n\r\n"
    return named.encode()


def gz(data: bytes) -> bytes:
    return gzip.compress(data, 9, mtime=0)


def zst(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=3).compress(data)


def rle(byte: bytes, blocks: int) -> bytes:
    """A zstd frame of so many times 128 KiB of one byte: four bytes each."""
    return b"\x28\xb5\x2f\xfd\0\x58" + (b"\x02\0\x10" + byte) * (blocks - 1) + b"\x03\0\x10" + byte


def noise(size: int) -> bytes:
    return hashlib.shake_128(b"noise").digest(size)


def read(path: Path, data: bytes, limits: ReadLimits, reader: str = "fast", span: Span | None = None) -> Items:
    path.write_bytes(data)
    return list(read_archive(str(path), reader=reader, limits=limits, span=span))


def numbers(items: Items) -> list[int | str]:
    return [int(i.headers["warc-record-id"][7:-1]) if isinstance(i, RawRecord) else i.error for i in items]


PACKS: dict[str, Pack] = {"bad_gzip": gz, "bad_zstd": zst}
LOW = ReadLimits(expansion=100)  # deflate packs 1,030 times at most, zstd 30,000 times and more
LARGE = 4 * MIB
# what a member holds, beyond all proportion
BOMBS = {
    "line ends": b"\n" * LARGE,
    "blanks": b" " * LARGE,
    "CRLF": b"\r\n" * (LARGE // 2),
    "blank lines of many kinds": b"\r\n \t\n\f" * (LARGE // 6),
    "zeros": bytes(LARGE),
    "letters": b"words and no record\n" * (LARGE // 20),
    "blanks, then zeros": b"\n" * (LARGE // 2) + bytes(LARGE // 2),
    "blanks before a record": b"\r\n" * (LARGE // 2) + record(7),
    "zeros before a record": bytes(LARGE) + b"\r\n" + record(7),
    "blanks behind a record": record(7) + b"\r\n" * (LARGE // 2),
    "blanks behind a record, then noise": record(7) + b"\r\n" * (LARGE // 2) + noise(100_000),
    "zeros behind a record": record(7) + bytes(LARGE),
    "a head without end": b"WARC/1.0\r\nX: " + b"a" * LARGE,
}


@pytest.fixture(params=["fast", "member", "warcio"])
def reader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("error", PACKS)
@pytest.mark.parametrize("what", BOMBS)
def test_a_member_beyond_proportion_is_one_damage(what: str, error: str, reader: str, tmp_path: Path) -> None:
    """It costs itself: the members beside it stay what they are."""
    pack, path = PACKS[error], tmp_path / "a"
    good, bomb = [pack(record(n)) for n in range(3)], pack(BOMBS[what])
    items = read(path, b"".join([good[0], bomb, good[1], bomb, bomb, good[2]]), LOW, reader)
    first = len(good[0])
    if what.startswith("zeros behind") or what == "blanks behind a record, then noise":
        assert [n for n in numbers(items) if n not in (7, error)] == [0, 1, 2]
    else:
        assert numbers(items) == [0, error, 1, error, 2]
        assert [(i.offset, i.length) for i in items[1:4:2]] == [
            (first, len(bomb)),
            (first + len(bomb) + len(good[1]), 2 * len(bomb)),
        ]
        assert "more than 100 times" in getattr(items[1], "message", "")
        assert [read_one(str(path), i.offset, i.length, i.offset_kind, limits=LOW) for i in items[::2]] == items[::2]
        again = read_one(str(path), items[1].offset, items[1].length, OFFSET_IN_FILE, limits=LOW)
        assert isinstance(again, Damage)


@pytest.mark.parametrize("bytes_of", [b"\n", b" ", b"\0", b"a"])
@pytest.mark.parametrize("where", ["alone", "between", "shared"])
def test_gibibytes_in_a_few_kilobytes_cost_nothing(bytes_of: bytes, where: str, tmp_path: Path) -> None:
    """4 GiB in a frame of 130 kB took seconds, half a minute where they were no blanks."""
    bomb = rle(bytes_of, 32_768)
    began = time.process_time()
    if where == "alone":
        assert numbers(read(tmp_path / "a", bomb, ReadLimits())) == ["bad_zstd"]
    elif where == "between":
        data = b"".join([zst(record(0)), bomb, zst(record(1)), bomb * 20, zst(record(2))])
        assert numbers(read(tmp_path / "a", data, ReadLimits())) == [0, "bad_zstd", 1, "bad_zstd", 2]
    else:  # the block of one frame behind the records of another; nothing tells its end but the next magic
        data = zst(record(0) + record(1) + record(2)) + bomb + zst(record(3))
        assert numbers(read(tmp_path / "a", data, ReadLimits())) == [0, 1, 2, "bad_zstd", 3]
    assert time.process_time() - began < 2


def test_an_announced_length_is_no_way_around(tmp_path: Path) -> None:
    """Of a block as much is read as a body may be long; what goes beyond is judged, whatever its head says."""
    limits = ReadLimits(max_body=4 * MIB)
    for length in (10**12, 10**18 - 1, 10**40):
        lead = head(7, length)  # one raw block, its header three bytes
        frame = b"\x28\xb5\x2f\xfd\0\x58" + (len(lead) << 3).to_bytes(3, "little") + lead + rle(b"a", 32_768)[6:]
        began = time.process_time()
        assert numbers(read(tmp_path / "a", zst(record(0)) + frame + zst(record(1)), limits)) == [0, "bad_zstd", 1]
        assert time.process_time() - began < 2


# --- and what stays as it is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
@pytest.mark.parametrize("block", [b" ", b"\n", b"\0", b"a"], ids=repr)
def test_a_record_may_pack_as_well_as_it_can(block: bytes, pack: Pack, reader: str, tmp_path: Path) -> None:
    """Up to the largest body, alone or among others: its own size is judged, not how it was packed."""
    limits, size = ReadLimits(max_body=LARGE, expansion=2), LARGE
    big = record(1, block * size)
    for members in (
        [pack(record(0)), pack(big), pack(record(2))],
        [pack(record(0) + big + record(2))],
        [pack(record(0) + big), pack(record(2))],
        [pack(record(0)), pack(big[: size // 3]), pack(big[size // 3 :]), pack(record(2))],
    ):
        items = read(tmp_path / "a", b"".join(members), limits, reader)
        assert numbers(items) == [0, 1, 2]
        assert isinstance(items[1], RawRecord)
        assert (items[1].oversize, items[1].block == block * size) == (False, True)


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
def test_records_alike_by_the_thousand(pack: Pack, reader: str, tmp_path: Path) -> None:
    items = read(tmp_path / "a", pack(record(3, b"a block " * 100) * 5000), ReadLimits(expansion=2), reader)
    assert numbers(items) == [3] * 5000


def test_a_record_behind_a_gap_of_its_member(tmp_path: Path) -> None:
    """The search for it looks over its whole block; a look is no reading."""
    limits = ReadLimits(max_body=LARGE, expansion=2)
    dated = record(1, b"a" * LARGE).replace(b"WARC-Record", b"WARC-Date: 2020\r\nWARC-Record")
    items = read(tmp_path / "a", zst(record(0) + b"junk\r\n" + dated + record(2)), limits)
    assert numbers(items) == [0, "no_record_head", 1, 2]


@pytest.mark.parametrize("pack", PACKS.values(), ids=PACKS)
@pytest.mark.parametrize("padding", [b"\n" * (MIB - 4), b" \r\n" * 300_000, b""], ids=len)
def test_padding_within_the_limit_joins_its_neighbour(padding: bytes, pack: Pack, reader: str, tmp_path: Path) -> None:
    """Up to a MiB the ratio does not count."""
    lone, behind = pack(padding), pack(record(1) + padding)
    data = b"".join([pack(record(0)), lone, behind, pack(record(2))])
    items = read(tmp_path / "a", data, ReadLimits(expansion=2), reader)
    assert numbers(items) == [0, 1, 2]
    assert [i.length for i in items[:2]] == [len(pack(record(0))) + len(lone), len(behind)]


def test_padding_that_is_as_large_as_it_lies(reader: str, tmp_path: Path) -> None:
    stored = gzip.compress(b"\n" * LARGE, 0, mtime=0)  # not packed at all
    items = read(tmp_path / "a", gz(record(0)) + stored + gz(record(1)), ReadLimits(expansion=2), reader)
    assert numbers(items) == [0, 1]
    assert items[0].length == len(gz(record(0))) + len(stored)


def test_a_plain_file_has_no_proportion(tmp_path: Path) -> None:
    items = read(tmp_path / "a", record(0) + b"\r\n" * LARGE + record(1), ReadLimits(expansion=2))
    assert numbers(items) == [0, 1]


# --- the same wherever it is read from --------------------------------------------------------------------------------


def spans(path: Path, data: bytes, size: int, reader: str) -> Iterator[RawRecord | Damage]:
    start = inflated = 0
    for begin in range(0, len(data), size):
        archive = read_archive(
            str(path), reader=reader, limits=LOW, span=Span(begin, begin + size, max(start, begin), inflated)
        )
        if start < begin + size:
            yield from archive
            start, inflated = archive.facts.next, inflated + archive.facts.inflated


@pytest.mark.parametrize("size", [5_000, 23_456, 70_000])
def test_spans_give_what_the_whole_gives(size: int, reader: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    shared = record(5) + record(6) + b"\n" * LARGE
    parts = [record(0), b"\n" * LARGE, record(1, noise(30_000)), record(2) + b"\r\n" * LARGE, shared, record(3)]
    data = b"".join(map(gz, parts))
    whole = read(path, data, LOW, reader)
    assert numbers(whole) == [0, "bad_gzip", 1, "bad_gzip", 5, "bad_gzip", 3]
    assert list(spans(path, data, size, reader)) == whole


@pytest.mark.parametrize("inside", range(0, 4000, 400))
def test_where_a_chunk_of_the_file_ends_tells_nothing(inside: int, tmp_path: Path) -> None:
    """The break lies at the same byte of the member whatever was read before it: a chunk is a MiB of the file."""
    bomb, lead = gz(record(1) + record(2) + noise(2000) + b"\n" * (16 * MIB)), gz(record(0))
    fill = record(9, noise(MIB - 600 - inside))
    filler = gzip.compress(fill, 0, mtime=0)  # the chunk ends so far inside the bomb, and a little more
    assert 0 < MIB - len(lead + filler) - inside < 400
    alone, beside = (
        [i for i in read(tmp_path / "a", data, LOW, "member") if i.offset_kind != OFFSET_IN_FILE]
        for data in (lead + bomb, lead + filler + bomb)
    )
    assert numbers(alone) == [1, 2, "bad_gzip"]
    assert [(i.offset + len(fill), i.length) for i in alone] == [(i.offset, i.length) for i in beside]
