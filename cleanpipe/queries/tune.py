"""What other thresholds would have kept, from the ledger of a run alone: equal, to the document, to a real run where
the needed scores exist, and unknown where they do not.

Steps are taken in the new order. A step that is as it was says of a row that reached it what it said; one whose
changed options only judge (``Judge``) judges again the rows that reached it; documents that meet are told by
``Exchange.again``. Whatever else a row meets that may drop it is unknown from there on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.exchange import CONTINGENT, GOES, MAYBE, NO, TAKES_PART, TOOK_PART, UNKNOWN, YES
from cleanpipe.queries.opened_run import OpenRun
from cleanpipe.queries.tune_ledger import Chosen, Flags, LedgerColumns, Piece
from cleanpipe.queries.tune_steps import Plan, Step, no_sets, plan

UNDECIDED = "undecided"  # of an unfinished run, waiting for the others; after too, if nothing changes before they meet
NOT_KNOWN = "unknown"  # after
CERTAIN, IF, SOMEHOW = "certain", "contingent", "reason open"
Codes = npt.NDArray[np.int16]
_ALIVE = -1
_LAST = 1 << 14


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of rows. fate: kept, dropped, quarantined, undecided; unknown after. stage, reason: "" where kept or
    undecided. sure: CERTAIN; IF: it stands unless a row whose likes are not known is near to it or to the one that
    stands for it; SOMEHOW: certain to go, perhaps for another reason of the stage. why: of an unknown one.
    """

    fate: str
    stage: str = ""
    reason: str = ""
    sure: str = CERTAIN
    why: str = ""


@dataclass(slots=True)
class Tuned:
    """n ledger rows with both fates. old, new: int16 of n, places in ``before`` and ``after``."""

    plan: Plan
    ledger: LedgerColumns
    before: list[Fate]
    old: Codes
    after: list[Fate] = field(default_factory=list)
    new: Codes = field(default_factory=lambda: np.zeros(0, np.int16))


def tune(run: OpenRun, sets: Sequence[str]) -> Tuned:
    """The fates of a run's documents under another recipe.

    Raises:
        ConfigError: no change is named, or one that cannot be.
    """
    if not sets:
        raise no_sets()
    ledger = LedgerColumns(run.parts)
    made = plan(run, sets, ledger.names)
    before, old = _fates(ledger)
    walk = _Walk(Tuned(made, ledger, before, old))
    for step in made.steps:
        walk.take(step)
    return walk.end()


