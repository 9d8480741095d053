"""The fold: batches through opened steps in the recipe's order. Rows are dropped and counted in ``settle``, once."""

from __future__ import annotations

import errno
import hashlib
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.errors import CleanpipeError, StageContractError
from cleanpipe.io.documents import RESOURCE_LIMIT
from cleanpipe.stage import Outcome, Stage, Step
from cleanpipe.tally import Tally, add
from cleanpipe.wide import kept

STAGE_ERROR = "stage_error"  # the reason of a row on which a step raised; quarantined with its traceback's hash
STORAGE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ESTALE, errno.EMFILE, errno.ENFILE})
TEXTS = (col.MARKUP, col.SCRUBBED, col.TEXT)
Seen = Callable[[Stage, pa.RecordBatch, pa.RecordBatch], None]
Condemned = Mapping[bytes, tuple[str, ...]]  # doc_id → error, message, and perhaps a stage
NOBODY: Condemned = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Failure:
    """A row that was set aside for an error (its reason is in the fates): its index among the rows that entered the
    flow, and what to show. trace: first 16 hex digits of the traceback's SHA-256; None where there is none.
    """

    row: int
    error: str
    message: str
    trace: str | None


@dataclass(slots=True)
class Flowed:
    """rows: what came through. fates: one row for each that entered: stage, reason, scores, windows, chars_out.
    origin: for each row that came through, the row that entered.
    """

    rows: pa.RecordBatch
    fates: pa.RecordBatch
    origin: npt.NDArray[np.int32]
    tally: Tally
    failures: list[Failure] = field(default_factory=list)


class Flow:
    """The opened steps of one pass. ``scores`` are all score columns of the pipeline."""

    def __init__(self, stages: Sequence[Stage], scores: Mapping[str, pa.DataType]) -> None:
        self.steps: list[tuple[Stage, Step]] = [(s, s.open()) for s in stages]
        self.score_types = dict(scores)
        self.cost: dict[str, float] = {s.name: 0.0 for s in stages}  # CPU seconds

    def run(self, batch: pa.RecordBatch, condemned: Condemned = NOBODY, seen: Seen | None = None) -> Flowed:
        """One batch through every step; see Flowed.

        condemned: documents, by doc_id, that are set aside untreated, with reason ``resource_limit``: the error and
        message that quarantine shows, and, where it is not the pass' first, the stage before which they leave. A stage
        of another pass leaves them alone here.
        seen: called after each step with the stage and the rows before and after it; changes nothing.
        """
        state = _State(batch, self.score_types)
        for index, (stage, step) in enumerate(self.steps):
            began, before = time.process_time(), state.rows
            if here := {k: v for k, v in condemned.items() if (v[2] == stage.name if v[2:] else index == 0)}:
                state.condemn(stage, here)
            rows = _with_optional(state.rows, stage)
            for outcome, part in _attempt(stage, step, rows, state):
                state.settle(stage, outcome, part)
            state.join()
            self.cost[stage.name] += time.process_time() - began
            if seen is not None:
                seen(stage, before, state.rows)
        return state.finish()


def _with_optional(rows: pa.RecordBatch, stage: Stage) -> pa.RecordBatch:
    absent = sorted(stage.reads_optional - set(rows.schema.names))
    kinds = {**col.DECODED_COLUMNS, **col.TEXT_COLUMNS, col.SCRUBBED: pa.large_string()}
    return col.with_columns(rows, {n: pa.nulls(rows.num_rows, kinds.get(n, pa.string())) for n in absent})


def _attempt(stage: Stage, step: Step, rows: pa.RecordBatch, state: _State) -> Iterator[tuple[Outcome, slice]]:
    """The step's outcome; when it raises on a batch, document by document, so that a bad one costs itself."""
    try:
        yield step(rows), slice(0, rows.num_rows)
        return
    except Exception as error:
        if _reaches_further(error):
            raise
        first = error
        where = traceback.extract_tb(error.__traceback__)[-1]
        if isinstance(error, MemoryError):
            traceback.clear_frames(error.__traceback__)  # they hold what the step had made so far
    failed = short = 0
    documents = state.documents()
    for part in documents:
        try:
            outcome = step(rows.slice(part.start, part.stop - part.start))
        except Exception as error:  # whatever a page can do to a parser
            if _reaches_further(error):
                raise
            failed += 1
            short += isinstance(error, MemoryError)
            state.fail(stage, part, error)
            continue
        yield outcome, part
    if failed == len(documents) and failed >= 8:
        if short == failed:
            raise first  # not the documents' fault, nor the stage's: this process has no memory left
        raise StageContractError(
            f"raised on all {failed} documents of a batch: {type(first).__name__}: {first} "
            f"({where.filename}:{where.lineno})",
            stage=stage.name,
        ) from first


