"""The page's first half: whether the tokens may be relied on, how many there are, and what fills a sequence."""

from __future__ import annotations

from cleanpipe.report.markup import Cell, Html, code, foreign, join, line, many, number, tag
from cleanpipe.report.node import Node
from cleanpipe.report.output import elsewhere
from cleanpipe.report.page import ROWS, Section, Tone, charts, check_it, facts, figure, left_out, legend, mark, table
from cleanpipe.report.svg import Bin, bar, bars, histogram
from cleanpipe.tokens.audit.borders import agreement
from cleanpipe.tokens.audit.console import backend_words
from cleanpipe.tokens.audit.markdown import PACKINGS

BARS = 12  # languages in the chart
# how anyone gets the numbers from the store's ledger and spans
FUNNEL_SQL = """\
SELECT fate, reason, count(*) AS documents, sum(windows) AS windows, sum(chars) AS characters
FROM ledger GROUP BY ALL ORDER BY documents DESC;"""
LENGTHS_SQL = """\
SELECT quantile_disc(tokens, [0.5, 0.95]) AS quantiles, avg(tokens) AS mean, max(tokens) AS longest
FROM ledger WHERE fate = 'kept';"""
WINDOWS_SQL = """\
SELECT count(*) AS windows, count(DISTINCT doc_id) AS documents, sum(token_count) AS tokens,
       sum(token_count - token_overlap) AS tokens_once
FROM spans;"""


def verdict(audit: Node) -> Section:
    """Whether everything holds, and the figures that everyone asks for."""
    points = [
        _balance(audit.at("conservation"), agreement(audit.value["borders"])),
        _borders(audit),
        *_gates(audit.at("gates")),
        _backend(audit),
        _controls(audit),
    ]
    tones = {tone for tone, _ in points}
    tone = "bad" if "bad" in tones else "warn" if "warn" in tones else ""
    items = [tag("li", text, class_=t or None) for t, text in points]
    body = tag("div", facts(_figures(audit)), tag("ul", *items), class_=f"verdict {tone}".strip())
    return Section("verdict", "Verdict", body)


def _figures(audit: Node) -> list[tuple[Cell, Cell, Cell]]:
    totals, ids = audit.at("totals"), audit.at("ids")
    marks = [join(number(totals.at(m)), f" {m.upper()}") for m in ("bos", "eos") if totals.value[m]]
    own = join(join(number(totals.at("tokens")), " of text"), *marks, between=", ")
    each = audit.at("rates", "bytes_per_token", "value")
    return [
        ("Tokens", number(totals.at("stored")), own),
        ("Documents", number(totals.at("documents")), join("of ", number(audit.at("funnel", "in", "documents")))),
        ("A token", join(number(each, "mean"), " bytes"), join(number(totals.at("bytes")), " bytes of text")),
        ("Payloads", number(totals.at("payload_bytes"), "bytes"), join("in ", many(totals.at("shards"), "file"))),
        ("Vocabulary", number(ids.at("vocabulary")), join(number(ids.at("never", "numerator")), " ids never seen")),
    ]


def _borders(audit: Node) -> tuple[Tone, Html]:
    found, alarms = audit.at("borders"), [str(n.value["told"]) for n in audit.at("alarms").nodes()]
    marks = [
        join(f"{m.upper()} ", code(str(n.value["name"])), " (", number(n.at("id")), ")")
        if n.value
        else f"{m.upper()} none"
        for m, n in found.items()
    ]
    told = join(tag("strong", "Borders"), ": ", join(*marks, between=", "), *(f"; {t}" for t in alarms), ".")
    return "warn" if alarms else "", told


def _balance(conservation: Node, agreed: str) -> tuple[Tone, Html]:
    lines = conservation.at("lines")
    broken = [n for n in lines.nodes() if not n.value["ok"]]
    where = tag("a", "Conservation", href="#conservation")
    if not broken:
        laws = join(" ", number(lines.size()), f" laws hold: {agreed}; every token is accounted for. ")
        return "", join(tag("strong", "The balance closes."), laws, where)
    sides = join(str(broken[0].value["what"]), ", ", number(broken[0].at("left")), " ≠ ", number(broken[0].at("right")))
    told = f" {len(broken):,} law{'s' * (len(broken) != 1)}, first: "
    return "bad", join(tag("strong", "The balance is BROKEN."), told, sides, ". ", where)


