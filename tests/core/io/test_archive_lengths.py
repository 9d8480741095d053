"""Content-Length of a record: a decimal number of any size is a length; one that does not fit is a record's damage."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from cleanpipe.io.archive import read_archive
from cleanpipe.io.heads import content_length
from cleanpipe.io.record import RawRecord, ReadLimits

VALUES = [
    # value, the length
    ("0", 0),
    ("19", 19),
    ("0019", 19),
    ("0" * 17 + "19", 19),  # of 19 digits, but no large number
    ("0" * 1000 + "19", 19),
    ("999999999999999999", 10**18 - 1),
    ("1000000000000000000", 10**18),  # of 19 digits; from here on 10^18 stands for them all
    ("9223372036854775807", 10**18),
    ("9223372036854775808", 10**18),
    ("18446744073709551616", 10**18),
    ("9" * 400, 10**18),
    ("9" * 100_000, 10**18),  # more digits than int() takes
    ("0" * 100_000, 10**18),  # nor is that anybody's nought
    ("", None),
    ("-1", None),
    ("+19", None),
    ("1_9", None),
    ("19.0", None),
    ("1e3", None),
    ("0x13", None),
    ("\u0661\u0669", None),  # digits of another script
    ("1\u00b2", None),
    ("19 19", None),
    ("19, 19", None),
    ("9223372036854775808x", None),
]


@pytest.mark.parametrize(("value", "length"), VALUES, ids=lambda v: repr(v)[:24])
def test_values(value: str, length: int | None) -> None:
    assert content_length({"content-length": value}) == length


def test_none_at_all() -> None:
    assert content_length({}) is None


BLOCK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>a page of its own"
PACKS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.compress,
}


def record(number: int, length: str) -> bytes:
    named = f"WARC-Type: response\r\nWARC-Record-ID: <urn:x:{number}>\r\nWARC-Date: 2024-05-17T08:00:00Z"
    return f"WARC/1.0\r\n{named}\r\nContent-Length: {length}\r\n\r\n".encode() + BLOCK + b"\r\n\r\n"


TOO_LONG = ["1" + "0" * n for n in (9, 17, 18, 19, 20, 38, 400, 5000)] + [str(2**63 - 1), str(2**63), str(2**64)]
PADDED = [f"{len(BLOCK):0{n}}" for n in (2, 18, 19, 20, 40, 2000)]


@pytest.fixture(params=["fast", "member", "warcio"])
def reader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def numbers(path: Path, data: bytes, reader: str) -> list[int | str]:
    path.write_bytes(data)
    items = list(read_archive(str(path), reader=reader))
    assert all(i.block == BLOCK for i in items if isinstance(i, RawRecord))
    return [int(i.headers["warc-record-id"][7:-1]) if isinstance(i, RawRecord) else i.error for i in items]


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("value", TOO_LONG, ids=lambda v: f"{v[:20]} of {len(v)} digits")
def test_a_record_too_long_for_its_file(value: str, pack: str, reader: str, tmp_path: Path) -> None:
    """Whether the number fits a machine's integers makes no difference: the record fails, its neighbours do not."""
    own, right = str(len(BLOCK)), PACKS[pack]
    first, bad, last = (right(record(n, length)) for n, length in enumerate((own, value, own)))
    for data, expected in (
        (first + bad + last, [0, "short_block", 2]),
        (bad + last, ["short_block", 2]),
        (first + bad, [0, "short_block"]),
        (bad, ["short_block"]),
    ):
        assert numbers(tmp_path / "a", data, reader) == expected
    shared = right(record(0, own) + record(1, value) + record(2, own))
    assert numbers(tmp_path / "a", shared, reader) == [0, "short_block", 2]


@pytest.mark.parametrize("pack", PACKS)
@pytest.mark.parametrize("value", PADDED, ids=len)
def test_noughts_before_a_length_are_nothing(value: str, pack: str, reader: str, tmp_path: Path) -> None:
    data = b"".join(PACKS[pack](record(n, value)) for n in range(3))
    assert numbers(tmp_path / "a", data, reader) == [0, 1, 2]


def test_an_oversize_record_of_many_noughts_is_counted(reader: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(record(1, f"{len(BLOCK):04000}")))
    archive = read_archive(str(path), reader=reader, limits=ReadLimits(max_body=10, max_head=5000))
    (item,) = archive
    assert isinstance(item, RawRecord)
    assert archive.facts.block_bytes == len(BLOCK)
