"""Heads of ARC 1.0 and 1.1 records: one line of blank-separated fields, told apart from its right end."""

from __future__ import annotations

import re
from datetime import datetime

from cleanpipe.io.heads import BLANK, Head, Heads, content_length

# URL IP date type [code checksum location offset filename] length; the URL may hold blanks, the type too
# every repetition is bounded and the first address and date stand, or a page's long line would cost its square
_FIELDS = re.compile(
    rb"(?>(?P<url>[A-Za-z][A-Za-z0-9+.\-]{0,31}:[^\r\n]{0,8192}?)[ \t]{1,4}"
    rb"(?P<ip>\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]{1,41}|-)[ \t]{1,4}"
    rb"(?P<date>\d{4,20}|-)[ \t]{1,4})(?P<type>\S[^\r\n]{0,4096}?)[ \t]{1,4}(?P<length>-?\w{1,20})[ \t]{0,4}\r?\n"
)
_SECOND = re.compile(rb"(?P<type>\S+) (?P<code>\d{3}|-) (?P<sum>\S+) (?P<location>.*) (?P<offset>-?\d+) (?P<file>\S+)")
_MAX_LINE = 1 << 16


def _date(digits: str) -> str:
    """The 14 digits as an ISO date; other strings as they are, a wrong date is the reader's to judge."""
    try:
        return datetime.strptime(digits, "%Y%m%d%H%M%S").strftime("%Y-%m-%dT%H:%M:%SZ") if len(digits) == 14 else digits  # noqa: DTZ007
    except ValueError:
        return digits


def _text(raw: bytes) -> str:
    return raw.strip(BLANK).decode("utf-8", "replace")


def parse_arc_head(data: bytes) -> Head | None:
    """The ARC head at the start of ``data``, its fields under their WARC names; None if there is none."""
    line = _FIELDS.match(data)
    if line is None:
        return None
    kind = line["type"]
    if second := _SECOND.fullmatch(kind):
        kind = second["type"]
    raw = line["length"].decode("latin-1")
    length = content_length({"content-length": raw})
    url = _text(line["url"])
    headers = {
        "warc-target-uri": url.removeprefix("<").removesuffix(">"),
        "warc-date": _date(_text(line["date"])),
        "warc-ip-address": _text(line["ip"]),
        "content-type": _text(kind),
        "content-length": raw,
    }
    kind_of = "arc_header" if url.startswith("filedesc:") else "response"
    return Head(kind_of, headers, length, line.end(), lf=True, known=length is not None)


class ArcHeads(Heads):
    """ARC: one line."""

    candidates = re.compile(rb"(?<=\n)" + _FIELDS.pattern)
    closers = (b"\n",)

    def parse(self, data: bytes) -> Head | None:
        """The line as a head."""
        return parse_arc_head(data)

    def complete(self, data: bytes) -> bool:
        """Whether the line ends, or is too long for a head."""
        return b"\n" in data or len(data) > _MAX_LINE

    def starts(self, data: bytes) -> bool:
        """Whether a whole head line begins here."""
        return _FIELDS.match(data) is not None


ARC = ArcHeads()


def starts_arc(data: bytes) -> bool:
    """Whether an ARC file or record begins here; its first line, the version block's, says ``filedesc:``."""
    return data.startswith(b"filedesc:") or ARC.starts(data)
