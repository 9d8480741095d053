"""From framed records to rows: HTTP parsed, codings undone, the columns of a document filled; then its text decoded."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any
from urllib.parse import quote_from_bytes

import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.io import charset as charsets
from cleanpipe.io.content_coding import TOO_LARGE, undo
from cleanpipe.io.http import content_type, parse_response
from cleanpipe.io.record import Damage, RawRecord, ReadLimits
from cleanpipe.io.sniff import media_type, sniff
from cleanpipe.wide import joined, parts, replaced

DOCUMENT_TYPES = frozenset({"response", "resource", "conversion"})
DAMAGED_RANGE = "damaged_range"
REPLACEMENT_ENCODING = "replacement_encoding"
RESOURCE_LIMIT = "resource_limit"  # of one that a guard set aside (engine/attempts.py), or that alone found no memory


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record or range that goes to quarantine: fate ``quarantined``, stage ``read``. Fields are named as the columns.

    reason: damaged_range, bad_content_encoding or too_large. error: the class of a damage, else the reason again.
    bytes_in: 0, for no body came out. record_type: None for a damaged range.
    """

    doc_id: bytes
    source: str
    record_offset: int
    record_length: int
    offset_kind: str
    reason: str
    error: str
    message: str
    record_id: str | None = None
    refers_to: str | None = None
    record_type: str | None = None
    date: int | None = None  # seconds since 1970, UTC
    url: str | None = None
    http_status: int | None = None
    payload_type: str | None = None
    truncated: str | None = None
    bytes_in: int = 0


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """Rows in file order, and what failed among them."""

    batch: pa.RecordBatch
    failed: list[FailedRecord]


def doc_id(source: str, offset: int, record_id: str | None) -> bytes:
    """First 16 bytes of SHA-256 over source, NUL, the offset in decimal, NUL, record id ("" if none), in UTF-8."""
    return hashlib.sha256(f"{source}\0{offset}\0{record_id or ''}".encode("utf-8", "surrogatepass")).digest()[:16]


@dataclass
class DocumentBatches:
    """Turns records into batches of READ_COLUMNS.

    notes: what was put up with, by name (``encoding_lie``, ``not_chunked``, …): whole numbers that add over files.
    """

    notes: Counter[str] = field(default_factory=Counter)

    def rows(
        self,
        records: Iterable[RawRecord | Damage],
        source: str,
        limits: ReadLimits,
        *,
        max_rows: int = 1000,
        max_bytes: int = 8 << 20,
        before: Callable[[bytes], tuple[str, str] | None] | None = None,
    ) -> Iterator[ReadBatch]:
        """Batches of at most ``max_rows`` rows that end once ``max_bytes`` of bodies and strings are in them.

        Documents are responses, resources and conversions; other records have no row. Bad data never raises.

        before: called with a document's id before its body is touched; an error and a message set it aside untouched,
        with reason ``resource_limit``.
        """
        rows: list[tuple[Any, ...]] = []
        failed: list[FailedRecord] = []
        size = 0
        for record in records:
            if isinstance(record, Damage):
                failed.append(_damaged(record, source))
            elif record.type in DOCUMENT_TYPES:
                made = self._row(record, source, limits, before)
                if isinstance(made, FailedRecord):
                    failed.append(made)
                else:
                    rows.append(made)
                    size += len(made[-1]) + len(made[_URL_AT] or "") + 512
            if len(rows) >= max_rows or size >= max_bytes or len(failed) >= max_rows:
                yield ReadBatch(_batch(rows), failed)
                rows, failed, size = [], [], 0
        if rows or failed:
            yield ReadBatch(_batch(rows), failed)

    def _row(
        self,
        record: RawRecord,
        source: str,
        limits: ReadLimits,
        before: Callable[[bytes], tuple[str, str] | None] | None,
    ) -> tuple[Any, ...] | FailedRecord:
        get = record.headers.get
        record_id, kind = _safe(get("warc-record-id")), record.type
        identity = doc_id(source, record.offset, record_id)
        refers_to, date, url = _safe(get("warc-refers-to")), _seconds(get("warc-date")), _url(get("warc-target-uri"))
        identified = content_type(get("warc-identified-payload-type"))[0]
        truncated = _safe(get("warc-truncated"))
        status = is_http = declared = label = None
        rights: Sequence[str | None] = _NO_RIGHTS
        error, message = None, ""
        body: bytes | memoryview = record.block
        refused = before(identity) if before is not None else None
        if refused is not None:
            return FailedRecord(
                identity, source, record.offset, record.length, record.offset_kind, RESOURCE_LIMIT, *refused,
                record_id, refers_to, kind, date, url, None, identified, truncated,
            )  # fmt: skip
        if kind == "response":
            head = parse_response(record.block, limits.max_head)
            is_http = head is not None
            if head is not None:
                status, http = head.status, head.headers.get
                declared, label = content_type(http("content-type"))
                rights = _rights(head.headers)
                coded = http("transfer-encoding") or http("content-encoding")
                if record.oversize or (not coded and len(body) - head.body_at <= limits.max_body):
                    body = memoryview(record.block)[head.body_at :]  # copied once, into the batch
                else:
                    undone = undo(
                        record.block[head.body_at :],
                        http("transfer-encoding"),
                        http("content-encoding"),
                        limits,
                        truncated=truncated is not None,
                    )
                    body, error, message = undone.body, undone.error, undone.message
                    if undone.note:
                        self.notes[undone.note] += 1
        elif kind == "resource":
            declared, label = content_type(get("content-type"))
        if record.oversize or len(body) > limits.max_body:
            error, message = TOO_LARGE, f"a body of more than {limits.max_body} bytes"
        if error:
            return FailedRecord(
                identity, source, record.offset, record.length, record.offset_kind, error, error, message,
                record_id, refers_to, kind, date, url, status, identified, truncated,
            )  # fmt: skip
        if kind == "conversion":
            sniffed = known = None  # the type of the page that the text came from is not in the record
        else:
            sniffed = sniff(body)
            known = media_type(declared, identified, sniffed)
        return (
            identity, source, record.offset, record.length, record.offset_kind, record_id, refers_to, kind, date, url,
            status, is_http, declared, label, identified, sniffed, known, truncated, *rights, len(body), body,
        )  # fmt: skip


