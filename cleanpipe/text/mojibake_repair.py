"""Repair of mojibake, line by line, and only of lines that a damage score names.

A page is asked once, by a search over its UTF-8 bytes, whether it holds a pair of characters with which damage begins;
next to no clean page does. Of such a page each line with such a pair is put before ftfy's ``fix_encoding``, and what
that gives is taken where the line is damaged by a second opinion:

- ``find_mojibake`` names a sequence in it that is more than a letter on show ("“Ã©”"), or
- it names none, the line holds one of a few other signs that no text holds on purpose, and ftfy, which finds nothing
  more to object to in its result, lost no character on the way.

A line that speaks of encodings shows damage on purpose and stays. C1 controls are read as Windows-1252 in lines that
hold nothing else than Windows-1252. Nothing but the encoding is touched: quotes, ligatures and widths stay as written.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from cleanpipe.text.latest import latest
from cleanpipe.text.mojibake import Found, find_mojibake

_C1 = re.compile("[\x80-\x84\x86-\x9f]")
_QUOTED = re.compile("(['\"])[\x80-\x9f]\\1")  # a character of a program, shown on purpose
_TAIL = rb"\xc2|\xc5[\x92\x93\xa0\xa1\xb8\xbd\xbe]|\xc6\x92|\xcb|\xe2[\x80\x82\x84]|\xef\xbf\xbd"  # 80..BF in cp1252
_ANY_TAIL = rb"(?:" + _TAIL + rb"|[\xc4-\xcb])"  # in Windows-1250, -1254, -1257 and ISO 8859-2 too
_PAIRS: tuple[tuple[bytes, re.Pattern[bytes]], ...] = tuple(
    # the lead's first UTF-8 byte, which most texts lack; then what begins with it
    (first, re.compile(re.escape(first) + rest, re.DOTALL))
    for first, rest in (
        (b"\xc2", rb"[\x80-\x9f]"),  # C1 controls
        (
            b"\xc3",
            rb"(?:[\x82-\x85](?:" + _ANY_TAIL + rb"|\xc3[\x86\x98\xa6\xb8])"  # Â Ã Ä Å
            rb"|[\x86-\x9f](?:" + _TAIL + rb")"  # Æ..ß
            rb"|[\xa2\xa3\xad](?:" + _TAIL + rb")"  # â ã í
            rb"|[\xa0-\xb4](?!\xc2\xa0)(?:\xc2.|\xe2[\x80\x82\x84].|\xc5[\x92\x93\xa0\xa1\xb8\xbd\xbe]|\xef\xbf\xbd)"
            rb"(?:" + _ANY_TAIL + rb"|[ ?]))",  # à..ô
        ),
        (b"\xc4", rb"[\x81\x82\xb9](?:[\xc2\xc4-\xcb]|\xe2[\x80\x82\x84])"),  # ā Ă Ĺ
        (  # В Г Р С вЂ п¬
            b"\xd0",
            rb"(?:[\x92\x93\xa0\xa1](?:[\xc2\xe2]|\xd0[\x81-\x8f]|\xd1[\x91-\x9f]|\xd2)|\xb2\xd0\x82|\xbf\xc2\xac)",
        ),
        (b"\xce", rb"(?:[\x92\x93\x9e\x9f](?:\xc2[\x80-\x9f\xa1-\xaa\xac-\xbf]|\xe2)|\xb2\xe2\x82)"),  # Β Γ Ξ Ο β€
        (
            b"\xe2",  # √ ≈ ‚Ä ╤ ╨ ├ ┬
            rb"(?:\x88\x9a[^\x00-\x7f]|\x89\x88[^\x00-\x7f]|\x80\x9a\xc3|\x95[\xa4\xa8][^\x00-\x7f]"
            rb"|\x94[\x9c\xac](?:[\xc2-\xcf]|\xe2(?:\x95[\x96\xa2\xb0-\xb7]|[\x80-\x8c])))",
        ),
    )
)
_SPEAKS = re.compile(
    r"utf-?8|iso-?8859|latin-?1\b|windows-?125|\bcp-?125|mojibake|charset|code ?page|encod|кодиров", re.IGNORECASE
)
_LINES = re.compile("([\n\r\x0b\x0c\u2028\u2029]+)")
_LINES_AND_NEL = re.compile(
    "((?:[\n\r\x0b\x0c\u2028\u2029]|(?<![\x80-\x9f\xa0-\xbf\xc2-\xf4])\x85(?! )|(?<=\x85)\x85)+)"
)
_NO_WINDOWS = "ˆ˜ƒ†‡‰"  # as their bytes alone they are far more often what is left of other damage
_WINDOWS_BYTES = [b for b in range(0x80, 0xA0) if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)]
_FROM_C1 = {b: c for b in _WINDOWS_BYTES if (c := bytes([b]).decode("cp1252")) not in _NO_WINDOWS}
_WINDOWS = re.compile("[\x00-\x7f\xa0-\xff" + "".join(map(chr, _FROM_C1)) + "".join(_FROM_C1.values()) + "]*")
_TELLING = re.compile(  # what find_mojibake does not name, and no text holds on purpose
    "[\x80-\x84\x86-\x9f]"  # a C1 control
    "|í[\xa0-\xaf].í."  # a pair of surrogates
    "|[A-Za-z][Â-ß](?:[\xa1-\xac\xae-\xbfŒœŠšŸŽžƒˆ˜€‚„†‡•‰‹›™])[a-z]"  # one letter inside a word
    "|Ã\xa0[a-z]|(?:[ÌÍ].[0-9A-Za-z]?){2}"  # à inside a word; letters with a mark on each
    "|Г‚В|п¬[Ѐ-Џ‚„…†]|[a-z]{2}√[±≠≤≥∞](?!\\w)"
)
_WORDS = "àÀéÉèÈóÓòÒíìù"  # words of one letter in French, Italian, Portuguese, Catalan, Polish …
_TRIED = 8  # times that one line is mended; deeper nesting than 4 was never met


@latest
def utf8(text: str) -> bytes:
    """The text's UTF-8, lone surrogates too."""
    return text.encode("utf-8", "surrogatepass")


