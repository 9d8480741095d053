"""One card for each stage: its rule in words, what went and why, its scores and limits, samples, its own sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from cleanpipe.audit.build import anchor
from cleanpipe.audit.facts import AS_READ
from cleanpipe.report import sql
from cleanpipe.report.crawl import http_body, input_body, languages_body, scrub_body
from cleanpipe.report.duplicates import duplicates_body
from cleanpipe.report.markup import Cell, Html, clean, code, escape, join, number, tag
from cleanpipe.report.node import Node
from cleanpipe.report.output import characters_body, elsewhere, plain_facts, windows_body
from cleanpipe.report.page import Room, Section, facts, left_out, more, table
from cleanpipe.report.proof import missing
from cleanpipe.report.samples import REASONS, SHOWN, of_kept, of_passed, of_reason
from cleanpipe.report.scores import all_scores
from cleanpipe.report.svg import bar

BODIES: Mapping[str, tuple[str, Callable[[Node], Html]]] = {
    "input": ("Input", input_body),
    "http": ("Statuses and types", http_body),
    "languages": ("Languages", languages_body),
    "scrub": ("Scrubbing", scrub_body),
    "duplicates": ("Duplicates", duplicates_body),
    "windows": ("Windows", windows_body),
    "characters": ("Characters", characters_body),
}


def stage_sections(audit: Node, room: Room) -> list[Section]:
    """Every stage in its order; then the sections that no stage has. room: on the page."""
    order = [str(n.value["stage"]) for n in audit.at("funnel").nodes()]
    holders = {s: name for name in order for s in audit.at("stages", name, "sections").value or () if s in BODIES}
    out = [_stage(audit, name, [s for s in BODIES if holders.get(s) == name], room) for name in order]
    for section, (title, body) in BODIES.items():
        part = audit.at(section)
        if section not in holders and not part.absent:
            out.append(Section(section, title, body(part)))
    return out


def _stage(audit: Node, name: str, held: list[str], room: Room) -> Section:
    stage, step = audit.at("stages", name), next(n for n in audit.at("funnel").nodes() if n.value["stage"] == name)
    cuts = stage.at("cuts").nodes()
    scores = stage.at("scores").value or []
    scored = all_scores(audit, name, scores, cuts, stage.at("dropped").value or (), room)
    inner: list[Html | None] = []
    for section in held:
        title, body = BODIES[section]
        part = audit.at(section)
        if not part.absent:
            shown = scrub_body(part, stage.at("meanings")) if body is scrub_body else body(part)
            inner += [tag("h3", title, id=section), shown]
    told = bool(held) or "quality" in (stage.at("sections").value or ())  # a section shows what the stage counted
    facts_shown = plain_facts(stage.at("facts"), stage.at("meanings")) if not told and stage.at("facts").value else None
    return Section(
        anchor(name),
        name,
        join(
            _rule(stage),
            _flow(step, stage),
            _reasons(stage, step, room),
            elsewhere(stage.at("reported_elsewhere").nodes()),
            tag("h3", "Scores and limits") if scored is not None else None,
            scored,
            _failed(audit.at("quality")) if "quality" in (stage.at("sections").value or ()) else None,
            *inner,
            facts_shown,
            _samples(audit, name, stage, scores, room),
            _kept(audit, name, stage, scores, room),
            _options(stage, room),
        ),
        group="Stages",
    )


def _rule(stage: Node) -> Html:
    rule = stage.at("rule").value
    if rule is None:
        return missing("The rule in words")
    return tag("p", escape(str(rule), 1000), class_="rule")


def _flow(step: Node, stage: Node) -> Html:
    documents, passed, aside = step.at("documents"), stage.at("not_applicable"), step.at("quarantined")
    came = join(number(documents.at("share_of_stage_input"), "share"), " of what came in")
    shown: list[tuple[Cell, Cell, Cell]] = [
        ("In", number(documents.at("in")), "documents"),
        ("Out", number(documents.at("out")), came),
        ("Dropped", number(step.at("dropped")), "documents"),
    ]
    if aside.value:
        shown.append(("Set aside", number(aside), "with their errors"))
    if passed.value:
        shown.append(("Passed by", number(passed), "not applicable to them"))
    return facts(shown, small=True)


def _reasons(stage: Node, step: Node, room: Room) -> Html | None:
    entered = step.at("documents", "in")
    rows: list[list[Cell]] = []
    for fate, style in (("dropped", "lost"), ("quarantined", "aside")):
        for reason, n in stage.at(fate).ranked():
            part = n.over(entered)
            rows.append([code(reason), fate, number(n), number(part, "share"), bar(part.value, style)])
    if not rows:
        return None
    whole, most = len(rows), min(REASONS, room.rows)
    shown = table(
        "Why documents went",
        ["reason", "fate", "documents", "of those in", ""],
        rows[:most],
        left=(0, 1),
        sql=sql.fates(),
    )
    return join(shown, left_out(most, whole, "reasons"))


def _failed(quality: Node) -> Html | None:
    """Which rules failed documents together."""
    failed, alone = quality.at("failed_by_rule"), quality.at("removed_by_one_rule_alone")
    if quality.absent or failed.absent or alone.absent:
        return None
    rows: list[list[Cell]] = [[code(r), number(n), number(alone.at(r))] for r, n in failed.ranked()]
    joint = quality.at("joint_failures")
    note = join(
        "Failed several rules: ",
        number(joint.at("numerator")),
        " of ",
        number(joint.at("denominator")),
        " dropped documents.",
    )
    return table("Rules that documents failed", ["rule", "documents failed", "by this rule alone"], rows, note=note)


def _samples(audit: Node, name: str, stage: Node, scores: list[str], room: Room) -> Html | None:
    reasons = [r for fate in ("dropped", "quarantined") for r, _ in stage.at(fate).ranked()]
    own = [*scores, *_words(audit, name, reasons)]
    groups = [
        of_reason(audit, name, r, own, room.samples)
        for r in reasons[: min(REASONS, room.rows)]
        if audit.at("samples", f"{name}/{r}").value
    ]
    return join(tag("h3", "Samples"), *groups) if groups else None


def _kept(audit: Node, name: str, stage: Node, scores: list[str], room: Room) -> Html | None:
    """Samples of what stayed: all that is kept has passed this stage."""
    held = stage.at("sections").value or ()
    reads = AS_READ if "http" in held or "input" in held else ()
    cuts = stage.at("cuts").nodes()
    names = [*(str(c.value["score"]) for c in cuts), *_words(audit, name, None), *scores, *reads]
    return of_passed(audit, list(dict.fromkeys(names)), cuts, room.samples)


def _words(audit: Node, name: str, reasons: list[str] | None) -> list[str]:
    """Scores in words that the stage wrote: named as the stage, or as the language or the twin of a document; in
    samples of these reasons, or of the kept.
    """
    found: dict[str, Any] = {}
    for group in ["kept"] if reasons is None else [f"{name}/{r}" for r in reasons]:
        for sample in audit.at("samples", group).nodes(SHOWN):
            found.update({k: v for k, v in sample.value.get("scores", {}).items() if isinstance(v, str)})
    about = {"duplicates": ("kept_doc_id",), "languages": ("language", "language_preview")}
    held = audit.at("stages", name, "sections").value or ()
    named = [n for section, names in about.items() if section in held for n in names]
    return sorted(k for k in found if k in named or k.startswith(name))


def _options(stage: Node, room: Room) -> Html | None:
    options = stage.at("options")
    if options.value is None:
        return missing("Options")
    rows: list[list[Cell]] = []
    for n in options.nodes():
        name, value = str(n.value["name"]), n.at("value")
        shown: Cell = (
            number(value, "score") if isinstance(value.value, (int, float)) else code(_spelled(value.value), 120)
        )
        source = f" Source: {n.value['source']}." if n.value.get("source") else ""
        default = "" if n.value.get("default", True) else "changed"
        rows.append([code(name), shown, default, escape(f"{n.value.get('doc', '')}.{source}", 400)])
    about = str(stage.at("about").value or "")
    paragraphs = [tag("p", *_plain(p)) for p in about[:4000].split("\n\n") if p.strip()]
    if not rows and not paragraphs:
        return None
    listed = (
        table(
            "Options in force", ["option", "value", "", "what it does"], rows[: room.rows],
            left=(0, 1, 2, 3), wide=(1, 3),
        )
        if rows
        else None
    )  # fmt: skip
    rest = left_out(room.rows, len(rows), "options")
    return more("The rule in full, and the options in force", *paragraphs, listed, rest)


def _plain(text: str) -> list[Cell]:
    """A paragraph of a docstring: ``names`` as code."""
    parts = clean(text.replace("\n", " ")).split("``")
    return [code(p) if i % 2 else escape(p, 2000) for i, p in enumerate(parts)]


def _spelled(value: Any) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{k} = {v}" for k, v in sorted(value.items())) or "none"
    return str(value) or "unset"


def kept_samples(audit: Node, room: Room) -> Section | None:
    """Ten documents that stayed, with every score that was held against a limit."""
    if not audit.at("samples", "kept").value:
        return None
    cuts = [c for n in audit.at("funnel").nodes() for c in audit.at("stages", str(n.value["stage"]), "cuts").nodes()]
    lead = "A seeded hash of their ids picks them; each score that is held against a limit stands beside it."
    return Section("kept", "Samples of what stayed", join(tag("p", lead), of_kept(audit, cuts, room.samples)))
