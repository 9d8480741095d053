"""The bytes of one input: read by offset, hashed once as they pass, foreign errors translated."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from types import TracebackType
from typing import BinaryIO, Self, cast

from cleanpipe.errors import CleanpipeError, RetryableError, ShardError

CHUNK = 1 << 20
_EMPTY = memoryview(b"")


def is_url(name: str) -> bool:
    """Whether fsspec must open it: ``memory://x``, ``s3://…``, ``zip://a::file://b``."""
    return "://" in name or "::" in name


def local_path(name: str) -> str | None:
    """The path of a local input (``file://`` too), or None for any other URL."""
    if name.startswith("file://") and "::" not in name:
        return name[7:]
    return None if is_url(name) else name


def translated(error: Exception, uri: str) -> CleanpipeError:
    """A foreign error as one of ours: storage that did not answer may be tried again, anything else sets it aside."""
    kind = RetryableError if isinstance(error, TimeoutError | ConnectionError) else ShardError
    what = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
    return kind(f"cannot be read: {what}", source=uri)


def _stamp(stat: os.stat_result) -> str:
    return f"{stat.st_dev}:{stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"


class ByteSource:
    """Random access to one file, local or at an fsspec URL, with the SHA-256 of its bytes taken on the way.

    Only one chunk (1 MiB) is held. Bytes are hashed when they are read for the first time, so reading a part again
    costs no second hash. ``progress`` is called with the file bytes consumed so far, at most once a MiB.

    Raises:
        ShardError: from any method; the file cannot be opened or read.
    """

    def __init__(self, uri: str, progress: Callable[[int], None] | None = None) -> None:
        self.uri, self._progress = uri, progress
        self._sha, self.consumed, self._told = hashlib.sha256(), 0, 0
        self._base, self._chunk = 0, b""
        self._fd, self._file = -1, cast("BinaryIO | None", None)
        self._stamp, self.modified = "", ""  # of a local file: what changes when its bytes do; mtime in nanoseconds
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
            self._sha.update(memoryview(data)[self.consumed - offset :] if offset < self.consumed else data)
            self.consumed = offset + len(data)
            if self._progress is not None and self.consumed - self._told >= CHUNK:
                self._told = self.consumed
                self._progress(self.consumed)
        return data

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
            found = bytes(data).find(needle)
            if found >= 0:
                return offset + found if offset + found < stop else -1
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

    def finish(self) -> str:
        """Hashes what was not read, and gives the SHA-256 of the whole file in hex."""
        while self.consumed < self.size and self.read_at(self.consumed, CHUNK):
            pass
        if self._progress is not None and self._told != self.consumed:
            self._told = self.consumed
            self._progress(self.consumed)
        return self._sha.hexdigest()

    def changed(self) -> bool:
        """Whether a local file was written to, or another put in its place, since it was opened.

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
