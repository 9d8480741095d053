"""Undoes Transfer-Encoding and Content-Encoding, within limits, believing neither.

Archives lie: crawlers store bodies decoded and leave the header, or declare chunks that are not there. So a coding is
undone only where the bytes bear it out, and bytes that are plain stay as they are. What begins right and breaks is an
error, unless the record says that it was cut (WARC-Truncated): then what came out is kept.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import brotli
import zstandard

from cleanpipe.io.record import MIB, ReadLimits
from cleanpipe.io.sniff import OCTETS, sniff

BAD_CODING, TOO_LARGE = "bad_content_encoding", "too_large"
# what Decoded.note may say
LIE, NOT_CHUNKED, UNKNOWN = "encoding_lie", "not_chunked", "unknown_coding"
CUT, NO_TRAILER, TRAILING = "cut", "no_trailer", "trailing_bytes"

MAX_CODINGS = 5  # as curl; more is an attack
MAX_MEMBERS = 4096  # gzip members or zstd frames of one body; more is an attack
_SLICE = 1024  # bytes of input at a time where a decoder cannot bound its output: at most 32 MiB more (zstd)
_PART = 1 << 16  # the same for zlib, which copies what is left of it for each member


@dataclass(frozen=True, slots=True)
class Decoded:
    """A body with its codings undone.

    body: empty where there is an error. note: what was put up with (the constants above), else None.
    error: "bad_content_encoding", "too_large" or None. message: the error for a person.
    """

    body: bytes
    note: str | None = None
    error: str | None = None
    message: str = ""


class _BrokenError(Exception):
    """The stream breaks; ``out`` came before. At the very start: these bytes were never in that coding."""

    def __init__(self, message: str, out: bytes = b"", *, begun: bool) -> None:
        super().__init__(message)
        self.out, self.begun = out, begun


class _TooLargeError(Exception):
    pass


def undo(
    body: bytes,
    transfer_encoding: str | None,
    content_encoding: str | None,
    limits: ReadLimits,
    *,
    truncated: bool = False,
) -> Decoded:
    """The body with all codings undone, the last one applied first; see the module for what is believed.

    transfer_encoding, content_encoding: header values, lists included. truncated: the record has WARC-Truncated.
    Decoders stop at ``min(max_body, max(1 MiB, expansion * stored bytes))``, so memory stays bounded.
    """
    note: str | None = None
    codings = _codings(content_encoding) + _codings(transfer_encoding)
    if codings:
        if len(codings) > MAX_CODINGS:
            return Decoded(b"", error=BAD_CODING, message=f"{len(codings)} codings, at most {MAX_CODINGS} are undone")
        ceiling = min(limits.max_body, max(MIB, limits.expansion * len(body)))
        for coding in reversed(codings):
            if not body:
                break
            undone = _undo_one(body, coding, ceiling, truncated)
            if undone.error:
                return undone
            body, note = undone.body, note or undone.note
    if len(body) > limits.max_body:
        return Decoded(b"", note, TOO_LARGE, f"body of {len(body)} bytes, at most {limits.max_body}")
    return Decoded(body, note)


def _codings(header: str | None) -> list[str]:
    if not header:
        return []
    names = (part.partition(";")[0].strip(" \t\"'").lower() for part in header.split(","))
    return [name for name in names if name not in ("", "identity", "none", "utf-8")]


def _undo_one(body: bytes, coding: str, ceiling: int, truncated: bool) -> Decoded:
    if coding == "chunked":
        return _unchunk(body, truncated)
    decoder = _DECODERS.get(coding)
    if not decoder:
        return Decoded(body, UNKNOWN)
    try:
        out, note = decoder(body, ceiling)
        return Decoded(out, note)
    except _TooLargeError:
        return Decoded(b"", error=TOO_LARGE, message=f"{coding}: {len(body)} bytes become more than {ceiling}")
    except _BrokenError as broken:
        if not broken.begun and sniff(body) != OCTETS:
            return Decoded(body, LIE)
        if truncated and broken.out:
            return Decoded(broken.out, CUT)
        return Decoded(b"", error=BAD_CODING, message=f"{coding}: {broken}")


# --- chunks ---------------------------------------------------------------------------------------------------------

_CHUNK_SIZE = re.compile(rb"(?:\r?\n)*[ \t]*([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\r\n]{0,4096})?\r?\n")
_CHUNK_END = re.compile(rb"\r?\n")
_CUT_SIZE = re.compile(rb"[\r\n]*+[ \t]*+[0-9A-Fa-f]{0,16}+[ \t]*+\r?")  # possessive: runs of blanks side by side


def _unchunk(body: bytes, truncated: bool) -> Decoded:
    """De-chunked if the body parses as chunks. A missing end (no last chunk, or the last one cut short) loses nothing
    that the archive has: it is kept, as browsers show it. Trailers and what follows the last chunk are not the body.
    """
    out: list[bytes] = []
    position = 0
    while size := _CHUNK_SIZE.match(body, position):
        length, start = int(size[1], 16), size.end()
        if length == 0:
            return Decoded(b"".join(out))
        out.append(body[start : start + length])
        if start + length >= len(body):
            return Decoded(b"".join(out), CUT)
        ended = _CHUNK_END.match(body, start + length)
        if not ended:
            if len(out) == 1:
                return Decoded(body, NOT_CHUNKED)
            break
        position = ended.end()
    if not out:
        return Decoded(body, NOT_CHUNKED)
    if truncated or _CUT_SIZE.fullmatch(body, position):
        return Decoded(b"".join(out), CUT)
    return Decoded(b"", error=BAD_CODING, message=f"chunked: no whole chunk at byte {position}")


# --- compressions ---------------------------------------------------------------------------------------------------


def _inflate(body: bytes, ceiling: int, window: int) -> tuple[bytes, str | None]:
    """All members of a zlib-family stream; ``window`` as in zlib (31 gzip, 15 zlib, -15 raw)."""
    out: list[bytes] = []
    room, position = ceiling, 0
    for _ in range(MAX_MEMBERS):
        stream = zlib.decompressobj(window)
        whole, start, left = len(out), position, room  # as the member begins
        while not stream.eof and position < len(body):
            try:
                piece = stream.decompress(body[position : position + _PART], room + 1)
            except zlib.error as error:
                salvaged = _salvage(zlib.decompressobj(window).decompress, zlib.error, body[start:], left)
                begun = bool(whole or salvaged or window == 31)
                raise _BrokenError(str(error), b"".join([*out[:whole], salvaged]), begun=begun) from None
            room -= len(piece)
            if room < 0:
                raise _TooLargeError
            out.append(piece)
            position = min(position + _PART, len(body)) - len(stream.unused_data)
        if not stream.eof:
            if window == 31 and _only_trailer_missing(stream):
                return b"".join(out), NO_TRAILER
            salvaged = b"".join(out)
            raise _BrokenError("the stream ends early", salvaged, begun=bool(salvaged or window == 31))
        if window != 31 or not body.startswith(b"\x1f\x8b", position):
            return b"".join(out), TRAILING if body[position:].strip(b"\0") else None
    raise _BrokenError(f"more than {MAX_MEMBERS} members", b"".join(out), begun=True)


def _only_trailer_missing(stream: zlib._Decompress) -> bool:
    """Whether all data came and only the checksum is lost.

    Then eight bytes of any kind fail as a checksum. Where data is missing, zeros or ones go on as data: the code that
    ends a block is not both.
    """
    for filler in (b"\0" * 8, b"\xff" * 8):
        try:
            stream.copy().decompress(filler, 1)
        except zlib.error as error:
            if "data check" not in str(error) and "length check" not in str(error):
                return False
        else:
            return False
    return True


def _salvage(feed: Callable[[bytes], bytes], failure: type[Exception], body: bytes, ceiling: int) -> bytes:
    """What a decoder gives before it fails, to within one slice of input."""
    out: list[bytes] = []
    size = 0
    for start in range(0, len(body), 64):
        try:
            out.append(feed(body[start : start + 64]))
        except failure:
            break
        size += len(out[-1])
        if size > ceiling:
            raise _TooLargeError
    return b"".join(out)


def _gzip(body: bytes, ceiling: int) -> tuple[bytes, str | None]:
    if not body.startswith(b"\x1f\x8b"):
        if body.startswith(_ZSTD_MAGIC):
            return _zstd(body, ceiling)
        raise _BrokenError("no gzip magic", begun=False)
    return _inflate(body, ceiling, 31)


def _deflate(body: bytes, ceiling: int) -> tuple[bytes, str | None]:
    """RFC 9110 means the zlib wrapping, many servers sent raw deflate; browsers read both."""
    if body.startswith(b"\x1f\x8b"):
        return _inflate(body, ceiling, 31)
    if body[0] & 0x0F == 8 and int.from_bytes(body[:2]) % 31 == 0:
        try:
            return _inflate(body, ceiling, 15)
        except _BrokenError as wrapped:
            try:
                return _inflate(body, ceiling, -15)
            except _BrokenError:
                raise wrapped from None
    return _inflate(body, ceiling, -15)


def _brotli(body: bytes, ceiling: int) -> tuple[bytes, str | None]:
    stream = brotli.Decompressor()
    out: list[bytes] = []
    room = ceiling
    feed = body
    try:
        while not stream.is_finished():
            piece = stream.process(feed, output_buffer_limit=min(room + 1, 8 * MIB))
            room -= len(piece)
            if room < 0:
                raise _TooLargeError
            out.append(piece)
            feed = b""
            if not piece and stream.can_accept_more_data():
                break
    except brotli.error as error:
        salvaged = _salvage(brotli.Decompressor().process, brotli.error, body, ceiling)
        raise _BrokenError(str(error), salvaged, begun=bool(salvaged) and sniff(body) == OCTETS) from None
    whole = b"".join(out)
    if not stream.is_finished():
        raise _BrokenError("the stream ends early", whole, begun=bool(whole) and sniff(body) == OCTETS)
    return whole, None


_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")


def _zstd(body: bytes, ceiling: int) -> tuple[bytes, str | None]:
    if not body.startswith(_ZSTD_MAGIC) and not _ZSTD_SKIPPABLE.match(body):
        raise _BrokenError("no zstd magic", begun=False)
    context = zstandard.ZstdDecompressor(max_window_size=1 << max(23, ceiling.bit_length()))
    out: list[bytes] = []
    room, position = ceiling, 0
    for _ in range(MAX_MEMBERS):
        stream = context.decompressobj()
        while not stream.eof and position < len(body):
            try:
                piece = stream.decompress(body[position : position + _SLICE])
            except zstandard.ZstdError as error:
                raise _BrokenError(str(error), b"".join(out), begun=True) from None
            position = min(position + _SLICE, len(body)) - len(stream.unused_data)
            room -= len(piece)
            if room < 0:
                raise _TooLargeError
            out.append(piece)
        if not stream.eof:
            raise _BrokenError("the stream ends early", b"".join(out), begun=True)
        rest = body[position : position + 4]
        if rest != _ZSTD_MAGIC and not _ZSTD_SKIPPABLE.match(rest):
            return b"".join(out), TRAILING if body[position:].strip(b"\0") else None
    raise _BrokenError(f"more than {MAX_MEMBERS} frames", b"".join(out), begun=True)


_DECODERS: dict[str, Callable[[bytes, int], tuple[bytes, str | None]]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "x-deflate": _deflate,
    "br": _brotli,
    "brotli": _brotli,
    "zstd": _zstd,
    "x-zstd": _zstd,
}
