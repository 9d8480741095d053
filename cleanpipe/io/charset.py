"""Which charset a body is in, and its text.

Order: BOM, HTTP, a declaration in the first 1,024 bytes (meta, then the XML line), strict UTF-8, a later meta, the
detector. Labels, quirks and the reading of declarations follow the WHATWG standards (Encoding; HTML, "determining the
character encoding"), so that a page reads as it does in a browser.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from io import StringIO
from typing import NamedTuple

from cleanpipe.io.charset_labels import AMENDED, CODECS, DETECTED, NAME_OF, SINGLE_BYTE
from cleanpipe.io.sniff import looks_utf16

BOM, HTTP, META, XML, UTF8, DETECTOR, DEFAULT = "bom", "http", "meta", "xml", "utf8", "detector", "default"
REPLACEMENT = "replacement"
PRESCAN = 1024  # bytes
MENDED = 1 << 19  # errors in a body that are mended one by one; the rest of one with more is no text in that charset
LATE_META = 1 << 20  # bytes; a declaration behind them is not looked for
NEARLY = 2  # sound multi-byte sequences for each broken one make a damaged page UTF-8; legacy pages reach 0.4


class Reading(NamedTuple):
    """A charset's WHATWG name in lower case, who named it, and the text where deciding made it already."""

    charset: str
    source: str
    text: str | None = None


def decide(body: bytes, http_charset: str | None, is_html: bool) -> tuple[str, str]:
    """The charset of ``body`` and the source that named it.

    http_charset: the label as written, if any. is_html: whether meta and the XML line may speak. The charset is a name
    of the Encoding standard in lower case ("replacement": not to be decoded), or utf-32le, utf-32be, ibm855, johab. The
    source is one of bom, http, meta, xml, utf8, detector, default.
    """
    return _read(body, http_charset, is_html)[:2]


def read(body: bytes, http_charset: str | None, is_html: bool) -> Reading:
    """As ``decide``, with the text: what ``decode`` gives, found in one go. None for "replacement"."""
    charset, source, text = _read(body, http_charset, is_html)
    if text is None and charset != REPLACEMENT:
        text = decode(body, charset)
    return Reading(charset, source, text)


def _read(body: bytes, http_charset: str | None, is_html: bool) -> Reading:
    marked = _bom(body)
    if marked:
        return Reading(marked, BOM)
    head = body[:PRESCAN]
    if http_charset:
        named = encoding(http_charset)
        # UTF-16 markup is full of NULs: without one the label is wrong, and the page would be lost.
        if named and not (is_html and named in ("utf-16le", "utf-16be") and head and b"\0" not in head):
            return Reading(named, HTTP)
    wide = looks_utf16(head)
    if wide:
        return Reading(wide, XML if head.replace(b"\0", b"").startswith(b"<?x") else DETECTOR)
    if is_html:
        declared = prescan(head)
        if declared:
            return Reading(*declared)
    return _undeclared(body, is_html)


def _undeclared(body: bytes, is_html: bool) -> Reading:
    plain = body.isascii()
    if not plain:
        text = _as_utf8(body)
        if text is not None:
            return Reading("utf-8", UTF8, text)
    late = late_meta(body) if is_html else None
    if late:
        return Reading(late, META)
    if plain and b"\x1b$" not in body:  # the escapes of ISO-2022-JP and -KR are ASCII
        return Reading("utf-8", UTF8, body.decode("ascii"))
    found = _detect(body)
    if found:
        return Reading(found, DETECTOR)
    return Reading("utf-8", UTF8) if plain else Reading("windows-1252", DEFAULT)


@lru_cache(maxsize=4096)
def encoding(label: str) -> str | None:
    """The standard's "get an encoding": blanks around the label and its case do not count; None if there is none."""
    return NAME_OF.get(label.strip("\t\n\x0c\r ").lower()) if label.isascii() else None