def _fates(ledger: LedgerColumns) -> tuple[list[Fate], Codes]:
    """Every fate that stands in the ledger, and which one each row has."""
    names = (col.FATE, col.STAGE, col.REASON)
    found: dict[Fate, int] = {}
    old = np.zeros(ledger.rows, np.int16)

    def work(piece: Piece) -> tuple[Piece, npt.NDArray[np.int64], list[Fate]]:
        table = ledger.read(piece, names, coded=names)
        code, labels = np.zeros(table.num_rows, np.int64), list[list[str]]()
        for name in names:
            whole = table.column(name).unify_dictionaries().combine_chunks()
            coded = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
            labels.append([*coded.dictionary.to_pylist(), ""])
            code *= len(labels[-1])
            code += pc.fill_null(coded.indices, len(labels[-1]) - 1).to_numpy(zero_copy_only=False)
        seen = np.flatnonzero(np.bincount(code, minlength=1))
        place = np.zeros(int(seen[-1]) + 1 if seen.size else 1, np.int64)
        place[seen] = np.arange(seen.size)
        last = len(labels[2])
        width = len(labels[1]) * last
        fates = [
            Fate(labels[0][s // width] or UNDECIDED, labels[1][s % width // last], labels[2][s % last])
            for s in seen.tolist()
        ]
        return piece, place[code], fates

    for piece, code, fates in ledger.each(work):
        local = np.array([found.setdefault(f, len(found)) for f in fates] or [0], np.int16)
        old[piece.span] = local[code]
    return list(found) or [Fate(col.KEPT)], old


class _Walk:
    """Rows on their way through the new steps. new: the fate of those that left it, else _ALIVE."""

    def __init__(self, tuned: Tuned) -> None:
        self.tuned = tuned
        self.new = np.full(tuned.old.size, _ALIVE, np.int16)
        self.contingent: Flags | None = None
        self._waiting_codes = [_ALIVE] * len(tuned.before)  # of each old fate, not yet given to its rows
        self.moved = bool(tuned.plan.off)  # whether any row may be where it was not before
        order = {name: place for place, name in enumerate(tuned.plan.order)}
        meets = [s.place for s in tuned.plan.steps if s.before is not None]
        waits = min(meets) if meets else _LAST
        places = {col.KEPT: _LAST, UNDECIDED: waits}
        self.reached = np.array([places.get(f.fate, order.get(f.stage, 0)) for f in tuned.before])

    def code(self, fate: Fate) -> int:
        """The fate's place among those of the answer."""
        if fate not in self.tuned.after:
            self.tuned.after.append(fate)
        return self.tuned.after.index(fate)

    def take(self, step: Step) -> None:
        """Every row that is still there passes the step or gets a fate."""
        self.moved = self.moved or bool(step.blind or step.changed or step.place < 0)
        if step.blind:
            if step.drops:
                self._all(Fate(NOT_KNOWN, step.name, why=step.blind))
        elif step.exchange is not None:
            self._meet(step)
        else:
            told = step.judge is not None and bool(step.changed)
            self._as_before(step, judged=told)
            if told:
                self._judge(step)

    def _all(self, fate: Fate) -> None:
        """Rows that are still there may go or stay here; those that were set aside at reading stay so."""
        self._settle([self.code(fate) if f.stage != self.tuned.plan.order[0] or fate.stage == f.stage else self.code(f)
                      for f in self.tuned.before])  # fmt: skip

    def _settle(self, codes: Sequence[int]) -> None:
        """codes: for each old fate the new one of rows that are still there, or _ALIVE."""
        self._waiting_codes = [a if a != _ALIVE else b for a, b in zip(self._waiting_codes, codes, strict=True)]

    def _flush(self) -> None:
        """Give the rows what was settled so far."""
        table = np.array(self._waiting_codes or [_ALIVE], np.int16)
        if (table != _ALIVE).any():
            alive = self.new == _ALIVE
            self.new[alive] = table[self.tuned.old[alive]]
            self._waiting_codes = [_ALIVE] * len(table)

    def _as_before(self, step: Step, *, judged: bool) -> None:
        """Rows that left at this step leave it again, if they are not judged anew; rows that it never saw are unknown
        if it can drop.
        """
        codes = []
        for fate, reached in zip(self.tuned.before, self.reached.tolist(), strict=True):
            here = fate.stage == step.name
            if here and (fate.fate == col.QUARANTINED or not judged):
                codes.append(self.code(fate))
            elif reached < step.place and step.drops:
                codes.append(self.code(_unseen(step, fate)))
            else:
                codes.append(_ALIVE)
        self._settle(codes)

    def _judge(self, step: Step) -> None:
        """The verdict again on rows that reached the step."""
        judge, ledger = step.judge, self.tuned.ledger
        assert judge is not None
        names = sorted(judge.columns)
        self._flush()
        asked = (self.reached >= step.place)[self.tuned.old] & (self.new == _ALIVE)

        def work(piece: Piece) -> tuple[Piece, Flags, npt.NDArray[np.integer[Any]], list[str]]:
            mask = asked[piece.span]
            table = ledger.read(piece, names)
            table = table if mask.all() else table.filter(pa.array(mask))
            batches = table.combine_chunks().to_batches()
            said = pa.concat_arrays([judge.judge(b) for b in batches] or [pa.nulls(0, pa.string())])
            coded = said.dictionary_encode()
            words = coded.dictionary.to_pylist()
            return piece, mask, pc.fill_null(coded.indices, len(words)).to_numpy(zero_copy_only=False), words

        for piece, mask, at, words in ledger.each(work, lambda p: bool(asked[p.span].any())):
            codes = [self.code(Fate(col.DROPPED, step.name, r)) for r in words]
            self.new[piece.span][mask] = np.array([*codes, _ALIVE], np.int16)[at]

    # where documents meet

    def _meet(self, step: Step) -> None:
        assert step.exchange is not None
        assert step.before is not None
        if not self.moved:  # every row comes as it came, and is told what it was told
            self._as_before(step, judged=False)
            self._waiting(step)
            return
        self._flush()
        aside = [f.stage == step.name and f.fate == col.QUARANTINED for f in self.tuned.before]
        waits = [f.fate == UNDECIDED for f in self.tuned.before]
        met = [r >= step.place and not a and not w for r, a, w in zip(self.reached.tolist(), aside, waits, strict=True)]
        took = _spread(met, self.tuned.old)
        unknown = np.array([f.fate == NOT_KNOWN for f in self.tuned.after], np.bool_)
        maybe = (np.append(unknown, False)[self.new]) | (
            (self.new == _ALIVE) & _spread([a or w for a, w in zip(aside, waits, strict=True)], self.tuned.old)
        )
        yes = (self.new == _ALIVE) & ~maybe
        if step.before == step.exchange and not maybe.any() and np.array_equal(took, yes):
            self._as_before(step, judged=False)
            return
        said = self._again(step, took, yes, maybe)
        self._waiting(step)
        if said is None:
            self._all(Fate(NOT_KNOWN, step.name, why=OLDER))
            return
        rows = np.flatnonzero(took | yes | maybe)
        self._flush()
        self._told(step, rows, said, took)

    def _waiting(self, step: Step) -> None:
        """Rows that were set aside here stay so; those that wait for the others are not decided."""
        codes = []
        for fate in self.tuned.before:
            stays = fate.fate == UNDECIDED or (fate.stage == step.name and fate.fate == col.QUARANTINED)
            codes.append(self.code(fate) if stays else _ALIVE)
        self._settle(codes)

    def _again(self, step: Step, took: Flags, yes: Flags, maybe: Flags) -> pa.Array | None:
        assert step.exchange is not None
        assert step.before is not None
        if not step.exchange.again_reads() <= self.tuned.ledger.names:
            return None
        mask = took | yes | maybe
        here = [f.reason if f.stage == step.name else None for f in self.tuned.before]
        old = self.tuned.old[mask]
        own = {
            col.REASON: _coded(np.where(took[mask], old, len(here)), [*here, None]),
            TOOK_PART: _coded(took[mask].astype(np.int8), [NO, YES]),
            TAKES_PART: _coded(yes[mask] + 2 * maybe[mask].astype(np.int8), [NO, YES, MAYBE]),
        }
        rows = Chosen(self.tuned.ledger, mask, own)
        rows.read_ahead(sorted(step.exchange.again_reads() - _WIDE))  # narrow ones, of which most is asked for
        return step.exchange.again(rows, step.before)

    def _told(self, step: Step, rows: npt.NDArray[np.int64], said: pa.Array, took: Flags) -> None:
        """Take the verdicts over, for rows that are still there."""
        coded = said if pa.types.is_dictionary(said.type) else said.dictionary_encode()
        alive = self.new[rows] == _ALIVE
        words = [*coded.dictionary.to_pylist(), None]
        at = pc.fill_null(coded.indices, len(words) - 1).to_numpy(zero_copy_only=False)[alive]
        rows = rows[alive]
        kept_if = np.array([w == CONTINGENT for w in words], np.bool_)[at]
        if kept_if.any():
            self.contingent = np.zeros(self.new.size, np.bool_)
            self.contingent[rows[kept_if]] = True
        codes = np.full((2, len(words)), _ALIVE, np.int16)  # of rows that were not there before, of others
        for i, word in enumerate(words):
            if word is None or word == CONTINGENT or not (at == i).any():
                continue
            kind, _, reason = word.partition(":")
            if kind == UNKNOWN:
                codes[0, i] = self.code(Fate(NOT_KNOWN, step.name, why=LIKES))
                codes[1, i] = self.code(Fate(NOT_KNOWN, step.name, why=PAIRS))
            else:
                sure = {CONTINGENT: IF, GOES: SOMEHOW}.get(kind, CERTAIN)
                codes[:, i] = self.code(Fate(col.DROPPED, step.name, reason if reason else kind, sure))
        self.new[rows] = codes[took[rows].astype(np.int8), at]

    def end(self) -> Tuned:
        """The fates of all rows: who is still there is kept."""
        self._flush()
        alive = self.new == _ALIVE
        self.code(Fate(col.KEPT))
        if alive.any():
            self.new[alive] = self.code(Fate(col.KEPT))
            if self.contingent is not None and (self.contingent & alive).any():
                self.new[self.contingent & alive] = self.code(Fate(col.KEPT, sure=IF))
        self.tuned.new = self.new
        return self.tuned


_WIDE = frozenset({col.DOC_ID, col.URL, col.KEPT_DOC_ID})  # read of few rows
OLDER = "the ledger does not tell which documents hang together: an older version wrote it"
PAIRS = "it would be compared with documents that it was not compared with"
LIKES = "it went before documents met, so no signature of it was made"


def _unseen(step: Step, fate: Fate) -> Fate:
    return Fate(NOT_KNOWN, step.name, why=f"it passes {fate.stage} now, where it went: {step.name} never saw it")


def _spread(of_fate: Sequence[bool], old: Codes) -> Flags:
    return np.array(of_fate or [False], np.bool_)[old]


def _coded(codes: npt.NDArray[np.integer[Any]], words: Sequence[str | None]) -> pa.ChunkedArray:
    """Strings from codes, dictionary-encoded; None is null."""
    none = np.array([w is None for w in words], np.bool_)[codes]
    values = pa.array([w or "" for w in words], pa.string())
    return pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32), mask=none), values)])


def outcomes(tuned: Tuned) -> Mapping[tuple[Fate, Fate], int]:
    """How many rows went from each old fate to each new one."""
    width = max(len(tuned.after), 1)
    count = np.bincount(tuned.old.astype(np.int64) * width + tuned.new)
    return {(tuned.before[i // width], tuned.after[i % width]): int(count[i]) for i in np.flatnonzero(count).tolist()}
