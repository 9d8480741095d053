"""Records into rows, and bodies into text."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.io.documents import DocumentBatches, FailedRecord, decode_batch, doc_id
from cleanpipe.io.record import Damage, RawRecord, ReadLimits
from cleanpipe.testing import batch

LIMITS = ReadLimits()
OK = b"HTTP/1.1 200 OK\r\n"
HTML = OK + b"Content-Type: text/html; charset=utf-8\r\n\r\n"


def record(block: bytes = HTML + b"<p>x", kind: str = "response", offset: int = 0, **headers: str) -> RawRecord:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return RawRecord(offset, 900, "file", kind, named, block)


def rows(records: Iterable[RawRecord | Damage], **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for made in DocumentBatches().rows(records, "a.warc.gz", LIMITS, **options):
        found += made.batch.to_pylist()
    return found


def failures(records: Iterable[RawRecord | Damage], limits: ReadLimits = LIMITS) -> list[FailedRecord]:
    return [f for made in DocumentBatches().rows(records, "a.warc.gz", limits) for f in made.failed]


def test_doc_id_is_golden() -> None:
    """Written down by hand: SHA-256 of source, NUL, decimal offset, NUL, record id, of which 16 bytes."""
    plain = b"crawl/a.warc.gz\x001234\x00<urn:uuid:1>"
    assert doc_id("crawl/a.warc.gz", 1234, "<urn:uuid:1>") == hashlib.sha256(plain).digest()[:16]
    assert doc_id("crawl/a.warc.gz", 1234, "<urn:uuid:1>").hex() == "a3c8cf6408f154c71d88c08516651506"
    assert doc_id("a.arc", 0, None).hex() == "cb267d678c76ad905630885c621d92d5"
    assert doc_id("a.arc", 0, None) == doc_id("a.arc", 0, "")
    assert doc_id("a\udcff", 0, None) != doc_id("a", 0, None)  # a file name that is no UTF-8


def test_a_response() -> None:
    block = b'HTTP/2 404\r\ncontent-type: TEXT/HTML; charset="utf8"\r\ncontent-encoding: gzip\r\n\r\n' + gzip.compress(
        b"<p>gone"
    )
    made = record(
        block,
        offset=77,
        warc_record_id="<urn:uuid:1>",
        warc_date="2020-08-03T12:34:56Z",
        warc_target_uri="http://example.org/",
        warc_identified_payload_type="text/html",
        warc_truncated="length",
        content_type="application/http; msgtype=response",
    )
    assert rows([made]) == [
        {
            col.DOC_ID: doc_id("a.warc.gz", 77, "<urn:uuid:1>"),
            col.SOURCE: "a.warc.gz",
            col.RECORD_OFFSET: 77,
            col.RECORD_LENGTH: 900,
            col.OFFSET_KIND: "file",
            col.RECORD_ID: "<urn:uuid:1>",
            col.REFERS_TO: None,
            col.RECORD_TYPE: "response",
            col.DATE: datetime(2020, 8, 3, 12, 34, 56, tzinfo=UTC),
            col.URL: "http://example.org/",
            col.HTTP_STATUS: 404,
            col.IS_HTTP: True,
            col.DECLARED_TYPE: "text/html",
            col.DECLARED_CHARSET: "utf8",
            col.PAYLOAD_TYPE: "text/html",
            col.SNIFFED_TYPE: "text/html",
            col.MEDIA_TYPE: "text/html",
            col.TRUNCATED: "length",
            col.X_ROBOTS_TAG: None,
            col.TDM_RESERVATION: None,
            col.TDM_POLICY: None,
            col.LINK_LICENCE: None,
            col.BYTES_IN: 7,
            col.BODY: b"<p>gone",
        }
    ]


def test_the_schema_is_the_contract() -> None:
    for records in ([record()], [Damage(0, 5, "file", "cut", "")]):
        (made,) = DocumentBatches().rows(records, "s", LIMITS)
        assert made.batch.schema == pa.schema(list(col.READ_COLUMNS.items()))


KINDS = [
    # record, columns that must hold
    (record(b"20080430 dns answer", content_type="text/dns"), {col.IS_HTTP: False, col.HTTP_STATUS: None}),
    (record(OK + b"\r\n"), {col.IS_HTTP: True, col.HTTP_STATUS: 200, col.BODY: b"", col.MEDIA_TYPE: None}),
    (record(HTML), {col.BODY: b"", col.BYTES_IN: 0, col.SNIFFED_TYPE: None, col.MEDIA_TYPE: "text/html"}),
    (record(b"HTTP/1.1 what\r\n\r\nx"), {col.IS_HTTP: True, col.HTTP_STATUS: None}),
    (record(OK + b"X-Crawler-Content-Encoding: gzip\r\n\r\n<p>x"), {col.BODY: b"<p>x"}),
    (record(OK + b"Content-Encoding: gzip\r\n\r\n<p>x"), {col.BODY: b"<p>x"}),
    (record(OK + b"Transfer-Encoding: chunked\r\n\r\n4\r\n<p>x\r\n0\r\n\r\n"), {col.BODY: b"<p>x"}),
    (
        record(b"<p>x", "resource", content_type="text/html; charset=gbk", warc_target_uri="file:///a"),
        {col.IS_HTTP: None, col.HTTP_STATUS: None, col.DECLARED_TYPE: "text/html", col.DECLARED_CHARSET: "gbk",
         col.MEDIA_TYPE: "text/html", col.BODY: b"<p>x"},
    ),
    (record(HTML + b"<p>x", "resource"), {col.IS_HTTP: None, col.HTTP_STATUS: None, col.DECLARED_TYPE: None}),
    (
        record("tęxt".encode(), "conversion", content_type="text/plain", warc_refers_to="<urn:uuid:9>"),
        {col.IS_HTTP: None, col.HTTP_STATUS: None, col.DECLARED_TYPE: None, col.MEDIA_TYPE: None,
         col.SNIFFED_TYPE: None, col.REFERS_TO: "<urn:uuid:9>", col.BODY: "tęxt".encode()},
    ),
    (record(HTML + b"%PDF-1.4\n"), {col.DECLARED_TYPE: "text/html", col.MEDIA_TYPE: "application/pdf"}),
]  # fmt: skip


@pytest.mark.parametrize(("made", "columns"), KINDS)
def test_kinds_of_records(made: RawRecord, columns: dict[str, Any]) -> None:
    (row,) = rows([made])
    assert {name: row[name] for name in columns} == columns


@pytest.mark.parametrize("kind", ["warcinfo", "request", "metadata", "revisit", "arc_header", "continuation", ""])
def test_other_records_have_no_row(kind: str) -> None:
    assert rows([record(kind=kind)]) == []
    assert failures([record(kind=kind)]) == []


def test_what_fails() -> None:
    bad_gzip = record(
        OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"text " * 900)[:30], warc_target_uri="http://b/"
    )
    damage = Damage(500, 40, "inflated", "bad_crc", "CRC of the member")
    (first, second) = failures([bad_gzip, record(), damage])
    assert (first.reason, first.record_type, first.url, first.http_status) == (
        "bad_content_encoding",
        "response",
        "http://b/",
        200,
    )
    assert second == FailedRecord(
        doc_id("a.warc.gz", 500, None),
        "a.warc.gz",
        500,
        40,
        "inflated",
        "damaged_range",
        "bad_crc",
        "CRC of the member",
    )
    truncated = RawRecord(0, 9, "file", "response", {"warc-truncated": "time"}, bad_gzip.block)
    assert failures([truncated]) == []


def test_too_large() -> None:
    limits = ReadLimits(max_body=100)
    assert failures([record(HTML + b"x" * 100)], limits) == []
    for made in (
        record(HTML + b"x" * 101),
        record(b"x" * 101, "resource"),
        record(b"x" * 101, "conversion"),
        record(b"x" * 101),  # not HTTP
        RawRecord(0, 9, "file", "response", {}, HTML + b"x", oversize=True),
        record(OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"x" * 101)),
    ):
        assert [f.reason for f in failures([made], limits)] == ["too_large"]


def test_batches_are_bounded_and_in_order() -> None:
    records = [record(HTML + b"x" * 1000, offset=i) for i in range(25)]
    made = list(DocumentBatches().rows(records, "s", LIMITS, max_rows=10))
    assert [m.batch.num_rows for m in made] == [10, 10, 5]
    by_bytes = list(DocumentBatches().rows(records, "s", LIMITS, max_bytes=3000))
    assert max(m.batch.num_rows for m in by_bytes) == 2
    for batches in (made, by_bytes):
        assert [o for m in batches for o in m.batch.column(col.RECORD_OFFSET).to_pylist()] == list(range(25))
    only_damage = list(
        DocumentBatches().rows([Damage(i, 1, "file", "cut", "") for i in range(7)], "s", LIMITS, max_rows=3)
    )
    assert [(m.batch.num_rows, len(m.failed)) for m in only_damage] == [(0, 3), (0, 3), (0, 1)]
    assert list(DocumentBatches().rows([], "s", LIMITS)) == []


def test_notes_are_counted() -> None:
    made = DocumentBatches()
    lies = [record(OK + b"Content-Encoding: gzip\r\n\r\n<p>x"), record(OK + b"Transfer-Encoding: chunked\r\n\r\n<p>x")]
    list(made.rows(lies * 2, "s", LIMITS))
    assert made.notes == {"encoding_lie": 2, "not_chunked": 2}


DATES = [
    ("2020-08-03T12:34:56Z", 1596458096),
    ("2020-08-03T12:34:56.789123Z", 1596458096),
    ("2020-08-03T12:34:56", 1596458096),
    ("2020-08-03 12:34:56", 1596458096),
    ("2020-08-03T14:34:56+02:00", 1596458096),
    ("2020-08-03T07:04:56-0530", 1596458096),
    ("20200803123456", 1596458096),  # ARC
    ("2020-08-03T12:34Z", 1596458040),
    ("2020-08-03", 1596412800),
    ("2020-08", 1596240000),
    ("2020", 1577836800),
    ("1970-01-01T00:00:00Z", 0),
    ("2016-12-31T23:59:60Z", 1483228799),  # a leap second
    ("5088968-01-01T00:00:00Z", None),
    ("0000-01-01T00:00:00Z", None),
    ("1969-12-31T23:59:59Z", None),
    ("2262-01-01T00:00:00Z", None),
    ("2020-13-03T12:34:56Z", None),
    ("2021-02-29T00:00:00Z", None),
    ("2020-08-03T25:00:00Z", None),
    ("2020-08-03T12:34:99Z", None),
    ("2020-08-03T12:34:56+99:00", None),
    ("Mon, 03 Aug 2020 12:34:56 GMT", None),
    ("٢٠٢٠-08-03", None),  # digits, but not of a date
    ("", None),
]


@pytest.mark.parametrize(("written", "seconds"), DATES)
def test_dates(written: str, seconds: int | None) -> None:
    (row,) = rows([record(warc_date=written)])
    assert row[col.DATE] == (None if seconds is None else datetime.fromtimestamp(seconds, UTC))


URLS = [
    ("http://example.org/a", "http://example.org/a"),
    ("<http://example.org/a>", "http://example.org/a"),
    (" http://example.org/a\t", "http://example.org/a"),
    ("http://example.org/two words", "http://example.org/two words"),
    ("http://example.org/ü", "http://example.org/ü"),
    ("http://example.org/a\x00b\nc\x7f", "http://example.org/a%00b%0Ac%7F"),
    ("http://example.org/\x85", "http://example.org/%C2%85"),
    ("http://example.org/\udce9", "http://example.org/%E9"),  # a byte that was no UTF-8
    ("http://example.org/\ud800", "http://example.org/%EF%BF%BD"),
    ("", None),
    ("<>", None),
]


@pytest.mark.parametrize(("written", "url"), URLS)
def test_urls(written: str, url: str | None) -> None:
    (row,) = rows([record(warc_target_uri=written)])
    assert row[col.URL] == url


def test_other_values_are_made_safe() -> None:
    (row,) = rows([record(warc_record_id="<urn:\ud800\x01>", warc_truncated="\udcff", warc_refers_to="")])
    assert (row[col.RECORD_ID], row[col.TRUNCATED], row[col.REFERS_TO]) == ("<urn:\ufffd\ufffd>", "\ufffd", None)


@given(
    st.sampled_from(["response", "resource", "conversion"]),
    st.sampled_from([b"", HTML, OK + b"Content-Encoding: br\r\n\r\n", b"HTTP/1.1 "]),
    st.binary(max_size=80),
    st.text(max_size=20),
)
def test_bad_records_never_raise(kind: str, start: bytes, data: bytes, value: str) -> None:
    made = record(start + data, kind, warc_record_id=value, warc_target_uri=value, warc_date=value, content_type=value)
    for part in DocumentBatches().rows([made], "s", LIMITS):
        assert part.batch.num_rows + len(part.failed) == 1
        decode_batch(part.batch)[0].validate(full=True)


def decoded(*records: RawRecord) -> tuple[list[dict[str, Any]], list[str | None] | None]:
    (made,) = DocumentBatches().rows(records, "s", LIMITS)
    batch, drops = decode_batch(made.batch)
    return batch.to_pylist(), None if drops is None else drops.to_pylist()


def test_decode_batch() -> None:
    found, drops = decoded(
        record(HTML + "<p>Łódź\0".encode()),
        record(OK + b"Content-Type: text/html\r\n\r\n<meta charset=gb2312>\xd6\xec\xe9F\xbb\xf9"),
        record(OK + b"Content-Type: text/plain\r\n\r\n<meta charset=gb2312> \xc5\x81\xc3\xb3d\xc5\xba"),
        record("Žluť <meta charset=gbk>".encode(), "conversion"),
    )
    assert drops is None
    assert [(r[col.CHARSET], r[col.CHARSET_SOURCE], r[col.MARKUP]) for r in found] == [
        ("utf-8", "http", "<p>Łódź\0"),
        ("gbk", "meta", "<meta charset=gb2312>朱镕基"),
        ("utf-8", "utf8", "<meta charset=gb2312> Łódź"),
        ("utf-8", "utf8", "Žluť <meta charset=gbk>"),
    ]


def test_replacement_encodings_are_dropped() -> None:
    found, drops = decoded(record(), record(OK + b"Content-Type: text/html; charset=hz-gb-2312\r\n\r\n<p>~{VPND~}"))
    assert drops == [None, "replacement_encoding"]
    assert (found[1][col.CHARSET], found[1][col.CHARSET_SOURCE], found[1][col.MARKUP]) == ("replacement", "http", None)


def test_decode_batch_takes_an_empty_batch() -> None:
    (made,) = DocumentBatches().rows([Damage(0, 1, "file", "cut", "")], "s", LIMITS)
    batch, drops = decode_batch(made.batch)
    assert (batch.num_rows, drops) == (0, None)
    for name, kind in col.DECODED_COLUMNS.items():
        assert batch.schema.field(name).type == kind


SOUND_OR_NOT = [
    b"",
    b"plain",
    "ärger – 日本 😀".encode(),
    b"\xef\xbb\xbfbom",
    "\ufffd genuine".encode(),
    b"cut \xe6\x97",
    b"\xff\xfe\x00",
    b"\xed\xa0\x80 surrogate",
    b"a\x00b",
]


@pytest.mark.parametrize("body", SOUND_OR_NOT)
def test_markup_is_always_sound_utf8_and_what_decoding_gives(body: bytes) -> None:
    rows = batch(body=[body, b"neighbour"], declared_charset=["utf-8", None], media_type=["text/html", None])
    out, _ = decode_batch(rows)
    out.validate(full=True)
    column = out.column(col.MARKUP)
    assert column.cast(pa.large_binary()).to_pylist()[0] == column.to_pylist()[0].encode()
    assert column.to_pylist()[0] == body.decode("utf-8-sig", "replace") or b"\xff" in body or b"\xed" in body
    assert out.column(col.MARKUP_LENGTH).to_pylist() == [len(t) for t in column.to_pylist()]