def _bom(body: bytes) -> str | None:
    start = body[:4]
    if start.startswith(b"\xef\xbb\xbf"):
        return "utf-8"
    if start.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        # Browsers know no UTF-32; but a UTF-16 page that begins with NUL is none, and this one can be read.
        if start == b"\xff\xfe\0\0":
            return "utf-32le"
        return {0xFF: "utf-16le", 0xFE: "utf-16be", 0: "utf-32be"}[start[0]]
    return None


_ABOVE_ASCII = bytes(range(0x80, 0x100))


def _as_utf8(body: bytes) -> str | None:
    """The text if the body is UTF-8 throughout, or but for local damage or a cut last character; else None."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        cut = error.reason == "unexpected end of data"
    text = body.decode("utf-8", "replace")
    marks = text.count("\ufffd")
    broken = marks - body.count(b"\xef\xbf\xbd") - cut
    sound = len(text) - len(body.translate(None, _ABOVE_ASCII)) - marks
    return text if sound and sound >= NEARLY * broken else None


def _detect(body: bytes) -> str | None:
    from resiliparse.parse.encoding import detect_encoding

    said = detect_encoding(body, html5_compatible=False)
    name = said.lower() if said else ""
    found = DETECTED.get(name) or NAME_OF.get(name) or NAME_OF.get(name.replace("_", "-"))
    if found == "utf-8" or name == "ascii":
        return None
    # On a few accents the detector names any charset of the family: where they read the same, it is the common one.
    return "windows-1252" if found in SINGLE_BYTE and _reads_as_western(body, found) else found


def _reads_as_western(body: bytes, charset: str) -> bool:
    theirs, western = _table(charset), _table("windows-1252")
    return all(theirs[b] == western[b] for b in set(body) if b >= 0x80)


# --- declarations in the page ---------------------------------------------------------------------------------------

_BLANK = rb"\t\n\x0c\r "
_TAG = re.compile(rb"<(?:(!--)|(meta)(?=[" + _BLANK + rb"/])|(/?[a-z])|([!/?]))", re.IGNORECASE)
_TAG_NAME_ENDS = re.compile(rb"[" + _BLANK + rb">]")
_ATTRIBUTE = re.compile(
    rb"[" + _BLANK + rb"/]*(?:>|(?P<name>=?[^" + _BLANK + rb"/>=]*)(?P<end>[" + _BLANK + rb"]*=[" + _BLANK + rb"]*)?)"
)
_VALUE = re.compile(
    rb"\"([^\"]*)\"|'([^']*)'|([^" + _BLANK + rb">\"'][^" + _BLANK + rb">]*)(?=[" + _BLANK + rb">])|(?=>)"
)
_IN_CONTENT = re.compile(
    rb"charset[" + _BLANK + rb"]*=[" + _BLANK + rb"]*"
    rb"(?:\"([^\"]*)\"|'([^']*)'|([^\"'" + _BLANK + rb";][^" + _BLANK + rb";]*))?",
    re.IGNORECASE,
)
_XML_LINE = re.compile(rb"\s*<\?xml\s[^>]*?\bencoding\s*=\s*(?:\"([^\"<>\s]+)\"|'([^'<>\s]+)')")
_LATE = re.compile(
    rb"<!--.*?(?:-->|\Z)|<(script|style|textarea|title|noscript|xmp)\b.*?(?:</\1|\Z)|(<meta)(?=[" + _BLANK + rb"/])",
    re.IGNORECASE | re.DOTALL,
)


def prescan(head: bytes) -> tuple[str, str] | None:
    """What the first bytes declare, as (charset, "meta" or "xml"): the standard's prescan; a meta goes before XML."""
    if b"charset" in head.lower():
        position = 0
        while found := _TAG.search(head, position):
            position = found.end()
            if found[1]:
                position = head.find(b"-->", found.start() + 2) + 3
                if position < 3:
                    break
            elif found[2]:
                declared, position = _meta(head, position)
                if declared:
                    return declared, META
            elif found[3]:
                name = _TAG_NAME_ENDS.search(head, position)
                if not name:
                    break
                position = name.start()
                while (attribute := _next_attribute(head, position)) and attribute[0]:
                    position = attribute[2]
                if not attribute:
                    break
                position = attribute[2]
            else:
                position = head.find(b">", position) + 1
                if not position:
                    break
    xml = _XML_LINE.match(head)
    named = encoding((xml[1] or xml[2]).decode("latin-1")) if xml else None
    return (_as_declared(named), XML) if named else None


