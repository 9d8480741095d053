"""Reading that is stopped from outside, and files that change under it."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cleanpipe.errors import StopError
from cleanpipe.io.archive import read_archive
from cleanpipe.io.fast_reader import Stream
from cleanpipe.io.inputs import resolve_inputs
from cleanpipe.io.record import Span

MEMBER = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 300000\r\n\r\n%b\r\n\r\n"


def archive(path: Path, records: int = 14) -> Path:
    members = (MEMBER % os.urandom(150_000).hex().encode() for _ in range(records))
    path.write_bytes(b"".join(gzip.compress(m, 1) for m in members) if path.suffix == ".gz" else b"".join(members))
    return path


class Signal(BaseException):
    """As a command line's handler raises it."""


@pytest.fixture(params=["fast", "member", "warcio"])
def reader(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
@pytest.mark.parametrize("kind", [Signal, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, RuntimeError])
@pytest.mark.parametrize("call", [1, 2])
def test_what_is_raised_while_reading_comes_out(
    name: str, kind: type[BaseException], call: int, reader: str, tmp_path: Path
) -> None:
    told: list[int] = []
    raised = kind("stop")

    def progress(at: int) -> None:  # it is called from inside FastWARC
        told.append(at)
        if len(told) == call:
            raise raised

    with pytest.raises(kind) as caught:
        list(read_archive(str(archive(tmp_path / name)), reader=reader, progress=progress))
    assert caught.value is raised
    assert len(told) == call


@pytest.mark.parametrize("kind", [Signal, KeyboardInterrupt])
@pytest.mark.parametrize("call", range(1, 12))
def test_so_does_what_a_signal_raises_at_the_border(
    call: int, kind: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = Stream.read, []

    def read(self: Stream, size: int = -1) -> bytes:
        calls.append(size)
        if len(calls) == call:
            raise kind
        return real(self, size)

    monkeypatch.setattr(Stream, "read", read)
    with pytest.raises(kind):
        list(read_archive(str(archive(tmp_path / "a.warc")), reader="fast"))


def replaced(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.replace(path)


def appended(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\r\n")


def rewritten(path: Path) -> None:
    before = path.stat().st_mtime_ns
    with path.open("r+b") as file:
        file.write(b"W")
    os.utime(path, ns=(before, before + 1))


def cut(path: Path) -> None:
    os.truncate(path, 100_000)


@pytest.mark.parametrize("change", [replaced, appended, rewritten, cut])
@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_a_file_that_changes_while_it_is_read(
    change: Callable[[Path], None], name: str, reader: str, tmp_path: Path
) -> None:
    path = archive(tmp_path / name, 4)
    items = iter(read_archive(str(path), reader=reader))
    next(items)
    change(path)
    with pytest.raises(StopError, match="changed while it was read") as caught:
        list(items)
    assert caught.value.source == str(path)


@pytest.mark.parametrize("span", [Span(0, 400_000), Span(400_000, 800_000), Span(1, 2), Span(1, 2, 1 << 30)])
def test_a_file_that_changed_before_a_span_of_it_is_read(span: Span, reader: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.warc.gz", 8)
    (found,) = resolve_inputs([str(path)], source_root=None)
    list(read_archive(found.uri, reader=reader, stamp=found.stamp, span=span))
    os.utime(path, ns=(1, 1))
    with pytest.raises(StopError, match="changed since the run was planned"):
        list(read_archive(found.uri, reader=reader, stamp=found.stamp, span=span))


def test_a_file_that_changes_while_a_span_of_it_is_read(reader: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.warc.gz", 8)
    items = iter(read_archive(str(path), reader=reader, span=Span(200_000, 600_000)))
    next(items)
    appended(path)
    with pytest.raises(StopError, match="changed while it was read"):
        list(items)


@pytest.mark.parametrize("kind", [Signal, MemoryError])
def test_what_is_raised_while_a_span_is_read_comes_out(kind: type[BaseException], reader: str, tmp_path: Path) -> None:
    def progress(_: int) -> None:
        raise kind

    with pytest.raises(kind):
        list(
            read_archive(
                str(archive(tmp_path / "a.warc.gz", 30)), reader=reader, span=Span(9, 1 << 22), progress=progress
            )
        )


def test_a_file_that_does_not_change(reader: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.warc.gz", 4)
    items = iter(read_archive(str(path), reader=reader))
    first = next(items)
    path.read_bytes()  # its atime may change
    path.rename(tmp_path / "b")  # what was opened is still read whole
    assert len([first, *items]) == 4


def test_a_file_that_changed_since_it_was_listed(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.warc.gz", 2)
    (found,) = resolve_inputs([str(path)], source_root=None)
    assert len(list(read_archive(found.uri, stamp=found.stamp))) == 2
    os.utime(path, ns=(1, 1))
    with pytest.raises(StopError, match="changed since the run was planned"):
        list(read_archive(found.uri, stamp=found.stamp))
