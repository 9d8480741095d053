"""The sections of the page of a corpus."""

from __future__ import annotations

from collections.abc import Iterator

from cleanpipe.audit.lines import NOT_APPLICABLE
from cleanpipe.report.markup import Cell, Html, code, escape, foreign, join, line, number, tag, url
from cleanpipe.report.node import Node
from cleanpipe.report.page import ROWS, Section, charts, facts, figure, left_out, more, table
from cleanpipe.report.scores import score_figures
from cleanpipe.report.svg import Bin, bar, histogram

GROUPS, CLUSTERS = 60, 10  # of samples; the biggest


def _share(node: Node) -> list[Cell]:
    value = node.at("value").value
    return [
        number(node.at("numerator")), number(node.at("value"), "share"),
        bar(value if isinstance(value, (int, float)) else None, "lost"),
    ]  # fmt: skip


def _most(node: Node) -> tuple[int, str]:
    return -node.at("documents", "numerator").number(), node.of


def _largest(node: Node) -> list[tuple[str, Node]]:
    """Entries that are lines, larger first."""
    return sorted(node.items(), key=lambda item: (-item[1].at("numerator").number(), item[0]))


def _cuts(audit: Node, stage: str, score: str) -> list[Node]:
    return [c for c in audit.at("cuts", stage).nodes() if c.value["score"] == score]


def code_points(part: Node) -> Html:
    """Faults, invisible code points, kinds of mojibake."""
    faults = [
        [str(n.value["words"]), *_share(n.at("documents")), number(n.at("occurrences", "value"))]
        for n in sorted(part.at("faults").values(), key=_most)
    ]
    points = [
        [code(str(n.value["point"])), escape(str(n.value["name"])), *_share(n.at("documents")),
         number(n.at("occurrences")), number(n.at("needed_in"))]
        for n in part.at("code_points").nodes()
    ]  # fmt: skip
    kinds = [
        [str(n.value["words"]), *_share(n.at("documents")), number(n.at("occurrences", "value"))]
        for n in sorted(part.at("mojibake").values(), key=_most)
    ]
    note = str(part.at("code_points_method").value)
    heads = ["code point", "name", "documents", "of all", "", "occurrences", "needed in"]
    return join(
        table("What documents hold", ["fault", "documents", "of all", "", "occurrences"], faults, wide=(0,)),
        table("Invisible characters, by code point", heads, points[:ROWS], left=(0, 1), note=f"Method: {note}."),
        left_out(ROWS, len(points), "code points"),
        table("Mojibake, by kind", ["kind", "documents", "of all", "", "characters"], kinds, wide=(0,)),
    )


def copies(part: Node) -> Html:
    """Exact and near duplicates, cluster sizes, the biggest clusters."""
    if part.value == NOT_APPLICABLE:
        return tag("p", "The recipe has no stage that finds duplicates.", class_="note")
    reasons = [[code(k), *_share(n)] for k, n in _largest(part.at("by_reason"))]
    sizes = [[k, number(n)] for k, n in sorted(part.at("cluster_sizes").items(), key=lambda item: int(item[0]))]
    jaccard = [(at, n) for at, n in part.at("jaccard_of_duplicates").numbered()]
    drawn = [Bin(at, min(1.0, at + 0.01), 0, n) for at, n in jaccard if at < 1] + [
        Bin(1.0, 1.01, 0, n) for at, n in jaccard if at >= 1
    ]
    chart = figure(
        "Jaccard index of the duplicates with the one that is kept",
        histogram(drawn, title="Jaccard index", x="Jaccard index", names=("kept", "duplicates")),
    )
    return join(
        table("Documents that another one stands for", ["reason", "documents", "of all", ""], reasons),
        charts(chart) if drawn else None,
        table("Clusters by size", ["documents in it", "clusters"], sizes[:ROWS]),
        left_out(ROWS, len(sizes), "sizes"),
        *_clusters(part),
        tag("p", "Method: ", str(part.at("method").value), ".", class_="note"),
    )


def _clusters(part: Node) -> Iterator[Html]:
    items = []
    for one in part.at("biggest").nodes()[:CLUSTERS]:
        kept, members = one.at("kept"), one.at("members").nodes()
        shown = [_item(n) for n in [kept, *members] if not n.absent]
        items.append(more(join(number(one.at("documents")), " documents"), tag("ol", *shown, class_="samples")))
    if items:
        yield tag("h3", "Biggest clusters, the kept document first")
        yield from items


def languages(audit: Node) -> Section | None:
    """What the model says, and how sure it is."""
    part = audit.at("languages")
    if part.value == NOT_APPLICABLE:
        return None
    shares = [[foreign(k), *_share(n)] for k, n in _largest(part.at("shares"))]
    curves = part.at("keep_curve")
    curve = [(k, curves.at(k)) for k, _ in _largest(part.at("shares"))][:ROWS]
    heads = sorted(curve[0][1].value, key=float) if curve and curve[0][1].value else []
    rows = [[foreign(k), *(number(n.at(t, "value"), "share") for t in heads)] for k, n in curve]
    stage, found = str(part.at("stage").value), part.at("score")
    cuts = _cuts(audit, stage, "language_id_score")
    body = join(
        table("Documents by language", ["language", "documents", "of all", ""], shares[:ROWS]),
        left_out(ROWS, len(shares), "languages"),
        score_figures("language_id_score", found, cuts) if not found.absent else None,
        table("Share of a language's documents whose score reaches", ["language", *(f"≥ {t}" for t in heads)], rows),
    )
    return Section("languages", "Languages", body)