_RIGHTS = ("x-robots-tag", "tdm-reservation", "tdm-policy", "link")  # in the order of their columns
_NO_RIGHTS = (None,) * len(_RIGHTS)
_MAX_RIGHTS = 4096  # characters of such a header that are kept


def _rights(headers: Mapping[str, str]) -> Sequence[str | None]:
    """What a head says of the use of its page, as sent; of Link only what may name a licence."""
    if headers.keys().isdisjoint(_RIGHTS):
        return _NO_RIGHTS
    robots, reservation, policy, link = map(headers.get, _RIGHTS)
    if link and "licen" not in link.lower():
        link = None
    if robots:  # lines stay lines, and no word is cut in two
        kept = robots if len(robots) <= _MAX_RIGHTS else robots[:_MAX_RIGHTS].rpartition(",")[0]
        robots = "\n".join(filter(None, map(_safe, kept.split("\n"))))
    rest = (_safe(value[:_MAX_RIGHTS]) if value else None for value in (reservation, policy, link))
    return robots or None, *rest


_URL_AT = list(col.READ_COLUMNS).index(col.URL)


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns: Iterable[Any] = zip(*rows, strict=True) if rows else [()] * len(col.READ_COLUMNS)
    return pa.RecordBatch.from_arrays(
        [
            joined(values) if name == col.BODY else pa.array(values, kind)
            for values, (name, kind) in zip(columns, col.READ_COLUMNS.items(), strict=True)
        ],
        names=list(col.READ_COLUMNS),
    )


def _damaged(damage: Damage, source: str) -> FailedRecord:
    return FailedRecord(
        doc_id(source, damage.offset, None), source, damage.offset, damage.length, damage.offset_kind,
        DAMAGED_RANGE, damage.error, damage.message,
    )  # fmt: skip


# --- values out of heads --------------------------------------------------------------------------------------------

_UNSAFE = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff]")


def _safe(value: str | None) -> str | None:
    """A head's value without what no Arrow string or terminal should hold; None for an empty one."""
    if not value:
        return None
    if value.isascii() and value.isprintable():
        return value
    return _UNSAFE.sub("\ufffd", value).strip() or None


