"""A page as a parser in C understands it, written out again: every tag is balanced, every ``<`` is a tag."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]

# never text of a page; what a browser hides stays, for some of it is read later (folded answers): the model decides
_GONE = (
    "script,style,template,svg,iframe,noembed,noframes,object,canvas,video,audio,select,textarea,datalist,progress,"
    "meter,applet,head > :not(title),annotation,annotation-xml,rp,img,picture,source,input,map"
)
_RAW = [
    (np.uint64((1 << 8 * len(n)) - 1), np.uint64(int.from_bytes(n, "little")))
    for n in (b"xmp", b"plaintex", b"listing")
]
_RAW_NAMES = (b"<xmp", b"<plaintext", b"<listing")
_INSTRUCTION = re.compile(rb"<\?[^>]*>")


def written(markup: bytes) -> bytes:
    """``balanced`` without its looks at rare faults, which ``forest`` can do for many pages at once."""
    return _encoded(_parsed(markup))


def balanced(markup: bytes) -> bytes:
    """The page as a parser understands it, less the elements that hold no text, comments and instructions."""
    tree = _parsed(markup)
    html = _encoded(tree)
    data = np.frombuffer(html, np.uint8)
    odd = np.count_nonzero(data == 0x3C) != np.count_nonzero(data == 0x3E)
    if odd or any(name in html for name in _RAW_NAMES):  # ``<div class=a <p>`` names an attribute, or an element, "<p"
        _mend(tree)
        html = _encoded(tree)
    return _INSTRUCTION.sub(b"", html) if b"<?" in html else html


def _parsed(markup: bytes) -> Any:
    import turbohtml

    tree = turbohtml.parse(markup, encoding="utf-8", positions=False)
    tree.remove(_GONE)
    return tree


def _encoded(tree: Any) -> bytes:
    html: bytes = tree.encode("utf-8", _layout())
    return html


def _mend(tree: Any) -> None:
    """Takes away what may hold a ``<`` that begins no tag: names of elements and attributes, text without escapes."""
    for element in tree.find_all(["xmp", "plaintext", "listing"]):
        element.tag = "pre"
    for element in tree.select("*"):
        if "<" in element.tag:
            element.tag = "span"
        for name in [name for name in element.attrs if "<" in name]:
            del element.attrs[name]


@cache
def _layout() -> Any:
    from turbohtml import Html, Minify

    return Html(
        layout=Minify(
            collapse_whitespace=False, omit_optional_tags=False, unquote_attributes=False, strip_comments=True
        )
    )


def doubtful(data: Bytes, at: Places, end: Places, pages: Places) -> frozenset[int]:
    """Numbers of the pages that ``balanced`` writes otherwise than ``written``."""
    opens = np.searchsorted(at, pages)
    odd = np.diff(opens) != np.diff(np.searchsorted(end, pages, "right"))
    names = eight(data)[at + 1]
    raw = (names & _RAW[0][0] == _RAW[0][1]) | (data[at + 1] == 0x3F)
    for mask, name in _RAW[1:]:
        raw |= names & mask == name
    rows = np.flatnonzero(raw)
    odd[np.searchsorted(opens, rows, "right") - 1] = True
    return frozenset(np.flatnonzero(odd).tolist())


def few(flags: npt.NDArray[np.bool_]) -> Places:
    """Places of the flags that are set, which are few: eight are passed over at a time."""
    if rest := len(flags) % 8:
        return np.append(few(flags[:-rest]), len(flags) - rest + np.flatnonzero(flags[-rest:]))
    eights = flags.view(np.uint64)
    some = np.flatnonzero(eights != 0)
    inside = np.flatnonzero(eights.take(some).view(bool))
    some *= 8
    some -= np.arange(0, 8 * len(some), 8)
    some = some.take(inside >> 3)
    some += inside
    return some


def eight(data: Bytes) -> npt.NDArray[np.uint64]:
    """The eight bytes from every place on."""
    return np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
