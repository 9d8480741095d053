"""Which files a run reads: paths, globs, folders, manifests and URLs, turned into one sorted list."""

from __future__ import annotations

import glob
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, cast

from cleanpipe.errors import CleanpipeError, ConfigError, ShardError
from cleanpipe.io import lookup
from cleanpipe.io.bytesource import is_remote, is_url, local_path
from cleanpipe.io.kinds import container, heads_of
from cleanpipe.io.lookup import Found
from cleanpipe.io.remote import Refused, redacted, said
from cleanpipe.options import StorageOptions

_KINDS = (".warc", ".wet", ".wat", ".arc")
_PACKED = ("", ".gz", ".zst")
ENDINGS = tuple(kind + packed for kind in _KINDS for packed in _PACKED)
MANIFESTS = (".paths", ".paths.gz", ".txt", ".txt.gz")
_LIST, _LINE = 256 << 20, 1 << 16  # bytes of a manifest and of one of its lines, inflated
_WINDOW = 4096  # entries of a manifest that are looked for at a time
_STORAGE = StorageOptions()
_ENDINGS_TEXT = "an archive ends in .warc, .wet, .wat or .arc, with .gz or .zst"


@dataclass(frozen=True, slots=True)
class Input:
    """One archive. source: its name in the ledger. uri: what opens it. size: bytes (0 where storage does not say).

    stamp: what changes when the file does: mtime in nanoseconds, or the ETag or time that storage gives. uri may hold a
        signature or a password: ``redacted`` before it is shown or stored.
    """

    source: str
    uri: str
    size: int
    stamp: str


def resolve_inputs(
    inputs: Sequence[str], *, source_root: str | None, storage: StorageOptions = _STORAGE
) -> list[Input]:
    """Every archive that ``inputs`` name, each once, sorted by ``source``.

    Each entry is a file, a glob, a folder (searched to the bottom for archive endings, through linked folders too, each
    folder once), a manifest (``.paths``, ``.paths.gz``, ``.txt``: one path a line, relative to its own folder or one
    above it, else to the working folder; at most 256 MiB inflated), or a URL of any of these; web servers have no
    folders and globs. Of a manifest on a server the folder that holds its first entry is tried first for the others.
    ``source`` is the path below ``source_root``, else the base name, without a query.

    Raises:
        ConfigError: an empty name, nothing there, nothing matches, not an archive, no regular file (a pipe is not
            opened), a name that is not UTF-8, or two inputs of one name; one clear line.
        StopError: storage does not answer.
    """
    if not inputs:
        raise ConfigError("no input: name archives, a glob, a folder or a manifest")
    found: dict[str, Input] = {}
    for name in inputs:
        for uri, size, stamp in _expand(os.fspath(name), storage, manifests=True):
            source = _source(uri, source_root)
            if not source.isprintable() or not uri.isprintable():
                _refuse_name(uri)
            found.setdefault(uri, Input(source, uri, size, stamp))
    by_source: dict[str, Input] = {}
    for item in found.values():
        other = by_source.setdefault(item.source, item)
        if other is not item:
            first, second = sorted((other.uri, item.uri))
            raise ConfigError(
                f"two inputs are both named {item.source!r}: {_shown(first)} and {_shown(second)}; "
                "give --source-root a folder above both, so that their paths below it tell them apart"
            )
    return sorted(by_source.values(), key=lambda item: item.source)


def _refuse_name(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"input {_shown(name)} has a name that is not UTF-8: rename it") from None


def _shown(name: str) -> str:
    """A name for a message of one line: bytes that are not UTF-8, line ends and the like as escapes; no secrets."""
    name = redacted(name)
    if name.isprintable():
        return name
    parts = (c if c.isprintable() else repr(os.fsencode(c) if "\udc80" <= c <= "\udcff" else c) for c in name)
    return "".join(p if len(p) == 1 else p.removeprefix("b")[1:-1] for p in parts)


def _expand(name: str, storage: StorageOptions, *, manifests: bool) -> Iterator[Found]:
    path = local_path(name)
    if not (name if path is None else path).strip():
        raise ConfigError("an empty input name: name archives, a glob, a folder or a manifest")
    try:
        if path is not None:
            yield from _expand_local(path, storage, manifests=manifests)
        else:
            yield from _expand_url(name, storage, manifests=manifests)
    except ShardError as error:
        raise ConfigError(f"input {_shown(name)} {error.message}") from error
    except CleanpipeError:
        raise
    except Exception as error:  # foreign errors of storage, many and varied
        raise ConfigError(f"input {_shown(name)} cannot be read: {said(error)}") from error