def late_meta(body: bytes) -> str | None:
    """The first declaration by a meta anywhere in the first MiB, comments and raw text elements passed over."""
    if not re.search(rb"charset", body[PRESCAN:LATE_META], re.IGNORECASE):
        return None
    head, position = body[:LATE_META], 0
    while found := _LATE.search(head, position):
        position = found.end()
        if found[2]:
            declared, position = _meta(head, position)
            if declared:
                return declared
    return None


def _next_attribute(head: bytes, position: int) -> tuple[bytes, bytes, int] | None:
    """Name and value in lower case and where they end; an empty name at the tag's end; None if the bytes end first."""
    found = _ATTRIBUTE.match(head, position)
    assert found is not None  # it fits the empty string
    name, at = found["name"], found.end()
    if name is None:
        return b"", b"", at
    if at >= len(head) and not found["end"]:
        return None
    if not found["end"]:
        return name.lower(), b"", at
    value = _VALUE.match(head, at)
    if not value:
        return None
    return name.lower(), (value[1] or value[2] or value[3] or b"").lower(), value.end()


def _meta(head: bytes, position: int) -> tuple[str | None, int]:
    """The charset that the meta tag with attributes from ``position`` on declares, if any, and where the tag ends."""
    seen: dict[bytes, bytes] = {}
    while True:
        attribute = _next_attribute(head, position)
        if attribute is None:
            return None, len(head)
        name, value, position = attribute
        if not name:
            break
        seen.setdefault(name, value)
    if b"charset" in seen:
        named = encoding(seen[b"charset"].decode("latin-1"))
    elif seen.get(b"http-equiv") == b"content-type":
        named = _from_content(seen.get(b"content", b""))
    else:
        named = None
    return (_as_declared(named) if named else None), position


def _from_content(content: bytes) -> str | None:
    found = _IN_CONTENT.search(content)
    if not found:
        return None
    written = found[1] or found[2] or found[3]
    return encoding(written.decode("latin-1")) if written else None


def _as_declared(named: str) -> str:
    """A declaration that can be read as ASCII is not UTF-16; x-user-defined is what pages called windows-1252."""
    return {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "windows-1252"}.get(named, named)


# --- decoding -------------------------------------------------------------------------------------------------------

_NOT_ASCII_BASED = frozenset({"utf-16le", "utf-16be", "utf-32le", "utf-32be", "iso-2022-jp"})
_MULTI_BYTE = frozenset({"gbk", "gb18030", "big5", "euc-kr", "shift_jis", "johab"}) | _NOT_ASCII_BASED - {"iso-2022-jp"}


def decode(body: bytes, charset: str) -> str:
    """The text of ``body`` as browsers read that charset: never fails, U+FFFD for what cannot be read, no BOM, no lone
    surrogates. ``charset`` is a name that ``decide`` gives; "replacement" has the empty text.
    """
    if charset == "utf-8":
        text = body.decode("utf-8", "replace")
    elif charset not in _NOT_ASCII_BASED and body.isascii():
        return "" if charset == REPLACEMENT else body.decode("ascii")
    elif charset in _MULTI_BYTE:
        euro = charset.startswith("gb") and b"\x80" in body
        text = body.decode(CODECS[charset], "cleanpipe.gbk" if euro else "replace")
    elif charset == "euc-jp":
        text = _euc_jp(body)
    elif charset == "iso-2022-jp":
        text = _iso_2022_jp(body)
    elif charset == REPLACEMENT:
        return ""
    else:
        return codecs.charmap_decode(body, "replace", _table(charset))[0]
    return text.removeprefix("\ufeff")


