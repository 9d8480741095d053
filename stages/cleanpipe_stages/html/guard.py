"""What a page may cost, decided before any parser sees it: counts and nesting, never a clock.

Parsers and extractors are quadratic in three things. Measured with resiliparse 2.0.1: 20,000 nested ``<div>`` take 4 s,
20,000 ``<option>`` in one ``<select>`` 1 s, 20,000 attributes on one tag, or of all ``<body>`` tags together, 0.7 s; a
formatting tag that is never closed (``<font size=1>``) is opened again inside every later block. A flat page of 300,000
elements takes 0.5 s.

Two looks: a vectorised one that clears nearly every page by numbers of opening tags alone, and for the others one
reading of the tags that follows what a parser holds open (nesting.py). A closing tag is believed in the second only:
it may stand in a comment, a script or a value, or close nothing (``<span><div></span>``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np

from cleanpipe_stages.html.names import FORMATTING
from cleanpipe_stages.html.nesting import Nesting
from cleanpipe_stages.html.tags import CONTENT, LETTER, SKIPPED, Bytes, Flags, Places, Tags, pair_table

TOO_DEEP, TOO_MANY_ELEMENTS = "too_deep", "too_many_elements"

MEDIUM = 8_000  # opening tags: all of them nested take 1.1 s, <a><div></a> 1.6 s
FEW = 2_500  # opening tags: up to here the lower of two bounds, for to read few tags costs little
# Elements × formatting opened again in each × its depth, if all nest. At the bounds the worst page takes 5 s and 18 s
# (100 <font>, 1,000 <div>, 1,000 <p>: 15 s, refused). Of 1,492 real pages 21 are beyond, and are read.
REOPENED_FEW, REOPENED = 128_000_000, 512_000_000
_WORK = 20_000_000  # elements × their depth, as read: 0.6 s; reopened fonts 3 s; real pages have 200,000 at most
HUGE, _CROWD = 4 << 20, 8  # bytes; "<" for each element allowed: opening, closing, and some that are text
_OPTIONS = 15_000
ATTRIBUTES = 20_000  # of one tag
LONG = 3 * ATTRIBUTES  # bytes that so many attributes need at least
PAGE_ATTRIBUTES = 2_000  # names, of all <body> and <html> tags: 60 MB in turbohtml, 5.8 GB for 20,000
_FAT_PAGE, FAT = 1 << 14, 256  # bytes; formatting tags of so many are looked at in pages of so many
COPIES = 32 << 20  # bytes of such tags × elements: opened again in each block, their attributes are copied
_READINGS = 4  # of the whole page, in search of such a tag
SIGHT = 4096  # bytes in which an element's end is looked for
_NEAR_TAG = 64  # blanks in which mend looks for a tag before a block
_LISTED = 4096  # bytes: mend makes a list whose tag is longer a <div>

MAY_FORMAT, LISTS, PAGE = (
    pair_table(FORMATTING - {"a", "nobr"}),
    pair_table(("ul", "ol")),
    pair_table(("body", "html")),
)
FORMATS, _LINKS = pair_table(FORMATTING), pair_table(("a", "nobr"))
LINES = pair_table(("p", "br"))  # </p> and </br> make an element where none is open


@dataclass(frozen=True, slots=True)
class Limits:
    """depth: elements inside one another. elements: opening tags."""

    depth: int
    elements: int


def crowded(data: Bytes, limits: Limits) -> bool:
    """Whether there are so many ``<`` that even their places would fill the memory."""
    return len(data) > HUGE and int(np.count_nonzero(data == 0x3C)) > _CROWD * limits.elements


def refusal(tags: Tags, limits: Limits) -> str | None:
    """Why the page may not be parsed, or None: one of the two reasons above.

    Depth is judged on pages of more than 8,000 opening tags, or with many lists: others cannot become dear by it.
    """
    data = tags.data
    long = False
    opens = tags.opens
    makes, ends = int(np.count_nonzero(opens)), int(np.count_nonzero(tags.closing))
    if len(data) >= _FAT_PAGE:
        gaps = np.diff(tags.at, append=len(data))
        if _page_tags_are_long(tags, gaps) or _copied(tags, gaps, opens, makes):
            return TOO_MANY_ELEMENTS
        long = len(data) >= LONG and _any_long(data, tags.at[gaps >= LONG])
    lines = int(np.count_nonzero(tags.closing & LINES[tags.pairs]))
    lists = int(np.count_nonzero(LISTS[tags.pairs] & opens))  # they are indented in the text: nested ones make it long
    plain = not long and lists <= limits.depth and ends <= 2 * MEDIUM and lines <= MEDIUM
    plain = plain and len(tags.at) - makes - ends <= ATTRIBUTES  # "<" that begins no tag: text, or attribute values
    return None if plain and _clearly_cheap(tags, opens, makes) else _read_tags(tags.markup(), limits)


def _any_long(data: Bytes, tags: Iterable[int]) -> bool:
    """Whether a tag, not the script or text after it, may have too many attributes (script text may look as if).

    Tags without an end reach over one another: more reading than a few times the page is taken for a yes.
    """
    page, left = data.data, _READINGS * len(data)
    for tag in tags:
        found = _LONG_TAG.match(page, int(tag)) if LETTER[data[tag + 1 + (data[tag + 1] == 0x2F)]] else None
        if found is None or found.end() - tag < LONG:
            continue
        if left < 0 or _too_many_attributes(page[found.start() : found.end()]):
            return True
        left -= found.end() - found.start()
    return False


def _too_many_attributes(tag: bytes | memoryview) -> bool:
    return sum(1 for _ in islice(_ATTRIBUTE.finditer(tag), ATTRIBUTES + 1)) > ATTRIBUTES


def _page_tags_are_long(tags: Tags, gaps: Places) -> bool:
    """Whether all ``<body>`` and ``<html>`` tags, which a parser makes one of, have too many attributes together."""
    rows = np.flatnonzero(PAGE[tags.pairs] & ~tags.closing)
    if len(rows) < 2 or int(gaps[rows].sum()) < 3 * PAGE_ATTRIBUTES:
        return False
    page, names = tags.data.data, set[bytes]()
    for at, gap in zip(tags.at[rows].tolist(), gaps[rows].tolist(), strict=True):
        found = _PAGE_TAG.match(page, at, at + gap)
        if found is not None:
            for attribute in _ATTRIBUTE.finditer(page[at : found.end()]):
                names.add(bytes(attribute[1]).lower())
                if len(names) > PAGE_ATTRIBUTES:
                    return True
    return False


def _copied(tags: Tags, gaps: Places, opens: Flags, makes: int) -> bool:
    """Whether long formatting tags that stay open are too much, if each element holds a copy of them.

    Of links only one is open at a time.
    """
    rows = np.flatnonzero(FORMATS[tags.pairs] & opens & (gaps >= FAT))
    if int(gaps[rows].sum()) * makes <= COPIES:
        return False
    page, size, link = tags.data.data, 0, 0
    for place, is_link in zip(tags.at[rows].tolist(), _LINKS[tags.pairs[rows]].tolist(), strict=True):
        found = _LONG_TAG.match(page, place) if _FORMATTING.match(page, place) else None
        if found is None or (long := found.end() - place) < FAT or _CLOSED.match(page, place, found.end() + SIGHT):
            continue
        size, link = (size, max(link, long)) if is_link else (size + long, link)
        if (size + link) * makes > COPIES:
            return True
    return False


# Possessive, for without it each character read inside (?:…|…)* takes some 100 bytes of memory until the match ends.
# a quote without its fellow is a letter of an attribute's name
_LONG_TAG = re.compile(rb"""<(?:[^"'>]++|"[^"]*+"|'[^']*+'|["'])*+""")
_PAGE_TAG = re.compile(rb"""<(?:body|html)[\t\n\f\r /](?:[^"'>]++|"[^"]*+"|'[^']*+'|["'])*+""", re.IGNORECASE)
_ATTRIBUTE = re.compile(rb"""[\s/"']([^\s/>"'=]++)(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'>]++))?""")


def _clearly_cheap(tags: Tags, opens: Flags, makes: int) -> bool:
    """Whether all opening tags inside one another, with the formatting among them opened again each time, are cheap.

    What has its end in plain sight ("<b>a <a>word</a></b>") holds nothing and stays open for nothing.
    """
    formats = MAY_FORMAT[tags.pairs] & opens
    unclosed, nests = int(np.count_nonzero(formats)), makes
    if _cheap(makes, unclosed, nests):
        return True
    if not _cheap(makes, 0, 0):
        return False
    page = tags.data.data
    closed = _closed(page, tags.at[formats])
    unclosed, nests = unclosed - closed, nests - closed
    if _cheap(makes, unclosed, nests):
        return True
    rest = np.flatnonzero(opens & ~formats)[:-1]
    rest = rest[tags.closing[rest + 1] & (tags.pairs[rest] == tags.pairs[rest + 1])]
    if not _cheap(makes, unclosed, nests - len(rest)):
        return False
    return _cheap(makes, unclosed, nests - _closed(page, tags.at[rest]))


def _cheap(makes: int, unclosed: int, nests: int) -> bool:
    if makes > MEDIUM or makes * nests > MEDIUM**2:
        return False
    return makes * (1 + unclosed) * (nests + unclosed) <= (REOPENED_FEW if makes <= FEW else REOPENED)


def _closed(page: memoryview, places: Places) -> int:
    return sum(1 for at in places.tolist() if _CLOSED.match(page, at, at + SIGHT))


_FORMATTING = re.compile(rf"<(?:{'|'.join(sorted(FORMATTING))})[\t\n\f\r />]".encode(), re.IGNORECASE)

# what stands behind a tag's name, as the standard's tokenizer reads it: a value may hold any quote but its own
_BLANK = r"\t\n\f\r "
_TAG_REST = (
    rf"""(?:[{_BLANK}/]++|=?[^{_BLANK}/>=]++(?:[{_BLANK}]*+=[{_BLANK}]*+"""
    rf"""(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|(?=>)|[^{_BLANK}>"'][^{_BLANK}>]*+))?|=)*+"""
)
_CLOSED = re.compile(
    rf"<([a-z]++)(?=[{_BLANK}/>]){_TAG_REST}>"
    rf"(?:[^<]++|<(?:br|img)(?=[{_BLANK}/>]){_TAG_REST}>|<([a-z]++)(?=[{_BLANK}/>]){_TAG_REST}>[^<]*+</\2[{_BLANK}>])*+"
    rf"</\1[{_BLANK}>]".encode(),
    re.IGNORECASE,
)
_TOKEN = re.compile(rf"<(?:(!--|[!?]|/[^A-Za-z])|(/?)([A-Za-z][^{_BLANK}/>]*+)({_TAG_REST})>?+)")
_COMMENT_END = re.compile(r"--!?>")
_RAW_END = {
    name: re.compile(rf"</{name}(?=[{_BLANK}/>])", re.IGNORECASE)
    for name in ("style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
}
_SCRIPT_PART = re.compile(rf"<!--|-->|<(/?)script(?=[{_BLANK}/>])", re.IGNORECASE)
_BODY = re.compile(rf"<body[{_BLANK}/>]", re.IGNORECASE)
_WRAPS = ("div",) * 3
_FILLED, _MARK = ("pre", "ul", "ol"), "x"  # mend puts signs into these
_MENDED = {"figure": "div", "noscript": "template"}  # what mend makes of them


def _read_tags(markup: str, limits: Limits) -> str | None:
    """One reading of the tags in order: real depth, elements, and formatting that stays open across blocks."""
    held = Nesting()
    stack, waiting, search, start, end = held.stack, held.waiting, _TOKEN.search, held.start, held.end
    options = indented = at = deaf = 0
    wrapped = False  # mend puts three blocks around all, at <body> or the first block
    body = _BODY.search(markup) is not None
    depth = limits.depth + len(_WRAPS)
    while found := search(markup, at):
        begin = found.start()
        if waiting and begin > at and (last := waiting[-1]) is not None and not last.open:
            held.text(markup[at:begin])
        at = found.end()
        sign, closes, name, attributes = found.groups()
        if name is None:
            after = _behind_comment(markup, begin, sign, held)
            if after < 0:
                break
            at = after
            continue
        if at - begin >= LONG and _too_many_attributes(markup[begin:at].encode(errors="replace")):
            return TOO_MANY_ELEMENTS
        name = name.lower()
        if name in _MENDED:
            name = _MENDED[name]
        if not wrapped and (name == "body" if body else name in CONTENT) and not closes and at - begin <= _LISTED:
            wrapped = True
            for block in _WRAPS:
                start(block, "")
        if closes:
            if begin < deaf:
                continue
            if name == "pre":
                held.text(_MARK)
            end(name)
            if name in ("p", "br"):
                indented += held.within("ul") + held.within("ol")
            if held.work > _WORK or indented > _WORK:
                return TOO_DEEP
            if held.elements > limits.elements:
                return TOO_MANY_ELEMENTS
            continue
        options += name == "option"
        if name in SKIPPED and not markup[max(0, begin - _NEAR_TAG) : begin].rstrip("\t\n\f\r ").endswith(">"):
            start("br", "")  # mend's
        if name in ("ul", "ol") and at - begin > _LISTED:
            name = "div"
        raw = start(name, attributes)
        if held.elements > limits.elements or options > _OPTIONS or held.work > _WORK:
            return TOO_MANY_ELEMENTS
        if len(stack) + held.frames > depth:
            return TOO_DEEP
        if waiting and name in _FILLED:
            held.text(_MARK)
        if raw and begin >= deaf:
            ends = _behind_raw(markup, at, name)
            if held.doubtful:  # it may be no raw text: what opens there counts, what closes does not
                deaf = ends if ends >= 0 else len(markup)
            elif ends < 0:
                break
            else:
                at = ends
    return None


def _behind_comment(markup: str, begin: int, sign: str, held: Nesting) -> int:
    """The end of a comment or of what is read as one, -1 where it never ends."""
    if sign == "!--":
        at = begin + 4
        if markup.startswith((">", "->"), at):
            return at + 1
        ends = _COMMENT_END.search(markup, at)
        return ends.end() if ends else -1
    sought = "]]>" if held.foreign and markup.startswith("<![CDATA[", begin) else ">"
    at = markup.find(sought, begin + 2)
    return at if at < 0 else at + len(sought)


def _behind_raw(markup: str, at: int, name: str) -> int:
    """Where the closing tag of an element of raw text begins, -1 where there is none."""
    if name != "script":
        found = _RAW_END[name].search(markup, at) if name in _RAW_END else None
        return found.start() if found else -1
    # a script in a comment in a script does not end the outer one
    escaped = 0
    while found := _SCRIPT_PART.search(markup, at):
        at = found.end()
        if found[0] == "<!--":
            escaped = escaped or 1
            at -= 2  # "<!-->" is begin and end
        elif found[0] == "-->":
            escaped = 0
        elif found[1]:
            if escaped < 2:
                return found.start()
            escaped = 1
        elif escaped:
            escaped = 2
    return -1