@latest
def suspicious(text: str) -> bool:
    """Whether the text holds a pair of characters with which mojibake begins, or a C1 control."""
    return not text.isascii() and _begins(utf8(text))


def _begins(encoded: bytes) -> bool:
    return any(first in encoded and pair.search(encoded) for first, pair in _PAIRS)


def mend(text: str) -> str:
    """The text with its damaged lines repaired. Pure; a line's repair depends on no other line."""
    parts = _split(text)
    parts[::2] = [line if line.isascii() else mend_line(line) for line in parts[::2]]
    return "".join(parts)


def _split(text: str) -> list[str]:
    """Lines and what parts them, in turn. U+0085 parts lines where it is no byte of damage and no blank follows it."""
    return (_LINES_AND_NEL if "\x85" in text else _LINES).split(text)


def damaged_lines(text: str) -> int:
    """Lines that look damaged: those that ``mend`` changes, and of the others those that ``find_mojibake`` names."""
    if not suspicious(text):
        return 0
    lines = (
        line
        for line in _split(text)[::2]
        if not line.isascii() and _begins(line.encode("utf-8", "surrogatepass")) and not _SPEAKS.search(line)
    )
    return sum(mend_line(line) != line or _sure(line, find_mojibake(line)) for line in lines)


@lru_cache(maxsize=64)
def mend_line(line: str) -> str:
    """One line, repaired to where nothing is left to mend; as it is where nothing speaks for damage."""
    for _ in range(_TRIED):
        shown = line if line.isascii() else _QUOTED.sub("", line)
        if not _begins(shown.encode("utf-8", "surrogatepass")) or _SPEAKS.search(line):
            break
        mended = _once(line)
        mended = _windows_controls(mended, broken=mended != line)
        if mended == line:
            break
        line = mended
    return line


def _once(line: str) -> str:
    fix_encoding, badness = _ftfy()
    mended = fix_encoding(line)
    if mended == line:
        return line
    found = find_mojibake(line)
    if found.places:
        return mended if _sure(line, found) else line
    lost = mended.count("\ufffd") > line.count("\ufffd")
    return mended if _TELLING.search(line) and not lost and not badness(mended) else line


def _sure(line: str, found: Found) -> bool:
    return any(not _on_show(line, start, end, mended) for start, end, mended in found.places)


def _on_show(line: str, start: int, end: int, mended: str) -> bool:
    """Whether a single letter stands by itself, and is no word between blanks: a quoted example."""
    before, after = line[start - 1 : start], line[end : end + 1]
    if len(mended) != 1 or not mended.isalpha() or before.isalnum() or after.isalnum():
        return False
    return mended not in _WORDS or not (before + after).isspace()


def _windows_controls(line: str, broken: bool) -> str:
    """C1 controls as Windows-1252 reads those bytes, in a line of nothing else. U+0085, which may be a line break, only
    in one that is broken otherwise, or where a blank follows.
    """
    if not _C1.search(line) and not (broken and "\x85" in line) and "\x85 " not in line:
        return line
    if not _WINDOWS.fullmatch(line):
        return line
    return line.translate(_FROM_C1)


@lru_cache(maxsize=1)
def _ftfy() -> tuple[Callable[[str], str], Callable[[str], int]]:
    from ftfy import TextFixerConfig, fix_encoding
    from ftfy.badness import badness

    config = TextFixerConfig(fix_c1_controls=False)
    return lambda line: fix_encoding(line, config), badness
