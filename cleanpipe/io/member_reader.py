"""The careful reader: every gzip member and zstd frame on its own, so that a broken one costs itself alone.

Ranges tile the file: each byte belongs to one record or one damage. Empty members, skippable frames and members of
blank lines belong to the item before them, at the start of the file to the first. Where one member holds several
records, they and the gaps between them count inflated bytes (``offset_kind`` "inflated": bytes of all members from the
start of the file) and tile the inflated member in the same way; its compressed bytes are then theirs.

A gzip file can be read in spans. One ends at the first member behind its end that begins with a record head
(``kinds.begins_record``) and whose item joins nothing before it; there the next one begins, and from there every item
is what a reading of the whole file gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import zstandard

from cleanpipe.io.arc import ARC
from cleanpipe.io.bytesource import ByteSource
from cleanpipe.io.digests import block_digest_holds
from cleanpipe.io.framing import Frame, Framer
from cleanpipe.io.heads import BLANK, WARC
from cleanpipe.io.kinds import DICTIONARY, REACH, begins_record, container, first_heads, heads_of, opens, skippable
from cleanpipe.io.record import OFFSET_IN_FILE, OFFSET_INFLATED, Damage, RawRecord, ReadLimits
from cleanpipe.io.views import GZIP_MAGIC, ZSTD_MAGIC, GzipMember, MemberView, PlainView, ZstdFrame

_HOLD = 16 << 20  # bytes of a shared member's records held back until its checksum is known
_RECORD = 512  # bytes that a record takes beside its block: a member may hold millions of empty ones
_TRAILER = 8  # bytes of CRC and size behind a gzip member

Item = RawRecord | Damage


@dataclass(frozen=True, slots=True)
class _Padding:
    """Bytes that hold nothing: they join a neighbour."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class _Border:
    """A member behind the span's end, where the next one may begin. inflated: bytes of the members before it."""

    offset: int
    inflated: int


