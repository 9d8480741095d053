"""Figures of a text against limits: which rules it fails, and how the rules are told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe_stages.quality.entropy import character_figures
from cleanpipe_stages.quality.repetition import deflate_ratio, duplicate_line_share
from cleanpipe_stages.quality.scripts import is_latin

CHARS = "quality_score_chars"
CORRECTED = "quality_score_entropy_corrected"
DIGITS = "quality_score_digit_share"
REPETITION = "quality_score_repetition"
DEFLATE = "quality_score_deflate_ratio"
PARAGRAPH_MEAN, PARAGRAPH_P10 = "quality_score_paragraph_mean", "quality_score_paragraph_p10"
MEANINGS = {
    CHARS: "code points of the text that was judged; a later stage may change it",
    CORRECTED: "entropy with the Miller-Madow correction for short texts, bits a character",
    DIGITS: "digits among the characters that are no blanks, 0 to 1",
    REPETITION: "characters in lines that stood before, 0 to 1",
    DEFLATE: "deflated by plain size of the first 4,096 characters",
}
FIGURES = (col.ENTROPY, CORRECTED, col.ASCII_SHARE, DIGITS, REPETITION, DEFLATE)

JUDGED = (col.PERPLEXITY, PARAGRAPH_MEAN, PARAGRAPH_P10, *FIGURES)
"""The scores that limits are held against."""

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


Bounds = tuple[float, float, float]
"""The lowest and the highest perplexity, and the highest of the easiest tenth of paragraphs; 0 is off.

A text is too strange where it is above both of the last two: one readable paragraph saves a list of names.
"""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of quality_score's options of the same names, and of its perplexities by language; 0 is off."""

    judge_from: int
    min_chars: int
    min_entropy: float
    max_entropy: float
    correct_entropy: bool
    min_ascii_share: float
    max_digit_share: float
    max_repetition: float
    min_deflate_ratio: float
    max_paragraph_perplexity: float
    perplexity: Mapping[str, Bounds]  # by language; "" for the others


def figures_of(text: str) -> tuple[float, ...]:
    """One text's FIGURES, in their order, not yet rounded."""
    c = character_figures(text)
    shares = c.ascii_share, c.digit_share, duplicate_line_share(text), deflate_ratio(text)
    return c.entropy, c.corrected, *shares


def fails(length: npt.NDArray[np.int64], languages: pa.Array, scores: Scores, limits: Limits) -> dict[str, Flags]:
    """For each of REASONS the rows that fail it; a score that was not measured (NaN) fails nothing.

    Args:
        length: code points of each row, [n].
        languages: string array, language of each row; null or "" where unknown.
        scores: rounded, those of JUDGED, each [n].
        limits: what they are held against.
    """
    judged = length >= limits.judge_from
    ascii_share = scores[col.ASCII_SHARE]
    latin, unknown = _letters(languages)
    in_latin = judged & latin
    letters = in_latin | (judged & unknown & (ascii_share >= _OWN_LETTERS))
    entropy = scores[CORRECTED if limits.correct_entropy else col.ENTROPY]
    lowest, highest, easiest = _bounds(languages, limits.perplexity)
    above = (scores[col.PERPLEXITY] > highest) & (highest > 0) & ((scores[PARAGRAPH_P10] > easiest) | (easiest == 0))
    repeats = _above(scores[REPETITION], limits.max_repetition) | (scores[DEFLATE] < limits.min_deflate_ratio)
    return {
        TOO_SHORT: length < limits.min_chars,
        REPETITIVE: judged & repeats,
        MANY_DIGITS: judged & _above(scores[DIGITS], limits.max_digit_share),
        LOW_ASCII: in_latin & (ascii_share < limits.min_ascii_share),
        LOW_ENTROPY: judged & (entropy <= limits.min_entropy) & (limits.min_entropy > 0),
        HIGH_ENTROPY: letters & _above(entropy, limits.max_entropy),
        LOW_PERPLEXITY: judged & (scores[col.PERPLEXITY] < lowest),
        HIGH_PERPLEXITY: judged & (above | _above(scores[PARAGRAPH_MEAN], limits.max_paragraph_perplexity)),
    }


def first_reason(failed: Mapping[str, Flags]) -> pa.Array:
    """The reason of each row: the first of REASONS that it fails, null for one that fails none."""
    flags = [failed[reason] for reason in REASONS]
    code = np.select(flags, np.arange(len(REASONS), dtype=np.int8), -1)
    return pa.array(REASONS, pa.string()).take(pa.array(code, mask=code < 0))


def judge_ledger(rows: pa.RecordBatch, limits: Limits, assumed: str) -> pa.Array:
    """The reasons again, from the ledger's columns. assumed: the language of texts that no stage told it of."""
    length = np.asarray(pc.fill_null(rows.column(CHARS), 0).to_numpy(zero_copy_only=False))
    languages = pc.fill_null(rows.column(col.LANGUAGE), assumed)
    names = JUDGED
    scores = {n: np.asarray(rows.column(n).to_numpy(zero_copy_only=False)) for n in names}  # a null is NaN
    return first_reason(fails(length, languages, scores, limits))


def _letters(languages: pa.Array) -> tuple[Flags, Flags]:
    """Rows in a language of Latin letters, and rows whose language is unknown."""
    coded = languages if pa.types.is_dictionary(languages.type) else languages.dictionary_encode()
    known = [*(is_latin(x) for x in coded.dictionary.to_pylist()), None]
    at = pc.fill_null(coded.indices, len(known) - 1).to_numpy(zero_copy_only=False)
    return np.array([x is True for x in known], np.bool_)[at], np.array([x is None for x in known], np.bool_)[at]


def _bounds(languages: pa.Array, limits: Mapping[str, Bounds]) -> npt.NDArray[np.float64]:
    """The bounds of each row's language. [3, n]"""
    coded = languages if pa.types.is_dictionary(languages.type) else languages.dictionary_encode()
    other = limits.get("", (0.0, 0.0, 0.0))
    known = np.array([*(limits.get(x, other) for x in coded.dictionary.to_pylist()), other], np.float64)
    at: npt.NDArray[np.int64] = pc.fill_null(coded.indices, len(known) - 1).to_numpy(zero_copy_only=False)
    return known[at].T


def _above(values: npt.NDArray[np.float64], limit: float) -> Flags:
    return (values > limit) & (limit > 0)