def _expand_local(name: str, storage: StorageOptions, *, manifests: bool) -> Iterator[Found]:
    path = Path(os.path.abspath(name))  # noqa: PTH100  # resolve() would follow links, and the name is the user's
    if path.is_dir():
        files = sorted(_below(path))
        if not files:
            raise ConfigError(f"input folder {_shown(name)} holds no archive: {_ENDINGS_TEXT}")
        yield from map(_stat, files)
    elif path.exists():
        _stat(path)  # before it is opened: a pipe would wait for its writer
        head = _start(path)
        if manifests and _is_manifest(path.name) and heads_of(head) is None:
            with path.open("rb") as file:
                yield from _manifest(name, file, head, [str(folder) for folder in path.parents], storage)
        else:
            _check(name, path.name, head)
            yield _stat(path)
    elif glob.has_magic(name):
        matches = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207  # Path.glob takes no absolute pattern
        files = [Path(match) for match in _once(matches) if _is_archive(match) and not Path(match).is_dir()]
        if not files:
            raise ConfigError(f"input {_shown(name)} matches no archive ({len(matches)} other names): {_ENDINGS_TEXT}")
        yield from map(_stat, files)
    else:
        raise ConfigError(f"input {_shown(name)} does not exist")


def _below(folder: Path) -> Iterator[Path]:
    """The archives in a folder and all below it, real folders before linked ones, no folder twice."""
    visited: set[tuple[int, int]] = set()
    folders, links = [folder], list[Path]()
    while folders or links:
        place = folders.pop() if folders else links.pop(0)
        stat = place.stat()
        if (stat.st_dev, stat.st_ino) in visited:
            continue
        visited.add((stat.st_dev, stat.st_ino))
        linked: list[Path] = []
        for path in place.iterdir():
            if path.is_dir():
                (linked if path.is_symlink() else folders).append(path)
            elif _is_archive(path.name):
                yield path
        links += sorted(linked)


def _once(matches: Sequence[str]) -> list[str]:
    """Matches without those that lead to the same place through a linked folder."""
    places: dict[tuple[str, str], str] = {}
    for match in sorted(matches, key=lambda match: (match.count("/"), match)):
        folder, base = os.path.split(match)
        places.setdefault((os.path.realpath(folder), base), match)
    return sorted(places.values())


def _expand_url(name: str, storage: StorageOptions, *, manifests: bool) -> Iterator[Found]:
    file = lookup.look(name, storage)
    if file is None:
        yield from _several(name, storage)
        return
    base = _base(name)
    if not _is_archive(base):
        with lookup.opened(name, storage) as stream:
            head = stream.peek(_HEAD)[:_HEAD]
            if manifests and _is_manifest(base) and heads_of(head) is None:
                yield from _manifest(name, stream, head, _parents(name), storage)
                return
        _check(name, base, head)
    yield file


def _several(name: str, storage: StorageOptions) -> Iterator[Found]:
    magic = glob.has_magic(name)
    if lookup.is_web(name):
        way = ": a web server has no globs: name the archives, or a list of them (.paths)" if magic else ""
        raise ConfigError(f"input {_shown(name)} does not exist{way}")
    objects = sorted(lookup.matching(name, storage) if magic else lookup.below(name, storage))
    files = [entry for entry in objects if _is_archive(entry[0])]
    if not files and magic:
        raise ConfigError(f"input {_shown(name)} matches no archive ({len(objects)} other names): {_ENDINGS_TEXT}")
    if not objects:
        raise ConfigError(f"input {_shown(name)} does not exist")
    if not files:
        raise ConfigError(f"input folder {_shown(name)} holds no archive: {_ENDINGS_TEXT}")
    yield from files


def _manifest(
    name: str, file: BinaryIO, head: bytes, folders: Sequence[str], storage: StorageOptions
) -> Iterator[Found]:
    """The archives that a list names; each entry is looked for in the manifest's folder, then in those above it."""
    lines = cast("BinaryIO", gzip.GzipFile(fileobj=file)) if head[:2] == b"\x1f\x8b" else file
    entries, home, any_entry = _entries(_shown(name), lines), "", False
    try:
        while window := list(islice(entries, _WINDOW)):
            any_entry = True
            if not home and (first := next((entry for entry in window if not is_url(entry)), "")):
                home = next((folder for folder in folders if _exists(_join(folder, first), storage)), "")
            yield from _window(window, home, folders, storage)
    except ConfigError as error:
        if error.message.startswith("manifest "):
            raise
        raise ConfigError(f"manifest {_shown(name)}: {error.message}") from error
    if not any_entry:
        raise ConfigError(f"manifest {_shown(name)} names no input")


