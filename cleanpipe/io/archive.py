"""Reading archives: WARC, WET, WAT and ARC, gzip, zstd or plain, told apart by their bytes.

for item in (reader := read_archive("crawl.warc.gz")):
    ...  # RawRecord or Damage, in offset order
reader.facts  # complete now
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import chain

from cleanpipe.errors import ConfigError, StopError
from cleanpipe.io.bytesource import ByteSource
from cleanpipe.io.fast_reader import Handover, fast_records
from cleanpipe.io.heads import WARC
from cleanpipe.io.kinds import container, first_member
from cleanpipe.io.member_reader import Item, MemberReader
from cleanpipe.io.record import OFFSET_IN_FILE, OFFSET_INFLATED, Damage, RawRecord, ReadFacts, ReadLimits, Span
from cleanpipe.io.remote import redacted
from cleanpipe.io.views import GzipMember
from cleanpipe.options import StorageOptions

READERS = ("fast", "member", "warcio")
_DEFAULT = ReadLimits()
_STORAGE = StorageOptions()


class ArchiveReader:
    """Items of one file, or of one span of it, in offset order; read once.

    ``facts`` is complete when the iteration has ended.
    """

    def __init__(
        self,
        uri: str,
        reader: str,
        limits: ReadLimits,
        progress: Callable[[int], None] | None,
        stamp: str,
        span: Span | None = None,
        storage: StorageOptions = _STORAGE,
        size: int = 0,
    ) -> None:
        self.uri, self._reader, self._limits, self._progress, self._stamp = uri, reader, limits, progress, stamp
        self._size = size
        self._span, self._storage = span, storage
        self.facts = ReadFacts(records={}, reader=reader)

    def __iter__(self) -> Iterator[Item]:
        """Opens the file.

        Raises:
            ShardError: it cannot be opened or read; whatever its bytes are, they raise nothing.
            StopError: the file is not the one that ``stamp`` and ``size`` say; or, at the end, it changed while it was
                read, so that its records fit no one state of it.
        """
        facts, counts = self.facts, dict[str, int]()
        with ByteSource(self.uri, self._progress, storage=self._storage) as source:
            if _differ(self._stamp, source.modified) or (self._size > 0 and source.size != self._size):
                raise StopError("changed since the run was planned; start a new run", source=redacted(self.uri))
            facts.first = self._first(source)
            if facts.first >= 0:
                source.hash_from(facts.first)
                for item in self._items(source):
                    if isinstance(item, RawRecord):
                        counts[item.type] = counts.get(item.type, 0) + 1
                        facts.block_bytes += int(item.headers["content-length"]) if item.oversize else len(item.block)
                    yield item
                facts.file_bytes = facts.next - facts.first
                facts.sha256 = source.finish(facts.next)
            facts.records = dict(sorted(counts.items()))
            if source.changed():
                raise StopError("changed while it was read; start the same line again", source=redacted(self.uri))

    def _first(self, source: ByteSource) -> int:
        """Where the span's first member or gap begins; -1: it owns none."""
        span = self._span
        if span is None or span.begin == 0:
            return 0
        if not _in_spans(source):
            return -1
        stop = min(span.end, source.size)
        if span.start < 0:
            return first_member(source, span.begin, stop)
        return span.start if span.start < stop else -1

    def _items(self, source: ByteSource) -> Iterator[Item]:
        facts, span = self.facts, self._span
        if not source.size:
            facts.next = 0
            yield Damage(0, 0, OFFSET_IN_FILE, "empty_file", "the file has no bytes")
            return
        end = source.size
        if span is not None and span.end < end and _in_spans(source):
            end = span.end
            source.hash_until(end)  # what is read behind it may be the next one's
        unknown = facts.first > 0 and (span is None or span.inflated < 0)
        base = 0 if unknown or span is None or not facts.first else span.inflated
        handover = Handover(facts.first, base, None, "")
        if records := self._trusted(source, handover, end):
            handover = yield from records
            if handover.border:
                facts.next, facts.inflated = handover.offset, handover.inflated - base
                return
        reader = MemberReader(source, self._limits, handover.offset, handover.inflated, end)
        rest = reader.items()
        first, second = next(rest, None), next(rest, None)
        if records is None:
            facts.reader = "member"
        elif first != handover.pending or second is not None:
            facts.reader = self._reader if handover.offset > facts.first else "member"
            facts.reread = handover.reason or f"the file does not end with the record at {handover.offset}"
        for item in chain((first, second), rest):
            if item is not None:
                facts.relative |= unknown and item.offset_kind == OFFSET_INFLATED
                yield item
        facts.next, facts.inflated = reader.border.offset, reader.border.inflated - base

    def _trusted(self, source: ByteSource, begin: Handover, end: int) -> Generator[RawRecord, None, Handover] | None:
        """The quick reader asked for, where the file is of a kind that it reads."""
        if self._reader == "member":
            return None
        at = begin.offset
        kind = container(source.read_at(0, 4) if at else bytes(source.at(0)[:4]))
        if kind == "gzip":
            start = GzipMember(source, at, lambda _source, _at: True).peek(0, 1024)
        else:
            start = bytes(source.at(0)[:1024])
        if kind == "zstd" or not WARC.starts(start):  # zstandard is no slower, and ARC has a reader of its own
            return None
        read = fast_records
        if self._reader == "warcio":
            from cleanpipe.io.warcio_reader import warcio_records as read
        return read(source, self._limits, compressed=kind == "gzip", start=at, inflated=begin.inflated, end=end)


