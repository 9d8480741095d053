"""Where the tags of pages stand, found once for the guard and the mending, without a parser.

Many pages lie in one buffer, so that each look is one call for all of them: a page has some hundred tags, and calls,
not tags, would be what it costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]
Pairs = npt.NDArray[np.uint16]

_AHEAD = 12  # no tag of interest begins in the last bytes: looking a few bytes ahead stays inside
_AT_ONCE = 10_000  # tags as Python numbers
BLANKS = b"\t\n\x0c\r "
_ENDS = BLANKS + b"/>"  # what may follow a tag's name
_STRIDE = 1 << 18  # bytes
_BEFORE, _AFTER = np.zeros(256, bool), np.zeros(256, bool)
_BEFORE[[*BLANKS, 0x3E]] = True
_AFTER[[*BLANKS, 0x3C]] = True
LETTER = np.zeros(256, bool)
LETTER[[*range(0x41, 0x5B), *range(0x61, 0x7B)]] = True


def edges(column: pa.LargeStringArray) -> tuple[Bytes, Places]:
    """The UTF-8 bytes of a text column, not copied, and n + 1 places between its n rows."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset :] if offsets is not None else np.zeros(1, np.int64)
    return (np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)), ends[: len(column) + 1]


def views(column: pa.LargeStringArray) -> Callable[[int], Bytes]:
    """Row number of a text column to the row's UTF-8 bytes, not copied."""
    everything, ends = edges(column)
    return lambda row: everything[ends[row] : ends[row + 1]]


def pair_table(names: Iterable[str]) -> Flags:
    """For each two bytes, lower case, whether one of these names may begin with them."""
    table = np.zeros(1 << 16, bool)
    for name in names:
        for second in name.encode()[1:2] or _ENDS:
            table[name.encode()[0] << 8 | second | 0x20] = True
    return table


SKIPPED = frozenset(("ul", "nav", "aside", "header", "footer", "section"))
# what a page's body begins with where no <body> says so
CONTENT = frozenset(
    ["p", "div", "h1", "h2", "h3", "h4", "ul", "table", "center", "article", "main", "hr", "font", "br"]
)
ASKED = ("body", "figure", "pre", "noscript", *sorted(SKIPPED))
"""Names of the tags that mending looks for."""
_FIRST_SKIPPED = len(ASKED) - len(SKIPPED)
_ASKED_PAIRS, _SKIPPED_PAIRS = pair_table(ASKED[:_FIRST_SKIPPED]), pair_table(SKIPPED)
_NEAR_TAG = 64  # blanks in which a tag is looked for before a block
_IS_BLANK = np.zeros(256, bool)
_IS_BLANK[[*BLANKS]] = True
_PARAGRAPH = pair_table(["p"])
_BLOCKS, _LISTS = pair_table(("div", "section", "article", "main", "td", "ul", "ol")), pair_table(("ul", "ol"))
_DEEP = 4  # blocks around a list, itself one: from here on resiliparse takes none for navigation
_MAY_END = np.zeros(256, bool)
_MAY_END[[*_ENDS]] = True


