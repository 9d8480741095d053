"""Text as Markdown: a character is escaped only where it would mean something else than itself (CommonMark and GFM)."""

from __future__ import annotations

import re

# A backslash before what it would escape; stars beside a letter or sign; underscores at the edge of a word (not in
# snake_case); backticks; what would be a tag, an address or a reference; what would strike out; what would be a link.
_INLINE = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|$)"
    r"|(?<=\S)\*|\*(?=\S)"
    r"|_(?<![^\W_]_(?=[^\W_]))(?:(?<=\S_)|(?=\S))"
    r"|`"
    r"|<(?=[A-Za-z/!?])"
    r"|&(?=\#[0-9]{1,7};|\#[xX][0-9A-Fa-f]{1,6};|[A-Za-z][A-Za-z0-9]{1,31};)"
    r"|~(?:(?<=\w~)|(?=~)|(?<=~~))"
    r"|\[(?=[^\[\]\n]{0,999}\][(\[:])",
    re.MULTILINE,
)
_ANY = re.compile(r"[\\*_`<&~\[]")
# At the start of a line: headings, items, quotations, rules, lines under headings and table heads, fences, meanings.
_START = re.compile(
    r"^(?:([0-9]{1,9})(?=[.)](?:[ \t]|$))|(?=\#{1,6}(?:[ \t]|$)|[-+*:](?:[ \t]|$)|>|[-=:|][-=:| \t]*$|_[ \t_]*$|~~~))",
    re.MULTILINE,
)
_DECORATION = re.compile(r"(?<![^ ])#(?=#*$)")
_TICKS = re.compile("`+")


def inline(text: str) -> str:
    """Text in a line."""
    return _INLINE.sub(r"\\\g<0>", text) if _ANY.search(text) else text


def starts(text: str) -> str:
    """Lines of a paragraph whose characters are escaped, each at the start of its line."""
    return _START.sub(r"\1\\", text)


def heading(text: str, level: int) -> str:
    """Escaped text as a heading; signs at its end would be left out as decoration."""
    return "#" * level + " " + _DECORATION.sub(r"\\#", text) if text else ""


def in_cell(text: str) -> str:
    """Markdown for a cell of a table."""
    return text.replace("|", "\\|")


def code(text: str) -> str:
    """Code in a line, between more backticks than stand in it."""
    if not text.strip(" "):
        return text
    fence = "`" * (1 + max(map(len, _TICKS.findall(text)), default=0))
    pad = " " if text[0] == "`" or text[-1] == "`" or text[0] == text[-1] == " " else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def fenced(text: str) -> str:
    """A block of code, between longer fences than stand in it."""
    fence = "`" * max(3, 1 + max(map(len, _TICKS.findall(text)), default=0))
    return f"{fence}\n{text}\n{fence}"
