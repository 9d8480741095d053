"""The kept blocks of a page as plain text or as Markdown.

Text: blank lines between blocks, headings as lines, ``- `` or a number before each item of a list and two blanks for
each list around its list, cells parted by `` | ``, preformatted text as it is. Markdown: the same words in the same
order, with ``#``, ``>``, fences and pipes, and escapes where a character would mean something (escape.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from cleanpipe_stages.html.blocks import escape, lines
from cleanpipe_stages.html.blocks.names import ID
from cleanpipe_stages.html.blocks.segment import Blocks, Places
from cleanpipe_stages.html.blocks.tables import Flags, data_tables, inside, named, pairs, places

_HEADINGS = {ID[f"h{n}"]: n for n in range(1, 7)}
_LIST_NAMES = ["ul", "ol", "menu", "dir"]
_LISTS = frozenset(ID[name] for name in _LIST_NAMES)
_CELLS = frozenset((ID["td"], ID["th"]))
_LI, _OL, _PRE, _QUOTE, _TABLE, _DT, _DD = (ID[n] for n in ("li", "ol", "pre", "blockquote", "table", "dt", "dd"))
_PARTS = named(
    [*(f"h{n}" for n in range(1, 7)), *_LIST_NAMES, "li", "pre", "blockquote", "dt", "dd", "table", "td", "th"]
)
_PLAIN_PARTS = _PARTS & ~named(["blockquote"])
_SHAPED = named([*_LIST_NAMES, "pre", "blockquote", "dt", "dd"])
_LEVEL = named(f"h{n}" for n in range(1, 7))
_TERMS = ("dt", "dd")
_ITEMS, _WHOLE, _TITLES = named([*_LIST_NAMES, "li"]), named(["pre"]), named(["title"])
_NESTED = 16  # lists, quotations and meanings inside one another that are shown as such
_COLUMNS = 1000  # empty cells are written up to this one

_LINE_END = re.compile(r"(?<!\n)\n(?!\n)")  # the only one that Markdown would not show
_START = re.compile(rb"""\s(?:start|value)="\s*(-?[0-9]{1,9})(?![0-9])""")


Format = Literal["text", "markdown"]


class Part(NamedTuple):
    """An element that holds the blocks ``low`` to ``high`` of those kept. row, end: its tags."""

    name: int
    low: int
    high: int
    row: int
    end: int


# Finished lines, and what they are: "" for a paragraph, "dt" and "dd" for those of terms and meanings, "list", or
# "block".
Piece = tuple[str, str]


def render(blocks: Blocks, keep: Flags, form: Format, *, bullets: bool = True) -> str:
    """The kept blocks in order; "" where none is. keep: a flag for each block. bullets: marks before items of lists.

    Code and tables of data are kept whole or not at all, as the greater part of each says; titles never.
    """
    (text,) = rendered(blocks, keep, form, bullets=bullets)
    return text


def rendered(blocks: Blocks, keep: Flags, form: Format, *, bullets: bool = True) -> list[str]:
    """``render`` of each page of ``blocks``."""
    tables = data_tables(blocks)
    rows = np.flatnonzero(_whole(blocks, keep, tables))
    if not len(rows):
        return [""] * (len(blocks.pages) - 1)
    return _Writer(blocks, rows, tables[0], markdown=form == "markdown", bullets=bullets).pages()


def _whole(blocks: Blocks, keep: Flags, tables: tuple[Places, Places]) -> Flags:
    until = blocks.until
    begin, end = (np.append(a, b) for a, b in zip(tables, pairs(blocks, _WHOLE), strict=True))
    titles, ends = pairs(blocks, _TITLES)
    title = inside(until[titles], until[ends], len(keep))
    if not len(begin):
        return keep & ~title
    keep, low, high = keep.copy(), until[begin], until[end]
    sizes = blocks.end - blocks.start
    total, kept = np.cumsum(np.append(0, sizes)), np.cumsum(np.append(0, sizes * keep))
    total, kept = total[high] - total[low], kept[high] - kept[low]
    for one in np.flatnonzero((kept > 0) & (kept < total)).tolist():
        keep[low[one] : high[one]] = 2 * kept[one] >= total[one]
    return keep & ~title


