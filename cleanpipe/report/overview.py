"""What a reader wants first: the verdict, the funnel, the alarms, and what was lost most."""

from __future__ import annotations

from collections.abc import Sequence

from cleanpipe.audit.build import anchor
from cleanpipe.audit.nothing import kept_nothing
from cleanpipe.report import sql
from cleanpipe.report.markup import Cell, Html, code, foreign, join, many, moment, number, tag, words
from cleanpipe.report.node import Node
from cleanpipe.report.page import (
    CHECK,
    ROWS,
    Section,
    Tone,
    charts,
    check_it,
    facts,
    figure,
    left_out,
    legend,
    more,
    table,
)
from cleanpipe.report.svg import bar, bars

LOST = 15  # hosts, languages and types that are shown, each


def verdict(audit: Node, run: Node, caution: str) -> Section:
    """Whether the run may be relied on, and the few figures that everyone asks for."""
    points: list[tuple[Tone, Html]] = [_finished(run, caution), *_nothing(audit)]
    points += [*_balance(audit.at("conservation")), *_aside(audit, run)]
    if not audit.at("alarms").absent:
        points.append(_alarmed(audit))
    tones = {tone for tone, _ in points}
    tone = "bad" if "bad" in tones else "warn" if "warn" in tones else ""
    items = [tag("li", text, class_=t or None) for t, text in points]
    body = tag("div", facts(_figures(audit, bool(caution))), tag("ul", *items), class_=f"verdict {tone}".strip())
    return Section("verdict", "Verdict", join(body, check_it(sql.totals()), _how()))


def _how() -> Html:
    """Where the page's SQL works."""
    return tag(
        "p", f"Each block “{CHECK}” on this page works as it stands: with ", code('cleanpipe query OUT "…"'),
        ", OUT being the run; or in DuckDB, with the run's folder as working directory, after ", code(sql.VIEW),
        class_="note",
    )  # fmt: skip


def _figures(audit: Node, so_far: bool) -> list[tuple[Cell, Cell, Cell]]:
    kept, last = audit.at("ledger", "totals", "kept", "documents"), audit.at("funnel").nodes()[-1:]
    kept = kept if kept.value is not None or not last else last[0].at("documents", "out")
    read, shards = audit.at("input", "documents", "total", "value"), audit.at("shards")
    of_read = join("of ", number(read), " read", *((": ", number(kept.over(read), "share")) if read.value else ()))
    out: list[tuple[Cell, Cell, Cell]] = (
        [("Not lost so far" if so_far else "Documents kept", number(kept), of_read)] if kept.value is not None else []
    )
    chars = audit.at("ledger", "chars_kept")
    if chars.value is not None:
        out.append(
            ("Their text" if so_far else "Text kept", number(chars), "characters, what windows repeat not counted")
        )
    if not shards.absent and not so_far:
        rows, size = shards.at("rows", "value"), shards.at("bytes", "value")
        retained = join(number(shards.at("retained", "value"), "share"), " of the raw bytes")
        out.append(("Windows", number(rows), join("in ", many(shards.at("files").size(), "shard"))))
        out.append(("Shards", number(size, "bytes"), retained))
    if not audit.at("input").absent:
        files = join("in ", many(audit.at("input", "files", "value"), "file"))
        out.append(("Read", number(audit.at("input", "block_bytes", "value"), "bytes"), files))
    return out


def _finished(run: Node, caution: str) -> tuple[Tone, Html]:
    if caution:
        return "warn", join(tag("strong", "Not finished."), " ", caution, ".")
    ended = run.at("ended").value
    return "", join(tag("strong", "Finished"), f" {moment(ended)}." if ended else ".")


def _nothing(audit: Node) -> list[tuple[Tone, Html]]:
    read = audit.at("input", "documents", "total", "value")
    if read.value != 0:
        return _none_kept(audit)
    files = many(audit.at("input", "files", "value"), "file")
    return [("warn", join(tag("strong", "No document was read"), " in ", files, ": there is nothing to judge."))]


def _none_kept(audit: Node) -> list[tuple[Tone, Html]]:
    most = kept_nothing(audit.value)
    if most is None:
        return []
    found = audit.at("ledger", "fates", most.fate, most.stage, most.reason, "documents")
    link = tag("a", most.stage, href=f"#{anchor(most.stage)}")
    where = join("; most went at ", link, ": ", code(most.reason), " ", number(found), ".")
    return [("warn", join(tag("strong", "No document was kept"), where))]


