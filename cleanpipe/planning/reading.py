"""The records that begin at the places of a sample: of an archive that can be cut only these bytes are read."""

from __future__ import annotations

import re
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from cleanpipe.errors import ShardError
from cleanpipe.io.archive import read_archive
from cleanpipe.io.bytesource import ByteSource, is_remote, local_path
from cleanpipe.io.documents import DocumentBatches, ReadBatch
from cleanpipe.io.kinds import container, heads_of
from cleanpipe.io.member_reader import Item, MemberReader
from cleanpipe.io.record import Damage, ReadLimits, Span
from cleanpipe.io.remote import redacted
from cleanpipe.io.views import GZIP_MAGIC
from cleanpipe.planning.places import Chosen, Places
from cleanpipe.recipe import Recipe

_HEAD = 1 << 16  # compressed bytes that tell whether a file can be cut
_SECOND = re.compile(rb"\n\r?\nWARC/[01]\.|\n[a-z]+://\S+ \S+ \d{14} \S+ \d+\r?\n")
_PLAIN = re.compile(rb"\n\r?\nWARC/[01]\.\d+\r?\n[A-Za-z-]+:")
_TOGETHER = 8  # remote places that are fetched at a time
CUT, PLAIN, START = "cut", "plain", "start"


@dataclass(slots=True)
class Place:
    """One place. size: compressed bytes of what it owns; length: of its block. cpu: seconds. read: to its end."""

    stratum: int
    size: int = 0
    length: int = 0
    cpu: float = 0.0
    read: bool = False


@dataclass(slots=True)
class Reading:
    """Reads a sample. ``places``, ``unread`` and ``uncut`` are complete when ``batches`` is exhausted.

    unread: source → why, of inputs that could not be read. uncut: sources read from their start alone.
    """

    recipe: Recipe
    sample: Places
    progress: Callable[[int], None] = lambda _size: None
    places: list[Place] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    uncut: list[str] = field(default_factory=list)

    def batches(self) -> Iterator[tuple[int, ReadBatch]]:
        """Batches of rows, each with the number of its place.

        Raises:
            StopError: storage does not answer, or an input changed while it was read.
        """
        with ThreadPoolExecutor(_TOGETHER) as pool:
            for one in self.sample.chosen:
                if one.source.size <= 0 and not (self.sample.whole and local_path(one.source.uri) is not None):
                    continue  # nothing tells how much it is
                try:
                    yield from self._file(one, pool)
                except ShardError as error:
                    self.unread[one.source.source] = error.message

    def _file(self, one: Chosen, pool: ThreadPoolExecutor) -> Iterator[tuple[int, ReadBatch]]:
        if self.sample.whole:
            yield from self._rows(one, self._place(one), iter(_Whole(self, one)))
            return
        kind = self._kind(one)
        if kind == START and len(one.blocks) * self.sample.block < one.source.size:
            self.uncut.append(one.source.source)
        if kind == START:
            yield from self._from_start(one)
            return
        make = _Cut if kind == CUT else _Plain
        jobs = [make(self, one, block) for block in one.blocks]
        if not is_remote(one.source.uri):
            for job in jobs:
                yield from self._rows(one, self._place(one), iter(job), job)
            return
        for at in range(0, len(jobs), _TOGETHER):
            some = jobs[at : at + _TOGETHER]
            began = time.process_time()
            lists = list(pool.map(_held, some))
            spent = (time.process_time() - began) / len(some)
            for job, items in zip(some, lists, strict=True):
                place = self._place(one)
                self.places[place].cpu += spent
                yield from self._rows(one, place, iter(items), job)

    def _place(self, one: Chosen) -> int:
        self.places.append(Place(one.stratum))
        return len(self.places) - 1

    def _rows(
        self, one: Chosen, place: int, items: Iterator[Item], job: _Job | None = None
    ) -> Iterator[tuple[int, ReadBatch]]:
        options, told = self.recipe.read, self.places[place]
        began = time.process_time()
        documents = DocumentBatches()
        for part in documents.rows(
            items, one.source.source, self.limits, max_rows=options.batch_rows, max_bytes=options.batch_bytes
        ):
            told.cpu += time.process_time() - began
            yield place, part
            began = time.process_time()
        told.cpu += time.process_time() - began
        if job is not None:
            told.size, told.length = job.size, job.end - job.begin
        elif self.sample.whole:
            told.size = told.length = one.source.size
        told.read = True
        self.progress(told.size)

    def _from_start(self, one: Chosen) -> Iterator[tuple[int, ReadBatch]]:
        """As many bytes from the file's start as blocks were drawn of it; their records are cut into as many places."""
        count = len(one.blocks)
        first, stop = len(self.places), min(self.sample.block * count, one.source.size)
        for _ in range(count):
            self._place(one)
        began = time.process_time()
        with ByteSource(one.source.uri, storage=self.recipe.storage) as source:
            source.clip(stop)
            items = list(MemberReader(source, self.limits).items())
        if stop < one.source.size and items and isinstance(items[-1], Damage):
            items.pop()  # what we cut ourselves
        spent = time.process_time() - began
        sizes = np.cumsum([i.length if isinstance(i, Damage) else len(i.block) for i in items])
        cuts = np.searchsorted(sizes, np.arange(count) * (sizes[-1] / count) if items else np.zeros(count)).tolist()
        for index, (begin, end) in enumerate(pairwise([*cuts, len(items)])):
            place = self.places[first + index]
            place.cpu += spent / count
            yield from self._rows(one, first + index, iter(items[begin:end]))
            place.size = place.length = stop * (index + 1) // count - stop * index // count

    def _kind(self, one: Chosen) -> str:
        """How a file is cut: told by its first bytes."""
        with ByteSource(one.source.uri, storage=self.recipe.storage) as source:
            head = source.read_at(0, _HEAD)
        kind = container(head)
        if kind == "plain":
            return PLAIN if head.startswith(b"WARC/") else START
        if kind != "gzip":
            return START
        inflater = zlib.decompressobj(31)
        try:
            data = inflater.decompress(head, 1 << 20)
        except zlib.error:
            return CUT  # damage: the reader finds its way
        if inflater.eof and inflater.unused_data.startswith(GZIP_MAGIC[:2]):
            return CUT
        return START if heads_of(data) is not None and _SECOND.search(data) else CUT

    @property
    def limits(self) -> ReadLimits:
        """Of the recipe."""
        return ReadLimits(max_body=self.recipe.read.max_body, expansion=self.recipe.read.expansion)


