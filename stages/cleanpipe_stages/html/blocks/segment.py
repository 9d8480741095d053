"""A page as blocks of text: what stands between two borders of block elements, with the elements around it.

A parser in C reads the page, elements that are never read as text leave the tree, and the tree is written out again:
then every tag is balanced, every ``<`` is a tag, and all that follows is arithmetic on arrays of tags, without a
Python object per element. Nothing is kept between pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.html.blocks.balanced import balanced as balanced
from cleanpipe_stages.html.blocks.balanced import doubtful, eight, few
from cleanpipe_stages.html.blocks.names import ID, INLINE, NAMES, VOID, identify

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]

_TAG = re.compile(rb"<[^<>]*>")
_PAD = b"\0" * 24

_FLOW = np.array([name not in INLINE for name in NAMES], bool)  # its tags are borders of blocks
_FLOW[0] = False  # an element of another name is read as a part of its line, as browsers do
_IS_VOID = np.array([name in VOID for name in NAMES], bool)
_A, _BR = ID["a"], ID["br"]
_BORDER = _FLOW | np.isin(np.arange(len(NAMES)), [ID["td"], ID["th"]])
_HEADING = np.zeros(len(NAMES), np.int32)
_HEADING[[ID[f"h{n}"] for n in range(1, 7)]] = range(1, 7)
_PRE, _LISTS = (ID["pre"],), (ID["ul"], ID["ol"], ID["menu"], ID["dir"])
SPACE = np.zeros(256, bool)
SPACE[[9, 10, 12, 13, 32]] = True


@dataclass(frozen=True, slots=True)
class Tags:
    """All tags of ``Blocks.html`` in order, n of them.

    at, end: places of ``<`` and behind ``>``. name: numbers of ``names.NAMES``. sign: 1 opens, -1 closes, 0 void.
    """

    at: Places
    end: Places
    name: npt.NDArray[np.uint8]
    sign: npt.NDArray[np.int8]


@dataclass(frozen=True)
class Blocks:
    """A page as ``n`` blocks in order of reading.

    html: the page in UTF-8, written out from the parsed tree: balanced, every ``<`` and ``>`` belongs to a tag, text
    has the references ``&amp; &lt; &gt; &nbsp;`` only. start, end: places in ``html`` of each block's text, from its
    first character that is no blank to behind its last; inline tags lie between, perhaps not balanced. first: the row
    in ``tags`` of the last tag before the block; the elements open behind it are the block's. A block never holds a tag
    of a block element. ``<br>`` is a line's end inside a block, two in a row part blocks. runs: (k, 2) places of every
    stretch of text, with ``run_block`` the block it belongs to and ``run_tag`` the row of the tag right before it.

    Several pages may be one such object, ``html`` their markup in a row: then ``pages`` holds where each one begins in
    ``html``, ``tags`` and blocks, (pages + 1, 3), and ``split`` parts them.
    """

    html: bytes
    data: Bytes
    tags: Tags
    start: Places
    end: Places
    first: Places
    runs: Places
    run_block: Places
    run_tag: Places
    pages: Places

    def __len__(self) -> int:
        return len(self.start)

    def split(self) -> Iterator[Blocks]:
        """Each page for itself."""
        if len(self.pages) == 2:
            yield self
            return
        run_at = np.searchsorted(self.run_block, self.pages[:, 2])
        for page in range(len(self.pages) - 1):
            (byte, tag, block), (byte_end, tag_end, block_end) = self.pages[page : page + 2].tolist()
            rows, some = slice(tag, tag_end), slice(block, block_end)
            runs = slice(int(run_at[page]), int(run_at[page + 1]))
            tags = self.tags
            yield Blocks(
                self.html[byte:byte_end],
                self.data[byte:],
                Tags(tags.at[rows] - byte, tags.end[rows] - byte, tags.name[rows], tags.sign[rows]),
                self.start[some] - byte,
                self.end[some] - byte,
                self.first[some] - tag,
                self.runs[runs] - byte,
                self.run_block[runs] - block,
                self.run_tag[runs] - tag,
                np.array([[0, 0, 0], [byte_end - byte, tag_end - tag, block_end - block]]),
            )

    @cached_property
    def partner(self) -> Places:
        """For each row of ``tags`` that opens an element the row that closes it, for others -1."""
        tags = self.tags
        rows = np.flatnonzero(tags.sign)
        partner = np.full(len(tags.at), -1)
        if len(rows):
            opens = tags.sign[rows] > 0
            level = np.cumsum(tags.sign[rows], dtype=np.int32) - opens  # both tags of an element have the same
            order = np.argsort(level.astype(np.int16) if level.max() < 1 << 15 else level, kind="stable")
            partner[rows[order[0::2]]] = rows[order[1::2]]  # within a level they come in turn
        return partner

    @cached_property
    def opened(self) -> tuple[Places, npt.NDArray[np.uint8], Places]:
        """Of each element the row of its opening tag, its name, and the row of its closing tag."""
        rows = np.flatnonzero(self.tags.sign > 0)
        return rows, self.tags.name.take(rows), self.partner.take(rows)

    @cached_property
    def until(self) -> Places:
        """How many blocks begin before each tag, and before the end: (tags + 1,)."""
        counts = np.bincount(self.first, minlength=len(self.tags.at))
        return np.append(0, np.cumsum(counts))

    @cached_property
    def quotes(self) -> Places:
        """Places of double quotes."""
        return few(self.data == 0x22)

    @cached_property
    def named(self) -> npt.NDArray[np.uint64]:
        """The eight bytes that end with each of ``quotes``; of those before the eighth byte they mean nothing."""
        return eight(self.data)[np.maximum(self.quotes - 7, 0)]

    @cached_property
    def linked(self) -> Places:
        """Bytes of text in links, for each block."""
        tags = self.tags
        links = np.cumsum(np.where(tags.name == _A, tags.sign, 0), dtype=np.int32)
        begin, end = self.runs.T
        of_links = np.where(links[self.run_tag] > 0, end - begin, 0)
        return np.bincount(self.run_block, of_links, len(self)).astype(np.int64)

    @cached_property
    def page(self) -> Places:
        """The page of each block."""
        return np.repeat(np.arange(len(self.pages) - 1), np.diff(self.pages[:, 2]))

    def text(self, block: int) -> str:
        """The characters of a block: one line, or several where ``<br>`` parts them; as they are if preformatted."""
        piece = self.html[self.start[block] : self.end[block]]
        if self.pre[block] >= 0:
            return characters(_inner(self._whole_lines(block)))
        return characters(_DOUBLE.sub(b" ", _inner(_BLANKS.sub(b" ", piece))), _AROUND)

    def _whole_lines(self, block: int) -> bytes:
        """A preformatted block with the blanks its first line begins with."""
        begin, end = int(self.start[block]), int(self.end[block])
        opened = int(self.tags.end[self.pre[block]])
        line = max(self.html.rfind(b"\n", opened, begin) + 1, opened)
        return self.html[line:end]

    # --- what rendering needs: rows of ``tags`` (the opening tag of the innermost such element), -1 for none ---

    @cached_property
    def heading(self) -> Numbers:
        """1 to 6 inside such a heading, else 0."""
        inside = self.innermost(*(ID[f"h{n}"] for n in range(1, 7)))
        return np.where(inside < 0, 0, _HEADING[self.tags.name[inside]])

    @cached_property
    def pre(self) -> Numbers:
        """The ``<pre>`` around each block."""
        return self.innermost(*_PRE)

    @cached_property
    def item(self) -> Numbers:
        """The ``<li>`` around each block; blocks of one item have the same."""
        return self.innermost(ID["li"])

    @cached_property
    def list(self) -> Numbers:
        """The list around each block."""
        return self.innermost(*_LISTS)

    @cached_property
    def list_depth(self) -> Numbers:
        """How many lists are around each block."""
        return self.around(*_LISTS)

    @cached_property
    def quote(self) -> Numbers:
        """How many ``<blockquote>`` are around each block."""
        return self.around(ID["blockquote"])

    @cached_property
    def term(self) -> Numbers:
        """The ``<dt>`` or ``<dd>`` around each block."""
        return self.innermost(ID["dt"], ID["dd"])

    @cached_property
    def table(self) -> Numbers:
        """The innermost ``<table>``."""
        return self.innermost(ID["table"])

    @cached_property
    def row(self) -> Numbers:
        """The innermost ``<tr>``."""
        return self.innermost(ID["tr"])

    @cached_property
    def cell(self) -> Numbers:
        """The innermost ``<td>`` or ``<th>``. The cells of a row are blocks of their own."""
        return self.innermost(ID["td"], ID["th"])

    def innermost(self, *names: int) -> Numbers:
        """For each block the row of the opening tag of the innermost element of these names around it, -1 for none."""
        tags = self.tags
        chosen = np.zeros(len(NAMES), bool)
        chosen[list(names)] = True
        rows = np.flatnonzero(chosen[tags.name] & (tags.sign != 0))
        if not len(rows):
            return np.full(len(self), -1, np.int32)
        sign = tags.sign[rows].astype(np.int64)
        level = np.cumsum(sign)
        # behind an event the innermost one is the last that opened to this very level
        key = level * (len(rows) + 1) + np.arange(len(rows))
        opened = np.flatnonzero(sign > 0)
        keys = key[opened]
        order = np.argsort(keys, kind="stable")
        found = np.searchsorted(keys[order], key, "right") - 1
        inner = np.where(level > 0, rows[opened[order[np.maximum(found, 0)]]], -1)
        before = np.searchsorted(rows, self.first, "right") - 1
        return np.where(before < 0, -1, inner[before]).astype(np.int32)

    def around(self, *names: int) -> Numbers:
        """How many elements of these names are around each block."""
        chosen = np.zeros(len(NAMES), np.int8)
        chosen[list(names)] = 1
        return np.cumsum(chosen[self.tags.name] * self.tags.sign, dtype=np.int32)[self.first]


def segment(markup: bytes) -> Blocks:
    """Cuts a page in UTF-8 into blocks. No text gives no blocks.

    Raises ValueError: the parser wrote something that is no markup (no page is known that makes it).
    """
    return forest([balanced(markup)])


def forest(pages: Sequence[bytes], mend: Callable[[int], bytes] | None = None) -> Blocks:
    """Cuts pages that ``balanced`` gave, all at once: arrays of one page are too small to be worth a call each.

    mend: what ``balanced`` gives for the page of a number, when pages are what ``written`` gave.
    """
    html = pages[0] if len(pages) == 1 else b"".join(pages)
    data = np.frombuffer(html + _PAD[: 24 - len(html) % 8], np.uint8)
    begin = np.cumsum([0, *map(len, pages)])
    at, end = _signs(data)
    if mend is not None and (odd := doubtful(data, at, end, begin)):
        return forest([mend(number) if number in odd else page for number, page in enumerate(pages)])
    return _blocks(html, data, _tags(data, at, end), begin)


def _signs(data: Bytes) -> tuple[Places, Places]:
    """Places of ``<`` and behind ``>``."""
    places = few((data == 0x3C) | (data == 0x3E))  # one search for both, for as a rule they come in turn
    at, end = places[0::2], places[1::2]
    if len(at) == len(end) and (data.take(at) == 0x3C).all() and (data.take(end) == 0x3E).all():
        return at.copy(), end + 1
    return np.flatnonzero(data == 0x3C), np.flatnonzero(data == 0x3E) + 1


def _tags(data: Bytes, at: Places, end: Places) -> Tags:
    if len(at) != len(end):
        raise ValueError("the parser wrote a tag that is not closed")
    first = eight(data)[at + 1]
    lead = first.astype(np.uint8)
    closing = lead == 0x2F
    shifted = np.flatnonzero(closing)
    first[shifted] = eight(data)[at[shifted] + 2]
    name = identify(first)
    sign = np.ones(len(at), np.int8)
    sign[shifted] = -1
    sign[_IS_VOID.take(name) | (lead == 0x21)] = 0
    return Tags(at, end, name, sign)


def stretches(data: Bytes, begin: Places, stop: Places) -> Bytes:
    """The bytes from each place to the next, none of these empty, in a row."""
    length = stop - begin
    ends = np.cumsum(length)
    steps = np.ones(int(ends[-1]) if len(ends) else 0, np.int64)
    steps[ends - length] = begin
    steps[ends[:-1]] -= stop[:-1] - 1
    return data.take(np.cumsum(steps, out=steps))


def _blocks(html: bytes, data: Bytes, tags: Tags, pages: Places) -> Blocks:
    after = np.append(tags.at[1:], len(html))  # where the text behind a tag ends
    rows = _filled(data, tags.end, after)
    begin, stop = tags.end.take(rows), after.take(rows)
    # a border at each tag of a block element, at cells, and at the second <br> of two
    border = _BORDER.take(tags.name)
    breaks = np.flatnonzero(tags.name == _BR)
    if len(breaks) > 1:
        texts = np.searchsorted(rows, breaks)  # text behind one <br> and before the next?
        border[breaks[1:][(texts[1:] == texts[:-1])]] = True
    of = np.cumsum(border)[rows]
    starts = np.append(True, of[1:] != of[:-1])[: len(rows)]
    new = np.flatnonzero(starts)
    last = np.append(new[1:], len(rows))[: len(new)] - 1
    start = _skip(html, data, begin[new], stop[new], 1)
    end = _skip(html, data, stop[last] - 1, begin[last] - 1, -1) + 1
    first = rows[new]
    tag = np.searchsorted(tags.at, pages)
    places = np.column_stack((pages, tag, np.searchsorted(first, tag)))
    runs = np.column_stack((begin, stop))
    return Blocks(html, data, tags, start, end, first, runs, np.cumsum(starts) - 1, rows, places)


def _filled(data: Bytes, begin: Places, stop: Places) -> Places:
    """Rows of the stretches that hold more than blanks."""
    some = np.flatnonzero(stop > begin)
    filled = ~(SPACE.take(data.take(begin.take(some))) & SPACE.take(data.take(stop.take(some) - 1)))
    rest = np.flatnonzero(~filled & (stop - begin > 2).take(some))  # blanks at both ends
    if len(rest):
        first, last = begin.take(some.take(rest)), stop.take(some.take(rest))
        length = last - first
        filled[rest] = ~np.logical_and.reduceat(SPACE.take(stretches(data, first, last)), np.cumsum(length) - length)
    return some[filled]


def _skip(html: bytes, data: Bytes, at: Places, stop: Places, way: int) -> Places:
    """Moves places on over blanks, one step at a time as nearly all are short, and the long ones to their ends."""
    at = at.copy()
    move = np.flatnonzero(SPACE.take(data.take(at)))
    for _ in range(_STEPS):
        if not len(move):
            return at
        moved = at.take(move) + way
        at[move] = moved
        move = move[SPACE.take(data.take(moved))]
    for row, place, end in zip(move.tolist(), at[move].tolist(), stop[move].tolist(), strict=True):
        if way > 0:
            at[row] = end - len(html[place:end].lstrip(_WHITE))
        else:
            at[row] = end + len(html[end + 1 : place + 1].rstrip(_WHITE))
    return at


_STEPS, _WHITE = 8, b"\t\n\x0c\r "
_BLANKS = re.compile(rb"[ \t\n\r\f]+")
_LINE = re.compile(rb" ?<br[^>]*> ?")
_GLUE = re.compile(rb"</a><a |</?[a-z0-9]+-[^>]*>")
_DOUBLE = re.compile(rb"  +")
_AROUND = " "


def _inner(piece: bytes) -> bytes:
    """Markup without tags: a line's end for ``<br>``, a blank for a custom element and between two links."""
    if b"<" not in piece:
        return piece
    piece = _LINE.sub(b"\n", piece)
    piece = _GLUE.sub(lambda found: b"</a> <a " if found[0] == b"</a><a " else b" ", piece)
    return _TAG.sub(b"", piece)


# the parser writes no others; the last one makes what would be read as the others
_REFERENCES = (("&nbsp;", "\xa0"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))


def characters(markup: bytes, strip: str = "") -> str:
    """Text without tags as characters."""
    text = markup.decode()
    if "&" in text:
        for reference, character in _REFERENCES:
            text = text.replace(reference, character)
    return text.strip(strip) if strip else text
