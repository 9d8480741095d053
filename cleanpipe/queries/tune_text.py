"""The answer of ``tune`` for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cleanpipe.audit.console import size

_FEW = 8  # languages and hosts shown of each kind
_HEADS = {
    "lost": "kept before, gone now",
    "gained": "gone before, kept now",
    "moved": "gone before and now, for something else",
    "decided": "not decided yet in the run, decided now whatever the others are",
    "unknown": "unknown",
}


def text(answer: Mapping[str, Any]) -> list[str]:
    """Lines; nothing in them moves a cursor."""
    lines = list(_lines(answer))
    return ["".join(c if c.isprintable() else "\ufffd" for c in line) for line in lines]


def _lines(answer: Mapping[str, Any]) -> Iterator[str]:
    for change in answer["changes"]:
        yield f"{change['option']}: {change['words']}"
    yield from (f"note: {note}" for note in answer["notes"])
    yield ""
    yield from _kept(answer)
    yield ""
    yield from _funnel(answer)
    for row in answer["unknown"]:
        yield ""
        yield f"unknown at {row['stage']}: {_documents(row['documents'])}: {row['why']}"
    yield from _contingent(answer["contingent"])
    for kind, head in _HEADS.items():
        if answer["flips"][kind]:
            yield from _flips(head, answer["flips"][kind], answer["by"][kind], answer["samples"].get(kind, ()))
    if not any(answer["flips"].values()):
        yield ""
        yield "no document's fate changes"


def _kept(answer: Mapping[str, Any]) -> Iterator[str]:
    """One figure where all is certain; else an estimate and the certain bounds, and what they hang on."""
    kept = answer["kept"]
    certain = kept["documents"]["least"] == kept["documents"]["most"]
    for what, shown in (("documents", None), ("bytes", size), ("characters", None)):
        row = kept[what]
        show = shown or (lambda n: f"{n:,}")
        after = show(row["after"])
        if not certain:
            bounds = f"at least {show(row['least'])}"
            if row["most"] is not None:
                bounds = f"from {show(row['least'])} to {show(row['most'])}"
            after = bounds if row["likely"] is None else f"about {show(row['likely'])} (an estimate; certain: {bounds})"
        elif row["before"]:
            after += f" ({_change(row['before'], row['after'])})"
        yield f"kept {what:<11} {show(row['before'])} → {after}"
    waiting = answer["undecided"]
    if waiting["before"]:
        yield f"not decided yet  {waiting['before']:,} → {waiting['after']:,}: the run is not finished"
    if not certain:
        yield from _hangs_on(answer, kept["documents"])


def _hangs_on(answer: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    """Sentences on what is certain and what is not."""
    unknown = sum(u["documents"] for u in answer["unknown"])
    who = f"the {unknown:,} unknown documents" if unknown > 1 else "the unknown document"
    who = f"one of {who}" if unknown > 1 else who
    who = who if unknown else "a document that is not decided yet"
    stays = f"  {row['stay']:,} of the {row['before']:,} kept now stay"
    if row["stay_if"]:
        stays += f", unless {who} is their duplicate, and longer"
        stays += f" ({row['stay'] - row['stay_if']:,} stay in any case)"
    if row["stay"]:
        yield stays
    if row["stay_open"]:
        yield f"  {row['stay_open']:,} of those kept now are unknown themselves"
    if row["come"]:
        yield f"  {row['come']:,} that went are kept"
    for stage, n in row["open"].items():
        yield f"  {n:,} that went at {stage} may be kept: unknown, see below"
    for stage, share in row["shares"].items():
        yield (
            f"  the estimate: {100 * share:.1f} % of the documents that came as far as {stage} in the run were kept, "
            "and unknown ones are taken to be like them"
        )
    yield "  to know: add --write new.toml, then run it: cleanpipe run new.toml INPUT … --out NEW"
    yield "  (or try it on a sample: cleanpipe plan new.toml INPUT …)"


def _change(before: int, after: int) -> str:
    return f"{after - before:+,}, {100 * (after - before) / before:+.1f} %"


def _funnel(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (f"{row['stage']} {reason}", f"{n['before']:,}", f"{n['after']:,}", n["after"] - n["before"])
        for row in answer["funnel"]
        for reason, n in row["reasons"].items()
    ]
    kept, waiting, every = answer["kept"]["documents"], answer["undecided"], answer["rows"]
    rest = [("kept", kept["before"], kept["after"]), ("not decided yet", waiting["before"], waiting["after"])]
    rows += [(name, f"{a:,}", f"{b:,}", b - a) for name, a, b in rest if a or b or name == "kept"]
    rows.append(("all records", f"{every:,}", f"{every:,}", 0))
    widths = [max(len(r[i]) for r in [*rows, ("went at", "before", "after")]) for i in range(3)]
    yield f"{'went at':<{widths[0]}}  {'before':>{widths[1]}}  {'after':>{widths[2]}}"
    for name, before, after, change in rows:
        more = f"  {change:+,}" if change else ""
        yield f"{name:<{widths[0]}}  {before:>{widths[1]}}  {after:>{widths[2]}}{more}"


def _contingent(found: Mapping[str, int]) -> Iterator[str]:
    if found["dropped"]:
        yield ""
        yield (
            f"{found['dropped']:,} duplicates go, unless an unknown document takes the place of the one that stands "
            "for them, and they are no duplicates of it"
        )
    if found["reason_open"]:
        yield f"{found['reason_open']:,} duplicates go for certain, as exact or as near ones"


def _flips(head: str, count: int, by: Mapping[str, Any], samples: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield ""
    yield f"{head}: {_documents(count)}"
    for what in ("language", "host"):
        rows = by.get(what, ())
        some = ", ".join(f"{row['name']} {row['documents']:,}" for row in rows[:_FEW])
        read = sum(r["documents"] for r in rows)
        part = "" if read == count else f", of {read:,} read for it"
        more = rows[_FEW:]
        rest = f", and {sum(r['documents'] for r in more):,} more" if more else ""
        yield f"  by {what}{part}: {some or 'none'}{rest}"
    for sample in samples:
        yield f"  {sample['url'] or '-'}"
        yield f"      {sample['at']}  {_went(sample)}"
        for s in sample["scores"]:
            yield f"      {s['score']} {_number(s['value'])}, kept if {_limits(s)}"


def _went(sample: Mapping[str, Any]) -> str:
    sure = "" if sample["sure"] == "certain" else f" ({sample['sure']})"
    return f"{sample['before']} → {sample['after']}{sure}"


def _documents(n: int) -> str:
    return f"{n:,} document{'' if n == 1 else 's'}"


_KEEPS = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}


def _limits(score: Mapping[str, Any]) -> str:
    """At least 0.65 → 0.8; no limit → at least 300."""
    keeps = _KEEPS[score["keeps"]]
    old, new = (score[when] for when in ("old", "new"))
    if old == new:
        return f"{keeps} {_number(old)}"
    if old is None:
        return f"no limit → {keeps} {_number(new)}"
    return f"{keeps} {_number(old)} → {'no limit' if new is None else _number(new)}"


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else str(value)
