"""Duplicates: how many, how like, in which clusters, and whether the bands found what the theory says."""

from __future__ import annotations

from collections.abc import Mapping

from cleanpipe.report import sql
from cleanpipe.report.markup import Cell, Html, code, foreign, join, line, number, score, tag, url
from cleanpipe.report.node import Node
from cleanpipe.report.page import charts, check_it, facts, figure, left_out, legend, more, table
from cleanpipe.report.svg import Bin, Limit, Series, bars, histogram
from cleanpipe.report.svg import line as curve

CLUSTERS, MEMBERS = 10, 8  # shown


def duplicates_body(part: Node) -> Html:
    """Everything of a run's duplicates that the audit has."""
    meeting = part.at("meeting")
    pairs: list[tuple[Cell, Cell, Cell]] = [
        (
            "Exact copies",
            number(part.at("exact", "numerator")),
            join(number(part.at("exact"), "share"), " of those compared"),
        ),
        (
            "Near copies",
            number(part.at("near", "numerator")),
            join(number(part.at("near"), "share"), " of those compared"),
        ),
    ]
    for name, of in (
        ("candidate_pairs", "that share a band key"),
        ("verified_pairs", "whose Jaccard index was computed"),
    ):
        if meeting.at(name).value is not None:
            pairs.append((name.replace("_", " ").capitalize(), number(meeting.at(name)), of))
    curves = (_s_curve(part, meeting), _measured(part.at("s_curve_measured")))
    drawn = [f for f in (*curves, _jaccard(part, meeting), _clusters(part)) if f is not None]
    return join(
        facts(pairs, small=True),
        check_it(sql.duplicate_kinds()),
        charts(*drawn),
        _biggest(part.at("biggest")),
        _hosts(part.at("top_hosts")),
        tag("p", "Mirrors: ", line(part.at("mirrors")), ".", class_="note"),
    )


def _s_curve(part: Node, meeting: Node) -> Html | None:
    """The chance to become a candidate, drawn from its formula, with the points that the audit has."""
    found = part.at("s_curve")
    if found.absent or not isinstance(found.value.get("p"), Mapping):
        return None
    bands, rows = int(found.value["bands"]), int(found.value["rows"])
    theory = [(j / 100, 1 - (1 - (j / 100) ** rows) ** bands) for j in range(30, 101)]
    dots = sorted((float(k), float(v.value)) for k, v in found.at("p").items())
    threshold = meeting.at("threshold")
    limits = (
        [Limit(float(threshold.value), f"≥ {score(float(threshold.value))}", threshold.of)] if threshold.value else []
    )
    drawing = curve(
        [Series("theory", theory), Series("as audited", dots, dots=True, joined=False)],
        title="Chance that a pair becomes a candidate, by its Jaccard index",
        x="Jaccard index of a pair", y="chance to meet", limits=limits,
    )  # fmt: skip
    table_rows: list[list[Cell]] = [[name, number(n, "share")] for name, n in sorted(found.at("p").items())]
    says = join(
        number(found.at("bands")), " bands of ", number(found.at("rows")), " rows: a pair meets with the chance ",
        "1 − (1 − Jʳ)ᵇ; even odds at ", number(found.at("p50")), ".",
    )  # fmt: skip
    data = table("Chance that a pair becomes a candidate", ["Jaccard index", "chance"], table_rows)
    return figure(
        "S-curve in theory",
        drawing,
        says=says,
        legend=legend({"kept": "formula", "lost": "points in audit.json"}),
        data=data,
    )