class _Writer:
    """Pages on their way to lines. ``at`` is the next of ``parts``, all in the order of their opening tags."""

    def __init__(self, blocks: Blocks, rows: Places, tables: Places, *, markdown: bool, bullets: bool) -> None:
        self.blocks, self.tables = blocks, frozenset(tables.tolist())
        self.markdown, self.bullets = markdown, bullets
        if markdown:
            self.texts = lines.marked(blocks, rows, (blocks.innermost(ID["code"])[rows] >= 0).tolist())
        else:
            self.texts = lines.plain(blocks, rows)
        found, ends = pairs(blocks, _PARTS if markdown else _PLAIN_PARTS)
        before = np.zeros(len(blocks) + 1, np.int64)  # blocks kept before each
        before[rows + 1] = 1
        before = np.cumsum(before)
        self.borders = before[blocks.pages[:, 2]].tolist()
        low, high = before[blocks.until[found]], before[blocks.until[ends]]
        held = high > low
        found, ends, low, high = found[held], ends[held], low[held], high[held]
        name = blocks.tags.name[found]
        # what has no look of its own outside of lists and the like is passed over, plain headings but for ends of lines
        data = np.zeros(len(blocks.tags.at), bool)
        data[tables] = True
        shaped = _SHAPED.take(name) | data.take(found)
        inner = inside(found[shaped] + 1, ends[shaped], len(blocks.tags.at))[found]
        seen = shaped | inner
        heads = _LEVEL[name] & ~inner
        if markdown:
            seen |= heads
        else:
            shapes = np.append(0, np.cumsum(shaped))
            bare = heads & (shapes[np.searchsorted(found, ends)] == shapes[:-1])
            seen |= heads & ~bare
            for first, last in zip(low[bare].tolist(), high[bare].tolist(), strict=True):
                for block in range(first, last):
                    self.texts[block] = self.line(block)
        columns = (column[seen].tolist() for column in (name, low, high, found, ends))
        self.parts = list(map(Part._make, zip(*columns, strict=True)))
        self.at = 0

    def pages(self) -> list[str]:
        return [_joined(self.flow(low, high, 0)) for low, high in pairwise(self.borders)]

    def flow(self, low: int, high: int, depth: int) -> list[Piece]:
        """The blocks from low to high with the elements around them."""
        parts, count = self.parts, len(self.parts)
        if self.at == count or parts[self.at].low >= high:
            return self.paragraphs(low, high)
        pieces: list[Piece] = []
        while low < high:
            part = parts[self.at] if self.at < count else None
            if part is None or part.low > low:
                stop = high if part is None else min(high, part.low)
                pieces += self.paragraphs(low, stop)
                low = stop
                continue
            self.at += 1
            shaped = self.element(part, depth)
            if shaped is not None:
                pieces += shaped
                low = part.high
        return pieces

    def element(self, part: Part, depth: int) -> list[Piece] | None:
        """Of an element that has a look of its own; None: it has none, what it holds follows."""
        name = part.name
        if name in _HEADINGS:
            self.past(part)
            return [(self.heading(block, _HEADINGS[name]), "block") for block in range(part.low, part.high)]
        if name == _PRE:
            self.past(part)
            return [(self.preformatted(part), "block")]
        if name == _TABLE:
            return self.table(part) if part.row in self.tables else None
        if depth >= _NESTED:
            return None
        if name in _LISTS:
            return [(self.items(part, depth + 1), "list")]
        if name == _QUOTE and self.markdown:
            quoted = _joined(self.flow(part.low, part.high, depth + 1)).split("\n")
            return [("\n".join([f"> {line}" if line else ">" for line in quoted]), "block")]
        if name in (_DT, _DD):
            kind = "dt" if name == _DT else "dd"
            pieces = [piece for piece in self.flow(part.low, part.high, depth + 1) if piece[0]]
            if pieces and not pieces[0][1] and kind == "dd" and self.markdown:
                pieces[0] = (f": {pieces[0][0]}", "")
            return [(text, what or kind) for text, what in pieces]
        return None

    def past(self, part: Part) -> list[Part]:
        """What stands inside the element; it is done with."""
        begin = self.at
        while self.at < len(self.parts) and self.parts[self.at].row < part.end:
            self.at += 1
        return self.parts[begin : self.at]

    # --- blocks ---

    def paragraphs(self, low: int, high: int) -> list[Piece]:
        texts = self.texts[low:high]
        if self.markdown:
            texts = [_LINE_END.sub("\\\\\n", escape.starts(text)) for text in texts]
        return [(text, "") for text in texts]

    def line(self, block: int) -> str:
        """A block without ends of lines."""
        return self.texts[block].replace("\n", " ").replace("  ", " ")

    def heading(self, block: int, level: int) -> str:
        return escape.heading(self.line(block), level) if self.markdown else self.line(block)

    def preformatted(self, part: Part) -> str:
        tags = self.blocks.tags
        text = lines.preformatted(self.blocks.html[int(tags.end[part.row]) : int(tags.at[part.end])])
        return escape.fenced(text) if self.markdown and text else text

    # --- lists ---

    def items(self, part: Part, depth: int) -> str:
        """Items one below the other; with blank lines between them if one holds several blocks."""
        numbers = self.ordinals(part) if part.name == _OL else {}
        out: list[str] = []
        low, loose = part.low, False
        while low < part.high:
            next_ = self.parts[self.at] if self.at < len(self.parts) else None
            mark = ""
            if next_ is None or next_.low > low:  # text right in the list
                high = part.high if next_ is None else min(part.high, next_.low)
            else:
                high = next_.high
                if next_.name == _LI:
                    self.at += 1
                    mark = f"{numbers.get(next_.row, 1)}. " if part.name == _OL else "- "
            pieces = [piece for piece in self.flow(low, high, depth) if piece[0]]
            low = high
            loose = loose or (len(pieces) > 1 and len([kind for _, kind in pieces if kind != "list"]) > 1)
            if pieces:
                out.append(self.item(mark, pieces))
        return ("\n\n" if loose else "\n").join(out)

    def item(self, mark: str, pieces: Sequence[Piece]) -> str:
        text = ""
        for part, kind in pieces:
            if kind == "list":
                if not self.markdown:
                    part = _hung("  ", part)
                gap = "\n" if not self.markdown or part.startswith(("- ", "1. ")) else "\n\n"
            else:
                gap = "\n\n"
            text = f"{text}{gap}{part}" if text else part
        if not self.bullets or not mark:
            return text
        return _hung(mark, text) if self.markdown else mark + text

    def ordinals(self, part: Part) -> dict[int, int]:
        """Numbers of a list's items by their tags' rows, as the attributes start, value and reversed say."""
        tags = self.blocks.tags
        names, signs = tags.name[part.row : part.end], tags.sign[part.row : part.end]
        level = np.cumsum(np.where(_ITEMS[names], signs, 0), dtype=np.int32)  # lists and items around
        rows = (part.row + np.flatnonzero((names == _LI) & (signs > 0) & (level == 2))).tolist()
        step = -1 if b" reversed" in self.tag(part.row) else 1
        start = _START.search(self.tag(part.row))
        number = int(start[1]) if start else len(rows) if step < 0 else 1
        numbers: dict[int, int] = {}
        for row in rows:
            value = _START.search(self.tag(row))
            number = int(value[1]) if value else number
            numbers[row] = number
            number += step
        return numbers

    def tag(self, row: int) -> bytes:
        return self.blocks.html[int(self.blocks.tags.at[row]) : int(self.blocks.tags.end[row])]

    # --- tables ---

    def table(self, part: Part) -> list[Piece]:
        """The rows of a table of data, one a line; what stands beside its cells first."""
        where = places(self.blocks.tags, part.row, part.end)
        table: dict[int, dict[int, str]] = {}
        pieces: list[Piece] = []
        low = part.low
        for cell in self.past(part):
            if cell.name not in _CELLS or cell.low < low:
                continue
            if low < cell.low:
                pieces += self.paragraphs(low, cell.low)
            low = cell.high
            line, column = where[cell.row]
            text = self.line(cell.low)
            if low > cell.low + 1:
                text = " ".join([text, *(self.line(block) for block in range(cell.low + 1, low))])
            table.setdefault(line, {})[column] = text
        pieces += self.paragraphs(low, part.high)
        rows = [_filled(cells) for _, cells in sorted(table.items())]
        if self.markdown:
            return [*pieces, (_pipes(rows), "block")]
        text = "\n".join([" | ".join(cells).replace("  ", " ").strip(" ") for cells in rows])
        return [*pieces, (text, "block")]


