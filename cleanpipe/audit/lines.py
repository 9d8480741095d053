"""Audit lines: a value with what it was made of; and the view of a run that every section is made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cleanpipe import batch as col
from cleanpipe.builtin import READ
from cleanpipe.flow import STAGE_ERROR
from cleanpipe.io.documents import RESOURCE_LIMIT
from cleanpipe.recipe import Recipe
from cleanpipe.stage import Stage

NOT_APPLICABLE = "not applicable"  # never 0
NOT_MEASURED = "not measured"
EXACT, BINNED = "exact", "binned"
REPLACEMENT_ENCODING = "replacement_encoding"
COUNTS = (
    "docs_in", "docs_out", "rows_out", "bytes_in", "bytes_out",
    "chars_in", "chars_dropped", "chars_removed", "chars_added", "chars_out", "skipped",
)  # fmt: skip
Line = dict[str, Any]


def share(numerator: int, denominator: int, unit: str, method: str = EXACT) -> Line:
    """A part of a whole (or a factor), rounded to 6 decimals; "not applicable" where there is no whole."""
    value = round(numerator / denominator, 6) if denominator else NOT_APPLICABLE
    return {"value": value, "numerator": numerator, "denominator": denominator, "unit": unit, "method": method}


def count(value: int, unit: str) -> Line:
    """A plain number."""
    return {"value": value, "numerator": value, "denominator": 1, "unit": unit, "method": EXACT}


def missing(reason: str) -> Line:
    """A line that this run cannot fill, and why."""
    return {"value": NOT_MEASURED, "reason": reason}


def largest(counts: Mapping[str, int], k: int) -> dict[str, int]:
    """The k largest, larger first, then by name; the rest together under "(others)"."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    out = dict(ranked[:k])
    if len(ranked) > k:
        out["(others)"] = out.get("(others)", 0) + sum(n for _, n in ranked[k:])
    return out


def is_quarantine(stage: str, reason: str) -> bool:
    """Whether rows that leave for this reason are set aside for their error, not judged."""
    return reason in (STAGE_ERROR, RESOURCE_LIMIT) or (stage == READ and reason != REPLACEMENT_ENCODING)


@dataclass(frozen=True, slots=True)
class View:
    """What a finished run says of itself. tally: by stage. ledger: see ``facts``. by_source: records by type."""

    recipe: Recipe
    stages: Sequence[Stage]
    tally: Mapping[str, Any]
    ledger: Mapping[str, Any]
    by_source: Mapping[str, Mapping[str, int]]
    meetings: Mapping[str, Mapping[str, Any]]
    shards: Sequence[Mapping[str, Any]]

    @property
    def order(self) -> list[str]:
        """The reader, then every stage as it ran."""
        return [READ, *(s.name for s in self.stages)]

    def counts(self, stage: str) -> dict[str, int]:
        """The stage's documents, rows, bytes and characters; 0 where nothing reached it."""
        have = self.tally.get(stage, {})
        return {name: int(have.get(name, 0)) for name in COUNTS}

    def dropped(self, stage: str) -> dict[str, int]:
        """Documents the stage judged and dropped, by reason."""
        return {r: int(n) for r, n in self._lost(stage) if not is_quarantine(stage, r)}

    def quarantined(self, stage: str) -> dict[str, int]:
        """Documents set aside in the stage, by reason."""
        return {r: int(n) for r, n in self._lost(stage) if is_quarantine(stage, r)}

    def _lost(self, stage: str) -> Iterator[tuple[str, int]]:
        return iter(sorted(self.tally.get(stage, {}).get("dropped", {}).items()))

    def facts(self, stage: str) -> dict[str, int]:
        """What the stage counted; zeros are left out, for whether they are said depends on the cut into batches."""
        return {k: n for k, n in sorted(self.tally.get(stage, {}).get("facts", {}).items()) if n}

    def _first(self, test: Sequence[bool]) -> Stage | None:
        return next((s for s, yes in zip(self.stages, test, strict=True) if yes), None)

    # stages are found by what they declare: the core knows none by name

    def http(self) -> Stage | None:
        """The stage that judges the HTTP status."""
        return self._first([col.HTTP_STATUS in s.reads for s in self.stages])

    def languages(self) -> list[Stage]:
        """Stages that say which language a document is in."""
        return [s for s in self.stages if {col.LANGUAGE, col.LANGUAGE_PREVIEW} & set(s.scores)]

    def scrub(self) -> Stage | None:
        """The stage that takes text out of markup."""
        return self._first([col.SCRUBBED in s.writes for s in self.stages])

    def quality(self) -> Stage | None:
        """The stage that scores the text."""
        return self._first([bool({col.PERPLEXITY, col.ENTROPY, col.ASCII_SHARE} & set(s.scores)) for s in self.stages])

    def duplicates(self) -> Stage | None:
        """The stage that drops documents for which another one stands."""
        return self._first([col.KEPT_DOC_ID in s.scores for s in self.stages])

    def windows(self) -> Stage | None:
        """The stage that cuts documents."""
        return self._first([col.WINDOW in s.writes for s in self.stages])
