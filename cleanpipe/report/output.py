"""What was written: windows, shards, and which characters are in it."""

from __future__ import annotations

from cleanpipe.report import sql
from cleanpipe.report.crawl import counted
from cleanpipe.report.markup import Cell, Html, code, escape, join, line, number, tag
from cleanpipe.report.node import Node
from cleanpipe.report.page import Section, charts, facts, figure, left_out, legend, table
from cleanpipe.report.svg import Bin, bar, histogram

SHARDS, POINTS = 100, 60  # shown


def windows_body(part: Node) -> Html:
    """How documents were cut, and what the overlap costs."""
    windows = part.at("windows")
    head = facts(
        [
            ("Windows", number(windows.at("numerator")), join("of ", number(windows.at("denominator")), " documents")),
            ("A document", number(windows.at("value"), "mean"), "windows, on average"),
            ("Written again", number(part.at("overlap_characters", "value")), "characters of overlap"),
            ("Factor", number(part.at("duplication"), "factor"), "text written to text kept"),
        ],
        small=True,
    )
    return join(head, charts(_per_document(part.at("per_document"))))


def _per_document(found: Node) -> Html:
    values = [int(v) for v, _ in found.numbered()]
    if not values:
        return tag("p", "No document was cut.", class_="note")
    spans = [(1 << i, 2 << i) for i in range(values[-1].bit_length())]
    bins = found.binned()
    counts = [(low, high, bins.within(low, high)) for low, high in spans]
    drawing = histogram(
        [Bin(low, high, n.value) for low, high, n in counts],
        title="Windows a document", x="windows a document", log=True, names=("documents", "none"),
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [f"{low:,}" if low == high - 1 else f"{low:,} to {high - 1:,}", number(n)] for low, high, n in counts
    ]
    data = table("Documents by their number of windows", ["windows", "documents"], rows, sql=sql.windows())
    return figure("Windows a document", drawing, legend=legend({"kept": "documents"}), data=data)


def shards_section(part: Node, reported: list[Node]) -> Section | None:
    """Every shard with its size, rows, fill and digest."""
    if part.absent:
        return None
    files = part.at("files")
    rows: list[list[Cell]] = []
    for n in files.nodes(SHARDS):
        fill = n.at("fill", "value")
        rows.append([
            code(str(n.value["file"])), number(n.at("rows")), number(n.at("bytes"), "bytes"), number(fill, "share"),
            bar(fill.value if isinstance(fill.value, float) else None), digest(n.value.get("sha256")),
        ])  # fmt: skip
    head = facts(
        [
            ("Shards", number(files.size()), "files"),
            ("Rows", number(part.at("rows", "value")), "windows"),
            ("Size", number(part.at("bytes", "value"), "bytes"), join(number(part.at("bytes", "value")), " bytes")),
            ("Retained", number(part.at("retained"), "share"), "of the record blocks, uncompressed"),
        ],
        small=True,
    )
    listed = table(
        "Shards", ["file", "rows", "size", "fill", "", "SHA-256"], rows, left=(0, 5), wide=(5,), sql=sql.shards(),
        note="Every shard but the last is filled to 90 % and more of shards.max_bytes.",
    )  # fmt: skip
    return Section(
        "shards", "Shards", join(head, listed, left_out(SHARDS, len(files.value or ()), "shards"), elsewhere(reported))
    )


def digest(text: object) -> Html:
    """A hash, whole."""
    return (
        Html(f'<code class="hex">{escape(str(text))}</code>') if text else tag("span", "not read whole", class_="soft")
    )


def characters_body(part: Node) -> Html:
    """Invisible controls by code point, before and after the text rule."""
    before, after = part.at("documents_with_invisible_before"), part.at("documents_with_invisible_after")
    lead = join("Documents with invisible controls: before ", line(before), "; after ", line(after), ".")
    left = part.at("left_of_the_removed_set", "value")
    points = part.at("invisible")
    rows = [_before_after(code(name), n) for name, n in points.items()[:POINTS]]
    others = [(k, n) for k, n in part.at("other").items() if n.at("before").value is not None]
    rows += [_before_after(_OTHER.get(k, k.replace("_", " ")), n) for k, n in others]
    return join(
        tag("p", lead),
        tag("p", "Left of the characters that the rule removes: ", number(left), "."),
        table("Characters before and after", ["code point or kind", "before", "after"], rows),
        left_out(POINTS, len(points.items()), "code points"),
    )


_OTHER = {
    "white_runs": "runs of white space",
    "invalid": "bytes that no charset explains (U+FFFD)",
    "mojibake_documents": "documents with lines of mojibake: text that was read by another charset",
    "mojibake_lines": "lines of mojibake",
}


def _before_after(name: Cell, n: Node) -> list[Cell]:
    return [name, number(n.at("before")), number(n.at("after"))]


def elsewhere(lines: list[Node]) -> Html | None:
    """Figures that others reported, beside ours."""
    if not lines:
        return None
    rows: list[list[Cell]] = []
    for n in lines:
        reported = str(n.value["reported"])
        kind = "factor" if "×" in reported else "share" if "%" in reported else "score"
        ours = n.at("ours")
        shown = (
            line(ours)
            if ours.absent
            else number(ours, "factor" if kind == "factor" else "share" if kind == "share" else "score")
        )
        rows.append([str(n.value["what"]), reported, shown])
    return table(
        "Reported elsewhere, beside ours", ["figure", "reported", "ours"], rows,
        wide=(0, 2) if any(n.at("ours").absent for n in lines) else (0,),
        note="Others measured theirs on their own crawls; nothing is asserted of them.",
    )  # fmt: skip


def plain_facts(part: Node, meanings: Node) -> Html | None:
    """What a stage counted itself, where no section of the page shows it."""
    return counted(part, meanings)
