"""What an archive reader yields: records as they lie in the file, and ranges of bytes that hold none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

OFFSET_IN_FILE, OFFSET_INFLATED = "file", "inflated"

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Sizes that decide a record's fate; never clocks.

    max_body: bytes of a body, after every encoding is undone. expansion: the largest ratio of decoded to stored bytes
    (judged only above 1 MiB of output). max_head: bytes of a WARC or HTTP head.
    """

    max_body: int = 64 * MIB
    expansion: int = 1000
    max_head: int = MIB


@dataclass(frozen=True, slots=True)
class Span:
    """The part of an archive that one unit reads: the gzip members that *begin* at begin ≤ offset < end. In a file that
    is not gzip the span with ``begin`` 0 owns everything, the others nothing.

    start: offset of the first member or gap it owns, if known; -1: the first member found at or after ``begin``. One
    that is ``end`` or more: it owns nothing. inflated: bytes that the members before ``start`` inflate to; -1: unknown,
    and then offsets of kind "inflated" count from its own first member (``ReadFacts.relative``).
    """

    begin: int
    end: int
    start: int = -1
    inflated: int = -1


@dataclass(slots=True)
class RawRecord:
    """One WARC or ARC record, framed, not interpreted. Nobody changes one; it is not frozen because that costs 1 µs.

    type: WARC-Type in lower case ("" where missing); ARC records are "response", its head "arc_header".
    headers: names in lower case; of a repeated name the first value; angle brackets and blanks stripped off the URI.
        ARC heads arrive under the WARC names (warc-target-uri, warc-date, content-type, warc-ip-address).
    block: the record block, at most ``max_body + max_head`` bytes of it. oversize: the block is longer than that.
    offset, length: bytes in the file (or the inflated stream, see offset_kind) that re-read this record.
    """

    offset: int
    length: int
    offset_kind: str
    type: str
    headers: Mapping[str, str]
    block: bytes
    oversize: bool = False


@dataclass(frozen=True, slots=True)
class Damage:
    """A range that could not be read as records; its bytes can be re-read by offset and length.

    error: a short class, one of
        "bad_gzip", "bad_zstd": a compressed member does not inflate, or bytes between members are none;
        "bad_crc": it inflates to something else than was packed; "cut": the file ends inside it;
        "no_record_head": no record begins where one must; "short_block": a record fails its own Content-Length;
        "trailing_bytes": junk behind the last record; "empty_file": nothing at all.
    """

    offset: int
    length: int
    offset_kind: str
    error: str
    message: str


@dataclass(slots=True)
class ReadFacts:
    """Totals of one file, complete when the reader is exhausted; sums add over files."""

    file_bytes: int = 0  # as the file lies
    block_bytes: int = 0  # record blocks, uncompressed
    records: dict[str, int] | None = None  # by type, documents and others
    sha256: str = ""  # of the file's bytes, or of first ≤ b < next of a span
    reader: str = ""  # the one whose records were used: "fast", "member", "warcio"
    reread: str = ""  # why the fast reader was not trusted, "" if it was
    first: int = 0  # of a span: where its first member or gap begins; -1: it owns none
    next: int = -1  # of a span: where the first member or gap begins that it does not own (the file's size at its end)
    inflated: int = 0  # bytes that its members inflate to
    relative: bool = False  # some offset counts inflated bytes from the span's own start, for lack of the true base
