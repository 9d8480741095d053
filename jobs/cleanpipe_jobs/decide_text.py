"""The answers of ``cleanpipe decide`` as plain data and in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cleanpipe_jobs.explain_text import printable, safe, short
from cleanpipe_jobs.tokens_said import counted, percent, plan_in_text

if TYPE_CHECKING:
    from cleanpipe.options import StorageOptions
    from cleanpipe.tokens.decisions import Decision, Decisions
    from cleanpipe.tokens.store import TokenStore

FIRST = 10  # documents of a line that are shown
_CLUSTER = 5  # documents of a duplicate cluster that are shown
Numbers = npt.NDArray[np.int64]


def line_facts(line: Decision) -> dict[str, Any]:
    """A line, plain."""
    return {**asdict(line), "digest": line.digest}


def force(line: Decision, end: int | None) -> dict[str, Any]:
    """Whether it is in force, and until which sequence it was."""
    from cleanpipe.tokens.decisions_lines import FOREVER

    if line.action == "revoke":
        return {"in_force": True, "until_sequence": None}
    return {"in_force": end == FOREVER, "until_sequence": 0 if end is None else None if end == FOREVER else end}


def first_documents(store: TokenStore, documents: Numbers) -> list[dict[str, Any]]:
    """The first ten of some documents, plain."""
    from cleanpipe.tokens.tracing import origin_of

    found = [origin_of(store, d) for d in documents[:FIRST].tolist()]
    return [{"doc_id": o.doc_id, "url": o.url, "tokens": o.tokens} for o in found]


def next_steps(
    store: TokenStore, before: Decisions, after: Decisions, changed: Sequence[Decision], dry: bool
) -> list[str]:
    """What comes of it, in sentences."""
    from cleanpipe.tokens.decisions import QUARANTINE, effects
    from cleanpipe.tokens.decisions_impact import impact
    from cleanpipe.tokens.decisions_lines import FOREVER

    if not changed:
        return ["nothing new was said: nothing is written"]
    out = ["nothing is written: leave --dry-run out"] if dry else []
    out.append("readers honour it at once: order, sequences and resume stay as they are")
    last = effects(store, after).at(FOREVER - 1)
    out_of_it = impact(store, last.documents[last.actions == QUARANTINE])
    quarantines = any(line.action == "quarantine" for line in changed)
    if len(out_of_it.documents) and quarantines:
        out.append(
            f"the same `cleanpipe tokenize` line again leaves {counted(len(out_of_it.documents), 'document')} out and "
            f"rewrites {len(out_of_it.shards):,} of {counted(len(store.shards), 'shard')}"
        )
    back = [
        line for line in changed if line.action == "revoke" and before.lines[int(line.key) - 1].action == "quarantine"
    ]
    if back:
        out.append("what a build left out for it comes back with the next `cleanpipe tokenize` of the same line")
    return out


def stood_for(store: TokenStore, run: str, storage: StorageOptions, found: Sequence[Numbers]) -> list[dict[str, Any]]:
    """Documents of duplicate clusters that a hit document stands for, from the run's ledger."""
    from cleanpipe.tokens.tracing.clusters import duplicates_of

    documents = np.unique(np.concatenate([np.zeros(0, np.int64), *found]))
    return [
        {"doc_id": kept, "count": len(group), "documents": group[:_CLUSTER]}
        for kept, group in duplicates_of(store, documents, run, storage).items()
    ]


# --- in words


def _what(line: Mapping[str, Any]) -> str:
    weight = f" {line['weight']:g}" if line["weight"] is not None else ""
    since = f", from sequence {line['from_sequence']:,}" if line["from_sequence"] else ""
    return f"{line['action']}{weight} {line['key_kind']} {short(line['key'])}{since}"


def _amount(hits: Mapping[str, Any]) -> str:
    return (
        f"{counted(hits['documents'], 'document')}, {counted(hits['tokens'], 'token')} "
        f"({percent(hits['share_of_tokens'])} of the store), in {hits['shards']:,} of "
        f"{counted(hits['of_shards'], 'shard')}"
    )


def in_text(answer: Mapping[str, Any]) -> str:
    """What was decided."""
    lines = [f"sequences of {plan_in_text(answer['plan'])}"] if "plan" in answer else []
    for line in answer["lines"]:
        would = "would be line" if answer["dry_run"] else "line"
        state = f"{would} {line['number']}" if line["new"] else f"stands already, as line {line['number']}"
        lines.append(f"{_what(line)}: {state}")
        lines.append(f"  hits {_amount(line['hits'])}")
        lines += [
            f"    {one['doc_id']}  {one['tokens']:>9,}  {short(one['url'] or 'no URL', 110)}"
            for one in line["documents"]
        ]
        more = line["hits"]["documents"] - len(line["documents"])
        lines += [f"    … and {more:,} more"] * (more > 0)
    lines += _clusters(answer)
    lines += ["", *_totals(answer), ""]
    lines += [f"next: {one}" for one in answer["next"]]
    return printable("\n".join(lines))


def _clusters(answer: Mapping[str, Any]) -> Iterator[str]:
    for group in answer.get("stands_for", ()):
        yield f"  {group['doc_id']} stands for {counted(group['count'], 'duplicate')} that the run dropped:"
        for one in group["documents"]:
            same = "the same text" if one["jaccard"] == 1 else f"{one['jaccard']:.2f} alike"
            yield f"    {one['doc_id']}  {same}  {short(one['url'] or 'no URL', 110)}"
        more = group["count"] - len(group["documents"])
        yield from [f"    … and {more:,} more"] * (more > 0)
    if "stands_for" in answer:
        yield "" if answer["stands_for"] else "  it stands for no duplicates in that run"


def _totals(answer: Mapping[str, Any]) -> Iterator[str]:
    yield f"{'of the store':<14}{'documents before':>18}{'after':>10}{'tokens before':>18}{'after':>14}"
    for action, after in answer["after"].items():
        before = answer["before"][action]
        yield (
            f"  {action:<12}{before['documents']:>18,}{after['documents']:>10,}{before['tokens']:>18,}"
            f"{after['tokens']:>14,}"
        )


def list_in_text(name: str, answer: Mapping[str, Any]) -> str:
    """All lines. name: of the store."""
    built = f", {answer['built_in']:,} of them known to its build" if answer["built_in"] else ""
    lines = [f"{name}: {counted(answer['version'], 'line')}{built}"]
    for line in answer["lines"]:
        until = line["until_sequence"]
        held = "" if line["in_force"] else "taken back" if not until else f"until sequence {until:,}"
        lines.append(f"{line['number']:>4}  {line['time']}  {_what(line)}" + (f"  [{held}]" if held else ""))
        if line["hits"] is not None:
            out = f"left out by the build: {line['left_out']:,}" if line["left_out"] else ""
            here = _amount(line["hits"]) if line["hits"]["documents"] or not out else ""
            lines.append(f"      {'; '.join(filter(None, (here, out)))}")
        said = [(n, line[n]) for n in ("reason", "evidence", "author") if line[n]]
        lines += [f"      {'; '.join(f'{n}: {safe(v)}' for n, v in said)}"] * bool(said)
    for action, now in answer["standing"].items():
        lines.append(f"in force: {action:<11}{_amount(now)}")
    return printable("\n".join(lines))
