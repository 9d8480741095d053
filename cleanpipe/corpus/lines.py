"""Corpora of lines: JSONL in byte ranges, compressed JSONL as streams, CSV, plain text."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
from collections.abc import Callable, Generator, Iterator
from typing import IO, Any

from cleanpipe.corpus.columns import value_at
from cleanpipe.corpus.files import CSV, CorpusFile, Segment
from cleanpipe.corpus.opening import DAMAGE, open_bytes
from cleanpipe.corpus.rows import (
    BAD_JSON,
    DAMAGED,
    MAX_TEXT,
    NO_COLUMN,
    NOT_OBJECT,
    NOT_TEXT,
    NULL_TEXT,
    TOO_LARGE,
    Pieces,
    Problem,
    Rows,
    as_name,
    decoded,
)  # fmt: skip

_BLOCK, _LOOK = 1 << 20, 16 << 20
_LONG_LINES = 4  # of more than _LOOK bytes, that are looked at for a first row
_BOM = b"\xef\xbb\xbf"
_SNIFFED, _DELIMITERS = 64 << 10, (",", ";", "\t", "|")
Chosen = frozenset[int] | None  # rows of a segment that are wanted; None for all
Take = Callable[[Rows, Segment, int, int, bytes], None]
_MISSING = object()


def raw_lines(file: IO[bytes], start: int, stop: int | None) -> Iterator[tuple[int, bytes | None]]:
    """Lines that begin in start ≤ offset < stop, without their ends; None for one longer than MAX_TEXT."""
    at = start
    while stop is None or at < stop:
        line = file.readline(MAX_TEXT + 1)
        if not line:
            return
        begin = at
        at += len(line)
        if len(line) > MAX_TEXT and not line.endswith(b"\n"):
            while part := file.readline(_BLOCK):
                at += len(part)
                if part.endswith(b"\n"):
                    break
            yield begin, None
        else:
            yield begin, line.rstrip(b"\r\n")


def segment_lines(segment: Segment) -> Iterator[tuple[int, bytes | None]]:
    """Offset and line of every line that the segment owns: those that begin in it."""
    with open_bytes(segment.file) as file:
        start, stop = segment.first, segment.last if segment.last >= 0 else None
        if start:
            file.seek(start - 1)
            start -= 1
            while part := file.readline(_BLOCK):  # a line that began before
                start += len(part)
                if part.endswith(b"\n"):
                    break
        yield from raw_lines(file, start, stop)


def read_jsonl(segment: Segment, chosen: Chosen) -> Pieces:
    """One document a line."""
    return _by_line(segment, chosen, _json_row)


def _by_line(segment: Segment, chosen: Chosen, take: Take) -> Pieces:
    """What ``take`` makes of each line that is wanted."""
    rows, number = Rows(), -1
    try:
        for number, (offset, line) in enumerate(segment_lines(segment)):
            rows.read += 1
            rows.size = offset - segment.first
            if chosen is not None and number not in chosen:
                continue
            if line is None:
                rows.problems.append(Problem(TOO_LARGE, number, f"a line of more than {MAX_TEXT >> 20} MiB"))
            else:
                take(rows, segment, number, offset, line)
            if rows.full:
                yield rows
                rows = Rows()
    except DAMAGE as error:
        rows.problems.append(_broken(number, error))
    yield rows


def _broken(number: int, error: BaseException) -> Problem:
    return Problem(DAMAGED, number + 1, f"the rest cannot be read: {_why(error)}")


def _json_row(rows: Rows, segment: Segment, number: int, offset: int, line: bytes) -> None:
    if offset == 0 and line.startswith(_BOM):
        line = line[3:]
    if not line or line.isspace():
        return
    whole, invalid = decoded(line)
    try:
        row = _parsed(whole)
    except (ValueError, RecursionError) as error:
        rows.problems.append(Problem(BAD_JSON, number, f"{type(error).__name__}: {error}"[:200]))
        return
    if not isinstance(row, dict):
        rows.problems.append(Problem(NOT_OBJECT, number, f"JSON {type(row).__name__}, no object"))
        return
    columns = segment.columns
    text = row.get(columns.text, _MISSING)
    if text is _MISSING and "." in columns.text:
        text = value_at(row, columns.text)
    if isinstance(text, str) and not isinstance(text, _Long):
        url, id_ = value_at(row, columns.url), value_at(row, columns.id)
        rows.add(number, offset, text, as_name(url), as_name(id_), invalid)
    elif text is _MISSING:
        rows.problems.append(Problem(NO_COLUMN, number, f"no {columns.text!r}"))
    else:
        kind = NULL_TEXT if text is None else NOT_TEXT
        name = "int" if isinstance(text, _Long) else type(text).__name__
        rows.problems.append(Problem(kind, number, f"{columns.text!r} is {name}"))


class _Long(str):
    """Digits of a number that Python does not read."""

    __slots__ = ()


def _number(digits: str) -> int | _Long:
    try:
        return int(digits)
    except ValueError:
        return _Long(digits)


_LONG = json.JSONDecoder(parse_int=_number)


def _parsed(line: str) -> Any:
    """A line of JSON; a number of any length is one. Raises ValueError and RecursionError."""
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        raise
    except ValueError:  # more digits than Python turns into a number
        return _LONG.decode(line)


def first_objects(file: CorpusFile, most: int = 100) -> tuple[list[dict[str, Any]], str]:
    """The first rows of a JSONL file that are objects, of its first 16 MiB and a few lines that are longer; and what
    ended the reading before that, "" for nothing.
    """
    out: list[dict[str, Any]] = []
    used = long = 0
    try:
        with open_bytes(file) as source:
            for offset, line in raw_lines(source, 0, None):
                if line is None or len(line) > _LOOK:
                    long += 1
                else:
                    used += len(line) + 1
                if line is not None:
                    try:
                        row = _parsed(decoded(line[3:] if offset == 0 and line.startswith(_BOM) else line)[0])
                    except (ValueError, RecursionError):
                        row = None
                    if isinstance(row, dict):
                        out.append(row)
                if len(out) >= most or used > _LOOK or long >= (1 if out else _LONG_LINES):
                    break
    except DAMAGE as error:
        return out, _why(error)
    return out, ""


def begins_array(file: CorpusFile) -> bool:
    """Whether the file is one JSON array and not lines."""
    try:
        with open_bytes(file) as source:
            head = source.read(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
    except DAMAGE:
        return False
    if not head.startswith(b"["):
        return False
    line = head.split(b"\n", 1)[0]
    return not (line.rstrip().endswith(b"]") and b"\n" in head)


# CSV


def csv_rows(file: CorpusFile) -> Generator[list[str], None, None]:
    """Rows of a CSV or TSV file; bytes that are no UTF-8 come as surrogates of DC80-DCFF."""
    csv.field_size_limit(MAX_TEXT)
    with open_bytes(file) as source:
        delimiter = _delimiter(source, "," if file.kind == CSV else "\t")
    with open_bytes(file) as source:
        text = io.TextIOWrapper(source, encoding="utf-8-sig", errors="surrogateescape", newline="")
        try:
            yield from csv.reader(text, delimiter=delimiter)
        finally:
            text.detach()


def _delimiter(source: IO[bytes], usual: str) -> str:
    """What parts the cells: of those that the first line holds, the one by which most rows have as many cells as it."""
    data = b""
    try:
        while len(data) < _SNIFFED and (more := source.read(_SNIFFED - len(data))):
            data += more
    except DAMAGE:  # said by whoever reads the rows
        pass
    text = data.decode("utf-8-sig", "replace")
    best = (0.0, False, 0, usual)
    for delimiter in dict.fromkeys((usual, *_DELIMITERS)):
        rows: list[list[str]] = []
        with contextlib.suppress(csv.Error):
            rows.extend(itertools.islice(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 100))
        if len(rows) > 2 and len(data) >= _SNIFFED:
            rows.pop()  # it may be cut
        cells = len(rows[0]) if rows else 0
        if cells > 1:
            as_many = sum(len(row) == cells for row in rows if row) / sum(1 for row in rows if row)
            best = max(best, (as_many, delimiter == usual, cells, delimiter))
    return best[-1]


def csv_head(file: CorpusFile) -> list[str]:
    """Its first row: the names of its columns. Raises what DAMAGE names, and csv.Error."""
    rows = csv_rows(file)
    try:
        return next(rows, [])
    finally:
        rows.close()


def read_csv(segment: Segment, chosen: Chosen) -> Pieces:
    """One document a row; the first row names the columns."""
    rows, number, columns = Rows(), -1, segment.columns
    try:
        every = csv_rows(segment.file)
        names = next(every, [])
        at = {n: names.index(n) for n in set(names)}
        text_at, url_at, id_at = at[columns.text], at.get(columns.url, -1), at.get(columns.id, -1)
        for number, cells in enumerate(every):
            rows.read += 1
            if chosen is not None and number not in chosen:
                continue
            if text_at >= len(cells):
                rows.problems.append(Problem(NO_COLUMN, number, f"only {len(cells)} cells"))
                continue
            text, invalid = decoded(cells[text_at].encode("utf-8", "surrogateescape"))
            url, id_ = (cells[i] if 0 <= i < len(cells) else None for i in (url_at, id_at))
            rows.add(number, number, text, as_name(url), as_name(id_), invalid)
            if rows.full:
                yield rows
                rows = Rows()
    except (*DAMAGE, csv.Error) as error:
        rows.problems.append(_broken(number, error))
    yield rows


# plain text


def read_text(segment: Segment, chosen: Chosen, *, by_line: bool) -> Pieces:
    """One document a file, or a line."""
    if by_line:
        yield from _by_line(segment, chosen, _text_row)
        return
    rows = Rows(read=1, size=segment.size)
    try:
        with open_bytes(segment.file) as source:
            data = source.read(MAX_TEXT + 1)
    except DAMAGE as error:
        rows.read = 0
        rows.problems.append(Problem(DAMAGED, 0, _why(error)))
    else:
        if len(data) > MAX_TEXT:
            rows.problems.append(Problem(TOO_LARGE, 0, f"a file of more than {MAX_TEXT >> 20} MiB; --txt line?"))
        elif chosen is None or 0 in chosen:
            rows.add(0, 0, *_text(data))
    yield rows


def _text_row(rows: Rows, _segment: Segment, number: int, offset: int, line: bytes) -> None:
    if line:
        rows.add(number, offset, *_text(line))


def _text(data: bytes) -> tuple[str, None, None, int]:
    text, invalid = decoded(data)
    return text, None, None, invalid


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:200]
