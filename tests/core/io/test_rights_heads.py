"""HTTP headers about the use of a page: kept as sent, bounded, and null where there is no HTTP head to have them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cleanpipe import batch as col
from cleanpipe.io.archive import read_archive
from cleanpipe.io.documents import DocumentBatches
from cleanpipe.io.record import RawRecord, ReadLimits

COLUMNS = (col.X_ROBOTS_TAG, col.TDM_RESERVATION, col.TDM_POLICY, col.LINK_LICENCE)
Heads = list[tuple[str, str]]


def read(block: bytes, kind: str = "response") -> dict[str, Any]:
    made = next(iter(DocumentBatches().rows([RawRecord(0, 9, "file", kind, {}, block)], "a.warc.gz", ReadLimits())))
    row: dict[str, Any] = made.batch.to_pylist()[0]
    return {name: row[name] for name in COLUMNS}


def block(heads: Heads) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in heads)
    return f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n{lines}\r\n<p>x".encode()


CASES: list[tuple[str, Heads, Mapping[str, str]]] = [
    ("none", [], {}),
    ("robots", [("X-Robots-Tag", "noindex, nofollow")], {col.X_ROBOTS_TAG: "noindex, nofollow"}),
    ("any case", [("x-ROBOTS-tag", "NOINDEX")], {col.X_ROBOTS_TAG: "NOINDEX"}),
    (
        "each line may name a crawler",
        [("X-Robots-Tag", "googlebot: noindex"), ("X-Robots-Tag", "noarchive")],
        {col.X_ROBOTS_TAG: "googlebot: noindex\nnoarchive"},
    ),
    ("folded line", [("X-Robots-Tag", "noindex,\r\n nofollow")], {col.X_ROBOTS_TAG: "noindex, nofollow"}),
    ("empty", [("X-Robots-Tag", ""), ("TDM-Reservation", " ")], {}),
    ("control characters", [("TDM-Policy", "https://a.example/\x01p")], {col.TDM_POLICY: "https://a.example/\ufffdp"}),
    (
        "TDM",
        [("TDM-Reservation", "1"), ("tdm-policy", "https://a.example/p.json")],
        {col.TDM_RESERVATION: "1", col.TDM_POLICY: "https://a.example/p.json"},
    ),
    ("sent twice", [("TDM-Reservation", "0"), ("TDM-Reservation", "1")], {col.TDM_RESERVATION: "0, 1"}),
    ("licence", [("Link", "<//l.example/>; rel=license")], {col.LINK_LICENCE: "<//l.example/>; rel=license"}),
    ("other links", [("Link", "</style.css>; rel=preload")], {}),
    ("a name that ends so", [("Not-X-Robots-Tag", "noindex")], {}),
]  # fmt: skip


@pytest.mark.parametrize(("heads", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_headers_as_sent(heads: Heads, expected: Mapping[str, str]) -> None:
    assert read(block(heads)) == {**dict.fromkeys(COLUMNS), **expected}


def test_without_an_http_head_nothing_is_known() -> None:
    none = dict.fromkeys(COLUMNS)
    assert read(b"X-Robots-Tag: noindex\r\n\r\nText.", "conversion") == none
    assert read(b"<p>x", "resource") == none
    assert read(b"no HTTP at all") == none


def test_values_are_bounded_and_no_word_is_cut() -> None:
    long = read(
        block([("X-Robots-Tag", ", ".join(["noindex"] * 3000)), ("TDM-Policy", "https://a.example/" + "p" * 9000)])
    )
    assert len(long[col.X_ROBOTS_TAG]) <= 4096
    assert set(long[col.X_ROBOTS_TAG].split(", ")) == {"noindex"}
    assert len(long[col.TDM_POLICY]) == 4096


@pytest.mark.parametrize("reader", ["fast", "member", "warcio"])
def test_every_reader_gives_them(tmp_path: Path, reader: str) -> None:
    body = block([("X-Robots-Tag", "noindex"), ("X-Robots-Tag", "otherbot: none"), ("TDM-Reservation", "1")])
    head = (
        "WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:00000000-0000-4000-8000-000000000001>\r\n"
        "WARC-Date: 2024-05-17T08:00:00Z\r\nWARC-Target-URI: http://a.example/\r\n"
        f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    path = tmp_path / "a.warc"
    path.write_bytes(head.encode() + body + b"\r\n\r\n")
    records = read_archive(str(path), reader=reader, limits=ReadLimits())
    rows = [r for made in DocumentBatches().rows(records, "a.warc", ReadLimits()) for r in made.batch.to_pylist()]
    assert [(r[col.X_ROBOTS_TAG], r[col.TDM_RESERVATION]) for r in rows] == [("noindex\notherbot: none", "1")]
