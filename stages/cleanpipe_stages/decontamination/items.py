"""Benchmark files: one item a line of text, JSONL with fields, or a column of Arrow and Parquet files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zlib import error as zlib_error

import pyarrow as pa

from cleanpipe.errors import ConfigError
from cleanpipe.text.normalise import normalise

STAGE = "decontaminate"
Item = tuple[int, str]  # number (of the line or row, from 1) and text
_TABLES = (".parquet", ".arrow")


def files_of(places: Sequence[str]) -> dict[str, Path]:
    """Benchmark files by name; of a folder every file in it that is not hidden.

    Raises:
        ConfigError: nothing there.
    """
    found: dict[str, Path] = {}
    for place in places:
        path = Path(place)
        inside = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        inside = [p for p in inside if not p.name.startswith(".")]
        if not inside:
            raise ConfigError(f"benchmarks: no such file, or an empty folder: {place}", stage=STAGE)
        for file in inside:
            name = file.name if path.is_file() else f"{path.name}/{file.relative_to(path).as_posix()}"
            found[name if name not in found else f"{name}#{len(found)}"] = file
    return found


def read_items(path: Path, wanted: Sequence[str]) -> Iterator[Item]:
    """Its items, normalised as documents are. wanted: fields whose texts make an item; empty: every text of a row.

    Raises:
        ConfigError: it cannot be read, a line is no JSON object, no row has such a field, or none has a text.
    """
    try:
        name = path.name.removesuffix(".gz")
        if name.endswith(_TABLES):
            yield from _filled(_rows(enumerate(_table(path), 1), wanted, path), path)
        elif name.endswith((".jsonl", ".ndjson", ".json")):
            yield from _filled(_rows(_objects(path), wanted, path), path)
        else:
            yield from _filled(((number, normalise(line)) for number, line in enumerate(_lines(path), 1)), path)
    except (OSError, EOFError, zlib_error, pa.ArrowException, UnicodeDecodeError) as error:
        raise ConfigError(f"benchmarks: {path} cannot be read: {error}", stage=STAGE) from error


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        for line in file:
            if b"\0" in line:
                raise ConfigError(f"benchmarks: {path} cannot be read as UTF-8: it is UTF-16, or no text", stage=STAGE)
            yield from line.decode("utf-8-sig").rstrip("\r\n").split("\r")


def _objects(path: Path) -> Iterator[tuple[int, Any]]:
    first = True
    array = ConfigError(f"benchmarks: {path} is one JSON array: jq -c '.[]' makes lines of it", stage=STAGE)
    for number, line in enumerate(_lines(path), 1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                if first and line.lstrip().startswith("["):
                    raise array from error
                raise ConfigError(f"benchmarks: {path}, line {number}: no JSON: {error}", stage=STAGE) from error
            if isinstance(row, list) and first:
                raise array
            first = False
            yield number, row


def _filled(items: Iterator[Item], path: Path) -> Iterator[Item]:
    """The items; refused where none has a text."""
    named = False
    for number, text in items:
        named = named or bool(text.strip())
        yield number, text
    if not named:
        raise ConfigError(f"benchmarks: {path} names none: one text, or JSON object with texts, a line", stage=STAGE)


def _table(path: Path) -> Iterator[Any]:
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        for batch in pq.ParquetFile(path).iter_batches():
            yield from batch.to_pylist()
        return
    with pa.memory_map(str(path)) as source:
        try:
            yield from pa.ipc.open_file(source).read_all().to_pylist()
        except pa.ArrowInvalid:
            source.seek(0)
            for batch in pa.ipc.open_stream(source):
                yield from batch.to_pylist()


def _rows(rows: Iterator[tuple[int, Any]], wanted: Sequence[str], path: Path) -> Iterator[Item]:
    seen = found = 0
    for number, row in rows:
        seen += 1
        if isinstance(row, dict) and wanted:
            values = [row[name] for name in wanted if name in row]
        else:
            values = list(row.values()) if isinstance(row, dict) else [row]
        text = "\n".join(t for value in values for t in _texts(value))
        found += bool(values)
        yield number, normalise(text)
    if seen and not found:
        raise ConfigError(f"benchmarks: no row of {path} has the field {' or '.join(wanted)}", stage=STAGE)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
