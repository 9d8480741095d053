"""What each code point is to the rules of this package, as one table of flags over Unicode 15."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from cleanpipe.text import unicode_tables
from cleanpipe_stages.dedup import characters as ch

WORD = 1  # part of a word: letters, digits, their marks and joiners, and the underscore
ALNUM = 2  # a letter or a digit
LETTER = 4
OTHER = 8  # seen, but no part of a word: punctuation and symbols
ALONE = 16  # a letter of a script that puts no blanks between words: a token of its own
TERMINAL = 32  # may end a sentence
QUOTE = 64  # may close after a sentence's end
BULLET = 128  # begins an item of a list
# a character of none of these is blank

Flags = npt.NDArray[np.uint8]

SENTENCE_TERMINAL = """
21 2E 3F 589 61D-61F 6D4 700-702 7F9 837 839 83D-83E 964-965 104A-104B 1362 1367-1368 166E 1735-1736 1803 1809
1944-1945 1AA8-1AAB 1B5A-1B5B 1B5E-1B5F 1B7D-1B7E 1C3B-1C3C 1C7E-1C7F 203C-203D 2047-2049 2E2E 2E3C 2E53-2E54 3002
A4FF A60E-A60F A6F3 A6F7 A876-A877 A8CE-A8CF A92F A9C8-A9C9 AA5D-AA5F AAF0-AAF1 ABEB FE52 FE56-FE57 FF01 FF0E FF1F
FF61 10A56-10A57 10F55-10F59 10F86-10F89 11047-11048 110BE-110C1 11141-11143 111C5-111C6 111CD 111DE-111DF
11238-11239 1123B-1123C 112A9 1144B-1144C 115C2-115C3 115C9-115D7 11641-11642 1173C-1173E 11944 11946 11A42-11A43
11A9B-11A9C 11C41-11C42 11EF7-11EF8 11F43-11F44 16A6E-16A6F 16AF5 16B37-16B38 16B44 16E98 1BC9F 1DA88
"""
"""Sentence_Terminal of the Unicode Character Database 15.0.0 (PropList.txt); © Unicode, Inc., Unicode licence."""

QUOTES = "\"'”’»」』)]）】"
QUOTE_ENDS = "\"'”’»」』"
"""Of QUOTES those that end a line as a sentence's mark does: C4 and FineWeb's first code count \" and ' among them."""

BULLETS = "•‣⁃◦▪▫■□●○▶►➢➤·*-–"
"""Bullet points. datatrove knows • and -, Dolma * and -; the others are what pages and extractors write."""

_BLANKS = (0x200B, 0x200E, 0x200F, 0x061C, 0x2060, 0xFEFF)  # invisible, and no part of a word
_JOINS = (0x00AD, 0x200C, 0x200D)


@cache
def table() -> Flags:
    """Flags of every code point, uint8 of 0x110000; made once a process."""
    known = ch.flags()
    made = np.zeros(0x110000, np.uint8)
    made[known & ch.BLANK == 0] = OTHER
    made[0:32] = made[127:160] = 0
    for marks in (unicode_tables.MARKS, unicode_tables.GRAPHEME_EXTEND, unicode_tables.GRAPHEME_SPACING_MARK):
        for first, last in unicode_tables.spans(marks):
            made[first : last + 1] = WORD
    made[known & ch.WORD != 0] = WORD | ALNUM
    made[known & ch.LETTER != 0] |= LETTER
    made[known & ch.UNSPACED != 0] |= ALONE
    made[0x5F] = WORD
    made[list(_BLANKS)] = 0
    made[list(_JOINS)] = WORD
    for part in SENTENCE_TERMINAL.split():
        begin, _, end = part.partition("-")
        made[int(begin, 16) : int(end or begin, 16) + 1] |= TERMINAL
    made[[ord(c) for c in QUOTES]] |= QUOTE
    made[[ord(c) for c in BULLETS]] |= BULLET
    made.setflags(write=False)
    return made


def flags_of(data: npt.NDArray[np.uint8], leads: npt.NDArray[np.int64]) -> tuple[Flags, npt.NDArray[np.uint32]]:
    """Flags of each byte of valid UTF-8: those of the character that it is part of. And the characters at ``leads``.

    Args:
        data: uint8 of n, at least three bytes after the last character.
        leads: where characters above U+007F begin.
    """
    known = table()
    ascii_only = np.zeros(256, np.uint8)
    ascii_only[:128] = known[:128]
    flags = ascii_only.take(data)
    points = ch.code_points(data, leads)
    if leads.size:
        own, first = known[points], data[leads]
        flags[leads] = flags[leads + 1] = own
        for more, least in ((2, 0xE0), (3, 0xF0)):
            long = first >= least
            flags[leads[long] + more] = own[long]
    return flags, points
