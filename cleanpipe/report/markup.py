"""HTML that is made, never pasted: every string is escaped unless it is markup already; numbers carry where they are
from.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from html import escape as _entities
from typing import Any, Literal

from cleanpipe.audit.console import size as _size
from cleanpipe.audit.lines import NOT_APPLICABLE, NOT_MEASURED
from cleanpipe.report.node import Node

WORD = 30  # characters of a word that is not broken
WORDS = 8  # counts in one line
LONGEST = 160  # characters of a text from outside that are shown
_MARKS = 4  # combining marks in a row: more of them paint over the lines around
Kind = Literal["count", "share", "bytes", "factor", "mean", "rate", "score", "seconds"]


class Html(str):
    """Markup that may stand in a page as it is; any other string is escaped on its way in."""

    __slots__ = ()


Cell = str | int | float | Node | None


def clean(text: str) -> str:
    """The text without what could hide or turn it: controls, bidi and other invisible characters become U+FFFD, any
    white space one blank; of a pile of combining marks four are left.
    """
    if text.isascii() and text.isprintable():  # most are
        return text
    out: list[str] = []
    marks = 0
    for c in text:
        marks = marks + 1 if unicodedata.combining(c) else 0
        if marks > _MARKS:
            continue
        out.append(c if c.isprintable() else " " if c.isspace() else "\ufffd")
    return "".join(out)


def middle(text: str, longest: int = LONGEST) -> str:
    """The text, its middle left out where it is longer."""
    if len(text) <= longest:
        return text
    front = (longest - 1) * 2 // 3
    return f"{text[:front]}…{text[len(text) - (longest - 1 - front) :]}"


def escape(text: str, longest: int = LONGEST) -> Html:
    """Text as text: cleaned, shortened in its middle, and escaped. Markup passes as it is."""
    if isinstance(text, Html):
        return text
    return Html(_entities(clean(middle(text, longest)), quote=True))


def foreign(text: str, longest: int = LONGEST) -> Html:
    """A name from outside (a host, a language, a type), kept from turning the direction of what stands beside it."""
    return Html(f"<bdi{_long(text)}>{escape(text, longest)}</bdi>") if text else Html("—")


def url(text: str | None, longest: int = 120) -> Html:
    """A URL as text, never as a link."""
    return Html(f'<bdi class="u">{escape(text, longest)}</bdi>') if text else Html('<span class="soft">no URL</span>')


def code(text: str, longest: int = LONGEST) -> Html:
    """A column, an option, a digest."""
    return Html(f"<code{_long(text)}>{escape(text, longest)}</code>")


def _long(text: str) -> str:
    """Only a word that is too long for a line may be broken anywhere."""
    return ' class="long"' if max(map(len, text.split()), default=0) > WORD else ""


def join(*parts: Cell, between: str = "") -> Html:
    """Markup and texts, one after the other."""
    return Html(between.join(cell(p) for p in parts if p is not None))


def tag(_name: str, *children: Cell, **attributes: str | float | None) -> Html:
    """One element; ``class_`` is class, ``data_of`` is data-of; None and False leave an attribute out."""
    spelled = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        name = key.rstrip("_").replace("_", "-")
        text = f"{value:.6g}" if isinstance(value, float) else str(value)
        spelled.append(f" {name}" if value is True else f' {name}="{_entities(text, quote=True)}"')
    return Html(f"<{_name}{''.join(spelled)}>{join(*children)}</{_name}>")


def cell(value: Cell) -> Html:
    """What a table's cell or a paragraph shows of a value."""
    if isinstance(value, str):
        return escape(value)
    return number(value)


def exact(value: Any) -> str:
    """A number as data-n has it: whole, or with what Python needs to read the same one again."""
    return str(int(value)) if isinstance(value, int) else repr(float(value))