def _reaches_further(error: Exception) -> bool:
    """Whether it speaks of the run or the machine, not of a document."""
    return isinstance(error, CleanpipeError) or (isinstance(error, OSError) and error.errno in STORAGE)


class _State:
    """One batch on its way: the rows alive, where each came from, and the fates so far."""

    def __init__(self, batch: pa.RecordBatch, score_types: Mapping[str, pa.DataType]) -> None:
        self.rows, self.entered = batch, batch.num_rows
        self.origin = np.arange(batch.num_rows, dtype=np.int32)
        self.code = np.full(batch.num_rows, -1, np.int16)
        self.codes: list[tuple[str, str, str]] = []  # fate, stage, reason
        self.scores: dict[str, pa.Array] = {n: pa.nulls(batch.num_rows, t) for n, t in score_types.items()}
        self.kept: dict[str, pa.Array] = {}  # charset, length, content id of every row that got so far
        self.tally: Tally = {}
        self.failures: list[Failure] = []
        self.split = self.cut = False  # true once a document is several rows: then nothing may be dropped any more
        self.parts: list[tuple[pa.RecordBatch, npt.NDArray[np.int32]]] = []
        size = batch.column(col.BYTES_IN) if col.BYTES_IN in batch.schema.names else None
        self.bytes_in = np.zeros(batch.num_rows, np.int64) if size is None else size.to_numpy(zero_copy_only=False)
        self.chars = self._chars(batch)

    @staticmethod
    def _chars(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
        names = rows.schema.names
        if col.LENGTH in names:
            return np.asarray(rows.column(col.LENGTH).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
        lengths = [pc.utf8_length(rows.column(col.SCRUBBED))] if col.SCRUBBED in names else []
        if col.MARKUP in names:  # counting code points of whole pages again would cost more than any small stage
            known = col.MARKUP_LENGTH in names
            lengths.append(rows.column(col.MARKUP_LENGTH) if known else pc.utf8_length(rows.column(col.MARKUP)))
        if not lengths:
            return np.zeros(rows.num_rows, np.int64)
        length = pc.fill_null(pc.coalesce(*(n.cast(pa.int64()) for n in lengths)), 0)
        return np.asarray(length.to_numpy(zero_copy_only=False), dtype=np.int64)

    def documents(self) -> list[slice]:
        """The rows of each document; one row each until a stage cuts them."""
        edges = [0, *(np.flatnonzero(np.diff(self.origin)) + 1).tolist(), len(self.origin)]
        return [slice(a, b) for a, b in pairwise(edges) if b > a]

    def condemn(self, stage: Stage, condemned: Condemned) -> None:
        """Quarantine the documents named before ``stage`` sees them; they are counted there."""
        alive = np.ones(len(self.origin), bool)
        identities = self.rows.column(col.DOC_ID).to_pylist()
        for part in self.documents():
            if (said := condemned.get(identities[part.start])) is not None:
                alive[part] = False
                failure = Failure(int(self.origin[part.start]), said[0], said[1][:500], None)
                self._set_aside(stage, part, RESOURCE_LIMIT, failure)
        if not alive.all():
            self.rows = kept(self.rows, alive)
            self.origin, self.chars = self.origin[alive], self.chars[alive]

    def fail(self, stage: Stage, part: slice, error: Exception) -> None:
        """Quarantine one document on which the step raised, with all its rows."""
        short = isinstance(error, MemoryError)
        name = "MemoryError" if short else type(error).__name__  # Arrow has one of its own
        trace = "".join(traceback.format_exception(error))
        # none of what a guard would set aside: a re-run by the list of limits has none
        digest = None if short else hashlib.sha256(trace.encode("utf-8", "replace")).hexdigest()[:16]
        reason = RESOURCE_LIMIT if short else STAGE_ERROR
        failure = Failure(int(self.origin[part.start]), name, str(error)[:500] or name, digest)
        self._set_aside(stage, part, reason, failure)

    def _set_aside(self, stage: Stage, part: slice, reason: str, failure: Failure) -> None:
        self.code[failure.row] = self._code(col.QUARANTINED, stage.name, reason)
        self.failures.append(failure)
        self._count(stage, part, {reason: 1}, np.zeros(part.stop - part.start, bool), None, {})

    def settle(self, stage: Stage, outcome: Outcome, part: slice) -> None:
        """Check what the step promised, take its scores into the ledger, remove what it dropped."""
        n = part.stop - part.start
        origin = self.origin[part]
        reasons, keep = self._verdicts(stage, outcome, n)
        for name, values in outcome.scores.items():
            self._score(stage, name, values, origin, n)
        rows, parents = self._rows(stage, outcome, n)
        alive = keep[parents] if parents is not None else keep
        missing = [c for c in stage.writes if c not in rows.schema.names]
        if missing:
            raise StageContractError(f"declares {missing[0]!r} in `writes`, and did not write it", stage=stage.name)
        if outcome.scores:
            taken = (
                outcome.scores if parents is None else {k: v.take(pa.array(parents)) for k, v in outcome.scores.items()}
            )
            rows = col.with_columns(rows, taken)
        for name in (col.CHARSET, col.LENGTH, col.CONTENT_ID):
            if name in stage.writes and parents is None:
                self.kept[name] = self._scatter(rows.column(name), origin, self.kept.get(name))
        if reasons and self.split:
            raise StageContractError(
                "drops windows of a document that was cut before it: judge before windowing", stage=stage.name
            )
        for reason, rows_of in reasons.items():
            self.code[origin[rows_of]] = self._code(col.DROPPED, stage.name, reason)
        chars = (
            self._chars(rows)
            if set(TEXTS) & set(stage.writes)
            else (self.chars[part] if parents is None else self.chars[part][parents])
        )
        self._count(
            stage, part, {r: len(i) for r, i in reasons.items()}, keep, (chars, parents), outcome.facts, outcome.skipped
        )
        if not alive.all():
            rows = kept(rows, alive)
        index = origin if parents is None else origin[parents]
        self.parts.append((rows, index[alive]))
        self.cut = self.cut or parents is not None

    def join(self) -> None:
        """Make the rows that came through the step the rows of the next."""
        if not self.parts:  # every row failed
            self.rows, self.origin, self.chars = self.rows.slice(0, 0), self.origin[:0], self.chars[:0]
            return
        if len(self.parts) == 1:
            rows, self.origin = self.parts[0]
            same, self.rows = rows is self.rows, rows
            if same:  # a step that only judged, and dropped nothing
                self.parts = []
                return
        else:
            table = pa.Table.from_batches([r for r, _ in self.parts]).combine_chunks()
            batches = table.to_batches()
            self.rows = batches[0] if batches else self.parts[0][0].slice(0, 0)
            self.origin = np.concatenate([o for _, o in self.parts])
        self.parts, self.split = [], self.cut
        self.chars = self._chars(self.rows)

    def finish(self) -> Flowed:
        """The rows that came through and a fate for each that entered."""
        table = np.array([("", "", ""), *self.codes], dtype=object)
        at = self.code.astype(np.int64) + 1
        alive = self.code < 0
        fates = {
            col.FATE: pa.array(table[at, 0], pa.string(), mask=alive),
            col.STAGE: pa.array(table[at, 1], pa.string(), mask=alive),
            col.REASON: pa.array(table[at, 2], pa.string(), mask=alive),
        }
        fates.update(self.kept)
        fates.update(self.scores)
        return Flowed(self.rows, pa.RecordBatch.from_pydict(fates), self.origin, self.tally, self.failures)

    def _verdicts(
        self, stage: Stage, outcome: Outcome, n: int
    ) -> tuple[dict[str, npt.NDArray[np.int64]], npt.NDArray[np.bool_]]:
        if outcome.drops is None:
            return {}, np.ones(n, bool)
        if len(outcome.drops) != n:
            raise StageContractError(f"gave {len(outcome.drops)} verdicts for {n} rows", stage=stage.name)
        keep = np.asarray(pc.is_null(outcome.drops).to_numpy(zero_copy_only=False))
        if keep.all():
            return {}, keep
        encoded = outcome.drops.dictionary_encode()
        indices = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False)
        reasons = {r: np.flatnonzero(indices == i) for i, r in enumerate(encoded.dictionary.to_pylist())}
        if unknown := sorted(set(reasons) - stage.reasons):
            raise StageContractError(f"dropped a row for {unknown[0]!r}, which it does not declare", stage=stage.name)
        return reasons, keep

    def _rows(self, stage: Stage, outcome: Outcome, n: int) -> tuple[pa.RecordBatch, npt.NDArray[np.int64] | None]:
        rows = outcome.batch
        if outcome.parents is None:
            if rows.num_rows != n:
                raise StageContractError(
                    f"turned {n} rows into {rows.num_rows} without naming parents", stage=stage.name
                )
            return rows, None
        parents = np.asarray(outcome.parents.to_numpy(zero_copy_only=False), dtype=np.int64)
        if len(parents) != rows.num_rows or (len(parents) and (parents.min() < 0 or parents.max() >= n)):
            raise StageContractError("named parents that are not rows of its input", stage=stage.name)
        if len(parents) and (np.diff(parents) < 0).any():
            raise StageContractError("mixed the rows of different documents", stage=stage.name)
        if len(np.unique(parents)) != n:
            raise StageContractError("lost a row without dropping it", stage=stage.name)
        return rows, parents

    def _score(self, stage: Stage, name: str, values: pa.Array, origin: npt.NDArray[np.int32], n: int) -> None:
        kind = stage.scores.get(name)
        if kind is None:
            raise StageContractError(f"gave the score {name!r}, which it does not declare", stage=stage.name)
        if len(values) != n or values.type != kind:
            raise StageContractError(
                f"score {name!r}: {len(values)} of {values.type} for {n} rows of {kind}", stage=stage.name
            )
        self.scores[name] = self._scatter(values, origin, self.scores[name])

    def _scatter(self, values: pa.Array, origin: npt.NDArray[np.int32], before: pa.Array | None) -> pa.Array:
        if len(values) == self.entered:
            return values
        at = np.full(self.entered, -1, np.int64)
        at[origin] = np.arange(len(values))
        spread = values.take(pa.array(at, mask=at < 0))
        return spread if before is None else pc.coalesce(spread, before)

    def _code(self, fate: str, stage: str, reason: str) -> int:
        key = (fate, stage, reason)
        if key not in self.codes:
            self.codes.append(key)
        return self.codes.index(key)

    def _count(
        self,
        stage: Stage,
        part: slice,
        dropped: Mapping[str, int],
        keep: npt.NDArray[np.bool_],
        after: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None] | None,
        facts: Mapping[str, int],
        skipped: pa.Array | None = None,
    ) -> None:
        origin, before = self.origin[part], self.chars[part]
        first = np.ones(len(before), bool)
        first[1:] = origin[1:] != origin[:-1]  # of a document's windows, one stands for it
        sizes = self.bytes_in[origin] * first
        out = before.copy()
        rows_out = int(keep.sum())
        if after is not None:
            chars, parents = after
            out = chars if parents is None else np.bincount(parents, chars, len(before)).astype(np.int64)
            if parents is not None:
                rows_out = int(keep[parents].sum())
        change = (out - before)[keep]
        counts = {
            "docs_in": int(first.sum()),
            "docs_out": int((first & keep).sum()),
            "rows_out": rows_out,
            "bytes_in": int(sizes.sum()),
            "bytes_out": int(sizes[keep].sum()),
            "chars_in": int(before.sum()),
            "chars_dropped": int(before[~keep].sum()),
            "chars_removed": int(-change[change < 0].sum()),
            "chars_added": int(change[change > 0].sum()),
            "chars_out": int(out[keep].sum()),
            "skipped": 0 if skipped is None else int(pc.sum(skipped).as_py() or 0),
        }
        add(self.tally, {stage.name: {**counts, "dropped": dict(dropped), "facts": dict(facts)}})
