"""What a model may see of each block: numbers about its text, the elements around it, the page, and its place.

All of it is exact arithmetic (sums of integers, one division, a logarithm by straight lines), so that a page has the
same features on every machine. No feature reads words of a human language; only names in markup are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.html.blocks.counts import (
    BARS,
    CHARS,
    COMMAS,
    DIGITS,
    LINKED,
    MARKS,
    SIGNS,
    STOPS,
    UPPER,
    WIDE,
    WIDE_STOPS,
    WORDS,
    Counts,
    among,
    counted,
    three_bytes,
)
from cleanpipe_stages.html.blocks.elements import Elements, elements
from cleanpipe_stages.html.blocks.names import ID, NAMES
from cleanpipe_stages.html.blocks.segment import Blocks, Places

Floats = npt.NDArray[np.float32]
Array = npt.NDArray[np.float64]

PAGE = 26  # the last columns, the same for all blocks of a page
LEVELS = 6  # block elements around a block that are looked at one by one

# elements that are counted around a block, one column for each group
_AROUND = (
    "div", "span", "a", "p", "li", "ul menu dir", "ol", "dl", "dt", "dd", "h1", "h2", "h3", "h4", "h5 h6", "table",
    "thead th", "tr", "td", "caption figcaption", "pre", "code", "blockquote", "article", "main", "section",
    "nav search", "header hgroup", "footer", "aside", "form fieldset", "label legend", "button", "figure", "noscript",
    "details summary", "dialog", "center font", "b strong", "i em u", "small", "time", "address", "sup sub", "title",
)  # fmt: skip
_HIDDEN, _OTHER = len(_AROUND), len(_AROUND) + 1
_WIDTH = 48
_COLUMN = {name: column for column, group in enumerate(_AROUND) for name in group.split()}
_INSIDE = np.array([_COLUMN[n] for n in ("a", "b", "i", "code", "time", "small", "label", "button")])
_P, _LI, _TABLE_COLUMN = _COLUMN["p"], _COLUMN["li"], _COLUMN["table"]
_HEADINGS = np.array([_COLUMN[n] for n in ("h1", "h2", "h3", "h4", "h5")])


def _around_table() -> npt.NDArray[np.uint64]:
    """What tags add that close an element of each name, that do neither, and that open one."""
    table = np.zeros((len(NAMES), _WIDTH), np.uint8)
    for name, column in _COLUMN.items():
        table[ID[name], column] = 1
    table[0, _OTHER] = 1
    one = table.view(np.uint64)
    return np.concatenate((np.uint64(0) - one, np.zeros_like(one), one))


_AROUND_TABLE = _around_table()
_CODES = {letter: code for code, letters in enumerate((".!?", ":;,", ")\"'"), 1) for letter in letters}
_LAST = np.zeros(256, np.int64)
for _letter, _code in _CODES.items():
    _LAST[ord(_letter)] = _code


def log2(x: Array | Counts) -> Array:
    """The logarithm of 1 + x for x >= 0, about, by straight lines between powers of two: the same on every machine."""
    if x.dtype.kind == "f":
        return _lines(x)
    found: Array = np.take(_LOGARITHMS, x.astype(np.int64, copy=False), mode="clip")
    far = np.flatnonzero(x >= len(_LOGARITHMS))
    if len(far):
        found.flat[far] = _lines(x.flat[far])
    return found


def _lines(x: Array | Counts) -> Array:
    mantissa, exponent = np.frexp(x + 1.0)
    lines: Array = exponent + 2.0 * mantissa - 2.0
    return lines


_LOGARITHMS = _lines(np.arange(1 << 12))


@dataclass(frozen=True, slots=True)
class Features:
    """own: (n, f) numbers of each block. parents: (n, LEVELS) elements around each block, the innermost first, -1 for
    none.

    weight: characters of each block that are no blanks. elements: with the class words. pages: where in blocks each
    page begins, and the end.
    """

    own: Floats
    parents: Places
    weight: Counts
    elements: Elements
    pages: Places


def features(blocks: Blocks) -> Features:
    """Features of each block of one page or several, of which each has one block at least."""
    tree = elements(blocks)
    n = len(blocks)
    packed = _packed(blocks, tree)
    around = np.minimum(packed.take(blocks.first, axis=0).view(np.uint8).reshape(n, _WIDTH)[:, : _OTHER + 1], 40)
    run_row = blocks.run_tag
    inside = packed.take(run_row, axis=0).view(np.uint8).reshape(len(run_row), _WIDTH)[:, _INSIDE] > 0
    runs = counted(blocks, inside)
    new = np.flatnonzero(np.diff(blocks.run_block, prepend=-1))
    sums = np.add.reduceat(runs, new, axis=0)
    parents = np.empty((n, LEVELS), np.int64)
    parents[:, 0] = tree.of
    for level in range(1, LEVELS):
        inner = parents[:, level - 1]
        parents[:, level] = np.where(inner < 0, -1, tree.parent[inner])
    begin = blocks.pages[:-1, 2]
    page = np.repeat(np.arange(len(begin)), np.diff(blocks.pages[:, 2]))
    total = np.add.reduceat(sums[:, CHARS], begin)
    held = _held(tree, len(blocks.tags.at), run_row, runs, new, around, sums, total[page])
    own = (
        _text(blocks, sums, np.diff(np.append(new, len(runs)))),
        around,
        np.take(held, parents, axis=0, mode="wrap").reshape(n, -1),
        _place(around, sums, blocks.pages[:, 2], page),
        _titled(blocks, around, page),
        _page(around, sums, blocks)[page],
    )
    return Features(np.concatenate(own, axis=1, dtype=np.float32), parents, sums[:, CHARS], tree, blocks.pages[:, 2])


def _packed(blocks: Blocks, tree: Elements) -> npt.NDArray[np.uint64]:
    """For each tag the elements open behind it, counted by group, eight groups a number."""
    tags = blocks.tags
    packed = _AROUND_TABLE.take(tags.name + (tags.sign + np.int16(1)) * len(NAMES), axis=0)
    if len(tree.hidden):
        mark = np.zeros(_WIDTH, np.uint8)
        mark[_HIDDEN] = 1
        packed[tree.opened[tree.hidden]] += mark.view(np.uint64)
        packed[tree.closed[tree.hidden]] -= mark.view(np.uint64)
    return np.cumsum(packed, axis=0, out=packed)


def _text(blocks: Blocks, sums: Counts, runs: Counts) -> Array:
    """Features of a block's own text."""
    data = blocks.data
    chars, words = sums[:, CHARS].astype(float), sums[:, WORDS].astype(float)
    last = data.take(blocks.end - 1)
    ending = _LAST.take(last)
    far = np.flatnonzero(last >= 0x80)
    if len(far):
        three = three_bytes(data[np.maximum(blocks.end[far] - 3, 0) + np.arange(3)[:, None]])
        ending[far] = among(three, WIDE_STOPS)
    first = data.take(blocks.start)
    breaks = np.cumsum(blocks.tags.name == ID["br"])
    lines = breaks[np.searchsorted(blocks.tags.at, blocks.end) - 1] - breaks[blocks.first]
    return np.column_stack(
        (
            log2(chars),
            log2(words),
            chars / np.maximum(words, 1),
            sums[:, LINKED:] / chars[:, None],
            sums[:, (UPPER, DIGITS, WIDE)] / chars[:, None],
            log2(sums[:, COMMAS]),
            sums[:, COMMAS] / np.maximum(words, 1),
            log2(sums[:, STOPS]),
            sums[:, STOPS] / np.maximum(words, 1),
            sums[:, (BARS, SIGNS, MARKS)] / chars[:, None],
            ending == 1,
            ending == 2,
            (first >= 0x41) & (first <= 0x5A),
            (first >= 0x30) & (first <= 0x39),
            (first >= 0x61) & (first <= 0x7A),
            first >= 0x80,
            log2(lines),
            log2(runs),
        )
    )


