"""The journal of finished units of one kind: their manifests, compacted as they grow, so that a run of a million units
resumes by reading a few hundred files.

Every unit publishes a manifest of its own (commit.py). A thousand of them are put into one *book*,
``work/done/<kind>/book-<id>.zst``: a line with the keys and the sum of their tallies, then a line for each manifest
without its tally; beside it ``tally-<id>.zst`` has the single tallies, read only where not every unit of the book is
wanted any more. The book is published before the single manifests go; a key that stands in two books is the same.
"""

from __future__ import annotations

import json
import os
import tempfile
import uuid
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import zstandard

from cleanpipe.engine.commit import Units, parsed
from cleanpipe.errors import DamagedFileError
from cleanpipe.io.store import Store
from cleanpipe.tally import Tally, add

BOOK = 1000  # units of a book
_READERS = 8  # files read at a time


class Journal:
    """Finished units of one kind. Held in memory: for each its key (16 bytes) and where its manifest lies, without the
    tally, in a temporary file.
    """

    def __init__(self, store: Store, kind: str) -> None:
        self.store, self.units = store, Units(store, kind)
        self._folder = f"work/done/{kind}/"
        self._spill = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the journal; it has no name
        weakref.finalize(self, self._spill.close)
        self._at: dict[bytes, tuple[int, int]] = {}  # key → offset and length in it
        self._books: dict[str, list[bytes]] = {}  # book → its keys
        self._loose: dict[bytes, Tally] = {}  # tallies of the units that no book holds yet
        self._load()

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._at

    def __len__(self) -> int:
        return len(self._at)

    def __getitem__(self, key: str) -> dict[str, Any]:
        """The manifest of a finished unit; ``tally`` is left out.

        Raises:
            KeyError: it is not finished.
        """
        result: dict[str, Any] = json.loads(self._line(bytes.fromhex(key)))
        return result

    def __iter__(self) -> Iterator[str]:
        """Keys of all finished units."""
        return (key.hex() for key in self._at)

    def _line(self, key: bytes) -> bytes:
        offset, size = self._at[key]
        return os.pread(self._spill.fileno(), size, offset)

    def _append(self, data: bytes) -> int:
        """Where it begins in the temporary file."""
        offset = self._spill.seek(0, os.SEEK_END)
        self._spill.write(data)
        self._spill.flush()
        return offset

    def _load(self) -> None:
        names = sorted(name for name, _ in self.store.names(self._folder))
        books = [n for n in names if n.rpartition("/")[2].startswith("book-")]
        single = [n for n in names if n.endswith(".json")]
        with ThreadPoolExecutor(_READERS) as pool:
            for some in batched(books, 4 * _READERS):  # what the threads have read waits in memory
                for name, data in zip(some, pool.map(self._read, some), strict=True):
                    self._load_book(name, unpacked(data))
            for some in batched(single, BOOK):
                for name, data in zip(some, pool.map(self._read, some), strict=True):
                    key = name.rpartition("/")[2].removesuffix(".json")
                    if is_key(key) and bytes.fromhex(key) not in self._at and (manifest := parsed(data)) is not None:
                        self._keep(bytes.fromhex(key), manifest)
        self._compact()

    def _load_book(self, name: str, data: bytes) -> None:
        head, _, rest = data.partition(b"\n")
        said = line_of_json(head)
        lines = rest.split(b"\n")
        if not isinstance(said, dict) or len(said.get("keys", ())) != len(lines):
            return  # what a damaged disk leaves: its units are done again
        if not all(is_key(str(k)) for k in said["keys"]):
            return
        keys = [bytes.fromhex(k) for k in said["keys"]]
        self._books[name] = keys
        offset = self._append(rest)
        for key, line in zip(keys, lines, strict=True):
            self._at[key] = (offset, len(line))
            offset += len(line) + 1

    def _read(self, name: str) -> bytes:
        try:
            return self.store.read(name)
        except FileNotFoundError:  # another driver's compaction, or a hand
            return b""

    def _keep(self, key: bytes, manifest: Mapping[str, Any]) -> None:
        self._loose[key] = dict(manifest.get("tally", {}))
        line = json_line({k: v for k, v in manifest.items() if k != "tally"})
        self._at[key] = (self._append(line), len(line))

    def add(self, key: str, manifest: Mapping[str, Any]) -> None:
        """Take note of a unit whose manifest was published."""
        self._keep(bytes.fromhex(key), manifest)
        self._compact()

    def _compact(self) -> None:
        while len(self._loose) >= BOOK:
            keys = sorted(self._loose)[:BOOK]
            total: Tally = {}
            for key in keys:
                add(total, self._loose[key])
            name = f"{uuid.uuid4().hex[:12]}.zst"
            tallies = [self._loose[k] for k in keys]
            book, beside_it = book_of([k.hex() for k in keys], total, tallies, map(self._line, keys))
            self.store.write(f"{self._folder}tally-{name}", beside_it)
            self.store.write(f"{self._folder}book-{name}", book)
            self._books[f"{self._folder}book-{name}"] = keys
            self.store.delete_all(self.units.manifest(k.hex()) for k in keys)
            for key in keys:
                del self._loose[key]

    def forget(self, key: str) -> None:
        """Make a unit unfinished again: its files are damaged, or it is to be done anew."""
        gone = bytes.fromhex(key)
        for book, keys in list(self._books.items()):
            if gone in keys:
                try:
                    tallies = self._tallies(book)
                except DamagedFileError:  # all of its units are unfinished now
                    continue
                for other in keys:
                    if other != gone and other in self._at:
                        self._loose[other] = tallies[other]
                        whole = {**json.loads(self._line(other)), "tally": tallies[other]}
                        self.store.write(self.units.manifest(other.hex()), json_line(whole))
                self.store.delete_all([book, beside(book)])
                del self._books[book]
        self._at.pop(gone, None)
        self._loose.pop(gone, None)
        self.store.delete(self.units.manifest(key))

    def _tallies(self, book: str) -> dict[bytes, Tally]:
        """The single tallies of a book's units.

        Raises:
            DamagedFileError: they cannot be read; its units are unfinished then.
        """
        tallies = [line_of_json(line) for line in unpacked(self._read(beside(book))).split(b"\n")]
        if len(tallies) != len(self._books[book]) or not all(isinstance(t, dict) for t in tallies):
            for key in self._books.pop(book):
                self._at.pop(key, None)
            self.store.delete_all([book, beside(book)])
            raise DamagedFileError("cannot be read", source=beside(book))
        return dict(zip(self._books[book], tallies, strict=True))

    def tally(self, wanted: Iterable[str]) -> Tally:
        """The sum over the wanted units; each must be finished."""
        total: Tally = {}
        left = {bytes.fromhex(k) for k in wanted}
        for book, keys in list(self._books.items()):
            here = left.intersection(keys)
            if here and len(here) == len(keys):
                head = unpacked(self._read(book)).partition(b"\n")[0]
                add(total, line_of_json(head)["tally"])
            elif here:
                tallies = self._tallies(book)
                for key in here:
                    add(total, tallies[key])
            left -= here
        for key in left:
            add(total, self._loose[key])
        return total

    def files(self) -> Iterator[str]:
        """Names of every file that a finished unit owns."""
        for key in self._at:
            yield from (f["name"] for f in json.loads(self._line(key))["files"].values())


