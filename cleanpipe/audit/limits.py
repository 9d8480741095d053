"""Of each limit: which documents it decided about, by their scores, so that a curve agrees with what happened.

Where the stage's judge told whom the limit was asked about (``asked``), the curve is over them. Else it is over those
that came to the stage and went for no other reason there: those that went for the limit's reason failed it; those that
passed the stage kept it, or were not asked. Who was asked is known then of limits of all documents, and of those of one
language by its own score; of the others only what a laxer limit would change is known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from cleanpipe import batch as col
from cleanpipe.audit.asked import key
from cleanpipe.audit.bins import by_edge, lower_edge, upper_edge
from cleanpipe.audit.facts import IN_LANGUAGE
from cleanpipe.audit.lines import View
from cleanpipe.stage import Cut
from cleanpipe.tally import Tally, add

ALL, SOME, UNKNOWN = "all", "some", "unknown"
Bins = Mapping[str, int]


def limits(view: View, stage: str, cuts: Sequence[Cut]) -> list[dict[str, Any]]:
    """The stage's limits as plain JSON, each with ``counts`` where its score was counted.

    by: judge, or outcome (what became of them). known: all (histograms are of every document that the limit was asked
    about), some (who was is not known: what a stricter limit would do is not, either), unknown (nor is which of two
    limits of one reason they failed: no curve). whole: documents that the curve is over; of "some" also those without
    the score. passes: those of them that did not go by this limit. asked: histogram of what the curve is over. passed,
    dropped, otherwise: of those that passed the stage, went by this limit, went there for another reason.
    """
    out = []
    for i, cut in enumerate(cuts):
        entry: dict[str, Any] = {**dataclasses.asdict(cut), "at": round(float(cut.at), 6)}
        shared = any(c.reason == cut.reason and c != cut for c in cuts)
        counts = _told(view, key(stage, i)) or _counts(view, stage, cut, shared)
        out.append({**entry, "counts": counts} if counts is not None else entry)
    return out


def _told(view: View, name: str) -> dict[str, Any] | None:
    """By the stage's judge, if it was asked of every row of the ledger."""
    found = view.ledger.get("asked", {}).get(name)
    if found is None or view.ledger.get("asked_rows") != view.ledger.get("rows"):
        return None
    parts = [found.get(part, {}) for part in ("passed", "dropped", "otherwise")]
    asked = add(add(add({}, parts[0]), parts[1]), parts[2])
    return _shown("judge", ALL, sum(asked.values()), asked, *parts)


def _shown(
    by: str, known: str, whole: int, asked: Bins, passed: Bins, dropped: Bins, otherwise: Bins
) -> dict[str, Any]:
    bins = {"asked": asked, "passed": passed, "dropped": dropped, "otherwise": otherwise}
    counts = {"by": by, "known": known, "whole": whole, "passes": whole - sum(dropped.values())}
    return {**counts, **{name: by_edge(b) for name, b in bins.items()}}


def _counts(view: View, stage: str, cut: Cut, shared: bool) -> dict[str, Any] | None:
    found = _by_outcome(view, cut)
    if found is None:
        return None
    language = _language(cut)
    every = language is not None and cut.score == col.LANGUAGE_ID_SCORE  # every document of the language has it
    known = SOME if (cut.of or cut.where) and not every else ALL
    place = view.order.index(stage)
    passed: Tally = dict(found.get(col.KEPT, {}))
    dropped: Tally = {}
    otherwise: Tally = {}
    for label, bins in found.items():
        at, _, reason = label.partition("/")
        if label == col.KEPT or _place(view, label) < place:
            continue
        add(passed if at != stage else dropped if reason == cut.reason else otherwise, bins)
    if shared and (kept := {k: n for k, n in dropped.items() if _side(cut, int(k)) > 0}):
        if any(_side(cut, int(k)) == 0 for k in dropped):
            known = UNKNOWN
        dropped = {k: n for k, n in dropped.items() if k not in kept}
        add(otherwise, kept)
    asked = add(dict(passed), dropped)
    whole = sum(asked.values()) if known == ALL else _passed(view, place, language) + sum(dropped.values())
    return _shown("outcome", known, whole, asked, passed, dropped, otherwise)


def _passed(view: View, place: int, language: str | None) -> int:
    """Documents of the ledger, or those of one language, that passed the stage."""
    if language is not None:
        by_end = view.ledger.get("in_language", {}).get(language, {})
        return sum(int(n) for end, n in by_end.items() if end == col.KEPT or _place(view, end) > place)
    kept = view.ledger.get("fates", {}).get(col.KEPT, {}).get("documents", 0)
    lost = (by for fate, by in view.ledger.get("fates", {}).items() if fate != col.KEPT)
    later = (e for by in lost for at, of in by.items() if view.order.index(at) > place for e in of.values())
    return int(kept) + sum(int(e["documents"]) for e in later)


def _by_outcome(view: View, cut: Cut) -> Mapping[str, Bins] | None:
    """Histograms of the score of the kept and of each stage/reason; None where it was not counted."""
    if (language := _language(cut)) is not None:
        by = view.ledger.get("scores_in_language")
        return None if by is None or cut.score not in by else by[cut.score].get(language, {})
    counts = view.ledger.get("scores", {}).get(cut.score, {})
    return {col.KEPT: counts["bins_kept"], **counts.get("bins_lost", {})} if "bins_kept" in counts else None


def _place(view: View, end: str) -> int:
    """Of the stage of a "stage/reason"."""
    return view.order.index(end.partition("/")[0])


def _language(cut: Cut) -> str | None:
    """The one that the limit is for, where its score is counted by language."""
    return cut.where[col.LANGUAGE] if cut.score in IN_LANGUAGE and set(cut.where) == {col.LANGUAGE} else None


def _side(cut: Cut, ordinal: int) -> int:
    """1: the whole bin keeps the limit; -1: it fails it; 0: it lies on both sides."""
    low, high = lower_edge(ordinal), upper_edge(ordinal)
    above = 1 if low > cut.at or (low == cut.at and cut.keeps in (">=", "<")) else -1 if high <= cut.at else 0
    return above if cut.keeps[0] == ">" else -above
