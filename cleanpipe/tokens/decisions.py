"""``decisions.jsonl`` in the folder of a token store: what was decided about its documents, appended only.

One JSON line a decision (see ``decisions_lines.Decision``), chained by digests. A reader honours them at once; the next
build leaves out what is quarantined. What they mean for the documents of a store: ``effects``.

On a file system a writer locks the file, appends in one write and makes it durable. On an object store the whole file
is put again, on the condition that nobody changed it meanwhile; where a store knows no such condition, two writers at
the same moment may lose a line: one at a time there.
"""

from __future__ import annotations

import fcntl
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleanpipe.engine.folder import place
from cleanpipe.errors import ConfigError, DamagedFileError, StopError
from cleanpipe.io.store import LocalStore, Store, open_store, sync_folder
from cleanpipe.options import StorageOptions
from cleanpipe.tokens.decisions_effects import (
    MASK,
    QUARANTINE,
    RELEASED,
    WEIGHT,
    Effects,
    effects,
    hits,
)
from cleanpipe.tokens.decisions_lines import Book, Decision, Decisions, parse
from cleanpipe.tokens.layout import DECISIONS, STORE

if TYPE_CHECKING:
    from cleanpipe.io.object_store import ObjectStore
    from cleanpipe.tokens.store import TokenStore

__all__ = [
    "MASK", "QUARANTINE", "RELEASED", "WEIGHT",
    "Decision", "Decisions", "Effects", "append", "effects", "hits", "load", "parse", "preview",
]  # fmt: skip
_HERE = StorageOptions()
_TRIES = 20  # of a put that others come before


def load(
    tokens: str | Path | TokenStore, storage: StorageOptions = _HERE, *, known: tuple[int, str] = (0, "")
) -> Decisions:
    """The decisions of a store; none where there is no file.

    tokens: its folder, ``s3://bucket/prefix``, or an open store. known: the lines in force for whoever asks again, and
    their digest: lines are only ever added to them.

    Warns where the last line is torn: what a crash left of a line that was never said to be written.

    Raises:
        DamagedFileError: a line was changed, lost or put in; of those that the store was built with too.
        ConfigError: the file does not begin with the lines in force.
    """
    opened = None if isinstance(tokens, str | Path) else tokens
    place_of = str(tokens) if opened is None else opened.root
    storage = storage if opened is None else getattr(opened, "storage", storage)
    store = _store(place_of, storage)
    out = _read(store)
    count, digest = known
    if count and out.digest_at(count) != digest:
        lines = "the line" if count == 1 else f"the {count:,} lines"
        raise ConfigError(
            f"{place_of}/{DECISIONS} no longer begins with {lines} in force: put it back from a copy (lines are only "
            "ever added; what is wrong is revoked)"
        )
    if out.torn:
        warnings.warn(
            f"{place_of}/{DECISIONS}: the last {len(out.torn):,} bytes are what is left of a line: they are ignored, "
            "and the next decision takes their place",
            stacklevel=2,
        )
    _begins_with(out, _built(store) if opened is None else opened.info.get("decisions"))
    return out


def append(
    tokens: str | Path, given: Sequence[Decision], storage: StorageOptions = _HERE, *, time: str = ""
) -> list[Decision]:
    """Write decisions; those that stand there already are not written twice.

    Each of ``given`` becomes a line that is there in the end: one with a number above the ``version`` before is new.
    All are written or none. time: of the lines, by default now.

    Raises:
        ConfigError: one is wrong, or the folder cannot be written. DamagedFileError: the file is. StopError: the disk
            is full, or storage is lost.
    """
    checked = [one.checked() for one in given]
    now = time or _now()
    store = _store(str(tokens), storage)
    return _append_local(store, checked, now) if isinstance(store, LocalStore) else _append_far(store, checked, now)


def _store(root: str, storage: StorageOptions) -> Store:
    return open_store(place(root, "TOKENS"), storage)


def _read(store: Store) -> Decisions:
    try:
        return parse(store.read(DECISIONS))
    except FileNotFoundError:
        return Decisions()
    except OSError as error:
        raise ConfigError(f"{store.root}/{DECISIONS} cannot be read: {error.strerror or error}") from error


