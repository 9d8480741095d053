"""Finished units as another process sees them: manifests and books of the journal (engine/journal.py), read only.

A driver may be at work at the same time: files that it puts into a book between two requests are found again. A look
after the first reads only what is new.
"""

from __future__ import annotations

import io
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import zstandard

from cleanpipe.engine.commit import parsed
from cleanpipe.engine.journal import batched, beside, is_key, line_of_json, unpacked
from cleanpipe.errors import DamagedFileError, StopError
from cleanpipe.io.remote import Refused
from cleanpipe.io.store import TEMPORARY, LocalStore, Store
from cleanpipe.tally import Tally, add

DONE = "work/done/"
_READERS = 8  # files read at a time
_TRIES = 5  # looks at a journal that changes meanwhile
Dated = Mapping[str, tuple[int, float]]  # name → bytes, seconds since the epoch when it was published


def dated(store: Store, prefix: str) -> dict[str, tuple[int, float]]:
    """Files below a prefix, with when they were published by the clock of the storage."""
    if isinstance(store, LocalStore):
        start = len(str(store.path)) + 1
        return {path[start:]: facts for path, facts in _files(str(store.path / prefix))}
    from cleanpipe.io import s3  # lazily: local runs do without

    bucket, root = s3.split(store.root)
    client, where = s3.client(store.options), {"Bucket": bucket, "Prefix": f"{root}/{prefix}"}  # type: ignore[attr-defined]
    try:
        entries = list(client.pages("list_objects_v2", "Contents", **where))
    except Refused as error:
        raise StopError(f"{store.root}/{prefix}: {error.why}") from error
    return {e["Key"][len(root) + 1 :]: (int(e["Size"]), e["LastModified"].timestamp()) for e in entries}


def _files(folder: str) -> Iterator[tuple[str, tuple[int, float]]]:
    try:
        entries = os.scandir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif not entry.name.startswith(TEMPORARY):
                with suppress(FileNotFoundError):
                    stat = entry.stat(follow_symlinks=False)
                    yield entry.path, (stat.st_size, stat.st_mtime)


@dataclass(slots=True)
class Book:
    """keys: of its units. tally: their sum. at: when it was written."""

    keys: list[str]
    tally: Tally
    at: float


@dataclass(slots=True)
class Single:
    """A unit that no book holds yet: its manifest whole, and when it was published."""

    manifest: dict[str, Any]
    at: float


