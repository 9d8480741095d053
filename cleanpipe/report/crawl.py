"""What was read: files, records, statuses, types, charsets, languages, and what the scrubber took away."""

from __future__ import annotations

from cleanpipe import batch as col
from cleanpipe.report import sql
from cleanpipe.report.markup import Cell, Html, escape, foreign, join, line, number, tag, words
from cleanpipe.report.node import Node
from cleanpipe.report.page import ROWS, facts, figure, left_out, pair, table
from cleanpipe.report.svg import Series, bar
from cleanpipe.report.svg import line as curve

DOWN, ACROSS = 14, 7  # of the matrix of types
_NONE = Html('<span class="soft">·</span>')


def input_body(part: Node) -> Html:
    """Files, records and bytes as they were read, and what could not be."""
    head = facts(
        [
            (
                "Files",
                number(part.at("files", "value")),
                join(number(part.at("file_bytes", "value"), "bytes"), " as they lie"),
            ),
            ("Record blocks", number(part.at("block_bytes", "value"), "bytes"), "uncompressed"),
            ("Bodies", number(part.at("body_bytes", "value"), "bytes"), "decoded"),
            ("Documents", number(part.at("documents", "total", "value")), "responses, resources, WET"),
        ],
        small=True,
    )
    truncated, damaged = part.at("truncated"), part.at("damaged")
    rows: list[list[Cell]] = [
        ["cut short by the crawler", line(truncated.at("share")), words(truncated.at("by_reason").ranked())],
        ["undecodable", line(part.at("undecodable")), ""],
        ["damaged byte ranges", number(damaged.at("ranges")), join(number(damaged.at("bytes")), " bytes")],
        ["set aside by the reader", number(part.at("quarantined").total()), words(part.at("quarantined").ranked())],
        ["inputs by reader", number(part.at("readers").total()), words(part.at("readers").ranked())],
        ["inputs read again", number(part.at("reread").total()), words(part.at("reread").ranked())],
    ]
    trouble = table("Trouble, and how it was read", ["", "number", "which"], rows, wide=(0, 1, 2), left=(0, 2))
    sources = part.at("records", "by_source").items()
    listed: list[list[Cell]] = [
        [foreign(name, 90), number(types.total()), words(types.ranked())] for name, types in sorted(sources)[:ROWS]
    ]
    files = table("Inputs", ["input", "records", "by type"], listed, left=(0, 2), wide=(0, 2), sql=sql.sources())
    charset_sql = sql.counted(col.CHARSET, "not decoded")
    return join(
        head,
        trouble,
        pair(
            bar_table("Records by type", "record type", "records", part.at("records", "total")),
            bar_table(
                "Charsets that documents were decoded by", "charset", "documents", part.at("charsets"), charset_sql
            ),
        ),
        files,
        left_out(ROWS, len(sources), "inputs"),
    )


def bar_table(caption: str, what: str, of: str, counts: Node, query: str = "") -> Html:
    """Counts by name, larger first, each with its share of all and a bar."""
    items, total = counts.ranked(), counts.total()
    rows: list[list[Cell]] = []
    for name, n in items[:ROWS]:
        part = n.over(total)
        rows.append([foreign(name, 80), number(n), number(part, "share"), bar(part.value)])
    shown = table(caption, [what, of, "share", ""], rows, wide=(0,), sql=query)
    return join(shown, left_out(ROWS, len(items), "rows"))


def http_body(part: Node) -> Html:
    """Statuses, types, and declared against sniffed types."""
    status = part.at("status")
    lead = join(
        "Other than 200: ", line(part.at("non_200")), ". Neither HTML nor plain text: ", line(part.at("other_types")),
        ". Partial (203, 206): ", number(part.at("partial").total()), ". Soft 404: ", line(part.at("soft_404")), ".",
    )  # fmt: skip
    media, types_sql = part.at("media_types"), sql.known(col.MEDIA_TYPE)
    return join(
        tag("p", lead),
        pair(
            bar_table(
                "HTTP status of every document read", "status", "documents", status, sql.counted(col.HTTP_STATUS)
            ),
            bar_table("Types, by declared, identified and sniffed type", "type", "documents", media, types_sql),
        ),
        _matrix(part.at("declared_by_sniffed")),
    )


