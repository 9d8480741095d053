"""The HTTP response head inside a record, read as tolerantly as browsers read it.

``parse_response`` finds the head, its status and its fields; ``content_type`` takes a Content-Type apart. Status lines
such as ``HTTP/2 200``, heads with bare line feeds, folded lines and names in any case are all common in archives.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

# A head ends at the first empty line. Some servers forget it: a line that begins a page ends the head too.
_END = re.compile(rb"\n(?:\r*\n|(?=<(?:!doctype|!--|\?xml|html|head|body|title|meta)\b))", re.IGNORECASE)
# "HTTP/" or, from servers that forget the version, "HTTP 200"; Chrome reads both. Blanks before it are slop.
_BEGIN = re.compile(rb"[\0\s]{0,64}HTTP(?:/|[ \t]+\d{3}\b)", re.IGNORECASE)
_STATUS = re.compile(rb"[\0\s]*HTTP(?:/[\d.]*)?[ \t]+(\d{3})(?!\d)", re.IGNORECASE)
_FOLD = re.compile(r"\r{0,4}\n[ \t]+")  # unbounded, a run of CRs would cost its square

_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}"
_ESSENCE = re.compile(rf"(?:\s*content-type\s*:)?[\s\"']*({_NAME})\s*/\s*({_NAME})", re.IGNORECASE)
_PARAMETER = re.compile(
    r"""[;,\s]++|([^=;,\s"]++)\s*+(?:=\s*+("(?:\\.|[^"\\])*+"?|'[^']*+'|[^;,\s]*+))?|.""", re.DOTALL
)
_SEGMENT = re.compile(r'(?:"(?:\\.|[^"\\])*+"?|[^",])++')
_MAX_VALUE = 4096  # characters of a Content-Type that are looked at


@dataclass(frozen=True, slots=True)
class HttpHead:
    """A parsed head.

    status: the three digits as written, 100 to 999 (RFC 9110 ends at 599, but 999 is in use); None where they cannot
        be read: never guessed.
    headers: names in lower case; values of a repeated name joined by ", ", as RFC 9110 5.3 and Fetch's "get" have it;
        those of X-Robots-Tag by a line feed, for each line may name a crawler of its own.
    body_at: offset of the body in the block.
    """

    status: int | None
    headers: Mapping[str, str]
    body_at: int


def parse_response(block: bytes, max_head: int) -> HttpHead | None:
    """The head of an HTTP response; None if the block does not begin as one (dns: records, garbage).

    A block without an empty line in its first ``max_head`` bytes is all head, however long it is: the response has a
    status, the fields of those bytes, and no body, as in browsers, which show nothing of it; what lies behind them is
    more of the head, and no text. Interim responses (1xx) before the last one are passed over, as RFC 9110 15.2 asks of
    clients.
    """
    start = 0
    while _BEGIN.match(block, start):
        end = _END.search(block, start, start + max_head)
        head_ends, body_at = (end.start(), end.end()) if end else (min(len(block), start + max_head), len(block))
        found = _STATUS.match(block, start, head_ends)
        status = int(found[1]) if found else None
        if status is not None and status < 100:
            status = None
        if status is not None and status < 200 and status != 101 and end and _BEGIN.match(block, body_at):
            start = body_at
            continue
        return HttpHead(status, _fields(block[start:head_ends].decode("latin-1")), body_at)
    return None


def _fields(head: str) -> dict[str, str]:
    if "\n " in head or "\n\t" in head:
        head = _FOLD.sub(" ", head)
    fields: dict[str, str] = {}
    repeated: dict[str, list[str]] = {}
    for line in head.split("\n")[1:]:
        name, colon, value = line.partition(":")
        if colon:
            name, value = name.strip().lower(), value.strip(" \t\r\0")
            if name in fields:
                repeated.setdefault(name, [fields[name]]).append(value)
            else:
                fields[name] = value
    for name, values in repeated.items():
        fields[name] = ("\n" if name == "x-robots-tag" else ", ").join(values)
    return fields


def content_type(value: str | None) -> tuple[str | None, str | None]:
    """A Content-Type's essence (``type/subtype``, lower case) and its charset as written, each None if absent.

    Of several values the last valid one counts, and it inherits the charset of those before it that had the same
    essence: Fetch's "extract a MIME type", which is what browsers do with a repeated header. Of a repeated parameter
    the first counts. Beyond the standard, blanks around ``=``, single quotes and a missing ``;`` are put up with.
    """
    return _content_type(value[:_MAX_VALUE]) if value else (None, None)


@lru_cache(maxsize=4096)
def _content_type(value: str) -> tuple[str | None, str | None]:
    essence = charset = None
    for segment in _SEGMENT.findall(value):
        found = _ESSENCE.match(segment)
        if not found or found[1] == found[2] == "*":
            continue
        now = f"{found[1]}/{found[2]}".lower()
        own = _charset_parameter(segment[found.end() :])
        charset = own or (charset if now == essence else None)
        essence = now
    return essence, charset


def _charset_parameter(parameters: str) -> str | None:
    for found in _PARAMETER.finditer(parameters):
        if found[1] and found[1].strip("'").lower() == "charset" and found[2]:
            written = found[2].strip("\"'").replace("\\", "").strip()
            return written[:64] or None
    return None