def _window(entries: Sequence[str], home: str, folders: Sequence[str], storage: StorageOptions) -> Iterator[Found]:
    """Some entries of a list, in order: archives on servers many at a time, the rest one by one."""
    targets = [entry if is_url(entry) or not is_remote(home) else _join(home, entry) for entry in entries]
    plain = [target for target in targets if is_remote(target) and _is_archive(target) and not glob.has_magic(target)]
    found = dict(zip(plain, lookup.look_all(plain, storage), strict=True))
    for entry, target in zip(entries, targets, strict=True):
        if (file := found.get(target)) is not None:
            yield file
            continue
        place = entry
        if not is_url(entry) and not os.path.isabs(entry):  # noqa: PTH117
            place = next((place for place in (_join(f, entry) for f in folders) if _exists(place, storage)), entry)
        yield from _expand(place, storage, manifests=False)


def _entries(name: str, file: BinaryIO) -> Iterator[str]:
    """The lines of a list, comments and blank ones aside; neither the list nor one line of it can fill the memory."""
    size = 0
    while True:
        try:
            line = file.readline(_LINE + 1)
            text = line.decode("utf-8-sig" if not size else "utf-8")
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise ConfigError(f"manifest {name} is no list of paths: {error}") from error
        if not line:
            return
        size += len(line)
        if len(line) > _LINE:
            raise ConfigError(f"manifest {name} is no list of paths: a line is longer than {_LINE} bytes")
        if size > _LIST:
            raise ConfigError(f"manifest {name} is larger than {_LIST >> 20} MiB: split it")
        for entry in text.split("\r"):
            if (entry := entry.strip()) and not entry.startswith("#"):
                yield entry


def _exists(name: str, storage: StorageOptions) -> bool:
    path = local_path(name)
    if path is not None:
        return Path(path).exists() or (glob.has_magic(path) and bool(glob.glob(path)))  # noqa: PTH207
    magic = glob.has_magic(name)
    try:
        if lookup.look(name, storage) is not None:
            return True
        if lookup.is_web(name) or (_is_archive(name) and not magic):
            return False
        return any(True for _ in (lookup.matching if magic else lookup.below)(name, storage))
    except Refused as error:
        if error.status == 403 and not error.everywhere:  # so S3 answers for what is not there who may not list
            return False
        raise


def _join(folder: str, entry: str) -> str:
    return folder.rstrip("/") + "/" + entry


def _parents(url: str) -> list[str]:
    """Folders of a URL, innermost first, down to its root."""
    scheme, _, path = _plain(url).rpartition("://")
    parts = path.split("/")[:-1]
    return [f"{scheme}://" + "/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _base(uri: str) -> str:
    if not is_url(uri):
        return os.path.basename(uri)  # noqa: PTH119
    return _plain(uri.split("::")[0]).rstrip("/").rpartition("/")[2]


def _plain(url: str) -> str:
    """Without the query that a web address may have; elsewhere ``?`` is a letter of a name."""
    return redacted(url) if url.lower().startswith(("http://", "https://")) else url


def _is_archive(name: str) -> bool:
    base = _base(name).lower()
    return base.endswith(ENDINGS) and not base.startswith(".")


def _is_manifest(name: str) -> bool:
    return name.lower().endswith(MANIFESTS)


_HEAD = 1 << 12


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def _check(name: str, base: str, head: bytes) -> None:
    """A file named outright may have any name, if its first bytes or its ending speak for an archive."""
    if not _is_archive(base) and container(head) == "plain" and heads_of(head) is None:
        raise ConfigError(f"input {_shown(name)} is of unknown kind: {_ENDINGS_TEXT}; a list in .paths or .txt")


_STREAMS = ("/dev/stdin", "/dev/fd/", "/proc/")  # what lies there is another thing in another process


def _stat(path: Path) -> Found:
    """Of a regular file, links followed; nothing is opened.

    Raises:
        ConfigError: it is a pipe, a device, a socket, or a link to nothing.
    """
    try:
        stat = path.stat()
    except FileNotFoundError:
        raise ConfigError(f"input {_shown(str(path))} does not exist: the link leads nowhere") from None
    if not S_ISREG(stat.st_mode) or str(path).startswith(_STREAMS):
        raise ConfigError(
            f"input {_shown(str(path))} is no regular file: a pipe can be read only once: save it to a file first"
        )
    return str(path), stat.st_size, str(stat.st_mtime_ns)


def _source(uri: str, root: str | None) -> str:
    if root is None:
        return _base(uri)
    below = local_path(root)
    uri = _plain(uri)
    base = os.path.abspath(below).rstrip("/") + "/" if below is not None else _plain(root).rstrip("/") + "/"  # noqa: PTH100
    if not uri.startswith(base):
        raise ConfigError(f"input {_shown(uri)} does not lie below --source-root {_shown(root)}")
    return uri[len(base) :]
