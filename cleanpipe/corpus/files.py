"""Which files a corpus is made of, what they are, and into which units they are cut."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from stat import S_ISREG

from cleanpipe.errors import ConfigError

UNIT_BYTES = 32 << 20  # of a file as it lies, where it can be cut; small files come together up to this
CODECS = {".gz": "gz", ".zst": "zst", ".zstd": "zst", ".bz2": "bz2", ".xz": "xz"}
JSONL, CSV, TSV, TXT, PARQUET, ARROW, STREAM = "jsonl", "csv", "tsv", "txt", "parquet", "arrow", "arrow stream"
SUFFIXES = {
    ".jsonl": JSONL, ".ndjson": JSONL, ".jsonlines": JSONL, ".json": JSONL, ".csv": CSV, ".tsv": TSV, ".txt": TXT,
    ".text": TXT, ".parquet": PARQUET, ".pq": PARQUET, ".arrow": ARROW, ".feather": ARROW, ".ipc": ARROW,
    ".arrows": ARROW,
}  # fmt: skip
KINDS = "JSONL (plain, .gz, .zst, .bz2, .xz), Parquet, Arrow, a `datasets` folder, CSV, TSV, .txt"
_CLEAN = "clean it with `cleanpipe run`, then audit the run folder"
_ARCHIVES = frozenset({".warc", ".wet", ".wat", ".arc"})
_ASIDE = frozenset({"dataset_info.json", "state.json", "dataset_dict.json", "manifest.json", "run.json"})


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns hold what, nested ones by dots; "" for none. windows: rows are windows of our own shards."""

    text: str
    url: str = ""
    id: str = ""
    windows: bool = False


