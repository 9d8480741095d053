"""One text, repaired: what every document passes through before it is judged, hashed and cut.

``REPAIRS`` lists the repairs in their order. Each is a pure function of one string, and after ``normalise`` none of
them finds anything left to do. The rules and where they were open:

- removed everywhere: NUL, C0 and C1 controls but tab and line breaks, DEL, bidi embeddings, overrides and isolates,
  U+FEFF, U+200B, U+00AD (a hint where a word may break, no letter), U+2060-206F (word joiner, invisible operators,
  deprecated controls), U+FFF9-FFFB, and the noncharacters, which no text may use (U+FFFE is a byte order mark read
  backwards);
- lone surrogates become U+FFFD; private use and U+FFFD itself stay, for they stand where something visible stood;
- tag characters stay inside a flag of a subdivision (UTS #51, ED-14a), nowhere else;
- LRM, RLM and ALM stay in a document that holds a letter written from right to left;
- ZWNJ and ZWJ stay beside a letter of a script that chooses forms by them (Arabic, Indic, Mongolian and their kin),
  ZWJ between two pictographs too; U+180E stays after a Mongolian letter;
- runs of marks are cut to 32 before NFC, which takes quadratic time on them in Python 3.11;
- indentation keeps its tabs (elsewhere a tab is a blank) and is cut to 256 characters.

The result is NFC by the Unicode version of the Python in use: assigned characters do not change between versions.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet

import numpy as np

from cleanpipe.errors import ConfigError
from cleanpipe.text import unicode_tables as tables
from cleanpipe.text.latest import latest
from cleanpipe.text.mojibake_repair import damaged_lines, mend, suspicious, utf8

WHITESPACE_RULES = ("paragraphs", "space")
MAX_MARKS = 32  # marks in a row; the densest orthographies stack fewer than 10
MAX_INDENT = 256  # blanks before the first word of a line

ZWNJ, ZWJ, VOWEL_SEPARATOR, REPLACEMENT, NBSP = "\u200c", "\u200d", "\u180e", "\ufffd", "\xa0"

# Insides of character classes. sre turns those of the basic plane into a bitmap and tests further planes range by
# range, for every character: so each class has few ranges there, or is used behind a cheaper search.
_CONTROLS = "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u200b\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
_NONCHARACTERS = "\ufdd0-\ufdef\ufffe\uffff" + "".join(
    f"{chr(p + 0xFFFE)}{chr(p + 0xFFFF)}" for p in range(0x10000, 0x110000, 0x10000)
)
_LOOSE_TAGS = "\U000e0000-\U000e002f\U000e003a-\U000e0060\U000e007b-\U000e007e"  # tags that no flag holds
_BREAKS = "\r\x0b\x0c\x85\u2028\u2029"
_BLANKS = "\xa0\u1680\u2000-\u200a\u202f\u205f\u3000"
_SURROGATES = "\ud800-\udfff"
_BIDI_MARKS = "\u061c\u200e\u200f"

_PLAIN_ASCII = bytes(b for b in range(128) if b in b"\t\n" or 0x20 <= b < 0x7F)
_PRIVATE = "\ue000-\uf8ff"  # counted, not repaired
_RARE = re.compile(  # all but U+00A0, which half of all pages hold
    f"[{_CONTROLS}\ufdd0-\ufdef\ufffe\uffff{_BREAKS}{_BLANKS[1:]}{_SURROGATES}{_BIDI_MARKS}{VOWEL_SEPARATOR}{ZWNJ}{ZWJ}{_PRIVATE}\U0001fffe-\U0010ffff]"
)
_FEW = 20  # kinds of characters that are looked for one by one
_CHUNK = 1 << 16  # characters looked at in one go: bounds the list that findall makes


def _members(inside: str) -> frozenset[str]:
    """The characters of a class written as singles and ranges."""
    found: set[str] = set()
    for first, last in re.findall("(.)(?:-(.))?", inside, re.DOTALL):
        found.update(map(chr, range(ord(first), ord(last or first) + 1)))
    return frozenset(found)


def _table(*names: str) -> frozenset[str]:
    return frozenset(chr(p) for name in names for first, last in tables.spans(name) for p in range(first, last + 1))


def _plane0(table: str) -> str:
    return "".join(f"{chr(a)}-{chr(b)}" for a, b in tables.spans(table) if b < 0x10000)


_REMOVED = _members(_CONTROLS + _NONCHARACTERS + _LOOSE_TAGS)
_BREAK, _BLANK, _SURROGATE, _BIDI = map(_members, (_BREAKS, _BLANKS, _SURROGATES, _BIDI_MARKS))
NEVER = _REMOVED | _BREAK | _BLANK | _SURROGATE
"""Characters that no normalised text and no piece of one holds."""
_TAGS = frozenset(map(chr, range(0xE0000, 0xE0080)))
INVISIBLE = _REMOVED | _TAGS | _BIDI | {VOWEL_SEPARATOR, ZWNJ, ZWJ}
"""Characters that show nothing, removed or not: what the audit counts by code point."""

_PARTING = INVISIBLE | _SURROGATE

_TAIL, _LETTERS, _PICTOGRAPHS = _table(tables.TAIL), _table(tables.JOINER_LETTERS), _table(tables.PICTOGRAPHIC)

_SURROGATE_RE = re.compile(f"[{_SURROGATES}]")
_TAG_LETTER, _TAG_DIGIT = "\U000e0061-\U000e007a", "\U000e0030-\U000e0039"
_TAG_RE = re.compile(
    f"(\U0001f3f4(?:[{_TAG_LETTER}]{{2}}|[{_TAG_DIGIT}]{{3}})[{_TAG_LETTER}{_TAG_DIGIT}]{{1,4}}\U000e007f)"
    "|[\U000e0000-\U000e007f]+"
)
_RTL_RE = re.compile(f"[{_plane0(tables.RTL_LETTERS)}\U00010800-\U00010fff\U0001e800-\U0001efff]")
_VOWEL_SEPARATOR_RE = re.compile("\u180e(?<![\u1820-\u18a8\u18aa\u180b-\u180d\u180f]\u180e)")

_HIGH = "\U000101fd-\U0001e94a\U000e0100-\U000e01ef"  # holds all marks beyond the basic plane
_MARK_OR_HIGH = f"[{_plane0(tables.MARKS)}{ZWNJ}{ZWJ}{_HIGH}]"
_SOME_MARK_RE = re.compile(_MARK_OR_HIGH)
_MAYBE_LONG_RUN_RE = re.compile(f"{_MARK_OR_HIGH}{_MARK_OR_HIGH}{{{MAX_MARKS}}}")
_MARK = f"[{tables.char_class(tables.MARKS)}{ZWNJ}{ZWJ}]"
_LONG_RUN_RE = re.compile(f"({_MARK}{_MARK}{{{MAX_MARKS - 1}}}){_MARK}++")

_LOW_TAIL = f"[{_plane0(tables.TAIL)}{ZWNJ}\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*+"
_PLAIN = _plane0(tables.JOINER_LETTERS)
_JOINER_RE = re.compile(
    # a joiner between two plain letters is right: only the others are looked at, each with the tail behind it
    f"[{ZWNJ}{ZWJ}](?:(?<![{_PLAIN}][{ZWNJ}{ZWJ}])|(?![{_PLAIN}]))"
    f"{_LOW_TAIL}(?:[{_HIGH}](?<=[{tables.char_class(tables.TAIL)}]){_LOW_TAIL})*+"
)
_SAME_JOINERS_RE = re.compile(f"({ZWNJ}){ZWNJ}+|({ZWJ}){ZWJ}+")
_BLANK_OR_END = frozenset({"", " ", "\t", "\n"})

_EMPTY_START_RE = re.compile(r"[ \t\n]*\n")
_FIRST_INDENT_RE = re.compile(rf"[ \t]{{{MAX_INDENT}}}([ \t]+)")
_INDENT_RE = re.compile(rf"(\n[ \t]{{{MAX_INDENT}}})[ \t]++")
_LONG_INDENT = " " * (MAX_INDENT + 1)
_EMPTY_LINE_RE = re.compile(r"\n[ \t]++(?=\n)")
_INNER_SPACES_RE = re.compile(r"  (?<=[^ \n]  ) *+")
_INNER_RE = re.compile(r"[ \t](?<=[^ \t\n][ \t])(?:[ \t]++|(?<=\t))")
_EMPTY_LINES_RE = re.compile(r"\n\n\n+")
_PRIVATE_RE = re.compile(f"[{_PRIVATE}]")
_PRIVATE_PLANES_RE = re.compile("[\U000f0000-\U000ffffd\U00100000-\U0010fffd]")
_TAB_IN_INDENT_RE = re.compile(r"\n *\t")
_ONLY_NBSP = frozenset(NBSP)
_SPACES_RE = re.compile(r"[ \t\n](?:[ \t\n]++|(?<=[\t\n]))")


def _swap(text: str, old: AbstractSet[str], new: str) -> str:
    """``new`` for each of some characters; where one is absent, finding that out costs next to nothing."""
    if len(old) > _FEW:
        return re.sub(f"[{re.escape(''.join(sorted(old)))}]", new, text)
    for character in old:
        text = text.replace(character, new)
    return text


def drop_controls(text: str) -> str:
    """Without controls, noncharacters and the tags that no flag holds."""
    return _swap(text, odd_characters(text) & _REMOVED, "")


def replace_surrogates(text: str) -> str:
    """U+FFFD for each lone surrogate, which no encoding can carry; they come from entities such as ``&#xD800;``."""
    return _SURROGATE_RE.sub(REPLACEMENT, text)