class MemberReader:
    """Items of one file from ``start`` on.

    start: offset of a member, or of a record in a plain file. inflated: bytes that the members before it inflate to.
    end: of the span that is read, in a gzip file; None: the file's.
    Once ``items`` is exhausted, ``border`` is where it stopped, and the inflated bytes before that.
    """

    def __init__(
        self, source: ByteSource, limits: ReadLimits, start: int = 0, inflated: int = 0, end: int | None = None
    ) -> None:
        self._source, self._limits = source, limits
        self._start, self._inflated, self._next, self._good = start, inflated, start, start > 0
        self._end = source.size if end is None else end
        self._kept = 0  # inflated bytes of the member at hand whose records have gone out
        self.border = _Border(source.size, inflated)
        self._kind = container(source.read_at(0, 4) if start else bytes(source.at(0)[:4]))
        if self._kind == "plain" and first_heads(bytes(source.at(0)[: 1 << 16])) is None:
            self._kind = self._hidden_container()
        self._dictionary = self._leading_dictionary() if self._kind == "zstd" else None

    def items(self) -> Iterator[Item]:
        """Records and damages in offset order, neighbouring damages joined."""
        return self._joined(self._plain() if self._kind == "plain" else self._members())

    def _joined(self, items: Iterator[Item | _Padding | _Border]) -> Iterator[Item]:
        last: Item | None = None
        lead = -1
        border: _Border | None = None
        for item in items:
            if isinstance(item, _Border):
                border = item
                if lead < 0 and isinstance(last, RawRecord):  # nothing can join it: the member need not be read
                    break
                continue
            if isinstance(item, _Padding):
                if last is not None and last.offset_kind == OFFSET_IN_FILE and last.offset + last.length == item.offset:
                    last = replace(last, length=last.length + item.length)
                elif lead < 0:
                    lead = item.offset
                continue
            led = lead >= 0 and item.offset_kind == OFFSET_IN_FILE
            joins = isinstance(last, Damage) and isinstance(item, Damage) and not led and _neighbours(last, item)
            if border is not None and not led and not joins:
                break
            border = None
            if led:
                item = replace(item, offset=lead, length=item.length + item.offset - lead)
            lead = -1
            if joins and last is not None:
                last = replace(last, length=last.length + item.length)
                continue
            if last is not None:
                yield last
            last = item
        if last is not None:
            yield last
        elif lead >= 0 and border is None:
            yield Damage(lead, self._source.size - lead, OFFSET_IN_FILE, "empty_file", "nothing but empty members")
        self.border = border or _Border(self._source.size, self._inflated)

    def _plain(self) -> Iterator[Item | _Padding]:
        source = self._source
        view = PlainView(source, self._start)
        heads = first_heads(view.peek(0, 1 << 16))
        if heads is None:
            arc = Framer(view, ARC, self._limits).search(0)
            warc = Framer(view, WARC, self._limits).search(0) if arc is not None else None
            heads = ARC if arc is not None and (warc is None or arc < warc) else WARC
        for frame in Framer(view, heads, self._limits, seen=self._start > 0).frames():
            if frame.blank:
                yield _Padding(self._start + frame.offset, frame.length)
            else:
                yield _item(frame, self._start, OFFSET_IN_FILE)

    def _members(self) -> Iterator[Item | _Padding | _Border]:
        source, at = self._source, self._start
        while at < source.size:
            own = at < self._end or not begins_record(source, at)
            if not own:
                yield _Border(at, self._inflated)
            head = self._bytes(at, 8)
            if self._kind == "zstd" and skippable(head):
                size = 8 + int.from_bytes(head[4:8], "little")
                if len(head) == 8 and at + size <= source.size:
                    yield _Padding(at, size)
                    at += size
                    continue
            if head.startswith(self._magic):
                yield from self._member(at, own=own)
                at = self._next
                continue
            stop = self._resync(at + 1)
            error = "bad_zstd" if self._kind == "zstd" else "bad_gzip"
            if stop == source.size:
                error = "cut" if self._magic.startswith(head) else "trailing_bytes" if self._good else "no_record_head"
            yield Damage(at, stop - at, OFFSET_IN_FILE, error, "no compressed member begins here")
            at = stop

    def _member(self, at: int, *, own: bool) -> Iterator[Item | _Padding]:
        view = self._open(at, self._starts_record)
        if own and self._end < self._source.size:
            view.told = self._used
        heads = first_heads(view.peek(0, 1 << 16)) or WARC
        held: list[Frame] = []
        size, released, self._kept = 0, False, 0
        for frame in Framer(view, heads, self._limits).frames():
            held.append(frame)
            size += len(frame.block) + _RECORD
            if len(held) > 1 and (released or size > _HOLD):
                for early in held[:-1]:
                    yield _item(early, self._inflated, OFFSET_INFLATED)
                self._kept = held[-1].offset
                del held[:-1]
                released = True
        end = view.end()
        self._next = view.stop
        if view.failure:
            yield from self._broken(view, held, released=released)
        elif released or len(held) > 1:
            for frame in held:
                yield _item(frame, self._inflated, OFFSET_INFLATED)
        elif not held or held[0].blank:
            yield _Padding(at, view.stop - at)
        else:
            yield _item(replace(held[0], offset=0, length=view.stop - at), at, OFFSET_IN_FILE)
        self._good = True
        self._inflated += end

    def _broken(self, view: MemberView, held: list[Frame], *, released: bool) -> Iterator[Item]:
        """What can be kept of a member that does not inflate to its end, or to something else than was packed."""
        at, stop, size = view.offset, view.stop, self._source.size
        ends = stop == size or self._valid(stop)  # it ends where it should: the sum is wrong, not the structure
        wrong_sum = view.failure == "bad_crc" and ends
        if not wrong_sum:
            self._next = self._resync(at + 1)
        where = f"{view.message} (at {stop} of the file)"
        shared = released or (len(held) > 1 and any(frame.head for frame in held))
        if not shared or (wrong_sum and not released and (at > 0 or stop < size)):
            yield Damage(at, self._next - at, OFFSET_IN_FILE, view.failure, where)
            return
        if wrong_sum:  # the file is one member: which record is wrong, only its own digest may tell
            for frame in held:
                right = frame.head is None or block_digest_holds(frame.head.headers, frame.block) is not False
                yield _item(frame if right else _lost(frame, view.failure), self._inflated, OFFSET_INFLATED)
            yield Damage(stop - _TRAILER, _TRAILER, OFFSET_IN_FILE, view.failure, where)
            return
        end = view.end()
        # the last record touches the break: after anything but a cut its last bytes may be the break's
        if held and (held[-1].head is None or view.failure != "cut"):
            held.pop()
        for frame in held:
            yield _item(frame, self._inflated, OFFSET_INFLATED)
        last = held[-1].offset + held[-1].length if held else self._kept
        yield Damage(self._inflated + last, end - last, OFFSET_INFLATED, view.failure, where)

    def _used(self, position: int) -> None:
        """A member or a gap may go on far behind the span's end: what was read of it is hashed while it is at hand."""
        if position > self._end:
            self._source.hash_until(position)

    @property
    def _magic(self) -> bytes:
        return ZSTD_MAGIC if self._kind == "zstd" else GZIP_MAGIC

    def _bytes(self, at: int, size: int) -> bytes:
        data = self._source.at(at)[:size]
        return bytes(data) if len(data) == size else self._source.read_at(at, size)

    def _resync(self, at: int) -> int:
        """The next offset at which a member begins that holds a record, or none at all; else the end of the file."""
        size = self._source.size
        while at < size:
            stop = at + len(self._source.at(at))
            found = self._source.find(self._magic, at, stop)
            if found >= 0 and self._valid(found):
                return found
            at = found + 1 if found >= 0 else stop
            self._used(at)
        return size

    def _valid(self, at: int) -> bool:
        if not self._bytes(at, 4).startswith(self._magic):
            return False
        if self._kind == "zstd":
            return opens(self._open(at, self._starts_record)) != ""
        return opens(GzipMember(self._source, at, self._starts_record, REACH)) != ""

    def _open(self, at: int, starts_record: Callable[[ByteSource, int], bool]) -> MemberView:
        if self._kind == "zstd":
            return ZstdFrame(self._source, at, starts_record, self._dictionary)
        return GzipMember(self._source, at, starts_record)

    def _starts_record(self, _source: ByteSource, at: int) -> bool:
        """Whether the member at ``at`` begins a record (and so continues none)."""
        view = self._open(at, lambda _source, _at: True)
        data = view.peek(0, 1 << 14)
        return heads_of(data) is not None or (not data.strip(BLANK) and not view.reaches(len(data)))

    def _hidden_container(self) -> str:
        """What packs a file whose first bytes tell nothing: they may be junk, or the first member's magic broken."""
        start, found = self._bytes(self._start, 4), {}
        if (kind := container(start)) != "plain":
            return kind
        for self._kind in ("gzip", "zstd"):
            self._dictionary = None
            found[self._kind] = self._resync(self._start)
        kind = min(found, key=found.__getitem__)
        return kind if found[kind] < self._source.size else "plain"

    def _leading_dictionary(self) -> zstandard.ZstdCompressionDict | None:
        """The dictionary that may lie in the first, skippable frame of a WARC-zstd file, itself compressed or not."""
        head = self._bytes(0, 8)
        if head[:4] != DICTIONARY or len(head) < 8:
            return None
        size = int.from_bytes(head[4:8], "little")
        data = self._source.read_at(8, size) if size <= self._limits.max_body else b""
        try:
            if data.startswith(ZSTD_MAGIC):
                most = self._limits.max_body
                data = zstandard.ZstdDecompressor().stream_reader(data).read(most + 1)
                data = data if len(data) <= most else b""
            return zstandard.ZstdCompressionDict(data) if data else None
        except zstandard.ZstdError:
            return None


def _lost(frame: Frame, error: str) -> Frame:
    return Frame(frame.offset, frame.length, error=error, message="the block does not give its WARC-Block-Digest")


def _neighbours(first: Damage, second: Damage) -> bool:
    return first.offset_kind == second.offset_kind and first.offset + first.length == second.offset


def _item(frame: Frame, base: int, kind: str) -> Item:
    if frame.head is None:
        return Damage(
            base + frame.offset, frame.length, kind, frame.error.replace("blank", "trailing_bytes"), frame.message
        )
    head = frame.head
    return RawRecord(
        base + frame.offset, frame.length, kind, head.type, head.headers, frame.block, oversize=frame.oversize
    )
