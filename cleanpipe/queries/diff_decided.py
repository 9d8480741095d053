"""What decided on a document: its scores beside the limits that its run held them against."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from typing import Any

from cleanpipe import batch as col
from cleanpipe.errors import CleanpipeError
from cleanpipe.queries.opened_run import OpenRun
from cleanpipe.stage import Cut

_KEEPS = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
_SIGNS = {">=": "≥", ">": ">", "<=": "≤", "<": "<"}
_FAILS = {">=": "<", ">": "≤", "<=": ">", "<": "≥"}
Limits = Mapping[str, Sequence[Cut]]  # by stage


def limits_of(run: OpenRun) -> tuple[Limits, list[str]]:
    """The cuts of each stage of the run's recipe; and why those of a stage are not known, for people."""
    out: dict[str, Sequence[Cut]] = {}
    unknown = []
    for setting in run.recipe.settings:
        if setting.enabled:
            try:
                out[setting.ref.name] = tuple(setting.build().cuts())
            except (CleanpipeError, OSError) as error:
                unknown.append(f"the limits of {setting.ref.name} in {run.root} are not known: {error}")
    return out, unknown


def scores_needed(limits: Limits) -> list[str]:
    """Ledger columns that the cuts read, and those that tell which of them apply."""
    found = [cut.score for cuts in limits.values() for cut in cuts]
    return list(dict.fromkeys([*found, col.LANGUAGE, col.LANGUAGE_PREVIEW, col.KEPT_DOC_ID, col.JACCARD]))


def decided(limits: Limits, stage: str, reason: str, row: Mapping[str, Any]) -> list[tuple[Cut, float]]:
    """The cuts of this reason that the row's scores fail. Where some hold for certain documents only, those whose
    words name one of the row's values (its language) come before the others.
    """
    out = []
    for cut in limits.get(stage, ()):
        value = row.get(cut.score)
        if cut.reason == reason and isinstance(value, (int, float)) and not _KEEPS[cut.keeps](value, cut.at):
            out.append((cut, value))
    named = [(c, v) for c, v in out if _names(c.of, row)]
    return named if named and len(out) > 1 else out


def passed(limits: Limits, stage: str, cuts: Sequence[Cut], row: Mapping[str, Any]) -> list[tuple[Cut, float]]:
    """The run's own cuts on the scores on which the other run's ``cuts`` decided, which the row keeps."""
    scores = {(c.score, c.reason) for c in cuts}
    out = []
    for cut in limits.get(stage, ()):
        value = row.get(cut.score)
        if (cut.score, cut.reason) not in scores or not isinstance(value, (int, float)):
            continue
        if _KEEPS[cut.keeps](value, cut.at):
            out.append((cut, value))
    named = [(c, v) for c, v in out if _names(c.of, row)]
    return named if named and len(out) > 1 else out


def in_words(stage: str, cut: Cut, value: float) -> str:
    """``language_id_score 0.612 < 0.65 (language_id.threshold)``; the sign says how the score stands to the limit."""
    kept = _KEEPS[cut.keeps](value, cut.at)
    sign = (_SIGNS if kept else _FAILS)[cut.keeps]
    return f"{cut.score} {value:,.6g} {sign} {cut.at:,.6g} ({stage}.{cut.option})"


def _names(of: str, row: Mapping[str, Any]) -> bool:
    words = set(re.findall(r"[\w-]+", of))
    return any(row.get(n) in words for n in (col.LANGUAGE, col.LANGUAGE_PREVIEW))
