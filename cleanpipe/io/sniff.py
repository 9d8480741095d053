"""What a body is by its first bytes, and the one table that weighs it against what was declared.

The markup and text rules follow the WHATWG MIME Sniffing standard ("identifying an unknown MIME type"), with the
numbers of binary formats that crawls meet under text types added to it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from cleanpipe.batch import HTML_TYPES

OCTETS = "application/octet-stream"
_HEAD = 1445  # bytes looked at: the standard's resource header

_ZIP, _OLE, _RIFF = "application/zip", "application/x-ole-storage", "application/x-riff"
# offset, first bytes, type; of several that fit the first counts
_MAGIC: tuple[tuple[int, bytes, str], ...] = (
    (0, b"%PDF-", "application/pdf"),
    (0, b"%!PS-Adobe-", "application/postscript"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"BM", "image/bmp"),
    (0, b"II*\0", "image/tiff"),
    (0, b"MM\0*", "image/tiff"),
    (0, b"\0\0\x01\0", "image/x-icon"),
    (0, b"\0\0\x02\0", "image/x-icon"),
    (0, b"8BPS\0", "image/vnd.adobe.photoshop"),
    (0, b"\0\0\0\x0cjP  \r\n", "image/jp2"),
    (0, b"\xff\x0a", "image/jxl"),
    (8, b"WEBPVP8", "image/webp"),
    (8, b"WAVE", "audio/wav"),
    (8, b"AVI ", "video/x-msvideo"),
    (4, b"ftypavif", "image/avif"),
    (4, b"ftyphei", "image/heic"),
    (4, b"ftyp", "video/mp4"),
    (0, b"PK\x03\x04", _ZIP),
    (0, b"PK\x05\x06", _ZIP),
    (0, b"Rar!\x1a\x07", "application/vnd.rar"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"\x1f\x8b\x08", "application/gzip"),
    (0, b"BZh", "application/x-bzip2"),
    (0, b"\xfd7zXZ\0", "application/x-xz"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"\x1f\x9d", "application/x-compress"),
    (0, b"MSCF\0\0\0\0", "application/vnd.ms-cab-compressed"),
    (257, b"ustar", "application/x-tar"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OLE),
    (0, b"{\\rtf", "application/rtf"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"OggS\0", "application/ogg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"MThd\0\0\0\x06", "audio/midi"),
    (0, b"FORM", "audio/aiff"),
    (0, b".snd", "audio/basic"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"FLV\x01", "video/x-flv"),
    (0, b"\0\0\x01\xba", "video/mpeg"),
    (0, b"\0\0\x01\xb3", "video/mpeg"),
    (0, b"\x30\x26\xb2\x75\x8e\x66\xcf\x11", "video/x-ms-asf"),
    (0, b".RMF\0", "application/vnd.rn-realmedia"),
    (4, b"moov", "video/quicktime"),
    (4, b"mdat", "video/quicktime"),
    (0, b"FWS", "application/x-shockwave-flash"),
    (0, b"CWS", "application/x-shockwave-flash"),
    (0, b"ZWS", "application/x-shockwave-flash"),
    (0, b"wOFF", "font/woff"),
    (0, b"wOF2", "font/woff2"),
    (0, b"OTTO\0", "font/otf"),
    (0, b"\0\x01\0\0", "font/ttf"),
    (0, b"ttcf\0", "font/collection"),
    (34, b"LP", "application/vnd.ms-fontobject"),
    (0, b"\x7fELF", "application/x-elf"),
    (0, b"MZ", "application/vnd.microsoft.portable-executable"),
    (0, b"\xca\xfe\xba\xbe", "application/java-vm"),
    (0, b"\0asm\x01", "application/wasm"),
    (0, b"\xcf\xfa\xed\xfe", "application/x-mach-binary"),
    (0, b"SQLite format 3\0", "application/vnd.sqlite3"),
    (0, b"!<arch>\n", "application/x-archive"),
    (0, b"\xed\xab\xee\xdb", "application/x-rpm"),
)
# Bytes that also begin honest text: the type holds only where binary control bytes stand near the start.
_WEAK = frozenset({b"BM", b"ID3", b"MZ", b"FWS", b"CWS", b"ZWS", b"BZh", b"FORM", b".snd", b"WAVE", b"AVI ", b"LP",
                   b"ftyp", b"moov", b"mdat", b"fLaC", b"wOFF", b"wOF2", b"ustar", b"\xff\x0a",
                   b"FLV\x01"})  # fmt: skip


def _by_first_byte() -> dict[int, list[tuple[bytes, str]]]:
    table: dict[int, list[tuple[bytes, str]]] = {}
    for offset, magic, kind in _MAGIC:
        if offset == 0:
            table.setdefault(magic[0], []).append((magic, kind))
    return table


_AT_START = _by_first_byte()
_INSIDE = tuple(row for row in _MAGIC if row[0])
_TAGS = (
    b"html head body title meta link script noscript style iframe frameset base center table div span font form "
    b"h1 h2 h3 h4 h5 h6 p br hr a b i em strong ul ol li dl img nav main article section header footer svg"
)
_MARKUP = re.compile(
    rb"[\t\n\x0c\r \0]*<(?:(?P<xml>\?xml[\t\n\r ?])|!doctype[\t\n\x0c\r ]+html\b|!--|(?P<svg>svg[\t\n\x0c\r />])"
    rb"|(?P<declaration>!doctype\b)|(?:" + _TAGS.replace(b" ", b"|") + rb")[\t\n\x0c\r />])",
    re.IGNORECASE,
)
_XHTML = re.compile(rb"<!doctype[\t\n\x0c\r ]+html\b|<html[\t\n\x0c\r />]", re.IGNORECASE)
_BINARY_BYTES = bytes(b for b in range(0x20) if b not in b"\t\n\x0c\r\x1b")
_BINARY = re.compile(b"[" + re.escape(_BINARY_BYTES) + b"]")


def binary_share(head: bytes) -> float:
    """Share of bytes that no text holds: the standard's "binary data bytes" (C0 less TAB, LF, FF, CR, ESC)."""
    return 1 - len(head.translate(None, _BINARY_BYTES)) / len(head) if head else 0.0


