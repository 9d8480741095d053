"""The bytes of one input: read by offset, hashed once as they pass, foreign errors translated."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import BinaryIO, Self, cast

from cleanpipe.errors import CleanpipeError, RetryableError, ShardError, StopError
from cleanpipe.io.remote import LostError, ReadAhead, Refused, redacted, said
from cleanpipe.options import StorageOptions

CHUNK = 1 << 20
_STORAGE = StorageOptions()
_EMPTY = memoryview(b"")


def is_url(name: str) -> bool:
    """Whether fsspec must open it: ``memory://x``, ``s3://…``, ``zip://a::file://b``."""
    return "://" in name or "::" in name


def local_path(name: str) -> str | None:
    """The path of a local input (``file://`` too), or None for any other URL."""
    if name.startswith("file://") and "::" not in name:
        return name[7:]
    return None if is_url(name) else name


def is_remote(name: str) -> bool:
    """Whether our own readers of object stores and web servers open it, with ranges and tries of their own."""
    return name.lower().startswith(("s3://", "http://", "https://")) and "::" not in name


def open_remote(uri: str, storage: StorageOptions) -> tuple[BinaryIO | ReadAhead, int, str]:
    """Such a file to read, its size and its tag. Raises Refused, StopError, ConfigError."""
    if uri.startswith("s3://"):
        from cleanpipe.io import s3  # lazily: local runs do without these clients

        return s3.open_file(uri, storage)
    from cleanpipe.io import http_source

    return http_source.open_file(uri, storage)


def translated(error: Exception, uri: str) -> CleanpipeError:
    """A foreign error as one of ours: storage that did not answer may be tried again, anything else sets it aside."""
    if isinstance(error, LostError):  # of one input: it is set aside; where every input is lost the driver stops
        return RetryableError(error.message, source=redacted(uri))
    if isinstance(error, CleanpipeError):
        return error
    kind: type[CleanpipeError] = ShardError
    if isinstance(error, TimeoutError | ConnectionError):
        kind = RetryableError
    elif isinstance(error, Refused) and error.everywhere:
        kind = StopError
    return kind(f"cannot be read: {said(error)}", source=redacted(uri))


def _stamp(stat: os.stat_result) -> str:
    return f"{stat.st_dev}:{stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"


