"""The balance of a store of tokens: what the run published is in it, or lost with a reason; nothing else is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cleanpipe.audit.tables import many
from cleanpipe.tally import Tally

Check = dict[str, Any]


def check(
    tally: Tally,
    counted: int,
    forged: int,
    shards: Sequence[Mapping[str, Any]],
    run: Mapping[str, Any],
    card: Mapping[str, Any],
) -> dict[str, Any]:
    """Every law with both its sides.

    Args:
        tally: of all batches. counted: the sum of the histogram of ids. forged: those of controls in it, which no text
            may give. shards: of the store.
        run: the run's audit.json; {} leaves its laws out. card: the tokenizer's.

    Returns:
        {"balanced": whether all close, "lines": [{what, left, right, ok, detail}, …]}.
    """
    told = "ids of control tokens in the text of documents = none: no page forged a boundary"
    lines = [
        *_run(tally, run),
        *_tokens(tally, counted, shards, card),
        _line("control ids in the text", forged, 0, told),
    ]
    lines += _languages(tally)
    return {"balanced": all(line["ok"] for line in lines), "lines": lines}


def _line(what: str, left: int, right: int, detail: str, faults: Sequence[str] = ()) -> Check:
    more = f"; {'; '.join(faults[:5])}{' and more' if len(faults) > 5 else ''}" if faults else ""
    return {"what": what, "left": left, "right": right, "ok": left == right and not faults, "detail": detail + more}


def _lost(tally: Tally, measure: str) -> int:
    return sum(entry.get(measure, 0) for by in tally.get("lost", {}).values() for entry in by.values())


def _run(tally: Tally, run: Mapping[str, Any]) -> list[Check]:
    lines = []
    windows = run.get("shards", {}).get("rows", {}).get("value")
    documents = run.get("ledger", {}).get("totals", {}).get("kept", {}).get("documents")
    kept = next((li for li in run.get("conservation", {}).get("lines", ()) if li["what"] == SHARDS), None)
    lost = {m: _lost(tally, m) for m in ("documents", "windows", "characters")}
    if documents is not None:
        n = tally.get("documents", 0)
        detail = f"{documents:,} kept by the run = {n:,} encoded + {lost['documents']:,} dropped or quarantined"
        lines.append(_line("documents", documents, n + lost["documents"], detail))
    if windows is not None:
        n = tally.get("windows", 0)
        detail = f"{windows:,} rows of the run's shards = {n:,} of documents encoded + {lost['windows']:,} of others"
        lines.append(_line("windows", windows, n + lost["windows"], detail))
    if kept is not None:
        n, stripped, came = tally.get("characters", 0), tally.get("stripped", 0), kept["left"]
        detail = (
            f"{came:,} in the run's shards, overlap left out = {n:,} encoded + {stripped:,} blanks at the ends "
            f"+ {lost['characters']:,} of documents that were not encoded"
        )
        lines.append(_line("characters", came, n + stripped + lost["characters"], detail))
    return lines


SHARDS = "characters of the shards"  # the law of a run's audit that tells Σ(length − overlap)


def _tokens(tally: Tally, counted: int, shards: Sequence[Mapping[str, Any]], card: Mapping[str, Any]) -> list[Check]:
    body, bos, eos, documents = (tally.get(k, 0) for k in ("tokens", "bos", "eos", "documents"))
    stored = sum(int(s["tokens"]) for s in shards)
    detail = f"{body:,} of text + {bos:,} BOS + {eos:,} EOS = {stored:,} in {many(len(shards), 'payload')}"
    lines = [_line("tokens", body + bos + eos, stored, detail)]
    for name, what, n in (("bos", "BOS", bos), ("eos", "EOS", eos)):
        if card[name] is not None:
            lines.append(_line(f"{what} = documents", n, documents, f"{n:,} {what}, {many(documents, 'document')}"))
        else:
            lines.append(_line(f"no {what}", n, 0, f"the tokenizer's policy has no {what}"))
    held = sum(int(s["documents"]) for s in shards)
    lines.append(_line("documents of the shards", documents, held, "encoded = in the shards"))
    rows = sum(int(s["windows"]) for s in shards)
    lines.append(_line("windows of the shards", tally.get("windows", 0), rows, "of documents encoded = rows of spans"))
    lines.append(_line("ids counted", body, counted, "tokens of text = sum of the histogram of ids"))
    lengths = sum(int(n) * c for n, c in tally.get("lengths", {}).items())
    lines.append(_line("lengths of documents", lengths, stored, "Σ tokens × documents = tokens in the payloads"))
    if shards and all("bytes" in s for s in shards):
        size, width = sum(int(s["bytes"]) for s in shards), int(card["bytes_an_id"])
        lines.append(_line("bytes of the payloads", size, stored * width, f"bytes = tokens × {width}"))
    return lines


def _languages(tally: Tally) -> list[Check]:
    lines = []
    for measure in ("documents", "tokens", "characters", "bytes"):
        parts = sum(c.get(measure, 0) for c in tally.get("languages", {}).values())
        lines.append(_line(f"{measure} by language", parts, tally.get(measure, 0), "of all languages = of the store"))
    return lines
