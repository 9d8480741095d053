"""Names of elements as small numbers, found for all tags of a page at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint8]

# The order is part of the model: features count elements by it. Append, never insert.
NAMES = (
    "", "html", "head", "title", "body", "div", "span", "a", "p", "li", "ul", "ol", "dl", "dt", "dd", "h1", "h2", "h3",
    "h4", "h5", "h6", "table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "pre", "code", "blockquote",
    "article", "main", "section", "nav", "header", "footer", "aside", "form", "fieldset", "label", "button", "figure",
    "figcaption", "noscript", "details", "summary", "dialog", "menu", "center", "font", "b", "strong", "i", "em", "u",
    "small", "sup", "sub", "time", "address", "hgroup", "listing", "frameset", "math", "br", "hr", "img", "input",
    "wbr", "q", "cite", "kbd", "samp", "tt", "dir", "legend", "picture", "ins", "del", "area", "base", "basefont",
    "bgsound", "col", "embed", "frame", "keygen", "link", "meta", "param", "source", "track", "abbr", "mark", "s",
    "colgroup", "search", "optgroup", "output", "ruby", "rt", "rp", "mi", "mo", "mn", "mtext", "xmp", "plaintext",
)  # fmt: skip
ID = {name: number for number, name in enumerate(NAMES)}
_VOID = "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr"
VOID = frozenset(_VOID.split())
# elements that do not begin a new block; all others do, custom ones too (a page may build its layout of them)
_INLINE = (
    "span a code label b strong i em u small sup sub time font q cite kbd samp tt ins del abbr mark s wbr img input "
    "picture source area ruby rt rp br td th math mi mo mn mtext output embed param track"
)
INLINE = frozenset(_INLINE.split())
_WIDTH = 8


def _key(name: str) -> int:
    return int.from_bytes(name.encode()[:_WIDTH].ljust(_WIDTH, b"\0"), "little")


def _table() -> tuple[np.uint64, npt.NDArray[np.uint8]]:
    """A multiplier that gives every name another 11 bits, and the number of the name for these bits."""
    keys = np.array([_key(name) for name in NAMES[1:]], np.uint64)
    factor = 0x9E3779B97F4A7C15
    for _ in range(10_000):
        places = (keys * np.uint64(factor)) >> np.uint64(53)
        if len(np.unique(places)) == len(keys):
            table = np.zeros(1 << 11, np.uint8)
            table[places] = np.arange(1, len(NAMES), dtype=np.uint8)
            return np.uint64(factor), table
        factor = (factor * 6364136223846793005 + 1442695040888963407) % (1 << 64) | 1
    raise AssertionError("no perfect hash of the names")


_KEYS = np.array([_key(name) for name in NAMES], np.uint64)
_FACTOR, _PLACES = _table()
_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)


def identify(first: npt.NDArray[np.uint64]) -> Ids:
    """Numbers of names in ``NAMES`` from the first eight bytes of each, little endian; 0: a name not listed."""
    # the lowest byte that is ``>``, or a blank or less, marked by its top bit; the name is what lies below it
    other = first ^ (_ONES * np.uint64(0x3E))
    ends = ((other - _ONES) & ~other | (first - _ONES * np.uint64(0x21)) & ~first) & _TOPS
    key = first & (((ends & (~ends + np.uint64(1))) >> np.uint64(7)) - np.uint64(1))
    ids = _PLACES[(key * _FACTOR) >> np.uint64(53)]
    ids[_KEYS[ids] != key] = 0
    return np.asarray(ids, np.uint8)
