"""Elements as pairs of tags, and which tables hold data and which lay a page out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.html.blocks.names import ID, NAMES
from cleanpipe_stages.html.blocks.segment import Blocks, Places, Tags

Flags = npt.NDArray[np.bool_]

# a cell of more than this is no cell of data
BLOCKS_OF_A_CELL, BYTES_OF_A_CELL = 6, 4000


def named(names: Iterable[str]) -> Flags:
    """For each number of ``NAMES`` whether it is one of these."""
    table = np.zeros(len(NAMES), bool)
    table[[ID[name] for name in names]] = True
    return table


_TABLE, _ROW, _CELL = named(["table"]), named(["tr"]), named(["td", "th"])
_PAGE = named(["h1", "h2", "h3", "pre"])  # what pages have and cells of data do not


def pairs(blocks: Blocks, names: Flags) -> tuple[Places, Places]:
    """Rows of the opening and of the closing tags of all elements of these names, in order of the opening ones."""
    opened, name, closed = blocks.opened
    some = np.flatnonzero(names.take(name))
    return opened.take(some), closed.take(some)


def inside(low: Places, high: Places, n: int) -> Flags:
    """Which of n blocks lie in one of the ranges from low to high."""
    held = np.bincount(low, minlength=n + 1) - np.bincount(high, minlength=n + 1)
    return np.cumsum(held[:n]) > 0


def data_tables(blocks: Blocks) -> tuple[Places, Places]:
    """Opening and closing tags of tables without tables in them, of two columns or more, whose cells are all small."""
    tags = blocks.tags
    begin, end = pairs(blocks, _TABLE)
    if not len(begin):
        return begin, end
    leaf = np.append(begin[1:], len(tags.at)) > end
    begin, end = begin[leaf], end[leaf]
    cells, ends = pairs(blocks, _CELL)
    low, high = blocks.until[cells], blocks.until[ends]
    filled = high > low
    cells, low, high = cells[filled], low[filled], high[filled]
    if not len(cells):
        return begin[:0], end[:0]
    opens = tags.sign > 0
    large = (high - low > BLOCKS_OF_A_CELL) | (blocks.end[high - 1] - blocks.start[low] > BYTES_OF_A_CELL)
    rows = np.flatnonzero(_ROW[tags.name] & opens)
    row_of = np.searchsorted(rows, cells) - 1
    wide = rows[np.bincount(row_of[row_of >= 0], minlength=len(rows)) > 1]
    pages = np.flatnonzero(_PAGE[tags.name] & opens)
    data = _any(wide, begin, end) & ~_any(cells[large], begin, end) & ~_any(pages, begin, end)
    return begin[data], end[data]


def _any(places: Places, begin: Places, end: Places) -> Flags:
    """Whether one of the places, which are sorted, lies between begin and end."""
    return np.searchsorted(places, end) > np.searchsorted(places, begin)


def places(tags: Tags, begin: int, end: int) -> dict[int, tuple[int, int]]:
    """The cells of a table without tables in it: row of the cell's tag to its line and column, from 0."""
    opens = tags.sign[begin:end] > 0
    rows = begin + np.flatnonzero(_ROW[tags.name[begin:end]] & opens)
    cells = begin + np.flatnonzero(_CELL[tags.name[begin:end]] & opens)
    line = np.searchsorted(rows, cells) - 1
    column = np.arange(len(cells)) - np.searchsorted(line, line)
    return {c: (a, b) for c, a, b in zip(cells.tolist(), line.tolist(), column.tolist(), strict=True)}
