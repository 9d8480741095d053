"""The figures of a batch's texts, as the columns of quality_score's scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.stage import rounded
from cleanpipe_stages.quality.judge import FIGURES, PARAGRAPH_MEAN, figures_of
from cleanpipe_stages.quality.scorers import NOT_MEASURED, Scored, Scorer

_QUANTILES = (0.1, 0.5, 0.9)
PARAGRAPHS = (PARAGRAPH_MEAN, *(f"quality_score_paragraph_p{100 * q:.0f}" for q in _QUANTILES))
MEANINGS = {
    PARAGRAPH_MEAN: "geometric mean of the paragraphs' perplexities, by the scorer of `perplexity`",
    **{
        name: f"perplexity that {q:.0%} of the paragraphs do not pass"
        for name, q in zip(PARAGRAPHS[1:], _QUANTILES, strict=True)
    },
}

Scores = dict[str, npt.NDArray[np.float64]]


def scores_of(
    texts: Sequence[str], languages: Sequence[str], ids: pa.Array, scorer: Scorer | None, sample: float
) -> tuple[Scores, dict[str, int]]:
    """All scores, each [n], rounded, NaN where not measured; and the audit's facts about what was not measured."""
    found = [NOT_MEASURED] * len(texts)
    facts = {}
    if scorer:
        chosen = sampled(ids, sample)
        told = scorer([texts[i] for i in chosen], [languages[i] for i in chosen])
        for i, figures in zip(chosen, told, strict=True):
            found[i] = figures
        facts["perplexity_not_measured"] = sum(s.perplexity is None for s in told)
        if sample < 1:
            facts["perplexity_not_sampled"] = len(texts) - len(chosen)
    numbers = np.array([figures_of(t) for t in texts], np.float64).reshape(-1, len(FIGURES))
    scores = dict(zip(FIGURES, rounded(numbers).T, strict=True))
    whole = np.array([np.nan if s.perplexity is None else s.perplexity for s in found], np.float64)
    scores[col.PERPLEXITY] = rounded(whole)
    return scores | dict(zip(PARAGRAPHS, rounded(quantiles(found)).T, strict=True)), facts


def sampled(ids: pa.Array, share: float) -> Sequence[int]:
    """Which rows belong to the share: by their ids, which are digests, so that no other row matters."""
    if share >= 1:
        return range(len(ids))
    limit = round(share * (1 << 32))
    return [i for i, x in enumerate(ids.to_pylist()) if int.from_bytes(x[-4:], "big") < limit]


def quantiles(found: Sequence[Scored]) -> npt.NDArray[np.float64]:
    """Of each text's paragraphs: geometric mean, then the 10 %, 50 % and 90 % quantile, linear between them.

    NaN for a text without any. [n, 4]
    """
    sizes = np.array([len(s.paragraphs) for s in found], np.int64)
    out = np.full((len(found), len(PARAGRAPHS)), np.nan)
    have = sizes > 0
    if not have.any():
        return out
    values = np.array([x for s in found for x in s.paragraphs], np.float64)
    values = values[np.lexsort((values, np.repeat(np.arange(len(found)), sizes)))]
    last = sizes[have] - 1
    starts = (np.cumsum(sizes) - sizes)[have]
    out[have, 0] = np.exp(np.add.reduceat(np.log(values), starts) / sizes[have])
    at = np.array(_QUANTILES)[:, None] * last
    below = np.floor(at).astype(np.int64)
    low, high = values[starts + below], values[starts + np.minimum(below + 1, last)]
    out[have, 1:] = (low + (high - low) * (at - below)).T
    return out
