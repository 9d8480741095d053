"""fineweb_quality: is a text lines of prose, or a list, a menu or a form, by its lines' ends, lengths and repeats?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.stage import option
from cleanpipe_stages.heuristics.prose import line_figures
from cleanpipe_stages.heuristics.rules import Heuristic, Measured, Rule
from cleanpipe_stages.heuristics.units import KINDS, Units, blocks

_SOURCE = "Penedo et al. 2024, section 3.6"
_MEANINGS = {
    "fineweb_quality_line_punct_ratio": "lines that end with a sentence's mark or a quotation mark, 0 to 1",
    "fineweb_quality_short_line_ratio": "lines of at most short_line_length characters, 0 to 1",
    "fineweb_quality_char_dup_ratio": "characters in lines that stood before, by those of all lines, 0 to 1",
    "fineweb_quality_list_ratio": "line breaks by words and marks",
}


@dataclass(frozen=True, kw_only=True)
class FinewebQuality(Heuristic):
    """Drops text whose lines do not end as sentences do, are short, stood before, or are many for its words.

    FineWeb's own filter (Penedo et al. 2024). Scores are null for a text without a word. A limit of 0 is off.
    """

    name: ClassVar[str] = "fineweb_quality"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})
    meanings: ClassVar[Mapping[str, str]] = _MEANINGS
    scores: ClassVar[Mapping[str, pa.DataType]] = dict.fromkeys(_MEANINGS, pa.float64())
    ledger_only: ClassVar[frozenset[str]] = frozenset(scores)
    reasons: ClassVar[frozenset[str]] = frozenset(
        {"line_punct_ratio", "short_line_ratio", "char_dup_ratio", "list_ratio"}
    )
    shares: ClassVar[frozenset[str]] = frozenset({"min_line_punct_ratio", "max_short_line_ratio", "max_char_dup_ratio"})
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"words": KINDS}
    sizes: ClassVar[tuple[str, ...]] = ("short_line_length",)

    words: str = option("tokens", "tokens: words and marks, as datatrove's; or blanks: what stands between blanks")
    min_line_punct_ratio: float = option(0.12, "fewest lines that end as a sentence does", source=_SOURCE)
    max_short_line_ratio: float = option(0.67, "most short lines", source=_SOURCE)
    short_line_length: int = option(30, "longest short line, in characters", source=_SOURCE)
    max_char_dup_ratio: float = option(
        0.01,
        "most characters in lines that stood before",
        source="datatrove's FineWebQualityFilter; the paper says 0.1",
    )
    max_list_ratio: float = option(0.3, "most line breaks by words", source="datatrove's FineWebQualityFilter")

    def rules(self) -> Sequence[Rule]:
        """In the order in which datatrove asks."""
        asked: Sequence[tuple[str, Literal[">=", "<="], str]] = (
            ("min_line_punct_ratio", ">=", "less than {} of the lines ending as a sentence does"),
            ("max_short_line_ratio", "<=", f"more than {{}} of them of at most {self.short_line_length:,} characters"),
            ("max_char_dup_ratio", "<=", "more than {} of the characters in lines that stood before"),
            ("max_list_ratio", "<=", "more than {} line breaks by words"),
        )
        return [Rule(o, f"{self.name}_{o[4:]}", keeps, getattr(self, o), o[4:], words) for o, keeps, words in asked]

    def measurer(self) -> Callable[[pa.RecordBatch], Measured]:
        """The figures of ``heuristics.prose.line_figures``."""

        def measure(batch: pa.RecordBatch) -> Measured:
            parts = [
                line_figures(Units(documents, self.words), self.short_line_length)
                for documents in blocks(batch.column(col.TEXT))
            ]
            short = [n.removeprefix(f"{self.name}_") for n in self.scores]
            none = [np.zeros(0)]
            return Measured({f"{self.name}_{n}": np.concatenate(none + [p[n] for p in parts]) for n in short})

        return measure
