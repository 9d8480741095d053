"""Small edits of markup before resiliparse (2.0.1) reads it, each for text that its main content loses.

- A character alone between two tags. Meaning to skip icon fonts it skips nearly every character of three UTF-8 bytes:
  ``<a>one</a>–<a>two</a>`` became "onetwo", ``<b>東</b>京`` became "東". A mark beside it makes it two.
- Lists near <body> are navigation to it: b091 lost every item. Three blocks around all put them out of its reach.
- <figure> is skipped whole, and code, tables and quotations stand in figures: it becomes a <div>.
- What it skips between two loose texts it also glues: "one<ul class=menu>…</ul>two" became "onetwo". A <br> parts them.
- <noscript> in a page's head is text of its body to a parser without scripts: it becomes a <template>.
- An empty list is never left again: every later line is indented by it, a page of 1 MB to 8 GB of blanks, and the
  process ends. Where that can matter each list is given a blank to hold.
- What is preformatted cannot be told in its output, where list items are indented too: marks around <pre>.

All marks are noncharacters and are taken out of the text again by ``unmark``.
"""

from __future__ import annotations

import html
import re
from functools import lru_cache

from cleanpipe_stages.html.tags import BLANKS, CONTENT, SKIPPED, Tags, pair_table

Edit = tuple[int, int, bytes]  # at this byte leave out so many and put these in

_LONE, _OPEN, _CLOSE = "\ufdd0", "\ufdd1\ufdd1", "\ufdd2\ufdd2"  # by twos: alone they would be skipped
_BLOCKS = b"<div>" * 3
_LONE_BYTES, _OPEN_BYTES, _CLOSE_BYTES = _LONE.encode(), _OPEN.encode(), _CLOSE.encode()  # one object for all edits
_AT_ONCE = 10_000  # edits
_INDENTED = 5_000_000  # lists × tags: two blanks of indentation for each

# kept: letters and what belongs to running text; not bullets, the guillemets of bread-crumbs, shapes, dingbats, icons
_TEXT = re.compile(
    "[\u0900-\u1fff\u2010-\u201f\u2024-\u2027\u2030-\u2037\u203b-\u205e\u2070-\u218f\u2190-\u2194\u2200-\u22ff"
    "\u2c00-\u2dff\u2e80-\ud7ff\uf900-\ufaff\ufb00-\ufdcf\ufdf0-\ufdff\ufe30-\ufefe\uff01-\uffee]"
)
_REFERENCE = re.compile(rb"&(?:#\d{4,5}|#[xX][0-9a-fA-F]{3,4}|[A-Za-z]{2,8});")
_WHOLE_TAG = re.compile(rb"""<(?:[^"'>]++|"[^"]*+"|'[^']*+')*+>""")
_NEAR_TAG = 64  # blanks between a lone character and the tags beside it
_LISTS, _NAME_ENDS = pair_table(("ul", "ol")), b"\t\n\x0c\r />"
_CONTENT = pair_table(CONTENT)


def mended(tags: Tags) -> tuple[bytes, bool]:
    """The page with the edits made, in UTF-8, and whether three blocks stand around its content."""
    raw = tags.data.tobytes()
    wrapped = tags.shallow()
    edits = _elements(tags, raw, wrapped)
    edits += _lone_characters(tags, raw)
    edits += _lists(tags, raw)
    edits.sort()
    whole: list[bytes] = []
    parts: list[bytes] = []
    done = 0
    for first in range(0, len(edits), _AT_ONCE):
        if parts:
            whole.append(b"".join(parts))
            parts = []
        for at, drop, insert in edits[first : first + _AT_ONCE]:
            parts += (raw[done:at], insert)
            done = at + drop
    return b"".join([*whole, *parts, raw[done:]]), wrapped