class Sheet:
    """The tags of pages that lie one behind another in ``data``, UTF-8; page i is ``data[starts[i] : ends[i]]``.

    at: every ``<`` of a page that may begin a tag. first: n + 1 places in ``at``: the tags of page i are
    ``at[first[i] : first[i + 1]]``. closing: whether ``/`` follows. opens: whether a letter does. pairs: the first two
    bytes of each name, letters in lower case.
    """

    def __init__(self, data: Bytes, starts: Places, ends: Places) -> None:
        self.data, self.starts, self.ends = data, starts, ends
        begin, end = int(starts[0]), int(ends[-1])
        at = np.flatnonzero(data[begin:end] == 0x3C)
        at += begin
        inside = np.ones(len(at), bool)
        for low, high in zip(np.searchsorted(at, ends - _AHEAD), np.searchsorted(at, ends), strict=True):
            inside[low:high] = False
        at = at[inside]
        self.at: Places = at
        self.first: Places = np.append(np.searchsorted(at, starts), len(at))
        after = data[at + 1]
        self.closing: Flags = after == 0x2F
        self.opens: Flags = LETTER[after]
        name = at + self.closing
        pairs = (data[name + 1] | np.uint8(0x20)).astype(np.uint16)
        self.pairs: Pairs = np.bitwise_or(
            np.left_shift(pairs, np.uint16(8)), data[name + 2] | np.uint8(0x20), dtype=np.uint16
        )

    def per_page(self, flags: Flags) -> Places:
        """How many of the tags are so, for each page."""
        if len(self.starts) == 1:
            return np.array([np.count_nonzero(flags)])
        return np.asarray(np.diff(np.searchsorted(np.flatnonzero(flags), self.first)))

    def sum_per_page(self, flags: Flags, sizes: Places) -> Places:
        """The sum of the sizes of the tags that are so, for each page."""
        rows = np.flatnonzero(flags)
        page = np.searchsorted(self.first, rows, "right") - 1
        return np.bincount(page, sizes[rows], len(self.starts)).astype(np.int64)

    @cached_property
    def asked(self) -> tuple[Places, Places]:
        """Rows in ``at`` of the tags that mending looks for, and the place in ``ASKED`` of each one's name.

        Those of ``SKIPPED`` only where they open behind text: no ``>`` stands before, blanks passed over.
        """
        rows = np.flatnonzero(_ASKED_PAIRS[self.pairs] | (_SKIPPED_PAIRS[self.pairs] & ~self.closing))
        names = self.at[rows] + 1 + self.closing[rows]
        eights, codes = eight(self.data, names), np.full(len(rows), -1)
        for code, name in enumerate(ASKED):
            mask, value = key(name)
            codes[(eights & mask == value) & _MAY_END[self.data[names + len(name)]]] = code
        codes[(codes >= _FIRST_SKIPPED) & self.closing[rows]] = -1
        skipped = np.flatnonzero(codes >= _FIRST_SKIPPED)
        codes[skipped[~self._behind_text(self.at[rows[skipped]])]] = -1
        return rows[codes >= 0], codes[codes >= 0]

    def _behind_text(self, places: Places) -> Flags:
        """Whether the last byte before each place that is no blank, of the 64 bytes before it, is no ``>``."""
        start = self.starts[np.searchsorted(self.starts, places, "right") - 1]
        far = places[:, None] - np.arange(1, _NEAR_TAG + 1)
        before = np.where(far >= start[:, None], self.data[np.maximum(far, 0)], 0x20)
        seen = ~_IS_BLANK[before]
        behind: Flags = before[np.arange(len(places)), np.argmax(seen, axis=1)] != 0x3E
        return behind

    @cached_property
    def lone(self) -> Places:
        """Places of characters of three bytes, and of references, that may stand alone between two tags."""
        data, end, found = self.data, int(self.ends[-1]) - 3, [np.zeros(0, np.int64)]
        for first in range(int(self.starts[0]) + 1, end, _STRIDE):
            inner = data[first : min(first + _STRIDE, end)]
            at = np.flatnonzero((inner == 0x26) | (inner >= 0xE0))
            at += first
            at = at[_BEFORE[data[at - 1]]]
            at = at[(data[at] == 0x26) | _AFTER[data[at + 3]]]
            at = at[(data[at - 1] == 0x3E) | _BEFORE[data[at - 2]]]  # behind one blank there may be more
            end_of = np.minimum(at + 4, data.size - 1)
            found.append(at[(data[at] == 0x26) | (data[at + 3] == 0x3C) | _AFTER[data[end_of]]])
        return np.concatenate(found)

    @cached_property
    def asked_of(self) -> list[int]:
        """Places in ``asked``, one more than pages: page i has those from place i to the next."""
        places: list[int] = np.searchsorted(self.asked[0], self.first).tolist()
        return places

    @cached_property
    def lone_of(self) -> list[tuple[int, int]]:
        """First and last place in ``lone`` of each page."""
        ends = (np.searchsorted(self.lone, self.starts + 1), np.searchsorted(self.lone, self.ends - 3))
        return list(zip(*(places.tolist() for places in ends), strict=True))

    @cached_property
    def paragraphs(self) -> list[int]:
        """How many ``<p>`` begin on each page."""
        counts: list[int] = self.per_page(_PARAGRAPH[self.pairs] & ~self.closing).tolist()
        return counts

    @cached_property
    def shallow(self) -> Flags:
        """For each page whether a list may lie less than ``_DEEP`` blocks below its body: blocks that open and close
        are counted.
        """
        blocks = _BLOCKS[self.pairs]
        depth = np.cumsum(blocks & self.opens, dtype=np.int32) - np.cumsum(blocks & self.closing, dtype=np.int32)
        rows = np.flatnonzero(_LISTS[self.pairs] & self.opens)
        page = np.searchsorted(self.first, rows, "right") - 1
        before = np.append(np.int32(0), depth)[self.first[page]]
        flat = np.zeros(len(self.starts), bool)
        flat[page[depth[rows] - before < _DEEP]] = True
        return flat


