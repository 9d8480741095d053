"""Where the tags of a page stand, found once for the guard and the mending, without a parser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]

_AHEAD = 12  # no tag of interest begins in the last bytes: looking a few bytes ahead stays inside
_AT_ONCE = 10_000  # tags as Python numbers
_ENDS = b"\t\n\x0c\r />"  # what may follow a tag's name


def views(column: pa.LargeStringArray) -> Callable[[int], Bytes]:
    """Row number of a text column to the row's UTF-8 bytes, not copied."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset :] if offsets is not None else np.zeros(1, np.int64)
    everything = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
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
_ASKED, _LOOSE = pair_table(("body", "figure", "pre", "noscript")), pair_table(SKIPPED)
_NAME = re.compile(rb"(body|figure|pre|noscript)[\t\n\f\r />]", re.IGNORECASE)
_LOOSE_NAME = re.compile(rb"(body|figure|pre|noscript|ul|nav|aside|header|footer|section)[\t\n\f\r />]", re.IGNORECASE)
_PARAGRAPH = pair_table(["p"])


@dataclass(slots=True)
class Tags:
    """data: the page in UTF-8. at: every ``<``. closing: whether ``/`` follows it.

    pairs: the first two bytes of each name, letters in lower case.
    """

    data: Bytes
    at: Places = field(init=False)
    closing: Flags = field(init=False)
    pairs: npt.NDArray[np.uint16] = field(init=False)

    def __post_init__(self) -> None:
        data = self.data
        self.at = np.flatnonzero(data[:-_AHEAD] == 0x3C)
        after = data[self.at + 1]
        self.closing = after == 0x2F
        name = self.at + self.closing
        pairs = (data[name + 1] | np.uint8(0x20)).astype(np.uint16)
        self.pairs = np.bitwise_or(np.left_shift(pairs, np.uint16(8)), data[name + 2] | np.uint8(0x20), dtype=np.uint16)

    def markup(self) -> str:
        """The page as it is."""
        return self.data.tobytes().decode()

    def paragraphs(self) -> int:
        """How many ``<p>`` begin."""
        return int(np.count_nonzero(_PARAGRAPH[self.pairs] & ~self.closing))

    def asked(self, raw: bytes) -> Iterator[tuple[str, int]]:
        """Names ("/pre" for a closing tag) and places of the tags that mending looks for, in order of place.

        Those of ``SKIPPED`` only where they open and no ``>`` stands right before. raw: ``data`` as bytes.
        """
        loose = _LOOSE[self.pairs] & ~self.closing & (self.data[self.at - 1] != 0x3E)
        rows = np.flatnonzero(_ASKED[self.pairs] | loose)
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            for at, slash, inside in zip(
                self.at[some].tolist(), self.closing[some].tolist(), loose[some].tolist(), strict=True
            ):
                name = (_LOOSE_NAME if inside else _NAME).match(raw, at + 1 + slash)
                if name:
                    yield "/" * slash + name[1].decode().lower(), at

    def first(self, names: Flags) -> int | None:
        """Place of the first opening tag whose name may be one of a ``pair_table``."""
        found = np.flatnonzero(names[self.pairs] & ~self.closing)
        return int(self.at[found[0]]) if len(found) else None
