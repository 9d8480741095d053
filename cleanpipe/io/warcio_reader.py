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
from cleanpipe.io.record import OFFSET_IN_FILE, RawRecord, ReadLimits


def warcio_records(source: ByteSource, limits: ReadLimits, *, compressed: bool) -> Generator[RawRecord, None, Handover]:
    """Proven records of a WARC file from its start; returns where and why it stopped."""
    stream = Stream(source)
    at = inflated = before = 0
    pending: RawRecord | None = None
    reason = ""
    records = ArchiveIterator(stream, no_record_parse=True)
    while True:
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
            block = record.raw_stream.read()
            with redirect_stderr(StringIO()):
                stop = at + records.get_record_length()
        except Exception as error:
            reason = f"warcio: {error}"
            break
        version = record.rec_headers.protocol.encode()
        head = b"".join([version, b"\r\n", *[b"%b: %b\r\n" % item for item in items], b"\r\n"])
        size = len(head) + len(block) + 4
        if compressed:
            sums = zlib.crc32(b"\r\n\r\n", zlib.crc32(block, zlib.crc32(head)))
            proven = stream.before(stop, 8) == sums.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(4, "little")
        else:
            stop = at + size
            proven = source.read_at(at, len(head)) == head and source.read_at(stop - 4, 4) == b"\r\n\r\n"
        if not proven or len(block) != length:
            reason = f"the record at {at} is not what its {'member' if compressed else 'place'} holds"
            break
        if pending is not None:  # the last record of the file is the member reader's
            yield pending
            inflated += before
        pending = RawRecord(at, stop - at, OFFSET_IN_FILE, record_type(headers), headers, block)
        before, at = size, stop
    if stream.error is not None:
        raise stream.error
    return Handover(pending.offset if pending else 0, inflated, pending, reason)


def _next(records: ArchiveIterator) -> tuple[Any, str]:
    try:
        with redirect_stderr(StringIO()):  # it prints its doubts; ours come as data
            return next(records, None), ""
    except Exception as error:
        return None, f"warcio: {str(error).strip().partition(chr(10))[0]}"
