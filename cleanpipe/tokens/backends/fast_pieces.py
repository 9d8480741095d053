"""Published splitting patterns without a regex engine: where pieces begin in UTF-8, by whole arrays.

Characters fall into six classes, as the reference's own engine has them, and each pattern is a few rules on which
neighbours belong together. `tests/core/tokens/test_tokens_backends_split.py` holds them against that engine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

OTHER, LETTER, NUMBER, BLANK, LINE, END, APART = range(7)  # OTHER to NUMBER are no blanks
STOP = "\x02"  # stands after each text
_APOSTROPHE, _SPACE = 0x27, 0x20

Places = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Shape:
    """lines: cl100k's kind (a word takes any one character before it, marks take line ends after them, blanks go with
    the line end after them); else GPT-2's kind (a piece takes the one space before it). digits: longest number, 0: any.
    spaced: a number takes the space before it. first: numbers are split off before all else. marks: contractions are
    pieces; folds: in any case.
    """

    lines: bool
    digits: int
    spaced: bool
    first: bool
    marks: bool
    folds: bool


def piece_begins(data: bytes, classes: bytes, points: Bytes | None, shape: Shape) -> tuple[Places, Places]:
    """Where pieces begin in joined texts, ``STOP`` after each: a piece of its own.

    Args:
        data: UTF-8 of the texts.
        classes: class of each ASCII byte (256 values, those above 127 are of no interest).
        points: class of each code point; None where ``data`` is ASCII.
        shape: of the pattern.

    Returns:
        Byte offsets of all pieces; and, if some character is in class APART, only where these are.
    """
    raw = np.frombuffer(data, np.uint8)
    kinds = np.frombuffer(bytearray(data).translate(classes), np.uint8)
    if points is not None:
        apart = _wide(raw, kinds, points)
        if len(apart):
            return apart, apart
    before, here = kinds[:-1], kinds[1:]
    begins = np.empty(len(raw), bool)
    begins[0] = True
    begins[1:] = (before != here) | (here == END)
    blank_before = (before == BLANK) & (here < BLANK)  # a word, number or mark after a blank
    if shape.first:
        blank_before &= here != NUMBER
    if shape.lines:
        _line_rules(raw, kinds, begins, blank_before)
    else:
        _space_rules(raw, kinds, begins, blank_before, spaced=shape.spaced)
    if shape.digits:
        _numbers(raw, kinds, begins, shape.digits)
    if shape.marks:
        _contractions(raw, begins, folds=shape.folds)
    return np.flatnonzero(begins), _NONE


_NONE = np.empty(0, np.int64)


def _wide(raw: Bytes, kinds: Bytes, points: Bytes) -> Places:
    """Fills in the classes of characters beyond ASCII; where those of class APART are."""
    apart = _NONE
    for size, low, high in ((2, 0xC0, 0xE0), (3, 0xE0, 0xF0), (4, 0xF0, 0xF8)):
        leads = np.flatnonzero((raw >= low) & (raw < high)) if size < 4 else np.flatnonzero(raw >= low)
        if not len(leads):
            continue
        value = (raw[leads] & (0x7F >> size)).astype(np.int64)
        for more in range(1, size):
            value <<= 6
            value |= raw[leads + more] & 0x3F
        found = points[value]
        for more in range(size):
            kinds[leads + more] = found
        if (found == APART).any():
            apart = np.concatenate([apart, leads[found == APART]])
    return apart


def first_byte(raw: Bytes, places: Places) -> Places:
    """The first bytes of the characters whose last bytes these are."""
    for _ in range(3):
        places = places - (raw[places] & 0xC0 == 0x80)
    return places


def _last_blank(raw: Bytes, begins: Flags, blank_before: Flags) -> None:
    """Of blanks before something else the last begins a piece."""
    begins[:-1] |= blank_before
    wide = np.flatnonzero(blank_before & (raw[:-1] >= 0x80))
    if len(wide):
        begins[wide] = False
        begins[first_byte(raw, wide)] = True


def _space_rules(raw: Bytes, kinds: Bytes, begins: Flags, blank_before: Flags, *, spaced: bool) -> None:
    _last_blank(raw, begins, blank_before)
    taken = blank_before & (raw[:-1] == _SPACE)
    if not spaced:
        taken &= kinds[1:] != NUMBER
    begins[1:] &= ~taken


def _line_rules(raw: Bytes, kinds: Bytes, begins: Flags, blank_before: Flags) -> None:
    before, here = kinds[:-1], kinds[1:]
    inner = begins[1:]
    # line ends go with the blanks or marks before them
    inner &= ~((here == LINE) & ((before == BLANK) | (before == OTHER)))
    # blanks after line ends stay with them if more line ends follow, unless marks took these line ends
    after = np.flatnonzero((before == LINE) & (here == BLANK)) + 1
    if len(after):
        changes = np.flatnonzero(before != here) + 1  # where runs of one class begin
        run = np.searchsorted(changes, after)
        follows = kinds[changes[np.minimum(run + 1, len(changes) - 1)]]  # the END at the end is a change too
        lines_begin = np.where(run > 0, changes[np.maximum(run - 1, 0)], 0)
        eaten = (lines_begin > 0) & (kinds[np.maximum(lines_begin - 1, 0)] == OTHER)
        begins[after] = (follows != LINE) | eaten
    _last_blank(raw, begins, blank_before)
    # a blank goes with the letters after it, a space with the marks after it
    inner &= ~(blank_before & ((here == LETTER) | ((here == OTHER) & (raw[:-1] == _SPACE))))
    # one single mark, if no space before it took it, goes with the letters after it
    after = np.flatnonzero((before == OTHER) & (here == LETTER)) + 1
    marks = first_byte(raw, after - 1)
    previous = np.maximum(marks - 1, 0)
    free = (marks == 0) | ((kinds[previous] != OTHER) & (raw[previous] != _SPACE))
    begins[after[free]] = False


def _numbers(raw: Bytes, kinds: Bytes, begins: Flags, most: int) -> None:
    """Numbers in pieces of ``most`` digits from their first on."""
    digits = np.flatnonzero((kinds == NUMBER) & (raw & 0xC0 != 0x80))
    if not len(digits):
        return
    order = np.arange(len(digits))
    first = (digits == 0) | (kinds[np.maximum(digits - 1, 0)] != NUMBER)
    place = order - np.maximum.accumulate(np.where(first, order, 0))
    begins[digits[(place % most == 0) & ~first]] = True


def _contractions(raw: Bytes, begins: Flags, *, folds: bool) -> None:
    """'s 't 'm 'd 're 've 'll, where a piece begins with the apostrophe."""
    marks = np.flatnonzero((raw == _APOSTROPHE) & begins)
    marks = marks[marks + 1 < len(raw)]
    if not len(marks):
        return
    one = raw[marks + 1]
    two = raw[np.minimum(marks + 2, len(raw) - 1)]
    if folds:
        one |= 0x20
        two |= 0x20
    short = np.isin(one, np.frombuffer(b"stmd", np.uint8))
    long = ((one == ord("r")) | (one == ord("v"))) & (two == ord("e")) | (one == ord("l")) & (two == ord("l"))
    taken = short | long
    ends = marks + 2 + long
    begins[marks[taken] + 1] = False
    begins[marks[long & ~short] + 2] = False
    ends = ends[taken]
    begins[ends[ends < len(raw)]] = True
