"""The page's second half: ids, control strings, proofs, shards and laws."""

from __future__ import annotations

from cleanpipe.report.markup import Cell, Html, code, escape, foreign, join, line, many, number, tag, url
from cleanpipe.report.node import Node
from cleanpipe.report.output import digest
from cleanpipe.report.page import ROWS, Section, facts, left_out, mark, more, table
from cleanpipe.report.svg import bar
from cleanpipe.tokens.audit.console import backend_words
from cleanpipe.tokens.audit.markdown import visible

SHARDS = 100  # shown


def piece(text: str) -> Html:
    """What an id stands for, with blanks that are seen; the direction of what stands beside it is its own."""
    return tag("bdi", code(visible(text), 80))


def ids(part: Node) -> Section:
    """Which ids the text uses."""
    head = facts(
        [
            ("Never seen", number(part.at("never"), "share"),
             join(number(part.at("never", "numerator")), " of ", number(part.at("never", "denominator")), " ids")),
            ("Seen once", number(part.at("once")), "ids"),
            ("Most frequent 100", number(part.at("top_100"), "share"), "of the tokens"),
            ("Entropy", number(part.at("entropy_bits"), "mean"), "bits a token, of single ids"),
        ],
        small=True,
    )  # fmt: skip
    rows: list[list[Cell]] = []
    for n in part.at("top").nodes():
        share = n.at("share", "value")
        rows.append([
            piece(str(n.value["piece"])), number(n.at("id")), number(n.at("count")), number(n.at("share"), "share"),
            bar(share.value if isinstance(share.value, float) else None),
        ])  # fmt: skip
    top = table("Most frequent ids", ["piece", "id", "tokens", "share", ""], rows)
    never = [list[Cell]([piece(str(n.value["piece"])), number(n.at("id"))]) for n in part.at("never_examples").nodes()]
    some = more("Some that were never seen", table("Never seen, some", ["piece", "id"], never)) if never else None
    note = join("Controls, which no text can give, are not counted here: ", number(part.at("controls")), " of ",
                number(part.at("vocabulary")), " ids.")  # fmt: skip
    return Section("ids", "Ids", join(tag("p", note, class_="note"), head, top, some))


def controls(part: Node) -> Section:
    """Strings that mean something to a tokenizer, in the text of pages."""
    ranked = sorted(part.at("by_string").items(), key=lambda item: (-item[1].value["occurrences"], item[0]))
    rows: list[list[Cell]] = [
        [code(s), number(n.at("occurrences")), number(n.at("documents")), number(n.at("of_tokenizer"))]
        for s, n in ranked[: 2 * ROWS]
    ]
    told = join("In ", line(part.at("documents")), ". They were encoded as the text that they are: none is a boundary.")
    listed = table("Control strings", ["string", "times", "documents", "this tokenizer's"], rows)
    return Section(
        "controls",
        "Control strings in page text",
        join(tag("p", told), listed, left_out(2 * ROWS, len(ranked) + part.value["left_out"], "strings")),
    )


def round_trip(part: Node) -> Section:
    """Whether decoding gives the text back."""
    told = join(
        "Decoded again: ", many(part.at("documents"), "document"), " of ", many(part.at("characters"), "character"),
        ". Changed: ", line(part.at("failed")), ".",
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [code(str(n.value["doc_id"])), number(n.at("at")), foreign(str(n.value["text"])), foreign(str(n.value["back"]))]
        for n in part.at("failures").nodes(ROWS)
    ]
    lossy = str(part.value["lossy"])
    listed = table(
        "Documents that came back changed, where the first character differs",
        ["document", "character", "text", "came back"], rows, left=(0, 2, 3), wide=(2, 3),
    )  # fmt: skip
    return Section(
        "round-trip",
        "Round trip",
        join(
            tag("p", told),
            tag("p", f"Not all of it can come back: {lossy}.", class_="note") if lossy else None,
            listed if rows else None,
            left_out(ROWS, len(part.value["failures"]), "documents"),
        ),
    )


def samples(part: Node) -> Section | None:
    """How some documents begin, token by token."""
    found = part.nodes()
    if not found:
        return None
    items = []
    for n in found:
        pieces = join(*(piece(str(p)) for p in n.value["pieces"]), between=" ")
        place = join(many(n.at("tokens"), "token"), " · ", foreign(str(n.value["language"] or "unknown"), 30), " · ",
                     code(str(n.value["doc_id"])))  # fmt: skip
        items.append(tag("li", url(n.value["url"]), tag("div", pieces), tag("small", place)))
    told = tag("p", "The first tokens of some documents; ␣ is a blank, \\n the end of a line.", class_="note")
    return Section("samples", "Samples", join(told, tag("ol", *items, class_="samples")))