def heal(store: Store, file: str) -> int:
    """Make the unit that owns a damaged file ("work/<kind>/<key>/…") unfinished, and every other whose files are not as
    they were written: their digests are taken on a file system, their sizes in an object store. How many there were.
    """
    parts = file.split("/")
    if len(parts) != 4 or parts[0] != "work" or not is_key(parts[2]):
        return 0
    bad = {(parts[1], parts[2])}
    for kind in {name.split("/")[2] for name, _ in store.names("work/done/")}:
        sizes = dict(store.names(f"work/{kind}/"))
        journal = Journal(store, kind)
        for key in journal:
            for entry in journal[key]["files"].values():
                if sizes.get(entry["name"]) != entry["bytes"] or (store.local and not _sound(store, entry)):
                    bad.add((kind, key))
    for kind in {kind for kind, _ in bad}:
        journal = Journal(store, kind)
        for key in (key for of, key in sorted(bad) if of == kind):
            journal.forget(key)
    return len(bad)


def _sound(store: Store, file: Mapping[str, Any]) -> bool:
    try:
        with store.fetch(file["name"], file):
            return True
    except DamagedFileError:
        return False


def batched(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """So many at a time."""
    return (names[at : at + size] for at in range(0, len(names), size))


def beside(book: str) -> str:
    """The file with the single tallies of a book."""
    return book.replace("/book-", "/tally-")


def is_key(name: str) -> bool:
    """Whether it is spelled as a unit's key."""
    return len(name) == 32 and not name.strip("0123456789abcdef")


def json_line(value: Any) -> bytes:
    """A value as a line of a book."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def line_of_json(line: bytes) -> Any:
    """Its value; None if it is none."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _packed(lines: list[bytes]) -> bytes:
    return zstandard.ZstdCompressor(3, write_checksum=True).compress(b"\n".join(lines))


def book_of(keys: Sequence[str], total: Tally, tallies: Iterable[Tally], lines: Iterable[bytes]) -> tuple[bytes, bytes]:
    """The two files of a book. total: the sum of the tallies; lines: of each unit's manifest, without its tally."""
    head = json_line({"keys": keys, "tally": total})
    return _packed([head, *lines]), _packed([json_line(t) for t in tallies])


def unpacked(data: bytes) -> bytes:
    """The lines of a book; nothing of a damaged one."""
    try:
        return zstandard.ZstdDecompressor().decompress(data) if data else b""
    except zstandard.ZstdError:
        return b""