def unify_line_breaks(text: str) -> str:
    r"""``\n`` for CRLF, CR, VT, FF, NEL, line and paragraph separator."""
    return _swap(text.replace("\r\n", "\n"), _BREAK, "\n")


def unify_blanks(text: str) -> str:
    """A space for each blank of Unicode; tabs wait for the white-space rule."""
    return _swap(text, _BLANK, " ")


def drop_loose_tags(text: str) -> str:
    """Tag characters outside flags of subdivisions: the way to hide text in text."""
    return _TAG_RE.sub(r"\1", text)


def drop_loose_bidi_marks(text: str) -> str:
    """LRM, RLM and ALM in a document without a letter written from right to left."""
    return text if _RTL_RE.search(text) else _swap(text, _BIDI, "")


def drop_loose_vowel_separators(text: str) -> str:
    """U+180E that follows no Mongolian letter."""
    return _VOWEL_SEPARATOR_RE.sub("", text)


def cut_mark_runs(text: str) -> str:
    """At most ``MAX_MARKS`` marks and joiners in a row."""
    # a longer run covers a multiple of MAX_MARKS: most texts are cleared by a 32nd of their characters
    if not _SOME_MARK_RE.search(text[::MAX_MARKS]) or not _MAYBE_LONG_RUN_RE.search(text):
        return text
    return _LONG_RUN_RE.sub(lambda run: run[1].rstrip(ZWNJ + ZWJ), text)


