"""What cutting records out of hostile bytes costs: it grows as the bytes do, whatever they are."""

from __future__ import annotations

import gzip
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from cleanpipe.io import member_reader
from cleanpipe.io.arc import ARC
from cleanpipe.io.archive import read_archive
from cleanpipe.io.bytesource import ByteSource
from cleanpipe.io.charset import decode
from cleanpipe.io.framing import Framer
from cleanpipe.io.heads import WARC, parse_warc_head
from cleanpipe.io.record import ReadLimits
from cleanpipe.io.views import PlainView

VERSION = b"WARC/1.0\r\n"


def head(length: int) -> bytes:
    return VERSION + b"WARC-Type: a\r\nWARC-Date: 2020\r\nContent-Length: %d\r\n" % length


GOOD = head(3) + b"\r\nabc\r\n\r\n"
ODD = head(900_000).replace(b"\r\n", b"\n") + b"\njunk\n"
NO_LENGTH = VERSION + b"X: y\r\n\r\njunk\r\n"
LINE = b"http://a.example/ 192.0.2.1 20080430204826 text/html "
FILEDESC = b"filedesc://x 0.0.0.0 20080430204825 text/plain "

SHAPES: dict[str, Callable[[int], bytes]] = {
    "version lines": lambda n: VERSION * n,
    "a junk byte, version lines": lambda n: b"J" + VERSION * n,
    "a record, junk, version lines": lambda n: GOOD + b"J\r\n" + VERSION * n,
    "heads without end": lambda n: b"J\r\n" + (VERSION + b"X: y\r\n") * n,
    "full heads without end": lambda n: b"J\r\n" + head(3) * n,
    "full heads without end where a record must stand": lambda n: head(3) * n,
    "heads whose length is wrong": lambda n: b"J\r\n" + (head(7) + b"\r\n") * n,
    "heads whose blocks end far ahead": lambda n: b"J\r\n" + (head(n * 40) + b"\r\n") * n + b"x" * n * 80,
    "heads whose blocks end in blanks far ahead": lambda n: (head(n * 60) + b"\r\n") * n + b" " * n * 60,
    "blocks larger than any": lambda n: (head(10**12) + b"\r\n") * n,
    "blocks almost larger than any": lambda n: (head(60 << 20) + b"\r\n") * n,
    "lengths in characters, and records": lambda n: (ODD + GOOD) * (n // 4),
    "no lengths": lambda n: NO_LENGTH * n,
    "no lengths, and records": lambda n: (NO_LENGTH + GOOD) * (n // 4),
    "blank lines of all kinds": lambda n: (GOOD + b"\n \n" * 5 + b"j\r\n") * (n // 4),
    "ARC lines": lambda n: b"J\n" + (LINE + b"3\n") * n,
    "ARC lines that end far ahead": lambda n: b"J\n" + (LINE + b"%d\n" % (n * 30)) * n,
    "ARC blocks larger than any": lambda n: (LINE + b"999999999999\n") * n,
    "ARC version blocks without length": lambda n: (FILEDESC + b"zz\njunk\n") * n,
    "ARC lines of many dashes": lambda n: (b"a:" + b" -" * 6000 + b"\n") * (n // 200),
    "ARC lines of many dashes and an end": lambda n: (b"a:" + b" -" * 6000 + b" 3\n") * (n // 200),
}


class Counted(PlainView):
    """Counts the bytes that were looked at."""

    looks = 0

    def peek(self, offset: int, size: int) -> bytes:
        data = super().peek(offset, size)
        self.looks += len(data) + 1
        return data


def looks(data: bytes, path: Path) -> int:
    path.write_bytes(data)
    with ByteSource(str(path)) as source:
        view = Counted(source)
        list(Framer(view, ARC if b"20080430" in data or b" - - " in data else WARC, ReadLimits()).frames())
    return view.looks


@pytest.mark.parametrize("shape", SHAPES)
def test_looks_grow_as_the_bytes_do(shape: str, tmp_path: Path) -> None:
    small, large = (looks(SHAPES[shape](n), tmp_path / "a") for n in (1000, 4000))
    assert large <= 6 * small


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("shape", SHAPES)
def test_time_does_too(shape: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(pack(SHAPES[shape](8000)))
    began = time.process_time()
    list(read_archive(str(path)))
    assert time.process_time() - began < 3  # it takes a fifth of a second; what grew with the square took ten and more


def test_a_member_of_many_empty_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_reader, "_HOLD", 1 << 20)
    path = tmp_path / "a"
    path.write_bytes(gzip.compress((head(0) + b"\r\n\r\n\r\n") * 20_000))
    tracemalloc.start()
    assert sum(1 for _ in read_archive(str(path))) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20  # a record takes a kilobyte


def test_a_value_of_many_lines() -> None:
    began = time.process_time()
    for text, value in ((b" z\r\n", "z"), (b"\t\r\n", None)):
        data = VERSION + b"WARC-Type: a\r\nX: y\r\n" + text * 300_000 + b"Content-Length: 3\r\n\r\n"
        found = parse_warc_head(data)
        assert found is not None
        assert found.headers["x"] == " ".join(["y", *[value] * 300_000] if value else ["y"])
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("charset", "bad"),
    [
        ("gbk", b"\x80"),
        ("euc-jp", b"\xff"),
        ("euc-jp", b"\xad\xa1"),
        ("iso-2022-jp", b"\x1b$B\xff"),
    ],
)
def test_bodies_of_errors(charset: str, bad: bytes) -> None:
    began = time.process_time()
    text = decode(bad * ((4 << 20) // len(bad)), charset)
    assert time.process_time() - began < 3
    few = decode(bad * 100, charset)
    assert text.startswith(few[:90])  # the first are mended as ever
