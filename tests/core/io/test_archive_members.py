"""Compressed archives: members and frames, whole, shared, empty, broken."""

from __future__ import annotations

import base64
import gzip
import hashlib
import os
from pathlib import Path

import pytest
import zstandard

from cleanpipe.errors import ConfigError
from cleanpipe.io.archive import read_archive, read_one
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


STARTS = [sum(map(len, MEMBERS[:n])) for n in range(6)]


EMPTY = packed(b"")


def read(path: Path, data: bytes, reader: str = "fast", limits: ReadLimits | None = None) -> list[RawRecord | Damage]:
    path.write_bytes(data)
    return list(read_archive(str(path), reader=reader, limits=limits or ReadLimits()))


def numbers(items: list[RawRecord | Damage]) -> list[int | str]:
    return [int(i.headers["warc-record-id"][7:-1]) if isinstance(i, RawRecord) else i.error for i in items]


def joined(members: list[bytes]) -> bytes:
    return b"".join(members)


def flipped(member: bytes, at: int) -> bytes:
    data = bytearray(member)
    data[at] ^= 1
    return bytes(data)


@pytest.fixture(params=["fast", "member", "warcio"])
def reader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


BROKEN = {
    "crc": (flipped(MEMBERS[2], -8), "bad_crc"),
    "size": (flipped(MEMBERS[2], -4), "bad_crc"),
    "deflate": (MEMBERS[2][:40] + b"\xff\xff\xff\xff" + MEMBERS[2][44:], "bad_gzip"),
    "header": (flipped(MEMBERS[2], 1), "bad_gzip"),
    "cut": (MEMBERS[2][:-30], "bad_gzip"),
    "trailer gone": (MEMBERS[2][:-8], "bad_crc"),
    "one byte gone": (MEMBERS[2][:-1], "bad_crc"),
    "junk": (b"nothing that is known", "bad_gzip"),
    "another text": (packed(b"<html>no record</html>"), "no_record_head"),
    "its own length": (packed(record(2).replace(b"Length: 3", b"Length: 7")), "short_block"),
    "stored, a flip inflates cleanly": (flipped(packed(record(2), level=0), 150), "bad_crc"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_member_costs_itself(how: str, reader: str, tmp_path: Path) -> None:
    member, error = BROKEN[how]
    items = read(tmp_path / "a", joined([*MEMBERS[:2], member, *MEMBERS[3:]]), reader)
    found = numbers(items)
    if error == "bad_gzip" and found[2] == "bad_crc":  # what follows a break may inflate to an end of its own
        found[2] = error
    assert found == [0, 1, error, 3, 4]
    assert (items[2].offset, items[2].length, items[2].offset_kind) == (STARTS[2], len(member), "file")


@pytest.mark.parametrize("at", range(1, len(MEMBERS[4]), 9))
def test_a_cut_tail_is_one_damage(at: int, reader: str, tmp_path: Path) -> None:
    items = read(tmp_path / "a", joined([*MEMBERS[:4], MEMBERS[4][:at]]), reader)
    assert numbers(items) == [0, 1, 2, 3, "cut"]
    assert (items[4].offset, items[4].length) == (STARTS[4], at)


@pytest.mark.parametrize("lead", [flipped(MEMBERS[2], 0), b"junk", bytes(100), b"<html>" * 20])
def test_a_broken_first_member_or_junk_hides_nothing(lead: bytes, reader: str, tmp_path: Path) -> None:
    items = read(tmp_path / "a", joined([lead, *MEMBERS[:2]]), reader)
    assert numbers(items) == ["bad_gzip", 0, 1]
    assert (items[0].offset, items[0].length) == (0, len(lead))


def test_neighbouring_damages_are_one(reader: str, tmp_path: Path) -> None:
    data = joined([MEMBERS[0], flipped(MEMBERS[1], -8), b"junk", flipped(MEMBERS[2], -4), MEMBERS[3]])
    items = read(tmp_path / "a", data, reader)
    assert numbers(items) == [0, "bad_crc", 3]
    assert items[1].length == STARTS[3] - STARTS[1] + 4


def test_empty_members_belong_to_their_neighbours(reader: str, tmp_path: Path) -> None:
    blank = packed(b"\r\n\r\n")
    data = joined([EMPTY, EMPTY, MEMBERS[0], EMPTY, blank, MEMBERS[1], EMPTY])
    items = read(tmp_path / "a", data, reader)
    assert numbers(items) == [0, 1]
    first = 3 * len(EMPTY) + len(blank) + len(MEMBERS[0])
    assert [(i.offset, i.length) for i in items] == [(0, first), (first, len(data) - first)]
    assert [read_one(str(tmp_path / "a"), i.offset, i.length, "file") for i in items] == items


def test_nothing_but_empty_members(tmp_path: Path) -> None:
    assert numbers(read(tmp_path / "a", EMPTY * 3)) == ["empty_file"]


def test_a_record_may_lie_in_several_members(reader: str, tmp_path: Path) -> None:
    whole = record(7, os.urandom(3000).hex().encode())
    parts = [packed(whole[:500]), packed(whole[500:2000]), packed(whole[2000:])]
    items = read(tmp_path / "a", joined([MEMBERS[0], *parts, MEMBERS[1]]), reader)
    assert numbers(items) == [0, 7, 1]
    assert isinstance(items[1], RawRecord)
    assert (items[1].offset, items[1].length) == (STARTS[1], sum(map(len, parts)))
    assert items[1].block == whole[whole.index(b"\r\n\r\n") + 4 : -4]
    assert read_one(str(tmp_path / "a"), items[1].offset, items[1].length, "file") == items[1]


class TestSharedMembers:
    def test_one_member_a_file(self, reader: str, tmp_path: Path) -> None:
        records = [record(n) for n in range(5)]
        items = read(tmp_path / "a", packed(*records), reader)
        assert numbers(items) == [0, 1, 2, 3, 4]
        at = 0
        for item, raw in zip(items, records, strict=True):
            assert (item.offset, item.length, item.offset_kind) == (at, len(raw), "inflated")
            assert read_one(str(tmp_path / "a"), item.offset, item.length, "inflated") == item
            at += len(raw)

    def test_two_records_a_member_between_single_ones(self, reader: str, tmp_path: Path) -> None:
        pair = packed(record(7), record(8))
        items = read(tmp_path / "a", joined([MEMBERS[0], pair, MEMBERS[1]]), reader)
        assert numbers(items) == [0, 7, 8, 1]
        assert [i.offset_kind for i in items] == ["file", "inflated", "inflated", "file"]
        assert items[1].offset == len(record(0))  # inflated bytes before it
        assert [read_one(str(tmp_path / "a"), i.offset, i.length, i.offset_kind) for i in items] == items

    def test_records_before_the_cut_are_kept(self, reader: str, tmp_path: Path) -> None:
        data = packed(*[record(n, os.urandom(500).hex().encode()) for n in range(5)])
        items = read(tmp_path / "a", data[: len(data) // 2], reader)
        assert numbers(items) == [0, 1, "cut"]
        assert items[2].offset == items[1].offset + items[1].length

    def test_records_before_the_break_are_kept(self, reader: str, tmp_path: Path) -> None:
        data = bytearray(packed(*[record(n, os.urandom(500).hex().encode()) for n in range(9)], level=1))
        data[len(data) // 2 : len(data) // 2 + 40] = b"\xff" * 40
        found = numbers(read(tmp_path / "a", bytes(data), reader))
        assert found[:3] == [0, 1, 2]
        assert found[-1] in ("bad_gzip", "bad_crc")

    def test_a_checksum_that_fails_takes_them_all(self, reader: str, tmp_path: Path) -> None:
        pair = packed(record(7), record(8))
        assert numbers(read(tmp_path / "a", joined([MEMBERS[0], flipped(pair, -8), MEMBERS[1]]), reader)) == [
            0,
            "bad_crc",
            1,
        ]

    def test_in_a_file_of_one_member_a_record_that_fails_its_digest_is_lost(self, reader: str, tmp_path: Path) -> None:
        blocks = [os.urandom(200).hex().encode() for _ in range(4)]
        digests = [base64.b32encode(hashlib.sha1(block).digest()).decode() for block in blocks]
        records = [
            record(n, block).replace(b"Content-L", f"WARC-Block-Digest: sha1:{digest}\r\nContent-L".encode())
            for n, (block, digest) in enumerate(zip(blocks, digests, strict=True))
        ]
        data = bytearray(packed(*records, level=0))
        data[data.index(blocks[1]) + 100] ^= 1
        items = read(tmp_path / "a", bytes(data), reader)
        assert numbers(items) == [0, "bad_crc", 2, 3, "bad_crc"]
        assert items[1].length == len(records[1])
        assert (items[4].offset, items[4].length, items[4].offset_kind) == (len(data) - 8, 8, "file")


class TestZstd:
    @pytest.mark.parametrize("sized", [True, False])
    @pytest.mark.parametrize("checksum", [True, False])
    def test_frames(self, sized: bool, checksum: bool, tmp_path: Path) -> None:
        packer = zstandard.ZstdCompressor(write_content_size=sized, write_checksum=checksum)
        frames = [packer.compress(record(n, os.urandom(n * 100_000))) for n in range(5)]
        items = read(tmp_path / "a", joined(frames))
        assert numbers(items) == [0, 1, 2, 3, 4]
        assert [i.length for i in items] == list(map(len, frames))
        assert [read_one(str(tmp_path / "a"), i.offset, i.length, "file") for i in items] == items

    def test_one_frame_a_file(self, tmp_path: Path) -> None:
        items = read(tmp_path / "a", zstandard.ZstdCompressor().compress(b"".join(map(record, range(5)))))
        assert numbers(items) == [0, 1, 2, 3, 4]
        assert {i.offset_kind for i in items} == {"inflated"}

    @pytest.mark.parametrize("packed_dictionary", [True, False])
    def test_a_dictionary_leads_and_skippable_frames_are_skipped(self, packed_dictionary: bool, tmp_path: Path) -> None:
        dictionary = zstandard.train_dictionary(2000, [record(n) for n in range(500)])
        packer = zstandard.ZstdCompressor(dict_data=dictionary)
        raw = dictionary.as_bytes()
        raw = zstandard.ZstdCompressor().compress(raw) if packed_dictionary else raw
        lead = b"\x5d\x2a\x4d\x18" + len(raw).to_bytes(4, "little") + raw
        skip = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
        data = lead + packer.compress(record(0)) + skip + packer.compress(record(1)) + skip
        items = read(tmp_path / "a", data)
        assert numbers(items) == [0, 1]
        assert items[0].offset + items[0].length == items[1].offset
        assert [read_one(str(tmp_path / "a"), i.offset, i.length, "file") for i in items] == items

    @pytest.mark.parametrize(("at", "error"), [(-2, "bad_crc"), (60, "bad_zstd")])
    def test_a_broken_frame_costs_itself(self, at: int, error: str, tmp_path: Path) -> None:
        packer = zstandard.ZstdCompressor(write_checksum=True)
        frames = [packer.compress(record(n, os.urandom(300))) for n in range(3)]
        bad = bytearray(frames[1])
        bad[at] ^= 0xFF
        items = read(tmp_path / "a", joined([frames[0], bytes(bad), frames[2]]))
        assert numbers(items) in ([0, error, 2], [0, "bad_crc", 2])
        assert (items[1].offset, items[1].length) == (len(frames[0]), len(bad))

    def test_a_cut_tail(self, tmp_path: Path) -> None:
        frames = [zstandard.ZstdCompressor().compress(record(n, os.urandom(300))) for n in range(3)]
        assert numbers(read(tmp_path / "a", joined(frames)[:-10])) == [0, 1, "cut"]


def test_facts_and_progress(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    data = joined([packed(record(n, os.urandom(300_000))) for n in range(20)])
    path.write_bytes(data)
    told: list[int] = []
    archive = read_archive(str(path), reader=reader, progress=told.append)
    assert len(list(archive)) == 20
    assert (archive.facts.file_bytes, archive.facts.block_bytes) == (len(data), 6_000_000)
    assert (archive.facts.records, archive.facts.reader, archive.facts.reread) == ({"response": 20}, reader, "")
    assert told == sorted(set(told))
    assert told[-1] == len(data)
    assert len(told) <= len(data) / (1 << 20) + 1


def test_the_reason_for_another_reading_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.warc.gz"
    path.write_bytes(joined([MEMBERS[0], flipped(MEMBERS[1], -8), MEMBERS[2]]))
    archive = read_archive(str(path))
    list(archive)
    assert "FastWARC" in archive.facts.reread


def test_an_empty_file_and_no_archive(reader: str, tmp_path: Path) -> None:
    assert numbers(read(tmp_path / "a", b"", reader)) == ["empty_file"]
    noise = os.urandom(50_000)
    assert [(i.offset, i.length) for i in read(tmp_path / "a", noise, reader) if isinstance(i, Damage)] == [(0, 50_000)]


def test_unknown_reader() -> None:
    with pytest.raises(ConfigError, match="fast, member, warcio"):
        read_archive("a", reader="quick")


def test_ranges_without_a_record_stay_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(joined([*MEMBERS, b"junk"]))
    for offset, length, kind in [
        (STARTS[5], 4, "file"),
        (3, 10, "file"),
        (0, STARTS[2], "file"),
        (10**9, 5, "file"),
        (7, 9, "inflated"),
    ]:
        item = read_one(str(path), offset, length, kind)
        assert isinstance(item, Damage)
        assert (item.offset, item.length, item.offset_kind) == (offset, length, kind)
