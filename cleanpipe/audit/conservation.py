"""The balance: everything that was read is somewhere. Records, bytes and characters, by stage and for the run."""

from __future__ import annotations

from typing import Any

from cleanpipe import batch as col
from cleanpipe.audit.lines import View
from cleanpipe.builtin import READ
from cleanpipe.io.documents import DAMAGED_RANGE, DOCUMENT_TYPES

Check = dict[str, Any]


def check(view: View, shard_chars: int | None) -> dict[str, Any]:
    """Every law with both its sides.

    Args:
        view: of the finished run.
        shard_chars: Σ(length − overlap) over the rows of all shards; None where it was not counted.

    Returns:
        {"balanced": whether all close, "lines": [{what, left, right, ok, detail}, …]}.
    """
    lines = [*_records(view), *_bytes(view), *_characters(view, shard_chars)]
    return {"balanced": all(line["ok"] for line in lines), "lines": lines}


def _line(what: str, left: int, right: int, detail: str, faults: list[str] | None = None) -> Check:
    more = f"; {'; '.join(faults[:5])}{' and more' if len(faults) > 5 else ''}" if faults else ""
    return {"what": what, "left": left, "right": right, "ok": left == right and not faults, "detail": detail + more}


def _fates(view: View, measure: str) -> dict[str, dict[str, dict[str, int]]]:
    """Ledger sums as fate → stage → reason; those of the kept under the stage ""."""
    fates = view.ledger.get("fates", {})
    kept = fates.get(col.KEPT)
    out = {col.KEPT: {"": {"": kept[measure] if kept else 0}}}
    for fate in (col.DROPPED, col.QUARANTINED):
        out[fate] = {s: {r: e[measure] for r, e in by.items()} for s, by in fates.get(fate, {}).items()}
    return out


def _sum(by: dict[str, dict[str, int]]) -> int:
    return sum(sum(reasons.values()) for reasons in by.values())


def _lost(fates: dict[str, dict[str, dict[str, int]]], stage: str) -> int:
    return sum(sum(fates[fate].get(stage, {}).values()) for fate in (col.DROPPED, col.QUARANTINED))


def _records(view: View) -> list[Check]:
    fates = _fates(view, "documents")
    parts = {fate: _sum(by) for fate, by in fates.items()}
    ranges = fates[col.QUARANTINED].get(READ, {}).get(DAMAGED_RANGE, 0)
    records = sum(sum(types.values()) for types in view.by_source.values())
    others = sum(n for types in view.by_source.values() for kind, n in types.items() if kind not in DOCUMENT_TYPES)
    spelled = " + ".join(f"{n:,} {fate}" for fate, n in parts.items())
    lines = [
        _line(
            "records of the run",
            records + ranges,
            others + sum(parts.values()),
            f"{records:,} records and {ranges:,} damaged ranges read = {others:,} that are no documents + {spelled}",
        ),
        _by_source(view),
    ]
    before = int(view.ledger.get("rows", 0))
    for stage in view.order:
        counts, faults = view.counts(stage), []
        if counts["docs_in"] != before:
            faults.append(f"{before:,} came from the stage before")
        said, written = {**view.dropped(stage), **view.quarantined(stage)}, {}
        for fate in (col.DROPPED, col.QUARANTINED):
            written.update(fates[fate].get(stage, {}))
        faults += [
            f"{r}: {said.get(r, 0):,} counted, {written.get(r, 0):,} in the ledger"
            for r in sorted({*said, *written})
            if said.get(r, 0) != written.get(r, 0)
        ]
        lost = _lost(fates, stage)
        detail = f"{counts['docs_in']:,} in − {lost:,} dropped or set aside = {counts['docs_out']:,} out"
        lines.append(_line(f"documents of {stage}", counts["docs_in"] - lost, counts["docs_out"], detail, faults))
        before = counts["docs_out"]
    lines.append(_line("documents kept", before, parts[col.KEPT], "out of the last stage = kept in the ledger"))
    rows = sum(s["rows"] for s in view.shards)
    last = view.counts(view.order[-1])["rows_out"]
    lines.append(_line("rows of the shards", last, rows, "rows out of the last stage = rows of all shards"))
    strangers = sorted({s for fate in (col.DROPPED, col.QUARANTINED) for s in fates[fate]} - set(view.order))
    lost = sum(_lost(fates, s) for s in strangers)
    lines.append(_line("documents of unknown stages", lost, 0, "in the ledger, by a stage that did not run", strangers))
    return lines