def unmark(text: str) -> str:
    """The text without marks, lines flush left outside preformatted blocks."""
    if text.isascii() or not any(mark in text for mark in _MARKS):
        return _flush(text).lstrip()
    if _OPEN in text or _CLOSE in text:
        out: list[str] = []
        depth = 0
        done = 0
        for block in _BLOCK.finditer(text):
            part = text[done : block.start()]
            out.append(part if depth else _flush(part))
            done = block.end()
            depth = max(0, depth + (1 if block[0] == _OPEN else -1))
            if block[0] == _OPEN:
                out[-1] = out[-1].rstrip(" \t")  # an item's indentation stands before the block's first line
        out.append(text[done:] if depth else _flush(text[done:]))
        text = "".join(out)
    else:
        text = _flush(text)
    for mark in _MARKS:
        text = text.replace(mark, "")
    return text.lstrip("\n")


def _flush(text: str) -> str:
    """The text with no blanks at the beginning of its lines but the first."""
    return _INDENT.sub("\n", text) if "\n " in text or "\n\t" in text else text


_INDENT = re.compile(r"\n[ \t]+")
_MARKS = (_LONE, _OPEN[0], _CLOSE[0])
_BLOCK = re.compile(f"{_OPEN}|{_CLOSE}")


def _elements(tags: Tags, raw: bytes, wrap: bool) -> list[Edit]:
    edits: list[Edit] = []
    body: int | None = None
    for name, at in tags.asked():
        if name == "figure":
            edits.append((at + 1, len(name), b"div"))
        elif name == "/figure":
            edits.append((at + 1, len(name), b"/div"))
        elif name.endswith("noscript"):
            edits.append((at + 1 + name.startswith("/"), len("noscript"), b"template"))
        elif name in SKIPPED:
            edits.append((at, 0, b"<br>"))
        elif name == "/pre":
            edits.append((at, 0, _CLOSE_BYTES))
        elif (end := _tag_end(raw, at)) is None:
            continue
        elif name == "body":
            body = end if body is None else body
        elif name == "pre":  # a parser leaves out the line break right after the tag
            edits.append(
                (end + (2 if raw.startswith(b"\r\n", end) else raw[end : end + 1] in (b"\n", b"\r")), 0, _OPEN_BYTES)
            )
    if body is None and wrap:
        body = tags.first(_CONTENT)
    return edits if body is None or not wrap else [*edits, (body, 0, _BLOCKS)]


def _lists(tags: Tags, raw: bytes) -> list[Edit]:
    """A blank into each list. A list whose tag does not end in sight becomes a <div>."""
    if len(tags.at) ** 2 <= _INDENTED:
        return []
    places = tags.at[_LISTS[tags.pairs] & ~tags.closing]
    if len(places) * len(tags.at) <= _INDENTED:
        return []
    edits: list[Edit] = []
    for at in places.tolist():
        if raw[at + 3] in _NAME_ENDS:
            end = _tag_end(raw, at)
            edits.append((at + 1, 2, b"div") if end is None else (end, 0, b" "))
    return edits


def _tag_end(raw: bytes, at: int) -> int | None:
    found = _WHOLE_TAG.match(raw, at, at + 4096)
    return found.end() if found else None


def _lone_characters(tags: Tags, raw: bytes) -> list[Edit]:
    """Marks after characters of three bytes, and references to such, that stand between two tags."""
    edits: list[Edit] = []
    for place in tags.lone():
        if raw[place] == 0x26:
            found = _REFERENCE.match(raw, place)
            if found is None or not _spells_text(found[0]):
                continue
            end = found.end()
        else:
            end = place + 3
            if not _TEXT.fullmatch(raw[place:end].decode(errors="replace")):
                continue
        if _between_tags(raw, place, end):
            edits.append((end, 0, _LONE_BYTES))
    return edits


@lru_cache(maxsize=4096)  # of what a reference spells, the same for every page
def _spells_text(reference: bytes) -> bool:
    return _TEXT.fullmatch(html.unescape(reference.decode())) is not None


def _between_tags(raw: bytes, start: int, end: int) -> bool:
    before = raw[max(0, start - _NEAR_TAG) : start].rstrip(BLANKS)
    return before.endswith(b">") and raw[end : end + _NEAR_TAG].lstrip(BLANKS).startswith(b"<")
