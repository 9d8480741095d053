"""Which charset a body is in, and its text.

Order: BOM, HTTP, a declaration in the first 1,024 bytes (meta, then the XML line), strict UTF-8, a later meta, the
detector. Labels, quirks and the reading of declarations follow the WHATWG standards (Encoding; HTML, "determining the
character encoding"), so that a page reads as it does in a browser; but where a browser shows nonsense and the bytes
prove another charset, they are believed:

- a label of another charset on a body that is UTF-8 throughout, with ``PROOF`` characters beyond ASCII or more;
- the label utf-8 on a body whose bytes beyond ASCII are not built like UTF-8: what else is declared, or the detector;
- any label or byte order mark on a body whose NULs show UTF-16 of this or that byte order.

What nothing names is windows-1252, unless it is in no Latin letters: then it is "replacement", rather than nonsense.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from functools import lru_cache
from io import StringIO
from typing import NamedTuple

from cleanpipe.io.charset_declared import META, PRESCAN, XML, late_meta, prescan
from cleanpipe.io.charset_labels import AMENDED, CODECS, DETECTED, NAME_OF, SINGLE_BYTE, encoding
from cleanpipe.io.sniff import looks_utf16

BOM, HTTP, UTF8, DETECTOR, DEFAULT = "bom", "http", "utf8", "detector", "default"
REPLACEMENT = "replacement"
MENDED = 1 << 19  # errors in a body that are mended one by one; the rest of one with more is no text in that charset
PROOF = 4  # multi-byte sequences; text of another charset that holds so many and nothing else is next to impossible
NEARLY = 2  # sound multi-byte sequences for each broken one make a damaged page UTF-8; legacy pages reach 0.4


class Reading(NamedTuple):
    """A charset's WHATWG name in lower case, who named it, and the text where deciding made it already."""

    charset: str
    source: str
    text: str | None = None


class Sound(Reading):
    """One of a body that is its text's UTF-8, byte for byte."""

    __slots__ = ()


def decide(body: bytes, http_charset: str | None, is_html: bool) -> tuple[str, str]:
    """The charset of ``body`` and the source that named it.

    http_charset: the label as written, if any. is_html: whether meta and the XML line may speak. The charset is a name
    of the Encoding standard in lower case ("replacement": not to be decoded), or utf-32le, utf-32be, ibm855, johab. The
    source is one of bom, http, meta, xml, utf8, detector, default.
    """
    return _read(body, http_charset, is_html)[:2]


def read(body: bytes, http_charset: str | None, is_html: bool) -> Reading:
    """As ``decide``, with the text: what ``decode`` gives, found in one go. None for "replacement"."""
    found = _read(body, http_charset, is_html)
    if found.text is not None or found.charset == REPLACEMENT:
        return found
    return Reading(found.charset, found.source, decode(body, found.charset))


def read_view(view: memoryview, http_charset: str | None, is_html: bool) -> Reading:
    """As ``read``; where sound UTF-8 was promised, as on most pages, the bytes are not copied first."""
    head = bytes(view[:PRESCAN])
    if not (b"\0" in head or _bom(head)):
        named = encoding(http_charset) if http_charset else None
        told = (named, HTTP) if named else prescan(head) if is_html else None
        if told and told[0] == "utf-8":
            with suppress(UnicodeDecodeError):
                return Sound(*told, str(view, "utf-8"))
    return read(bytes(view), http_charset, is_html)


def _read(body: bytes, http_charset: str | None, is_html: bool) -> Reading:
    marked = _bom(body)
    if marked:
        return Reading(marked, BOM)
    head = body[:PRESCAN]
    named = encoding(http_charset) if http_charset else None
    wide = looks_utf16(head) if b"\0" in head else None
    if wide:
        source = HTTP if wide == named else XML if head.replace(b"\0", b"").startswith(b"<?x") else DETECTOR
        return Reading(wide, source)
    # UTF-16 markup is full of NULs: without one the label is wrong, and the page would be lost.
    if named and not (is_html and named in ("utf-16le", "utf-16be") and head and b"\0" not in head):
        return _tried(body, named, HTTP, is_html)
    declared = prescan(head) if is_html else None
    return _tried(body, *declared, is_html) if declared else _undeclared(body, is_html)


def _tried(body: bytes, named: str, source: str, is_html: bool) -> Reading:
    """As it is labelled, unless the bytes prove that the label is wrong."""
    if named in _WITHOUT_PROOF:
        return Reading(named, source)
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return (named == "utf-8" and _otherwise(body, source, is_html)) or Reading(named, source)
    if named == "utf-8" or text.isascii():
        return Sound(named, source, text)
    proven = len(text) - len(body.translate(None, _ABOVE_ASCII)) >= PROOF
    return Sound("utf-8", UTF8, text) if proven else Reading(named, source)


