"""Types by first bytes, and the table of declared, identified and sniffed types."""

from __future__ import annotations

import gzip
import io
import sqlite3
import struct
import zipfile
import zlib
from functools import partial
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.io.sniff import DECISIONS, OCTETS, kind_of, media_type, sniff

packed = partial(gzip.compress, mtime=0)  # the clock must not get into the tests' names


def a_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("a.txt", "text")
    return out.getvalue()


HTML, XHTML, XML, TEXT = "text/html", "application/xhtml+xml", "text/xml", "text/plain"
SNIFFED = [
    (b"<!DOCTYPE html><p>x", HTML),
    (b"<!doctype HTML PUBLIC '-//W3C//DTD HTML 4.01//EN'>", HTML),
    (b" \r\n\t<HTML>", HTML),
    (b"\xef\xbb\xbf<html>", HTML),
    (b"\0\0<html>", HTML),
    (b"<!-- made by hand --><html>", HTML),
    (b"<p>x", HTML),
    (b"<div class=a>", HTML),
    (b"<meta charset=utf-8>", HTML),
    (b"<br/>", HTML),
    (b"<a href=x>", HTML),
    (b"<abbr>", TEXT),  # a longer name than the tag
    (b"<", TEXT),
    (b"<3 hearts", TEXT),
    (b"a < b", TEXT),
    (b"text <html>", TEXT),
    ("<html><p>wide".encode("utf-16-le"), HTML),
    ("<html><p>wide".encode("utf-16-be"), HTML),
    (b"\xff\xfe" + "<html><p>wide".encode("utf-16-le"), HTML),
    (b"\xfe\xff" + "Łódź nad rzeką".encode("utf-16-be"), TEXT),
    (b"<?xml version='1.0'?><rss>", XML),
    (b"<?xml version='1.0'?>\n<!DOCTYPE html PUBLIC 'x'>", XHTML),
    (b"<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>", XHTML),
    (b"<?xml version='1.0'?><svg>", "image/svg+xml"),
    (b"<svg xmlns='http://www.w3.org/2000/svg'>", "image/svg+xml"),
    (b"<?php echo 1 ?>", TEXT),
    (b'{"a": 1}', TEXT),
    ("Größe".encode("latin-1"), TEXT),
    ("古い水車".encode("cp932"), TEXT),
    ("古い水車".encode("iso2022_jp"), TEXT),
    (b"\x1b$)C\x0e\x3f\x40\x0f", TEXT),  # ISO-2022-KR
    (b"text with one \0 in a long line of words", TEXT),  # 2.5 %: a stray byte
    (b"\0\1\2\3" * 20, OCTETS),
    (b"\x03", OCTETS),
    (zlib.compress(bytes(range(256)) * 9)[2:], OCTETS),
    (b"", None),
    (b"%PDF-1.4\n", "application/pdf"),
    (b"%PDF", TEXT),
    (b"\x89PNG\r\n\x1a\n\0", "image/png"),
    (b"GIF89a", "image/gif"),
    (b"\xff\xd8\xff\xe0", "image/jpeg"),
    (b"RIFF\1\2\3\4WEBPVP8 ", "image/webp"),
    (b"BM\x36\x10\0\0\0\0", "image/bmp"),
    (b"BMW sells cars", TEXT),  # the same first bytes
    (b"MZ\x90\0\3\0\0\0", "application/vnd.microsoft.portable-executable"),
    (b"MZ is how it begins", TEXT),
    (b"ID3\x03\0\0\0", "audio/mpeg"),
    (b"ID3 tags are old", TEXT),
    (b"OggS\0\2", "application/ogg"),
    (b"\0\0\0\x20ftypisom", "video/mp4"),
    (b"\x1aE\xdf\xa3\x01", "video/webm"),
    (b"CWS\x0a\0\0", "application/x-shockwave-flash"),
    (b"wOF2\0\1\0\0", "font/woff2"),
    (b"\x7fELF\2\1\1", "application/x-elf"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "application/x-ole-storage"),
    (packed(b"x"), "application/gzip"),
    (a_zip(), "application/zip"),
    (struct.pack(">257s5s", b"name\0", b"ustar"), "application/x-tar"),
]


@pytest.mark.parametrize(("body", "kind"), SNIFFED)
def test_sniff(body: bytes, kind: str | None) -> None:
    assert sniff(body) == kind


def test_a_real_database() -> None:
    with sqlite3.connect(":memory:") as made:
        made.execute("create table t (a)")
        assert sniff(made.serialize()) == "application/vnd.sqlite3"
    made.close()


PDF, PNG, JSON = "application/pdf", "image/png", "application/json"
DECIDED = [
    # declared, identified, sniffed, result
    (HTML, None, HTML, HTML),
    (HTML, XHTML, HTML, HTML),
    (HTML, None, None, HTML),  # an empty body
    (HTML, JSON, TEXT, HTML),  # JSON as text/html stays
    (HTML, None, XML, HTML),
    (HTML, None, XHTML, HTML),
    (XHTML, HTML, HTML, XHTML),
    (HTML, None, PDF, PDF),
    (HTML, PDF, PDF, PDF),
    (HTML, HTML, PDF, PDF),  # the bytes before another program's word
    (HTML, PDF, TEXT, PDF),  # its magic stands behind some text
    (HTML, PDF, HTML, HTML),
    (HTML, "application/octet-stream", HTML, HTML),
    (HTML, None, OCTETS, OCTETS),
    (TEXT, None, OCTETS, OCTETS),
    (TEXT, HTML, HTML, TEXT),  # a browser shows the source
    (TEXT, None, PNG, PNG),
    (PNG, HTML, HTML, PNG),  # a page as an image stays dropped
    (PNG, None, "image/jpeg", PNG),
    ("text/css", None, TEXT, "text/css"),
    ("image/svg+xml", None, "image/svg+xml", "image/svg+xml"),
    (JSON, None, TEXT, JSON),
    (None, None, HTML, HTML),
    (None, None, TEXT, TEXT),
    (None, HTML, TEXT, HTML),
    (None, JSON, TEXT, JSON),
    (None, HTML, PDF, PDF),
    (None, None, None, None),
    (None, HTML, None, HTML),
    (None, OCTETS, TEXT, TEXT),
    (OCTETS, None, HTML, HTML),
    (OCTETS, HTML, TEXT, HTML),
    (OCTETS, None, TEXT, OCTETS),  # a download
    (OCTETS, None, PDF, PDF),
    ("unknown/unknown", None, HTML, HTML),
    ("application/force-download", None, TEXT, "application/force-download"),
]


@pytest.mark.parametrize(("declared", "identified", "sniffed", "result"), DECIDED)
def test_media_type(declared: str | None, identified: str | None, sniffed: str | None, result: str | None) -> None:
    assert media_type(declared, identified, sniffed) == result


KINDS = ["absent", "generic", "html", "text", "binary", "other"]


def test_every_row_of_the_table_decides_something() -> None:
    used = {
        next(i for i, row in enumerate(DECISIONS) if d in row[0] and p in row[1] and s in row[2])
        for d, p, s in product(KINDS, KINDS, KINDS)
    }
    assert used == set(range(len(DECISIONS)))


def test_kinds() -> None:
    named = {None: "absent", OCTETS: "generic", HTML: "html", TEXT: "text", "application/rss+xml": "text"}
    named |= {PNG: "binary", "application/vnd.ms-excel": "binary", "application/x-what": "other"}
    assert {t: kind_of(t) for t in named} == named


@given(st.binary(max_size=600))
def test_sniff_never_fails(body: bytes) -> None:
    assert (sniff(body) is None) == (not body)