def number(value: Node | float | str | None, kind: Kind = "count", of: str = "") -> Html:
    """A number for people, with its exact value and its place in the data beside it.

    Args:
        value: a number, or a node of audit.json; words in place of one are shown as words.
        kind: count 1,234; share 12.3 %; bytes 1.2 MB; factor 1.33×; mean 3.82; rate 12,345; score 0.123; seconds 1.2 s.
        of: where it stands, if ``value`` is no node.
    """
    plain: Any = value
    if isinstance(value, Node):
        plain, of = value.value, value.of
    if isinstance(plain, Mapping) and "value" in plain:
        plain, of = plain["value"], f"{of}/value"
    if plain is None:
        return Html('<span class="soft">—</span>')
    if isinstance(plain, bool):
        return Html("yes" if plain else "no")
    if not isinstance(plain, (int, float)):
        short = "n/a" if plain == NOT_APPLICABLE else "not measured" if plain == NOT_MEASURED else escape(str(plain))
        return Html(f'<span class="soft">{short}</span>')
    shown = _FORMS[kind](plain)
    if not of:
        return Html(f'<span class="n">{shown}</span>')
    where = _entities(of, quote=True)
    return Html(f'<span class="n" data-n="{exact(plain)}" data-of="{where}">{shown}</span>')


def share(value: float) -> str:
    """12.3 %; what is not quite 0 or 1 is not shown as such."""
    if value and abs(value) < 0.0005:
        return f"{value * 100:.2g} %" if abs(value) >= 0.000001 else "&lt;0.0001 %"
    if 0.9995 <= value < 1:
        return "&gt;99.9 %"
    return f"{value:,.1%}".replace("%", " %")


def count(value: float) -> str:
    """1,234; 0.123."""
    return f"{value:,}" if isinstance(value, int) else score(value)


def score(value: float) -> str:
    """Six digits, with separators; zeros behind the point are dropped."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else ("-" if value < 0 else "") + "∞"
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:,.6g}"


_FORMS: Mapping[Kind, Callable[[Any], str]] = {
    "count": count,
    "share": share,
    "bytes": lambda v: _size(round(v)),
    "factor": lambda v: f"{v:,.2f}×",
    "mean": lambda v: f"{v:,.2f}",
    "rate": lambda v: f"{v:,.0f}" if v >= 100 else score(v),
    "score": score,
    "seconds": lambda v: f"{v:,.1f} s" if v >= 10 else f"{v:,.3g} s",
}


def line(node: Node, kind: Kind = "share") -> Html:
    """An audit line with both its numbers: 47 of 304 documents (15.5 %); why, where it was not measured."""
    value = node.value
    if isinstance(value, Mapping) and "reason" in value:
        return join(Html('<span class="soft">not measured: '), str(value["reason"]), Html("</span>"))
    if not isinstance(value, Mapping) or "numerator" not in value:
        return number(node, kind)
    unit = str(value.get("unit", ""))
    if value.get("denominator") == 1 and isinstance(value["value"], int):  # a plain count; shares are no whole numbers
        return join(number(node.at("value")), " ", unit)
    both = join(number(node.at("numerator")), " of ", number(node.at("denominator")), " ", unit)
    return join(both, " (", number(node.at("value"), kind), ")")


def many(node: Node, what: str) -> Html:
    """A number with its noun: 1 shard, 2 shards."""
    return join(number(node), f" {what}{'' if node.number() == 1 else 's'}")


def moment(text: object) -> str:
    """An instant of run.json for people: 2026-11-30 15:48 UTC."""
    said = str(text)
    return f"{said[:10]} {said[11:16]} UTC" if said[19:] == "+00:00" else said


def words(nodes: Sequence[tuple[str, Node]], none: str = "none") -> Html:
    """Counts in one line: html 12, pdf 3; of many the first few."""
    parts = [join(foreign(name, 60), " ", number(node)) for name, node in nodes[:WORDS]]
    parts += [Html(f"and {len(nodes) - WORDS:,} more")] if len(nodes) > WORDS else []
    return join(*parts, between=", ") if parts else escape(none)
