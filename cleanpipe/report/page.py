"""The blocks of a page: sections, tables, lists of facts, figures; and the page around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

from cleanpipe.report.markup import Cell, Html, cell, code, escape, join, tag
from cleanpipe.report.style import CSS

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
CHECK = "Check it yourself (SQL, by cleanpipe query or DuckDB)"  # over every block of SQL
ROWS = 25  # of a table that may be long
LIMITS = 12  # of a stage, with charts
Tone = Literal["good", "bad", "warn", ""]


@dataclass(frozen=True, slots=True)
class Room:
    """How much of an audit a page shows; audit.json has all of it.

    samples: documents, about, on the whole page. limits: of a stage, with charts. idle: limits that no document failed
    have charts too. rows: of a stage's tables.
    """

    samples: int = 0
    limits: int = LIMITS
    idle: bool = True
    rows: int = 200


@dataclass(frozen=True, slots=True)
class Section:
    """One card of the page. under: (anchor, title) of what the contents name below it. group: cards that follow each
    other under one name there.
    """

    anchor: str
    title: str
    body: Html
    under: Sequence[tuple[str, str]] = field(default=())
    group: str = ""


def page(title: str, sections: Sequence[Section], *, subtitle: Cell = "", caution: str = "", footer: Cell = "") -> str:
    """A whole page: one file that asks for nothing and runs nothing.

    Args:
        title: plain text, escaped here, as every string that is no markup.
        sections: cards in their order, each of which the contents name.
        subtitle: one line below the title. caution: a warning above everything. footer: below everything.
    """
    head = join(
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">'),
        Html('<meta name="robots" content="noindex"><link rel="icon" href="data:,">'),
        tag("title", title),
        Html(f"<style>{CSS}</style>"),
        between="\n",
    )
    body = join(
        Html('<a class="skip" href="#content">Skip to the content</a>'),
        Html('<div class="page">'),
        tag("header", tag("h1", title), tag("p", subtitle, class_="sub"), class_="top"),
        _contents(sections),
        Html('<main id="content">'),
        tag("p", caution, class_="caution", role="alert") if caution else None,
        *(_section(s) for s in sections),
        tag("footer", footer) if footer else None,
        Html("</main></div>"),
        between="\n",
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def _section(part: Section) -> Html:
    heading = tag("h2", part.title, id=f"{part.anchor}-title")
    return tag("section", heading, part.body, id=part.anchor, aria_labelledby=f"{part.anchor}-title")


def _contents(sections: Sequence[Section]) -> Html:
    def link(anchor: str, title: str, *below: Html) -> Html:
        return tag("li", tag("a", title, href=f"#{anchor}"), tag("ol", *below) if below else None)

    items: list[Html] = []
    for group, run in groupby(sections, lambda s: s.group):
        parts = list(run)
        links = [link(p.anchor, p.title, *(link(*u) for u in p.under)) for p in parts]
        items += [link(parts[0].anchor, group, *links)] if group else links
    folded = tag("details", tag("summary", "Contents"), tag("ol", *items))
    return tag("nav", folded, class_="toc", aria_label="Contents")


def table(
    caption: Cell,
    heads: Sequence[Cell],
    rows: Sequence[Sequence[Cell]],
    *,
    left: Iterable[int] = (0,),
    wide: Iterable[int] = (),
    sql: str | Sequence[str] = "",
    note: Cell = "",
) -> Html:
    """A table that scrolls by itself where it is wider than the page, also by keyboard.

    Args:
        caption: what it shows. heads: of the columns; the first one names the rows.
        rows: cells; strings are escaped, nodes are numbers with their place.
        left: columns aligned left; the others hold numbers. wide: columns whose texts may wrap.
        sql: how anyone gets the same numbers from the ledger. note: a line below.
    """
    if not rows:
        return join(tag("p", caption, ": none.", class_="note"), check_it(sql))
    lefts, wides = set(left), set(wide)

    def style(i: int) -> str | None:
        return " ".join(c for c in ("l" if i in lefts else "", "w" if i in wides else "") if c) or None

    head = tag("tr", *(tag("th", h, scope="col", class_=style(i)) for i, h in enumerate(heads)))
    body = [
        tag("tr", *(
            tag("td" if i else "th", c, scope=None if i else "row", class_=style(i)) for i, c in enumerate(row)
        ))
        for row in rows
    ]  # fmt: skip
    whole = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    label = _text(cell(caption))
    return join(
        Html(f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">'),
        whole,
        Html("</div>"),
        tag("p", note, class_="note") if note else None,
        check_it(sql),
    )


def _text(markup: Html) -> str:
    """The words of a piece of markup, for an attribute."""
    out, inside = [], False
    for c in markup:
        inside = True if c == "<" else inside
        if not inside:
            out.append(c)
        inside = False if c == ">" else inside
    return "".join(out)


def check_it(sql: str | Sequence[str]) -> Html | None:
    """How to get the numbers above from the ledger: one statement in each block."""
    if not sql:
        return None
    blocks = [sql] if isinstance(sql, str) else sql
    return tag(
        "details",
        tag("summary", CHECK),
        *(tag("pre", tag("code", Html(_lines(block)))) for block in blocks),
        class_="sql",
    )


def _lines(text: str) -> str:
    return "\n".join(str(escape(line, 2000)) for line in text.strip().splitlines())


def more(summary: Cell, *body: Cell, opened: bool = False) -> Html:
    """What only some readers want, behind one line that says what it is."""
    return tag("details", tag("summary", summary), *body, class_="more", open=opened)


def facts(pairs: Iterable[tuple[Cell, Cell, Cell]], small: bool = False) -> Html:
    """A few figures that matter, each as (name, figure, what it is of)."""
    items = [tag("div", tag("dt", n), tag("dd", v, tag("small", s) if s else None)) for n, v, s in pairs]
    return tag("dl", *items, class_="facts small" if small else "facts")


def figure(
    title: Cell, drawing: Html, *, says: Cell = "", legend: Html | None = None, data: Html | None = None
) -> Html:
    """A chart with its title above, its key below, and its numbers as a table behind one line."""
    below = numbers_of(data) if data else None
    return tag("figure", tag("figcaption", title, tag("small", says) if says else None), drawing, legend, below)


def numbers_of(data: Html) -> Html:
    """A chart's numbers as a table, behind one line; not printed, where the chart is enough."""
    return tag("details", tag("summary", "These numbers as a table"), data, class_="numbers")


def charts(*figures: Html) -> Html | None:
    """Figures beside each other where there is room."""
    return tag("div", *figures, class_="charts") if figures else None


def pair(*parts: Html | None) -> Html:
    """Small tables beside each other where there is room."""
    return tag("div", *(tag("div", p) for p in parts if p), class_="pair")


def legend(keys: Mapping[str, str]) -> Html:
    """What the colours mean, by class: {"kept": "kept", "lost": "dropped"}."""
    return tag("div", *(tag("span", tag("span", class_=f"key {c}"), w) for c, w in keys.items()), class_="legend")


def mark(text: Cell, tone: Tone = "") -> Html:
    """A word in a box: good, bad or a warning."""
    return tag("span", text, class_=f"tag {tone}".strip())


def left_out(shown: int, whole: int, what: str, where: str = "audit.json") -> Html | None:
    """A line on the rows that are not shown, if any are."""
    if whole <= shown:
        return None
    return tag("p", f"The first {shown:,} of {whole:,} {what}; {where} has more.", class_="note")


def listed(pairs: Iterable[tuple[str, Cell]]) -> Html:
    """Names with their values, one a line."""
    rows = [tag("li", code(name), " ", value) for name, value in pairs]
    return tag("ul", *rows)
