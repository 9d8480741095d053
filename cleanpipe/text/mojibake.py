r"""Mojibake: UTF-8 that was read as another charset ("CafÃ©" for "Café").

Only what re-encodes to valid UTF-8 counts, and of that only what real text does not hold by chance:

- "cp1252" (and Latin-1): runs of letters of C2..F4 and the characters of 80..BF behind them. Three sequences in a row,
  or those of dashes, quotes, emoji, BOM and U+FFFD ("â€™", "ðŸ˜€"), count anywhere. A single letter counts by what
  stands around it: "Ã”" ends a quotation in Portuguese capitals and is no "Ô" there, but inside "hÃ”tel" it is.
- "cp1252 twice": such a run that gives another one.
- "cp1251": "РїСЂРё" (three sequences in a row), "вЂ™", and "Г©" beside an ASCII letter.
- "cp1250": "Ĺ‚" and "Ă©" inside a word. "cp437": "ΓÇÖ", "╨┐╤Ç╨░", and "├⌐" beside an ASCII letter. "macroman":
  "‚Äô", and "√©" beside one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KINDS = ("cp1252", "cp1252_twice", "cp1250", "cp1251", "cp437", "macroman")
NAMES = {
    "cp1252": "UTF-8 read as Windows-1252 or Latin-1",
    "cp1252_twice": "UTF-8 read as Windows-1252, twice",
    "cp1250": "UTF-8 read as Windows-1250",
    "cp1251": "UTF-8 read as Windows-1251",
    "cp437": "UTF-8 read as code page 437",
    "macroman": "UTF-8 read as Mac Roman",
}


def _table(codec: str) -> dict[int, str]:
    """Byte 80..FF → character; bytes that Windows leaves empty stand for themselves, as browsers read them."""
    out = {}
    for byte in range(0x80, 0x100):
        try:
            out[byte] = bytes([byte]).decode(codec)
        except UnicodeDecodeError:
            out[byte] = chr(byte)
    return out


def _class(characters: str) -> str:
    return f"[{re.escape(characters)}]"


def _reverse(codec: str) -> dict[int, int]:
    return {ord(c): b for b, c in _table(codec).items()}


_WINDOWS = _table("cp1252")
_TO_BYTE = {**{n: n for n in range(0x80, 0x100)}, **_reverse("cp1252")}  # either charset, even mixed
_TAIL = _class("".join(sorted({chr(n) for n in range(0x80, 0xC0)} | {_WINDOWS[b] for b in range(0x80, 0xC0)})))
_RUN = re.compile(f"(?:[Â-ß]{_TAIL}|[à-ï]{_TAIL}{{2}}|[ð-ô]{_TAIL}{{3}})+")
# "voilÃ " and "10Â km", whose U+00A0 somebody made a blank: behind a small letter no language writes these capitals
_BLANKED = re.compile(r"(?<=[a-zß-ÿ])[ÂÃ](?![\w\x80-\xbf])(?=[\s.,;:!?)]|$)|(?<=[0-9])Â(?= )")
# what follows a word anyway: a letter and one of these is no mojibake unless it stands inside a word
_PUNCTUATION = frozenset("\xa0\xad«»‘’“”„‚‹›…–—•™€°´·¨§¡¿ªº")
_QUOTES, _SIGNS = frozenset("‘’“”…–—«»\xa0\xad"), frozenset("´¨°·¡¿ªº")
_ALWAYS = frozenset("\ufffd\ufeff€™•…–—‘’“”„‚†‡‹›")  # where a run gives them: no text holds "â€™"
_EUROPE = frozenset("ÂÃÄÅÆÈ")  # leads of U+0080-U+01BF and U+0200-U+023F: the letters of Europe and Vietnam
_NOT_BEHIND = frozenset("€†‡ˆ‰Š‹Œœ˜™" + "".join(map(chr, range(0x80, 0xA0))))  # behind "â", in no language


def _cyrillic() -> tuple[re.Pattern[str], dict[int, int]]:
    table = _table("cp1251")
    tail = _class("".join(table[b] for b in range(0x80, 0xC0)))
    pattern = f"(?:[РС]{tail}){{3,}}|в[Ђ„][{re.escape(''.join(table[b] for b in range(0x80, 0xC0)))}]"
    pattern += f"|(?:(?<=[a-zA-Z])[ВГ]{tail}|(?<![А-яёЁ])[ВГ]{tail}(?=[a-z]))(?![А-яёЁіїєґўј])"
    return re.compile(pattern), _reverse("cp1251")


def _old(codec: str, always: str, lone: str, risky: str) -> tuple[re.Pattern[str], dict[int, int]]:
    """always: what no text holds before a tail. lone: leads of single letters. risky: tails that are signs or letters
    of their own, which count between two small letters only.
    """
    table = _table(codec)
    every = "".join(table[b] for b in range(0x80, 0xC0))
    safe, any_ = _class("".join(c for c in every if c not in risky)), _class(every)
    pattern = f"{always.replace('.', any_)}|(?<=[a-zA-Z])[{lone}]{safe}|[{lone}]{safe}(?=[a-z])"
    pattern += f"|(?<=[a-z])[{lone}]{_class(risky)}(?=[a-z])"
    return re.compile(pattern), _reverse(codec)


_CP1251 = _cyrillic()
_CP1250 = _old("cp1250", "(?!)", "ĂĹ", "şŞ‘’“”„…–—»«\xa0\xadśťžźŚŤŽŹŁłĄąĽľŻżŠš")
_CP437 = _old("cp437", "ΓÇ.|(?:[╨╤].){3,}", "├┬", "░▒▓│┤╡╢╖╕╣║╗╝╜╛┐")
_MAC = _old("mac_roman", "‚Ä.", "√¬ƒ≈", "≠∞±≤≥∂∑∏π∫Ω°•")


@dataclass(frozen=True, slots=True)
class Found:
    """counts: sequences by kind. places: start, end and what it stands for, of each run."""

    counts: dict[str, int]
    places: list[tuple[int, int, str]]

    def without(self, text: str) -> str:
        """The text with the runs left out."""
        out, at = [], 0
        for start, end, _ in sorted(self.places):
            out.append(text[at:start])
            at = max(at, end)
        return "".join([*out, text[at:]])


NOTHING = Found({}, [])


def find_mojibake(text: str) -> Found:
    """All of one text; NOTHING where it is clean, at the cost of a few scans."""
    if text.isascii():
        return NOTHING
    counts: dict[str, int] = {}
    places: list[tuple[int, int, str]] = []
    _windows(text, counts, places)
    if "Р" in text or "С" in text or "Г" in text or "В" in text or "вЂ" in text:
        _by_pattern("cp1251", *_CP1251, text, counts, places)
    if "Ă" in text or "Ĺ" in text:
        _by_pattern("cp1250", *_CP1250, text, counts, places)
    if any(lead in text for lead in ("├", "┬", "ΓÇ", "╨", "╤")):
        _by_pattern("cp437", *_CP437, text, counts, places)
    if any(lead in text for lead in ("√", "¬", "‚Ä", "ƒ", "≈")):
        _by_pattern("macroman", *_MAC, text, counts, places)
    return Found(counts, sorted(places)) if places else NOTHING


def _windows(text: str, counts: dict[str, int], places: list[tuple[int, int, str]]) -> None:
    weak: list[tuple[int, int, str]] = []
    for run in _RUN.finditer(text):
        mended = _utf8(run[0], _TO_BYTE)
        if mended is None:
            continue
        place = (run.start(), run.end(), mended)
        again = _RUN.search(mended)
        inner = _utf8(again[0], _TO_BYTE) if again else None
        kind, verdict = "cp1252", _weigh(text, run.start(), run.end(), mended)
        if again and inner is not None and _weigh(mended, again.start(), again.end(), inner) == 2:
            kind, verdict = "cp1252_twice", 2
        if verdict == 1:
            weak.append(place)
        elif verdict == 2:
            counts[kind] = counts.get(kind, 0) + len(mended)
            places.append(place)
    for lone in _BLANKED.finditer(text):
        counts["cp1252"] = counts.get("cp1252", 0) + 1
        places.append((lone.start(), lone.end(), "à" if lone[0] == "Ã" else " "))
    if places:  # beside surer ones the others count too
        for place in weak:
            counts["cp1252"] = counts.get("cp1252", 0) + len(place[2])
        places += weak


def _weigh(text: str, start: int, end: int, mended: str) -> int:
    """0: real text may hold this. 1: only beside surer ones. 2: mojibake."""
    lead, tail = text[start], text[start + 1]
    if any(c in _ALWAYS for c in mended) or (len(mended) >= 3 and _plausible(mended)):
        return 2
    if ord(max(mended)) >= 0x1F000 or (lead == "â" and tail in _NOT_BEHIND) or (lead == "ï" and tail in "¬¼½"):
        return 2
    if not _plausible(mended):
        return 0
    before, after = text[start - 1 : start], text[end : end + 1]
    if lead == "á" and tail in "¸¹º»":  # Vietnamese; a quotation may end behind "á", and another mark follow
        return 2 if tail != "»" or text[start + 2] not in _QUOTES or after.isalpha() else 1
    if lead not in _EUROPE or len(mended) > 2:
        return 1
    if lead == "Â" and (before.isdigit() or (tail in _SIGNS and not before.isupper())):
        return 2
    if not any(c in _PUNCTUATION for c in text[start + 1 : end]):
        return 1 if lead in "ÄÅÆÈ" and (before.isupper() or after.isupper()) else 2
    if lead == "Ã" and ((tail in _SIGNS and after.islower()) or (tail in "\xa0\xad" and not before.isalpha())):
        return 2
    if before.islower() and (after.islower() or lead in "ÂÃ"):
        return 2
    if after.islower() and not before.isalpha() and tail not in _QUOTES:
        return 2
    return 2 if lead == "Ã" and before.isalpha() and after.isalpha() and tail not in "’…–—\xa0\xad" else 1


def _plausible(mended: str) -> bool:
    """Assigned, visible characters of one or two blocks."""
    blocks = {ord(c) >> 8 for c in mended if ord(c) >= 0x100}
    return all(c.isprintable() or c == "\xa0" or c == "\xad" for c in mended) and len(blocks) <= 3


def _utf8(run: str, to_byte: dict[int, int]) -> str | None:
    try:
        return bytes(to_byte[ord(c)] for c in run).decode()
    except (KeyError, UnicodeDecodeError):
        return None


def _by_pattern(
    kind: str,
    pattern: re.Pattern[str],
    to_byte: dict[int, int],
    text: str,
    counts: dict[str, int],
    places: list[tuple[int, int, str]],
) -> None:
    for run in pattern.finditer(text):
        mended = _utf8(run[0], to_byte)
        if mended is not None and _plausible(mended):
            counts[kind] = counts.get(kind, 0) + len(mended)
            places.append((run.start(), run.end(), mended))