def _filled(cells: dict[int, str]) -> list[str]:
    last = max(cells)
    return (
        list(cells.values())
        if len(cells) == last + 1 or last > _COLUMNS
        else [cells.get(column, "") for column in range(last + 1)]
    )


def _pipes(rows: list[list[str]]) -> str:
    """A table of GitHub's Markdown. Its first row is the head, for the format has no table without one."""
    width = min(max(map(len, rows)), _COLUMNS)
    out = [f"| {' | '.join([escape.in_cell(cell) for cell in row])} |" for row in rows]
    return "\n".join([out[0], "|" + " --- |" * width, *out[1:]])


def _hung(mark: str, text: str) -> str:
    """A mark before the first line, blanks of its length before the others."""
    gap = "\n" + " " * len(mark)
    return mark + gap.join(text.split("\n")).replace(gap + "\n", "\n\n")


def _joined(pieces: Sequence[Piece]) -> str:
    """Blank lines between blocks; a term's meanings stand right below it."""
    if not any(kind in _TERMS for _, kind in pieces):
        return "\n\n".join([text for text, _ in pieces if text])
    out: list[str] = []
    before = ""
    for text, kind in pieces:
        if text:
            below = (kind == "dd" and before in _TERMS) or (kind == "dt" and before == "dt")
            if out:
                out.append("\n" if below else "\n\n")
            out.append(text)
            before = kind
    return "".join(out)
