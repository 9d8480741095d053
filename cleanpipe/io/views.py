"""One uncompressed stream at a time, seen through a window: a plain file, a gzip member, a zstd frame.

A view is read by offset and forgets what lies before ``discard``; so the parser above needs no file in memory, and
memory is bounded by what the parser asks for, whatever a member inflates to.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable

import zstandard

from cleanpipe.io.bytesource import CHUNK, ByteSource
from cleanpipe.io.heads import BLANK

GZIP_MAGIC = b"\x1f\x8b\x08"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_STEP, _OUT = 1 << 15, 1 << 18  # compressed bytes given, inflated bytes taken at a time


class View(ABC):
    """A stream of bytes by offset. ``failure`` says why it ended before its own end ("" if it did not)."""

    failure = ""
    whole_file = False

    @abstractmethod
    def peek(self, offset: int, size: int) -> bytes:
        """``size`` bytes at ``offset``, fewer only at the end of the stream."""

    def probe(self, offset: int, size: int) -> bytes:
        """The same for a look far ahead, after which reading goes on where it was."""
        return self.peek(offset, size)

    def reaches(self, offset: int) -> bool:
        """Whether a byte lies at ``offset``. What lies before it may be forgotten."""
        return bool(self.peek(offset, 1))

    def ends_before(self, offset: int) -> bool:  # noqa: ARG002
        """Whether the stream is known to be shorter than ``offset``, every member that may continue it counted."""
        return False

    def discard(self, offset: int) -> None:  # noqa: B027  # a plain file has nothing to forget
        """Nothing before ``offset`` is asked for any more."""

    def extend(self) -> bool:
        """Goes on into the next member, if that continues a record and starts none."""
        return False

    def first(self) -> int:
        """The first offset that can still be read."""
        return 0

    def after_blank(self, offset: int) -> int:
        """Offset of the first byte at or after ``offset`` that is not blank, or the end of the stream."""
        size = 64
        while data := self.peek(offset, size):
            rest = data.lstrip(BLANK)
            offset += len(data) - len(rest)
            if rest:
                break
            self.discard(offset - 4)
            size = 1 << 16
        return offset

    def end(self) -> int:
        """The length of the stream; reads to its end."""
        offset = self.first()
        while data := self.peek(offset, _OUT):
            offset += len(data)
            self.discard(offset)
        return offset


class PlainView(View):
    """A file that is not compressed, from ``start`` on."""

    whole_file = True

    def __init__(self, source: ByteSource, start: int = 0) -> None:
        self._source, self._start = source, start

    def peek(self, offset: int, size: int) -> bytes:
        """Reads there."""
        offset += self._start
        if size >= CHUNK:
            return self._source.read_at(offset, size)
        data = self._source.at(offset)
        if len(data) < size and offset + len(data) < self._source.size:
            return self._source.read_at(offset, size)
        return bytes(data[:size])

    def probe(self, offset: int, size: int) -> bytes:
        """Reads there without moving the chunk that is held."""
        at = self._start + offset
        return self.peek(offset, size) if self._source.holds(at) else self._source.read_at(at, size)

    def ends_before(self, offset: int) -> bool:
        """The size tells."""
        return self.end() < offset

    def end(self) -> int:
        """The size of the file."""
        return self._source.size - self._start


class MemberView(View):
    """One gzip member or zstd frame, and those that continue a record begun in it.

    offset, stop: where it begins in the file and, once its end was seen, where it ends. ``failure`` is one of the
    errors of Damage: "bad_gzip", "bad_zstd", "bad_crc", "cut"; ``message`` is the inflater's own word.
    """

    def __init__(self, source: ByteSource, offset: int, starts_record: Callable[[ByteSource, int], bool]) -> None:
        self.source, self.offset, self.stop = source, offset, offset
        self.message = ""
        self._starts_record = starts_record
        self._window, self._base, self._ended = bytearray(), 0, False
        self._final = False  # ended, and no other member continues it
        self._position = offset
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Gets ready to read a member at ``self._position``."""

    @abstractmethod
    def _more(self) -> bytes:
        """The next inflated bytes; sets ``_ended`` at the end or the break, ``stop`` and ``failure`` with it."""

    def _fail(self, failure: str, message: str) -> None:
        self._ended, self.failure, self.message, self.stop = True, failure, message, self._position

    def peek(self, offset: int, size: int) -> bytes:
        """Inflates as far as that."""
        start = offset - self._base
        if start < 0:
            raise AssertionError("the view has forgotten these bytes")
        while not self._ended and len(self._window) < start + size:
            self._window += self._more()
        return bytes(memoryview(self._window)[start : start + size])

    def reaches(self, offset: int) -> bool:
        """Inflates up to there and keeps nothing before it."""
        while not self._ended and self._base + len(self._window) <= offset:
            self._base += len(self._window)
            self._window = bytearray(self._more())
        return offset < self._base + len(self._window)

    def discard(self, offset: int) -> None:
        """Drops what lies before, when that is worth moving the rest."""
        drop = min(offset - self._base, len(self._window))
        if drop == len(self._window) or drop >= _OUT:
            del self._window[:drop]
            self._base += drop

    def first(self) -> int:
        """Where the window begins."""
        return self._base

    def ends_before(self, offset: int) -> bool:
        """Known once it was read to its end."""
        return self._final and self._base + len(self._window) < offset

    def extend(self) -> bool:
        """Opens the next member where this one ended, if it begins no record."""
        if not self._ended or self._final:
            return False
        if self.failure or self.stop >= self.source.size:
            self._final = True
            return False
        if not self._continues() or self._starts_record(self.source, self.stop):
            self._final = True
            return False
        self._ended, self._position = False, self.stop
        self._begin()
        return True

    @abstractmethod
    def _continues(self) -> bool:
        """Whether another member begins at ``stop``."""


