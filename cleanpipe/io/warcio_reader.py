"""warcio as a reader: slower than FastWARC by more than half, and without a bound on lines or on what it inflates.

Here for those who trust it, and for comparisons, on archives they trust.

It checks no CRC and repairs in silence, so a record is believed only when its head, written out again, its block and
the closing CRLFCRLF give the checksum and size that the gzip member carries (in a plain file: the bytes that stand
there). The first that does not is left to the member reader, ARC files whole: warcio cuts their first record short.
"""

from __future__ import annotations

import zlib
from collections.abc import Generator
from contextlib import redirect_stderr
from io import StringIO
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from cleanpipe.io.bytesource import ByteSource
from cleanpipe.io.fast_reader import Handover, Stream
from cleanpipe.io.heads import content_length, header_map, record_type
from cleanpipe.io.kinds import begins_record
from cleanpipe.io.record import OFFSET_IN_FILE, RawRecord, ReadLimits

_HEADER = 1 << 10  # bytes of a gzip member in which its header ends, and what is packed begins


def warcio_records(
    source: ByteSource,
    limits: ReadLimits,
    *,
    compressed: bool,
    start: int = 0,
    inflated: int = 0,
    end: int | None = None,
) -> Generator[RawRecord, None, Handover]:
    """Proven records of a WARC file, as ``fast_records`` gives them; returns where and why it stopped."""
    stream = Stream(source, start, compressed=compressed)
    end = source.size if end is None else end
    at, before = start, 0
    pending: RawRecord | None = None
    reason = ""
    records = ArchiveIterator(stream, no_record_parse=True)
    while True:
        opening = _opening(stream.around(at, _HEADER)) if compressed else b""
        record, reason = _next(records)
        if record is None:
            break
        items = [(name.encode(), value.encode()) for name, value in record.rec_headers.headers]
        headers = header_map(items)
        length = content_length(headers)
        if record.format != "warc" or length is None or length > limits.max_body + limits.max_head:
            reason = f"the record at {at} has no Content-Length that can be used"
            break
        try:
            with redirect_stderr(StringIO()):
                block = record.raw_stream.read()
                stop = at + records.get_record_length()
        except Exception as error:
            reason = f"warcio: {error}"
            break
        version = record.rec_headers.protocol.encode()
        head = b"".join([version, b"\r\n", *[b"%b: %b\r\n" % item for item in items], b"\r\n"])
        size = len(head) + len(block) + 4
        if compressed:
            sums = zlib.crc32(b"\r\n\r\n", zlib.crc32(block, zlib.crc32(head)))
            trailer = sums.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
            # it skips members of blank lines, and counts them to the record behind them
            proven = stream.before(stop, 8) == trailer and opening != b"" and head.startswith(opening)
        else:
            stop = at + size
            proven = source.read_at(at, len(head)) == head and source.read_at(stop - 4, 4) == b"\r\n\r\n"
        if not proven or len(block) != length:
            reason = f"the record at {at} is not what its {'member' if compressed else 'place'} holds"
            break
        if pending is not None:  # the last record of the file is the member reader's
            yield pending
            inflated += before if compressed else 0
        pending = RawRecord(at, stop - at, OFFSET_IN_FILE, record_type(headers), headers, block)
        before, at = size, stop
        if end <= at < source.size and begins_record(source, at):
            yield pending
            return Handover(at, inflated + before, None, "", border=True)
    if stream.error is not None:
        raise stream.error
    return Handover(pending.offset if pending else start, inflated, pending, reason or stream.bait)


def _opening(data: bytes) -> bytes:
    """The first bytes that the gzip member inflates to of which ``data`` is the beginning."""
    try:
        return zlib.decompressobj(31).decompress(data, 16)
    except zlib.error:
        return b""


def _next(records: ArchiveIterator) -> tuple[Any, str]:
    try:
        with redirect_stderr(StringIO()):  # it prints its doubts; ours come as data
            return next(records, None), ""
    except Exception as error:
        return None, f"warcio: {str(error).strip().partition(chr(10))[0]}"
