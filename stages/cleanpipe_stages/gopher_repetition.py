"""gopher_repetition: how much of a text is lines, paragraphs and runs of words that it has said before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.stage import option
from cleanpipe_stages.heuristics.grams import REPEATED, TOP, gram_shares
from cleanpipe_stages.heuristics.rules import Heuristic, Measured, Rule
from cleanpipe_stages.heuristics.units import KINDS, Spans, Units, blocks, quotient

_NUMBERS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}
_PARTS = {
    "dup_line_frac": "lines that stood before, of all lines",
    "dup_para_frac": "paragraphs that stood before, of all paragraphs",
    "dup_line_char_frac": "characters in lines that stood before, of all characters",
    "dup_para_char_frac": "characters in paragraphs that stood before, of all characters",
}
_GRAMS = {
    **{n: (f"top_{n}_gram", f"characters of the most frequent run of {n} words, of all characters") for n in TOP},
    **{n: (f"dup_{n}_gram", f"characters in runs of {n} words that stood before, of all characters") for n in REPEATED},
}
_SOURCE = "Rae et al. 2021, table A1"


@dataclass(frozen=True, kw_only=True)
class GopherRepetition(Heuristic):
    """Drops text that repeats itself by lines, paragraphs or runs of words (Gopher, Rae et al. 2021, section A.1.1).

    Every score is a share, 0 to 1, null for a text without a word. ``stages/README.md`` defines them. A limit of 0 is
    switched off.
    """

    name: ClassVar[str] = "gopher_repetition"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})
    meanings: ClassVar[Mapping[str, str]] = {
        f"gopher_repetition_{short}": what for short, what in (*_PARTS.items(), *_GRAMS.values())
    }
    scores: ClassVar[Mapping[str, pa.DataType]] = dict.fromkeys(meanings, pa.float64())
    ledger_only: ClassVar[frozenset[str]] = frozenset(scores)
    reasons: ClassVar[frozenset[str]] = frozenset(
        {*_PARTS, *(f"top_{_NUMBERS[n]}_gram" for n in TOP), *(f"dup_{_NUMBERS[n]}_gram" for n in REPEATED)}
    )
    shares: ClassVar[frozenset[str]] = frozenset({*_PARTS, *(short for short, _ in _GRAMS.values())})
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {"words": KINDS}

    words: str = option("tokens", "tokens: words and marks, as datatrove's; or blanks: what stands between blanks")
    dup_line_frac: float = option(0.30, "most lines that stood before", source=_SOURCE)
    dup_para_frac: float = option(0.30, "most paragraphs that stood before", source=_SOURCE)
    dup_line_char_frac: float = option(0.20, "most characters in lines that stood before", source=_SOURCE)
    dup_para_char_frac: float = option(0.20, "most characters in paragraphs that stood before", source=_SOURCE)
    top_2_gram: float = option(0.20, "most characters of the most frequent two words", source=_SOURCE)
    top_3_gram: float = option(0.18, "of the most frequent three", source=_SOURCE)
    top_4_gram: float = option(0.16, "of the most frequent four", source=_SOURCE)
    dup_5_gram: float = option(0.15, "most characters in runs of five words that stood before", source=_SOURCE)
    dup_6_gram: float = option(0.14, "of six", source=_SOURCE)
    dup_7_gram: float = option(0.13, "of seven", source=_SOURCE)
    dup_8_gram: float = option(0.12, "of eight", source=_SOURCE)
    dup_9_gram: float = option(0.11, "of nine", source=_SOURCE)
    dup_10_gram: float = option(0.10, "of ten", source=_SOURCE)

    def rules(self) -> Sequence[Rule]:
        """In the order of the paper's table, paragraphs before lines as datatrove asks."""
        parts = [
            ("dup_para_frac", "more than {} of its paragraphs repeated"),
            ("dup_para_char_frac", "more than {} of its characters in repeated paragraphs"),
            ("dup_line_frac", "more than {} of its lines repeated"),
            ("dup_line_char_frac", "more than {} of its characters in repeated lines"),
        ]
        asked = [(short, short, words) for short, words in parts]
        asked += [(f"top_{n}_gram", f"top_{_NUMBERS[n]}_gram", f"more than {{}} in its top {n}-gram") for n in TOP]
        asked += [
            (f"dup_{n}_gram", f"dup_{_NUMBERS[n]}_gram", f"more than {{}} in repeated {n}-grams") for n in REPEATED
        ]
        return [
            Rule(short, f"{self.name}_{short}", "<=", getattr(self, short), reason, words)
            for short, reason, words in asked
        ]

    def measurer(self) -> Callable[[pa.RecordBatch], Measured]:
        """Line, paragraph and run shares; null for a text without a word."""

        def measure(batch: pa.RecordBatch) -> Measured:
            parts: list[list[np.ndarray]] = [[np.zeros((0,))] * len(self.scores)]
            for documents in blocks(batch.column(col.TEXT)):
                units = Units(documents, self.words)
                lines, paragraphs = _shares(units, units.lines), _shares(units, units.paragraphs())
                grams = gram_shares(units)
                empty = units.words.at[1:] == units.words.at[:-1]
                found = [lines[0], paragraphs[0], lines[1], paragraphs[1], *grams.values()]
                parts.append([np.where(empty, np.nan, values) for values in found])
            columns = [np.concatenate(c) for c in zip(*parts, strict=True)]
            return Measured(dict(zip(self.scores, columns, strict=True)))

        return measure


def _shares(units: Units, spans: Spans) -> tuple[np.ndarray, np.ndarray]:
    """Spans that stood before by all spans, and their characters by all characters of the document."""
    again = units.repeats(spans)
    characters = units.characters(spans.starts, spans.ends) * again
    return quotient(spans.total(again), np.diff(spans.at)), quotient(spans.total(characters), units.lengths)
