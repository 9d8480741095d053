"""Label and score against the wanted languages: verdicts, limits and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.stage import Cut
from cleanpipe_stages.lid.model import UNDETERMINED

OTHER_LANGUAGE, LOW_CONFIDENCE, NO_TEXT = "other_language", "low_confidence", "no_text"


def verdicts(labels: pa.Array, scores: pa.Array, limits: Mapping[str, float]) -> pa.Array:
    """The reason of each row, null for those kept. A row without a label or score (none of this stage's) is judged as
    one without text.

    Args:
        labels: string, the best language of each row.
        scores: float64, that label's score.
        limits: the least score of each wanted language.
    """
    place = pc.index_in(labels, pa.array(list(limits), pa.string()))
    limit = pa.array([*limits.values()], pa.float64()).take(place)  # null: not wanted
    passes = pc.fill_null(pc.greater_equal(scores, limit), False)
    silent = pc.fill_null(pc.equal(labels, UNDETERMINED), True)
    other = pc.if_else(pc.is_null(place), OTHER_LANGUAGE, LOW_CONFIDENCE)
    return pc.if_else(passes, pa.scalar(None, pa.string()), pc.if_else(silent, NO_TEXT, other))


def limit_cuts(limits: Mapping[str, float], own: frozenset[str]) -> Sequence[Cut]:
    """One cut a language. own: languages with a threshold of their own."""
    return tuple(
        Cut(
            col.LANGUAGE_ID_SCORE, ">=", limit, "thresholds" if language in own else "threshold", LOW_CONFIDENCE,
            f"documents whose best language is {language}", {col.LANGUAGE: language},
        )
        for language, limit in limits.items()
    )  # fmt: skip


def limit_words(limits: Mapping[str, float]) -> str:
    """``en with a score of at least 0.65``; languages of one limit together."""
    by_limit: dict[float, list[str]] = {}
    for language, limit in limits.items():
        by_limit.setdefault(limit, []).append(language)
    return "; or ".join(f"{' or '.join(names)} with a score of at least {x:g}" for x, names in by_limit.items())
