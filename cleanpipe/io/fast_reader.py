"""The fast path: FastWARC frames the records, and each is believed only when arithmetic proves it.

A record is believed when the next one begins exactly where its own bytes end: its head as FastWARC read it, written
out again, its Content-Length and the closing CRLFCRLF must add up to what the gzip member says it inflates to (ISIZE;
FastWARC itself checks CRC and ISIZE before it goes on), or in a plain file to the distance to the next record. So a
head that was misread, a wrong length, a second record in a member or a skipped member cannot pass. The first record
that does not pass, and always the last of the file, is read by the member reader, which goes on from there. The last
of a span is proven by the head that FastWARC finds behind it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import partial

from fastwarc.warc import ArchiveIterator, WarcRecord

from cleanpipe.io.bytesource import ByteSource
from cleanpipe.io.heads import content_length, header_map, lowered, record_type
from cleanpipe.io.kinds import begins_record
from cleanpipe.io.record import OFFSET_IN_FILE, RawRecord, ReadLimits

_BUFFER = 1 << 18
_SAMPLE = 1 << 10
_VARIED = 150  # different bytes, each of which stands once at least: n log2 n bits, more than an eighth of a sample
_CLOSER = 4  # CRLFCRLF


@dataclass(frozen=True, slots=True)
class Handover:
    """Where the member reader goes on. pending: what the fast reader made of the record there, unproven.

    inflated: bytes that the members before ``offset`` inflate to. reason: "" if the file seems to end there. border: a
    record begins there, behind the end of the span: there is nothing to go on with.
    """

    offset: int
    inflated: int
    pending: RawRecord | None
    reason: str
    border: bool = False


def _repeats(data: bytes) -> bool:
    """Whether compressed bytes can be compressed once more to an eighth: what FastWARC would inflate of them in one
    call has no bound. Looked at in the middle.
    """
    middle = len(data) // 2
    sample = data[middle : middle + _SAMPLE]
    if len(sample) < _SAMPLE or len(set(sample[: _SAMPLE // 2])) >= _VARIED:
        return False
    return len(zlib.compress(sample, 1)) * 8 < _SAMPLE


class Stream:
    """What FastWARC reads from: the source in order, the last two pieces kept so that a trailer can be looked up.

    No exception may cross into Rust, where it would be lost or end in a panic: it is kept in ``error``, reading ends
    there, and who called FastWARC raises it again.
    """

    def __init__(self, source: ByteSource, start: int = 0, *, compressed: bool = False) -> None:
        self._source, self._at, self._compressed = source, start, compressed
        self.bait = ""  # why reading ended: bytes that inflate to next to nothing, a thousand times over
        self._pieces: tuple[tuple[int, bytes], tuple[int, bytes]] = ((0, b""), (0, b""))
        self.error: BaseException | None = None
        # the offset of the next byte; no Python of ours runs here, so no signal's exception can come out of it
        self.tell: Callable[[], int] = partial(getattr, self, "_at")

    def read(self, size: int = -1) -> bytes:
        """The next bytes; none after an error."""
        try:
            if self.error is not None or self.bait:
                return b""
            data = self._source.read_at(self._at, size if size >= 0 else _BUFFER)
            if self._compressed and _repeats(data):
                self.bait = f"the bytes at {self._at} repeat one another, and are bait"
                return b""
            self._pieces = ((self._at, data), self._pieces[0])
            self._at += len(data)
        except BaseException as error:  # the interrupts among them
            self.error = error
            return b""
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to an offset, as files do."""
        self._at = offset + (0, self._at, self._source.size)[whence]
        return self._at

    def close(self) -> None:
        """The source is not ours to close."""

    def before(self, offset: int, size: int) -> bytes:
        """The ``size`` bytes before ``offset``."""
        return self.around(offset - size, size) if offset >= size else b""

    def around(self, start: int, size: int) -> bytes:
        """The ``size`` bytes from ``start`` on."""
        for base, data in self._pieces:
            if base <= start and start + size <= base + len(data):
                return data[start - base : start + size - base]
        return self._source.read_at(start, size)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What the header names of a record, in their order, say; most records of a crawl share a few shapes.

    names: in lower case; None where one is repeated. size: bytes of the head without version line and values.
    """

    names: tuple[str, ...] | None
    size: int


class _Shapes(dict[tuple[bytes, ...], _Shape]):
    def __missing__(self, raw: tuple[bytes, ...]) -> _Shape:
        names = tuple(map(lowered, raw))
        size = sum(len(name) + len(": \r\n") for name in raw) + len("\r\n\r\n")
        if any(b"\n" in name for name in raw):  # FastWARC joins a line that ends with LF alone to the next
            size = -1
        shape = _Shape(names if len(set(names)) == len(names) else None, size)
        if len(self) < 4096:
            self[raw] = shape
        return shape


_SHAPES = _Shapes()


def fast_records(
    source: ByteSource,
    limits: ReadLimits,
    *,
    compressed: bool,
    start: int = 0,
    inflated: int = 0,
    end: int | None = None,
) -> Generator[RawRecord, None, Handover]:
    """Proven records of a WARC file; returns where and why it stopped.

    start: where a record begins. inflated: bytes that the members before it inflate to. end: of the span that is read:
    records that begin there or later are not its own; None: the file's.
    """
    stream = Stream(source, start, compressed=compressed)
    cap = limits.max_body + limits.max_head
    end = source.size if end is None else end
    at, expected = -1, 0
    headers: dict[str, str] = {}
    block, kind, reason = b"", "", ""
    records: Iterator[WarcRecord] = iter(())
    while True:
        try:
            if at < 0:
                records = iter(
                    ArchiveIterator(stream, parse_http=False, max_header_len=limits.max_head, buffer_size=_BUFFER)
                )
            record = next(records, None)
        except BaseException as error:
            reason = _reason(error, stream)
            break
        if record is None or stream.error is not None:
            break
        begin: int = record.stream_pos
        if at >= 0:
            held = int.from_bytes(stream.before(begin, 4), "little") if compressed else begin - at
            if held != expected & 0xFFFFFFFF or begin <= at:
                reason = f"the record at {at} does not fill its {'member' if compressed else 'place'}"
                break
            if begin >= end and not begins_record(source, begin):
                reason = f"what follows the record at {at} may be its own"
                break
            yield RawRecord(at, begin - at, OFFSET_IN_FILE, kind, headers, block)
            inflated += expected if compressed else 0
            if begin >= end:
                return Handover(begin, inflated, None, "", border=True)
        elif begin != start:
            reason = f"the {'span' if start else 'file'} does not begin with a record"
            break
        at, named = begin, record.headers
        shape = _SHAPES[named.keys_bytes()]
        if shape.names is None:
            headers = header_map(named.items_bytes())
        else:
            headers = dict(zip(shape.names, named.values(), strict=True))
            if headers.get("warc-target-uri", "")[:1] == "<":
                headers = header_map(named.items_bytes())
        length = content_length(headers)
        if length is None or length > cap:
            reason = f"the record at {at} has no Content-Length that can be used"
            break
        try:
            block = record.reader.read()
        except BaseException as error:
            reason = _reason(error, stream)
            break
        if len(block) != length:
            reason = f"the block at {at} is shorter than its Content-Length"
            break
        kind = record_type(headers)
        text = b"".join(named.values_bytes())
        if shape.size < 0 or b"\n" in text:
            reason = f"the record at {at} has a head with odd line ends"
            break
        expected = len(named.status_line_bytes or b"") + shape.size + len(text) + length + _CLOSER
    if stream.error is not None:
        raise stream.error
    pending = RawRecord(at, source.size - at, OFFSET_IN_FILE, kind, headers, block) if at >= 0 else None
    return Handover(at if at >= 0 else start, inflated, pending, reason or stream.bait)


def _reason(error: BaseException, stream: Stream) -> str:
    """Errors of FastWARC, panics of its Rust core among them, are a reason to stop; what stops a program is not."""
    if stream.error is not None:
        raise stream.error
    panic = type(error).__name__ == "PanicException"  # of pyo3, which gives it no address to import it from
    if isinstance(error, MemoryError) or not (panic or isinstance(error, Exception)):
        raise error
    return f"FastWARC: {error}"
