"""Samples: documents by their places, and what decided about each."""

from __future__ import annotations

from collections.abc import Sequence

from cleanpipe.report import sql
from cleanpipe.report.cuts import SIGNS
from cleanpipe.report.markup import Html, code, escape, foreign, join, number, tag, url
from cleanpipe.report.node import Node
from cleanpipe.report.page import check_it, left_out, more

SHOWN = 10  # of a group
REASONS = 25  # of a stage that have samples on the page
ALL = 400  # on the page, about; where there are many groups, fewer of each


def at_most(audit: Node, room: int) -> int:
    """How many samples of each group a page with room for so many shows: at least one, or none of any."""
    return max(1, min(SHOWN, room // max(1, len(audit.at("samples").value or ())))) if room else 0


def of_kept(audit: Node, cuts: Sequence[Node], room: int) -> Html:
    """Samples of what stayed, each score that is held against a limit beside it."""
    found = audit.at("samples", "kept")
    items = [_item(n, _held(n, cuts)) for n in found.nodes(at_most(audit, room))]
    return _group("kept", "Kept", found, items, sql.samples("kept", "", ""))


def of_reason(audit: Node, stage: str, reason: str, scores: Sequence[str], room: int) -> Html:
    """Samples of what one stage lost for one reason, with what decided."""
    found = audit.at("samples", f"{stage}/{reason}")
    items = [_item(n, _decided(n, scores)) for n in found.nodes(at_most(audit, room))]
    return _group(reason, join("Samples of ", code(reason)), found, items, sql.samples("dropped", stage, reason))


def of_passed(audit: Node, names: Sequence[str], cuts: Sequence[Node], room: int) -> Html | None:
    """Samples of what stayed, with what one stage measured of each, beside its limits."""
    found = audit.at("samples", "kept")
    items = [_item(n, _measured(n, names, cuts)) for n in found.nodes(at_most(audit, room))]
    title = "Kept samples, with what this stage measured" if names else "Kept samples"
    return _group("kept", title, found, items, sql.samples("kept", "", "")) if found.value else None


def _measured(sample: Node, names: Sequence[str], cuts: Sequence[Node]) -> Html | None:
    parts = []
    for name in names:
        value = sample.at("scores", name)
        value = sample.at("as_read", name) if value.value is None else value
        if value.value is None:
            continue
        limits = [
            join(f"kept {SIGNS[c.value['keeps']]} ", number(c.at("at"), "score"))
            for c in cuts
            if c.value["score"] == name and all(_known(sample, k) == v for k, v in c.value.get("where", {}).items())
        ]
        parts.append(tag("span", code(name), " ", _value(value),
                         join(" (", join(*limits, between=", "), ")") if limits else None))  # fmt: skip
    return tag("small", *parts, class_="kv") if parts else None


def _known(sample: Node, column: str) -> object:
    return sample.at("scores", column).value or sample.at("as_read", column).value


def _group(name: str, title: Html | str, found: Node, items: list[Html], query: str) -> Html:
    if not items:
        return tag("p", title, ": no room here; audit.json has them.", class_="note")
    whole = len(found.value)
    body = tag("ol", *items, class_="samples")
    return more(
        join(title, f" ({len(items):,})"), body, left_out(len(items), whole, f"samples of {name}"), check_it(query)
    )


def _item(sample: Node, why: Html | None) -> Html:
    value = sample.value
    place = join(
        foreign(str(value["source"]), 90), " @ ", number(sample.at("record_offset")), " · ", code(str(value["doc_id"]))
    )
    return tag("li", url(value.get("url")), tag("div", why) if why else None, tag("small", place))


def _decided(sample: Node, scores: Sequence[str]) -> Html | None:
    """The limits it failed; else the stage's own scores; else what the record said of itself."""
    told = sample.at("decided").nodes()
    if told:
        parts = [_limit(n) if "score" in n.value else _column(n) for n in told]
        columns = {n.value.get("column") for n in told}
        said = [
            join(code(k), " ", _value(n))
            for k, n in sample.at("scores").items()
            if k in scores and k not in columns and isinstance(n.value, str)
        ]
        return join(*parts, *said, between=", ")
    own = [(k, n) for k, n in sample.at("scores").items() if k in scores]
    shown = own or sample.at("as_read").items()
    return join(*(join(code(k), " ", _value(n)) for k, n in shown), between=", ") if shown else None


def _limit(told: Node) -> Html:
    return join(
        code(str(told.value["score"])), " ", tag("span", number(told.at("value"), "score"), class_="why d"),
        f" (kept {SIGNS[told.value['keeps']]} ", number(told.at("at"), "score"), ")",
    )  # fmt: skip


def _column(told: Node) -> Html:
    value, wanted = told.at("value"), str(told.value.get("wanted") or "")
    shown = "none" if value.value is None else _value(value)
    said = join(" (wanted: ", escape(wanted, 200), ")") if wanted else None
    return join(code(str(told.value["column"])), " ", tag("span", shown, class_="why d"), said)


def _held(sample: Node, cuts: Sequence[Node]) -> Html | None:
    parts = []
    seen = set()
    for cut in cuts:
        name = str(cut.value["score"])
        value = sample.at("scores", name)
        if name in seen or value.value is None:
            continue
        seen.add(name)
        parts.append(join(code(name), " ", number(value, "score")))
    return tag("small", *parts, class_="kv") if parts else None


def _value(node: Node) -> Html:
    return escape(node.value, 80) if isinstance(node.value, str) else number(node, "score")
