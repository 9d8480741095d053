"""Limits on scores as stages of published rules have them: judged, told, and replayed from the ledger, in one place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.stage import Cut, Judge, Outcome, Stage, Step, rounded
from cleanpipe_stages._checks import one_of, within
from cleanpipe_stages.heuristics.code_points import table

Scores = Mapping[str, npt.NDArray[np.float64]]
Flags = npt.NDArray[np.bool_]
_OPPOSITE: Mapping[str, Callable[..., Flags]] = {
    ">=": np.less, ">": np.less_equal, "<=": np.greater, "<": np.greater_equal,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows whose ``score`` ``keeps`` ``at`` are kept, the others go for ``reason``; a score that is null fails nothing.

    at: 0 is off. words: what goes, "{}" being the limit. of: which documents have the score, in words; "" for all.
    replays: whether the option has no other effect than this verdict.
    """

    option: str
    score: str
    keeps: Literal[">=", ">", "<=", "<"]
    at: float
    reason: str
    words: str
    of: str = ""
    replays: bool = True


@dataclass(slots=True)
class Measured:
    """scores: float64 of n rows, NaN where not measured, in the order of the stage's. batch: where the text changed."""

    scores: Scores
    batch: pa.RecordBatch | None = None
    facts: dict[str, int] = field(default_factory=dict)


def fails(rules: Sequence[Rule], scores: Scores) -> dict[str, Flags]:
    """For each reason the rows that fail its rule."""
    made: dict[str, Flags] = {}
    for rule in rules:
        values = scores[rule.score]
        limit = round(rule.at, 6)
        made[rule.reason] = _OPPOSITE[rule.keeps](values, limit) if limit else np.zeros(values.size, np.bool_)
    return made


def first_reason(failed: Mapping[str, Flags], rows: int) -> pa.Array:
    """The first reason of each row, in the rules' order; null for one that fails none."""
    if not failed:
        return pa.nulls(rows, pa.string())
    code = np.select(list(failed.values()), np.arange(len(failed), dtype=np.int16), -1)
    return pa.array(list(failed), pa.string()).take(pa.array(code, mask=code < 0))


def shown(limit: float, *, share: bool) -> str:
    """A limit for people: a share in per cent, a count with its thousands parted."""
    return f"{round(100 * limit, 4):g} %" if share else f"{round(limit, 6):,.10g}"


class Heuristic(Stage):
    """A stage that is figures of the text and limits on them. A limit of 0 is off."""

    shares: ClassVar[frozenset[str]] = frozenset()  # limits that are shares: 0 to 1
    sizes: ClassVar[tuple[str, ...]] = ()  # options without a rule of their own that are 0 or more
    choices: ClassVar[Mapping[str, tuple[str, ...]]] = {}  # options that are one of these words

    @abstractmethod
    def rules(self) -> Sequence[Rule]:
        """Every rule, those that are off too, in the order in which they give their reasons."""

    @abstractmethod
    def measurer(self) -> Callable[[pa.RecordBatch], Measured]:
        """What gives the scores of a batch, not yet rounded. Raises ConfigError if the options cannot work."""

    def check(self) -> None:
        """Raises ConfigError for an unknown choice, a limit or size below 0, or a share above 1."""
        for option, known in self.choices.items():
            one_of(self.name, option, getattr(self, option), known)
        for option in self.sizes:
            within(self.name, option, getattr(self, option), 0)
        for rule in self.rules():
            within(self.name, rule.option, rule.at, 0, 1 if rule.option in self.shares else None)

    def on(self) -> list[Rule]:
        """The rules that are not off."""
        return [r for r in self.rules() if round(r.at, 6)]

    def in_words(self) -> str:
        """With every limit that is on."""
        what = [r.words.format(shown(r.at, share=r.option in self.shares)) for r in self.on()]
        if not what:
            return "Measures; no limit is on."
        return f"Drops text with {', '.join(what[:-1])}{' or ' if what[1:] else ''}{what[-1]}."

    def cuts(self) -> Sequence[Cut]:
        """One for each limit that is on."""
        return [Cut(r.score, r.keeps, round(r.at, 6), r.option, r.reason, r.of) for r in self.on()]

    def judge(self) -> Judge:
        """By the stage's scores alone."""
        rules = self.rules()
        names = [r.score for r in rules]

        def judge(rows: pa.RecordBatch) -> pa.Array:
            scores = {n: _numbers(rows.column(n)) for n in names}
            return first_reason(fails(rules, scores), rows.num_rows)

        return Judge(frozenset(names), frozenset(r.option for r in rules if r.replays), judge)

    def open(self) -> Step:
        """Raises ConfigError as ``check`` and ``measurer`` do."""
        self.check()
        measure, rules = self.measurer(), self.rules()
        table()  # made once a process, here and not in the first batch

        def step(batch: pa.RecordBatch) -> Outcome:
            measured = measure(batch)
            scores = {name: rounded(values) for name, values in measured.scores.items()}
            failed = fails(rules, scores)
            facts = {f"failed_{reason}": int(flags.sum()) for reason, flags in failed.items()}
            alone = np.sum(list(failed.values()), axis=0) == 1 if failed else np.zeros(batch.num_rows, np.bool_)
            facts |= {f"alone_{reason}": int((flags & alone).sum()) for reason, flags in failed.items()}
            return Outcome(
                batch if measured.batch is None else measured.batch,
                drops=first_reason(failed, batch.num_rows),
                scores={name: _array(scores[name], kind) for name, kind in self.scores.items()},
                facts=facts | measured.facts,
            )

        return step


def languages(batch: pa.RecordBatch, assumed: str) -> list[str]:
    """The language of each row, as ISO 639-1 where it has such a code; ``assumed`` where no stage told it."""
    return [primary(label or assumed) for label in batch.column(col.LANGUAGE).to_pylist()]


def primary(label: str) -> str:
    """The language of a label: "en" of "en", "eng_Latn" and "en-GB"."""
    code = label.replace("-", "_").partition("_")[0].lower()
    return _THREE.get(code, code)


_CODES = """
ara:ar arb:ar bul:bg cat:ca ces:cs dan:da deu:de ell:el eng:en spa:es fin:fi fra:fr hun:hu ind:id ita:it nld:nl nob:no
nor:no nb:no pol:pl por:pt ron:ro rus:ru slk:sk swe:sv tur:tr ukr:uk vie:vi
"""
_THREE: Mapping[str, str] = dict(pair.split(":") for pair in _CODES.split())


def _numbers(column: pa.Array) -> npt.NDArray[np.float64]:
    made = pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False)
    return np.asarray(made, np.float64)  # a null is NaN


def _array(values: npt.NDArray[np.float64], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.float64(), mask=np.isnan(values)).cast(kind)