def _judge_joiners(found: re.Match[str]) -> str:
    """The run of marks and joiners without the joiners that neither script nor pictograph needs.

    Judged by the letters around the whole run, marks skipped: NFC may put the marks into another order.
    """
    run, text, start = found[0], found.string, found.start()
    while start and text[start - 1] in _TAIL:
        start -= 1
    before, after = text[start - 1 : start], text[found.end() : found.end() + 1]
    if before in _LETTERS or after in _LETTERS:
        run = _SAME_JOINERS_RE.sub(r"\1\2", run)
        if after in _BLANK_OR_END:  # ZWNJ parts letters; at a blank they are apart already
            run = run.rstrip(ZWNJ)
        if before in _BLANK_OR_END and start == found.start():
            run = run.lstrip(ZWNJ)
        return run
    tied = before in _PICTOGRAPHS and after in _PICTOGRAPHS and run.endswith(ZWJ)
    return run.replace(ZWNJ, "").replace(ZWJ, "") + (ZWJ if tied else "")


def drop_loose_joiners(text: str) -> str:
    """ZWNJ and ZWJ where no script and no emoji sequence needs them."""
    return _JOINER_RE.sub(_judge_joiners, text)


def compose(text: str) -> str:
    """NFC in linear time, with mark runs cut before and, where composing made one longer, after."""
    while True:
        done = unicodedata.normalize("NFC", cut_mark_runs(text))
        if done == text:
            return done
        text = done


