"""Cuts an uncompressed stream into records and the gaps between them.

What decides, in this order: a head stands where a record must begin; its Content-Length is honoured, so a head quoted
in a text stays text; and the record is believed if behind its block, after any blank lines, the stream ends or another
head begins, or if the blank lines that close a record stand there. A record that fails this is a gap up to the next
head that passes it. Blank lines belong to the record before them, at the start of the stream to the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from cleanpipe.io.heads import BLANK, Head, Heads
from cleanpipe.io.record import ReadLimits
from cleanpipe.io.views import View

_FIRST, _SEARCH, _OVERLAP = 4096, 1 << 18, 1 << 14
_CLOSERS = 4  # bytes of CRLFCRLF
_TRIED = 16  # ends tried for a record whose length counts characters
_NOTHING = "blank"


@dataclass(frozen=True, slots=True)
class Frame:
    """A record (``head`` is set) or a gap (``error`` is set) at ``offset`` of the stream, ``length`` bytes long."""

    offset: int
    length: int
    head: Head | None = None
    block: bytes = b""
    oversize: bool = False
    error: str = ""
    message: str = ""

    @property
    def blank(self) -> bool:
        """Whether it holds blank lines and nothing else."""
        return self.error == _NOTHING


class Framer:
    """Frames of one view, in order and without holes; memory is bounded by ``max_body + max_head``, and what a member
    may inflate to outside the blocks that its heads announce (of each as many bytes as that) by ``expansion``.

    seen: whether records lie before the view, so that what is none behind them is trailing.
    """

    def __init__(self, view: View, heads: Heads, limits: ReadLimits, *, seen: bool = False) -> None:
        self._view, self._heads, self._seen = view, heads, seen
        self._max_head, self._cap = limits.max_head, limits.max_body + limits.max_head
        view.bound(limits.expansion)

    def frames(self) -> Iterator[Frame]:
        """Records and gaps; together they tile the stream."""
        view, start, seen = self._view, 0, self._seen
        at = view.after_blank(0)
        while view.reaches(at):
            head = self._head(at)
            frame = (self._record(start, at, head) or self._in_characters(start, at, head)) if head else None
            if head is not None and frame is not None:
                seen = True
                view.exempt(at, at + head.size + len(frame.block))
            else:
                found = self.search(max(at + 1, view.first()))
                error, message = self._reason(head, last=found is None, seen=seen)
                stop = view.end() if found is None else found
                frame = Frame(start, stop - start, error=error, message=message)
            yield frame
            start = at = frame.offset + frame.length
            view.discard(at)
        if at > start:
            yield Frame(start, at - start, error=_NOTHING)

    @staticmethod
    def _reason(head: Head | None, *, last: bool, seen: bool) -> tuple[str, str]:
        if head is None:
            return ("trailing_bytes" if last and seen else "no_record_head"), "no record head where one must stand"
        if not head.closed:
            return "cut", "the record head has no end"
        if head.length is None:
            return "no_record_head", "the record head has no usable Content-Length"
        return "short_block", f"Content-Length {head.length} does not fit the block"

    def _head(self, at: int) -> Head | None:
        size = _FIRST
        while True:
            data = self._view.peek(at, size)
            if self._heads.complete(data):
                return self._heads.parse(data)
            if len(data) < size:  # the stream ends inside the head
                return self._heads.parse(data)
            if size >= self._max_head:
                return None
            size = min(size * 8, self._max_head)

    def _record(self, start: int, at: int, head: Head) -> Frame | None:
        """The record at ``at``, or None if what follows its block disproves its length."""
        view, body, length = self._view, at + head.size, head.length
        if not head.closed:  # cut behind its last line: nothing is missing if no block was announced
            whole = length == 0 and not view.peek(body, 1) and view.peek(body - 1, 1) == b"\n"
            return Frame(start, body - start, head) if whole else None
        if length is None:
            return self._unsized(start, body, head)
        need = min(length, self._cap)
        view.exempt(at, body + need + _CLOSERS)
        if view.ends_before(body + length):
            return None
        block = view.peek(body, need)
        while len(block) < need and view.extend():
            block += view.peek(body + len(block), need - len(block))
        stop = body + length
        if len(block) < need:
            return None
        while length > need and not view.reaches(stop - 1):
            if not view.extend():
                return None
        blank = view.peek(stop, 4)
        after = view.after_blank(stop)
        if not self._closed(head, after, blank):
            return None
        if not head.lf and length == need:
            block = _without_closer(block, blank[: after - stop])
        return Frame(start, after - start, head, block, length > need)

    def _closed(self, head: Head, after: int, blank: bytes) -> bool:
        closers = self._heads.closers if head.lf else self._heads.closers[:1]
        return blank.startswith(closers) or not self._view.peek(after, 1) or self._starts(after)

    def _starts(self, at: int) -> bool:
        return self._heads.starts(self._view.peek(at, 32)) or self._heads.starts(self._view.peek(at, _OVERLAP))

    def _unsized(self, start: int, body: int, head: Head) -> Frame | None:
        """A record that does not say its length: believed if its block is empty, or if only one can be meant."""
        view, size = self._view, self._max_head if self._view.whole_file else self._cap
        after, step = body, 64
        while (data := view.peek(after, step)) and not data.strip(BLANK) and after - body <= size:
            after, step = after + len(data), 1 << 16
        after += len(data) - len(data.lstrip(BLANK))
        if not data or (after - body <= size and self._starts(after)):
            return Frame(start, after - start, head)
        if head.type == "arc_header":
            stop = next(self._candidates(body, body + size), None)
        elif view.whole_file or self.search(body, body + size) is not None:
            return None
        else:
            stop = None
        if stop is None:
            if view.peek(body + size, 1):
                return None
            block = view.peek(body, size)
        else:
            block = view.peek(body, stop - body)
        stop = body + len(block)
        for closer in (b"\r\n\r\n", b"\n\n", b"\r\n", b"\n"):
            if block.endswith(closer):
                block = block[: -len(closer)]
                break
        return Frame(start, stop - start, head, block)

    def _in_characters(self, start: int, at: int, head: Head) -> Frame | None:
        """A record of a file that went through a text editor: LF everywhere, lengths of the CRLF text or in characters.

        Believed if a blank line and another head, or the end, stand where such a length says, give or take the four
        bytes of the blank lines.
        """
        view, body, length = self._view, at + head.size, head.length
        if not head.lf or not head.known or length is None or length > self._max_head or view.first() > body:
            return None
        limit = body + 4 * length + 64
        stops = list(islice(self._candidates(body, limit), _TRIED))
        if len(stops) < _TRIED and not view.peek(limit, 1):
            stops.append(body + len(view.peek(body, limit - body)))
        for stop in stops:
            text = view.peek(body, stop - body).rstrip(b"\n")
            if 2 * len(text) + _CLOSERS < length:  # neither count can be as large
                continue
            characters, crlf = len(text.decode("utf-8", "replace")), len(text) + text.count(b"\n")
            close = abs(characters - length) <= _CLOSERS or abs(crlf - length) <= _CLOSERS
            if close and stop - body - len(text) >= 2:
                return Frame(start, stop - start, head, text)
        return None

    def search(self, offset: int, limit: int | None = None) -> int | None:
        """Offset of the next head at a line's start, at or after ``offset``, whose record passes; None if none does.

        limit: where to stop; without one, what was searched may be forgotten. Of several first lines before one end of
        a head only the last is tried: a head holds none. So each byte is looked at a bounded number of times.
        """
        last = -1

        def kept() -> int:
            return last

        for at, line in self._lines(offset, limit, kept):
            if last >= 0 and self._heads.complete(self._view.peek(last, min(at - last, self._max_head))):
                if self._passes(last):
                    return last
                last = -1
            if line:
                last = at
            elif last >= 0 and at - last >= self._max_head:  # longer than a head may be
                last = -1
        return None

    def _candidates(self, offset: int, limit: int) -> Iterator[int]:
        """Offsets from ``offset`` up to ``limit`` at which a head may begin; nothing is forgotten."""
        return (at for at, line in self._lines(offset, limit) if line)

    def _lines(
        self, offset: int, limit: int | None, kept: Callable[[], int] = lambda: -1
    ) -> Iterator[tuple[int, bool]]:
        """Where first lines of heads begin (True) and where the search has come to (False), in order.

        limit: where to stop; without one, what lies before is forgotten, but for a head at ``kept()``.
        """
        view, size = self._view, _FIRST
        at = max(offset - 1, view.first())  # the line end before it counts
        while True:
            data = view.peek(at, size if limit is None else min(size, limit - at))
            for match in self._heads.candidates.finditer(data, max(offset - at, 0)):
                offset = at + match.start() + 1
                yield offset - 1, True
            yield at + len(data), False
            if len(data) < size:
                return
            if size < _SEARCH:  # a near one is found for little
                size *= 8
                continue
            at += size - _OVERLAP
            if limit is None:
                head = kept()
                view.discard(min(head, at) if head >= 0 else at)

    def _passes(self, at: int) -> bool:
        head = self._head(at)
        if head is None or not head.known or not head.closed or head.length is None:
            return False
        view, stop = self._view, at + head.size + head.length
        if head.length > self._cap or view.ends_before(stop):
            return not view.ends_before(stop)
        tail = view.probe(stop, _FIRST)
        if not tail:
            return bool(view.probe(stop - 1, 1))
        rest = tail.lstrip(BLANK)
        closers = self._heads.closers if head.lf else self._heads.closers[:1]
        if tail.startswith(closers) or self._heads.starts(rest):
            return True
        return not rest and len(tail) < _FIRST


def _without_closer(block: bytes, blank: bytes) -> bytes:
    """Takes off the first half of a CRLF that an announced length one (or three) too large has cut in two."""
    if blank == b"\n\r\n" and block.endswith(b"\r"):
        return block[:-1]
    if blank == b"\n" and block.endswith(b"\r\n\r"):
        return block[:-3]
    return block
