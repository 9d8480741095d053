"""Two runs, one beside the other: what they were told, what they found, whose fate changed, what drifted."""

from __future__ import annotations

from typing import Any

import numpy as np

from cleanpipe import batch as col
from cleanpipe.queries.diff_fates import fates
from cleanpipe.queries.diff_ledger import UNDECIDED, Outcomes, fields, take
from cleanpipe.queries.diff_lines import compare
from cleanpipe.queries.diff_recipe import recipes
from cleanpipe.queries.diff_sums import Compared
from cleanpipe.queries.diff_tally import Tally, host_of, level, score_columns, tally
from cleanpipe.queries.drift import drift, hosts_to_name
from cleanpipe.queries.opened_run import OpenRun

SAMPLES = 20


def diff(a: OpenRun, b: OpenRun, *, samples: int = SAMPLES, seed: int = 0) -> dict[str, Any]:
    """Compare two runs from their ledgers, audits and recipes alone.

    Args:
        a, b: runs of any recipes, inputs and formats; what only one of them has is said, not compared.
        samples, seed: the k documents of smallest hash(seed, doc_id) stand for each change.

    Returns:
        Plain JSON: ``a``, ``b`` (the runs), ``same``, ``recipe``, ``documents``, ``lines``, ``drift``,
        ``not_compared``. ``drift.alarms`` and ``drift.wiped_out`` are alarms, ``drift.notes`` single values that moved.
        With A and B exchanged it says the same, mirrored.
    """
    outcomes = Outcomes()
    told = recipes(a, b)
    documents = fates(a, b, outcomes, seed=seed, samples=samples)
    whole = documents["joined"] == documents["a"] == documents["b"]
    tallies = tally(a, outcomes, clustered=not whole), tally(b, outcomes, clustered=not whole)
    level(*tallies, outcomes)
    both = Compared(a.audit, b.audit, tallies, outcomes, documents["joined"], whole, [])
    lines = compare(both)
    names: dict[int, str] = {}
    for run, wanted in zip((a, b), hosts_to_name(both), strict=True):
        rows = take(run, np.array([row for _, row in wanted], np.int64), [col.URL])
        names.update({h: host_of(rows[row][col.URL]) for h, row in wanted})
    drifted = drift(both, names)
    result = {
        "a": _run(a, tallies[0], outcomes),
        "b": _run(b, tallies[1], outcomes),
        "recipe": told,
        "exact": both.exact,
        "documents": documents,
        "lines": lines,
        "drift": drifted,
        "not_compared": _not_compared(a, b) + documents.pop("notes"),
    }
    found = {"same": _same(result), "same_result": _same_result(result), **result}
    return {**found, "not_compared": result["not_compared"] + _waiting(both)}


def _run(run: OpenRun, tallied: Tally, outcomes: Outcomes) -> dict[str, Any]:
    """kept, undecided: of the ledger; an unfinished run's audit counts both as kept."""
    fates_ = {UNDECIDED: 0, col.KEPT: 0}
    for (fate, _, _), n in zip(outcomes.names, tallied.outcomes.totals.tolist(), strict=True):
        fates_[fate] = fates_.get(fate, 0) + n
    return {
        "root": run.root,
        "recipe": run.recipe.name,
        "config_hash": (run.audit.get("identity") or {}).get("config_hash") or run.facts.get("config_hash"),
        "rows": tallied.rows,
        "kept": fates_[col.KEPT],
        "undecided": fates_[UNDECIDED],
        "shards_bytes": run.audit.get("shards", {}).get("bytes", {}).get("value"),
        "caution": run.caution,
    }


def _waiting(both: Compared) -> list[str]:
    out = []
    for i, (side, audit) in enumerate((("A", both.a), ("B", both.b))):
        if n := both.undecided(i):
            out.append(f"{n:,} documents of {side} are not decided yet: what is kept, and what is wiped out")
        if "unfinished" in audit:
            out.append(f"{side} is not finished: its shards, and the stages that not all its units have come to")
    return out


def _not_compared(a: OpenRun, b: OpenRun) -> list[str]:
    one, other = ({*score_columns(run)} for run in (a, b))
    out = [f"{name} is in the ledger of {'A' if name in one else 'B'} alone" for name in sorted(one ^ other)]
    out += [f"{'AB'[i]} has no documents" for i, run in enumerate((a, b)) if not fields(run)]
    return out


def _same_result(result: dict[str, Any]) -> bool:
    """Whether both found the same, whatever they were told."""
    documents, lines = result["documents"], result["lines"]
    return bool(
        result["exact"]
        and not documents["changed"]
        and documents["undecided"]["a"] == documents["undecided"]["b"] == documents["undecided"]["documents"]
        and not documents["text"]["changed"]
        and not documents["keepers"]["changed"]
        and not any(lines[n] for n in ("moved", "numbers", "quantiles", "not_comparable", "only_a", "only_b"))
        and not any(result["drift"][n] for n in ("alarms", "notes"))
        and not result["not_compared"]
    )


def _same(result: dict[str, Any]) -> bool:
    told = result["recipe"]
    inputs = told["inputs"]
    differ = any(told[n] for n in ("settings", "models", "code", "versions", "formats")) or len(told["unknown"]) == 1
    return (
        _same_result(result) and not differ and not any(inputs[n] for n in ("changed", "renamed", "only_a", "only_b"))
    )