def looks_utf16(head: bytes) -> str | None:
    """The byte order of UTF-16 where every other byte is mostly NUL, as in Western text and any markup; else None."""
    half = len(head) // 2
    if half < 2 or b"\0" not in head:
        return None
    even, odd = head[: 2 * half : 2].count(0), head[1 : 2 * half : 2].count(0)
    if odd * 5 >= half * 2 and even * 20 <= half:
        return "utf-16le"
    if even * 5 >= half * 2 and odd * 20 <= half:
        return "utf-16be"
    return None


def sniff(body: bytes | memoryview) -> str | None:
    """The type by leading bytes: a format's own, text/html, application/xhtml+xml, text/xml, image/svg+xml, text/plain
    or application/octet-stream; None for an empty body. A BOM, blanks and comments before the markup are passed over.

    A stray control byte does not make text binary: below 3 % of the first 1,445 bytes it stays text/plain (bytes of
    compressed data are control bytes at 10 %).
    """
    if not body:
        return None
    head = bytes(body[:_HEAD])
    if head[0] == 0xEF and head.startswith(b"\xef\xbb\xbf"):
        head = head[3:]
    else:
        wide = (
            "utf-16le" if head.startswith(b"\xff\xfe")
            else "utf-16be" if head.startswith(b"\xfe\xff")
            else looks_utf16(head)
        )  # fmt: skip
        if wide:
            head = head.decode(wide, "replace").lstrip("\ufeff").encode("utf-8", "replace")
    found = _MARKUP.match(head)
    if found:
        return _markup_type(head, found)
    binary = binary_share(head)
    for magic, kind in _AT_START.get(head[0], ()) if head else ():
        if head.startswith(magic) and (magic not in _WEAK or binary):
            return kind
    if binary:
        for offset, magic, kind in _INSIDE:
            if head.startswith(magic, offset):
                return kind
        if binary >= 0.03 and not head.startswith(b"\x1b$)"):  # ISO-2022-KR and -CN shift with control bytes
            return OCTETS
    return "text/plain"