def _balance(conservation: Node) -> list[tuple[Tone, Html]]:
    if conservation.absent:
        return []
    lines = conservation.at("lines")
    broken = [n for n in lines.nodes() if not n.value["ok"]]
    where = tag("a", "Conservation", href="#conservation")
    if not broken:
        text = " of records, bytes and characters hold: everything that was read is somewhere. "
        return [("", join(tag("strong", "The balance closes."), " ", number(lines.size()), " laws", text, where))]
    first = broken[0]
    sides = join(number(first.at("left")), " ≠ ", number(first.at("right")))
    what = join(
        f" {len(broken):,} of ", number(lines.size()), " laws are broken, first: ", str(first.value["what"]), ", "
    )
    return [("bad", join(tag("strong", "The balance is BROKEN."), what, sides, ". ", where))]


def _aside(audit: Node, run: Node) -> list[tuple[Tone, Html]]:
    out: list[tuple[Tone, Html]] = []
    aside = audit.at("ledger", "totals", "quarantined", "documents")
    if aside.value:
        text = " of the ledger, records and damaged byte ranges; their errors are in quarantine/."
        out.append(("warn", join(tag("strong", "Set aside: "), many(aside, "row"), text)))
    elif aside.value == 0:
        out.append(("", join(tag("strong", "Nothing was set aside."), " No record or range lies in quarantine/.")))
    failed = run.at("failed")
    if failed.value:
        names = join(*(foreign(name, 80) for name in list(failed.value)[:5]), between=", ")
        out.append(
            ("bad", join(tag("strong", "Inputs could not be read: "), number(failed.size()), ", such as ", names, "."))
        )
    return out


def _alarmed(audit: Node) -> tuple[Tone, Html]:
    raised = audit.at("alarms", "raised")
    open_ = [n for n in raised.nodes() if not n.value["by_design"]]
    above = number(audit.at("alarms", "above"), "share")
    if not open_:
        return "", join(
            tag("strong", "No alarms."), " No host, language or type that was wanted lost more than ", above, "."
        )
    names = join(
        *(foreign(str(n.value["name"]), 60) for n in open_[:5]), " …" if len(open_) > 5 else None, between=", "
    )
    link = tag("a", "Alarms", href="#alarms")
    return "warn", join(
        tag("strong", f"{len(open_):,} alarm{'' if len(open_) == 1 else 's'}:"),
        " lost more than ",
        above,
        " of what was wanted: ",
        names,
        ". ",
        link,
    )


def funnel(audit: Node) -> Section:
    """Documents, bytes and characters, stage by stage."""
    steps = audit.at("funnel").nodes()
    rows: list[list[Cell]] = [
        [_link(n), number(n.at("documents", "in")), *_documents(n), *_bytes(n), *_chars(n)] for n in steps
    ]
    heads: list[Cell] = ["stage", "documents in", "out"]
    for measure in ("", "bytes out", "characters out"):
        heads += [h for h in (measure, "of stage", "of run") if h]
    return Section(
        "funnel",
        "Funnel",
        join(
            tag(
                "p", "What came through each stage, as a share of what entered the stage, and of what entered the run."
            ),
            charts(_drawn(audit, "documents", "Documents"), _drawn(audit, "characters", "Characters")),
            table("The funnel in numbers", heads, rows, sql=sql.funnel([str(n.value["stage"]) for n in steps])),
            tag(
                "p",
                "n/a: not applicable, which is never 0; there are no characters before there is text.",
                class_="note",
            ),
        ),
    )


def _drawn(audit: Node, measure: str, title: str) -> Html:
    """A bar for each stage: what came out, and what went in it."""
    drawn: list[tuple[str, Sequence[tuple[str, float]], str]] = []
    for row in audit.at("funnel").value:
        part = row[measure]
        out, run = part["out"], part["share_of_run_input"]["value"]
        lost = part["in"] - out if measure == "documents" else part["dropped"] + part["removed"]
        if measure == "characters" and isinstance(run, str):
            drawn.append((row["stage"], (), "no text yet"))
            continue
        words_ = f"{out:,}" + (f" · {run:.1%}".replace("%", " %") if isinstance(run, float) else "")
        drawn.append((row["stage"], (("kept", out), ("lost", max(0, lost))), words_))
    chart = bars(drawn, title=f"{title} that came out of each stage, and those lost in it")
    return figure(title, chart, legend=legend({"kept": "came out", "lost": "went in the stage"}))


def _link(row: Node) -> Html:
    name = str(row.value["stage"])
    return tag("a", name, href=f"#{anchor(name)}")


