"""Figures of a text against limits: which rules it fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cleanpipe import batch as col
from cleanpipe_stages.quality.entropy import character_figures
from cleanpipe_stages.quality.repetition import deflate_ratio, duplicate_line_share
from cleanpipe_stages.quality.scripts import is_latin

CORRECTED = "quality_score_entropy_corrected"
DIGITS = "quality_score_digit_share"
REPETITION = "quality_score_repetition"
DEFLATE = "quality_score_deflate_ratio"
FIGURES = (col.ENTROPY, CORRECTED, col.ASCII_SHARE, DIGITS, REPETITION, DEFLATE)

TOO_SHORT, REPETITIVE, MANY_DIGITS, LOW_ASCII = "too_short", "repetitive", "many_digits", "low_ascii"
LOW_ENTROPY, HIGH_ENTROPY = "low_entropy", "high_entropy"
LOW_PERPLEXITY, HIGH_PERPLEXITY = "low_perplexity", "high_perplexity"
REASONS = (
    TOO_SHORT, REPETITIVE, MANY_DIGITS, LOW_ASCII, LOW_ENTROPY, HIGH_ENTROPY, LOW_PERPLEXITY, HIGH_PERPLEXITY,
)  # fmt: skip
"""The first of them that a row fails is its reason."""

_OWN_LETTERS = 0.5  # ASCII share from which a text of unknown language counts as one in Latin letters

Scores = Mapping[str, npt.NDArray[np.float64]]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of quality_score's options of the same names; 0 is off."""

    judge_from: int
    min_chars: int
    min_entropy: float
    max_entropy: float
    correct_entropy: bool
    min_ascii_share: float
    max_digit_share: float
    max_repetition: float
    min_deflate_ratio: float
    min_perplexity: float
    max_perplexity: float


def figures_of(text: str) -> tuple[float, ...]:
    """One text's FIGURES, in their order, not yet rounded."""
    c = character_figures(text)
    shares = c.ascii_share, c.digit_share, duplicate_line_share(text), deflate_ratio(text)
    return c.entropy, c.corrected, *shares


def fails(length: npt.NDArray[np.int64], languages: Sequence[str], scores: Scores, limits: Limits) -> dict[str, Flags]:
    """For each of REASONS the rows that fail it; a score that was not measured (NaN) fails nothing.

    Args:
        length: code points of each row, [n].
        languages: language of each row, "" where unknown, n of them.
        scores: rounded FIGURES and perplexity, each [n].
        limits: what they are held against.
    """
    judged = length >= limits.judge_from
    known = [is_latin(x) for x in languages]
    ascii_share = scores[col.ASCII_SHARE]
    in_latin = judged & np.array([x is True for x in known], np.bool_)
    letters = in_latin | (judged & np.array([x is None for x in known], np.bool_) & (ascii_share >= _OWN_LETTERS))
    entropy = scores[CORRECTED if limits.correct_entropy else col.ENTROPY]
    repeats = _above(scores[REPETITION], limits.max_repetition) | (scores[DEFLATE] < limits.min_deflate_ratio)
    return {
        TOO_SHORT: length < limits.min_chars,
        REPETITIVE: judged & repeats,
        MANY_DIGITS: judged & _above(scores[DIGITS], limits.max_digit_share),
        LOW_ASCII: in_latin & (ascii_share < limits.min_ascii_share),
        LOW_ENTROPY: judged & (entropy <= limits.min_entropy) & (limits.min_entropy > 0),
        HIGH_ENTROPY: letters & _above(entropy, limits.max_entropy),
        LOW_PERPLEXITY: judged & (scores[col.PERPLEXITY] < limits.min_perplexity),
        HIGH_PERPLEXITY: judged & _above(scores[col.PERPLEXITY], limits.max_perplexity),
    }


def _above(values: npt.NDArray[np.float64], limit: float) -> Flags:
    return (values > limit) & (limit > 0)
