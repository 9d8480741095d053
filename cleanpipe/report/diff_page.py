"""Two runs compared, as a page: what ``queries.diff`` found, drawn with the report's blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cleanpipe import batch as col
from cleanpipe.queries import diff_text as said
from cleanpipe.queries.drift import UNTOLD_FLOOR, VERDICTS, whole
from cleanpipe.report.markup import Cell, Html, code, escape, foreign, join, number, tag, url
from cleanpipe.report.page import Section, Tone, facts, left_out, mark, more, page, table
from cleanpipe.report.svg import bar

ROWS = 60  # of a long table; --json has all
VALUES = 12  # of a distribution
_JSON = "`cleanpipe diff … --json`"
Found = Mapping[str, Any]
_TONES: Mapping[str, Tone] = {"large": "bad", "moved": "warn", "stable": "good"}


def diff_page(result: Found) -> str:
    """The page of ``queries.diff.diff``'s answer: one file without script or network."""
    sections = [
        Section("summary", "Summary", _summary(result)),
        Section("recipe", "Recipe and inputs", _recipe(result["recipe"])),
        Section("documents", "Documents", _documents(result["documents"])),
        Section("lines", "Audit lines", _lines(result["lines"])),
        Section("drift", "Drift", _drift(result["drift"])),
    ]
    if result["not_compared"]:
        items = (tag("li", escape(line, 500)) for line in result["not_compared"])
        sections.append(Section("rest", "Not compared", tag("ul", *items)))
    names = [_name(result[side]["root"]) for side in "ab"]
    return page(
        f"{names[0]} → {names[1]}",
        sections,
        subtitle="Two runs of cleanpipe, A and B, compared by their ledgers.",
        caution=result.get("caution", ""),
    )


def _name(root: str) -> str:
    return root.rstrip("/").rpartition("/")[2] or root


def _p(text: str, class_: str | None = None) -> Html:
    return tag("p", escape(text, 2000), class_=class_)


def _summary(result: Found) -> Html:
    documents, lines, drift = result["documents"], result["lines"], result["drift"]
    waiting = any(result[side]["undecided"] for side in "ab")
    heads = ["", "run", "recipe", "documents", "kept", "of them", *(["not decided yet"] if waiting else []), "config"]
    rows: list[list[Cell]] = []
    for side in "ab":
        run = result[side]
        decided = not run["undecided"]
        rows.append(
            [
                side.upper(),
                code(run["root"]),
                run["recipe"],
                run["rows"],
                run["kept"] if decided or run["kept"] else "",
                number(_share(run["kept"], run["rows"]), "share") if decided else "",
                *([run["undecided"]] if waiting else []),
                code(str(run["config_hash"] or "unknown")[:12]),
            ]
        )
    runs = table("The runs", heads, rows, left=(0, 1, 2, len(heads) - 1), wide=(1,))
    if result["same"]:
        return join(_verdict("good", "No difference."), runs)
    settings = len(said.differences(result["recipe"]))
    figures: list[tuple[Cell, Cell, Cell]] = [("settings that differ", settings, "recipe, models, code, packages")]
    if result["same_result"]:
        return join(_verdict("good", "No difference in any audit line and any document."), facts(figures), runs)
    alarms, wiped = len(drift["alarms"]), len(drift["wiped_out"]) + drift["wiped_out_left_out"]
    figures += [
        ("documents in both", documents["joined"], _of(documents["joined"], result["a"]["rows"])),
        *(
            [("of them with another fate", documents["changed"], _of(documents["changed"], documents["joined"]))]
            if documents["joined"]
            else []
        ),
        (
            "audit lines that " + ("differ" if result["exact"] else "moved"),
            len(lines["moved"]),
            join("of ", number(lines["compared"]), "" if result["exact"] else ", beyond sampling error"),
        ),
        ("drift alarms", alarms, said.wiped_many(drift) + " newly wiped out" if wiped else ""),
        ("single values moved", len(drift["notes"]), "distributions without an alarm"),
    ]
    told = [said.many(alarms, "drift alarm")] if alarms else []
    told += [f"{said.wiped_many(drift)} newly wiped out in B"] if wiped else []
    tone = "bad" if told else "good"
    return join(_verdict(tone, *(told or ["No drift alarm."])), facts(figures), runs)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _verdict(tone: str, *told: str) -> Html:
    style = "warn" if tone == "bad" else None
    items = [tag("li", tag("strong", escape(words, 300)), class_=style) for words in told]
    return tag("div", tag("ul", *items), class_=f"verdict {'' if tone == 'good' else tone}".strip())