_LOWER = np.uint64(0x2020202020202020)


def eight(data: Bytes, places: Places) -> npt.NDArray[np.uint64]:
    """The eight bytes from each place on, the first one lowest, letters in lower case."""
    if data.size < 8:
        return np.zeros(0, np.uint64)
    everywhere: npt.NDArray[np.uint64] = np.ndarray(data.size - 7, "<u8", data, 0, (1,))
    return np.asarray(everywhere[places] | _LOWER)


def key(letters: str) -> tuple[np.uint64, np.uint64]:
    """Which of eight bytes are read to compare with ``letters``, and what they must be."""
    return np.uint64((1 << 8 * len(letters)) - 1), np.uint64(int.from_bytes(letters.encode(), "little"))


class Tags:
    """data: one page in UTF-8. at: every ``<`` in it. closing, opens, pairs: as a sheet's, for this page."""

    __slots__ = ("at", "closing", "data", "index", "opens", "pairs", "sheet")

    def __init__(self, data: Bytes, sheet: Sheet | None = None, index: int = 0) -> None:
        if sheet is None:
            sheet = Sheet(data, np.zeros(1, np.int64), np.array([len(data)], np.int64))
        first, last = sheet.first[index : index + 2].tolist()
        self.data, self.sheet, self.index = data, sheet, index
        self.at: Places = sheet.at[first:last] - sheet.starts[index]
        self.closing: Flags = sheet.closing[first:last]
        self.opens: Flags = sheet.opens[first:last]
        self.pairs: Pairs = sheet.pairs[first:last]

    def markup(self) -> str:
        """The page as it is."""
        return self.data.tobytes().decode()

    def paragraphs(self) -> int:
        """How many ``<p>`` begin."""
        return self.sheet.paragraphs[self.index]

    def asked(self) -> Iterator[tuple[str, int]]:
        """Names ("/pre" for a closing tag) and places of the tags that mending looks for, in order of place."""
        rows, codes = self.sheet.asked
        first, last = self.sheet.asked_of[self.index : self.index + 2]
        for begin in range(first, last, _AT_ONCE):
            some = slice(begin, min(begin + _AT_ONCE, last))
            places = (self.sheet.at[rows[some]] - self.sheet.starts[self.index]).tolist()
            closing = self.sheet.closing[rows[some]].tolist()
            for at, slash, code in zip(places, closing, codes[some].tolist(), strict=True):
                yield "/" * slash + ASKED[code], at

    def lone(self) -> Iterator[int]:
        """Places of characters of three bytes, and of references, that may stand alone between two tags."""
        start = self.sheet.starts[self.index]
        first, last = self.sheet.lone_of[self.index]
        for begin in range(first, last, _AT_ONCE):
            yield from (self.sheet.lone[begin : min(begin + _AT_ONCE, last)] - start).tolist()

    def shallow(self) -> bool:
        """Whether a list may lie near the body."""
        return bool(self.sheet.shallow[self.index])

    def first(self, names: Flags) -> int | None:
        """Place of the first opening tag whose name may be one of a ``pair_table``."""
        found = np.flatnonzero(names[self.pairs] & ~self.closing)
        return int(self.at[found[0]]) if len(found) else None


def sheets(data: Bytes, places: Places, rows: Sequence[int], most: int) -> Iterator[tuple[Sequence[int], Sheet]]:
    """Rows of ``edges`` that lie side by side, at most ``most`` bytes of them or one page, with their tags."""
    some: list[int] = []
    for row in rows:
        if some and (row != some[-1] + 1 or places[row + 1] - places[some[0]] > most):
            yield some, Sheet(data, places[some], places[np.array(some) + 1])
            some = []
        some.append(row)
    if some:
        yield some, Sheet(data, places[some], places[np.array(some) + 1])