def keep_paragraphs(text: str) -> str:
    """One space for blanks inside a line, none at its end, indentation kept, at most one empty line between lines."""
    if text[:1] in _BLANK_OR_END and (start := _EMPTY_START_RE.match(text)):
        text = text[start.end() :]
    text = text.rstrip(" \t\n")
    tabs = "\t" in text
    if ends := " \n" in text or (tabs and "\t\n" in text):
        text = _EMPTY_LINE_RE.sub("\n", text)
    if tabs and not (text[:1] in _BLANK_OR_END or _TAB_IN_INDENT_RE.search(text)):
        text, tabs = text.replace("\t", " "), False  # every one is a blank: next to no page indents with tabs
    if tabs or "  " in text:
        text = (_INNER_RE if tabs else _INNER_SPACES_RE).sub(" ", text)
        if tabs or _LONG_INDENT in text:
            text = _INDENT_RE.sub(r"\1", text)
        if first := _FIRST_INDENT_RE.match(text):
            text = text[: first.start(1)] + text[first.end() :]
    if ends:
        text = text.replace(" \n", "\n")
    return _EMPTY_LINES_RE.sub("\n\n", text) if "\n\n\n" in text else text


def single_spaces(text: str) -> str:
    """One space for every run of white space, none at the ends: the literal rule."""
    return _SPACES_RE.sub(" ", text).strip(" ")


REPAIRS: tuple[tuple[Callable[[str], str], frozenset[str]], ...] = (
    (drop_controls, _REMOVED),
    (replace_surrogates, _SURROGATE),
    (unify_line_breaks, _BREAK),
    (unify_blanks, _BLANK),
    (drop_loose_tags, _TAGS),
    (drop_loose_bidi_marks, _BIDI),
    (drop_loose_vowel_separators, frozenset(VOWEL_SEPARATOR)),
    (cut_mark_runs, frozenset(ZWNJ + ZWJ)),
    (drop_loose_joiners, frozenset(ZWNJ + ZWJ)),
)
"""Repair and the characters of which it needs one to have work; ``compose`` and a white-space rule come after these."""


@latest  # the rule asks, and then the facts about the same text
def odd_characters(text: str) -> frozenset[str]:
    """Which characters of the text some repair may have to touch, and those of private use; empty for most texts."""
    if text.isascii():
        return frozenset(text.encode().translate(None, _PLAIN_ASCII).decode())
    # without plain ASCII, which most texts are for the most part, and for which a class is tried character by character
    rest = utf8(text).translate(None, _PLAIN_ASCII).decode("utf-8", "surrogatepass")
    found = _RARE.search(rest)
    kinds = {NBSP} if NBSP in rest else set[str]()
    if found:
        for start in range(found.start(), len(rest), _CHUNK):
            kinds.update(_RARE.findall(rest, start, start + _CHUNK))
    return frozenset(kinds)


def normalise(text: str, whitespace: str = "paragraphs", mojibake: bool = False) -> str:
    """The text after all of ``REPAIRS``: NFC, encodable, idempotent.

    Args:
        text: any string, lone surrogates included.
        whitespace: "paragraphs" or "space", see ``keep_paragraphs`` and ``single_spaces``.
        mojibake: whether damaged lines are mended before the other repairs (``cleanpipe.text.mojibake_repair``).

    Raises:
        ConfigError: another white-space rule was asked for.

    """
    spacing = whitespace_rule(whitespace)
    if not mojibake or text.isascii():
        return _repaired(text, spacing)[0]
    # What the other repairs take away may have parted two characters that are damage side by side: so on until nothing
    # changes. A round that mends makes the text shorter, one that does not is the last but one.
    while True:
        suspect = suspicious(text)
        done, joined = _repaired(mend(text) if suspect else text, spacing)
        if done == text or not (suspect or (joined and suspicious(done))):
            return done
        text = done


def _repaired(text: str, spacing: Callable[[str], str]) -> tuple[str, bool]:
    """All repairs but that of mojibake; and whether one may have brought characters together that had others than
    blanks between them.
    """
    if spacing is single_spaces:
        text = text.replace("\0", " ")  # the literal rule replaces NUL; the default removes it
    odd = odd_characters(text)
    if odd:
        for repair, triggers in REPAIRS:
            if not odd.isdisjoint(triggers):
                text = text.replace(NBSP, " ") if repair is unify_blanks and odd == _ONLY_NBSP else repair(text)
    if text.isascii():
        return spacing(text), True
    composed = compose(text)
    return spacing(composed), composed != text or not odd.isdisjoint(_PARTING)