class GzipMember(MemberView):
    """A gzip member; its CRC and size are checked when its end is read."""

    def _begin(self) -> None:
        self._inflate = zlib.decompressobj(31)
        self._fed = False

    def _continues(self) -> bool:
        return bytes(self.source.at(self.stop)[:3]) == GZIP_MAGIC

    def _more(self) -> bytes:
        out = b""
        while not out and not self._ended:
            tail = self._inflate.unconsumed_tail
            data = tail or bytes(self.source.at(self._position)[:_STEP])
            if not data:
                out = self._inflate.flush()
                if not self._inflate.eof:
                    self._fail("cut", "the file ends inside a gzip member")
                return out
            before = self._inflate.copy() if self._fed else zlib.decompressobj(31)
            try:
                out = self._inflate.decompress(data, _OUT)
            except zlib.error as error:
                return self._replay(before, data, error)
            self._fed = True
            if self._inflate.eof:  # what is left may stand in unconsumed_tail as well
                self._position += len(data) - len(self._inflate.unused_data)
                self._ended, self.stop = True, self._position
            else:
                self._position += len(data) - len(self._inflate.unconsumed_tail)
        return out

    def _replay(self, before: zlib._Decompress, data: bytes, error: zlib.error) -> bytes:
        """Goes in ever smaller steps up to the break: zlib keeps back what it inflated in a call that failed."""
        out, at, step = [], 0, 1 << len(data).bit_length()
        while step and at < len(data):
            trial = before.copy()
            try:
                out.append(trial.decompress(data[at : at + step]))
                before, at = trial, at + step
            except zlib.error:
                step //= 2
        self._position += min(at, len(data))
        text = str(error)
        rest = 5 if "incorrect data check" in text else 1 if "incorrect length check" in text else 0  # of the trailer
        self._position = min(self._position + rest, self.source.size)
        self._fail("bad_crc" if rest else "bad_gzip", text.rpartition(": ")[2])
        return b"".join(out)


class ZstdFrame(MemberView):
    """A zstd frame, read block by block: a block says its size and holds at most 128 KiB."""

    def __init__(
        self,
        source: ByteSource,
        offset: int,
        starts_record: Callable[[ByteSource, int], bool],
        dictionary: zstandard.ZstdCompressionDict | None = None,
    ) -> None:
        self._dictionary = dictionary
        super().__init__(source, offset, starts_record)

    def _begin(self) -> None:
        self._inflate = zstandard.ZstdDecompressor(dict_data=self._dictionary).decompressobj()
        self._header = True

    def _continues(self) -> bool:
        return bytes(self.source.at(self.stop)[:4]) == ZSTD_MAGIC

    def _more(self) -> bytes:
        out = b""
        while not out and not self._ended:
            try:
                size = self._piece()
                data = self._take(size)
                if len(data) < size or not size:
                    self._fail("cut", "the file ends inside a zstd frame")
                    return out
                out = self._inflate.decompress(data)
            except zstandard.ZstdError as error:
                wrong_sum = "checksum" in str(error).lower()
                self._fail("bad_crc" if wrong_sum else "bad_zstd", str(error).rpartition(": ")[2])
                return out
            self._position += size
            if self._inflate.eof:
                self._ended, self.stop = True, self._position
        return out

    def _take(self, size: int) -> bytes:
        data = self.source.at(self._position)[:size]
        return bytes(data) if len(data) == size else self.source.read_at(self._position, size)

    def _piece(self) -> int:
        """Bytes of the next piece: the frame header, or a block with its header (and the checksum after the last)."""
        if self._header:
            self._header = False
            head = self._take(18)
            self._sum = zstandard.get_frame_parameters(head).has_checksum
            return zstandard.frame_header_size(head)
        word = int.from_bytes(self._take(3), "little")
        last, kind, size = word & 1, word >> 1 & 3, word >> 3
        return 3 + (1 if kind == 1 else size) + (4 if last and self._sum else 0)
