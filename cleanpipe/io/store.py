"""A run folder as a store of named files: a local or mounted folder, or a prefix of an object store.

A file is written whole at a local path (its draft), made durable, and then published: renamed on a file system,
uploaded and checked on an object store, which has no rename. A name that exists is complete. Readers fetch a local path
to map.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import platform
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from cleanpipe.errors import ConfigError, DamagedFileError, StopError
from cleanpipe.io.hashing import sha256_of
from cleanpipe.options import StorageOptions

LOCK = "work/lock"
TEMPORARY = ".tmp-"  # a name that begins so is no file of the run; left by a kill, removed by the next start


class Hold(ABC):
    """The right of one process to work in a store."""

    @abstractmethod
    def check(self) -> None:
        """Called before anything is removed.

        Raises:
            StopError: the right was lost (this process was frozen, or cut off, and another took over).
        """

    @abstractmethod
    def release(self) -> None:
        """Let others work there; a second time is no error."""


class Store(ABC):
    """A tree of files by name ("work/pass0/…", no leading slash). Workers make their own from ``root`` and options.

    Raises, from any method: StopError where the storage is full or lost after its tries; FileNotFoundError for a name
    that is not there, where a method reads.
    """

    local = False

    def __init__(self, root: str) -> None:
        self.root = root  # as a person writes it: a path or s3://bucket/prefix

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The whole of a small file."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Bytes of a file; -1 if it is not there."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> dict[str, Any]:
        """A small file, whole or not at all, in place of an older one; ``{"bytes", "sha256"}``."""

    @abstractmethod
    def write_new(self, name: str, data: bytes) -> bool:
        """The same where no file has the name; false if one has. Of several writers at a time one is told true."""

    @abstractmethod
    def draft(self, name: str, attempt: str) -> Path:
        """A local path to write the file at; attempts do not meet."""

    @abstractmethod
    def publish(self, draft: Path, name: str, facts: Mapping[str, Any]) -> None:
        """Give a complete, durable draft its name, in place of an older file; the draft is gone then.

        facts: its ``bytes`` and ``sha256``. Publishing the same bytes twice, or at the same time, is no error.
        """

    @abstractmethod
    def fetch(self, name: str, facts: Mapping[str, Any] | None = None) -> AbstractContextManager[Path]:
        """A local path of a published file for the time of a ``with``, to read or map.

        facts: the ``bytes`` and ``sha256`` that it must have; None where it was proven before in this process.

        Raises:
            DamagedFileError: it is not there, or not as it was written.
        """

    @abstractmethod
    def names(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Name and size of every file below ``prefix`` ("work/", or "" for all), drafts left out; in any order."""

    @abstractmethod
    def delete(self, name: str) -> None:
        """Remove a file; one that is not there is no error."""

    @abstractmethod
    def delete_below(self, prefix: str) -> None:
        """Remove every file below ``prefix``, drafts too."""

    @abstractmethod
    def leftovers(self) -> Iterator[tuple[str, int, str]]:
        """What killed attempts left outside of any name: name, bytes (0 if unknown), kind ("draft", "upload")."""

    @abstractmethod
    def remove_leftovers(self) -> None:
        """Remove these."""

    @abstractmethod
    def free(self) -> int:
        """Bytes free where drafts are written."""

    @abstractmethod
    def hold(self, tell: Callable[[str], None]) -> Hold:
        """The right to work here; one process has it at a time, and its death gives it back.

        tell: called with a line for a person where it has to wait (a lease of a dead holder runs out).

        Raises:
            ConfigError: another process holds it; who, where and since when is said.
        """

    def delete_all(self, names: Iterable[str]) -> None:
        """Remove many files."""
        for name in names:
            self.delete(name)

    def write_text(self, name: str, text: str) -> dict[str, Any]:
        """A small text file; see ``write``."""
        return self.write(name, text.encode())

    def write_json(self, name: str, value: Any) -> dict[str, Any]:
        """Plain data in its one spelling; see ``write``."""
        return self.write(name, spelled(value))


