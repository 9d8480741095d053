"""Heads of WARC records, read tolerantly: any version line, CRLF or LF, folded lines, names in any case."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

VERSION_LINE = re.compile(rb"WARC/\d+\.\d+\r?\n", re.IGNORECASE)
HEAD_END = re.compile(rb"\r?\n\r?\n")
BLANK = b" \t\r\n\f"  # what may stand between records; writers differ, and FastWARC takes all of these
_LONGEST_TYPE = 64
_BEYOND, _DIGITS = 10**18, 4096  # bytes that no file has, and digits that are read: int() takes few more
_BRACKETED = frozenset({"warc-target-uri", "warc-refers-to-target-uri"})  # old wget writes <http://…>


@dataclass(frozen=True, slots=True)
class Head:
    """A record head. length: of the block, None where missing or no number. size: bytes of the head itself.

    closed: the blank line that ends a head was there. lf: its lines end with LF alone. known: it names type and length
    and an id or a date, so that a head found by searching is no quotation cut short.
    """

    type: str
    headers: Mapping[str, str]
    length: int | None
    size: int
    closed: bool = True
    lf: bool = False
    known: bool = True


def lowered(raw: bytes) -> str:
    """A header's name in lower case."""
    return raw.strip(BLANK).decode("latin-1").lower()


class _Names(dict[bytes, str]):
    """Header names in lower case; the few that exist are lowered once."""

    def __missing__(self, raw: bytes) -> str:
        name = lowered(raw)
        if len(self) < 4096:
            self[raw] = name
        return name


_NAMES = _Names()


def header_map(items: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Names in lower case to values; the first of a repeated name counts."""
    headers: dict[str, str] = {}
    for raw, value in items:
        name = _NAMES[raw]
        if name not in headers:
            headers[name] = value.strip(BLANK).decode("utf-8", "replace")
    if (uri := headers.get("warc-target-uri")) and uri[0] == "<":
        for name in _BRACKETED & headers.keys():
            headers[name] = headers[name].removeprefix("<").removesuffix(">").strip(" \t")
    return headers


def unfolded(lines: Iterable[bytes]) -> bytes:
    """A value that goes on over several lines, as one."""
    return b" ".join(filter(None, (line.strip() for line in lines)))


def content_length(headers: Mapping[str, str]) -> int | None:
    """The Content-Length, or None where it is missing or no plain number; one of more than 18 digits is a length too,
    and longer than any file: 10^18 stands for it.
    """
    value = headers.get("content-length", "")
    if not (value.isascii() and value.isdigit()):
        return None
    if len(value) < 19 or (len(value) <= _DIGITS and len(value.lstrip("0")) < 19):
        return int(value)
    return _BEYOND


def record_type(headers: Mapping[str, str]) -> str:
    """WARC-Type in lower case; "" where it is missing, or no word but bytes."""
    kind = headers.get("warc-type", "").lower()
    return kind if kind.isprintable() and len(kind) <= _LONGEST_TYPE else ""


def parse_warc_head(data: bytes) -> Head | None:
    """The head at the start of ``data``; None if there is none. ``data`` must hold the whole head or all that is left.

    A line without a colon is passed over, but a version line begins the next head: this one has no end. Lines that
    begin with a blank continue the value above (RFC 2616).
    """
    version = VERSION_LINE.match(data)
    if version is None:
        return None
    end = HEAD_END.search(data, version.end() - 2)
    stop = end.start() if end else len(data)
    items: list[tuple[bytes, list[bytes]]] = []
    for line in data[version.end() : stop].split(b"\n"):
        name, colon, value = line.partition(b":")
        if line[:1] in (b" ", b"\t"):
            if items:
                items[-1][1].append(line)
        elif colon:
            if name.strip():
                items.append((name, [value]))
        elif VERSION_LINE.fullmatch(line + b"\n"):
            return None
    if not items:
        return None
    headers = header_map((name, lines[0] if len(lines) == 1 else unfolded(lines)) for name, lines in items)
    length = content_length(headers)
    dated = "warc-record-id" in headers or "warc-date" in headers
    return Head(
        record_type(headers),
        headers,
        length,
        end.end() if end else len(data),
        closed=end is not None,
        lf=version.group().endswith(b"\n") and not version.group().endswith(b"\r\n"),
        known=length is not None and "warc-type" in headers and dated,
    )


class Heads(ABC):
    """How the heads of one kind of archive look.

    candidates: a head's first line, at a line's start. closers: blank lines that end a record, the first of them for
    heads of any kind, the others for heads whose lines end with LF.
    """

    candidates: re.Pattern[bytes]
    closers: tuple[bytes, ...]

    @abstractmethod
    def parse(self, data: bytes) -> Head | None:
        """The head at the start of ``data``, or None."""

    @abstractmethod
    def complete(self, data: bytes) -> bool:
        """Whether ``data`` holds the head to its end, or certainly begins with none."""

    @abstractmethod
    def starts(self, data: bytes) -> bool:
        """Whether a head begins here, as far as its first line tells."""


class WarcHeads(Heads):
    """WARC: a version line, then names and values up to a blank line."""

    candidates = re.compile(rb"(?<=\n)WARC/\d+\.\d+\r?\n", re.IGNORECASE)
    closers = (b"\r\n\r\n", b"\n\n")

    def parse(self, data: bytes) -> Head | None:
        """The head up to its blank line."""
        return parse_warc_head(data)

    def complete(self, data: bytes) -> bool:
        """Whether the blank line is there."""
        return not self.starts(data[:32]) or HEAD_END.search(data) is not None

    def starts(self, data: bytes) -> bool:
        """Whether a version line begins here."""
        return VERSION_LINE.match(data) is not None


WARC = WarcHeads()