class _Job(ABC):
    """Items of one place. size: compressed bytes they take, once they are exhausted."""

    def __init__(self, reading: Reading, one: Chosen, block: int = 0) -> None:
        self.reading, self.one, self.size = reading, one, 0
        self.begin = block * reading.sample.block
        self.end = min(self.begin + reading.sample.block, one.source.size)

    @abstractmethod
    def __iter__(self) -> Iterator[Item]:
        """The items, in order."""

    def _archive(self, span: Span | None) -> Iterator[Item]:
        source, recipe = self.one.source, self.reading.recipe
        archive = read_archive(
            source.uri, reader=recipe.read.reader, limits=self.reading.limits, stamp=source.stamp, size=source.size,
            span=span, storage=recipe.storage,
        )  # fmt: skip
        yield from archive
        self.size = archive.facts.file_bytes if archive.facts.first >= 0 else 0


class _Whole(_Job):
    def __iter__(self) -> Iterator[Item]:
        return self._archive(None)


class _Cut(_Job):
    """Members that begin in the block."""

    def __iter__(self) -> Iterator[Item]:
        return self._archive(Span(self.begin, self.end))


class _Plain(_Job):
    """Records whose heads begin in the block; a head is found by its first lines, after a blank one."""

    def __iter__(self) -> Iterator[Item]:
        with ByteSource(self.one.source.uri, storage=self.reading.recipe.storage) as source:
            first = 0 if self.begin == 0 else self._head(source)
            if first < 0:
                return
            stop = source.size
            for item in MemberReader(source, self.reading.limits, first).items():
                if item.offset >= self.end:
                    stop = item.offset
                    break
                yield item
            self.size = stop - first

    def _head(self, source: ByteSource) -> int:
        at = self.begin - 4
        while (at := source.find(b"\nWARC/", at, self.end)) >= 0:
            near = source.read_at(max(at - 2, 0), 64)
            if _PLAIN.search(near) and self.begin <= at + 1 < self.end:
                return at + 1
            at += 1
        return -1


def _held(job: _Job) -> list[Item]:
    return list(job)


def shown(sources: list[str]) -> str:
    """A few names for a message."""
    names = [redacted(s) for s in sources[:3]]
    return ", ".join(names) + (f" and {len(sources) - 3:,} more" if len(sources) > 3 else "")