@dataclass(frozen=True, slots=True)
class CorpusFile:
    """source: its path below the folder that all files have in common. size: bytes as it lies. fault: why it cannot be
    read, where its first look says so.
    """

    path: str
    source: str
    kind: str
    codec: str
    size: int
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of one file: first ≤ n < last in bytes (plain JSONL), row groups or batches; last -1: to the end."""

    file: CorpusFile
    columns: Columns
    first: int
    last: int
    size: int


@dataclass(frozen=True, slots=True)
class Unit:
    """What one task reads."""

    number: int
    segments: tuple[Segment, ...]

    @property
    def size(self) -> int:
        """Bytes, about."""
        return sum(s.size for s in self.segments)

    @property
    def label(self) -> str:
        """For people."""
        return self.segments[0].file.source


@dataclass(frozen=True, slots=True)
class Found:
    """files: sorted by source. passed_over: no corpus files by their names, or pipes, sockets and devices."""

    files: tuple[CorpusFile, ...]
    passed_over: int


def find_files(paths: Iterable[str]) -> Found:
    """The corpus files that the paths name: files, folders (all below), globs, saved datasets, run folders.

    A file below a folder that cannot be read has a ``fault``.

    Raises:
        ConfigError: a path is not there, holds nothing, or is of a kind that cannot be read.
    """
    paths = list(paths)
    for given in paths:
        only_local(given)
    found: dict[Path, bool] = {}  # whether a person named the very file
    passed_over = 0
    for given in paths:
        path, named = Path(given).expanduser(), False
        if path.is_dir():
            files, aside = _folder(path)
            passed_over += aside
        elif path.is_file():
            files, named = [path], True
        elif os.path.lexists(path):
            raise ConfigError(f"{given} is no regular file (a pipe, a device, or a link to nothing)")
        else:
            files = [Path(p) for p in glob.glob(str(path), recursive=True)]  # noqa: PTH207  a pattern may be absolute
            files = sorted(p for p in files if p.is_file() and (len(files) == 1 or _kind_of(p) is not None))
            if not files:
                raise ConfigError(f"{given}: no such file or folder")
        if not files:
            if any(_is_archive(p) for p in path.rglob("*")):
                raise ConfigError(f"{given} holds web archives: {_CLEAN}")
            other = f"{aside:,} file{'s' * (aside != 1)} of other names"
            raise ConfigError(f"{given} holds no corpus file ({KINDS}); {other}")
        for one in files:
            whole = Path(os.path.normpath(one.absolute()))
            found[whole] = found.get(whole, False) or named
    folder = Path(os.path.commonpath([p.parent for p in found]))
    out = []
    for path, named in found.items():
        source = path.relative_to(folder).as_posix().encode("utf-8", "backslashreplace").decode()
        file, fault = _looked_at(path, source)
        if fault and named:
            raise ConfigError(f"{path} {fault}")
        out.append(file)
    return Found(tuple(sorted(out, key=lambda f: f.source)), passed_over)


def only_local(path: str) -> None:
    """Raises ConfigError for an address of an object store or server."""
    if "://" in path:
        raise ConfigError(f"{path}: only local files can be audited; copy or mount the corpus first")


def _is_archive(path: Path) -> bool:
    """By its last suffix, but for that of a codec."""
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] in CODECS:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in _ARCHIVES


def _folder(path: Path) -> tuple[list[Path], int]:
    """Corpus files below a folder; of a saved dataset those that it names, of a run its shards."""
    files, aside = [], 0
    for folder, names, entries in os.walk(path):
        here = Path(folder)
        names[:] = sorted(n for n in names if not n.startswith((".", "_")) and not _is_audit(here / n))
        if (here / "manifest.json").is_file() and (here / "data" / "state.json").is_file():
            names[:] = ["data"]  # a run folder; its ledger is no corpus
            continue
        if (here / "state.json").is_file() and (listed := _listed(here)) is not None:
            files += [here / name for name in listed]
            names[:] = []
            continue
        for entry in sorted(entries):
            hidden = entry.startswith((".", "_")) or entry in _ASIDE
            hidden |= "dataset_info.json" in entries and entry.startswith("cache-")  # what `datasets` made of it
            if not hidden and _kind_of(here / entry) is not None and not _is_special(here / entry):
                files.append(here / entry)
            else:
                aside += not entry.startswith(".")
    return files, aside


def _is_special(path: Path) -> bool:
    """Whether it is a pipe, socket or device: to open one can take for ever. A link to nothing is none."""
    try:
        return not S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _is_audit(folder: Path) -> bool:
    """Whether it is one that an audit wrote: a corpus may hold its own."""
    return (folder / "audit.json").is_file() and (folder / "ledger").is_dir() and not (folder / "data").exists()


def _listed(folder: Path) -> list[str] | None:
    """The files of a saved ``datasets.Dataset``."""
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        return [str(f["filename"]) for f in state["_data_files"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _kind_of(path: Path) -> tuple[str, str] | None:
    suffixes = [s.lower() for s in path.suffixes]
    codec = CODECS.get(suffixes[-1], "") if suffixes else ""
    if codec:
        suffixes.pop()
    kind = SUFFIXES.get(suffixes[-1]) if suffixes else None
    if kind is None or (codec and kind in (PARQUET, ARROW)):
        return None
    return kind, codec


def _looked_at(path: Path, source: str) -> tuple[CorpusFile, str]:
    """The file, and its fault."""
    kind, codec, size, fault = "unreadable", "", 0, ""
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            fault = "is no regular file"
        else:
            size = status.st_size
            kind, codec = _look(path)
    except _RefusedError as error:
        fault = str(error)
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        fault = f"cannot be read: {getattr(error, 'strerror', None) or error}"
    return CorpusFile(str(path), source, kind, codec, size, fault), fault


class _RefusedError(Exception):
    """Why a file is no corpus."""


def _look(path: Path) -> tuple[str, str]:
    """Kind and codec, by the first bytes where they tell, else by the name. Raises OSError and _RefusedError."""
    with path.open("rb") as file:
        head = file.read(16)
    if head.startswith(b"PAR1"):
        return PARQUET, ""
    if head.startswith(b"ARROW1"):
        return ARROW, ""
    if head.startswith(b"WARC/") or _is_archive(path):
        raise _RefusedError(f"is a web archive: {_CLEAN}")
    named = _kind_of(path)
    if named == (ARROW, "") and head.startswith(b"\xff\xff\xff\xff"):
        return STREAM, ""
    codec = next((c for magic, c in _MAGIC.items() if head.startswith(magic)), "")
    if named is not None and named[0] not in (PARQUET, ARROW):
        return named[0], codec
    if named is not None and not head:
        return named
    if not codec and head.lstrip()[:1] == b"{":
        return JSONL, ""
    kind = f"no {named[0]} file" if named else "of a kind that cannot be read"
    raise _RefusedError(f"is {kind}: {KINDS}")


_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst", b"BZh": "bz2", b"\xfd7zXZ\x00": "xz"}


def cut(files: Sequence[tuple[CorpusFile, Columns, Sequence[int]]], *, by_line: bool = False) -> list[Unit]:
    """Units of about UNIT_BYTES.

    files: each with the sizes of the pieces it can be cut into (row groups, record batches); [] for a file that can be
    cut at any byte or at none. by_line: a document of plain text is a line.
    """
    units: list[Unit] = []
    held: list[Segment] = []

    def close() -> None:
        if held:
            units.append(Unit(len(units), tuple(held)))
            held.clear()

    for file, columns, pieces in files:
        for segment in _segments(file, columns, pieces, by_line):
            if held and sum(s.size for s in held) + segment.size > UNIT_BYTES:
                close()
            held.append(segment)
    close()
    return units


def _segments(file: CorpusFile, columns: Columns, pieces: Sequence[int], by_line: bool) -> list[Segment]:
    if (file.kind == JSONL or (file.kind == TXT and by_line)) and not file.codec:
        borders = [*range(0, file.size, UNIT_BYTES), file.size] if file.size else [0, 0]
        return [Segment(file, columns, a, b, b - a) for a, b in pairwise(borders)]
    if not pieces:
        return [Segment(file, columns, 0, -1, file.size)]
    out, first, total = [], 0, 0
    for n, size in enumerate(pieces):
        if total and total + size > UNIT_BYTES:
            out.append(Segment(file, columns, first, n, total))
            first, total = n, 0
        total += size
    return [*out, Segment(file, columns, first, len(pieces), total)]
