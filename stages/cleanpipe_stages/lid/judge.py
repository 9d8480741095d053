"""Label and score against the wanted languages: verdicts, limits and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.stage import Cut
from cleanpipe_stages.lid.names import UNDETERMINED

OTHER_LANGUAGE, LOW_CONFIDENCE, NO_TEXT = "other_language", "low_confidence", "no_text"
NOT_TOLD, MIXED = "undetermined", "mixed_languages"
GUESS, SCRIPT = "language_id_guess", "language_id_script"
SHARE, SECOND, SECOND_SHARE = "language_id_share", "language_id_second", "language_id_second_share"
SCORES: Mapping[str, pa.DataType] = {
    col.LANGUAGE: pa.string(),
    col.LANGUAGE_ID_SCORE: pa.float64(),
    GUESS: pa.string(),
    SCRIPT: pa.string(),
    SHARE: pa.float64(),
    SECOND: pa.string(),
    SECOND_SHARE: pa.float64(),
}
MEANINGS: Mapping[str, str] = {
    GUESS: "the language model's own label, before script and second model are asked",
    SCRIPT: "script of most letters (ISO 15924)",
    SHARE: "share of the characters in segments of the document's language",
    SECOND: "the most frequent other language among the segments",
    SECOND_SHARE: "share of the characters in segments of that language",
}


def verdicts(
    rows: pa.RecordBatch, limits: Mapping[str, float], scripts: Mapping[str, str], min_share: float = 0.0
) -> pa.Array:
    """The reason of each row, null for those kept. A row without a label or score (none of this stage's) is judged as
    one without text; "und" with a score, the model's for a label that did not hold, is undetermined.

    Args:
        rows: the stage's scores.
        limits: the least score of each wanted language.
        scripts: of the languages that are wanted in one script alone, that script.
        min_share: the least share of the characters in the document's language, where that was measured; 0 is off.
    """
    labels, scores = rows.column(col.LANGUAGE), rows.column(col.LANGUAGE_ID_SCORE)
    place = pc.index_in(labels, pa.array(list(limits), pa.string()))
    limit = pa.array([*limits.values()], pa.float64()).take(place)  # null: not wanted
    if scripts:
        only = pa.array([scripts.get(x) for x in limits], pa.string()).take(place)  # null: in any script
        fits = pc.or_kleene(pc.is_null(only), pc.equal(only, pc.fill_null(rows.column(SCRIPT), "")))
        limit, place = (pc.if_else(fits, x, pa.scalar(None, x.type)) for x in (limit, place))
    passes = pc.fill_null(pc.greater_equal(scores, limit), False)
    unknown = pc.fill_null(pc.equal(labels, UNDETERMINED), True)
    silent = pc.invert(pc.fill_null(pc.greater(scores, 0.0), False))
    untold = pc.if_else(silent, NO_TEXT, NOT_TOLD)
    other = pc.if_else(pc.is_null(place), OTHER_LANGUAGE, LOW_CONFIDENCE)
    mixed = pa.scalar(None, pa.string())
    if min_share > 0:
        short = pc.fill_null(pc.less(rows.column(SHARE), min_share), False)
        mixed = pc.if_else(short, MIXED, mixed)
    return pc.if_else(passes, mixed, pc.if_else(unknown, untold, other))


def limit_cuts(limits: Mapping[str, float], own: frozenset[str], min_share: float = 0.0) -> Sequence[Cut]:
    """One cut a language, and one of the share where it is asked. own: languages with a threshold of their own."""
    share = (Cut(SHARE, ">=", round(min_share, 6), "min_share", MIXED, "documents in a kept language"),)
    return (*_cuts(limits, own), *(share if min_share else ()))


def _cuts(limits: Mapping[str, float], own: frozenset[str]) -> Sequence[Cut]:
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
