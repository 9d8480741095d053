"""text_shape: shares of symbols, marks, capitals, stop words and furniture in a text. Measures; drops by wish."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.stage import option
from cleanpipe_stages.heuristics.rules import Heuristic, Measured, Rule, languages
from cleanpipe_stages.heuristics.shape import FIGURES, shape, tables
from cleanpipe_stages.heuristics.units import blocks

_LISTED = "text in a language with a list of stop words"


@dataclass(frozen=True, kw_only=True)
class TextShape(Heuristic):
    """Measures symbols, marks, capitals, stop words and furniture of a text; a limit that is not 0 drops by it.

    Scores are shares, 0 to 1, null where there is nothing to divide by, or for stop words of a language without a list.
    No limit is on by default.
    """

    name: ClassVar[str] = "text_shape"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})
    reads_optional: ClassVar[frozenset[str]] = frozenset({col.LANGUAGE})
    meanings: ClassVar[Mapping[str, str]] = {f"text_shape_{short}": what for short, what in FIGURES.items()}
    scores: ClassVar[Mapping[str, pa.DataType]] = dict.fromkeys(meanings, pa.float64())
    ledger_only: ClassVar[frozenset[str]] = frozenset(scores)
    reasons: ClassVar[frozenset[str]] = frozenset(
        {
            "many_symbols",
            "much_punctuation",
            "many_capitals",
            "rare_stop_words",
            "many_stop_words",
            "boilerplate_lines",
            "boilerplate_chars",
        }
    )
    shares: ClassVar[frozenset[str]] = frozenset(
        {
            "max_symbol_share", "max_punctuation_share", "max_upper_share", "min_stop_word_share",
            "max_stop_word_share", "max_boilerplate_line_share", "max_boilerplate_char_share",
        }
    )  # fmt: skip

    assume_language: str = option("", "language of a text whose language no stage has told; empty: unknown")
    max_symbol_share: float = option(0.0, "most symbols among the characters that are no blanks")
    max_punctuation_share: float = option(0.0, "most punctuation marks among them")
    max_upper_share: float = option(0.0, "most capitals among the letters that have a case")
    min_stop_word_share: float = option(0.0, "fewest stop words, by words and marks")
    max_stop_word_share: float = option(0.0, "most stop words, by words and marks")
    max_boilerplate_line_share: float = option(0.0, "most lines of furniture")
    max_boilerplate_char_share: float = option(0.0, "most characters in lines of furniture")

    def rules(self) -> Sequence[Rule]:
        """Every share has a limit, off by default."""
        p = f"{self.name}_"
        return [
            Rule("max_symbol_share", f"{p}symbol_share", "<=", self.max_symbol_share, "many_symbols",
                 "more than {} symbols"),
            Rule("max_punctuation_share", f"{p}punctuation_share", "<=", self.max_punctuation_share,
                 "much_punctuation", "more than {} punctuation marks"),
            Rule("max_upper_share", f"{p}upper_share", "<=", self.max_upper_share, "many_capitals",
                 "more than {} capitals among its letters"),
            Rule("min_stop_word_share", f"{p}stop_word_share", ">=", self.min_stop_word_share, "rare_stop_words",
                 "less than {} stop words", _LISTED),
            Rule("max_stop_word_share", f"{p}stop_word_share", "<=", self.max_stop_word_share, "many_stop_words",
                 "more than {} stop words", _LISTED),
            Rule("max_boilerplate_line_share", f"{p}boilerplate_line_share", "<=", self.max_boilerplate_line_share,
                 "boilerplate_lines", "more than {} of its lines furniture"),
            Rule("max_boilerplate_char_share", f"{p}boilerplate_char_share", "<=", self.max_boilerplate_char_share,
                 "boilerplate_chars", "more than {} of its characters in lines of furniture"),
        ]  # fmt: skip

    def measurer(self) -> Callable[[pa.RecordBatch], Measured]:
        """The figures of ``heuristics.shape``."""
        tables()  # made once a process

        def measure(batch: pa.RecordBatch) -> Measured:
            known = languages(batch, self.assume_language)
            parts = [dict.fromkeys(FIGURES, np.zeros(0))]
            done = 0
            for documents in blocks(batch.column(col.TEXT)):
                parts.append(shape(documents, known[done : done + len(documents)]))
                done += len(documents)
            return Measured({f"{self.name}_{n}": np.concatenate([p[n] for p in parts]) for n in FIGURES})

        return measure