def _recipe(told: Found) -> Html:
    rows = [[code(d["what"]), escape(_value(d, "a")), escape(_value(d, "b"))] for d in said.differences(told)]
    parts: list[Cell] = []
    if rows:
        parts.append(table("What the runs were told", ["what", "A", "B"], rows, left=(0, 1, 2), wide=(1, 2)))
    else:
        parts.append(_p(f"{said.the_same(told).capitalize()}."))
    told_ = [*told["unknown"], *said.inputs(told["inputs"])]
    parts.append(tag("ul", *(tag("li", escape(line, 1000)) for line in told_)))
    return join(*parts)


def _value(entry: Found, side: str) -> str:
    """One side of a difference, as its words have it."""
    before, _, after = str(entry["words"]).rpartition(" → ")
    return after if side == "b" else before[before.index(entry["what"]) + len(entry["what"]) :].strip()


def _documents(told: Found) -> Html:
    text, keepers = told["text"], told["keepers"]
    by = ", ".join(f"{n:,} by {key}" for key, n in told["joined_by"].items())
    figures: list[tuple[Cell, Cell, Cell]] = [
        ("in both runs", told["joined"], by and f"joined: {by}"),
        ("only in A", told["only_a"]["documents"], ""),
        ("only in B", told["only_b"]["documents"], ""),
    ]
    if told["joined"]:
        figures += [
            ("met another fate", told["changed"], _of(told["changed"], told["joined"])),
            *(
                (f"not decided yet in {s.upper()}", told["undecided"][s], _of(told["undecided"][s], told["joined"]))
                for s in "ab"
                if told["undecided"][s]
            ),
            ("another text", text["changed"], f"of {text['kept_in_both']:,} kept in both"),
            ("another keeper", keepers["changed"], f"of {keepers['duplicates_in_both']:,} duplicates in both"),
        ]
    parts: list[Cell] = [facts(figures)]
    if keepers["not_compared"]:
        n = keepers["not_compared"]
        parts.append(_p(f"{n:,} duplicates were joined by another key than doc_id: keepers not compared.", "note"))
    if told["changes"]:
        most = max(c["documents"] for c in told["changes"])
        rows = [
            [_fate(c["a"]), _fate(c["b"]), c["documents"], bar(c["documents"] / most, "lost")] for c in told["changes"]
        ]
        parts.append(
            table(
                "Documents that met another fate", ["in A", "in B", "documents", ""], rows, left=(0, 1, 3), wide=(0, 1)
            )
        )
        parts.append(left_out(len(rows), len(rows) + told["changes_left_out"], "changes", _JSON))
        parts += [
            more(
                join(_fate(c["a"]), " → ", _fate(c["b"]), f": {said.many(len(c['samples']), 'sample')}"),
                _samples(c["samples"]),
            )
            for c in told["changes"]
            if c["samples"]
        ]
    for part, what in ((text, "Texts that changed"), (keepers, "Duplicates that changed their keeper")):
        if part["samples"]:
            kind = "text" if part is text else "keepers"
            parts.append(more(f"{what}: {said.many(len(part['samples']), 'sample')}", _samples(part["samples"], kind)))
    for side in "ab":
        only = told[f"only_{side}"]
        if only["documents"]:
            rows = [[_fate(name), n, number(n / only["documents"], "share")] for name, n in only["by_outcome"].items()]
            inner = [table(f"Documents only in {side.upper()}", ["fate", "documents", "share"], rows)]
            inner += [_samples(only["samples"])] if only["samples"] else []
            parts.append(more(f"{only['documents']:,} documents only in {side.upper()}", *inner))
    if told["matrix"]:
        rows = [
            [
                _fate(c["a"]),
                _fate(c["b"]) if c["a"] != c["b"] else tag("span", "the same", class_="soft"),
                c["documents"],
            ]
            for c in told["matrix"][:ROWS]
        ]
        whole = table("Every fate in A and in B", ["in A", "in B", "documents"], rows, left=(0, 1), wide=(0, 1))
        parts.append(
            more("All fates of the documents in both", whole, left_out(ROWS, len(told["matrix"]), "rows", _JSON))
        )
    return join(*parts)