def _by_source(view: View) -> Check:
    ledger = view.ledger.get("sources", {})
    left = right = 0
    faults = []
    for source in sorted({*view.by_source, *ledger}):
        read = {k: n for k, n in view.by_source.get(source, {}).items() if k in DOCUMENT_TYPES}
        rows = {k: n for k, n in ledger.get(source, {}).get("types", {}).items() if k}
        left, right = left + sum(read.values()), right + sum(rows.values())
        faults += [
            f"{source}: {read.get(k, 0):,} {k} records read, {rows.get(k, 0):,} in the ledger"
            for k in sorted({*read, *rows})
            if read.get(k, 0) != rows.get(k, 0)
        ]
    n = len(view.by_source)
    detail = f"documents of each type read = rows of the ledger, for each of {n:,} inputs"
    return _line("records by source", left, right, detail, faults)


def _bytes(view: View) -> list[Check]:
    fates = _fates(view, "bytes")
    parts = {fate: _sum(by) for fate, by in fates.items()}
    read = view.counts(READ)["bytes_in"]
    spelled = " + ".join(f"{n:,} {fate}" for fate, n in parts.items())
    lines = [_line("bytes of the run", read, sum(parts.values()), f"{read:,} bytes of bodies read = {spelled}")]
    before = read
    for stage in view.order:
        counts, lost = view.counts(stage), _lost(fates, stage)
        faults = [f"{before:,} came from the stage before"] if counts["bytes_in"] != before else []
        detail = f"{counts['bytes_in']:,} in − {lost:,} dropped or set aside = {counts['bytes_out']:,} out"
        lines.append(_line(f"bytes of {stage}", counts["bytes_in"] - lost, counts["bytes_out"], detail, faults))
        before = counts["bytes_out"]
    lines.append(_line("bytes kept", before, parts[col.KEPT], "out of the last stage = kept in the ledger"))
    return lines


def _characters(view: View, shard_chars: int | None) -> list[Check]:
    lines = []
    before = 0
    for stage in view.order:
        c = view.counts(stage)
        faults = [f"{before:,} came from the stage before"] if c["chars_in"] != before else []
        right = c["chars_in"] - c["chars_dropped"] - c["chars_removed"] + c["chars_added"]
        detail = (
            f"{c['chars_in']:,} in − {c['chars_dropped']:,} dropped − {c['chars_removed']:,} removed "
            f"+ {c['chars_added']:,} added = {c['chars_out']:,} out"
        )
        lines.append(_line(f"characters of {stage}", right, c["chars_out"], detail, faults))
        before = c["chars_out"]
    kept = int(view.ledger.get("chars_kept", 0))
    cut = view.windows()
    after = view.order[view.order.index(cut.name) + 1 :] if cut is not None else []
    if not any(view.counts(s)["chars_dropped"] for s in after):  # windows overlap: what is lost of them is no document
        entered = view.counts(cut.name) if cut is not None else {"chars_in": before, "chars_dropped": 0}
        whole = entered["chars_in"] - entered["chars_dropped"]
        lines.append(_line("characters kept", whole, kept, "of the documents to be cut = Σ chars_out of the kept"))
    if shard_chars is not None:
        detail = "Σ(length − overlap) over the rows of all shards = Σ chars_out of the kept"
        lines.append(_line("characters of the shards", shard_chars, kept, detail))
    return lines