def _held(
    tree: Elements,
    tags: int,
    run_row: Places,
    runs: Counts,
    new: Places,
    around: npt.NDArray[np.uint8],
    sums: Counts,
    whole: Counts,
) -> Floats:
    """Features of each element by all text inside it; the last row, of no element, is 0."""
    before = np.append(0, np.cumsum(np.bincount(run_row, minlength=tags)))  # runs before each tag
    begin, end = before.take(tree.opened), before.take(tree.closed)
    asked = runs[:, (CHARS, LINKED, COMMAS, STOPS)]
    total = np.zeros((len(runs) + 1, 7), np.int64)
    np.cumsum(asked, axis=0, out=total[1:, :4])
    block = np.zeros((len(runs), 3), np.int64)
    block[new, 0] = 1
    block[new, 1] = sums[:, CHARS] * (around[:, _P] > 0)
    block[new, 2] = sums[:, CHARS] >= 80
    np.cumsum(block, axis=0, out=total[1:, 4:])
    inside = (total.take(end, axis=0) - total.take(begin, axis=0)).T.astype(float)
    chars, blocks = inside[0], inside[4]
    some = np.maximum(chars, 1)
    whole_of = whole[np.minimum(tree.first, len(whole) - 1)]  # of an element without a block it does not matter
    features = (
        log2(chars),
        inside[1] / some,
        inside[2] / some * 16,
        inside[3] / some * 16,
        log2(blocks),
        log2(chars / np.maximum(blocks, 1)),
        inside[5] / some,
        log2(inside[6]),
        log2(tree.alike),
        chars / whole_of,
    )
    table = np.zeros((len(tree) + 1, len(features)), np.float32)
    for column, values in enumerate(features):
        table[:-1, column] = values
    return table