def _of(part: int, whole: int) -> Cell:
    return join(number(part / whole, "share"), f" of {whole:,}") if whole else ""


def _fate(name: str) -> Html:
    """kept, dropped and quarantined in their colours."""
    style = {"kept": "k", "dropped": "d", "quarantined": "q"}.get(name.partition(" ")[0])
    return tag("span", escape(name), class_=style)


def _samples(samples: Sequence[Found], part: str = "") -> Html:
    return tag("ul", *(_sample(s, part) for s in samples), class_="samples")


def _sample(sample: Found, part: str) -> Html:
    rows = [(side, sample[side]) for side in "ab" if side in sample]
    places = list(dict.fromkeys(f"{row[col.SOURCE]}@{row[col.RECORD_OFFSET]}" for _, row in rows))
    inner: list[Cell] = [url(sample[col.URL]), tag("small", join(*(code(p, 200) for p in places), between=" → "))]
    for side, row in rows:
        words = said.decision(row, part)
        where = tag("strong", f"{side.upper()} ")
        inner.append(tag("small", where, _fate(row["outcome"]), escape(f": {words}" if words else "", 500)))
    return tag("li", *inner)


def _lines(told: Found) -> Html:
    parts: list[Cell] = [_p(told["method"])]
    alike = said.together(told["moved"])
    rows = []
    for entry, n in alike[:ROWS]:
        cells = said.line_cells(entry)
        same = tag("span", f" + {said.many(n - 1, 'line')} with the same numbers", class_="soft") if n > 1 else None
        rows.append([join(escape(cells[0]), same), *(escape(c) for c in cells[1:])])
    caption = f"Lines that moved: {len(told['moved']):,} of {told['compared']:,}"
    heads = [
        "line",
        "A",
        "B",
        "difference (interval)" if any("low" in e for e in told["moved"]) else "difference",
        "of",
    ]
    parts.append(table(caption, heads, rows, wide=(0,)))
    parts.append(left_out(ROWS, len(alike), "lines", _JSON))
    if told["numbers"]:
        rows = [[escape(c) for c in said.number_cells(e)] for e in told["numbers"][:ROWS]]
        inner = table("Plain numbers that differ", ["number", "A", "B", "difference"], rows, wide=(0,))
        rest = left_out(ROWS, len(told["numbers"]), "numbers", _JSON)
        parts.append(more(f"{said.many(len(told['numbers']), 'plain number')} that differ", inner, rest))
    if told["quantiles"]:
        rows = [[escape(c) for c in said.quantile_cells(e)] for e in told["quantiles"]]
        inner = table("Quantiles that moved", ["score", "documents", "quantile", "A", "B"], rows, left=(0, 1))
        note = _p(f"Quantiles are {told['quantiles_from']}.", "note")
        parts.append(more(f"{said.many(len(told['quantiles']), 'quantile')} of scores that moved", note, inner))
    if told["not_comparable"]:
        words = [f"{e['words']}: A {said.value(e['a'])}, B {said.value(e['b'])}" for e in told["not_comparable"]]
        inner = tag("ul", *(tag("li", escape(w, 400)) for w in words))
        parts.append(more(f"{said.many(len(words), 'line')} with a number in one run alone", inner))
    for side in "ab":
        if only := told[f"only_{side}"]:
            items = (tag("li", escape(words)) for words in only)
            parts.append(more(f"{said.many(len(only), 'line')} only in {side.upper()}", tag("ul", *items)))
    if told["untested"]:
        rows = [[escape(c) for c in said.line_cells(e)] for e in told["untested"]]
        inner = table("Not tested", ["line", "A", "B", "difference", "of"], rows, wide=(0,))
        parts.append(more(f"{said.many(len(told['untested']), 'line')} whose spread the ledger does not tell", inner))
    return join(*parts)


