"""What an audit line counts, by clusters of the ledger, so that its spread can be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cleanpipe import batch as col
from cleanpipe.audit.facts import THRESHOLDS, UNKNOWN
from cleanpipe.builtin import READ
from cleanpipe.queries import diff_walk as walk
from cleanpipe.queries.diff_ledger import UNDECIDED, Outcomes
from cleanpipe.queries.diff_stats import LEAST_CLUSTERS, Floats, Spread, between, effective
from cleanpipe.queries.diff_tally import BY_HOST, BY_SOURCE, Counts, Tally

_TRUE = 0.02  # of a line's value, by which what the ledger tells of it may be off (unread documents, text repairs)
Sums = tuple[Floats, Floats, float]  # numerator, denominator: by kind of cluster and cluster; documents behind it


@dataclass
class Compared:
    """Both runs. joint: documents that stand in both. exact: they are the same documents, so nothing is sampled."""

    a: Mapping[str, Any]
    b: Mapping[str, Any]
    tallies: tuple[Tally, Tally]
    outcomes: Outcomes
    joint: int
    exact: bool
    deffs: list[float]  # design effects met so far

    def undecided(self, side: int) -> int:
        """Documents of A (0) or B (1) that wait for the others, in an unfinished run."""
        totals = self.tallies[side].outcomes.totals
        return sum(int(n) for n, name in zip(totals, self.outcomes.names, strict=True) if name[0] == UNDECIDED)

    def pending(self) -> Callable[[walk.Path], bool]:
        """Which lines one of the runs has nothing to say of yet."""
        one, other = walk.pending(self.a), walk.pending(self.b)
        return lambda path: one(path) or other(path)

    def kinds(self, one: Floats, other: Floats) -> list[int]:
        """Of clusters, by which spread can be told; none between the same documents, where nothing is sampled.

        Args:
            one, other: the documents of each run, by kind of cluster and cluster.
        """
        if self.exact:
            return []
        enough = min(effective(s[BY_SOURCE]) for s in (one, other)) >= LEAST_CLUSTERS
        return [BY_HOST, BY_SOURCE] if enough else [BY_HOST]

    def spreads(self, one: Sums, other: Sums) -> list[Spread]:
        """The variance of a line between hosts, and between inputs where there are enough."""
        kinds = self.kinds(one[1], other[1])
        found = (between(one[0][k], one[1][k], other[0][k], other[1][k]) for k in kinds)
        return [f for f in found if f is not None]

    def shared(self, denominators: tuple[float, float]) -> float:
        """How many documents stand in both of these denominators, at most."""
        whole = min(t.rows for t in self.tallies)
        return self.joint / whole * min(denominators) if whole else 0.0


def reason_of(audit: Mapping[str, Any], path: walk.Path) -> tuple[list[str], str]:
    """The stage and the reason of a line that says how many were dropped for it."""
    if path[1:2] == ("removed_by_stage",) and len(path) == 4:
        return [path[2]], path[3]
    if path[1:2] == ("removed",) and len(path) == 3:
        return _stages_of(audit, path[0]), path[2]
    return [], ""


def _if_true(sums: Sums | None, value: float) -> Sums | None:
    """The sums, if they make the line's own value: of characters the ledger knows the last number alone."""
    if sums is None or not sums[1][BY_HOST].sum():
        return None
    ratio = float(sums[0][BY_HOST].sum() / sums[1][BY_HOST].sum())
    return sums if abs(ratio - value) <= _TRUE * max(ratio, 1e-4) else None


def sums_of(both: Compared, side: int, path: walk.Path, value: float) -> Sums | None:
    """What a line counts, by clusters of the ledger; None where the ledger does not tell. value: the line's own."""
    return _if_true(_sums(both, side, path), value)