def _gates(gates: Node) -> list[tuple[Tone, Html]]:
    out: list[tuple[Tone, Html]] = []
    for n in gates.nodes():
        limit = join(" (limit ", number(n.at("limit"), "share"), ")") if n.value["limit"] else None
        name = str(n.value["what"]).capitalize()
        declared = "declared: " if n.value["state"] == "declared" else ""
        note = f"; {declared}{n.value['note']}" if n.value["note"] else None
        told = join(tag("strong", name), ": ", line(n.at("ours")), limit, note, ".")
        out.append((_tone(n), told))
    return out


def _tone(gate: Node) -> Tone:
    """What is declared may be, but that is no reason to be content."""
    tones: dict[str, Tone] = {"beyond": "bad", "declared": "warn"}
    return tones.get(str(gate.value["state"]), "")


def _backend(audit: Node) -> tuple[Tone, Html]:
    proof = audit.at("backend").value or {}
    words = backend_words(proof) or "not recorded"
    loud = bool(proof.get("reason") or proof.get("differing"))
    return "warn" if loud else "", join(tag("strong", "Backend"), f": {words}.")


def _controls(audit: Node) -> tuple[Tone, Html]:
    met = audit.at("controls")
    if not met.value["occurrences"]:
        return "", join(tag("strong", "No control string"), " stands in the text of any page.")
    told = join(
        " stand ", many(met.at("occurrences"), "time"), " in the text of pages; all were encoded as plain text. "
    )
    return "", join(tag("strong", "Control strings"), told, tag("a", "Which", href="#controls"))


def funnel(part: Node) -> Section:
    """What came from the run, and where it is."""
    entries: list[tuple[Cell, Cell, Node]] = [("came from the run", "", part.at("in"))]
    for fate, tone in (("dropped", "d"), ("quarantined", "q")):
        entries += [(tag("span", fate, class_=tone), code(r), n) for r, n in part.at(fate).items()]
    entries.append((tag("span", "kept", class_="k"), "", part.at("kept")))
    measures = ("documents", "windows", "characters")
    rows: list[list[Cell]] = [[what, reason, *(number(n.at(m)) for m in measures)] for what, reason, n in entries]
    note = "A document is dropped where nothing but blanks is in it, and quarantined where it could not be encoded."
    listed = table(
        "Documents", ["", "reason", "documents", "windows", "characters"], rows, left=(0, 1),
        note=join("Kept: ", line(part.at("share_kept")), ". ", note), sql=FUNNEL_SQL,
    )  # fmt: skip
    return Section("funnel", "Funnel", listed)


def rates(audit: Node) -> Section:
    """The gates, and what others reported."""
    rows: list[list[Cell]] = []
    for n in audit.at("gates").nodes():
        tone = _tone(n)
        fine = mark({"bad": "BEYOND", "warn": "declared"}.get(tone, "holds"), tone or "good")
        above = n.value["languages_above"]
        names = ", ".join(above[:ROWS]) + (f" and {len(above) - ROWS:,} more" if len(above) > ROWS else "")
        rows.append([str(n.value["what"]), line(n.at("ours")), number(n.at("limit"), "share"), fine, names])
    gates = table(
        "Gates", ["share", "ours", "limit", "", "languages above the limit"], rows, left=(0, 3, 4), wide=(1, 4)
    )
    return Section("rates", "Rates", join(gates, elsewhere(audit.at("reported_elsewhere").nodes())))


def languages(part: Node) -> Section:
    """What a token is worth in each language."""
    ranked = sorted(part.items(), key=lambda item: (-item[1].value["tokens"], item[0]))
    rows: list[list[Cell]] = []
    for name, n in ranked[:ROWS]:
        rows.append([
            foreign(name, 20), number(n.at("documents")), number(n.at("tokens")), number(n.at("share"), "share"),
            number(n.at("bytes_per_token"), "mean"),
            number(n.at("tokens_per_character"), "score"), number(n.at("unk"), "share"),
            number(n.at("byte_fallback"), "share"),
        ])  # fmt: skip
    parted = [Html(head) for head in ("bytes<br>a token", "tokens a<br>character", "unk", "byte<br>fallback")]
    heads: list[Cell] = ["language", "documents", "tokens", "share", *parted]  # so that all of it fits
    shown = [(name, n) for name, n in ranked if n.value["tokens"]][:BARS]
    drawing = bars(
        [
            (name, [("kept", _value(n.at("bytes_per_token")))], f"{_value(n.at('bytes_per_token')):.2f}")
            for name, n in shown
        ],
        title="Bytes a token, by language",
    )
    pictures = charts(figure("Bytes a token", drawing, says="The longer the bar, the fewer tokens a text costs."))
    return Section(
        "languages",
        "Languages",
        join(
            pictures if shown else None,
            table("Languages, those of most tokens first", heads, rows),
            left_out(ROWS, len(ranked), "languages"),
        ),
    )