def _place(around: npt.NDArray[np.uint8], sums: Counts, pages: Places, page: Places) -> Floats:
    """Where a block stands in its page."""
    n, chars = len(around), sums[:, CHARS]
    everywhere, start, end = np.arange(n), pages[:-1][page], pages[1:][page]
    row, size = everywhere - start, end - start
    running = np.append(0, np.cumsum(chars))
    before, total = running[:-1] - running[start], (running[end] - running[start]).astype(float)
    top = around[:, _HEADINGS[0]] > 0
    headed = (around[:, _HEADINGS] > 0).any(axis=1)
    tops = np.append(0, np.cumsum(top))
    firsts = tops[1:] - tops[start]
    since = everywhere - np.maximum(np.maximum.accumulate(np.where(headed, everywhere, -1)), start - 1)
    since_top = everywhere - np.maximum.accumulate(np.where(top, everywhere, -1))
    long = chars >= _LONG
    past = np.maximum.accumulate(np.where(long, everywhere, -1))
    coming = np.minimum.accumulate(np.where(long, everywhere, n)[::-1])[::-1]
    columns = (
        row / size,
        (size - 1 - row) / size,
        log2(row),
        log2(size - 1 - row),
        before / total,
        log2(before),
        log2(total - before),
        log2(since),
        np.minimum(firsts, 3),
        log2(np.where(firsts > 0, since_top, -1) + 1),
        log2(np.where(past < start, row + 64, everywhere - past)),
        log2(np.where(coming >= end, size + 64 - row, coming - everywhere)),
    )
    place = np.empty((n, len(columns)), np.float32)
    for column, values in enumerate(columns):
        place[:, column] = values
    return place


