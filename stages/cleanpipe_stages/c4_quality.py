"""c4_quality: C4's rules. Lines that are no sentences are removed, or only counted; what is left is judged."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.stage import option
from cleanpipe.text.normalise import normalise
from cleanpipe_stages.heuristics import bad_words
from cleanpipe_stages.heuristics.c4 import FIGURES, LineRules, figures, judge, uncited
from cleanpipe_stages.heuristics.rules import Heuristic, Measured, Rule
from cleanpipe_stages.heuristics.units import blocks

_SOURCE = "Raffel et al. 2020, section 2.2"
_COUNTS = ("kept_lines", "sentences", "curly_lines", "lorem_ipsum_lines", "bad_words")
_MEANINGS = {
    **{f"c4_quality_{short}": what for short, what in FIGURES.items()},
    "c4_quality_bad_words": "words of the user's list in the text; null without a list",
}


@dataclass(frozen=True, kw_only=True)
class C4Quality(Heuristic):
    """Removes lines that are no sentences; drops text with {, lorem ipsum, unwanted words, or too few sentences left.

    The filter of C4 (Raffel et al. 2020) with what its code adds. ``lines = "remove"`` changes the text: what is left
    is joined by line breaks, marks of citations taken out. ``lines = "score"`` only measures. A limit of 0 is off.
    """

    name: ClassVar[str] = "c4_quality"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})
    writes: ClassVar[Mapping[str, pa.DataType]] = col.TEXT_COLUMNS
    meanings: ClassVar[Mapping[str, str]] = _MEANINGS
    scores: ClassVar[Mapping[str, pa.DataType]] = {
        name: pa.int64() if name.removeprefix("c4_quality_") in _COUNTS else pa.float64() for name in _MEANINGS
    }
    ledger_only: ClassVar[frozenset[str]] = frozenset(scores)
    reasons: ClassVar[frozenset[str]] = frozenset(
        {"lorem_ipsum", "curly_bracket", "bad_words", "too_few_sentences", "many_removed", "no_line_left"}
    )
    shares: ClassVar[frozenset[str]] = frozenset({"max_removed_lines"})
    sizes: ClassVar[tuple[str, ...]] = ("min_words_per_line", "max_word_length", "max_bad_words")

    lines: Literal["score", "remove"] = option("remove", "what becomes of lines that the line rules meet")
    terminal: bool = option(True, "a line must end with a sentence's mark or a quotation mark", source=_SOURCE)
    min_words_per_line: int = option(5, "fewest words of a line", source="JMLR version and code; first version: 3")
    max_word_length: int = option(1000, "longest word of a line, in characters", source="C4's code")
    javascript: bool = option(True, "lines with the word javascript go", source=_SOURCE)
    policy: bool = option(True, "lines on cookies, terms of use and privacy policies go", source="C4's code")
    citations: bool = option(True, "marks of citations are no part of a line", source="C4's code")
    min_sentences: int = option(3, "fewest sentences in the lines left", source="JMLR version and code; first: 5")
    curly_bracket: bool = option(True, "text with { goes", source=_SOURCE)
    lorem_ipsum: bool = option(True, "text with lorem ipsum goes", source=_SOURCE)
    bad_words: str = option("", "file of unwanted words, one a line; empty: the rule is not asked", source=_SOURCE)
    max_bad_words: int = option(0, "most of them that are let pass", source="C4: none")
    max_removed_lines: float = option(0.0, "most lines that the line rules meet")

    def rules(self) -> Sequence[Rule]:
        """In the published order."""
        p = f"{self.name}_"
        listed = self.max_bad_words + 1 if self.bad_words else 0
        gone = int(self.lines == "remove")
        return [
            Rule("lorem_ipsum", f"{p}lorem_ipsum_lines", "<", int(self.lorem_ipsum), "lorem_ipsum", "lorem ipsum"),
            Rule("curly_bracket", f"{p}curly_lines", "<", int(self.curly_bracket), "curly_bracket", "a {{"),
            Rule(
                "max_bad_words", f"{p}bad_words", "<", listed, "bad_words", "{} or more unwanted words",
                "text, where a list is given",
            ),
            Rule(
                "min_sentences", f"{p}sentences", ">=", self.min_sentences, "too_few_sentences",
                "fewer than {} sentences in the lines left",
            ),
            Rule(
                "max_removed_lines", f"{p}removed_lines", "<=", self.max_removed_lines, "many_removed",
                "more than {} of the lines removed",
            ),
            Rule("lines", f"{p}kept_lines", ">=", gone, "no_line_left", "no line left", replays=False),
        ]  # fmt: skip

    def check(self) -> None:
        """Raises ConfigError for a number outside its range, or a list of words that cannot be read."""
        super().check()
        self.models()

    def models(self) -> Mapping[str, Path]:
        """The list of unwanted words: its content decides. Raises ConfigError where it is no file."""
        if self.bad_words and not Path(self.bad_words).is_file():
            raise ConfigError(f"the list of words {self.bad_words} is no file", stage=self.name)
        return {"bad_words": Path(self.bad_words)} if self.bad_words else {}

    def measurer(self) -> Callable[[pa.RecordBatch], Measured]:
        """The figures of ``heuristics.c4``; with ``lines = "remove"`` the text of the lines left."""
        rules = LineRules(self.terminal, self.min_words_per_line, self.max_word_length, self.javascript, self.policy)
        count = bad_words.load(Path(self.bad_words), self.name) if self.bad_words else None

        def measure(batch: pa.RecordBatch) -> Measured:
            texts = batch.column(col.TEXT)
            counts: list[Mapping[str, np.ndarray]] = []
            lefts: list[bytes] = []
            for documents in blocks(texts, None):
                bare = [uncited(d) for d in documents] if self.citations else documents
                found, stays = judge(bare, rules, self.lines == "remove")
                counts.append(found)
                lefts += stays
            scores = {f"{self.name}_{n}": values for n, values in figures(counts).items()}
            unwanted = [np.nan] * len(texts) if count is None else [count(t or "") for t in texts.to_pylist()]
            scores[f"{self.name}_bad_words"] = np.array(unwanted, np.float64)
            return Measured(scores, _rewritten(batch, lefts) if self.lines == "remove" else None)

        return measure


def _rewritten(batch: pa.RecordBatch, lefts: Sequence[bytes]) -> pa.RecordBatch:
    """The batch with other texts: repaired again, since characters meet that stood apart, and named by content."""
    texts = [normalise(t.decode()) for t in lefts]
    encoded = [t.encode() for t in texts]
    columns = {
        col.TEXT: pa.array(encoded, pa.large_binary()).cast(pa.large_string()),
        col.LENGTH: pa.array(list(map(len, texts)), pa.int64()),
        col.BYTES: pa.array(list(map(len, encoded)), pa.int64()),
        col.CONTENT_ID: pa.array([hashlib.sha256(e).digest()[:16] for e in encoded], col.ID),
    }
    return col.with_columns(batch, columns)
