"""A limit on the page: the scores that it was held against, by what became of them; what would pass as it moves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cleanpipe.audit.bins import edges
from cleanpipe.report import sql
from cleanpipe.report.markup import Cell, Html, code, join, number, score, tag
from cleanpipe.report.node import Bins, Node
from cleanpipe.report.page import charts, figure, legend, numbers_of, table
from cleanpipe.report.svg import Bin, Limit, Series, histogram, line

BARS = 48  # of a chart, about
SIGNS = {">=": "≥", "<=": "≤", ">": ">", "<": "<"}
_SKEWED = 100.0  # scores that reach beyond are drawn on a logarithmic line
UNITS: Mapping[str, str] = {
    "perplexity": "perplexity of a token",
    "entropy": "bits a character",
    "jaccard": "Jaccard index",
    "shingles": "shingles",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """Edges of the bars, ascending, the last one closing; and whether they are drawn on a logarithmic line."""

    edges: Sequence[float]
    log: bool


def shown(values: Sequence[float]) -> Shown:
    """Bars for these fine bins: at most about BARS, on edges of the fine bins, so that counts are exact."""
    low, high = values[0], values[-1]
    fine = edges()
    last = float(fine[min(int(np.searchsorted(fine, high, side="right")), len(fine) - 1)])
    if high >= _SKEWED:
        first = next((v for v in values if v >= 1), values[-1])
        step = max((last / first) ** (1 / BARS), 1.02)
        wanted = [first * step**i for i in range(math.ceil(math.log(last / first) / math.log(step)) + 1)]
        return Shown(_snapped([*wanted, last], first, last), True)
    step = next((s for s in (1, 2, 5, 10, 20, 25, 50, 100, 200) if (last - low) * 100 / s <= BARS), 500)
    begin, end = math.floor(low * 100 / step + 1e-9), math.ceil(last * 100 / step - 1e-9)
    wanted = [i * step / 100 for i in range(begin, end + 1)]
    bars = _snapped(wanted, wanted[0], wanted[-1])
    return Shown(bars if bars[-1] > high else [*bars, last], False)  # the highest value lies in a bar


def _snapped(wanted: Sequence[float], first: float, last: float) -> list[float]:
    fine = edges()
    at = np.searchsorted(fine, np.array(wanted))
    at = np.clip(at, 1, len(fine) - 1)
    below, above = fine[at - 1], fine[at]
    nearest = np.where(np.array(wanted) - below < above - np.array(wanted), below, above)
    return sorted(
        {float(v) for v in nearest if first - abs(first) * 1e-9 - 1e-9 <= v <= last + abs(last) * 1e-9 + 1e-9}
    )


def limit_of(cut: Node) -> Limit:
    """As it is drawn."""
    at = cut.at("at")
    return Limit(float(at.value), f"kept {SIGNS[cut.value['keeps']]} {score(float(at.value))}", at.of)


def sentence(cut: Node) -> Html:
    """Who goes, by which option, and who is asked."""
    of = cut.value.get("of") or "all"
    return tag(
        "p", code(str(cut.value["reason"])), f" unless {SIGNS[cut.value['keeps']]} ", number(cut.at("at"), "score"),
        f" — option {cut.value['option']}, asked of {of}", class_="note",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """Of the table of a limit: documents with scores in [low, high), by what became of them."""

    low: float
    high: float
    found: Sequence[Node]


Point = tuple[float, Node]
_PARTS = {
    "kept": "passed this stage",
    "lost": "dropped here, by this limit",
    "aside": "dropped here for another reason",
}
_WHY_NOT = {
    "some": "Whom a stricter limit would be asked about is not counted, so the curve ends at the limit: cleanpipe tune "
    "judges the ledger again.",
    "unknown": "No curve: documents that went for this reason may have failed another limit of the same reason.",
}


def limit_figures(order: Sequence[str], stage: str, cut: Node) -> Html | None:
    """Histogram and curve of one limit, with one table for both; None where its score was not counted.

    Args:
        order: names of all stages. stage: the limit's. cut: of the audit, with its ``counts``.
    """
    counts = cut.at("counts")
    name = str(cut.value["score"])
    if counts.absent:
        return None
    parts = [counts.at(p).binned() for p in ("passed", "dropped", "otherwise")]
    values = sorted({v for p in parts for v in p.at})
    if not values:
        return tag("div", _title(cut), sentence(cut), tag("p", "No document of the limit's has the score.",
                   class_="note"), class_="score")  # fmt: skip
    bars = _with(shown(values), float(cut.value["at"]))
    spans = list(zip(bars.edges[:-1], bars.edges[1:], strict=True))
    rows = [Row(low, high, [p.within(low, high) for p in parts]) for low, high in spans]
    drawn = [Bin(r.low, r.high, *(n.value for n in r.found)) for r in rows]
    names = list(_PARTS.values())
    unit, limit = UNITS.get(name, name), limit_of(cut)
    whole = counts.at("whole")
    figures = [
        figure(
            "Histogram",
            histogram(drawn, title=f"Histogram of {name}", x=unit, limits=[limit], log=bars.log, names=names),
            legend=legend(_keys(counts, parts)),
        )
    ]  # fmt: skip
    points = curve(cut, bars.edges)
    if points:
        exactly = counts.at("known").value == "all"
        series = Series("pass", [(at, n.value / whole.value) for at, n in points], level=exactly)
        figures.append(
            figure(
                "What would pass, as the limit moves",
                line([series], title=f"Keep-curve of {name}", x=f"limit, {unit}", y="of the documents asked"
                     if exactly else "of the documents that came", limits=[limit], log=bars.log,
                     over=(bars.edges[0], bars.edges[-1])),
                legend=legend({"kept": f"pass, were it {SIGNS[cut.value['keeps']]} this"}),
            )
        )  # fmt: skip
    return tag(
        "div", _title(cut), sentence(cut), _in_force(counts), charts(*figures),
        numbers_of(_table(order, stage, cut, bars, rows)), class_="score",
    )  # fmt: skip


def limit_words(cut: Node) -> Html:
    """One limit without charts, for pages that have no room."""
    counts = cut.at("counts")
    return tag("div", _title(cut), sentence(cut), None if counts.absent else _in_force(counts), class_="score")


def _keys(counts: Node, parts: Sequence[Bins]) -> dict[str, str]:
    """What the colours mean that are there."""
    said = {k: what for (k, what), p in zip(_PARTS.items(), parts, strict=True) if p.within(None, None).value}
    return {
        k: f"{w}, asked or not" if k == "kept" and counts.at("known").value == "some" else w for k, w in said.items()
    }


def curve(cut: Node, at: Sequence[float]) -> list[Point]:
    """How many of ``counts/whole`` would pass, were the limit at each of these edges of the fine bins, and as it is;
    where that is known.
    """
    counts, limit = cut.at("counts"), float(cut.value["at"])
    whole, known = counts.at("whole"), counts.at("known").value
    if known not in ("all", "some") or not whole.value:
        return []
    above = cut.value["keeps"][0] == ">"
    asked, dropped = counts.at("asked").binned(), counts.at("dropped").binned()
    out: list[Point] = [(limit, counts.at("passes"))]
    for t in at:
        if t == limit:
            continue
        if known == "all":
            out.append((t, asked.within(t, None) if above else asked.within(None, t)))
        elif (t < limit) is above:
            out.append((t, whole.less(dropped.within(None, t) if above else dropped.within(t, None))))
    return sorted(out, key=lambda p: p[0])


def _with(bars: Shown, at: float) -> Shown:
    """With a border at the limit, where that is one of the fine bins'."""
    inside = bars.edges[0] < at < bars.edges[-1] and at in edges()
    return replace(bars, edges=sorted({*bars.edges, at})) if inside else bars