def _in_spans(source: ByteSource) -> bool:
    """Whether a file is read in spans: a gzip file is, by its first bytes alone; another is span 0's as a whole."""
    return container(source.read_at(0, 4)) == "gzip"


def _differ(planned: str, found: str) -> bool:
    """Whether two stamps speak of different files. A server of many machines may give a tag here and a date there:
    these say nothing of one another.
    """
    comparable = planned.endswith(" GMT") == found.endswith(" GMT")
    return bool(planned and found and comparable and planned != found)


def read_archive(
    uri: str,
    *,
    reader: str = "fast",
    limits: ReadLimits = _DEFAULT,
    progress: Callable[[int], None] | None = None,
    stamp: str = "",
    span: Span | None = None,
    storage: StorageOptions = _STORAGE,
    size: int = 0,
) -> ArchiveReader:
    """An iterable of the records and damages of one archive, or of those that belong to one span of it.

    Spans that follow each other give together what the whole gives, once each begins where the one before it ended
    (``ReadFacts.next`` and ``first``). A span finds its own beginning, and is wrong about it where an archive lies
    packed within a record, or where a damage that began before it reaches into it: one whose ``first`` is not the
    ``next`` of the last span before it that owns something is read again with ``Span.start`` set to that. Damage and
    members without a record behind a span's end belong to it, up to the first member that begins with a record.

    Args:
        uri: local path or any URL that fsspec opens.
        reader: "fast" (FastWARC, each record proven), "member" (the careful one), "warcio" (proven likewise).
        limits: sizes at which a record is cut.
        progress: called with the file bytes consumed so far, at most once a MiB, and at the end.
        stamp: the ``Input.stamp`` that a local file must still have; "" for any.
        span: the part to read; None: all. Outside of it, up to ``ReadFacts.next`` and one reading ahead, nothing is
            read but the file's first bytes.
        storage: how object stores are reached.

        size: bytes that the file must still have; 0 for any.

    Raises:
        ConfigError: no such reader. ShardError and StopError come while iterating.
    """
    if reader not in READERS:
        raise ConfigError(f"no reader {reader!r}: choose one of {', '.join(READERS)}")
    return ArchiveReader(uri, reader, limits, progress, stamp, span, storage, size)


def read_one(
    uri: str,
    offset: int,
    length: int,
    offset_kind: str,
    *,
    limits: ReadLimits = _DEFAULT,
    storage: StorageOptions = _STORAGE,
) -> Item:
    """Reads one record again by what its RawRecord said, or a damaged range, which stays damaged.

    Raises:
        ShardError: the file cannot be opened or read.
    """
    with ByteSource(uri, storage=storage) as source:
        if offset_kind == OFFSET_INFLATED:
            for item in MemberReader(source, limits).items():
                if item.offset_kind == offset_kind and item.offset == offset:
                    return item
        elif 0 <= offset < source.size:
            source.clip(offset + length)
            items = list(MemberReader(source, limits, offset).items())
            if len(items) == 1 and (items[0].offset, items[0].length) == (offset, length):
                return items[0]
        return Damage(offset, length, offset_kind, "no_record_head", "no single record lies here")
