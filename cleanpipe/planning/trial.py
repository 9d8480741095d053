"""The sample through the recipe as a run would take it: the same steps, meeting, files; counted place by place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.audit.facts import ledger_tally
from cleanpipe.builtin import READ
from cleanpipe.engine.opened import opened
from cleanpipe.engine.publish import LEDGER_ROWS
from cleanpipe.engine.rows import final_rows, row_cost, row_sizes, waiting_columns
from cleanpipe.flow import Flow
from cleanpipe.io.arrow import RowFile, TableWriter, plan_shards, rebatch, write_shard
from cleanpipe.io.documents import FailedRecord, ReadBatch
from cleanpipe.io.hashing import sha256_of
from cleanpipe.quarantine import QUARANTINE_SCHEMA, ledger_columns
from cleanpipe.queries.index import index_of
from cleanpipe.recipe import Recipe

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Key = tuple[str, str, str]  # fate, stage, reason
WRITE, MEET = "write", "meeting"
_DOCUMENT = 1024.0  # bytes that a document weighs beside its body where CPU is shared among places
_WARM = 64  # documents treated before the clock runs: what is made once is no part of the work


class Counts:
    """Sums by place, by name; places appear as they are counted."""

    def __init__(self) -> None:
        self._sums: dict[object, Floats] = {}

    def add(self, name: object, places: Ints, weights: npt.NDArray[np.generic] | None = None) -> None:
        """Add one for each of ``places``, or its weight."""
        if not len(places):
            return
        found = sums(places, weights, 0)
        old = self._sums.get(name, np.zeros(0))
        if len(old) > len(found):
            old[: len(found)] += found
        else:
            found[: len(old)] += old
            self._sums[name] = found

    def of(self, name: object, places: int) -> Floats:
        """The sums of one name, 0 where nothing was counted."""
        out = np.zeros(places)
        found = self._sums.get(name, np.zeros(0))
        out[: len(found)] = found
        return out

    def names(self) -> list[object]:
        """All that was counted."""
        return list(self._sums)


@dataclass(slots=True)
class Met:
    """The documents that reached the first meeting (or the end, where there is none), row for row.

    place: of each. text: UTF-8 bytes. family: the number of its keeper's row; its own where none stands for it.
    reason: of those that go for their keeper, an index into ``reasons``; else -1. content: the number of the first row
    of the same text, where that is known.
    """

    place: Ints
    text: Ints
    family: Ints
    reason: Ints
    reasons: tuple[Key, ...] = ()
    content: Ints | None = None


@dataclass(slots=True)
class Trial:
    """What came of the sample. counts: by name: "documents", "met" and "met_text", "kept" and "kept_text", "rows",
    "row_bytes"; (fate, stage, reason); ("cpu", pass, stage), seconds. The others are totals of the sample.

    meeting: CPU seconds of it. work: bytes of the files between passes, by pass. fates: bytes of those of the fates.
    empty: bytes of a unit's files without a row. ledger: bytes of a part, its index too, with all rows and of an empty
    one. shards: their sizes. opening: CPU seconds that no record costs. stretch: wall seconds of a CPU second,
    1 at least.
    """

    counts: Counts = field(default_factory=Counts)
    named: bool = False  # the meeting names for each document that goes the one that stands for it
    met: Met = field(default_factory=lambda: Met(*(np.zeros(0, np.int64),) * 4))
    stages: tuple[tuple[str, ...], ...] = ()  # of each pass
    meeting: float = 0.0
    work: list[int] = field(default_factory=list)
    fates: int = 0
    empty: int = 0
    ledger: tuple[int, int] = (0, 0)
    shards: list[int] = field(default_factory=list)
    publish: float = 0.0  # CPU seconds of shards and ledger
    opening: float = 0.0
    stretch: float = 1.0


class _Runner:
    def __init__(self, recipe: Recipe, scratch: Path) -> None:
        self.recipe, self.scratch, self.have = recipe, scratch, opened(recipe)
        self.trial = Trial(stages=tuple(tuple(s.name for s in p.stages) for p in self.have.passes))
        self.places: list[Ints] = []  # of the rows that wait, in the file's order
        self.fates: list[pa.Table] = []
        self.later: list[pa.Table] = []
        self.sizes: list[pa.RecordBatch] = []
        self.size_places: list[Ints] = []
        self.warm = False

    def path(self, name: str) -> Path:
        return self.scratch / name

    def writer(self, index: int) -> TableWriter:
        passes = self.have.passes
        last = index == len(passes) - 1
        schema = self.have.shard if last else pa.schema(list(waiting_columns(passes, index).items()))
        return TableWriter(self.path(f"rows{index}"), schema)

    def step(self, index: int, rows: pa.RecordBatch, places: Ints, writer: TableWriter) -> pa.Table:
        """One batch through one pass; the fates of what entered, the rows that came through written."""
        flow = self.have.flow(index)
        if index == 0 and not self.warm:
            flow.run(rows.slice(0, _WARM))
            self.warm = True
        before = dict(flow.cost)
        flowed = flow.run(rows)
        counts, fates = self.trial.counts, flowed.fates
        self._charge(index, flow, before, rows, places, fates)
        died = np.flatnonzero(fates.column(col.FATE).is_valid().to_numpy(zero_copy_only=False))
        for key, at in _keys(fates, died).items():
            counts.add(key, places[at])
        began = time.process_time()
        last = index == len(self.have.passes) - 1
        out = final_rows(flowed.rows, self.have.shard) if last else flowed.rows
        writer.write(out)
        if last:
            sizes = row_sizes(out, flowed.origin, self.have.shard)
            survivors = places[np.unique(flowed.origin)]
            self.sizes.append(sizes)
            counts.add("kept", survivors)
            counts.add("rows", survivors, sizes.column("rows").to_numpy())
            counts.add("row_bytes", survivors, sizes.column("bytes").to_numpy())
        else:
            self.places.append(places[flowed.origin])
        windows = np.bincount(flowed.origin, minlength=rows.num_rows)
        table = ledger.verdicts(fates, pa.array(windows, pa.int32(), mask=(windows == 0) | (not last)))
        counts.add(("cpu", index, WRITE), *_spread(time.process_time() - began, places, _weights(rows)))
        return table

    def _charge(
        self,
        index: int,
        flow: Flow,
        before: dict[str, float],
        rows: pa.RecordBatch,
        places: Ints,
        fates: pa.RecordBatch,
    ) -> None:
        """What each stage cost goes to the places of the rows that entered it, by their bytes."""
        names = [s.name for s, _ in flow.steps]
        order = {name: i for i, name in enumerate(names)}
        died = np.array([order.get(s, len(names)) for s in fates.column(col.STAGE).to_pylist()], np.int64)
        weights = _weights(rows)
        for at, name in enumerate(names):
            entered = died >= at
            if not entered.any():
                entered[:] = True
            seconds = flow.cost[name] - before[name]
            self.trial.counts.add(("cpu", index, name), *_spread(seconds, places[entered], weights[entered]))

    def failed(self, place: int, failed: list[FailedRecord]) -> None:
        for one in failed:
            self.trial.counts.add((col.QUARANTINED, READ, one.reason), np.array([place]))
        self.trial.counts.add("documents", np.full(len(failed), place))
        columns = ledger_columns(failed, ledger.IDENTITY, READ)
        self.fates.append(ledger.conform(columns, len(failed), self.have.ledger))

    def first(self, batches: Iterator[tuple[int, ReadBatch]]) -> None:
        """The first pass. Small batches are put together to those that a run would make."""
        options = self.recipe.read
        held: list[pa.RecordBatch] = []
        where: list[Ints] = []
        size = 0
        with_rows = self.writer(0)

        def flush() -> None:
            nonlocal size
            if held:
                table = pa.Table.from_batches(held).combine_chunks() if len(held) > 1 else None
                rows = held[0] if table is None else table.to_batches()[0]
                places = np.concatenate(where)
                self.trial.counts.add("documents", places)
                fates = self.step(0, rows, places, with_rows)
                columns = {n: rows.column(n) for n in ledger.IDENTITY}
                columns |= {n: fates.column(n).combine_chunks() for n in fates.schema.names}
                self.fates.append(ledger.conform(columns, rows.num_rows, self.have.ledger))
            held.clear()
            where.clear()
            size = 0

        for place, part in batches:
            if part.batch.num_rows:
                added = int(pc.sum(part.batch.column(col.BYTES_IN)).as_py() or 0) + 512 * part.batch.num_rows
                rows_held = sum(b.num_rows for b in held)
                if held and (
                    rows_held + part.batch.num_rows > options.batch_rows or size + added > options.batch_bytes
                ):
                    flush()
                held.append(part.batch)
                where.append(np.full(part.batch.num_rows, place, np.int64))
                size += added
            if part.failed:
                self.failed(place, part.failed)
        flush()
        self._written(with_rows)

    def after(self, index: int) -> None:
        """A later pass: what waits meets, then goes on with the answers."""
        exchange = self.have.passes[index].exchange
        assert exchange is not None
        source = RowFile(self.path(f"rows{index - 1}"))
        places = np.concatenate([np.zeros(0, np.int64), *self.places])
        self.places = []
        began = time.process_time()
        meeting = exchange.meet([source])
        self.trial.meeting += time.process_time() - began
        answers = meeting.tables[0].combine_chunks()
        at, out = 0, self.writer(index)
        fates = []
        for batch in source.batches():
            part = answers.slice(at, batch.num_rows).to_batches()
            said = {n: part[0].column(n) for n in answers.schema.names} if part else {}
            fates.append(self.step(index, col.with_columns(batch, said), places[at : at + batch.num_rows], out))
            at += batch.num_rows
        self._written(out, int(answers.nbytes))
        self.later.append(pa.concat_tables(fates) if fates else pa.table({}))
        if index == 1:
            self.trial.named = col.KEPT_DOC_ID in exchange.writes
            self._families(source, places, self.later[-1])

    def _written(self, writer: TableWriter, more: int = 0) -> None:
        """A pass' file is finished; what a file takes without a row stands apart, for each unit has one."""
        empty = [_empty(schema) for schema in (writer.schema, self.have.ledger, QUARANTINE_SCHEMA)]
        self.trial.empty += sum(empty)
        self.trial.work.append(max(0, int(writer.close()["bytes"]) - empty[0]) + more)

    def _families(self, source: RowFile, places: Ints, fates: pa.Table) -> None:
        """Who stands for whom among the documents that met."""
        count = len(places)
        text = np.asarray(source.column(col.BYTES).to_numpy(), np.int64) if count else np.zeros(0, np.int64)
        family, reason = np.arange(count), np.full(count, -1, np.int64)
        reasons: list[Key] = []
        if count and col.KEPT_DOC_ID in fates.schema.names:
            keeper = fates.column(col.KEPT_DOC_ID).combine_chunks()
            gone = np.flatnonzero(
                pc.and_(keeper.is_valid(), fates.column(col.FATE).combine_chunks().is_valid()).to_numpy(
                    zero_copy_only=False
                )
            )
            known = source.column(col.DOC_ID).combine_chunks()
            at = pc.index_in(keeper.take(pa.array(gone)), value_set=known).fill_null(-1).to_numpy(zero_copy_only=False)
            family[gone] = np.where(at >= 0, at, gone)
            for key, rows in _keys(fates, gone).items():
                reason[rows] = len(reasons)
                reasons.append(key)
        content = None
        if count and col.CONTENT_ID in source.schema.names:
            ids = source.column(col.CONTENT_ID).combine_chunks()
            content = pc.index_in(ids, value_set=ids).to_numpy(zero_copy_only=False).astype(np.int64)
        self.trial.met = Met(places, text, family, reason, tuple(reasons), content)

    def publish(self) -> None:
        """Shards and a ledger part, as the last tasks of a run write them."""
        options, have = self.recipe.shards, self.have
        began = time.process_time()
        last = RowFile(self.path(f"rows{len(have.passes) - 1}"))
        table = pa.Table.from_batches(self.sizes) if self.sizes else pa.table({"rows": [], "bytes": []})
        numbers = [np.asarray(table.column(n).to_numpy(), np.int64) for n in ("rows", "bytes")]
        planned = plan_shards([(numbers[0], numbers[1])], row_cost(have.shard), options.max_bytes, options.batch_rows)
        for segments in planned:
            slices = (rows for s in segments for rows in last.slice(s.first_row, s.last_row))
            path = self.path("shard")
            batches = rebatch(slices, have.shard, options.batch_rows)
            self.trial.shards.append(int(write_shard(path, have.shard, batches)["bytes"]))
            path.unlink()
        rows = ledger.concat(self.fates, have.ledger)
        self.trial.fates = int(rows.nbytes) + sum(int(later.nbytes) for later in self.later)
        for later in self.later:
            if later.num_columns:
                rows = ledger.merge(rows, later)
        rows = ledger.finish(rows)
        sizes = []
        for part in (rows, rows.slice(0, 0)):
            path = self.path("ledger")
            pq.write_table(part, path, compression="zstd", row_group_size=LEDGER_ROWS, store_schema=True)
            sha256_of(path)
            sizes.append(path.stat().st_size + len(index_of(part)))
        ledger_tally(rows, have.scores, seed=self.recipe.audit.seed, samples=self.recipe.audit.samples)
        self.trial.ledger = sizes[0], sizes[1]
        self.trial.publish = time.process_time() - began