def _title(cut: Node) -> Html:
    limit = f"kept {SIGNS[cut.value['keeps']]} "
    return tag(
        "h4", code(str(cut.value["score"])), tag("span", " ", limit, number(cut.at("at"), "score"), class_="soft")
    )


def _in_force(counts: Node) -> Html:
    passes, whole, known = counts.at("passes"), counts.at("whole"), str(counts.at("known").value)
    of = "documents that it was asked about" if known == "all" else (
        "documents that came to the stage and went for no other reason there"
    )  # fmt: skip
    said = join("As it is, ", number(passes), " of ", number(whole), f" {of} pass it")
    share = join(" (", number(passes.over(whole), "share"), ").") if whole.value else "."
    why = f" {_WHY_NOT[known]}" if known in _WHY_NOT else None
    return tag("p", said, share, why, class_="note")


def _table(order: Sequence[str], stage: str, cut: Node, bars: Shown, rows: Sequence[Row]) -> Html:
    counts, name = cut.at("counts"), str(cut.value["score"])
    whole, passing = counts.at("whole"), dict(curve(cut, bars.edges))
    heads: list[Cell] = ["from", "below", "passed", "dropped by it", "dropped otherwise"]
    heads += [f"would pass {SIGNS[cut.value['keeps']]} from", "share"] if passing else []
    body: list[list[Cell]] = []
    under = [counts.at(p).within(None, bars.edges[0]) for p in ("passed", "dropped", "otherwise")]
    if any(n.value for n in under):
        body.append(["", score(bars.edges[0]), *map(number, under), *(["", ""] if passing else [])])
    for r in rows:
        row: list[Cell] = [score(r.low), score(r.high), *map(number, r.found)]
        if passing:
            n = passing.get(r.low)
            row += [number(n), number(n.over(whole), "share")] if n is not None else ["", ""]
        body.append(row)
    told = counts.at("by").value == "judge"
    return table(
        f"{name}, by its value, and what became of it", heads, body, left=(),
        sql="" if told else sql.limit(order, stage, cut.value, bars.edges),
        note="Whom the limit is asked about is told by the stage itself, of each row of the ledger." if told else "",
    )  # fmt: skip