def _url(value: str | None) -> str | None:
    """The URI without blanks and brackets around it; control characters and stray bytes percent-encoded."""
    if not value:
        return None
    if value[0] == "<" or value[0] <= " " or value[-1] <= " ":
        value = value.strip().removeprefix("<").removesuffix(">").strip()
    if not (value.isascii() and value.isprintable()):
        value = _UNSAFE.sub(lambda found: _percent(found[0]), value)
    return value or None


def _percent(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte that was no UTF-8, as "surrogateescape" keeps it
        return f"%{ord(character) - 0xDC00:02X}"
    return quote_from_bytes(character.encode("utf-8", "replace") if character < "\ud800" else "\ufffd".encode())


_DATE = re.compile(
    r"(\d{4})(?:-?(\d\d)(?:-?(\d\d)(?:[T ]?(\d\d):?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?)?)?)?"
    r"\s*(?:Z|UTC|GMT|([+-])(\d\d):?(\d\d)?)?",
    re.IGNORECASE | re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=256)  # records of one second follow one another
def _seconds(value: str | None) -> int | None:
    """Seconds since 1970 of an ISO 8601 date (whole or down to the year) or of ARC's 14 digits; without a zone UTC.

    None where there is no such date, or its year is outside 1970 to 2261: no capture is older, and later ones do not
    fit the nanosecond times of other programs.
    """
    found = _DATE.fullmatch(value.strip()) if value else None
    if not found:
        return None
    year, month, day, hour, minute, second = (int(part) if part else None for part in found.groups()[:6])
    zone = UTC
    if found[7]:
        offset = timedelta(hours=int(found[8]), minutes=int(found[9] or 0))
        if offset >= timedelta(days=1):
            return None
        zone = timezone(-offset if found[7] == "-" else offset)
    try:  # a leap second is the second before it
        when = datetime(year or 0, month or 1, day or 1, hour or 0, minute or 0, min(second or 0, 59), tzinfo=zone)
    except ValueError:
        return None
    if (second or 0) > 60 or not 1970 <= when.year < 2262:
        return None
    return int((when - _EPOCH).total_seconds())


# --- text -----------------------------------------------------------------------------------------------------------


_NOTHING = memoryview(b"")


def decode_batch(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
    """The batch with ``DECODED_COLUMNS``; and one reason or null per row, None if all stay.

    Rows in a replacement encoding have no markup and the reason ``replacement_encoding``. NUL characters stay.
    Bodies of sound UTF-8 are taken as they lie, without a copy where all of a batch are.
    """
    data, ends = parts(batch.column(col.BODY))
    there = batch.column(col.BODY).is_valid().to_pylist()
    labels = batch.column(col.DECLARED_CHARSET).to_pylist()
    types = batch.column(col.MEDIA_TYPE).to_pylist()
    named: list[str] = []
    sources: list[str] = []
    lengths: list[int | None] = []
    others: list[bytes | None] = []  # texts that are not their bodies, in UTF-8
    for valid, a, b, label, kind in zip(there, ends[:-1].tolist(), ends[1:].tolist(), labels, types, strict=True):
        charset, source, text = found = charsets.read_view(
            data[a:b] if valid else _NOTHING, label, kind in col.HTML_TYPES
        )
        named.append(charset)
        sources.append(source)
        lengths.append(None if text is None else len(text))
        sound = valid and isinstance(found, charsets.Sound)
        others.append(None if sound else b"" if text is None else text.encode())
    markup = replaced(batch.column(col.BODY), others).view(pa.large_string())
    if None in lengths:
        markup = pc.if_else(pa.array([n is not None for n in lengths]), markup, None)
    out = col.with_columns(
        batch,
        {
            col.CHARSET: pa.array(named, col.DECODED_COLUMNS[col.CHARSET]),
            col.CHARSET_SOURCE: pa.array(sources, col.DECODED_COLUMNS[col.CHARSET_SOURCE]),
            col.MARKUP: markup,
            col.MARKUP_LENGTH: pa.array(lengths, pa.int64()),
        },
    )
    if charsets.REPLACEMENT not in named:
        return out, None
    drops = [REPLACEMENT_ENCODING if name == charsets.REPLACEMENT else None for name in named]
    return out, pa.array(drops, pa.string())
