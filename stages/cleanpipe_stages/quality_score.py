"""quality_score: is the text running language, by figures of its characters, lines, words and paragraphs?

Every figure is written for every row and rounded before it judges. The cut-offs' evidence: stages/README.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.stage import Cut, Judge, Outcome, Stage, Step, option
from cleanpipe_stages.quality import limits as tell
from cleanpipe_stages.quality import options as ask
from cleanpipe_stages.quality.judge import (
    CHARS,
    FIGURES,
    JUDGED,
    MEANINGS,
    REASONS,
    Limits,
    fails,
    first_reason,
    judge_ledger,
)
from cleanpipe_stages.quality.measure import MEANINGS as PARAGRAPH_MEANINGS
from cleanpipe_stages.quality.measure import PARAGRAPHS, scores_of
from cleanpipe_stages.quality.scorers import engine

_SOURCE = "stages/README.md, quality_score"
_UNSET = "unset: the shipped model's own limit for the language"


@dataclass(frozen=True, kw_only=True)
class QualityScore(Stage):
    """Drops text that repeats itself, is data or noise, or is not the language it is said to be.

    Scores, all 64-bit: ``perplexity`` of a token by the model of the text's language and its paragraphs' quantiles
    (null: not measured), ``entropy`` in bits a character and the same corrected for short texts, shares 0..1 of ASCII,
    of digits and of characters in repeated lines, deflated by plain size of the beginning. A limit of 0 is off.
    """

    name: ClassVar[str] = "quality_score"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT, col.DOC_ID})
    reads_optional: ClassVar[frozenset[str]] = frozenset({col.LANGUAGE})
    scores: ClassVar[Mapping[str, pa.DataType]] = {
        CHARS: pa.int64(),
        **dict.fromkeys((col.PERPLEXITY, *FIGURES, *PARAGRAPHS), pa.float64()),
    }
    ledger_only: ClassVar[frozenset[str]] = frozenset({CHARS, *PARAGRAPHS})
    meanings: ClassVar[Mapping[str, str]] = MEANINGS | PARAGRAPH_MEANINGS
    reasons: ClassVar[frozenset[str]] = frozenset(REASONS)

    perplexity: str = option("ngram", "engine: ngram (KenLM), mlm (RoBERTa and its kin), causal, or off")
    model: str = option("", "another model's file (ngram) or folder, in place of the shipped; give its limits too")
    model_language: str = option("en", "that model's language, as language_id labels it")
    percentiles: str = option("", "that model's percentile table, as cleanpipe_jobs.lm_percentiles writes it")
    assume_language: str = option("", "language of a text whose language no stage has told; empty: unknown")
    chars: int = option(
        1024, "code points at the text's beginning that perplexity reads", source="as language_id and the model's AUC"
    )
    sample: float = option(1.0, "share of the documents whose perplexity is measured, chosen by doc_id")
    device: str = option("auto", "of mlm and causal: auto (CUDA where there is one), cpu or cuda")
    dtype: str = option("float32", "of the weights of mlm and causal: float32, bfloat16 or float16")
    batch_tokens: int = option(8192, "tokens that mlm and causal take at once")
    mlm_passes: int = option(0, "0 masks each token alone; k every k-th token at once, in k passes")
    context: int = option(0, "tokens of causal's window; 0: the model's own length, at most 1,024")
    stride: int = option(0, "tokens between the starts of causal's windows; 0: half of context")
    judge_from: int = option(
        100, "shorter texts, in code points, are scored but judged by min_chars alone", source=_SOURCE
    )
    min_chars: int = option(0, "shorter texts, in code points, are dropped")
    min_entropy: float = option(3.4, "bits a character; kept above it", source=_SOURCE)
    max_entropy: float = option(5.8, "bits a character; only of text in Latin letters", source=_SOURCE)
    correct_entropy: bool = option(True, "judge entropy with the Miller-Madow correction for short texts")
    min_ascii_share: float = option(0.3, "of text in a language of Latin letters", source="the literal rule")
    max_digit_share: float = option(0.5, "of the digits 0-9 among the characters that are no blanks", source=_SOURCE)
    max_repetition: float = option(0.8, "of characters in lines that stood before", source=_SOURCE)
    min_deflate_ratio: float = option(0.1, "of the first 4,096 code points", source=_SOURCE)
    min_perplexity: float | None = option(None, _UNSET, source=_SOURCE)
    max_perplexity: float | None = option(None, _UNSET, source=_SOURCE)
    max_paragraph_perplexity: float = option(0.0, "of the paragraphs' geometric mean; parts prose from menus better")
    min_percentile: float | None = option(None, "min_perplexity as a percentile of the table's reference")
    max_percentile: float | None = option(None, "max_perplexity as a percentile of the table's reference")

    def check(self) -> None:
        """Raises ConfigError for an unknown engine, limits that nothing passes, or limits of another model."""
        ask.check(self)

    def limits(self) -> Limits:
        """The limits in force, the shipped model's where none are given."""
        return ask.limits(self)

    def in_words(self) -> str:
        """With every limit that is on."""
        return tell.in_words(self.limits()) + ask.in_words(self)

    def cuts(self) -> Sequence[Cut]:
        """Every limit that is on."""
        return tell.cuts(self.limits(), ask.sides(self))

    def judge(self) -> Judge:
        """By the scores and the language; not by ``chars_out``, which a stage after this one may change."""
        limits, assumed = self.limits(), self.assume_language
        columns = frozenset({*JUDGED, CHARS, col.LANGUAGE})
        options = {f.name for f in fields(Limits) if f.name != "perplexity"}.union(*ask.SIDES)
        return Judge(columns, frozenset(options), lambda rows: judge_ledger(rows, limits, assumed))

    def models(self) -> Mapping[str, Path]:
        """The scorer's files, the shipped n-gram models by language. Raises ConfigError where one is no file."""
        return ask.files(self)

    def open(self) -> Step:
        """Raises ConfigError as ``check`` does, or where a model cannot be read."""
        self.check()
        ask.files(self)
        score = None if self.perplexity == "off" else engine(self.perplexity).open_scorer(ask.scorer(self))
        limits = self.limits()

        def step(batch: pa.RecordBatch) -> Outcome:
            texts = [t or "" for t in batch.column(col.TEXT).to_pylist()]
            languages = [t or self.assume_language for t in batch.column(col.LANGUAGE).to_pylist()]
            scores, told = scores_of(texts, languages, batch.column(col.DOC_ID), score, self.sample)
            lengths = np.array([len(t) for t in texts], np.int64)
            failed = fails(lengths, pa.array(languages, pa.string()), scores, limits)
            table = np.array([failed[reason] for reason in REASONS])
            facts = {f"failed_{reason}": int(flags.sum()) for reason, flags in failed.items()}
            alone = table.sum(axis=0) == 1
            facts |= {f"alone_{reason}": int((flags & alone).sum()) for reason, flags in failed.items()}
            return Outcome(
                batch,
                drops=first_reason(failed),
                scores={CHARS: pa.array(lengths)}
                | {name: pa.array(v, pa.float64(), mask=np.isnan(v)) for name, v in scores.items()},
                facts=facts | told,
            )

        return step