def _drift(told: Found) -> Html:
    marks = told["marks"]
    words = (
        f"PSI is the population stability index: from {marks['moved']:g} on a distribution has moved, from "
        f"{marks['large']:g} on it is another one, if the index also exceeds what two samples of one crawl reach by "
        "chance (the floor). These are alarms. Single values that moved beyond chance, and changed their odds by more "
        f"than {100 * marks['odds']:g} %, are noted where the whole gives no alarm."
    )
    parts: list[Cell] = [_p(words, "note")]
    for alarm in told["alarms"]:
        parts += [_head(alarm), _values(alarm)]
    if not told["alarms"] and not told["wiped_out"]:
        parts.append(tag("p", mark("no alarm", "good")))
    if told["wiped_out"]:
        rows = [
            [
                entry["kind"],
                foreign(entry["name"]),
                *(entry[f"{what}_{s}"] for s in "ab" for what in ("documents", "kept")),
            ]
            for entry in told["wiped_out"]
        ]
        heads = ["", "name", "documents in A", "kept", "documents in B", "kept"]
        parts.append(table("Newly wiped out in B", heads, rows, left=(0, 1), wide=(1,)))
        parts.append(left_out(len(rows), len(rows) + told["wiped_out_left_out"], "names", _JSON))
    if told["notes"]:
        inner = [part for note in told["notes"] for part in (_head(note), _values(note))]
        parts.append(
            more(said.many(len(told["notes"]), "distribution") + " of which single values moved, no alarm", *inner)
        )
    rows = [
        [
            escape(m["what"]), m["a"], m["b"], *((f"{m['psi']:.4f}", _floor(m)) if not m["note"] else ("", "")),
            _verdict_of(m) if not m["note"] else tag("span", m["note"], class_="soft"),
        ]
        for m in told["measured"]
    ]  # fmt: skip
    heads = ["distribution", "A", "B", "PSI", "floor", ""]
    parts.append(more("Every distribution", table("Distributions", heads, rows, left=(0, 5), wide=(0,))))
    return join(*parts)


def _floor(measured: Found) -> str:
    return f"{measured['floor']:.4f}" if measured["floor"] < UNTOLD_FLOOR else "not known"


def _verdict_of(measured: Found) -> Html:
    return mark(VERDICTS[measured["verdict"]], _TONES.get(measured["verdict"], ""))


def _head(measured: Found) -> Html:
    stands = f": {whole(measured)}" if not measured["alarm"] else ""
    return tag("h3", measured["what"], " ", _verdict_of(measured), f" PSI {measured['psi']:.3f}{stands}")


def _values(alarm: Found) -> Html:
    """Shares of the values that moved most, in the order of the bins for a score."""
    shown = alarm["values"][:VALUES]
    if alarm["kind"] == "score":
        shown = sorted(shown, key=lambda v: v["bin"])
    most = max((max(v["share_a"], v["share_b"]) for v in shown), default=1.0) or 1.0
    rows = [
        [
            foreign(v["value"]), join(bar(v["share_a"] / most, "aside"), bar(v["share_b"] / most, "kept")),
            number(v["share_a"], "share"), number(v["share_b"], "share"), v["a"], v["b"],
        ]
        for v in shown
    ]  # fmt: skip
    heads = ["value", "A above B", "A", "B", "documents in A", "in B"]
    note = (
        f"The {len(shown)} of {len(alarm['values'])} values that moved most." if len(alarm["values"]) > VALUES else ""
    )
    return table(f"Shares of {alarm['what']}", heads, rows, left=(0, 1), wide=(0,), note=note)