def scores(audit: Node) -> list[Section]:
    """The figures of every stage, but the language's."""
    out = []
    for stage in audit.at("would_drop", "order").value:
        found = audit.at("scores", stage)
        names = [(n, s) for n, s in found.items() if n not in ("language_id_score", "jaccard") and not s.absent]
        held = [score_figures(n, s, c) for n, s in names if (c := _cuts(audit, stage, n))]
        free = [score_figures(n, s, []) for n, s in names if not _cuts(audit, stage, n)]
        heads = sorted({q for _, s in names for q, _ in s.at("quantiles").items()})
        rows = [[code(n), *(number(s.at("quantiles", q), "score") for q in heads)] for n, s in names]
        if names:
            shown = ["score", *(f"{float(q):.0%}".replace("%", " %") for q in heads)]
            body = join(table("Quantiles, of all documents", shown, rows), *held, charts(*free))
            out.append(Section(f"scores-{stage}", f"Scores of {stage}", body))
    return out


def would_drop(audit: Node) -> Html:
    """By stage and reason."""
    part = audit.at("would_drop")
    rows = [
        [code(str(n.value["stage"])), code(str(n.value["reason"])), *_share(n.at("would_drop")),
         number(n.at("fails", "numerator"))]
        for n in part.at("reasons").nodes()
    ]  # fmt: skip
    rules = [tag("li", code(k), " ", escape(str(n.value), 600)) for k, n in part.at("rules").items() if n.value]
    heads = ["stage", "reason", "would drop", "of all", "", "fail it"]
    return join(
        tag("p", "A run by ", code(str(part.at("recipe").value)), " would keep ", line(part.at("kept")), "."),
        table("What would be dropped, by the first stage that would", heads, rows, left=(0, 1)),
        more("The stages in words", tag("ul", *rules)) if rules else None,
        tag("p", "Method: ", escape(str(part.at("method").value), 600), ".", class_="note"),
    )


def lengths(part: Node) -> Html:
    """How long the documents are."""
    empty = join("Empty: ", line(part.at("empty")), ". Mean: ", number(part.at("mean_length", "value")), " characters.")
    windows = part.at("windows")
    ours = None
    if not windows.absent:
        ours = tag("p", "Rows are windows of documents: ", number(windows.at("per_document", "value")), " a document.")
    figures = score_figures("length", part.at("length"), []) if not part.at("length").absent else None
    return join(tag("p", empty), ours, figures)


def tokens(part: Node) -> Html:
    """Tokens and scripts."""
    rows = [[k.replace("_", ", "), number(n)] for k, n in part.at("characters_by_script").items()]
    return join(
        tag("p", "Tokens: ", number(part.at("tokens", "value")), ", ", number(part.at("characters_per_token", "value")),
            " characters each. Method: ", str(part.at("tokens", "method").value), "."),
        table("Characters by script", ["script", "characters"], rows),
    )  # fmt: skip


def characters(part: Node) -> Html:
    """Files, rows, columns."""
    formats = join(*(join(k, " ", number(n)) for k, n in part.at("formats").ranked()), between=", ")
    figures = facts(
        [
            ("Files", number(part.at("files", "value")), formats),
            ("Size", number(part.at("file_bytes", "value"), "bytes"), "as the files lie"),
            ("Rows", number(part.at("rows", "value")), join(number(part.at("rows_judged", "numerator")), " judged")),
            ("Bad rows", number(part.at("bad_rows", "numerator")), "are no documents"),
        ],
        small=True,
    )
    chosen = [
        [*(code(str(n.value[c] or "—")) for c in ("text", "url", "id")), number(n.at("files"))]
        for n in part.at("columns").nodes()
    ]  # fmt: skip
    return join(figures, table("Columns", ["text", "address", "id", "files"], chosen, left=(0, 1, 2)))


def problems(part: Node) -> Html:
    """What could not be read, with places."""
    rows: list[list[Cell]] = []
    for n in part.at("problems").values():
        first = n.at("first").nodes()
        where = join(*(_place(f) for f in first[:3]), between=", ")
        rows.append([str(n.value["what"]), number(n.at("count")), where])
    files = [[foreign(k, 80), escape(str(n.value), 200)] for k, n in part.at("unreadable_files").items()]
    return join(
        table("Rows that are no documents", ["what", "rows", "first at"], rows, left=(0, 2), wide=(0, 2)),
        table("Files set aside", ["file", "why"], files[:ROWS], left=(0, 1), wide=(0, 1)) if files else None,
    )


def _place(problem: Node) -> Html:
    value = problem.value
    return join(foreign(str(value["source"]), 60), f":{value['row']}" if value["row"] else None)


def samples(audit: Node) -> Html:
    """Ten of every fault and verdict."""
    groups = [(g, n) for g, n in audit.at("samples").items() if not g.startswith(("cluster/", "keeper/"))]
    shown = []
    for group, found in groups[:GROUPS]:
        items = [_item(n) for n in found.nodes()]
        anchor = "s-" + "".join(c if c.isalnum() else "-" for c in group)
        inner = more(join(code(group), f" ({len(items)})"), tag("ol", *items, class_="samples"))
        shown.append(tag("div", inner, id=anchor))
    return join(*shown)


def _item(sample: Node) -> Html:
    value = sample.value
    place = join(
        foreign(str(value["source"]), 80), ":", number(sample.at("row")), " · ", code(str(value["doc_id"])),
        join(" · id ", foreign(str(value["id"]), 60)) if value.get("id") else None,
        join(" · ", escape(str(value["fails"]), 120)) if value.get("fails") else None,
    )  # fmt: skip
    return tag("li", url(value.get("url")), tag("div", escape(str(value["evidence"]), 400)), tag("small", place))
