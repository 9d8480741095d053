"""Reading archives: WARC, WET, WAT and ARC, gzip, zstd or plain, told apart by their bytes.

for item in (reader := read_archive("crawl.warc.gz")):
    ...  # RawRecord or Damage, in offset order
reader.facts  # complete now
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from cleanpipe.errors import ConfigError, StopError
from cleanpipe.io.bytesource import ByteSource
from cleanpipe.io.fast_reader import Handover, fast_records
from cleanpipe.io.heads import WARC
from cleanpipe.io.member_reader import Item, MemberReader, container
from cleanpipe.io.record import OFFSET_IN_FILE, OFFSET_INFLATED, Damage, RawRecord, ReadFacts, ReadLimits
from cleanpipe.io.views import GzipMember

READERS = ("fast", "member", "warcio")
_DEFAULT = ReadLimits()


class ArchiveReader:
    """Items of one file in offset order; read once. ``facts`` is complete when the iteration has ended."""

    def __init__(
        self, uri: str, reader: str, limits: ReadLimits, progress: Callable[[int], None] | None, stamp: str
    ) -> None:
        self.uri, self._reader, self._limits, self._progress, self._stamp = uri, reader, limits, progress, stamp
        self.facts = ReadFacts(records={}, reader=reader)

    def __iter__(self) -> Iterator[Item]:
        """Opens the file.

        Raises:
            ShardError: it cannot be opened or read; whatever its bytes are, they raise nothing.
            StopError: a local file is not the one that ``stamp`` says; or, at the end, it changed while it was read,
                so that its records fit no one state of it.
        """
        facts, counts = self.facts, dict[str, int]()
        with ByteSource(self.uri, self._progress) as source:
            if self._stamp and source.modified and source.modified != self._stamp:
                raise StopError("changed since the run began; start the same line again", source=self.uri)
            facts.file_bytes = source.size
            for item in self._items(source):
                if isinstance(item, RawRecord):
                    counts[item.type] = counts.get(item.type, 0) + 1
                    facts.block_bytes += int(item.headers["content-length"]) if item.oversize else len(item.block)
                yield item
            facts.records = dict(sorted(counts.items()))
            facts.sha256 = source.finish()
            if source.changed():
                raise StopError("changed while it was read; start the same line again", source=self.uri)

    def _items(self, source: ByteSource) -> Iterator[Item]:
        if not source.size:
            yield Damage(0, 0, OFFSET_IN_FILE, "empty_file", "the file has no bytes")
            return
        facts, handover = self.facts, Handover(0, 0, None, "")
        if records := self._trusted(source):
            handover = yield from records
        rest = MemberReader(source, self._limits, handover.offset, handover.inflated).items()
        first, second = next(rest, None), next(rest, None)
        if records is None:
            facts.reader = "member"
        elif first != handover.pending or second is not None:
            facts.reader = self._reader if handover.offset else "member"
            facts.reread = handover.reason or f"the file does not end with the record at {handover.offset}"
        for item in (first, second):
            if item is not None:
                yield item
        yield from rest

    def _trusted(self, source: ByteSource) -> Generator[RawRecord, None, Handover] | None:
        """The quick reader asked for, where the file is of a kind that it reads."""
        if self._reader == "member":
            return None
        kind = container(bytes(source.at(0)[:4]))
        start = bytes(source.at(0)[:1024])
        if kind == "gzip":
            start = GzipMember(source, 0, lambda _source, _at: True).peek(0, 1024)
        if kind == "zstd" or not WARC.starts(start):  # zstandard is no slower, and ARC has a reader of its own
            return None
        if self._reader == "warcio":
            from cleanpipe.io.warcio_reader import warcio_records

            return warcio_records(source, self._limits, compressed=kind == "gzip")
        return fast_records(source, self._limits, compressed=kind == "gzip")


def read_archive(
    uri: str,
    *,
    reader: str = "fast",
    limits: ReadLimits = _DEFAULT,
    progress: Callable[[int], None] | None = None,
    stamp: str = "",
) -> ArchiveReader:
    """An iterable of the records and damages of one archive.

    Args:
        uri: local path or any URL that fsspec opens.
        reader: "fast" (FastWARC, each record proven), "member" (the careful one), "warcio" (proven likewise).
        limits: sizes at which a record is cut.
        progress: called with the file bytes consumed so far, at most once a MiB, and at the end.
        stamp: the ``Input.stamp`` that a local file must still have; "" for any.

    Raises:
        ConfigError: no such reader. ShardError and StopError come while iterating.
    """
    if reader not in READERS:
        raise ConfigError(f"no reader {reader!r}: choose one of {', '.join(READERS)}")
    return ArchiveReader(uri, reader, limits, progress, stamp)


def read_one(uri: str, offset: int, length: int, offset_kind: str, *, limits: ReadLimits = _DEFAULT) -> Item:
    """Reads one record again by what its RawRecord said, or a damaged range, which stays damaged.

    Raises:
        ShardError: the file cannot be opened or read.
    """
    with ByteSource(uri) as source:
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