def _jaccard(part: Node, meeting: Node) -> Html | None:
    found = part.at("jaccard_of_verified_pairs")
    values = list(found.numbered())
    if not values:
        return None
    threshold = meeting.at("threshold")
    at = float(threshold.value) if threshold.value else 1.0
    bins = [Bin(v, round(v + 0.01, 2), 0 if v >= at else n, n if v >= at else 0) for v, n in values]
    limits = [Limit(at, f"drops ≥ {score(at)}", threshold.of)] if threshold.value else []
    drawing = histogram(
        bins, title="Jaccard index of verified pairs", x="Jaccard index", y="pairs", limits=limits,
        names=("unlike enough", "too like"),
    )  # fmt: skip
    rows: list[list[Cell]] = [[name, number(n)] for name, n in sorted(found.items(), key=lambda i: float(i[0]))]
    data = table("Verified pairs by their Jaccard index", ["from", "pairs"], rows)
    keys = {"kept": "below the threshold", "lost": "at or above it"}
    return figure(
        "Jaccard index of verified pairs",
        drawing,
        says=join(number(found.total()), " pairs"),
        legend=legend(keys),
        data=data,
    )


def _clusters(part: Node) -> Html | None:
    found = part.at("cluster_sizes")
    if found.absent or not found.value:
        return None
    items = sorted(found.items(), key=lambda i: int(i[0].partition("-")[0]))
    drawn = [(f"{name} documents", (("lost", n.value),), f"{n.value:,}") for name, n in items]
    drawing = bars(drawn, title="Clusters by the number of their documents")
    rows: list[list[Cell]] = [[name, number(n)] for name, n in items]
    data = table("Clusters by size", ["documents", "clusters"], rows, sql=sql.clusters())
    return figure(
        "Cluster sizes", drawing, says=join(number(found.total()), " clusters, the kept document counted"), data=data
    )


def _measured(found: Node) -> Html | None:
    if found.absent or not found.value:
        return None
    rows: list[list[Cell]] = []
    seen, expected = [], []
    for name, n in sorted(found.items()):
        pairs, bands = n.at("pairs"), n.at("bands")
        each = bands.over(pairs)
        rows.append([name, number(pairs), number(bands), number(each, "mean"), number(n.at("expected"), "mean")])
        seen.append((float(name), float(each.value or 0)))
        expected.append((float(name), float(n.at("expected").value or 0)))
    data = table(
        "Bands that verified pairs shared, beside the theory",
        ["Jaccard from", "pairs", "bands shared", "a pair", "in theory"],
        rows,
    )
    drawing = curve(
        [Series("measured", seen, dots=True), Series("in theory", expected)],
        title="Bands that a verified pair shared, by its Jaccard index",
        x="Jaccard index, from", y="bands shared by a pair", share=False,
    )  # fmt: skip
    says = "A pair is seen only if it shares a band; the theory is that of such pairs."
    return figure(
        "S-curve, measured", drawing, says=says, legend=legend({"kept": "measured", "lost": "in theory"}), data=data
    )


def _biggest(found: Node) -> Html | None:
    if found.absent:
        return (
            tag("p", "Biggest clusters: not recorded by this version.", class_="note") if found.value is None else None
        )
    clusters = found.nodes()
    if not clusters:
        return None
    parts: list[Cell] = []
    for n in clusters[:CLUSTERS]:
        value = n.value
        members = n.at("members").nodes(MEMBERS)
        items = [
            tag(
                "li",
                url(m.value.get("url")),
                tag("small", "Jaccard ", number(m.at("jaccard"), "score"), " · ", code(str(m.value.get("doc_id", "")))),
            )
            for m in members
        ]
        head = join(
            number(n.at("size")), " documents, kept: ", foreign(str(value.get("url") or value.get("doc_id")), 90)
        )
        rest = int(value.get("size", 0)) - 1 - len(items)
        left = tag("p", f"and {rest:,} more", class_="note") if rest > 0 else None
        parts.append(
            more(
                head,
                tag("small", "stands: ", code(str(value.get("doc_id", "")))),
                tag("ol", *items, class_="samples"),
                left,
            )
        )
    hidden = left_out(CLUSTERS, len(clusters), "clusters")
    return join(tag("h3", "Biggest clusters"), *parts, hidden, check_it(sql.biggest()))


def _hosts(found: Node) -> Html | None:
    rows: list[list[Cell]] = [[foreign(name, 80), number(n)] for name, n in found.ranked()]
    return (
        table("Hosts with most duplicates", ["host", "duplicates"], rows, wide=(0,), sql=sql.duplicate_hosts())
        if rows
        else None
    )