@dataclass(slots=True)
class Seen:
    """Finished units of one kind. books and singles share no key. changes: grows when anything of it does."""

    store: Store
    kind: str
    books: dict[str, Book] = field(default_factory=dict)
    singles: dict[str, Single] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)  # keys of units that are known to be finished, and no more
    changes: int = 0
    _gone: set[str] = field(default_factory=set)  # keys of singles that the last listing did not have
    _held: set[str] = field(default_factory=set)  # keys of the books
    _sum: Tally = field(default_factory=dict)  # over the books
    _spill: _Spill | None = None

    def look(self, there: Dated | None = None, most: int = 1 << 60) -> None:
        """Read what is new. there: a listing of ``work/done/``; most: single manifests read in this look."""
        listed = self.listed() if there is None else there
        for _ in range(_TRIES):
            if self._read(listed, most) and there is not None:
                return
            before, listed = listed, self.listed()
            if not self._gone and listed.keys() == before.keys():
                return

    def listed(self) -> Dated:
        """What there is of this kind now."""
        return dated(self.store, f"{DONE}{self.kind}/")

    def _read(self, there: Dated, most: int) -> bool:
        """False where a file went between the listing and its reading."""
        books, singles = {}, {}
        for name, (_, at) in there.items():
            folder, _, base = name.rpartition("/")
            if folder != f"{DONE}{self.kind}":
                continue
            if base.startswith("book-"):
                books[name] = at
            elif base.endswith(".json") and is_key(key := base.removesuffix(".json")):
                singles[key] = (name, at)
        if self.books.keys() - books.keys():  # a unit is done again: its book was taken apart
            self.books, self._held, self._sum = {}, set(), {}
        whole = self._read_books({n: at for n, at in books.items() if n not in self.books})
        for key in [k for k in self.singles if k in self._held]:
            del self.singles[key]
        # a manifest goes when its book is there; a listing that was under way then shows neither
        gone = {k for k in self.singles if k not in singles}
        for key in gone & self._gone:
            del self.singles[key]
            self.changes += 1
        whole = whole and gone <= self._gone
        self._gone = gone
        new = [k for k in singles if k not in self._held and k not in self.singles]
        self.unread = set(new[most:])
        self.changes += len(new)
        with ThreadPoolExecutor(_READERS) as pool:
            for some in batched(new[:most], 1000):
                names = [singles[k][0] for k in some]
                for key, data in zip(some, pool.map(self._bytes, names), strict=True):
                    if data is None:
                        whole = False
                    elif (manifest := parsed(data)) is not None:
                        self.singles[key] = Single(manifest, singles[key][1])
        return whole

    def _read_books(self, new: Mapping[str, float]) -> bool:
        whole = True
        with ThreadPoolExecutor(_READERS) as pool:
            for some in batched(list(new), 4 * _READERS):
                for name, data in zip(some, pool.map(self._bytes, some), strict=True):
                    if data is None:
                        whole = False
                    elif (said := _head(data)) is not None:
                        self.books[name] = Book(said["keys"], said["tally"], new[name])
                        self._held.update(said["keys"])
                        add(self._sum, said["tally"])
                        self.changes += 1
        return whole

    def _bytes(self, name: str) -> bytes | None:
        try:
            return self.store.read(name)
        except FileNotFoundError:
            return None

    def __len__(self) -> int:
        return len(self.singles) + len(self.unread) + len(self._held)

    def keys(self) -> set[str]:
        """Keys of all finished units."""
        return {*self.singles, *self.unread, *self._held}

    def manifest(self, key: str) -> dict[str, Any]:
        """The manifest of a finished unit; of one in a book it comes without its tally.

        Raises:
            DamagedFileError: it is not there any more, or its book cannot be read.
        """
        if key in self.singles:
            return self.singles[key].manifest
        self._spill = self._spill or _Spill()
        for name, book in self.books.items():
            if name not in self._spill.books:
                rest = unpacked(self._bytes(name) or b"").partition(b"\n")[2]
                self._spill.keep(name, book.keys, rest.split(b"\n"))
        line = self._spill.line(key)
        if line is None or (manifest := parsed(line)) is None:
            raise DamagedFileError("cannot be read", source=f"{DONE}{self.kind}/{key}")
        return manifest

    def tally(self, wanted: set[str] | None = None) -> Tally:
        """The sum over the wanted units; None: over all that were read."""
        total: Tally = {}
        if wanted is None:
            add(total, self._sum)
        else:
            for name, book in self.books.items():
                here = sum(k in wanted for k in book.keys)
                if here == len(book.keys):
                    add(total, book.tally)
                elif here:
                    for key, line in zip(book.keys, self._tallies(name, len(book.keys)), strict=True):
                        if key in wanted:
                            add(total, line)
        for key, single in self.singles.items():
            if wanted is None or key in wanted:
                add(total, single.manifest.get("tally", {}))
        return total

    def _tallies(self, book: str, count: int) -> Sequence[Tally]:
        lines = [line_of_json(line) for line in unpacked(self._bytes(beside(book)) or b"").split(b"\n")]
        return lines if len(lines) == count else [{}] * count


class _Spill:
    """Manifests of books in a temporary file: they may be a million."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # it has no name, and goes with this
        weakref.finalize(self, self._file.close)
        self.books: set[str] = set()
        self._at: dict[str, tuple[int, int]] = {}

    def keep(self, book: str, keys: Sequence[str], lines: Sequence[bytes]) -> None:
        """A book's; nothing if it has another number of lines, which is what a damaged disk leaves."""
        self.books.add(book)
        if len(keys) == len(lines):
            at = self._file.seek(0, os.SEEK_END)
            for key, line in zip(keys, lines, strict=True):
                self._at[key] = (at, len(line))
                at += self._file.write(line)
            self._file.flush()

    def line(self, key: str) -> bytes | None:
        """One of them."""
        at, size = self._at.get(key, (0, -1))
        return os.pread(self._file.fileno(), size, at) if size >= 0 else None


def _head(data: bytes) -> dict[str, Any] | None:
    """Keys and summed tally of a book, without unpacking the rest; None if it is none."""
    line = b""
    try:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)) as stream:
            while b"\n" not in line and (more := stream.read(1 << 16)):
                line += more
    except zstandard.ZstdError:
        return None
    said = line_of_json(line.partition(b"\n")[0])
    sound = isinstance(said, dict) and isinstance(said.get("keys"), list) and isinstance(said.get("tally"), dict)
    return said if sound else None


def books_of(there: Dated) -> set[str]:
    """Names of the books in a listing."""
    return {name for name in there if name.rpartition("/")[2].startswith("book-")}
