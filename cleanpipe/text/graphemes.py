"""Where a text may be cut: boundaries of extended grapheme clusters, as UAX #29 draws them.

Rules GB3 to GB13 with GB9c (Indic conjuncts) over the tables of ``unicode_tables``, so that a cut does not move with
the Python version. Only what cutting needs: the boundary nearest to a position, in time linear over a whole document.
"""

from __future__ import annotations

from functools import cache

from cleanpipe.text import unicode_tables as tables

REACH = 32  # code points a cut may move; longer clusters are cut

_OTHER, _CR, _LF, _CONTROL, _EXTEND, _ZWNJ, _ZWJ, _LINKER, _SPACING, _PREPEND = range(10)
_L, _V, _T, _LV, _LVT, _FLAG, _PICTOGRAPH, _CONSONANT = range(10, 18)

_EXTENDING = frozenset({_EXTEND, _ZWNJ, _ZWJ, _LINKER})
_NEVER_FIRST = _EXTENDING | {_SPACING}  # GB9, GB9a
_APART = frozenset({_CR, _LF, _CONTROL})  # GB4, GB5
_SYLLABLE = frozenset(  # GB6 to GB8
    [(_L, b) for b in (_L, _V, _LV, _LVT)]
    + [(a, b) for a in (_LV, _V) for b in (_V, _T)]
    + [(a, _T) for a in (_LVT, _T)]
)


@cache
def _classes() -> bytes:
    """The class of each code point."""
    of = bytearray(0x110000)
    for value, table in (
        (_CONTROL, tables.GRAPHEME_CONTROL),
        (_EXTEND, tables.GRAPHEME_EXTEND),
        (_LINKER, tables.CONJUNCT_LINKER),
        (_SPACING, tables.GRAPHEME_SPACING_MARK),
        (_PREPEND, tables.GRAPHEME_PREPEND),
        (_L, tables.HANGUL_L),
        (_V, tables.HANGUL_V),
        (_T, tables.HANGUL_T),
        (_LVT, "AC00-D7A3"),
        (_FLAG, "1F1E6-1F1FF"),
        (_PICTOGRAPH, tables.PICTOGRAPHIC),
        (_CONSONANT, tables.CONJUNCT_CONSONANT),
        (_CR, "D"),
        (_LF, "A"),
        (_ZWNJ, "200C"),
        (_ZWJ, "200D"),
    ):
        for first, last in tables.spans(table):
            of[first : last + 1] = bytes([value]) * (last - first + 1)
    of[0xAC00:0xD7A4:28] = bytes([_LV]) * 399  # each first of 28 syllables has no final consonant
    return bytes(of)


class Clusters:
    """The boundaries of one text. Ask in ascending order: a long run of flags is then counted once, not each time.

    cuts: how often no boundary was within reach and the answer is inside a cluster.
    """

    def __init__(self, text: str) -> None:
        self.cuts = 0
        self._text, self._of = text, _classes()
        self._flags = (0, 0)  # the last run of regional indicators looked at: start, end as far as known

    def is_boundary(self, i: int) -> bool:
        """Whether a cluster may begin at code point ``i``; both ends of the text are boundaries."""
        text, of = self._text, self._of
        if i <= 0 or i >= len(text):
            return True
        before, after = of[ord(text[i - 1])], of[ord(text[i])]
        if after == _OTHER:
            return before != _PREPEND
        if before in _APART or after in _APART:
            return (before, after) != (_CR, _LF)
        if after in _NEVER_FIRST or before == _PREPEND or (before, after) in _SYLLABLE:
            return False
        if after == _PICTOGRAPH and before == _ZWJ:
            return not self._follows_pictograph(i - 1)
        if after == _CONSONANT and before in _EXTENDING:
            return not self._follows_conjunct(i)
        if after == before == _FLAG:
            return (i - self._first_flag(i)) % 2 == 0
        return True

    def before(self, i: int, reach: int = REACH) -> int:
        """The nearest boundary at or before ``i``, at most ``reach`` code points away; else ``i``."""
        for j in range(i, i - reach - 1, -1):
            if self.is_boundary(j):
                return min(max(j, 0), len(self._text))
        self.cuts += 1
        return i

    def after(self, i: int, reach: int = REACH) -> int:
        """The nearest boundary at or after ``i``, at most ``reach`` code points away; else ``i``."""
        for j in range(i, i + reach + 1):
            if self.is_boundary(j):
                return min(max(j, 0), len(self._text))
        self.cuts += 1
        return i

    def _follows_pictograph(self, i: int) -> bool:
        """GB11: a pictograph, then extending characters, end at ``i``."""
        text, of = self._text, self._of
        while i and of[ord(text[i - 1])] in _EXTENDING:
            i -= 1
        return i > 0 and of[ord(text[i - 1])] == _PICTOGRAPH

    def _follows_conjunct(self, i: int) -> bool:
        """GB9c: a consonant, then extending characters with a linker among them, end at ``i``."""
        text, of, linked = self._text, self._of, False
        while i and of[ord(text[i - 1])] in _EXTENDING:
            i -= 1
            linked = linked or of[ord(text[i])] == _LINKER
            if of[ord(text[i])] == _ZWNJ:
                return False
        return linked and i > 0 and of[ord(text[i - 1])] == _CONSONANT

    def _first_flag(self, i: int) -> int:
        """Where the run of regional indicators that ends at ``i`` starts."""
        text, of = self._text, self._of
        known, until = self._flags
        start = i
        while start and of[ord(text[start - 1])] == _FLAG:
            start -= 1
            if known <= start < until:
                start = known
                break
        self._flags = start, max(i, until) if start == known else i
        return start


def boundary_before(text: str, i: int, reach: int = REACH) -> int:
    """The nearest cluster boundary at or before code point ``i``, at most ``reach`` away; else ``i`` itself."""
    return Clusters(text).before(i, reach)


def boundary_after(text: str, i: int, reach: int = REACH) -> int:
    """The nearest cluster boundary at or after code point ``i``, at most ``reach`` away; else ``i`` itself."""
    return Clusters(text).after(i, reach)