def _otherwise(body: bytes, source: str, is_html: bool) -> Reading | None:
    """What a body is that was said to be UTF-8 and is not built like it; None where nothing better is known."""
    text = body.decode("utf-8", "replace")
    high, marks = len(body) - len(body.translate(None, _ABOVE_ASCII)), text.count("\ufffd")
    broken, sound = marks - body.count(b"\xef\xbf\xbd"), len(text) - (len(body) - high) - marks
    if broken < FOREIGN or sound >= NEARLY * broken or 2 * sum(map(len, _BUILT_LIKE_UTF8.findall(body))) >= high:
        return None
    declared = prescan(body[:PRESCAN]) if is_html and source == HTTP else None
    for name, by in (*([declared] if declared else []), (_detect(body), DETECTOR)):
        if name and name not in _NOT_ASCII_BASED and name not in ("utf-8", REPLACEMENT):
            text = decode(body, name)
            if text.count("\ufffd") * 50 <= high:
                return Reading(name, by, text)
    return None


def _undeclared(body: bytes, is_html: bool) -> Reading:
    plain = body.isascii()
    if not plain:
        text, sound = _as_utf8(body)
        if text is not None:
            return (Sound if sound else Reading)("utf-8", UTF8, text)
    late = late_meta(body) if is_html else None
    if late:
        return Reading(late, META)
    if plain and b"\x1b$" not in body:  # the escapes of ISO-2022-JP and -KR are ASCII
        return Sound("utf-8", UTF8, body.decode("ascii"))
    found = _detect(body)
    nonsense = (found is None or found in _LATIN) and _is_not_latin(body)
    if found and not nonsense:
        return Reading(found, DETECTOR)
    if plain:
        return Reading("utf-8", UTF8)
    return Reading(REPLACEMENT if nonsense else "windows-1252", DEFAULT)


def _is_not_latin(body: bytes) -> bool:
    """More bytes beyond ASCII than ASCII letters, and many different ones: no language in Latin letters is written so,
    but EUC-TW, Johab and what is no text at all look so.
    """
    text = _TAG.sub(b"", body)
    high = text.translate(None, _ASCII_OR_BLANK)
    return len(high) >= LONG and len(set(high)) >= VARIED and len(high) > len(text.translate(None, _NO_ASCII_LETTER))


def _bom(body: bytes) -> str | None:
    start = body[:4]
    if start.startswith(b"\xef\xbb\xbf"):
        return "utf-8"
    if start.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")):
        # Browsers know no UTF-32; but a UTF-16 page that begins with NUL is none, and this one can be read.
        if start == b"\xff\xfe\0\0":
            return "utf-32le"
        if start[0] and (wide := looks_utf16(body[2:PRESCAN])):  # a mark of the other byte order
            return wide
        return {0xFF: "utf-16le", 0xFE: "utf-16be", 0: "utf-32be"}[start[0]]
    return None


_ABOVE_ASCII = bytes(range(0x80, 0x100))
_ASCII_OR_BLANK = bytes((*range(0x80), 0xA0))
_NO_ASCII_LETTER = bytes(b for b in range(0x100) if b >= 0x80 or not chr(b).isalpha())
_TAG = re.compile(rb"<[^<>]*>")
_LATIN = frozenset(
    {"windows-1250", "windows-1252", "windows-1254", "windows-1257", "windows-1258", "macintosh"}
    | {f"iso-8859-{n}" for n in (2, 3, 4, 10, 13, 14, 15, 16)}
)
LONG, VARIED = 64, 24  # bytes beyond ASCII, and values of them: a ruled frame has many of few
FOREIGN = 3  # broken sequences; fewer are damage
_BUILT_LIKE_UTF8 = re.compile(  # with overlong forms, surrogates and what lies beyond Unicode: bad UTF-8, but that
    rb"[\xc0-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf7][\x80-\xbf]{3}|[\xf8-\xfd][\x80-\xbf]{4,5}"
)
_WITHOUT_PROOF = frozenset({"replacement", "iso-2022-jp", "utf-16le", "utf-16be", "x-user-defined"})


def _as_utf8(body: bytes) -> tuple[str | None, bool]:
    """The text and True if the body is UTF-8 throughout; the text and False if it is so but for local damage or a cut
    last character; else None.
    """
    try:
        return body.decode("utf-8"), True
    except UnicodeDecodeError as error:
        cut = error.reason == "unexpected end of data"
    text = body.decode("utf-8", "replace")
    marks = text.count("\ufffd")
    broken = marks - body.count(b"\xef\xbf\xbd") - cut
    sound = len(text) - len(body.translate(None, _ABOVE_ASCII)) - marks
    return (text if sound and sound >= NEARLY * broken else None), False


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
    return text[1:] if text[:1] in ("\ufeff", "\ufffe") else text


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