@lru_cache(maxsize=64)
def _table(charset: str) -> str:
    """The 256 characters of a single-byte charset. Where a codec leaves a byte below 0xA0 open, browsers read C1."""
    if charset == "x-user-defined":
        return "".join(chr(b if b < 0x80 else 0xF700 + b) for b in range(256))
    characters = [bytes([b]).decode(CODECS[charset], "replace") for b in range(256)]
    for b in range(0x80, 0xA0):
        if characters[b] == "\ufffd":
            characters[b] = chr(b)
    for b, character in AMENDED.get(charset, {}).items():
        characters[b] = character
    return "".join(characters)


def _spent(error: UnicodeDecodeError) -> bool:
    """Counts an error; one decoding reports all of its errors with one exception object."""
    state = vars(error)
    state["count"] = state.get("count", 0) + 1
    return bool(state["count"] > MENDED)


def _rest(error: UnicodeDecodeError, codec: str) -> tuple[str, int]:
    return error.object[error.start :].decode(codec, "replace"), len(error.object)


def _gbk_error(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    if _spent(error):
        return _rest(error, "gb18030")
    return (
        "€" if error.object[error.start] == 0x80 else "\ufffd"
    ), error.end  # 0x80: as windows-936 and browsers have it


def _euc_jp_error(error: UnicodeError) -> tuple[str, int]:
    """Rows 13 and 89 to 92 (NEC, IBM) are in the browsers' table, not in Python's: read as windows-31J."""
    assert isinstance(error, UnicodeDecodeError)
    if _spent(error):
        return _rest(error, "euc_jp")
    pair = error.object[error.start : error.start + 2]
    if len(pair) == 2 and min(pair) >= 0xA1 and max(pair) <= 0xFE:
        row, cell = pair[0] - 0xA0, pair[1] - 0xA0
        lead = (row - 1) // 2 + (0x81 if row <= 62 else 0xC1)
        trail = cell + 0x9E if row % 2 == 0 else cell + (0x3F if cell < 0x40 else 0x40)
        character = bytes([lead, trail]).decode("cp932", "replace") if lead <= 0xFC else "\ufffd"
        return character if len(character) == 1 else "\ufffd", error.start + 2
    return "\ufffd", error.end


codecs.register_error("cleanpipe.gbk", _gbk_error)
codecs.register_error("cleanpipe.euc-jp", _euc_jp_error)

# JIS X 0208 characters that the browsers' table and Python's euc_jp map differently
_JIS_TWINS = tuple(zip("〜‖−¢£¬—", "～∥－￠￡￢―", strict=True))
_ESCAPE = re.compile(rb"\x1b(\([BJI]|\$[@B])")
_TO_EUC = bytes(b | 0x80 if 0x21 <= b <= 0x7E else b for b in range(256))
_ROMAN = str.maketrans("\\~", "¥‾")


def _euc_jp(body: bytes) -> str:
    text = body.decode("euc_jp", "cleanpipe.euc-jp")
    for theirs, ours in _JIS_TWINS:
        text = text.replace(theirs, ours)
    return text


def _iso_2022_jp(body: bytes) -> str:
    out = StringIO()
    mode, position, broken = b"(B", 0, 0
    while position < len(body):
        if broken > MENDED:
            out.write(body[position:].decode("ascii", "replace"))
            break
        escape = _ESCAPE.search(body, position)
        piece = body[position : escape.start() if escape else len(body)]
        if mode[:1] == b"$":
            text = _euc_jp(piece.translate(_TO_EUC))
            broken += "\ufffd" in text
            out.write(text)
        elif mode == b"(I":
            out.write(piece.translate(_TO_EUC).decode("cp932", "replace"))
        else:
            plain = piece.decode("ascii", "replace")
            out.write(plain.translate(_ROMAN) if mode == b"(J" else plain)
        if not escape:
            break
        mode, position = escape[1], escape.end()
    return out.getvalue()