def _sums(both: Compared, side: int, path: walk.Path) -> Sums | None:
    audit, tally = (both.a, both.b)[side], both.tallies[side]
    if path[0] == "funnel" and len(path) == 4:
        counts = {"documents": tally.outcomes, "bytes": tally.sizes, "characters": tally.characters}.get(path[2])
        order = [row["stage"] for row in audit["funnel"]]
        if counts is None or (path[2] == "characters" and not tally.characters.totals.any()):
            return None
        reached = _reached(both, order, path[1])
        through = reached & ~_lost_in(both, {path[1]})
        whole = reached if path[3] == "share_of_stage_input" else reached | True
        return _picked(counts, through), _picked(counts, whole), float(tally.outcomes.totals[whole].sum())
    stages, reason = reason_of(audit, path)
    if reason:
        return _removed(both, tally, audit, stages, {reason})
    if path[0] == "duplicates" and path[-1] in ("exact", "near"):
        return _removed(both, tally, audit, _stages_of(audit, path[0]), {f"{path[-1]}_duplicate"})
    if path == ("languages", "removed"):
        return _removed(both, tally, audit, _stages_of(audit, path[0]), None)
    if path[-1] == "measured" and "scores" in path and path[-2] in tally.scores:
        return tally.scores[path[-2]].by.sum(2).astype(float), tally.outcomes.by.sum(2).astype(float), float(tally.rows)
    return _of_values(tally, path)


def _of_values(tally: Tally, path: walk.Path) -> Sums | None:
    """Lines that count documents by one of their values."""
    if path[:2] == ("languages", "keep_curve") and len(path) == 4:
        reached = [i for i, t in enumerate(THRESHOLDS, 1) if f"{t:g}" == path[3]]
        names = {f"{path[2]} {i}": bool(reached) and i >= reached[0] for i in range(len(THRESHOLDS) + 1)}
        return _sums_where(tally.curve, lambda label: names.get(label, False), lambda label: label in names)
    if path == ("http", "non_200") and "HTTP status" in tally.values:
        return _sums_where(tally.values["HTTP status"], lambda v: v not in ("200", UNKNOWN), lambda v: v != UNKNOWN)
    if path == ("http", "other_types") and "media type" in tally.values:
        text = {*col.HTML_TYPES, "text/plain", UNKNOWN}
        return _sums_where(tally.values["media type"], lambda v: v not in text, lambda v: v != UNKNOWN)
    return None


def _sums_where(counts: Counts, part: Callable[[str], bool], whole: Callable[[str], bool]) -> Sums | None:
    which = [np.array([test(label) for label in counts.labels], bool) for test in (part, whole)]
    if not len(counts.labels) or not which[1].any():
        return None
    return _picked(counts, which[0]), _picked(counts, which[1]), float(counts.totals[which[1]].sum())


def _stages_of(audit: Mapping[str, Any], section: str) -> list[str]:
    order = [row["stage"] for row in audit["funnel"]]
    return sorted((n for n, s in audit["stages"].items() if section in s.get("sections", ())), key=order.index)


def _removed(
    both: Compared, tally: Tally, audit: Mapping[str, Any], stages: Sequence[str], reasons: set[str] | None
) -> Sums | None:
    if not stages:
        return None
    names = both.outcomes.names
    lost = np.array([s in stages and (reasons is None or r in reasons) for _, s, r in names], bool)
    reached = _reached(both, [row["stage"] for row in audit["funnel"]], stages[0])
    return _picked(tally.outcomes, lost), _picked(tally.outcomes, reached), float(tally.outcomes.totals[reached].sum())


def _reached(both: Compared, order: Sequence[str], stage: str) -> Any:
    """Which outcomes are of documents that came to the stage."""
    before = set(order[: order.index(stage)]) | {READ} if stage in order else set()
    before -= {stage} if stage == READ else set()
    return ~_lost_in(both, before)


def _lost_in(both: Compared, stages: set[str]) -> Any:
    return np.array([fate != col.KEPT and stage in stages for fate, stage, _ in both.outcomes.names], bool)


def _picked(counts: Counts, which: Any) -> Floats:
    return np.asarray(counts.by[:, :, which].sum(2), dtype=float)
