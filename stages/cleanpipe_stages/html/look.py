"""One look at the pages of a batch: their tags, and which may not be parsed.

The guard's numbers are counted for many pages at once; only pages that these do not clear are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe_stages.html import guard
from cleanpipe_stages.html.names import FORMATTING
from cleanpipe_stages.html.tags import Flags, Sheet, Tags, edges, eight, key, sheets

_AT_ONCE = 2 << 20  # bytes of pages: their tags stay in a processor's cache


def look(column: pa.LargeStringArray, rows: Sequence[int], limits: guard.Limits) -> Iterator[tuple[int, Tags | str]]:
    """Each of ``rows``, in their order, with its page's tags, or the reason why it may not be parsed."""
    data, places = edges(column)
    small: list[int] = []
    for row in [*rows, -1]:
        if row >= 0 and places[row + 1] - places[row] <= guard.HUGE:
            small.append(row)
            continue
        for some, sheet in sheets(data, places, small, _AT_ONCE):
            clear = cleared(sheet, limits)
            for index, number in enumerate(some):
                tags = Tags(data[places[number] : places[number + 1]], sheet, index)
                yield number, (None if clear[index] else guard.refusal(tags, limits)) or tags
        small = []
        if row >= 0:
            page = data[places[row] : places[row + 1]]
            if guard.crowded(page, limits):
                yield row, guard.TOO_MANY_ELEMENTS
            else:
                tags = Tags(page)
                yield row, guard.refusal(tags, limits) or tags


def cleared(sheet: Sheet, limits: guard.Limits) -> Flags:
    """For each page whether its numbers alone say that ``guard.refusal`` is None."""
    count, pairs = sheet.per_page, sheet.pairs
    makes, ends = count(sheet.opens), count(sheet.closing)
    lists = count(guard.LISTS[pairs] & sheet.opens)
    lines = count(guard.LINES[pairs] & sheet.closing)
    gaps = np.diff(sheet.at, append=sheet.ends[-1])
    last = sheet.first[1:] - 1
    some = last >= sheet.first[:-1]
    gaps[last[some]] = sheet.ends[some] - sheet.at[last[some]]
    long = count(gaps >= guard.LONG)
    of_page = sheet.sum_per_page(guard.PAGE[pairs] & ~sheet.closing, gaps)
    fat = sheet.sum_per_page(guard.FORMATS[pairs] & sheet.opens & (gaps >= guard.FAT), gaps)
    formats = guard.MAY_FORMAT[pairs] & sheet.opens
    closed = count(_closed(sheet, formats, gaps))
    plain = (long == 0) & (lists <= limits.depth)
    plain &= (of_page < 3 * guard.PAGE_ATTRIBUTES) & (fat * makes <= guard.COPIES)
    plain &= (ends <= 2 * guard.MEDIUM) & (lines <= guard.MEDIUM)
    plain &= np.diff(sheet.first) - makes - ends <= guard.ATTRIBUTES
    clear: Flags = plain & cheap(makes, count(formats) - closed, makes - closed)
    return clear


def cheap(makes: npt.NDArray[np.int64], unclosed: npt.NDArray[np.int64], nests: npt.NDArray[np.int64]) -> Flags:
    """``guard.cheap`` of many pages."""
    bound = np.where(makes <= guard.FEW, guard.REOPENED_FEW, guard.REOPENED)
    few = (makes <= guard.MEDIUM) & (makes * nests <= guard.MEDIUM**2)
    return few & (makes * (1 + unclosed) * (nests + unclosed) <= bound)


def _closed(sheet: Sheet, formats: Flags, gaps: npt.NDArray[np.int64]) -> Flags:
    """Formatting tags without attributes whose own closing tag is the next tag, in sight: these hold nothing."""
    found = np.zeros(len(sheet.at), bool)
    near = formats[:-1] & sheet.closing[1:] & (sheet.pairs[:-1] == sheet.pairs[1:]) & (gaps[:-1] < guard.SIGHT)
    rows = np.flatnonzero(near)
    opening, closing = (eight(sheet.data, sheet.at[rows + n] + 1 + n) for n in (0, 1))  # behind "<" and "</"
    for mask, name in _BARE:
        found[rows[(opening & mask == name) & (closing & mask == name)]] = True
    return found


_BARE = tuple(key(f"{name}>") for name in sorted(FORMATTING - {"a", "nobr"}))
