"""Archives wherever they lie, and storage that fails."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from cleanpipe.errors import ShardError
from cleanpipe.io.archive import read_archive, read_one
from cleanpipe.io.record import Damage, RawRecord


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


def numbers(items: list[RawRecord | Damage]) -> list[int | str]:
    return [int(i.headers["warc-record-id"][7:-1]) if isinstance(i, RawRecord) else i.error for i in items]


def joined(members: list[bytes]) -> bytes:
    return b"".join(members)


@pytest.fixture(params=["fast", "member", "warcio"])
def reader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_any_storage(reader: str) -> None:
    with fsspec.open("memory://cleanpipe-archive/a.warc.gz", "wb") as file:
        file.write(joined(MEMBERS))
    archive = read_archive("memory://cleanpipe-archive/a.warc.gz", reader=reader)
    assert numbers(list(archive)) == [0, 1, 2, 3, 4]
    item = read_one("memory://cleanpipe-archive/a.warc.gz", STARTS[2], len(MEMBERS[2]), "file")
    assert numbers([item]) == [2]


def test_a_named_pipe_is_read_from_a_copy(tmp_path: Path) -> None:
    import threading

    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=lambda: path.write_bytes(joined(MEMBERS)))
    writer.start()
    assert numbers(list(read_archive(str(path)))) == [0, 1, 2, 3, 4]
    writer.join()


@pytest.mark.parametrize(
    "make", [lambda p: p / "missing", lambda p: p, lambda p: "memory://cleanpipe-archive/none.warc"]
)
def test_storage_that_fails_is_one_error(make: Callable[[Path], object], reader: str, tmp_path: Path) -> None:
    uri = str(make(tmp_path))
    with pytest.raises(ShardError) as caught:
        list(read_archive(uri, reader=reader))
    assert caught.value.source == uri
    with pytest.raises(ShardError):
        read_one(uri, 0, 10, "file")


def test_storage_that_fails_in_the_middle(reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.warc.gz"
    path.write_bytes(joined([packed(record(n, os.urandom(300_000))) for n in range(20)]))
    real = os.pread

    def failing(fd: int, size: int, offset: int) -> bytes:
        if offset > 2_000_000:
            raise OSError(5, "Input/output error")
        return real(fd, size, offset)

    monkeypatch.setattr(os, "pread", failing)
    with pytest.raises(ShardError, match="Input/output error"):
        list(read_archive(str(path), reader=reader))
