"""Laws of the archive readers, on made and on damaged archives.

All readers give the same items. Nothing raises. The ranges of records and damages tile the file: every byte belongs to
exactly one of them; where a member holds several records they tile what it inflates to instead.
"""

from __future__ import annotations

import gzip
import itertools
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.io.archive import read_archive, read_one
from cleanpipe.io.record import Damage, RawRecord

names = st.sampled_from(["WARC-Date", "X-Any", "warc-target-URI", "Content-Type", "x-any"])
values = st.text(st.characters(blacklist_characters="\r\n", blacklist_categories=["Cs"]), max_size=20)
heads = st.lists(st.tuples(names, values), max_size=5)
blocks = st.binary(max_size=200) | st.sampled_from(
    [b"WARC/1.0\r\nWARC-Type: x\r\nContent-Length: 0\r\n\r\n", b"\r\n\r\n\r\n"]
)
records = st.lists(st.tuples(heads, blocks), min_size=1, max_size=6)
PACKS = ("gzip", "stored", "one", "pairs", "zstd", "plain")


def written(parts: Sequence[tuple[list[tuple[str, str]], bytes]], eol: bytes = b"\r\n") -> list[bytes]:
    out = []
    for number, (head, block) in enumerate(parts):
        lines = [
            f"WARC-Type: t{number}",
            *(f"{name}: {value}" for name, value in head),
            f"Content-Length: {len(block)}",
        ]
        out.append(eol.join([b"WARC/1.0", *(line.encode() for line in lines), b"", block]) + eol * 2)
    return out


def pack(members: list[bytes], how: str) -> bytes:
    if how == "one":
        return gzip.compress(b"".join(members), 6, mtime=0)
    if how == "pairs":
        return b"".join(gzip.compress(b"".join(members[at : at + 2]), mtime=0) for at in range(0, len(members), 2))
    if how == "zstd":
        return b"".join(zstandard.ZstdCompressor(write_checksum=True).compress(member) for member in members)
    if how == "plain":
        return b"".join(members)
    return b"".join(gzip.compress(member, 0 if how == "stored" else 6, mtime=0) for member in members)


def check(data: bytes, folder: str, readers: Sequence[str] = ("fast", "warcio")) -> list[RawRecord | Damage]:
    """The items, after every law was checked on them."""
    path = str(Path(folder) / "archive")
    Path(path).write_bytes(data)
    items = list(read_archive(path, reader="member"))
    for reader in readers:
        assert list(read_archive(path, reader=reader)) == items
    for kind in ("file", "inflated"):
        ranges = [(item.offset, item.offset + item.length) for item in items if item.offset_kind == kind]
        for (_, stop), (start, _) in itertools.pairwise(ranges):
            assert start >= stop
    if all(item.offset_kind == "file" for item in items):
        stops = [0, *(item.offset + item.length for item in items)]
        assert stops[:-1] == [item.offset for item in items]
        assert stops[-1] == len(data)
    for item in items:
        again = read_one(path, item.offset, item.length, item.offset_kind)
        if isinstance(item, RawRecord):
            assert again == item
        else:
            assert isinstance(again, Damage)
            assert (again.offset, again.length) == (item.offset, item.length)
    return items


@settings(max_examples=80, deadline=None)
@given(records, st.sampled_from(PACKS))
def test_sound_archives_come_back_as_they_were_written(
    parts: list[tuple[list[tuple[str, str]], bytes]], how: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        items = check(pack(written(parts), how), folder)
    assert [(i.type, i.block) for i in items if isinstance(i, RawRecord)] == [
        (f"t{n}", b) for n, (_, b) in enumerate(parts)
    ]
    assert not [item for item in items if isinstance(item, Damage)]


def damaged(data: bytes, dice: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        at = dice.randrange(len(out)) if out else 0
        match dice.randrange(5):
            case 0 if out:
                out[at] ^= 1 << dice.randrange(8)
            case 1:
                del out[at : at + dice.choice([1, 2, 8, 100, 1000])]
            case 2:
                out[at:at] = dice.randbytes(dice.choice([1, 3, 50, 1000]))
            case 3:
                out[at:at] = bytes(dice.choice([1, 10, 3000]))
            case _:
                del out[at:]
    return bytes(out)


def arc(blocks: list[bytes]) -> list[bytes]:
    version = b"1 0 x\nURL IP-address Archive-date Content-type Archive-length\n"
    lines = [b"filedesc://x 0.0.0.0 20080430204825 text/plain %d\n%b\n" % (len(version), version)]
    for number, block in enumerate(blocks):
        lines.append(b"http://a.example/%d 192.0.2.1 20080430204826 text/html %d\n%b\n" % (number, len(block), block))
    return lines


@pytest.mark.parametrize("seed", range(12))
def test_laws_hold_on_damaged_archives(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    for turn in range(40):
        some = [
            dice.randbytes(dice.randrange(40)).hex().encode() * dice.randrange(1, 20)
            for _ in range(dice.randrange(1, 9))
        ]
        dated = [([("WARC-Date", "2024-05-17T08:00:00Z")], block) for block in some]
        members = arc(some) if dice.random() < 0.2 else written(dated, dice.choice([b"\r\n", b"\r\n", b"\n"]))
        readers = ("fast", "warcio") if turn % 4 == 0 else ("fast",)
        check(damaged(pack(members, dice.choice(PACKS)), dice), str(tmp_path), readers)


@pytest.mark.parametrize("how", ["gzip", "stored", "zstd"])
def test_a_flipped_bit_costs_one_record_at_most(how: str, tmp_path: Path) -> None:
    dice = random.Random(1)
    members = written([([], dice.randbytes(200).hex().encode()) for _ in range(5)])
    sizes = [len(pack([member], how)) for member in members]
    data, sound = pack(members, how), check(pack(members, how), str(tmp_path))
    for at in range(0, len(data), 37):
        broken = bytearray(data)
        broken[at] ^= 1 << dice.randrange(8)
        hit = next(n for n in range(5) if at < sum(sizes[: n + 1]))
        items = check(bytes(broken), str(tmp_path), ("fast",))
        others = [item for n, item in enumerate(sound) if n != hit]
        assert [item for item in items if item.offset != sound[hit].offset] == others
        assert len(items) == 5
