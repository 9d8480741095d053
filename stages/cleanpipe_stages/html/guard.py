"""What a page may cost, decided before any parser sees it: counts and nesting, never a clock.

Parsers and extractors are quadratic in three things. Measured with resiliparse 2.0.1: 20,000 nested ``<div>`` take 4 s,
20,000 ``<option>`` in one ``<select>`` 1 s, 20,000 attributes on one tag 0.5 s; a formatting tag that is never closed
(``<font size=1>``) is opened again inside every later block. A flat page of 300,000 elements takes 0.5 s.

Two looks: a vectorised one that clears almost every page, on the safe side, and for the others one reading of the tags.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.html.tags import Bytes, Tags, pair_table

TOO_DEEP, TOO_MANY_ELEMENTS = "too_deep", "too_many_elements"

_SMALL = 1000  # tags: the dearest page of so few costs 1.5 s (two thirds unclosed <font>, one third blocks)
_MEDIUM = 8_000  # tags: all of them nested take 1.1 s
_WORK = 50_000_000  # elements × their depth: 0.8 s
_HUGE, _CROWD = 4 << 20, 8  # bytes; "<" for each element allowed: opening, closing, and some that are text
_OPTIONS = 15_000
_ATTRIBUTES = 20_000  # of one tag
_LONG = 3 * _ATTRIBUTES  # bytes that so many attributes need at least
_READINGS = 4  # of the whole page, in search of such a tag


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_VOID = _set("area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr")
_IMPLIED = _set("p li dt dd tr td th tbody thead tfoot colgroup caption option optgroup rt rp rb rtc html head body")
_FORMATTING = _set("b big code em font i s small strike strong tt u")
_RAW = _set("script style textarea title xmp iframe noembed noframes")


def _key(name: str) -> int:
    return int.from_bytes(name.encode()[:4].ljust(4, b"\0"), "big")


_KEYS_FLAT = np.array(sorted({_key(n) for n in _VOID | _IMPLIED}), np.uint32)
_KEYS_FORMATTING = np.array(sorted({_key(n) for n in _FORMATTING}), np.uint32)
_KEYS_LINE = np.array([_key("br"), _key("p")], np.uint32)  # </p> and </br> make an element where none is open
_KEY_OPTION = _key("option")
_IN_NAME = np.zeros(256, bool)
_IN_NAME[[*range(0x30, 0x3A), *range(0x41, 0x5B), *range(0x61, 0x7B)]] = True
_LETTER = _IN_NAME.copy()
_LETTER[0x30:0x3A] = False

_MAY_FORMAT, _LISTS = pair_table(_FORMATTING), pair_table(("ul", "ol"))


@dataclass(frozen=True, slots=True)
class Limits:
    """depth: elements inside one another. elements: opening tags."""

    depth: int
    elements: int


def crowded(data: Bytes, limits: Limits) -> bool:
    """Whether there are so many ``<`` that even their places would fill the memory."""
    return len(data) > _HUGE and int(np.count_nonzero(data == 0x3C)) > _CROWD * limits.elements


def refusal(tags: Tags, limits: Limits) -> str | None:
    """Why the page may not be parsed, or None: one of the two reasons above.

    Depth is judged on pages of more than 8,000 tags, or with many lists: others cannot become dear by it.
    """
    count, data = len(tags.at), tags.data
    gaps = tags.at[np.diff(tags.at, append=len(data)) >= _LONG] if len(data) >= _LONG else ()
    long = _any_long(data, gaps)
    if count <= _SMALL and not long:
        return None
    # lists are indented in the text: nested ones make it long
    lists = int(np.count_nonzero(_LISTS[tags.pairs] & ~tags.closing))
    plain = count <= _MEDIUM and lists <= limits.depth
    cheap = _few_stay_open(tags) if plain else _clearly_cheap(data, tags.at, limits)
    return None if cheap and not long else _read_tags(tags.markup(), limits)


def _any_long(data: Bytes, tags: Iterable[int]) -> bool:
    """Whether a tag, not the script or text after it, may have too many attributes (script text may look as if).

    Tags without an end reach over one another: more reading than a few times the page is taken for a yes.
    """
    page, left = data.data, _READINGS * len(data)
    for tag in tags:
        found = _LONG_TAG.match(page, int(tag)) if _LETTER[data[tag + 1 + (data[tag + 1] == 0x2F)]] else None
        if found is None or found.end() - tag < _LONG:
            continue
        if left < 0 or _too_many_attributes(page[found.start() : found.end()]):
            return True
        left -= found.end() - found.start()
    return False


def _too_many_attributes(tag: bytes | memoryview) -> bool:
    return sum(1 for _ in islice(_ATTRIBUTE.finditer(tag), _ATTRIBUTES + 1)) > _ATTRIBUTES


# Possessive, for without it each character read inside (?:…|…)* takes some 100 bytes of memory until the match ends.
_TAG_REST = """(?:[^"'>]++|"[^"]*+"|'[^']*+')*+"""
# a quote without its fellow is a letter of an attribute's name
_LONG_TAG = re.compile(rb"""<(?:[^"'>]++|"[^"]*+"|'[^']*+'|["'])*+""")
_ATTRIBUTE = re.compile(rb"""[\s/"'][^\s/>"'=]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'>]++))?""")


def _few_stay_open(tags: Tags) -> bool:
    """Whether the formatting left open is little against the number of tags."""
    formatting = _MAY_FORMAT[tags.pairs]
    if _cost(len(tags.at), int(np.count_nonzero(formatting & ~tags.closing))) <= 2 * _WORK:
        return True
    names, most = _most_open(*_names(tags.data, tags.at[formatting]))
    unclosed = int(most[np.isin(names, _KEYS_FORMATTING)].sum())
    return _cost(len(tags.at), unclosed) <= 2 * _WORK


def _cost(tags: int, unclosed: int) -> int:
    return tags * (unclosed + 1) * (unclosed + 3)


def _clearly_cheap(data: Bytes, tags: npt.NDArray[np.int64], limits: Limits) -> bool:
    """Bounds on elements, depth and work, from names of four letters; script text counts as if it were markup."""
    keys, closing = _names(data, tags)
    opens = len(keys) - int(np.count_nonzero(closing))
    if len(tags) - len(keys) > _ATTRIBUTES:  # "<" that begins no tag: text, or attribute values
        return False
    if opens > limits.elements or np.count_nonzero(keys == _KEY_OPTION) > _OPTIONS:
        return False
    nests = ~np.isin(keys, _KEYS_FLAT)
    names, most = _most_open(keys[nests], closing[nests])
    unclosed, depth = int(most[np.isin(names, _KEYS_FORMATTING)].sum()), int(most.sum())
    lines = opens + int(np.count_nonzero(np.isin(keys[closing], _KEYS_LINE)))
    return depth <= limits.depth and lines * (1 + unclosed) * (depth + 3) <= _WORK


def _names(data: Bytes, tags: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    """The first four letters of each tag's name, lower case, as a number, and whether it closes; no tag, no row."""
    first = data[tags + 1]
    escaped = (first == 0x5C) & (data[tags + 2] == 0x2F)  # "<\/div>": how scripts write a closing tag
    closing = (first == 0x2F) | escaped
    start = tags + 1 + closing + escaped
    named = _LETTER[data[start]]
    start, closing = start[named], closing[named]
    keys, inside = np.zeros(len(start), np.uint32), np.ones(len(start), bool)
    for n in range(4):
        byte = data[np.minimum(start + n, len(data) - 1)]
        inside &= _IN_NAME[byte]
        keys = (keys << np.uint32(8)) | np.where(inside, byte | 0x20, 0).astype(np.uint32)
    return keys, closing


def _most_open(
    keys: npt.NDArray[np.uint32], closing: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """For each name the largest number of its elements open at once; a closing tag with nothing to close is none."""
    if len(keys) == 0:
        return keys, np.zeros(0, np.int64)
    order = np.argsort(keys, kind="stable")
    keys, step = keys[order], np.where(closing[order], -1, 1)
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    level = np.cumsum(step)
    sizes = np.diff(begins, append=len(keys))
    level -= np.repeat(level[begins] - step[begins], sizes)  # each name counts from nought
    # names one after another on one line, each far below the last, so that the running minimum starts anew with it
    fall = 2 * len(keys) * np.repeat(np.arange(len(begins)), sizes)
    floor = np.minimum.accumulate(np.minimum(level, 0) - fall) + fall
    return keys[begins], np.maximum.reduceat(level - floor, begins)


_QUOTES = ('"', "'")
_TOKEN = re.compile(rf"<(?:!--|(/?)([A-Za-z][^\s/>]*+)({_TAG_REST}))")


def _read_tags(markup: str, limits: Limits) -> str | None:
    """One reading of the tags in order: real depth, elements, and formatting that stays open across blocks."""
    stack: list[str] = []
    within: Counter[str] = Counter()
    active: Counter[str] = Counter()
    foreign = opens = options = work = indented = reopened = at = 0
    while found := _TOKEN.search(markup, at):
        at = found.end()
        if found[2] is None:
            at = markup.find("-->", at)
            if at < 0:
                break
            continue
        name = found[2].lower()
        end = at
        if markup[at : at + 1] in _QUOTES:  # twice at most, for none of its kind follows: the name goes on
            end = markup.find(">", at)
            end = len(markup) if end < 0 else end
        if end - found.start() >= _LONG and _too_many_attributes(markup[found.start() : end].encode(errors="replace")):
            return TOO_MANY_ELEMENTS
        if found[1]:
            if within[name]:
                while stack:
                    last = stack.pop()
                    within[last] -= 1
                    foreign -= last in ("svg", "math")
                    if last == name:
                        break
            if name in _FORMATTING:
                reopened = max(0, reopened - 1)
            elif name in ("p", "br"):
                indented += within["ul"] + within["ol"]
                if indented > _WORK:
                    return TOO_DEEP
            continue
        opens += 1
        options += name == "option"
        work += (1 + reopened) * (1 + len(stack) + reopened)
        if opens > limits.elements or options > _OPTIONS or work > _WORK:
            return TOO_MANY_ELEMENTS
        if name in _RAW and not foreign:
            closes = re.compile(f"</{name}", re.IGNORECASE).search(markup, at)
            if closes is None:
                break
            at = closes.end()
        elif name in _FORMATTING:
            active[found[0]] += 1
            reopened += active[found[0]] <= 3  # no more than three alike stay open (HTML standard: Noah's Ark clause)
            stack.append(name)
            within[name] += 1
        elif name not in _VOID and name not in _IMPLIED and not (foreign and found[3].endswith("/")):
            foreign += name in ("svg", "math")
            stack.append(name)
            within[name] += 1
        if len(stack) > limits.depth:
            return TOO_DEEP
    return None
