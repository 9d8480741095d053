"""Saves characters that stand alone between two tags.

Resiliparse 2.0.1's main content means to skip icon fonts (one private-use character in an element of its own) and skips
nearly every character of three UTF-8 bytes: ``<a>one</a>–<a>two</a>`` becomes "onetwo", ``<b>東</b>京`` becomes
"東". A mark put beside such a character makes it two, and is taken out of the text again.
"""

from __future__ import annotations

import html
import re

import numpy as np
import numpy.typing as npt

MARK = "\ufdd0"  # a noncharacter: no text holds it

# kept: letters and what belongs to running text; not bullets, guillemets of bread-crumbs, shapes, dingbats, icons
_TEXT = (
    "\u0900-\u1fff\u2010-\u201f\u2024-\u2027\u2030-\u2037\u203b-\u205e\u2070-\u218f\u2190-\u2194\u2200-\u22ff"
    "\u2c00-\u2dff\u2e80-\ud7ff\uf900-\ufaff\ufb00-\ufdcf\ufdf0-\ufdff\ufe30-\ufefe\uff01-\uffee"
)
_LONE = re.compile(f"[>\\s]([{_TEXT}])(?=\\s*<)")
_REFERENCE = re.compile(r">\s*&(?:#(?:\d{4,5}|[xX][0-9a-fA-F]{3,4})|[A-Za-z]{2,8});(?=\s*<)")
_IN_TEXT = re.compile(f"[{_TEXT}]")
_BLANK = np.zeros(256, bool)
_BLANK[[0x09, 0x0A, 0x0C, 0x0D, 0x20]] = True
_BEFORE, _AFTER = _BLANK.copy(), _BLANK.copy()
_BEFORE[0x3E] = _AFTER[0x3C] = True


def mark(markup: str, data: npt.NDArray[np.uint8]) -> str:
    """The markup with a mark after each lone character; ``data`` is the same in UTF-8. Most pages come back as given."""
    places = [] if len(data) == len(markup) else _lone_characters(markup, data)
    if "&" in markup:
        places += _lone_references(markup)
    if not places:
        return markup
    places.sort()
    parts = [markup[a:b] for a, b in zip([0, *places], [*places, len(markup)], strict=True)]
    return MARK.join(parts)


def _lone_characters(markup: str, data: npt.NDArray[np.uint8]) -> list[int]:
    head = (data[1:-3] & 0xF0) == 0xE0
    if not head.any():
        return []
    at = np.flatnonzero(head)
    at = at[_BEFORE[data[at]] & _AFTER[data[at + 4]]]
    if len(at) == 0:
        return []
    return [found.end() for found in _LONE.finditer(markup) if _opened(markup, found.start())]


def _opened(markup: str, at: int) -> bool:
    """Whether only blanks stand between ``at`` and the ``>`` before it."""
    return markup[max(0, at - 64) : at + 1].rstrip().endswith(">")


def _lone_references(markup: str) -> list[int]:
    return [f.end() for f in _REFERENCE.finditer(markup) if _IN_TEXT.fullmatch(html.unescape(f[0][1:].strip()))]
