"""The audit of a corpus as a page, and as lines for a terminal; both are pure functions of audit.json."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from cleanpipe.corpus.page_parts import (
    characters,
    code_points,
    copies,
    languages,
    lengths,
    problems,
    samples,
    scores,
    tokens,
    would_drop,
)  # fmt: skip
from cleanpipe.corpus.verdicts import NOUNS
from cleanpipe.report.markup import Html, escape, foreign, join, line, many, number, tag
from cleanpipe.report.node import Node
from cleanpipe.report.page import ROWS, Section, facts, left_out, page, table
from cleanpipe.report.svg import bar


def to_html(audit: Mapping[str, Any], name: str) -> str:
    """One file without scripts that asks for nothing. name: of the corpus, for the title."""
    whole = Node(audit)
    sections: list[Section | None] = [
        _verdict(whole),
        _groups(whole),
        Section("damage", "Damaged characters", code_points(whole.at("damage"))),
        Section("duplicates", "Duplicates", copies(whole.at("duplicates"))),
        Section("lines", "Lines that recur", _lines(whole.at("lines"))),
        languages(whole),
        *scores(whole),
        Section("would-drop", "What a run would drop", would_drop(whole)),
        Section("lengths", "Lengths and tokens", join(lengths(whole.at("documents")), tokens(whole.at("tokens")))),
        Section("input", "What was read", join(characters(whole.at("input")), problems(whole.at("input")))),
        Section("samples", "Samples", samples(whole)),
    ]
    identity = audit["identity"]
    subtitle = join(
        "judged by the recipe ", foreign(str(identity["recipe"])), f" · configuration {identity['config_hash'][:8]}"
    )
    caution = ""
    if audit["input"]["sampled"]:
        caution = "Only a sample was judged: shares carry their 95 % interval, and copies outside of it are not seen."
    return page(
        f"Audit of {name}",
        [s for s in sections if s is not None],
        subtitle=subtitle,
        caution=caution,
        footer="Written by cleanpipe from audit.json, which has every number; ledger/ has a row for each document. "
        "Numbers carry their exact value (data-n) and their place in audit.json (data-of).",
    )


def _verdict(audit: Node) -> Section:
    documents, tokens_, rows = audit.at("documents"), audit.at("tokens", "tokens"), audit.at("input", "rows", "value")
    figures = facts(
        [
            ("Documents", number(documents.at("documents", "value")), join("of ", many(rows, "row"))),
            ("Clean", number(documents.at("clean", "value"), "share"), "hold no fault, and no stage would drop them"),
            ("Characters", number(documents.at("characters", "value")), "after the recipe's repairs"),
            ("Tokens", number(tokens_.at("value")), str(tokens_.at("method").value).partition(":")[0]),
            ("A run would keep", number(audit.at("would_drop", "kept", "value"), "share"), "of the documents"),
        ]
    )  # fmt: skip
    found = audit.at("verdicts").nodes()
    items = [
        tag("li", _words(v), class_="bad" if i < 3 else "warn", data_fault=str(v.value["fault"]))
        for i, v in enumerate(found)
    ]
    if not items:
        items = [tag("li", "No fault was found.")]
    return Section(
        "verdict",
        "Verdict, worst first",
        tag("div", figures, tag("ul", *items), class_="verdict bad" if found else "verdict"),
    )


def _words(verdict: Node) -> Html:
    """The sentence, its count as a number that can be checked."""
    count = verdict.at("share", "numerator")
    link, words = verdict.value["samples"], str(verdict.value["words"])
    where = tag("a", "samples", href=f"#s-{_anchor(link)}") if link else None
    at = re.search(rf"(?:^|(?<=\()){re.escape(f'{count.number():,}')}(?= )", words)
    said = (words[: at.start()], number(count), words[at.end() :]) if at else (words,)
    parts = (p if isinstance(p, Html) else escape(p, 1000) for p in said)
    return join(tag("span", *parts), " " if where else None, where)


def _anchor(group: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in group)


def _groups(audit: Node) -> Section:
    """Hosts and files: the largest, and those that are wiped out."""
    wiped = audit.at("wipeouts", "raised").nodes()
    rows = []
    for one in wiped[:ROWS]:
        reasons = join(*(join(foreign(k, 60), " ", number(n)) for k, n in one.at("reasons").ranked()), between=", ")
        rows.append(
            [foreign(str(one.value["name"]), 80), str(one.value["kind"]), number(one.at("lost", "denominator")),
             number(one.at("lost", "numerator")), number(one.at("lost", "value"), "share"), reasons,
             "by design" if one.value["by_design"] else ""]
        )  # fmt: skip
    least = audit.at("wipeouts", "least_documents")
    caption = join(
        "Hosts, files and languages of ", number(least), " or more documents that would lose more than ",
        number(audit.at("wipeouts", "above"), "share"), " of them",
    )  # fmt: skip
    first = table(
        caption, ["name", "kind", "documents", "lost", "share", "why", ""], rows, left=(0, 1, 5, 6), wide=(0, 5)
    )
    parts: list[Html | None] = [first, left_out(ROWS, len(wiped), "groups")]
    for kind, few in audit.at("wipeouts", "smaller").items():
        groups = few.at("groups")
        names = join(*(foreign(name, 60) for name in few.value["first"]), between=", ")
        more = ", …" if groups.number() > len(few.value["first"]) else "."
        noun = NOUNS[kind].removesuffix("s") if groups.number() == 1 else NOUNS[kind]
        parts.append(
            tag("p", "And ", number(groups), f" {noun} of fewer than ", number(least), " documents (",
                number(few.at("lost")), " of ", number(few.at("documents")), "): ", names, more, class_="note")
        )  # fmt: skip
    for kind, title in (("hosts", "Largest hosts"), ("sources", "Largest files")):
        top = audit.at("groups", kind, "top").nodes()
        cells = [
            [foreign(str(n.value["name"]), 80), number(n.at("documents", "numerator")),
             number(n.at("documents", "value"), "share"), number(n.at("lost", "value"), "share"),
             bar(_value(n.at("lost", "value")), "lost")]
            for n in top[:ROWS]
        ]  # fmt: skip
        if cells:
            parts.append(table(title, [kind[:-1], "documents", "of all", "would be dropped", ""], cells, wide=(0,)))
            parts.append(left_out(min(ROWS, len(top)), audit.at("groups", kind, "distinct").number(), kind))
    parts.append(tag("p", "Without a host: ", line(audit.at("groups", "without_host")), ".", class_="note"))
    return Section("groups", "Hosts and files", join(*parts))


def _value(node: Node) -> float | None:
    return node.value if isinstance(node.value, (int, float)) else None


def _lines(part: Node) -> Html:
    levels = [
        [join(k, " documents or more"), number(n.at("lines", "numerator")), number(n.at("characters", "numerator")),
         number(n.at("characters", "value"), "share"), bar(_value(n.at("characters", "value")), "lost")]
        for k, n in sorted(part.at("recurring").items(), key=lambda item: int(item[0]))
    ]  # fmt: skip
    rows = [
        [foreign(str(n.value["line"]), 160), number(n.at("documents", "numerator")),
         number(n.at("documents", "value"), "share"), number(n.at("times"))]
        for n in part.at("top").nodes()
    ]  # fmt: skip
    return join(
        table("Lines by how many documents hold them", ["in", "lines", "characters", "of all", ""], levels),
        table("The lines of most documents", ["line", "documents", "of all", "times"], rows, wide=(0,)),
        tag("p", "Method: ", str(part.at("method").value), ".", class_="note"),
    )
