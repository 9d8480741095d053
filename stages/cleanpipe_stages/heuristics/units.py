"""Words, lines and paragraphs of whole batches, as spans in one buffer of UTF-8 bytes: no Python object for a word.

What they are, for every rule of this package (papers and programs differ; stages/README.md compares them):

* **word**, ``words = "tokens"`` (datatrove and FineWeb, by spaCy's tokenizer): a run of letters, digits, their marks
  and ``_``; inside may stand one of ``' . @ &`` between letters, one of ``. , : /`` between digits, a hyphen between a
  letter and a digit, and an address behind ``://``; each run of one punctuation mark is a token too, as in datatrove.
  ``words = "blanks"`` (Dolma, RedPajama): what stands between blanks, as ``str.split``.
  A letter of a script that puts no blanks between words (Han, Kana, Thai …) is a token of its own.
* **line**: what stands between line breaks, less the blanks at both ends; a line of blanks is none.
* **paragraph**: lines that no empty line parts.
* **character**: a code point.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe_stages.dedup import characters as ch
from cleanpipe_stages.dedup.hashing import token_hashes
from cleanpipe_stages.heuristics import code_points as cp

TOKENS, BLANKS = "tokens", "blanks"
KINDS = (TOKENS, BLANKS)
CHARACTERS_A_WORD = 1.6
"""Of Chinese text; what stands for a word in scripts without blanks (as minhash_sign's 8 characters for 5 words)."""

LONGEST = 1 << 22
"""Bytes of a text that figures are of: a book and more, and above the 100,000 words that Gopher lets pass. The arrays
of a longer text would not fit where a worker runs."""

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_BLOCK = 1 << 18  # bytes of text at a time: the arrays of one block stay in the cache
_TAIL = bytes(16)  # hashing reads eight bytes at a time, past the end of the last word
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)
_NEWLINE, _CURLY = 0x0A, 0x2019
_ADDRESS = b"://"
_REST = re.compile(rb"://(?:[!#-;=?-Z_a-z~]*[#$&*+/-9=@-Z_a-z~-])?")  # of ASCII, less marks at its end
_LETTERS, _DIGITS, _MIXED = 1, 2, 4  # between which a mark is inside a word
_INSIDE = {
    "'": _LETTERS,
    ".": _LETTERS | _DIGITS,
    ",": _DIGITS,
    ":": _DIGITS,
    "/": _DIGITS,
    "-": _MIXED,
    "@": _LETTERS,
    "&": _LETTERS,
}


@cache
def _joining() -> npt.NDArray[np.uint8]:
    """_INSIDE by byte."""
    made = np.zeros(256, np.uint8)
    for mark, between in _INSIDE.items():
        made[ord(mark)] = between
    return made


def blocks(texts: pa.Array, longest: int | None = LONGEST) -> Iterator[list[bytes]]:
    """The UTF-8 bytes of neighbouring texts (a null is empty), in lists of about 256 kB; a longer text is alone.

    longest: bytes of a text beyond which it is not looked at (whole characters); None: all of it.
    """
    array = texts.cast(pa.large_binary())
    made: list[bytes] = []
    size = 0
    for text in array.to_pylist():
        document = text or b""
        if longest is not None and len(document) > longest:
            document = document[: border(document, longest)]
        if made and size + len(document) > _BLOCK:
            yield made
            made, size = [], 0
        made.append(document)
        size += len(document)
    if made:
        yield made


def border(document: bytes, place: int) -> int:
    """The last place up to ``place`` where a character begins."""
    while document[place] & 0xC0 == 0x80:
        place -= 1
    return place


@dataclass(slots=True)
class Spans:
    """Bytes ``starts`` to ``ends`` of k spans, in order; those of document d are ``at[d]`` to ``at[d + 1]``."""

    starts: Ints
    ends: Ints
    at: Ints

    @property
    def owner(self) -> Ints:
        """The document of each span."""
        return np.repeat(np.arange(self.at.size - 1), np.diff(self.at))

    def total(self, values: npt.NDArray[np.generic]) -> Ints:
        """Sums of a whole number a span, by document."""
        sums = np.concatenate((np.zeros(1, np.int64), np.cumsum(values, dtype=np.int64)))
        return sums[self.at[1:]] - sums[self.at[:-1]]


