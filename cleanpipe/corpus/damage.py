"""What is wrong with one text as it lies: counts by fault, before anything is repaired."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from html.entities import html5

from cleanpipe.text.mojibake import NAMES, find_mojibake
from cleanpipe.text.normalise import invisible_counts, odd_characters

INVISIBLE, C1, PRIVATE, REPLACEMENT, INVALID, SURROGATES = (
    "invisible", "c1_controls", "private_use", "replacement", "invalid_utf8", "surrogates",
)  # fmt: skip
MOJIBAKE, ENTITIES, TAGS = "mojibake", "entities", "tags"
FAULTS: Mapping[str, str] = {
    INVISIBLE: "hold invisible controls that cleaning removes",
    MOJIBAKE: "hold mojibake",
    C1: "hold C1 controls, as Windows-1252 read as Latin-1 leaves them",
    REPLACEMENT: "hold U+FFFD, where a character was lost",
    INVALID: "hold bytes that are no UTF-8",
    SURROGATES: "hold lone surrogates, which no encoding can carry",
    PRIVATE: "hold private-use characters, which mean nothing without their font",
    ENTITIES: "hold HTML entities, left over or quoted",
    TAGS: "hold HTML tags, left over or quoted",
}
"""What a document can hold, in words; each is a column of the ledger that says how often."""

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ELEMENTS = (
    "a abbr address article aside audio b blockquote body br button canvas caption center cite code col colgroup "
    "dd del details dfn dialog div dl dt em embed fieldset figcaption figure font footer form h1 h2 h3 h4 h5 h6 "
    "head header hr html i iframe img input ins kbd label legend li link main map mark meta nav noscript object "
    "ol optgroup option p picture pre q s samp script section select small source span strike strong style sub "
    "summary sup svg table tbody td template textarea tfoot th thead time title tr tt u ul var video wbr"
)
_TAG = re.compile(rf"</?(?:{'|'.join(sorted(_ELEMENTS.split(), key=len, reverse=True))})(?:\s[^<>]{{0,500}})?/?>", re.I)
_PRIVATE = re.compile("[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SEARCHED = {TAGS: _TAG, PRIVATE: _PRIVATE, SURROGATES: _SURROGATE}
C1_POINTS = frozenset(f"U+{n:04X}" for n in range(0x80, 0xA0))
_AROUND = 60


@dataclass(slots=True)
class Damage:
    """counts: occurrences by fault. points: of each invisible code point that is removed, C1 controls too. kept: of
    those that stay, for their script needs them. kinds: of mojibake.
    """

    counts: dict[str, int]
    points: Mapping[str, int]
    kept: Mapping[str, int]
    kinds: Mapping[str, int]


_NONE: Mapping[str, int] = {}


def examine(raw: str, text: str, invalid: int) -> Damage:
    """raw: as it lies. text: after the repairs. invalid: bytes that were no UTF-8, each a U+FFFD of ``raw`` now."""
    counts: dict[str, int] = {}
    points = kept = kinds = _NONE
    plain = raw  # what is not explained by mojibake, whose bytes are controls too
    if not raw.isascii():
        counts[REPLACEMENT] = max(0, raw.count("\ufffd") - invalid)
        found = find_mojibake(raw)
        if found.counts:
            kinds, plain = found.counts, found.without(raw)
            counts[MOJIBAKE] = sum(kinds.values())
    if odd := odd_characters(plain):
        before = invisible_counts(plain)
        if before:
            kept = {p: n for p, n in invisible_counts(text).items() if n}
            points = {p: n - kept.get(p, 0) for p, n in before.items() if n > kept.get(p, 0)}
            counts[C1] = sum(n for p, n in points.items() if p in C1_POINTS)
            counts[INVISIBLE] = sum(points.values()) - counts[C1]
        if max(odd) >= "\ud800":
            counts[PRIVATE] = len(_PRIVATE.findall(plain))
            counts[SURROGATES] = len(_SURROGATE.findall(plain))
    counts[INVALID] = invalid
    if "&" in raw:
        counts[ENTITIES] = sum(1 for _ in _entities(raw))
    if "<" in raw:
        counts[TAGS] = sum(1 for _ in _TAG.finditer(raw))
    return Damage({fault: n for fault, n in counts.items() if n}, points, kept, kinds)


def _entities(raw: str) -> list[re.Match[str]]:
    found = _ENTITY.finditer(raw)
    return [m for m in found if m[0][1] == "#" or m[0][1:] in html5]


def evidence(fault: str, raw: str) -> str:
    """The text around the first place of a fault; characters that show nothing are written out."""
    note = ""
    places: list[tuple[int, int]] = []
    if fault == MOJIBAKE:
        found = find_mojibake(raw)
        places = [(start, end) for start, end, _ in found.places[:1]]
        note = f"  [{found.places[0][2]}: {NAMES[min(found.counts)]}]" if places else ""
    elif fault in (INVISIBLE, C1):
        points = [p for p in invisible_counts(raw) if (p in C1_POINTS) == (fault == C1)]
        first = min((raw.find(chr(int(p[2:], 16))) for p in points), default=0)
        places = [(first, first + 1)]
    elif fault == ENTITIES:
        places = [m.span() for m in _entities(raw)[:1]]
    elif fault in _SEARCHED:
        places = [m.span() for m in [_SEARCHED[fault].search(raw)] if m]
    elif "\ufffd" in raw:
        places = [(raw.index("\ufffd"), raw.index("\ufffd") + 1)]
    start, end = places[0] if places else (0, 0)
    left = max(0, start - _AROUND)
    piece = raw[left : end + _AROUND]
    return ("…" if left else "") + written(piece) + ("…" if end + _AROUND < len(raw) else "") + written(note)


def written(text: str) -> str:
    """Text in one line that nothing can be hidden in: what does not show stands as <U+200E>."""
    return "".join(c if c.isprintable() else " " if c in "\n\t\r" else f"<U+{ord(c):04X}>" for c in text)


def told(text: str, most: int = 300) -> str:
    """A message or name of unknown origin, ``written`` and cut."""
    shown = written(text[: most + 1])
    return shown if len(text) <= most and len(shown) <= most else shown[: most - 1] + "…"


def excerpt(text: str, most: int = 160) -> str:
    """The beginning of a text, on one line."""
    head = " ".join(text[: 4 * most].split())
    return written(head if len(head) <= most else head[: most - 1] + "…")


_CONTROL = {
    0x0: "NULL", 0x7: "BELL", 0x8: "BACKSPACE", 0x1B: "ESCAPE", 0x7F: "DELETE", 0xAD: "SOFT HYPHEN",
    0xFEFF: "ZERO WIDTH NO-BREAK SPACE (BYTE ORDER MARK)",
}  # fmt: skip


def point_name(point: str) -> str:
    """``U+200E`` with its name."""
    number = int(point[2:], 16)
    name = _CONTROL.get(number) or unicodedata.name(chr(number), "")
    if not name:
        name = "C1 CONTROL" if 0x80 <= number < 0xA0 else "CONTROL" if number < 0x20 else "NONCHARACTER"
    return f"{point} {name}"