def whitespace_rule(name: str) -> Callable[[str], str]:
    """The function of a white-space rule. Raises ConfigError for a name that is none."""
    if name == "paragraphs":
        return keep_paragraphs
    if name == "space":
        return single_spaces
    raise ConfigError(f"whitespace = {name!r} is no rule; choose one of {', '.join(WHITESPACE_RULES)}")


def invisible_counts(text: str) -> dict[str, int]:
    """How often each of ``INVISIBLE`` occurs, by label ("U+200E"), in code point order; absent ones left out."""
    return {f"U+{ord(c):04X}": n for c, n in _counts(text, odd_characters(text) & INVISIBLE).items() if n}


def _counts(text: str, kinds: AbstractSet[str]) -> dict[str, int]:
    every = Counter(text) if len(kinds) > _FEW else None
    return {c: text.count(c) if every is None else every[c] for c in sorted(kinds)}


def text_facts(before: str, after: str) -> dict[str, int]:
    """Whole numbers for the audit of one text and its repaired form; zeros are left out.

    ``nuls_before``, ``surrogates_before``; ``invalid_before`` and ``invalid_after`` (U+FFFD); ``private_use``;
    ``mojibake_documents_before`` (1) and ``mojibake_lines_before`` where lines look damaged, ``_after`` where still so;
    ``white_runs_before`` and ``white_runs_after`` (two or more white-space characters in a row, CRLF being one);
    ``invisible_before.U+200E`` and ``invisible_after.U+200E`` for each character of ``INVISIBLE``.
    """
    facts = rare_facts(before, after)
    for name, runs in (
        ("white_runs_before", white_runs([utf8(before)], odd_characters(before))),
        ("white_runs_after", white_runs([utf8(after)])),
    ):
        if runs:
            facts[name] = runs
    return facts


def rare_facts(before: str, after: str) -> dict[str, int]:
    """``text_facts`` but for runs of white space, which ``white_runs`` counts in many texts at once."""
    odd = odd_characters(before)
    facts = {
        "nuls_before": before.count("\0") if "\0" in odd else 0,
        "surrogates_before": 0 if odd.isdisjoint(_SURROGATE) else _SURROGATE_RE.subn("", before)[1],
        "invalid_before": before.count(REPLACEMENT),
        "invalid_after": after.count(REPLACEMENT),
        "private_use": _private_use(before, odd),
    }
    if suspicious(before) and (broken := damaged_lines(before)):
        left = broken if before == after else damaged_lines(after)
        facts |= {"mojibake_documents_before": 1, "mojibake_lines_before": broken}
        facts |= {"mojibake_documents_after": int(left > 0), "mojibake_lines_after": left}
    hidden = odd & INVISIBLE  # no repair puts one in
    facts |= {f"invisible_before.U+{ord(c):04X}": n for c, n in _counts(before, hidden).items()}
    facts |= {f"invisible_after.U+{ord(c):04X}": n for c, n in _counts(after, hidden).items()}
    return {name: n for name, n in facts.items() if n}


def white_runs(texts: Iterable[bytes], odd: AbstractSet[str] = frozenset()) -> int:
    """Runs of two or more white-space characters in texts in UTF-8. odd: what ``odd_characters`` finds in them."""
    data = b"x".join(texts)
    if not odd.isdisjoint(_BREAK):
        data = data.replace(b"\r\n", b"\n")
    for white in odd & (_BREAK | _BLANK):
        data = data.replace(utf8(white), b"\n")
    points = np.frombuffer(data, np.uint8)
    white = (points == 0x20) | ((points - np.uint8(9)) < 5)
    pairs = white[1:] & white[:-1]
    return int(np.count_nonzero(pairs) - np.count_nonzero(pairs[1:] & pairs[:-1]))


def _private_use(text: str, odd: AbstractSet[str]) -> int:
    if not odd or max(odd) < "\ue000":
        return 0
    high = _PRIVATE_PLANES_RE.subn("", text)[1] if max(odd) >= "\U000f0000" else 0
    return high + _PRIVATE_RE.subn("", text)[1]
