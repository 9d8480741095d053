"""What a run can be held to: the laws of its balance, its identity, and what it cost."""

from __future__ import annotations

from cleanpipe.report.markup import Cell, Html, code, escape, foreign, join, number, tag
from cleanpipe.report.node import Node
from cleanpipe.report.output import digest
from cleanpipe.report.page import ROWS, Section, facts, left_out, mark, more, table
from cleanpipe.report.svg import bar

LAWS = 100  # of a kind, shown


def conservation(audit: Node) -> Section | None:
    """Every law with both its sides: broken ones and those of the whole run in sight, those of each stage folded."""
    part = audit.at("conservation")
    if part.absent:
        return None
    lines = part.at("lines").nodes()
    stages = [f" of {n.value['stage']}" for n in audit.at("funnel").nodes()]
    broken = [n for n in lines if not n.value["ok"]]
    sound = [n for n in lines if n.value["ok"]]
    folded = [n for n in sound if any(str(n.value["what"]).endswith(s) for s in stages)]
    shown = [*broken[:LAWS], *(n for n in sound if n not in folded)]
    lead = (
        "Everything that was read is somewhere: each law says so of records, bytes or characters, with both its sides."
    )
    if broken:
        lead = f"{len(broken):,} of {len(lines):,} laws do not close. Do not rely on this run before it is known why."
    return Section(
        "conservation",
        "Conservation",
        join(
            tag("p", lead),
            _laws("Laws of the whole run" if not broken else "Broken laws, and those of the whole run", shown),
            left_out(LAWS, len(broken), "broken laws"),
            more(f"The laws of each stage ({len(folded):,})", _laws("Laws of each stage", folded[:LAWS]))
            if folded
            else None,
            tag(
                "p",
                code("cleanpipe verify"),
                " proves it again from the ledger and the shards themselves.",
                class_="note",
            ),
        ),
    )


def _laws(caption: str, lines: list[Node]) -> Html:
    rows: list[list[Cell]] = []
    for n in lines:
        closes = mark("closes", "good") if n.value["ok"] else mark("BROKEN", "bad")
        words = escape(str(n.value["detail"]), 250)
        rows.append([str(n.value["what"]), number(n.at("left")), number(n.at("right")), closes, words])
    return table(caption, ["law", "left", "right", "", "in words"], rows, left=(0, 3, 4), wide=(0, 4))


def identity(audit: Node, run: Node) -> Section | None:
    """What decides the bytes of this run: recipe, code, models, inputs; and the versions it ran with."""
    part = audit.at("identity")
    if part.absent:
        return None
    recipe = audit.at("recipe")
    rows: list[list[Cell]] = [
        ["recipe", foreign(str(part.value.get("recipe", "")), 80)],
        [
            "what it is for",
            foreign(str(recipe.value["description"]), 300) if recipe.value else "not recorded by this version",
        ],
        ["configuration", digest(part.value.get("config_hash"))],
        ["code", digest(part.value.get("code"))],
    ]
    if part.value.get("kept_code"):
        rows.append(["code of what was kept", digest(part.value["kept_code"])])
    models = [[f"model {name}", digest(value.value)] for name, value in part.at("models").items()[:ROWS]]
    rows += [list[Cell](r) for r in models]
    inputs = part.at("inputs")
    listed: list[list[Cell]] = [
        [foreign(str(n.value["source"]), 90), number(n.at("size")), digest(n.value.get("sha256"))]
        for n in inputs.nodes(ROWS)
    ]
    versions = [[name, code(str(n.value))] for name, n in run.at("versions").items()]
    return Section(
        "identity",
        "Identity",
        join(
            tag("p", "The same identity gives the same bytes, on any machine and with any number of workers."),
            table("Hashes", ["", "value"], rows, left=(0, 1), wide=(1,)),
            more(
                join("Inputs (", number(inputs.size()), ")"),
                table("Inputs", ["input", "bytes", "SHA-256"], listed, left=(0, 2), wide=(0, 2)),
                left_out(ROWS, len(inputs.value or ()), "inputs"),
            ),
            more(
                "Versions it ran with",
                table("Versions", ["package", "version"], [list[Cell](v) for v in versions], left=(0, 1)),
            )
            if versions
            else None,
        ),
    )


def cost(audit: Node, run: Node) -> Section | None:
    """Time and memory, from run.json: they differ from one run to the next, and are in no hash."""
    work = run.at("work")
    if work.absent:
        return None
    figures: list[tuple[Cell, Cell, Cell]] = [
        ("CPU", number(work.at("cpu_seconds"), "seconds"), "all processes"),
        ("Wall time", number(run.at("wall_seconds"), "seconds"), ""),
        ("Largest worker", number(work.at("peak_memory_bytes"), "bytes"), "of memory"),
        ("Engine", escape(str(run.at("engine").value or "—"), 30), join(number(run.at("processors")), " processors")),
        ("Units", number(run.at("units", "total")), join(number(run.at("units", "retries")), " tried again")),
    ]
    seconds = work.at("stage_seconds")
    total = seconds.total()
    known = [n.value["stage"] for n in audit.at("funnel").nodes()]
    order = sorted(seconds.items(), key=lambda i: known.index(i[0]) if i[0] in known else len(known))
    rows: list[list[Cell]] = []
    for name, spent in order:
        part = spent.over(total)
        entered = audit.at("stages", name, "docs_in")
        rate = number(entered.over(spent), "rate") if entered.value and spent.value else ""
        rows.append([
            name, number(spent, "seconds"), number(part, "share"), bar(part.value), rate,
        ])  # fmt: skip
    listed = table(
        "Time of each stage, all workers together", ["stage", "seconds", "share", "", "documents a second"], rows
    )
    return Section("cost", "Cost", join(facts(figures, small=True), listed))


def missing(what: str) -> Html:
    """A part of the page that the run's version did not record."""
    return tag("p", f"{what}: not recorded by this version.", class_="note")
