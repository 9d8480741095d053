"""quality_score: is the text running language, by figures of its characters, lines and words?

Every figure is written for every row and rounded before it judges. The cut-offs' evidence: stages/README.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.stage import Cut, Judge, Outcome, Stage, Step, option, rounded
from cleanpipe_stages._checks import one_of, within
from cleanpipe_stages.quality import limits as tell
from cleanpipe_stages.quality.judge import (
    FIGURES,
    MEANINGS,
    REASONS,
    Limits,
    fails,
    figures_of,
    first_reason,
    judge_ledger,
)
from cleanpipe_stages.quality.perplexity import LIMITS, SHIPPED, load_perplexity

ENGINES = ("ngram", "mlm", "off")
_SOURCE = "stages/README.md, quality_score"


@dataclass(frozen=True, kw_only=True)
class QualityScore(Stage):
    """Drops text that repeats itself, is data or noise, or is not the language it is said to be.

    Scores, all 64-bit: ``perplexity`` of a token by the language's n-gram model (null: not measured), ``entropy`` in
    bits a character and the same corrected for short texts, shares 0..1 of ASCII, of digits and of characters in
    repeated lines, and deflated by plain size of the beginning. A limit of 0 is switched off.
    """

    name: ClassVar[str] = "quality_score"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})
    reads_optional: ClassVar[frozenset[str]] = frozenset({col.LANGUAGE})
    scores: ClassVar[Mapping[str, pa.DataType]] = dict.fromkeys((col.PERPLEXITY, *FIGURES), pa.float64())
    meanings: ClassVar[Mapping[str, str]] = MEANINGS
    reasons: ClassVar[frozenset[str]] = frozenset(REASONS)

    perplexity: str = option("ngram", "engine: ngram (KenLM), mlm (nothing is measured yet), or off")
    model: str = option("", "another KenLM model's path, in place of the shipped one; give its limits too")
    model_language: str = option("en", "that model's language, as language_id labels it")
    assume_language: str = option("", "language of a text whose language no stage has told; empty: unknown")
    chars: int = option(
        1024, "code points at the text's beginning that perplexity reads", source="as language_id and the model's AUC"
    )
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
    min_perplexity: float | None = option(None, "unset: the shipped model's own limit", source=_SOURCE)
    max_perplexity: float | None = option(None, "unset: the shipped model's own limit", source=_SOURCE)

    def check(self) -> None:
        """Raises ConfigError for an unknown engine, limits that nothing passes, or limits of another model."""
        one_of(self.name, "perplexity", self.perplexity, ENGINES)
        if self.model and self.perplexity == "ngram" and None in (self.min_perplexity, self.max_perplexity):
            raise ConfigError(
                "the perplexity limits belong to the shipped model: with `model`, set min_perplexity and "
                "max_perplexity measured with it (0 switches one off)", stage=self.name,
            )  # fmt: skip
        within(self.name, "chars", self.chars, 1)
        tell.check(self.name, self.limits())

    def limits(self) -> Limits:
        """The limits in force, the shipped model's where none are given."""
        values: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(Limits)}
        own: dict[str, Any] = {"min_perplexity": LIMITS[0], "max_perplexity": LIMITS[1]}
        values |= {k: v for k, v in own.items() if values[k] is None}
        values |= {k: round(v, 6) for k, v in values.items() if isinstance(v, float)}
        return Limits(**values)

    def in_words(self) -> str:
        """With every limit that is on."""
        return tell.in_words(self.limits())

    def cuts(self) -> Sequence[Cut]:
        """Every limit that is on."""
        return tell.cuts(self.limits())

    def judge(self) -> Judge:
        """By the scores, the language and the length (``chars_out``)."""
        limits, assumed = self.limits(), self.assume_language
        columns = frozenset({*self.scores, col.LANGUAGE, col.CHARS_OUT})
        options = frozenset(f.name for f in fields(Limits))
        return Judge(columns, options, lambda rows: judge_ledger(rows, limits, assumed))

    def models(self) -> Mapping[str, Path]:
        """The n-gram model, by its language. Raises ConfigError where it is no file."""
        if self.perplexity != "ngram":
            return {}
        models = {self.model_language: Path(self.model)} if self.model else SHIPPED
        for path in models.values():
            if not path.is_file():
                raise ConfigError(f"model file not found: {path}", stage=self.name)
        return models

    def open(self) -> Step:
        """Raises ConfigError as ``check`` does, or where a model cannot be read."""
        self.check()
        measure = {language: load_perplexity(path, self.chars) for language, path in self.models().items()}
        limits = self.limits()

        def step(batch: pa.RecordBatch) -> Outcome:
            texts = [t or "" for t in batch.column(col.TEXT).to_pylist()]
            languages = [t or self.assume_language for t in batch.column(col.LANGUAGE).to_pylist()]
            found = [measure[k](t) if k in measure else None for k, t in zip(languages, texts, strict=True)]
            figures = np.array([figures_of(t) for t in texts], np.float64).reshape(-1, len(FIGURES))
            scores = dict(zip(FIGURES, rounded(figures).T, strict=True))
            scores[col.PERPLEXITY] = rounded(np.array([np.nan if p is None else p for p in found], np.float64))
            lengths = np.array([len(t) for t in texts], np.int64)
            failed = fails(lengths, pa.array(languages, pa.string()), scores, limits)
            table = np.array([failed[reason] for reason in REASONS])
            facts = {f"failed_{reason}": int(flags.sum()) for reason, flags in failed.items()}
            alone = table.sum(axis=0) == 1
            facts |= {f"alone_{reason}": int((flags & alone).sum()) for reason, flags in failed.items()}
            if self.perplexity != "off":
                facts["perplexity_not_measured"] = found.count(None)
            return Outcome(
                batch,
                drops=first_reason(failed),
                scores={name: pa.array(v, pa.float64(), mask=np.isnan(v)) for name, v in scores.items()},
                facts=facts,
            )

        return step
