"""A score on the page: its histogram with the limits drawn, and what would pass as a limit moves."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cleanpipe.audit.bins import WIDTH
from cleanpipe.report import sql
from cleanpipe.report.cuts import UNITS, Shown, limit_figures, limit_of, limit_words, sentence, shown
from cleanpipe.report.markup import Cell, Html, code, join, number, score, tag
from cleanpipe.report.node import Node
from cleanpipe.report.page import Room, charts, figure, left_out, legend, more, numbers_of, table
from cleanpipe.report.svg import Bin, Limit, Series, histogram, line

OPEN = 2  # limits of a stage that are in sight though no document failed them
DRAWN = 4  # into one chart
_SOME = "No curve: the limit is asked of some of these documents only, and which ones was not counted."


def find_score(audit: Node, name: str) -> Node:
    """Where the audit has a score's figures; an absent node where it has none."""
    for place in (audit.at("quality", "scores"), audit.at("languages", "scores"), audit.at("scores")):
        if not place.absent and not (found := place.at(name)).absent:
            return found
    return Node(None)


def score_figures(name: str, found: Node, cuts: Sequence[Node]) -> Html:
    """Histogram of one score as the run left it; the keep-curve too, if its limits are asked of every document.

    Args:
        name: a ledger column. found: its figures in the audit. cuts: limits it is held against; none for none.
    """
    measured, everyone = found.at("measured", "numerator"), found.at("histogram").binned()
    kept, values = found.at("histogram_kept").binned(), everyone.at
    if not values:
        return tag("p", code(name), ": no document has it.", class_="note")
    bars = shown(values)
    spans = list(zip(bars.edges[:-1], bars.edges[1:], strict=True))
    counts = [(low, high, everyone.within(low, high), kept.within(low, high)) for low, high in spans]
    apart = not found.at("histogram_kept").absent  # an earlier version did not count the kept by their scores
    drawn = [
        Bin(low, high, k.value if apart else n.value, n.value - k.value if apart else 0) for low, high, n, k in counts
    ]
    keys = {"kept": "kept at the end", "lost": "lost, here or elsewhere"} if apart else {"kept": "documents"}
    unit = UNITS.get(name, name)
    limits = [limit_of(c) for c in cuts[:DRAWN]]
    numbers = _table(name, found, counts, bars, cuts)
    histogram_ = figure(
        "Histogram" if cuts else code(name),
        histogram(drawn, title=f"Histogram of {name}", x=unit, limits=limits, log=bars.log),
        says=None if cuts else join(number(measured), " measured, held against no limit"),
        legend=legend(keys),
        data=None if cuts else numbers,
    )
    if not cuts:
        return histogram_
    return tag(
        "div",
        tag("h4", code(name), tag("span", " ", number(measured), " measured", class_="soft")),
        *(sentence(c) for c in cuts),
        charts(histogram_, *([_curve(name, found, counts, bars, cuts, limits, unit)] if _of_all(cuts) else [])),
        None if _of_all(cuts) else tag("p", _SOME, class_="note"),
        numbers_of(numbers),
        class_="score",
    )


def _of_all(cuts: Sequence[Node]) -> bool:
    return not any(c.value.get("of") or c.value.get("where") for c in cuts)


def _directions(cuts: Sequence[Node]) -> tuple[bool, bool]:
    cuts = cuts if _of_all(cuts) else ()
    return any(c.value["keeps"][0] == ">" for c in cuts), any(c.value["keeps"][0] == "<" for c in cuts)


Counts = Sequence[tuple[float, float, Node, Node]]


def _table(name: str, found: Node, counts: Counts, bars: Shown, cuts: Sequence[Node]) -> Html:
    measured, everyone = found.at("measured", "numerator"), found.at("histogram").binned()
    above, below = _directions(cuts)
    apart = not found.at("histogram_kept").absent
    heads: list[Cell] = ["from", "below", "documents", "kept"]
    heads += ["would pass ≥ from", "of measured"] if above else []
    heads += ["would pass < from", "of measured"] if below else []
    rows: list[list[Cell]] = []
    under = everyone.within(None, bars.edges[0])
    if under.value:
        rows.append(
            [
                "",
                score(bars.edges[0]),
                number(under),
                number(found.at("histogram_kept").within(None, bars.edges[0])) if apart else "",
            ]
        )
    for low, high, n, k in counts:
        row: list[Cell] = [score(low), score(high), number(n), number(k) if apart else "not recorded"]
        for wanted, passing in ((above, everyone.within(low, None)), (below, everyone.within(None, low))):
            row += [number(passing), number(passing.over(measured), "share")] if wanted else []
        rows.append(row)
    rows = [[*r, *([""] * (len(heads) - len(r)))] for r in rows]
    return table(f"{name}, by its value", heads, rows, left=(), sql=sql.histogram(name, bars.edges))


