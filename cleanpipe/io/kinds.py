"""What lies in a file, told by its bytes: what packs it, where a gzip member begins that holds a record."""

from __future__ import annotations

from cleanpipe.io.arc import ARC, starts_arc
from cleanpipe.io.bytesource import ByteSource
from cleanpipe.io.heads import BLANK, WARC, Heads
from cleanpipe.io.views import GZIP_MAGIC, ZSTD_MAGIC, GzipMember, MemberView

DICTIONARY = b"\x5d\x2a\x4d\x18"  # the skippable zstd frame that holds one
_SKIPPABLE = frozenset(range(0x50, 0x60))
_GLANCE, _LOOK = 1 << 10, 1 << 14  # inflated bytes that tell what a member begins with
REACH = 1 << 15  # compressed bytes in which they must lie


def container(head: bytes) -> str:
    """What packs a file ("gzip", "zstd", "plain"), by its first bytes, never by its name."""
    if head.startswith(GZIP_MAGIC):
        return "gzip"
    if head.startswith(ZSTD_MAGIC) or skippable(head):
        return "zstd"
    return "plain"


def skippable(head: bytes) -> bool:
    """Whether a zstd frame begins that holds no data."""
    return len(head) >= 4 and head[0] in _SKIPPABLE and head[1:4] == DICTIONARY[1:]


def heads_of(data: bytes) -> Heads | None:
    """The kind of archive whose record begins ``data``, blank lines aside; None if none does."""
    data = data.lstrip(BLANK)
    if WARC.starts(data):
        return WARC
    return ARC if starts_arc(data) else None


def first_heads(data: bytes) -> Heads | None:
    """The same where junk may come first: the kind of the first head in ``data``."""
    if (kind := heads_of(data)) is not None:
        return kind
    first = {heads: match.start() for heads in (WARC, ARC) if (match := heads.candidates.search(data))}
    return min(first, key=first.__getitem__, default=None)


def opens(view: MemberView) -> str:
    """What a member begins with, blank lines aside: "record", "blank" (it holds nothing else), or "" for anything else.

    Little is inflated where that tells, and never more than a head may need: most of what is asked about is no member.
    """
    data = view.peek(0, _GLANCE)
    rest = data.lstrip(BLANK)
    size = _GLANCE
    if len(data) == size and (b"\n" not in rest or len(rest) < 32):  # a long line, or blank ones
        size = _LOOK
        data = view.peek(0, size)
        rest = data.lstrip(BLANK)
    if rest:
        return "record" if heads_of(rest) is not None else ""
    return "blank" if len(data) < size and not view.failure else ""


def begins_record(source: ByteSource, at: int) -> bool:
    """Whether a gzip member that begins with a record head lies at ``at``.

    Such members alone are where a span may begin: so the span before, which comes to them by reading, and the span
    itself, which looks for them, agree on what lies between.
    """
    if not GZIP_MAGIC.startswith(bytes(source.at(at)[: len(GZIP_MAGIC)])):  # fewer where a chunk ends: zlib tells
        return False
    return opens(GzipMember(source, at, lambda _source, _at: True, REACH)) == "record"


def first_member(source: ByteSource, begin: int, end: int) -> int:
    """Offset of the first such member that begins at ``begin`` ≤ offset < ``end``; -1: there is none.

    It may be a false one: an archive that lies, packed, within a record that could not be packed again.
    """
    at = begin
    while (at := source.find(GZIP_MAGIC, at, end)) >= 0:
        if begins_record(source, at):
            return at
        at += 1
    return -1