def _matrix(matrix: Node) -> Html:
    """Declared types down, sniffed ones across; the largest of both."""
    across: dict[str, int] = {}
    for by in matrix.values():
        for name, n in by.items():
            across[name] = across.get(name, 0) + n.value
    heads = sorted(across, key=lambda k: (-across[k], k))[:ACROSS]
    down = sorted(matrix.items(), key=lambda item: (-item[1].total().value, item[0]))
    rows: list[list[Cell]] = [
        [foreign(name, 60), number(by.total()), *(number(by.at(h)) if h in by.value else _NONE for h in heads)]
        for name, by in down[:DOWN]
    ]
    title = "Declared types (down) by sniffed types (across), documents"
    shown = table(title, ["declared", "all", *(foreign(h, 40) for h in heads)], rows, wide=(0,), sql=sql.types())
    more = len(across) - len(heads)
    note = tag("p", f"{more:,} sniffed types of fewer documents are not shown.", class_="note") if more > 0 else None
    return join(shown, left_out(DOWN, len(down), "declared types"), note)


def languages_body(part: Node) -> Html:
    """Languages as they were judged, and how many documents of each would pass other thresholds."""
    lead = join(
        "Removed by language: ",
        line(part.at("removed")),
        ". Mixed-language share: ",
        line(part.at("mixed_language")),
        ".",
    )
    judged, kept, by = part.at("judged"), part.at("kept"), part.at("keep_curve")
    names = [name for name, _ in judged.ranked() if name in (by.value or {})]
    at = sorted({t for n in names for t in by.value[n]}, key=float)
    rows: list[list[Cell]] = []
    for name in names[:ROWS]:
        cells: list[Cell] = [number(by.at(name, t), "share") for t in at]
        rows.append(
            [foreign(name, 30), number(judged.at(name)), number(kept.at(name)) if name in kept.value else "", *cells]
        )
    heads: list[Cell] = ["language", "judged", "kept", *(f"≥ {t}" for t in at)]
    series = [
        Series(name, [(float(t), float(by.value[name][t]["value"])) for t in at], dots=True) for name in names[:3]
    ]
    drawing = curve(series, title="Keep-curve by language", x="least score", y="of those judged to be in it")
    keys = dict(zip(("kept", "lost", "aside"), names[:3], strict=False))
    preview = part.at("preview")
    return join(
        tag("p", lead),
        table("Languages, and the share of each whose score reaches a threshold", heads, rows, sql=sql.keep_curve(at)),
        left_out(ROWS, len(names), "languages"),
        pair(
            figure("Keep-curve by language", drawing, legend=_keys(keys)) if series else None,
            bar_table(
                "Languages of the first paragraphs", "language", "documents", preview, sql.known(col.LANGUAGE_PREVIEW)
            ),
        ),
    )


def _keys(names: dict[str, str]) -> Html:
    return tag(
        "div", *(tag("span", tag("span", class_=f"key {c}"), foreign(w, 30)) for c, w in names.items()), class_="legend"
    )


def scrub_body(part: Node, meanings: Node | None = None) -> Html:
    """What the scrubber left of the characters, and what it counted. meanings: of what it counted, by name."""
    figures = facts(
        [
            ("Scrubbed", number(part.at("documents", "value")), "documents"),
            ("Without markup", number(part.at("not_applicable", "value")), "documents; not applicable"),
            ("Characters in", number(part.at("characters_in", "value")), "of those that came through"),
            (
                "Characters out",
                number(part.at("characters_out", "value")),
                join(number(part.at("left"), "share"), " left"),
            ),
        ],
        small=True,
    )
    return join(figures, counted(part.at("facts"), meanings))


def counted(part: Node, meanings: Node | None = None) -> Html | None:
    """What a stage counted itself; what it is, where the stage says so."""
    said = (meanings.value if meanings is not None else None) or {}
    rows: list[list[Cell]] = [
        [name.replace("_", " "), number(n), *([escape(str(said.get(name, "")), 200)] if said else [])]
        for name, n in part.items()
        if name not in ("value", "reason")
    ]
    heads: list[Cell] = ["", "number", *(["what it is"] if said else [])]
    return table("Counted by the stage", heads, rows, left=(0, 2), wide=(2,)) if rows else None