def spelled(value: Any) -> bytes:
    """Plain data as JSON in its one spelling: sorted keys, two blanks, a newline at the end."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


class LocalStore(Store):
    """A folder of a local or mounted file system."""

    local = True

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.path = Path(root)

    def _home(self, name: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def read(self, name: str) -> bytes:
        """Reads it."""
        return (self.path / name).read_bytes()

    def size(self, name: str) -> int:
        """Asks the file system."""
        try:
            return (self.path / name).stat().st_size
        except OSError:
            return -1

    def write(self, name: str, data: bytes) -> dict[str, Any]:
        """Written beside its name, then renamed."""
        beside = self._beside(name, data)
        facts = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        self.publish(beside, name, facts)
        return facts

    def write_new(self, name: str, data: bytes) -> bool:
        """Written beside its name, then linked, which fails where the name exists."""
        beside, path = self._beside(name, data), self.path / name
        try:
            os.link(beside, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without links
            if path.exists():
                return False
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
        sync_folder(path.parent)
        return True

    def _beside(self, name: str, data: bytes) -> Path:
        beside = self.draft(name, uuid.uuid4().hex[:12])
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return beside

    def draft(self, name: str, attempt: str) -> Path:
        """Beside its name."""
        path = self._home(name)
        return path.parent / f"{TEMPORARY}{attempt}-{path.name}"

    def publish(self, draft: Path, name: str, facts: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Renamed; the folder is made durable."""
        path = self._home(name)
        draft.replace(path)
        sync_folder(path.parent)

    @contextmanager
    def fetch(self, name: str, facts: Mapping[str, Any] | None = None) -> Iterator[Path]:
        """The path itself, after its digest was taken."""
        path = self.path / name
        if facts is not None:
            try:
                sound = path.stat().st_size == facts["bytes"] and sha256_of(path) == facts["sha256"]
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise StopError("too many open files: raise `ulimit -n`", source=self.root) from error
                raise DamagedFileError(f"cannot be read: {error.strerror or error}", source=name) from error
            if not sound:
                raise DamagedFileError("is not as it was written", source=name)
        yield path

    def names(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Walks the folders."""
        for path, size in _walk(str(self.path / prefix)):
            if not os.path.basename(path).startswith(TEMPORARY):  # noqa: PTH119  # a million of them
                yield path[len(str(self.path)) + 1 :], size

    def delete(self, name: str) -> None:
        """Unlinks it."""
        (self.path / name).unlink(missing_ok=True)

    def delete_below(self, prefix: str) -> None:
        """Removes the folder."""
        shutil.rmtree(self.path / prefix, ignore_errors=True)

    def leftovers(self) -> Iterator[tuple[str, int, str]]:
        """Drafts, wherever they lie."""
        for path, size in _walk(str(self.path)):
            if os.path.basename(path).startswith(TEMPORARY):  # noqa: PTH119
                yield path[len(str(self.path)) + 1 :], size, "draft"

    def remove_leftovers(self) -> None:
        """Unlinks them."""
        for name, _, _ in list(self.leftovers()):
            self.delete(name)

    def free(self) -> int:
        """Of the folder's file system."""
        return shutil.disk_usage(self.path).free

    def hold(self, tell: Callable[[str], None]) -> Hold:  # noqa: ARG002  # the kernel gives a lock back at once
        """A lock of the kernel on ``work/lock``."""
        return Lock(self.path, self._home(LOCK))


class Lock(Hold):
    """A lock of the kernel on an open file: it ends with the process, however that ends."""

    def __init__(self, folder: Path, path: Path) -> None:
        self._file = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise ConfigError(f"another run is at work in {folder} ({holder}): wait for it or end it") from error
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {platform.node()}\n")
        self._file.flush()

    def check(self) -> None:
        """The kernel takes it from nobody."""

    def release(self) -> None:
        """Closes the file."""
        self._file.close()


def _walk(folder: str) -> Iterator[tuple[str, int]]:
    """Path and size of every file below a folder; one that vanishes meanwhile is left out."""
    folders = [folder.rstrip("/")]
    while folders:
        try:
            entries = os.scandir(folders.pop())
        except (FileNotFoundError, NotADirectoryError):
            continue
        with entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    with suppress(FileNotFoundError):
                        yield entry.path, entry.stat(follow_symlinks=False).st_size


@lru_cache(maxsize=8)
def open_store(root: str, options: StorageOptions) -> Store:
    """The store at ``root``, one object a process: an absolute path, or ``s3://bucket/prefix``."""
    if root.startswith("s3://"):
        from cleanpipe.io.object_store import ObjectStore  # lazily: local runs do without an S3 client

        return ObjectStore(root, options)
    return LocalStore(root)


def sync_folder(folder: Path) -> None:
    """Make a rename durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