def _titled(blocks: Blocks, around: npt.NDArray[np.uint8], page: Places) -> Floats:
    """Whether a block is a heading that says what the page's title says, how many came before, how far the last is."""
    n, start = len(around), blocks.pages[:-1, 2]
    first = np.flatnonzero(around[:, _TITLE] > 0)
    title = np.full(len(start), -1)
    title[page[first[::-1]]] = first[::-1]
    headings = np.flatnonzero((around[:, _HEADINGS[:3]] > 0).any(axis=1) & (title[page] >= 0))
    order = np.arange(len(headings)) - np.searchsorted(page[headings], page[headings])
    headings = headings[order < _MOST]
    same = np.zeros(n, bool)
    places = page[headings].tolist()
    begin, end = blocks.start, blocks.end
    names = {p: _Title(_plain(blocks, int(begin[title[p]]), int(end[title[p]]))) for p in set(places)}
    said = map(partial(_plain, blocks), begin[headings].tolist(), end[headings].tolist())
    same[headings] = [_alike(heading, names[number]) for heading, number in zip(said, places, strict=True)]
    count = np.append(0, np.cumsum(same))
    so_far = count[1:] - count[start][page]
    since = np.arange(n) - np.maximum.accumulate(np.where(same, np.arange(n), -1))
    columns = (same, np.minimum(so_far, 3), log2(np.where(so_far > 0, since + 1, 0)))
    return np.column_stack(columns).astype(np.float32)


class _Title:
    """What a page's title says, and its words."""

    def __init__(self, text: bytes) -> None:
        self.text, self.words = text, frozenset(text.split())


def _plain(blocks: Blocks, start: int, end: int) -> bytes:
    piece = blocks.html[start : min(end, start + _LONGEST)]
    return (_TAG.sub(b"", piece) if b"<" in piece else piece).lower()


def _alike(heading: bytes, title: _Title) -> bool:
    """Whether one holds the other, or the title most of the heading's words."""
    text = title.text
    if heading in text or text in heading:
        return min(len(heading), len(text)) >= _NAME
    words = set(heading.split())
    return len(words) > 2 and 3 * len(words & title.words) >= 2 * len(words)


_TAG = re.compile(rb"<[^<>]*>")
_TITLE = _COLUMN["title"]
_MOST, _LONGEST, _NAME = 40, 400, 6  # headings of a page, bytes of a heading, bytes that say something


def _page(around: npt.NDArray[np.uint8], sums: Counts, blocks: Blocks) -> Floats:
    """Features that all blocks of a page have: a row for each page."""
    starts, sizes = blocks.pages[:-1, 2], np.diff(blocks.pages[:, 2]).astype(float)
    chars = sums[:, CHARS]
    parts = np.column_stack((sums[:, (CHARS, LINKED, COMMAS, STOPS)], (around[:, _PARTS] > 0) * chars[:, None]))
    long = np.where(chars >= _LONG, chars, 0)
    heavy = np.add.reduceat(np.column_stack((parts, long)), starts, axis=0).astype(float)
    total = heavy[:, 0]
    tag_page = np.repeat(np.arange(len(starts)), np.diff(blocks.pages[:, 1]))
    named = np.bincount(tag_page * len(NAMES) + blocks.tags.name, minlength=len(starts) * len(NAMES))
    kinds = named.reshape(len(starts), -1)[:, _KINDS]
    return np.column_stack(
        (
            log2(total),
            heavy[:, 1] / total,
            heavy[:, 2] / total * 16,
            heavy[:, 3] / total * 16,
            log2(sizes),
            total / sizes / 64,
            log2(np.maximum.reduceat(chars, starts)),
            heavy[:, 4:] / total[:, None],
            log2(kinds),
        )
    ).astype(np.float32)


_LONG = 200  # characters
_KINDS = np.array([ID[n] for n in ("article", "main", "h1", "h2", "h3", "p", "li", "form", "pre")], np.uint8)
_PARTS = np.array(
    [_P, _LI, _TABLE_COLUMN, _HIDDEN, *(_COLUMN[n] for n in ("article", "main", "section", "pre", "form"))]
)
