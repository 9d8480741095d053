"""The audit of a store of tokens for a reader: tables and units; every word that came from a page is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cleanpipe.audit.console import size
from cleanpipe.audit.tables import ROWS, Lines, escape, left_out, many, part_of, share_of, table, title, value_of
from cleanpipe.tokens.audit.borders import agreement
from cleanpipe.tokens.audit.console import backend_words

PACKINGS = {
    "concat": "documents one after the other",
    "best_fit": "best-fit, none cut that fits",
    "document_each": "each document begins one",
    "window_each": "each window begins one",
}


def to_markdown(audit: Mapping[str, Any]) -> str:
    """audit.md: the numbers of audit.json."""
    parts = [
        _head(audit),
        _gates(audit),
        _funnel(audit["funnel"]),
        _tokenizer(audit),
        _languages(audit["languages"]),
        _lengths(audit["lengths"]),
        _packing(audit["packing"]),
        _windows(audit["windows"], audit["per_window"]),
        _ids(audit["ids"]),
        _controls(audit["controls"]),
        _round_trip(audit["round_trip"]),
        _samples(audit["samples"]),
        _shards(audit),
        _conservation(audit["conservation"], agreement(audit["borders"])),
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def visible(piece: str) -> str:
    """A piece of which the blanks are seen."""
    return piece.replace(" ", "␣")


def _head(audit: Mapping[str, Any]) -> Lines:
    totals, identity = audit["totals"], audit["identity"]
    of = identity.get("recipe") or (identity.get("run") or {}).get("recipe") or "a run"
    yield f"# Tokens of {escape(str(of))}, by {escape(str(audit['tokenizer']['name']))}"
    yield ""
    yield (
        f"{many(totals['stored'], 'token')} of {many(totals['documents'], 'document')} in "
        f"{many(totals['shards'], 'payload')} ({size(totals['payload_bytes'])}): {totals['tokens']:,} of text, "
        f"{totals['bos']:,} BOS, {totals['eos']:,} EOS."
    )
    for alarm in audit["alarms"]:
        yield ""
        yield f"**Warning:** {escape(alarm['told'])}."


def _gates(audit: Mapping[str, Any]) -> Lines:
    yield from title("Rates")
    rates = audit["rates"]
    rows = [
        ["bytes a token", value_of(rates["bytes_per_token"], ""), ""],
        ["tokens a character", value_of(rates["tokens_per_character"], ""), ""],
        *([g["what"], part_of(g["ours"]), _state(g)] for g in audit["gates"]),
    ]
    yield from table(["figure", "value", ""], rows, left=(0, 2))
    for gate in audit["gates"]:
        if above := gate["languages_above"]:
            yield ""
            yield f"{gate['what'].capitalize()} above the limit in: {', '.join(map(escape, above[:ROWS]))}."
    yield from title("Reported elsewhere, beside ours", 3)
    rows = [[escape(n["what"]), n["reported"], value_of(n["ours"], n["reported"])] for n in audit["reported_elsewhere"]]
    yield from table(["figure", "reported", "ours"], rows)


def _state(gate: Mapping[str, Any]) -> str:
    said = {"beyond": "**beyond the limit**", "declared": f"declared: {gate['note']}"}
    return said.get(gate["state"], str(gate["state"]))


def _funnel(funnel: Mapping[str, Any]) -> Lines:
    yield from title("Funnel")
    entries = [("came from the run", "", funnel["in"])]
    entries += [(fate, r, e) for fate in ("dropped", "quarantined") for r, e in funnel[fate].items()]
    entries.append(("kept", "", funnel["kept"]))
    names = ("documents", "windows", "characters")
    rows = [[fate, escape(reason), *(f"{e.get(n, 0):,}" for n in names)] for fate, reason, e in entries]
    yield from table(["", "reason", *names], rows, left=(0, 1))


def _tokenizer(audit: Mapping[str, Any]) -> Lines:
    card = audit["tokenizer"]
    yield from title("Tokenizer")
    rows = [["name", escape(str(card["name"]))], ["kind", card["kind"]], ["ids", f"{card['vocabulary']:,}"]]
    found = audit["borders"]
    rows += [[m.upper(), f"{escape(found[m]['name'])}: {found[m]['id']:,}" if found[m] else "none"] for m in found]
    rows.append(["UNK", "none" if card["unk"] is None else f"{card['unk']:,}"])
    rows.append(["lossless", "yes" if card["lossless"] else "no"])
    rows += [[f"fingerprint, {name}", f"`{digest}`"] for name, digest in card["fingerprint"].items()]
    rows.append(["backend", escape(backend_words(audit["backend"]))])
    yield from table(["", "value"], rows, left=(0, 1))


def _languages(languages: Mapping[str, Any]) -> Lines:
    yield from title("Languages")
    ranked = sorted(languages.items(), key=lambda item: (-item[1]["tokens"], item[0]))
    rows = [
        [
            escape(name), f"{n['documents']:,}", f"{n['tokens']:,}", share_of(n["share"]),
            value_of(n["bytes_per_token"], ""), value_of(n["tokens_per_character"], ""), share_of(n["unk"]),
            share_of(n["byte_fallback"]),
        ]
        for name, n in ranked[:ROWS]
    ]  # fmt: skip
    heads = ["documents", "tokens", "share", "bytes a token", "tokens a character", "unk", "byte fallback"]
    yield from table(["language", *heads], rows)
    yield from left_out(len(ranked), "languages")


def _lengths(lengths: Mapping[str, Any]) -> Lines:
    yield from title("Tokens a document")
    quantiles = lengths["quantiles"]
    yield from table([f"{float(q):.0%}".replace("%", " %") for q in quantiles] + ["longest", "mean"],
                     [[*(f"{n:,}" for n in quantiles.values()), f"{lengths['longest']:,}",
                       value_of(lengths["mean"], "")]], left=())  # fmt: skip


def _packing(packing: Mapping[str, Any]) -> Lines:
    yield from title("Packing")
    rows = []
    for length, by in packing.items():
        for name, words in PACKINGS.items():
            part = by[name]
            cut = part.get("documents_cut")
            rows.append([
                f"{int(length):,}", words, share_of(part["fill"]) if "numerator" in part["fill"] else "n/a",
                f"{part['sequences']:,}" if "sequences" in part else "", f"{part['padding']:,}" if "padding" in part
                else "", f"{'about ' if cut['method'] == 'expected' else ''}{cut['numerator']:,}" if cut else "",
            ])  # fmt: skip
    heads = ["tokens a sequence", "packing", "full", "sequences", "padding", "documents cut"]
    yield from table(heads, rows, left=(1,))


def _windows(windows: Mapping[str, Any], per_window: bool) -> Lines:
    yield from title("Windows")
    rows = [["windows a document", value_of(windows["a_document"], "")]]
    rows += [["window starts that lie within a token", part_of(windows["cut"])]]
    what = "tokens of windows encoded by themselves" if per_window else "tokens of windows, overlap counted in each"
    rows += [[f"{what}, to those of whole documents", value_of(windows["cost"], "×")]]
    yield from table(["", ""], rows)


def _ids(ids: Mapping[str, Any]) -> Lines:
    yield from title("Ids")
    rows = [
        ["ids never seen", part_of(ids["never"])],
        ["ids seen once", f"{ids['once']:,}"],
        ["tokens among the 100 most frequent ids", part_of(ids["top_100"])],
        ["entropy, bits a token", value_of(ids["entropy_bits"], "")],
    ]
    yield from table(["", ""], rows)
    yield from title("Most frequent", 3)
    top = [[f"{n['id']:,}", escape(visible(n["piece"])), f"{n['count']:,}", share_of(n["share"])] for n in ids["top"]]
    yield from table(["id", "piece", "tokens", "share"], top, left=(1,))
    if ids["never_examples"]:
        yield ""
        yield "Never seen, some: " + ", ".join(escape(visible(n["piece"])) for n in ids["never_examples"]) + "."


def _controls(controls: Mapping[str, Any]) -> Lines:
    yield from title("Control strings in page text")
    yield f"Met in {part_of(controls['documents'])}; they were encoded as plain text, and no boundary was forged."
    yield ""
    rows = [
        [escape(s), f"{n['occurrences']:,}", f"{n['documents']:,}", "yes" if n["of_tokenizer"] else "no"]
        for s, n in list(controls["by_string"].items())[:ROWS]
    ]
    yield from table(["string", "times", "documents", "this tokenizer's"], rows)
    yield from left_out(len(controls["by_string"]), "strings")


def _round_trip(part: Mapping[str, Any]) -> Lines:
    yield from title("Round trip")
    yield f"Decoded again: {many(part['documents'], 'document')} of {many(part['characters'], 'character')}."
    yield f"Changed: {part_of(part['failed'])}. {part['lossy'].capitalize()}{'.' if part['lossy'] else ''}"
    if part["failures"]:
        yield ""
        rows = [[n["doc_id"], f"{n['at']:,}", escape(n["text"]), escape(n["back"])] for n in part["failures"][:ROWS]]
        yield from table(["document", "character", "text", "came back"], rows, left=(0, 2, 3))


def _samples(samples: list[Mapping[str, Any]]) -> Lines:
    yield from title("Samples")
    rows = [
        [escape(str(n["url"] or "")), f"{n['tokens']:,}", escape("·".join(map(visible, n["pieces"][:16])))]
        for n in samples
    ]
    yield from table(["URL", "tokens", "first pieces"], rows, left=(0, 2))


def _shards(audit: Mapping[str, Any]) -> Lines:
    yield from title("Shards")
    rows = [
        [escape(s["name"]), *(f"{s[n]:,}" for n in ("tokens", "documents", "windows")), f"`{s.get('sha256', '')}`"]
        for s in audit["shards"][:ROWS]
    ]
    yield from table(["payload", "tokens", "documents", "windows", "SHA-256"], rows, left=(0, 4))
    yield from left_out(len(audit["shards"]), "payloads")


def _conservation(conservation: Mapping[str, Any], agreed: str) -> Lines:
    yield from title("Conservation")
    lines = conservation["lines"]
    broken = sum(not li["ok"] for li in lines)
    yield (
        f"**The balance does not close:** {broken} of {many(len(lines), 'law')} broken."
        if broken
        else f"Everything closes: {len(lines)} laws hold; {agreed}."
    )
    yield ""
    rows = [
        [
            escape(li["what"]),
            f"{li['left']:,}",
            f"{li['right']:,}",
            "ok" if li["ok"] else "**BROKEN**",
            escape(li["detail"]),
        ]
        for li in lines
    ]
    yield from table(["law", "left", "right", "", "in words"], rows, left=(0, 3, 4))