class ByteSource:
    """Random access to one file, local, of a web server, in an object store, or at another fsspec URL, with the SHA-256
    of its bytes taken on the way.

    One chunk (1 MiB) is held, of remote files up to 16 MiB more. Bytes are hashed when they are read for the first
    time, so reading a part again costs no second hash. ``progress`` is called with the file bytes consumed so far, at
    most once a MiB; of a file that is hashed from an offset on, with those behind it.

    Raises:
        ShardError: from any method; the file cannot be opened or read.
        RetryableError: its storage gave no answer in all the tries. StopError: a remote file changed while it was read.
    """

    def __init__(
        self, uri: str, progress: Callable[[int], None] | None = None, storage: StorageOptions = _STORAGE
    ) -> None:
        self.uri, self._progress, self._storage = uri, progress, storage
        self._sha, self.consumed, self._told = hashlib.sha256(), 0, 0
        self._from, self._until = 0, sys.maxsize  # what is hashed of the file
        self._base, self._chunk = 0, b""
        self._fd = -1
        self._file: BinaryIO | ReadAhead | None = None
        self._stamp, self.modified = "", ""  # of a local file what changes when it does; mtime in nanoseconds, or a tag
        try:
            self.size = self._open()
        except Exception as error:
            self.close()
            raise translated(error, uri) from error

    def _open(self) -> int:
        path = local_path(self.uri)
        if path is not None:
            self._fd = os.open(path, os.O_RDONLY)
            if Path(path).is_dir():
                raise IsADirectoryError(21, "is a folder")
            stat = os.fstat(self._fd)
            if S_ISREG(stat.st_mode):
                self._stamp, self.modified = _stamp(stat), str(stat.st_mtime_ns)
                return stat.st_size
            pipe, self._fd = open(self._fd, "rb"), -1  # noqa: PTH123, SIM115  # a pipe or a device has no size and no seek
            return self._spool(pipe)
        if is_remote(self.uri):
            self._file, size, self.modified = open_remote(self.uri, self._storage)
            return size
        import fsspec  # lazily: local runs do without it

        remote = cast("BinaryIO", fsspec.open(self.uri, "rb").open())
        try:
            if remote.seekable():
                self._file, size = remote, remote.seek(0, os.SEEK_END)
                return size
        except (OSError, ValueError):  # some servers know no ranges
            self._file = None
            remote.close()
            remote = cast("BinaryIO", fsspec.open(self.uri, "rb").open())
        return self._spool(remote)

    def _spool(self, stream: BinaryIO) -> int:
        """Copies a stream that cannot seek to a temporary file, never to memory."""
        with stream:
            self._file = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115
            shutil.copyfileobj(stream, self._file, CHUNK)
        return self._file.tell()

    def read_at(self, offset: int, size: int) -> bytes:
        """Up to ``size`` bytes at ``offset``, fewer only at the end."""
        size = min(size, self.size - offset)
        if size <= 0:
            return b""
        try:
            data = self._read(offset, size)
        except Exception as error:
            raise translated(error, self.uri) from error
        if offset <= self.consumed < offset + len(data):
            self._hash(offset, data)
        return data

    def _hash(self, offset: int, data: bytes) -> None:
        """Hashes what is new of bytes that begin at ``offset``, and that it shall hash."""
        begin, stop = self.consumed - offset, min(len(data), self._until - offset)
        if stop <= begin:
            return
        self._sha.update(memoryview(data)[begin:stop] if begin or stop < len(data) else data)
        self.consumed = offset + stop
        if self._progress is not None and self.consumed - self._told >= CHUNK:
            self._told = self.consumed
            self._progress(self.consumed - self._from)

    def _read(self, offset: int, size: int) -> bytes:
        parts: list[bytes] = []
        if self._file is not None:
            self._file.seek(offset)
        while size > 0:
            data = os.pread(self._fd, size, offset) if self._file is None else self._file.read(size)
            if not data:
                break
            parts.append(data)
            offset += len(data)
            size -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def holds(self, offset: int) -> bool:
        """Whether the chunk at hand has the byte at ``offset``."""
        return self._base <= offset < self._base + len(self._chunk)

    def at(self, offset: int) -> memoryview:
        """The bytes from ``offset`` to the end of the chunk held; empty at the end of the file alone."""
        if not self.holds(offset):
            self._base, self._chunk = offset, self.read_at(offset, CHUNK)
        return memoryview(self._chunk)[offset - self._base :] if self._chunk else _EMPTY

    def find(self, needle: bytes, offset: int, stop: int | None = None) -> int:
        """Offset of the first ``needle`` at or after ``offset`` that begins before ``stop``; -1 if there is none."""
        stop = self.size if stop is None else stop
        while offset < stop and (data := self.at(offset)):
            found = self._base + self._chunk.find(
                needle, offset - self._base
            )  # no copy: there may be one every 3 bytes
            if found >= self._base:
                return found if found < stop else -1
            if len(data) < len(needle):  # the chunk ends here: look across its border
                if self.read_at(offset, len(needle)) == needle:
                    return offset
                offset += 1
            else:
                offset += len(data) - len(needle) + 1
        return -1

    def clip(self, stop: int) -> None:
        """Makes the file end at ``stop``: a range is re-read as if nothing lay behind it."""
        self.size, self._chunk = min(self.size, stop), b""

    def hash_from(self, offset: int) -> None:
        """Starts the hash there; the default is the file's start. Bytes before it that were read are forgotten."""
        self._sha, self._from, self.consumed, self._told = hashlib.sha256(), offset, offset, offset
        self._hash_held()

    def hash_until(self, offset: int | None) -> None:
        """Bytes from there on are not hashed as they pass, only by ``finish``; None: no such border. The end of what a
        reader wants, which may read on behind it: nor is a remote file read ahead behind it.
        """
        self._until = sys.maxsize if offset is None else offset
        if isinstance(self._file, ReadAhead):
            self._file.bound = min(self._until, self.size)
        self._hash_held()

    def _hash_held(self) -> None:
        if self.holds(self.consumed):
            self._hash(self._base, self._chunk)

    def finish(self, stop: int | None = None) -> str:
        """Hashes what was not read, and gives the SHA-256 in hex of the bytes from ``hash_from`` to ``stop``, by
        default the file's end; right for every ``stop``, cheap for one not before the border of ``hash_until``.
        """
        stop = self.size if stop is None else min(stop, self.size)
        if stop < self.consumed:
            self._until = stop
            self.hash_from(self._from)
        self.hash_until(stop)
        while self.consumed < stop and self.read_at(self.consumed, min(CHUNK, stop - self.consumed)):
            pass
        if self._progress is not None and self._told != self.consumed:
            self._told = self.consumed
            self._progress(self.consumed - self._from)
        return self._sha.hexdigest()

    def changed(self) -> bool:
        """Whether a local file was written to, or another put in its place, since it was opened. A remote one says so
        as it is read.

        One that is gone by its name has not changed: what was read of it was whole.
        """
        path = local_path(self.uri)
        if path is None or not self._stamp:
            return False
        try:
            return {_stamp(os.fstat(self._fd)), _stamp(Path(path).stat())} != {self._stamp}
        except FileNotFoundError:
            return _stamp(os.fstat(self._fd)) != self._stamp
        except OSError as error:
            raise translated(error, self.uri) from error

    def close(self) -> None:
        """Closes the file; errors at this point lose nothing."""
        with suppress(Exception):
            if self._fd >= 0:
                os.close(self._fd)
            if self._file is not None:
                self._file.close()
        self._fd, self._file, self._chunk = -1, None, b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
