"""Words that `trace` and `decide` share: amounts, plans, and what became of documents that a store does not have."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cleanpipe_jobs.explain_text import short

if TYPE_CHECKING:
    from cleanpipe.tokens.reading.plan import Plan
    from cleanpipe.tokens.tracing.absent import Absent


def percent(share: float) -> str:
    """``12.34%``; of what two decimals would show as nothing, two digits that are none: ``0.00012%``."""
    digits = 2
    if 0 < abs(share) < 0.00005:
        digits = 1 - math.floor(math.log10(abs(share) * 100))
    return f"{share:.{digits}%}"


def counted(number: int, what: str) -> str:
    """``1 document``, ``2 documents``."""
    return f"{number:,} {what}{'s' * (number != 1)}"


def plan_facts(plan: Plan) -> dict[str, Any]:
    """A plan, plain. weights: of its stores, smallest whole numbers; changes: from which sequence on others hold."""
    first, *later = plan.mixture.segments
    return {
        "fingerprint": plan.fingerprint,
        "sequences": plan.sequences,
        **plan.facts(),
        "weights": list(first.weights),
        "changes": [[s.since, list(s.weights)] for s in later],
    }


def plan_in_text(plan: Mapping[str, Any]) -> str:
    """In a line."""
    out = (
        f"plan {plan['fingerprint'][:16]}: length {plan['length']:,}, {plan['packing']}, seed {plan['seed']}, "
        f"{plan['shuffle']}, {counted(plan['sequences'], 'sequence')} an epoch"
    )
    return out + (f", weights {weights_in_text(plan)}" if len(plan["weights"]) > 1 else "")


def weights_in_text(plan: Mapping[str, Any]) -> str:
    """``1:3, from sequence 100 on 1:1``."""
    later = [f"from sequence {since:,} on {_ratio(weights)}" for since, weights in plan["changes"]]
    return ", ".join([_ratio(plan["weights"]), *later])


def _ratio(weights: Sequence[int]) -> str:
    return ":".join(map(str, weights))


def absent_facts(one: Absent) -> dict[str, Any]:
    """A document that the store does not have, plain; ``keys`` are left out."""
    facts = asdict(one)
    del facts["keys"]
    return {**facts, "decided": one.decided}


def fate_in_text(one: Absent, listed: Collection[str] = ()) -> str:
    """What became of it. listed: doc_ids that are told anyway."""
    if one.decided:
        return f"left out by decision, {one.detail}"
    if one.by == "tokenize":
        how = "quarantined" if one.fate == "quarantined" else one.fate
        more = f": {short(one.detail)}" if one.detail else ""
        return f"{how} by `cleanpipe tokenize`, {one.reason or 'no reason'}{more}"
    if one.kept_doc_id is None:
        how = "dropped" if one.fate == "dropped" else "set aside" if one.fate == "quarantined" else "left"
        return f"the run {how} it: {' '.join(filter(None, (one.stage, one.reason))) or one.fate}"
    alike = "" if one.jaccard is None or one.jaccard == 1 else f" (Jaccard {one.jaccard:.2f})"
    of = f"{one.kept_doc_id} {one.kept_url or 'without a URL'}"
    there = f"which is: add --doc {one.kept_doc_id}" if one.kept else "which is not in the store either"
    there = "which is listed" if one.kept_doc_id in listed else there
    return f"the run dropped it as {one.reason} of {of}{alike}, {there}"