def tokenizer(audit: Node) -> Section:
    """What encoded, and what it was proven with."""
    card, proof = audit.at("tokenizer"), audit.at("backend")
    rows: list[list[Cell]] = [
        ["name", foreign(str(card.value["name"]), 80)],
        ["kind", code(str(card.value["kind"]))],
        ["ids", number(card.at("vocabulary"))],
        ["bytes an id", number(card.at("bytes_an_id"))],
        *[list[Cell]([name.upper(), number(card.at(name))]) for name in ("bos", "eos", "unk")],
        ["byte-fallback ids", number(card.at("byte_ids"))],
        ["lossless", "yes: decoding gives the text back" if card.value["lossless"] else "no: it normalizes text"],
    ]
    rows += [[f"fingerprint: {name}", digest(n.value)] for name, n in card.at("fingerprint").items()]
    own = [list[Cell]([code(s), number(n)]) for s, n in card.at("controls").items()[: 4 * ROWS]]
    told: list[list[Cell]] = [["in words", backend_words(proof.value or {}) or "not recorded"]]
    told += [[name.replace("_", " "), _plain(n)] for name, n in proof.items()]
    return Section(
        "tokenizer",
        "Tokenizer",
        join(
            table("Tokenizer", ["", "value"], rows, left=(0, 1), wide=(1,)),
            more(
                join("Its control strings (", number(card.at("controls").size()), ")"),
                table("Control strings of the tokenizer", ["string", "id"], own),
            ),
            table(
                "Backend: its ids were compared with those of the reference before and while it worked",
                ["", "value"], told, left=(0, 1), wide=(1,),
            ),
        ),
    )  # fmt: skip


def _plain(node: Node) -> Html:
    if isinstance(node.value, (int, float)):
        return number(node)
    if isinstance(node.value, dict):
        return join(*(join(code(k), " ", _plain(n)) for k, n in node.items()), between=", ")
    return escape(str(node.value), 300) if node.value not in (None, "", []) else escape("none")


def shards(audit: Node) -> Section:
    """Every payload with what is in it."""
    files = audit.at("shards")
    rows: list[list[Cell]] = [
        [code(str(n.value["name"])), *(number(n.at(m)) for m in ("tokens", "documents", "windows")),
         number(n.at("bytes"), "bytes"), digest(n.value.get("sha256"))]
        for n in files.nodes(SHARDS)
    ]  # fmt: skip
    heads: list[Cell] = ["payload", "tokens", "documents", "windows", "size", "SHA-256"]
    listed = table("Payloads", heads, rows, left=(0, 5), wide=(5,))
    return Section("shards", "Shards", join(listed, left_out(SHARDS, len(files.value), "payloads")))


def conservation(part: Node) -> Section:
    """Every law with both its sides."""
    lines = part.at("lines").nodes()
    broken = [n for n in lines if not n.value["ok"]]
    lead = "What the run published is in the payloads, or lost with a reason; each law says so with both its sides."
    if broken:
        do = "does" if len(broken) == 1 else "do"
        lead = f"{len(broken):,} of {len(lines):,} laws {do} not close. Do not train on this before it is known why."
    rows: list[list[Cell]] = [
        [str(n.value["what"]), number(n.at("left")), number(n.at("right")),
         mark("closes", "good") if n.value["ok"] else mark("BROKEN", "bad"), escape(str(n.value["detail"]), 250)]
        for n in [*broken, *(n for n in lines if n.value["ok"])]
    ]  # fmt: skip
    listed = table("Laws", ["law", "left", "right", "", "in words"], rows, left=(0, 3, 4), wide=(0, 4))
    return Section("conservation", "Conservation", join(tag("p", lead), listed))


def identity(audit: Node) -> Section | None:
    """What decides the bytes."""
    rows: list[list[Cell]] = []
    for name, n in audit.at("identity").items():
        entries = n.items() or [("", n)]
        for below, value in entries:
            shown = "—" if value.value in (None, "") else _plain(value)
            rows.append([f"{name} {below}".strip().replace("_", " "), shown])
    if not rows:
        return None
    told = "The same identity gives the same bytes, on any machine and with any number of workers."
    return Section(
        "identity", "Identity", join(tag("p", told), table("Identity", ["", "value"], rows, left=(0, 1), wide=(1,)))
    )