def _value(node: Node) -> float:
    value = node.value["value"]
    return float(value) if isinstance(value, (int, float)) else 0.0


def lengths(part: Node) -> Section:
    """How long documents are."""
    found = part.at("histogram")
    bins = [(int(low), _next(int(low)), found.at(str(int(low)))) for low, _ in found.numbered()]
    rows: list[list[Cell]] = [[_range(low, high), number(n)] for low, high, n in bins]
    drawing = histogram(
        [Bin(low, high, n.value) for low, high, n in bins if low],
        title="Tokens a document", x="tokens, BOS and EOS included", log=True, names=("documents", "none"),
    )  # fmt: skip
    picture = figure(
        "Tokens a document",
        drawing,
        legend=legend({"kept": "documents"}),
        data=table("Documents by their tokens", ["tokens", "documents"], rows),
    )
    quantiles = part.at("quantiles")
    head = facts(
        [
            ("Median", number(quantiles.at("0.50")), "tokens"),
            ("Mean", number(part.at("mean"), "mean"), "tokens"),
            ("1 in 20 above", number(quantiles.at("0.95")), "tokens"),
            ("Longest", number(part.at("longest")), "tokens"),
        ],
        small=True,
    )
    return Section("lengths", "Documents", join(head, charts(picture), check_it(LENGTHS_SQL)))


def _range(low: int, high: int) -> str:
    return f"{low:,}" if low == high - 1 else f"{low:,} to {high - 1:,}"


def _next(edge: int) -> int:
    """The edge after one of 0, 1, 2, 3, 4, 6, 8, 12 …"""
    if edge < 2:
        return edge + 1
    power = 1 << (edge.bit_length() - 1)
    return power * 2 if edge > power else power + max(power // 2, 1)


def packing(part: Node) -> Section:
    """How full sequences would be."""
    rows: list[list[Cell]] = []
    for length, by in sorted(part.items(), key=lambda item: int(item[0])):
        for name, words in PACKINGS.items():
            n = by.at(name)
            fill, cut = n.at("fill"), n.at("documents_cut", "numerator")
            about = "about " if n.at("documents_cut", "method").value == "expected" else None
            rows.append([
                f"{int(length):,}", words, number(fill, "share"), bar(None if fill.absent else _value(fill)),
                number(n.at("sequences")), number(n.at("padding")),
                join(about, number(cut)) if cut.value is not None else "",
            ])  # fmt: skip
    listed = table(
        "Fill of sequences, by how documents are put into them",
        ["tokens a sequence", "packing", "full", "", "sequences", "padding", "documents cut"], rows,
        left=(1,), wide=(1,),
        note=Html(
            "Counted from the lengths of documents alone. Concatenation is expected to cut so many, as a document may "
            "begin anywhere in a sequence; best-fit cuts only those that are longer than one. A plan packs groups of "
            "131,072 documents, which fills a little less."
        ),
    )  # fmt: skip
    return Section("packing", "Packing", listed)


def windows(audit: Node) -> Section:
    """What windows are to tokens."""
    part = audit.at("windows")
    cost = part.at("cost")
    figures: list[tuple[Cell, Cell, Cell]] = [
        ("A document", number(part.at("a_document"), "mean"), "windows, on average"),
        ("Begin within a token", number(part.at("cut"), "share"), line_of(part.at("cut"))),
        ("Tokens", "not measured" if cost.absent else number(cost, "factor"),
         "of windows by themselves, to those of whole documents"
         if audit.at("per_window").value else "of windows, overlap counted in each, to those of whole documents"),
    ]  # fmt: skip
    told = Html(
        "Each window was encoded by itself: words are cut where windows begin, and what overlaps is encoded again."
        if audit.at("per_window").value
        else "Documents were encoded as wholes; a window's edge moves on to where the next token begins: none is cut. "
        "Encoded by themselves, windows would cost about as many tokens as they hold together."
    )
    return Section("windows", "Windows", join(tag("p", told), facts(figures, small=True), check_it(WINDOWS_SQL)))


def line_of(node: Node) -> Html:
    """Both numbers of a share."""
    return join(number(node.at("numerator")), " of ", number(node.at("denominator")))