def _markup_type(head: bytes, found: re.Match[bytes]) -> str:
    if found["svg"]:
        return "image/svg+xml"
    if found["xml"] or found["declaration"]:
        if _XHTML.search(head):
            return "application/xhtml+xml" if found["xml"] else "text/html"
        return "image/svg+xml" if b"<svg" in head else "text/xml"
    return "text/html"


# --- declared × identified × sniffed -------------------------------------------------------------------------------

_GENERIC = frozenset({OCTETS, "binary/octet-stream", "unknown/unknown", "application/unknown", "application/x-unknown",
                      "application/x-unknown-content-type", "application/force-download", "application/download",
                      "application/x-download", "content/unknown", "none/none"})  # fmt: skip
_BINARY_APPLICATIONS = frozenset(kind for _, _, kind in _MAGIC if kind != "application/rtf") | {
    "application/msword", "application/x-tika-ooxml", "application/x-tika-msoffice", "application/epub+zip",
}  # fmt: skip
_BINARY_FAMILIES = ("image/", "audio/", "video/", "font/", "application/vnd.openxmlformats", "application/vnd.ms-",
                    "application/vnd.oasis.opendocument")  # fmt: skip


def kind_of(media_type: str | None) -> str:
    """absent, generic (says nothing), html, text (other types that hold characters), binary, or other."""
    if media_type is None:
        return "absent"
    if media_type in _GENERIC:
        return "generic"
    if media_type in HTML_TYPES:
        return "html"
    if media_type == "image/svg+xml":
        return "other"
    if media_type in _BINARY_APPLICATIONS or media_type.startswith(_BINARY_FAMILIES):
        return "binary"
    return "text" if media_type.startswith("text/") or media_type.endswith(("xml", "json", "javascript")) else "other"


_ANY = frozenset({"absent", "generic", "html", "text", "binary", "other"})
_CHARACTERS = frozenset({"html", "text"})
_NOTHING = frozenset({"absent", "generic"})
# declared, identified, sniffed → whose word counts. Rows are tried in order; the last always fits.
# Precedence: the declared type, unless it is absent or binary bytes contradict it (the bytes themselves before what
# another program said of them).
DECISIONS: tuple[tuple[frozenset[str], frozenset[str], frozenset[str], str], ...] = (
    (_CHARACTERS, _ANY, frozenset({"binary"}), "sniffed"),  # a PDF as text/html
    (_CHARACTERS, _ANY, frozenset({"generic"}), "sniffed"),  # bytes without a name as text/html
    (_CHARACTERS, frozenset({"binary"}), frozenset({"text"}), "identified"),  # its magic stands further on
    (_NOTHING, _ANY, frozenset({"binary", "html"}), "sniffed"),  # application/octet-stream, or nothing, on a page
    (_NOTHING, frozenset({"binary", "html"}), _ANY, "identified"),
    (frozenset({"absent"}), frozenset({"text", "other"}), _ANY, "identified"),
    (frozenset({"absent"}), _ANY, _ANY, "sniffed"),
    (_ANY, _ANY, _ANY, "declared"),  # text/plain that looks like HTML, JSON as text/html, HTML as image/png
)


@lru_cache(maxsize=8192)
def media_type(declared: str | None, identified: str | None, sniffed: str | None) -> str | None:
    """The type that the pipeline goes by: see DECISIONS. None only if nothing is known."""
    kinds = kind_of(declared), kind_of(identified), kind_of(sniffed)
    for on_declared, on_identified, on_sniffed, word in DECISIONS:
        if kinds[0] in on_declared and kinds[1] in on_identified and kinds[2] in on_sniffed:
            return {"declared": declared, "identified": identified, "sniffed": sniffed}[word]
    raise AssertionError("the last row fits everything")
