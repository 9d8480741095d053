"""The fast path: FastWARC frames the records, and each is believed only when arithmetic proves it.

A record is believed when the next one begins exactly where its own bytes end: its head as FastWARC read it, written
out again, its Content-Length and the closing CRLFCRLF must add up to what the gzip member says it inflates to (ISIZE;
FastWARC itself checks CRC and ISIZE before it goes on), or in a plain file to the distance to the next record. So a
head that was misread, a wrong length, a second record in a member or a skipped member cannot pass. The first record
that does not pass, and always the last of the file, is read by the member reader, which goes on from there.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from fastwarc.warc import ArchiveIterator, WarcRecord

from cleanpipe.errors import CleanpipeError
from cleanpipe.io.bytesource import ByteSource
from cleanpipe.io.heads import content_length, header_map
from cleanpipe.io.record import OFFSET_IN_FILE, RawRecord, ReadLimits

_BUFFER = 1 << 18
_CLOSER = 4  # CRLFCRLF


@dataclass(frozen=True, slots=True)
class Handover:
    """Where the member reader goes on. pending: what the fast reader made of the record there, unproven.

    inflated: bytes that the members before ``offset`` inflate to. reason: "" if the file seems to end there.
    """

    offset: int
    inflated: int
    pending: RawRecord | None
    reason: str


class Stream:
    """What FastWARC reads from: the source in order, the last two pieces kept so that a trailer can be looked up."""

    def __init__(self, source: ByteSource) -> None:
        self._source, self._at = source, 0
        self._pieces: tuple[tuple[int, bytes], tuple[int, bytes]] = ((0, b""), (0, b""))
        self.error: CleanpipeError | None = None

    def read(self, size: int = -1) -> bytes:
        """The next bytes; none after an error."""
        try:
            data = self._source.read_at(self._at, size if size >= 0 else _BUFFER)
        except CleanpipeError as error:  # an exception must not cross into Rust: it would end in a panic
            self.error = error
            return b""
        self._pieces = (self._pieces[1], (self._at, data))
        self._at += len(data)
        return data

    def tell(self) -> int:
        """Offset of the next byte."""
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to an offset, as files do."""
        self._at = offset + (0, self._at, self._source.size)[whence]
        return self._at

    def close(self) -> None:
        """The source is not ours to close."""

    def before(self, offset: int, size: int) -> bytes:
        """The ``size`` bytes before ``offset``."""
        for base, data in self._pieces:
            if base <= offset - size and offset <= base + len(data):
                return data[offset - size - base : offset - base]
        return self._source.read_at(offset - size, size) if offset >= size else b""


def fast_records(source: ByteSource, limits: ReadLimits, *, compressed: bool) -> Generator[RawRecord, None, Handover]:
    """Proven records of a WARC file from its start; returns where and why it stopped."""
    stream = Stream(source)
    cap = limits.max_body + limits.max_head
    at, expected, inflated = -1, 0, 0
    headers: dict[str, str] = {}
    block, reason = b"", ""
    records = _Records(stream, limits)
    while (record := records.next()) is not None:
        begin: int = record.stream_pos
        if at >= 0:
            held = int.from_bytes(stream.before(begin, 4), "little") if compressed else begin - at
            if held != expected & 0xFFFFFFFF or begin <= at:
                reason = f"the record at {at} does not fill its {'member' if compressed else 'place'}"
                break
            yield RawRecord(at, begin - at, OFFSET_IN_FILE, headers.get("warc-type", "").lower(), headers, block)
            inflated += expected
        elif begin:
            reason = "the file does not begin with a record"
            break
        at = begin
        items = record.headers.items_bytes()
        headers = header_map(items)
        length = content_length(headers)
        if length is None or length > cap:
            reason = f"the record at {at} has no Content-Length that can be used"
            break
        block = records.block()
        if len(block) != length:
            reason = records.error or f"the block at {at} is shorter than its Content-Length"
            break
        expected = sum([len(name) + len(value) for name, value in items]) + 4 * len(items)
        expected += len(record.headers.status_line_bytes or b"") + 4 + length + _CLOSER
    if stream.error is not None:
        raise stream.error
    kind = headers.get("warc-type", "").lower()
    pending = RawRecord(at, source.size - at, OFFSET_IN_FILE, kind, headers, block) if at >= 0 else None
    return Handover(max(at, 0), inflated, pending, reason or records.error)


class _Records:
    """FastWARC's iterator; its errors, panics of its Rust core among them, become a reason to stop."""

    def __init__(self, stream: Stream, limits: ReadLimits) -> None:
        self._stream, self._max_head = stream, limits.max_head
        self._records: ArchiveIterator | None = None
        self._record: WarcRecord | None = None
        self.error = ""

    def next(self) -> WarcRecord | None:
        try:
            if self._records is None:
                self._records = ArchiveIterator(
                    self._stream, parse_http=False, max_header_len=self._max_head, buffer_size=_BUFFER
                )
            self._record = next(self._records, None)
        except BaseException as error:
            self._stop(error)
            return None
        return self._record

    def block(self) -> bytes:
        try:
            return self._record.reader.read() if self._record is not None else b""
        except BaseException as error:
            self._stop(error)
            return b""

    def _stop(self, error: BaseException) -> None:
        if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit | MemoryError):
            raise error
        self.error = f"FastWARC: {error}"
