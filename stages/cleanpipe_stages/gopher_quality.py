"""gopher_quality: does a text look like running prose, by its words, symbols and lines?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.stage import option
from cleanpipe_stages.heuristics.prose import FIGURES, figures
from cleanpipe_stages.heuristics.rules import Heuristic, Measured, Rule, languages
from cleanpipe_stages.heuristics.units import KINDS, Units, blocks

_SOURCE = "Rae et al. 2021, section A.1.1"


@dataclass(frozen=True, kw_only=True)
class GopherQuality(Heuristic):
    """Drops text that is too short or long, of odd words, of symbols, bullets or ellipses, or without stop words.

    The quality filter of Gopher (Rae et al. 2021, section A.1.1). Scores are null where they cannot be said: mean word
    length of text in scripts without blanks, stop words of a language without a list, ratios of a text without a word.
    ``stages/README.md`` defines them. A limit of 0 is switched off.
    """

    name: ClassVar[str] = "gopher_quality"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})
    reads_optional: ClassVar[frozenset[str]] = frozenset({col.LANGUAGE})
    meanings: ClassVar[Mapping[str, str]] = {f"gopher_quality_{short}": what for short, what in FIGURES.items()}
    scores: ClassVar[Mapping[str, pa.DataType]] = {
        name: pa.int64() if name.endswith(("_words", "_stops")) and "alpha" not in name else pa.float64()
        for name in meanings
    }
    ledger_only: ClassVar[frozenset[str]] = frozenset(scores)
    reasons: ClassVar[frozenset[str]] = frozenset(
        {
            "short_doc", "long_doc", "short_words", "long_words", "many_hashes", "many_ellipses", "bullet_lines",
            "ellipsis_lines", "few_alpha_words", "few_stop_words",
        }
    )  # fmt: skip
    shares: ClassVar[frozenset[str]] = frozenset({"max_bullet_lines", "max_ellipsis_lines", "min_alpha_words"})
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"words": KINDS}

    words: str = option("tokens", "tokens: words and marks, as datatrove's; or blanks: what stands between blanks")
    assume_language: str = option("", "language of a text whose language no stage has told; empty: unknown")
    min_words: int = option(50, "fewest words", source=_SOURCE)
    max_words: int = option(100_000, "most words", source=_SOURCE)
    min_mean_word_length: float = option(3.0, "lowest mean length of a word, in characters", source=_SOURCE)
    max_mean_word_length: float = option(10.0, "highest mean length of a word", source=_SOURCE)
    max_symbol_ratio: float = option(0.1, "most `#`, and most ellipses, by words", source=_SOURCE)
    max_bullet_lines: float = option(0.9, "most lines that begin with a bullet point", source=_SOURCE)
    max_ellipsis_lines: float = option(0.3, "most lines that end with an ellipsis", source=_SOURCE)
    min_alpha_words: float = option(0.8, "fewest words with a letter, by words", source=_SOURCE)
    min_stop_words: int = option(
        2, "fewest different stop words, of a language that has a list", source=f"{_SOURCE}; English has its eight"
    )

    def rules(self) -> Sequence[Rule]:
        """In the order in which datatrove asks."""
        p = f"{self.name}_"
        symbols = self.max_symbol_ratio
        return [
            Rule("min_words", f"{p}words", ">=", self.min_words, "short_doc", "fewer than {} words"),
            Rule("max_words", f"{p}words", "<=", self.max_words, "long_doc", "more than {} words"),
            Rule(
                "min_mean_word_length", f"{p}mean_word_length", ">=", self.min_mean_word_length, "short_words",
                "a mean word length below {}", "text in scripts with blanks between words",
            ),
            Rule(
                "max_mean_word_length", f"{p}mean_word_length", "<=", self.max_mean_word_length, "long_words",
                "one above {}", "text in scripts with blanks between words",
            ),
            Rule("max_symbol_ratio", f"{p}hash_ratio", "<=", symbols, "many_hashes", "more than {} # by words"),
            Rule("max_symbol_ratio", f"{p}ellipsis_ratio", "<=", symbols, "many_ellipses", "more than {} … by words"),
            Rule(
                "max_bullet_lines", f"{p}bullet_lines", "<=", self.max_bullet_lines, "bullet_lines",
                "more than {} of the lines beginning with a bullet",
            ),
            Rule(
                "max_ellipsis_lines", f"{p}ellipsis_lines", "<=", self.max_ellipsis_lines, "ellipsis_lines",
                "more than {} of them ending with an ellipsis",
            ),
            Rule(
                "min_alpha_words", f"{p}alpha_words", ">=", self.min_alpha_words, "few_alpha_words",
                "less than {} of the words holding a letter",
            ),
            Rule(
                "min_stop_words", f"{p}stops", ">=", self.min_stop_words, "few_stop_words",
                "fewer than {} different stop words", "text in a language with a list of stop words",
            ),
        ]  # fmt: skip

    def check(self) -> None:
        """Raises ConfigError for an unknown kind of words, a limit outside its range, or a pair that nothing passes."""
        super().check()
        for what in ("words", "mean_word_length"):
            low, high = getattr(self, f"min_{what}"), getattr(self, f"max_{what}")
            if 0 < high < low:
                raise ConfigError(f"max_{what} = {high:,}: it must be at least min_{what} = {low:,}", stage=self.name)

    def measurer(self) -> Callable[[pa.RecordBatch], Measured]:
        """The figures of ``heuristics.prose``."""

        def measure(batch: pa.RecordBatch) -> Measured:
            known = languages(batch, self.assume_language)
            parts = [dict.fromkeys(FIGURES, np.zeros(0))]
            done = 0
            for documents in blocks(batch.column(col.TEXT)):
                own = known[done : done + len(documents)]
                parts.append(figures(Units(documents, self.words), own))
                done += len(documents)
            return Measured({f"{self.name}_{n}": np.concatenate([p[n] for p in parts]) for n in FIGURES})

        return measure