def _documents(row: Node) -> list[Cell]:
    return [number(row.at("documents", "out")), *_shares(row, "documents")]


def _bytes(row: Node) -> list[Cell]:
    return [number(row.at("bytes", "out"), "bytes"), *_shares(row, "bytes")]


def _chars(row: Node) -> list[Cell]:
    shares = _shares(row, "characters")
    if isinstance(row.at("characters", "share_of_run_input", "value").value, str):
        return [number("not applicable"), *shares]
    return [number(row.at("characters", "out")), *shares]


def _shares(row: Node, measure: str) -> list[Cell]:
    """Of what entered the stage, and the run."""
    stage = row.at(measure, "share_of_stage_input")
    shown = number("not applicable") if row.value.get("applies") is False else number(stage, "share")
    return [shown, number(row.at(measure, "share_of_run_input"), "share")]


def alarms(audit: Node) -> Section | None:
    """Hosts, languages and types of which nearly nothing is left."""
    part = audit.at("alarms")
    if part.absent:
        return None
    raised = part.at("raised").nodes()
    lead = join(
        "Hosts, languages and types with ", number(part.at("least_documents")), " or more documents that lost more ",
        "than ", number(part.at("above"), "share"), ". By design: the loss is explained by languages or ",
        "types that the recipe refuses.",
    )  # fmt: skip
    heads: list[Cell] = ["kind", "name", "lost", "of documents", "share", "where most went"]
    look, design = ([n for n in raised if bool(n.value["by_design"]) is by] for by in (False, True))
    parts: list[Html | None] = []
    asked = (sql.hosts(), sql.lost_by(sql.language(), "spoken"), sql.lost_by("media_type", "type"))
    for caption, group in (("To be looked at", look), ("By design", design)):
        rows = [_alarm(n) for n in group[:ROWS]]
        shown = table(caption, heads, rows, left=(0, 1, 5), wide=(1, 5), sql=asked)
        more_ = left_out(ROWS, len(group), "of these alarms")
        if group:
            parts.append(join(shown, more_) if group is look else more(f"{caption} ({len(group):,})", shown, more_))
    if not raised:
        parts.append(tag("p", "None.", class_="note"))
    over = part.at("left_out")
    if over.value:
        parts.append(tag("p", "And ", number(over), " more, which audit.json does not name.", class_="note"))
    return Section("alarms", "Wipe-out alarms", join(tag("p", lead), *parts))


def _alarm(n: Node) -> list[Cell]:
    lost, reasons = n.at("lost"), n.at("reasons")
    why = (
        words(reasons.ranked()) if reasons.value else tag("span", "not counted by host: ask the ledger", class_="soft")
    )
    name = foreign(str(n.value["name"]), 80)
    counts = number(lost.at("numerator")), number(lost.at("denominator")), number(lost, "share")
    return [str(n.value["kind"]), name, *counts, why]


def most_lost(audit: Node) -> Section | None:
    """Top hosts, languages and types by documents lost."""
    lost = audit.at("lost")
    if lost.absent:
        return None
    parts = []
    asked = {
        "hosts": ("host", sql.hosts()),
        "languages": ("language", sql.lost_by(sql.language(), "spoken")),
        "types": ("type", sql.lost_by("media_type", "type")),
    }
    for kind, (what, query) in asked.items():
        items = lost.at(kind, "items").nodes()
        rows = [_lost_row(n) for n in items[:LOST]]
        said = join(kind.capitalize(), ", those that lost most, of ", many(lost.at(kind, "names"), what))
        heads: list[Cell] = [what, "documents", "kept", "lost", "share lost", ""]
        reasons = any("reasons" in n.value for n in items)
        heads += ["where most went"] if reasons else []
        parts.append(table(said, heads, rows, left=(0, 6), wide=(0, 6), sql=query))
        whole = len(items) + int(lost.at(kind, "left_out").value or 0)
        parts.append(left_out(len(rows), whole, f"{kind} that lost documents") or Html(""))
    return Section("lost", "Lost most", join(*parts))


def _lost_row(n: Node) -> list[Cell]:
    share = n.at("lost").over(n.at("documents"))
    row: list[Cell] = [
        foreign(str(n.value["name"]), 80), number(n.at("documents")), number(n.at("kept")), number(n.at("lost")),
        number(share, "share"), bar(share.value, "lost"),
    ]  # fmt: skip
    return [*row, words(n.at("reasons").ranked())] if "reasons" in n.value else row
