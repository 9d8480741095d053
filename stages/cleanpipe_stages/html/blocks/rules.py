"""What needs no model: blocks that a browser never shows, and the furniture of a page."""

from __future__ import annotations

import re

import numpy as np

from cleanpipe_stages.html.blocks.segment import Blocks, Places
from cleanpipe_stages.html.blocks.tables import Flags, inside, named, pairs

# Folded answers, tabs and streamed pages are hidden too, until a script shows them. Of 500 labelled pages
# (WCXB-train) the share of hidden 4-grams that belong to the main text: without a name or class by which a script could
# find the element 1 %, below 200 bytes 11 %, above 22 %. The last are the model's affair.
_SMALL = 200

_REPLACED, _FEW = "\ufffd".encode(), 6  # half a character at the end of a cut page is no text; bytes

_STYLE, _HIDDEN = (np.uint64(int.from_bytes(name, "little")) for name in (b' style="', b'hidden="'))
_NONE = re.compile(rb"display:\s?none", re.IGNORECASE)
_BARE = re.compile(rb"""<[^\s>]+(?:\s(?:style|hidden|align)="[^"]*")*\s*/?>""", re.IGNORECASE)
_WHOLE = named(["html", "body", "main", "article"])  # hidden until the page is loaded
_UNSHOWN = named(["title", "noscript"])
# left to the model, F1 on held-out hosts: nav -.0003, footer -.0010, both -.0013 ± .0005
_NEVER = _UNSHOWN | named(["nav", "footer"])
_FURNITURE = named(["title", "nav", "header", "footer", "aside"])


def unseen(blocks: Blocks, *, all_hidden: bool = False) -> Flags:
    """Blocks in elements that say that they are not shown (``hidden``, ``display:none``) and will hardly ever be.

    Menus and feet, titles, and what is said to browsers without scripts too.

    all_hidden: large ones that a script may show too.
    """
    return both(blocks)[all_hidden]


def both(blocks: Blocks, *, main: bool = True) -> tuple[Flags, Flags]:
    """``unseen`` without and with ``all_hidden``. main: False leaves menus and feet, which browsers do show."""
    tags, html = blocks.tags, blocks.html
    rows = _hidden(blocks)
    never_read = _NEVER if main else _UNSHOWN
    names = never_read.copy()
    names[tags.name[rows]] = True
    begin, end = pairs(blocks, names)
    low, high = blocks.until[begin], blocks.until[end]
    out = never_read[tags.name[begin]]
    if len(rows):
        total = np.cumsum(np.append(0, blocks.end - blocks.start))
        hidden = np.searchsorted(begin, rows)
        spans = zip(tags.at[rows].tolist(), tags.end[rows].tolist(), strict=True)
        bare = np.array([_BARE.fullmatch(html, a, b) is not None for a, b in spans], bool)
        everything = out.copy()
        everything[hidden] = True
        out[hidden] |= bare | (total[high[hidden]] - total[low[hidden]] < _SMALL)
    never = inside(low[out], high[out], len(blocks))
    few = np.flatnonzero((blocks.end - blocks.start <= _FEW) & (blocks.data.take(blocks.start) == _REPLACED[0]))
    for row in few.tolist():
        never[row] |= not html[blocks.start[row] : blocks.end[row]].strip(_REPLACED)
    return never, never | inside(low[everything], high[everything], len(blocks)) if len(rows) else never


def furniture(blocks: Blocks) -> Flags:
    """Blocks in menus, heads, feet and asides."""
    begin, end = pairs(blocks, _FURNITURE)
    return inside(blocks.until[begin], blocks.until[end], len(blocks))


def _hidden(blocks: Blocks) -> Places:
    """Rows of the opening tags of elements that say so."""
    tags, data, quotes = blocks.tags, blocks.data, blocks.quotes
    before = blocks.named
    style = before == _STYLE
    asked = np.flatnonzero(style | ((before == _HIDDEN) & (data[np.maximum(quotes - 8, 0)] == 0x20)))
    rows = np.searchsorted(tags.at, quotes[asked], "right") - 1
    good = (quotes[asked] < tags.end[rows]) & (tags.sign[rows] > 0) & ~_WHOLE[tags.name[rows]]
    asked, rows = asked[good], rows[good]
    ends = np.append(quotes, len(blocks.html))[asked + 1]
    values = zip(style[asked].tolist(), quotes[asked].tolist(), ends.tolist(), strict=True)
    html = blocks.html
    hides: list[bool] = [
        _NONE.search(html, a, b) is not None if styled else not html[a + 1 : b].lower().startswith(b"until-found")
        for styled, a, b in values
    ]
    return np.unique(rows[np.array(hides, bool)])
