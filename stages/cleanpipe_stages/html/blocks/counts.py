"""How many characters of each class stand in each stretch of a page's text: every byte is looked at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.html.blocks.segment import Blocks, stretches

Counts = npt.NDArray[np.int64]

# columns of sums over runs
CHARS, UPPER, DIGITS, WORDS, COMMAS, STOPS, BARS, SIGNS, MARKS, WIDE, LINKED = range(11)
_BLANK, _INNER, _KINDS_OF_TEXT = 10, 11, 12
_CLASSES = {
    UPPER: "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
    DIGITS: "0123456789",
    COMMAS: ",;:",
    STOPS: ".!?",
    BARS: "|/>&",
    SIGNS: "$%#+=*_{}[]\\",
    MARKS: "@()\"'",
    _BLANK: " \t\n\r\f",
}


def _kinds_of_bytes() -> bytes:
    """For each byte what it is counted as: a column of the sums over runs, 0 for a character of no other class."""
    table = bytearray(256)
    for column, letters in _CLASSES.items():
        for letter in letters:
            table[ord(letter)] = column
    table[0x80:0xC0] = bytes([_INNER]) * 0x40  # code points are counted by their first byte
    table[0xC0:] = bytes([WIDE]) * 0x40
    return bytes(table)


_KINDS_OF_BYTES = _kinds_of_bytes()
WIDE_STOPS, _WIDE_COMMAS = (
    np.array([int.from_bytes(c.encode(), "little") for c in group], np.int64)
    for group in ("\u3002\uff01\uff1f\u0964\u06d4\u061f\u300d\u201d\u2026", "\u3001\uff0c\u060c\uff1a\uff1b")
)
_WIDE_LEADS = np.zeros(256, bool)  # the first bytes of these
_WIDE_LEADS[np.concatenate((WIDE_STOPS, _WIDE_COMMAS)) & 0xFF] = True


def counted(blocks: Blocks, inside: npt.NDArray[np.bool_]) -> Counts:
    """Counts over each stretch of text, k of them: (k, 10 + m), the last ones its characters where ``inside`` says so.

    inside: (k, m), whether a stretch lies in an element of each of m kinds.
    """
    begin, stop = blocks.runs.T
    length = stop - begin
    firsts = np.cumsum(length) - length
    text = stretches(blocks.data, begin, stop)
    kinds = np.frombuffer(text.tobytes().translate(_KINDS_OF_BYTES), np.uint8)
    some = np.flatnonzero(kinds != 0)  # all but small letters and rare signs
    kind = kinds.take(some)
    run = np.repeat(np.arange(len(begin)), np.diff(np.searchsorted(some, np.append(firsts, len(kinds)))))
    sums = np.bincount(run * _KINDS_OF_TEXT + kind, minlength=len(begin) * _KINDS_OF_TEXT)
    sums = sums.reshape(-1, _KINDS_OF_TEXT)
    counts = np.empty((len(begin), LINKED + inside.shape[1]), np.int64)
    counts[:, :LINKED] = sums[:, :LINKED]
    counts[:, CHARS] = length - sums[:, _BLANK] - sums[:, _INNER]
    # a word begins at a run's start or behind a blank
    blanks = np.flatnonzero(kind == _BLANK)
    ends_word = np.append(kinds, np.uint8(_BLANK)).take(some.take(blanks) + 1) != _BLANK
    first, last = kinds.take(firsts) != _BLANK, kinds.take(firsts + length - 1) == _BLANK
    counts[:, WORDS] = np.bincount(run.take(blanks[ends_word]), minlength=len(begin))
    counts[:, WORDS] += first
    counts[:-1, WORDS] -= last[:-1] & first[1:]  # the next run's word
    wide = np.flatnonzero(kind == WIDE)
    wide = wide[_WIDE_LEADS.take(text.take(some.take(wide)))]
    if len(wide):
        at, run = some.take(wide), run.take(wide)
        code = three_bytes(blocks.data.take((begin - firsts).take(run) + at + np.arange(3)[:, None]))
        for column, codes in ((COMMAS, _WIDE_COMMAS), (STOPS, WIDE_STOPS)):
            counts[:, column] += np.bincount(run[among(code, codes)], minlength=len(begin))
    counts[:, LINKED:] = inside * counts[:, :1]
    return counts


def three_bytes(data: npt.NDArray[np.uint8]) -> Counts:
    """Three bytes, in the first axis, as one number; the third does not count in a character of two bytes."""
    first, second, third = data.astype(np.int64)
    three: Counts = first | second << 8 | np.where(first >= 0xE0, third, 0) << 16
    return three


def among(numbers: Counts, few: Counts) -> npt.NDArray[np.bool_]:
    """Which numbers are one of these few; ``isin`` sorts both."""
    found = np.zeros(len(numbers), bool)
    for one in few.tolist():
        found |= numbers == one
    return found