class Units:
    """The units of n documents.

    data: uint8, the documents' bytes, a byte 0 before and after each. begins: int64 of n + 1, where each begins.
    flags: of each byte, those of its character (``code_points``). words, lines: spans.
    """

    def __init__(self, documents: Sequence[bytes], words: str = TOKENS) -> None:
        self.documents = documents
        self.data = np.frombuffer(b"\0".join((b"", *documents, _TAIL)), np.uint8)
        sizes = np.fromiter((len(d) + 1 for d in documents), np.int64, len(documents))
        self.begins = np.concatenate((np.ones(1, np.int64), 1 + np.cumsum(sizes)))
        self.leads = ch.lead_bytes(self.data)
        self.flags, self.points = cp.flags_of(self.data, self.leads)
        self._places: Ints | None = None
        if self.leads.size:
            self._places = np.concatenate(
                (np.zeros(1, np.int64), np.cumsum((self.data & 0xC0) != 0x80, dtype=np.int64))
            )
        starts, ends = self._words(words)
        self.words = Spans(starts, ends, np.searchsorted(starts, self.begins))
        self.lines, self.first_words, self._rows = self._lines()

    def characters(self, starts: Ints, ends: Ints) -> Ints:
        """Code points of spans."""
        return ends - starts if self._places is None else self._places[ends] - self._places[starts]

    @cached_property
    def kinds(self) -> npt.NDArray[np.uint8]:
        """Of each word whether it has a letter or digit, a letter, and is of a script without blanks, as flags."""
        starts, ends = self.words.starts, self.words.ends
        made = self.flags[starts]
        other = np.flatnonzero((made & cp.LETTER == 0) & (ends - starts > 1))  # most words begin with a letter
        if other.size:
            edges = np.stack((starts[other], ends[other]), axis=1).ravel()
            made[other] |= np.bitwise_or.reduceat(self.flags, edges)[::2]
        return made

    @property
    def lengths(self) -> Ints:
        """Code points of each document."""
        return self.characters(self.begins[:-1], self.begins[1:] - 1)

    def last(self, spans: Spans) -> Ints:
        """Where the last character of each span begins."""
        place = spans.ends - 1
        for _ in range(3):
            place = place - ((self.data[place] & 0xC0) == 0x80)
        return place

    def unspaced(self) -> Flags:
        """Documents of which more than 30 % of the letters are of scripts without blanks, as minhash_sign judges."""
        count = len(self.documents)
        own = self.flags[self.leads]
        alone = self.leads[own & cp.ALONE != 0]
        if not alone.size:
            return np.zeros(count, np.bool_)
        by = np.bincount(np.searchsorted(self.begins, alone, side="right") - 1, minlength=count)
        total = np.zeros(count, np.int64)
        for row in np.flatnonzero(by):
            first, last = self.begins[row], self.begins[row + 1]
            letters = self.flags[first:last] & cp.LETTER != 0
            total[row] = np.count_nonzero(letters & ((self.data[first:last] & 0xC0) != 0x80))
        return by * 10 > total * 3

    def repeats(self, spans: Spans) -> Flags:
        """Spans that stood before in their document, byte for byte."""
        size = spans.ends - spans.starts
        found = np.zeros(size.size, np.bool_)
        if size.size < 2:
            return found
        owner = spans.owner
        likely = self.beginnings(spans) * np.uint64(0x9E3779B97F4A7C15)  # only says which must be looked at
        likely += (size * 0x51_7C_C1B7 + owner * 0x2545_F491_4F6C).astype(np.uint64)
        order = np.argsort(likely)
        same = likely[order[1:]] == likely[order[:-1]]
        if not same.any():
            return found
        some = np.zeros(size.size, np.bool_)
        some[order[1:][same]] = some[order[:-1][same]] = True
        looked = np.flatnonzero(some)
        hashes = token_hashes(self.data, spans.starts[looked], size[looked])
        order = np.lexsort((looked, hashes, owner[looked]))
        again = (hashes[order[1:]] == hashes[order[:-1]]) & (owner[looked][order[1:]] == owner[looked][order[:-1]])
        found[looked[order[1:][again]]] = True
        return found

    def beginnings(self, spans: Spans) -> npt.NDArray[np.uint64]:
        """The first eight bytes of each span as a number, zeros behind a shorter one."""
        eights = np.ndarray((self.data.size - 7,), "<u8", buffer=self.data, strides=(1,))
        made: npt.NDArray[np.uint64] = eights[spans.starts] & _MASKS[np.minimum(spans.ends - spans.starts, 8)]
        return made

    def paragraphs(self) -> Spans:
        """Runs of lines that no empty line parts."""
        lines = self.lines
        if not lines.starts.size:
            return lines
        fresh = np.ones(lines.starts.size, np.bool_)
        owner = lines.owner
        fresh[1:] = (np.diff(self._rows) > 1) | (owner[1:] != owner[:-1])
        first = np.flatnonzero(fresh)
        ends = lines.ends[np.append(first[1:], lines.starts.size) - 1]
        starts = lines.starts[first]
        return Spans(starts, ends, np.searchsorted(starts, self.begins))

    def _words(self, words: str) -> tuple[Ints, Ints]:
        flags, data = self.flags, self.data
        seen = cp.WORD | cp.OTHER
        if words == BLANKS:
            kind = (flags & seen != 0).astype(np.uint8)
            border = kind[1:] != kind[:-1]
        else:
            kind = (flags & seen).astype(np.uint8)
            self._join(kind)
            border = kind[1:] != kind[:-1]
            border |= (kind[1:] == cp.OTHER) & (data[1:] != data[:-1]) & ((data[1:] & 0xC0) != 0x80)
        alone = self.leads[self.flags[self.leads] & cp.ALONE != 0]
        if alone.size:
            border[alone - 1] = True
            after = np.flatnonzero((flags[:-1] & cp.ALONE != 0) & (flags[1:] & cp.ALONE == 0))
            border[after[flags[after + 1] & (cp.ALNUM | cp.OTHER) != 0]] = True
        edges = np.flatnonzero(border) + 1
        if not edges.size:
            return edges, edges
        kept = np.flatnonzero(kind[edges] != 0)  # the last byte is 0, so the last edge ends a word
        return edges[kept], edges[kept + 1]

    def _join(self, kind: npt.NDArray[np.uint8]) -> None:
        """Turn marks inside words into parts of them, in place."""
        flags, data = self.flags, self.data
        both = cp.ALNUM | cp.LETTER | cp.ALONE
        rules = _joining()
        at = np.flatnonzero((rules != 0).take(data))
        before, after, rule = flags[at - 1] & both, flags[at + 1] & both, rules[data[at]]
        letter, digit = cp.ALNUM | cp.LETTER, cp.ALNUM
        inside = (rule & _LETTERS != 0) & (before == letter) & (after == letter)
        inside |= (rule & _DIGITS != 0) & (before == digit) & (after == digit)
        inside |= (rule & _MIXED != 0) & ((before == letter) & (after == digit) | (before == digit) & (after == letter))
        kind[at[inside]] = cp.WORD
        curly = self.leads[self.points == _CURLY]
        letters = (flags[curly - 1] & both == cp.ALNUM | cp.LETTER) & (flags[curly + 3] & both == cp.ALNUM | cp.LETTER)
        for shift in range(3):
            kind[curly[letters] + shift] = cp.WORD
        for document, begin in zip(self.documents, self.begins.tolist(), strict=False):
            if _ADDRESS in document:
                for found in _REST.finditer(document):
                    kind[begin + found.start() : begin + found.end()] = cp.WORD

    def _lines(self) -> tuple[Spans, Ints, Ints]:
        """Lines; the first word of each, and one more; and which line each is, those of blanks counted."""
        breaks = np.flatnonzero(self.data <= _NEWLINE)
        held = self.data[breaks]
        breaks = breaks[(held == _NEWLINE) | (held == 0)]
        at = np.searchsorted(self.words.starts, breaks)
        rows = np.flatnonzero(at[1:] > at[:-1])
        first, last = at[rows], at[rows + 1]
        starts, ends = self.words.starts[first], self.words.ends[last - 1]
        edges = np.append(first, last[-1:])
        return Spans(starts, ends, np.searchsorted(starts, self.begins)), edges, rows


def quotient(above: npt.NDArray[np.generic], below: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """``above / below``, NaN (not measured) where ``below`` is 0."""
    made = np.full(below.shape, np.nan)
    np.divide(above, below, out=made, where=below != 0)
    return made