def _curve(
    name: str, found: Node, counts: Counts, bars: Shown, cuts: Sequence[Node], limits: Sequence[Limit], unit: str
) -> Html:
    measured, everyone = found.at("measured", "numerator"), found.at("histogram").binned()
    above, below = _directions(cuts)
    whole = max(1, measured.number())
    series = []
    if above:
        points = [(low, everyone.within(low, None).value / whole) for low, *_ in counts]
        series.append(Series("pass a lower limit", [*points, (bars.edges[-1], 0.0)], level=True))
    if below:
        points = [(low, everyone.within(None, low).value / whole) for low, *_ in counts]
        series.append(Series("pass an upper limit", [*points, (bars.edges[-1], 1.0)], level=True))
    names = {"kept": "pass a lower limit (≥)"} if above else {}
    names |= {("lost" if above else "kept"): "pass an upper limit (<)"} if below else {}
    drawing = line(
        series, title=f"Keep-curve of {name}", x=f"limit, {unit}", y="of measured", limits=limits, log=bars.log
    )
    return figure(
        "Keep-curve: what would pass, as the limit moves",
        drawing,
        legend=legend(names),
    )


def all_scores(
    audit: Node, stage: str, names: Sequence[str], cuts: Sequence[Node], failed: Collection[str], room: Room
) -> Html | None:
    """Figures of a stage's scores: of each limit, then of the scores that are held against none.

    Args:
        audit: with the scores' figures. stage: its name. names: of its scores. cuts: its limits.
        failed: reasons that documents went for; other limits are folded where there are many. room: on the page.
    """
    order = [str(n.value["stage"]) for n in audit.at("funnel").nodes()]
    drawn: list[tuple[Node, Html]] = []
    for cut in cuts:
        found = find_score(audit, str(cut.value["score"]))
        figures = limit_figures(order, stage, cut)
        if figures is None and not found.absent:  # an earlier version did not count what became of them
            figures = score_figures(str(cut.value["score"]), found, [cut])
        if figures is not None:
            drawn.append((cut, figures))
    held = {str(c.value["score"]) for c, _ in drawn}
    plain = [score_figures(n, found, []) for n in names if n not in held and not (found := find_score(audit, n)).absent]
    out: list[Html] = []
    folded: list[Html] = []
    for cut, figures in drawn[: room.limits]:
        aside = cut.value["reason"] not in failed and len(out) >= OPEN
        (folded if aside else out).append(figures if room.idle or not aside else limit_words(cut))
    rest = more(f"{len(folded):,} more limits, which no document failed", *folded) if folded else None
    if not out and not plain:
        return None
    scores = list(dict.fromkeys([*(str(c.value["score"]) for c, _ in drawn), *names]))
    hidden = left_out(room.limits, len(drawn), "limits")
    return join(*out, rest, hidden, charts(*plain[: room.rows]), _quantiles(audit, scores))


def _quantiles(audit: Node, names: Sequence[str]) -> Html | None:
    rows: list[list[Cell]] = []
    found = {name: find_score(audit, name) for name in names}
    at = sorted({q for n in found.values() if not n.absent for q in n.value["quantiles"]})
    for name, node in found.items():
        for which, of in (("quantiles", "all"), ("quantiles_kept", "kept")):
            values = node.at(which)
            if values.value:
                rows.append([code(name), of, *(number(values.at(q), "score") for q in at)])
    if not rows:
        return None
    heads: list[Cell] = ["score", "of", *(f"{float(q):.0%}".replace("%", " %") for q in at)]
    names = [name for name in names if not found[name].absent]
    note = f"Lower edges of the bins that hold them; bins are {WIDTH}."
    return more("Quantiles", table("Quantiles", heads, rows, left=(0, 1), sql=sql.quantiles(names), note=note))