def _built(store: Store) -> Any:
    """What the store was built with, by its store.json; None where there is none to read."""
    try:
        info = json.loads(store.read(STORE))
    except (OSError, ValueError, RecursionError):
        return None
    return info.get("decisions") if isinstance(info, dict) else None


def _begins_with(found: Decisions, built: Any) -> None:
    """What a store was built with is still the file's begin: decisions that are lost would bring documents back."""
    known = built if isinstance(built, dict) else {}
    count, digest = known.get("lines"), known.get("sha256")
    if type(count) is int and count and found.digest_at(count) != digest:
        raise DamagedFileError(
            f"does not begin with the {count:,} lines that the store was built with: put it back from a copy",
            source=DECISIONS,
        )


def preview(before: Decisions, given: Sequence[Decision]) -> tuple[Decisions, list[Decision]]:
    """What ``append`` would make of decisions, and the line of each of ``given``; its errors too."""
    return _added(before, [one.checked() for one in given], _now())


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _added(before: Decisions, given: Sequence[Decision], now: str) -> tuple[Decisions, list[Decision]]:
    """The decisions with these, and the line of each."""
    book = Book(before)
    out = [book.add(one, now) for one in given]
    return book.decisions(), out


def _behind(data: bytes, before: Decisions, after: Decisions) -> tuple[int, bytes]:
    """How much of a file is whole lines, and what makes those of ``before`` in it those of ``after``."""
    sound = len(data) - len(before.torn)
    new = b"".join(line.line() for line in after.lines[before.version :])
    if sound and data[sound - 1 : sound] != b"\n":  # an editor, or a crash, took the last line's end
        new = b"\n" + new
    return sound, new


# --- a folder


def _append_local(store: LocalStore, given: Sequence[Decision], now: str) -> list[Decision]:
    path, built = store.path / DECISIONS, _built(store)
    if not store.path.is_dir():
        raise ConfigError(f"{store.root} is no folder")
    try:
        with _locked(path) as file:
            data = os.pread(file, os.fstat(file).st_size, 0)
            before = parse(data)
            _begins_with(before, built)
            after, out = _added(before, given, now)
            if after.version == before.version:
                return out
            sound, new = _behind(data, before, after)
            if before.torn:
                os.ftruncate(file, sound)
            try:
                while new:
                    new = new[os.pwrite(file, new, os.fstat(file).st_size) :]
                os.fsync(file)
            except OSError:
                os.ftruncate(file, sound)  # none of them
                raise
        sync_folder(store.path)
    except OSError as error:
        why = f"{path} cannot be written: {error.strerror or error}"
        raise (ConfigError(why) if isinstance(error, PermissionError) else StopError(why)) from error
    return out


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file, open and locked until the end of the ``with``; the lock ends with the process too."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            try:
                same = os.stat(path).st_ino == os.fstat(file).st_ino  # noqa: PTH116  # beside fstat
            except FileNotFoundError:
                same = False
            if same:  # nobody put another file in its place while this one waited
                yield file
                return
        finally:
            os.close(file)


# --- an object store


def _append_far(store: Store, given: Sequence[Decision], now: str) -> list[Decision]:
    from cleanpipe.io.object_store import ObjectStore  # lazily: local stores do without an S3 client

    assert isinstance(store, ObjectStore)
    for _ in range(_TRIES):
        data, tag = _tagged(store)
        before = parse(data)
        _begins_with(before, _built(store))
        after, out = _added(before, given, now)
        if after.version == before.version:
            return out
        sound, new = _behind(data, before, after)
        if store.put_if(DECISIONS, data[:sound] + new, tag) is not None:
            return out
    raise StopError(f"{store.root}/{DECISIONS}: others write all the time: try again")


def _tagged(store: ObjectStore) -> tuple[bytes, str | None]:
    """The file and its tag; None where it is not there."""
    from cleanpipe.io.remote import Refused
    from cleanpipe.io.s3 import END

    file = store.file(DECISIONS)
    try:
        return b"".join(file.stream(0, END)), file.etag
    except Refused as error:
        if error.missing:
            return b"", None
        raise StopError(f"{store.root}/{DECISIONS}: {error.why}") from error
