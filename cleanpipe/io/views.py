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
from cleanpipe.io.record import MIB

GZIP_MAGIC = b"\x1f\x8b\x08"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_STEP, _OUT = 1 << 15, 1 << 18  # compressed bytes given, inflated bytes taken at a time
_HEADER, _LITTLE = 1 << 12, 1 << 10  # the same where only the beginning is asked for


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

    def bound(self, expansion: int) -> None:  # noqa: B027  # a plain file inflates to nothing
        """From now on the stream breaks where it inflates to more than 1 MiB and ``expansion`` times its packed size;
        what ``exempt`` names does not count.
        """

    def exempt(self, start: int, stop: int) -> None:  # noqa: B027
        """A record says that these bytes are its own, and its size is judged elsewhere."""

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
            blank = size > 64 and not data.translate(None, BLANK)  # six times as fast as lstrip
            rest = b"" if blank else data.lstrip(BLANK)
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

    What it does is the same wherever a chunk of the source ends, or its fate would depend on who read before.
    """

    bad = ""  # the failure of one that does not inflate

    def __init__(self, source: ByteSource, offset: int, starts_record: Callable[[ByteSource, int], bool]) -> None:
        self.source, self.offset, self.stop = source, offset, offset
        self.message = ""
        self.told: Callable[[int], None] | None = None  # called with the offset up to which the file was used
        self._starts_record = starts_record
        self._window, self._base, self._ended = bytearray(), 0, False
        self._final = False  # ended, and no other member continues it
        self._expansion, self._exempt, self._exempt_until = 0, 0, 0
        self._position = offset
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Gets ready to read a member at ``self._position``."""

    @abstractmethod
    def _more(self) -> bytes:
        """The next inflated bytes; sets ``_ended`` at the end or the break, ``stop`` and ``failure`` with it."""

    def bound(self, expansion: int) -> None:
        """Counts the bytes that were read and forgotten: what is looked at ahead is bounded by who looks."""
        self._expansion = expansion

    def exempt(self, start: int, stop: int) -> None:
        """Each byte once, however often it is named."""
        self._exempt += max(stop - max(start, self._exempt_until), 0)
        self._exempt_until = max(stop, self._exempt_until)

    def _next(self) -> bytes:
        """The next bytes, unless too many came of too few."""
        ratio = self._expansion
        if ratio and self._base - self._exempt > MIB + ratio * (self._position - self.offset):
            self._fail(self.bad, f"what is no record inflates to more than {ratio} times the size")
            return b""
        return self._more()

    def _take(self, size: int) -> bytes:
        """Packed bytes at ``self._position``, fewer only at the end of the file."""
        data, at = self.source.at(self._position)[:size], self._position
        short = len(data) < size and at + len(data) < self.source.size
        return self.source.read_at(at, size) if short else bytes(data)

    def _fail(self, failure: str, message: str) -> None:
        self._ended, self.failure, self.message, self.stop = True, failure, message, self._position

    def peek(self, offset: int, size: int) -> bytes:
        """Inflates as far as that."""
        start = offset - self._base
        if start < 0:
            raise AssertionError("the view has forgotten these bytes")
        while not self._ended and len(self._window) < start + size:
            self._window += self._next()
        return bytes(memoryview(self._window)[start : start + size])

    def reaches(self, offset: int) -> bool:
        """Inflates up to there and keeps nothing before it."""
        while not self._ended and self._base + len(self._window) <= offset:
            self._base += len(self._window)
            self._window = bytearray(self._next())
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
    """A gzip member; its CRC and size are checked when its end is read.

    reach: compressed bytes after which it counts as broken, for a look at what may be no member at all; and its header
    must end in 4 KiB then, for the name in it could go on to the end of the file.
    """

    bad = "bad_gzip"

    def __init__(
        self,
        source: ByteSource,
        offset: int,
        starts_record: Callable[[ByteSource, int], bool],
        reach: int | None = None,
    ) -> None:
        self._reach = source.size if reach is None else min(offset + reach, source.size)
        self._until, self._out = (self._reach, _OUT) if reach is None else (min(offset + _HEADER, self._reach), _LITTLE)
        super().__init__(source, offset, starts_record)

    def _begin(self) -> None:
        self._inflate = zlib.decompressobj(31)
        self._fed = False

    def _continues(self) -> bool:
        return bytes(self.source.at(self.stop)[:3]) == GZIP_MAGIC

    def _more(self) -> bytes:
        out = b""
        while not out and not self._ended:
            if self.told is not None:
                self.told(self._position)
            tail = self._inflate.unconsumed_tail
            data = tail or self._take(min(_STEP, self._until - self._position))
            if not data:
                out = self._inflate.flush()
                if not self._inflate.eof:
                    self._fail("cut", "the file ends inside a gzip member")
                return out
            before = self._inflate.copy() if self._fed else zlib.decompressobj(31)
            try:
                out = self._inflate.decompress(data, self._out)
            except zlib.error as error:
                return self._replay(before, data, error)
            self._fed = True
            if out:
                self._until, self._out = self._reach, min(4 * self._out, _OUT)
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
        self._fail("bad_crc" if rest else self.bad, text.rpartition(": ")[2])
        return b"".join(out)


class ZstdFrame(MemberView):
    """A zstd frame, read block by block: a block says its size and holds at most 128 KiB."""

    bad = "bad_zstd"

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
                self._fail("bad_crc" if wrong_sum else self.bad, str(error).rpartition(": ")[2])
                return out
            self._position += size
            if self._inflate.eof:
                self._ended, self.stop = True, self._position
        return out

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