def sums(places: Ints, weights: npt.NDArray[np.generic] | None, count: int) -> Floats:
    """The number of rows of each of ``count`` places, or the sum of their weights."""
    return np.bincount(places, None if weights is None else np.asarray(weights, np.float64), count).astype(np.float64)


def _empty(schema: pa.Schema) -> int:
    sink = pa.BufferOutputStream()
    pa.ipc.new_file(sink, schema).close()
    return int(sink.getvalue().size)


def try_sample(recipe: Recipe, batches: Iterator[tuple[int, ReadBatch]], scratch: Path) -> Trial:
    """Take the batches of a sample through the whole recipe; files go into ``scratch``.

    Raises:
        ConfigError, StopError, StageContractError: as a run.
    """
    began, clock = time.process_time(), time.monotonic()
    runner = _Runner(recipe, scratch)
    for index in range(len(runner.have.passes)):
        runner.have.flow(index)
    runner.trial.opening = time.process_time() - began
    runner.first(batches)
    for index in range(1, len(runner.have.passes)):
        runner.after(index)
    runner.publish()
    spent = max(time.process_time() - began, 0.01)
    runner.trial.stretch = max(1.0, (time.monotonic() - clock) / spent)
    return runner.trial


def _keys(fates: pa.RecordBatch | pa.Table, rows: Ints) -> dict[Key, Ints]:
    columns = (fates.column(n).take(pa.array(rows)).to_pylist() for n in (col.FATE, col.STAGE, col.REASON))
    found: dict[Key, list[int]] = {}
    for row, key in zip(rows.tolist(), zip(*columns, strict=True), strict=True):
        found.setdefault(key, []).append(row)
    return {key: np.array(at, np.int64) for key, at in found.items()}


def _weights(rows: pa.RecordBatch) -> Floats:
    size = rows.column(col.BYTES if col.BYTES in rows.schema.names else col.BYTES_IN)
    return np.asarray(size.fill_null(0).to_numpy(zero_copy_only=False), np.float64) + _DOCUMENT


def _spread(seconds: float, places: Ints, weights: Floats) -> tuple[Ints, Floats]:
    total = float(weights.sum())
    return places, weights * (seconds / total if total else 0.0)
