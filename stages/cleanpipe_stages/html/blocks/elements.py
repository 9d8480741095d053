"""The block elements of a page as arrays: which is inside which, what each holds, and the words of their classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.html.blocks.balanced import eight
from cleanpipe_stages.html.blocks.names import INLINE, NAMES
from cleanpipe_stages.html.blocks.segment import Blocks, Places, stretches

Words = npt.NDArray[np.uint64]

SLOTS = 1 << 14  # of the table of class words
FLOW = np.array([name not in INLINE for name in NAMES], bool)
FLOW[0] = False
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_SMALL = np.uint64(0x2020202020202020)
_MASKS = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
_SPREAD = np.uint64(0xD6E8FEB86659FD93)
_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Elements:
    """The m block elements of a page, sorted by how deep they lie, then by place.

    opened, closed: rows of their tags. parent: the element around each, -1 for the outermost. of: each block's
    innermost element. kind: a number for the element's name and classes. alike: how many siblings are of the same kind.
    slots, owner: class words as places in a table of ``SLOTS``, and the element of each. hidden: elements that a
    browser does not show, as far as their own attributes say so.
    """

    opened: Places
    closed: Places
    parent: Places
    of: Places
    first: Places
    last: Places
    kind: Words
    alike: Places
    slots: Places
    owner: Places
    hidden: Places

    def __len__(self) -> int:
        return len(self.opened)


def elements(blocks: Blocks) -> Elements:
    """The block elements of a page."""
    tags = blocks.tags
    rows = np.flatnonzero(FLOW.take(tags.name) & (tags.sign != 0))
    sign = tags.sign.take(rows)
    depth = np.cumsum(sign, dtype=np.int64)
    level = depth - (sign > 0)  # both tags of an element have the same
    small = level.astype(np.int16) if len(level) and level.max() < 1 << 15 else level
    order = np.argsort(small, kind="stable")
    # within a level tags open and close in turn
    opens, closes = order[0::2], order[1::2]
    keys = level[opens] * len(rows) + opens
    parent = np.searchsorted(keys, keys - len(rows)) - 1
    parent[level[opens] == 0] = -1
    before = np.searchsorted(rows, blocks.first, "right") - 1
    of = np.searchsorted(keys, (depth[before] - 1) * len(rows) + before, "right") - 1
    number = np.full(len(tags.at), -1, np.int64)
    number[rows[opens]] = np.arange(len(opens))
    slots, tag, unseen = _attributes(blocks)
    owner = number[tag]
    kind = _kinds(tags.name[rows[opens]], slots, owner)
    family = kind * _SPREAD + (parent + 2).astype(np.uint64) * _FACTOR
    _, which, times = np.unique(family, return_inverse=True, return_counts=True)
    alike = np.where(parent < 0, 1, times[which])
    opened, closed = rows[opens], rows[closes]
    first, last = blocks.until.take(opened), blocks.until.take(closed)
    unseen = number[unseen]
    return Elements(opened, closed, parent, of, first, last, kind, alike, slots, owner, unseen)


def _kinds(name: npt.NDArray[np.uint8], slots: Places, owner: Places) -> Words:
    words = np.bincount(owner, slots + 1.0, len(name)).astype(np.uint64)  # sums below 2^53 are exact
    return (words << np.uint64(7)) + name


def _attributes(blocks: Blocks) -> tuple[Places, Places, Places]:
    """Class words of block elements, the row of the tag of each; and rows of tags whose attributes hide them."""
    data, tags, quote = blocks.data, blocks.tags, blocks.quotes
    some = np.searchsorted(quote, 8)
    if len(quote) < some + 2:
        return _NONE, _NONE, _NONE
    quote, before = quote[some:], blocks.named[some:-1]
    places = _styled(blocks.html)
    hides = quote[:-1][before == _HIDDEN]
    places = np.append(places, hides[data[hides + 1] != 0x66])  # not "false"
    tag = np.searchsorted(tags.at, places, "right") - 1
    tag = tag[(tag >= 0) & (places < tags.end[tag]) & FLOW[tags.name[tag]] & (tags.sign[tag] > 0)]
    asked = (
        (before == _CLASS)
        | (before == _ITEMPROP)
        | (before >> np.uint64(8) == _ROLE)
        | (before >> np.uint64(24) == _ID)
    )
    return *_class_words(blocks, quote, asked), np.unique(tag)


def _styled(html: bytes) -> Places:
    """Places of what says ``display:none``, with a blank or without."""
    found = []
    at = html.find(b"display:")
    while at >= 0:
        if html.startswith((b"none", b" none"), at + 8):
            found.append(at)
        at = html.find(b"display:", at + 8)
    return np.array(found, np.int64)


def _class_words(blocks: Blocks, quote: Places, asked: npt.NDArray[np.bool_]) -> tuple[Places, Places]:
    """Words of ``class``, ``id``, ``role`` and ``itemprop``: place in the table and row of the tag."""
    data, tags = blocks.data, blocks.tags
    which = np.flatnonzero(asked)
    begin, end = quote[which] + 1, quote[which + 1]
    tag = np.searchsorted(tags.at, begin) - 1
    flow = FLOW.take(tags.name) & (tags.sign > 0)
    good = (end < tags.end.take(tag)) & flow.take(tag) & (end > begin)
    begin, end, tag = begin[good], end[good], tag[good]
    if not len(begin):
        return _NONE, _NONE
    length = end - begin
    firsts = np.cumsum(length) - length
    text = stretches(data, begin, end)
    lower = text | np.uint8(0x20)
    letter = (lower - np.uint8(0x61)) < 26
    upper = letter & (text < 0x60)
    start = letter.copy()
    start[1:] &= ~letter[:-1] | (upper[1:] & ~upper[:-1])
    start[firsts] = letter[firsts]
    starts = np.flatnonzero(start)
    if not len(starts):
        return _NONE, _NONE
    behind = np.append(start[1:], True) | ~np.append(letter[1:], False)
    behind[firsts[1:] - 1] = True
    length = np.flatnonzero(letter & behind) + 1 - starts
    ahead = eight(data)
    # a word's first and its next eight letters, small, as one number
    counts = np.add.reduceat(start, firsts, dtype=np.int64)
    value = np.repeat(np.arange(len(firsts)), counts)
    places = starts - firsts[value] + begin[value]
    hashed = (ahead[places] | _SMALL) & _MASKS.take(length, mode="clip")
    hashed *= _FACTOR
    long = np.flatnonzero(length > 8)
    hashed[long] ^= (ahead[places.take(long) + 8] | _SMALL) & _MASKS.take(length.take(long) - 8, mode="clip")
    hashed *= _SPREAD
    return (hashed >> np.uint64(50)).astype(np.int64), tag[value]


def _number(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))


_CLASS, _ID, _ROLE, _ITEMPROP, _HIDDEN = (
    _number(t) for t in (b' class="', b' id="', b' role="', b'emprop="', b'hidden="')
)
