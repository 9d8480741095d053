"""One document treated again, from its record on, by the stages of its run: every text on the way, and whether the
ledger's row comes out the same. Near duplicates meet again with the document that stands for them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.builtin import READ
from cleanpipe.engine.commit import digest_of
from cleanpipe.engine.opened import Opened, opened
from cleanpipe.engine.rows import final_rows, waiting_columns
from cleanpipe.errors import CleanpipeError, ConfigError, ShardError
from cleanpipe.exchange import Exchange
from cleanpipe.flow import TEXTS, Flowed
from cleanpipe.io.archive import read_one
from cleanpipe.io.bytesource import ByteSource
from cleanpipe.io.documents import RESOURCE_LIMIT, DocumentBatches
from cleanpipe.io.record import Damage, ReadLimits
from cleanpipe.options import StorageOptions
from cleanpipe.quarantine import UNREADABLE, ledger_columns
from cleanpipe.queries.opened_run import OpenRun
from cleanpipe.recipe import Recipe
from cleanpipe.registry import code_version
from cleanpipe.stage import Stage

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Boundary:
    """A text as a stage left it: the first of its kind, or another than before."""

    stage: str
    column: str
    text: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A value of the ledger that the replay does not give."""

    column: str
    ledger: Any
    replay: Any


@dataclass(slots=True)
class Replay:
    """What the replay of one document gave.

    undone: why it was not done, or not to its end; "" where it was. declined: it was not even tried, for good reason.
    same: ledger columns that came out equal. unproven: columns that hang on all documents of the run. steps: each stage
    that ran, and whether the document came through. head: of the record, its headers. windows: its rows of a shard.
    error: of a damage, or of a step that raised. keeper: the replay of the document that stands for this one, where
    the two met again.
    """

    undone: str = ""
    declined: bool = False
    same: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    steps: list[tuple[str, bool]] = field(default_factory=list)
    head: Mapping[str, str] = field(default_factory=dict)
    block_bytes: int = 0
    boundaries: list[Boundary] = field(default_factory=list)
    windows: pa.Table | None = None
    row: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    keeper: Replay | None = None
    seconds: float = 0.0

    @property
    def text(self) -> str | None:
        """The document's text as it was judged, hashed and cut; None where it did not get so far."""
        return next((b.text for b in reversed(self.boundaries) if b.column == col.TEXT), None)

    @property
    def proven(self) -> bool:
        """Whether everything that could be compared is equal."""
        return not self.undone and not self.differences and (self.keeper is None or self.keeper.proven)


class _Held:
    """Rows in memory as the ``Part`` that an exchange sees."""

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._batch, self.rows = rows, rows.num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        """One column; nulls where the rows do not have it."""
        if name not in self._batch.schema.names:
            return pa.chunked_array([pa.nulls(self.rows)])
        return pa.chunked_array([self._batch.column(name)])

    def take(self, name: str, rows: npt.NDArray[np.int64]) -> pa.Array:
        """Values of one."""
        return self._batch.column(name).take(pa.array(rows))


class Replayer:
    """Replays documents of one run.

    Args:
        run: where the documents are.
        uris: source → where the input lies.
        row_of: the ledger's row of a doc_id, for documents that stand for others.
    """

    def __init__(self, run: OpenRun, uris: Mapping[str, str], row_of: Callable[[bytes], Row | None]) -> None:
        self.run, self.uris, self._row_of = run, uris, row_of
        self._have: Opened | None = None
        read = run.recipe.read
        self._limits = ReadLimits(max_body=read.max_body, expansion=read.expansion)

    def cautions(self) -> list[str]:
        """In what today's program is not that of the run: code, models."""
        return program_changes(self.run.recipe, self.run.facts["identity"])

    def input_changes(self, row: Row) -> list[str]:
        """In what the document's input is not what the run read."""
        source, uri = str(row[col.SOURCE]), self.uris.get(str(row[col.SOURCE]))
        was = next((i for i in self.run.facts["identity"]["inputs"] if i["source"] == source), None)
        if uri is None or was is None:
            return []
        try:
            with ByteSource(uri, storage=_storage(self.run)) as file:
                size, stamp = file.size, file.modified
        except CleanpipeError:
            return []  # reading the record says it
        if int(was["size"]) > 0 and size != int(was["size"]):
            return [f"the input {source} has {size:,} bytes, {int(was['size']):,} when it was run"]
        if stamp and was["stamp"] and stamp != was["stamp"]:
            return [f"the input {source} has another time or tag than when it was run; its size is the same"]
        return []

    def replay(self, row: Row, error: str = "") -> Replay:
        """Treat a document again. Never raises for what a page, an input or the storage is like.

        error: of its quarantine row.
        """
        began = time.perf_counter()
        out = Replay()
        try:
            if row.get(col.REASON) == RESOURCE_LIMIT:
                out.undone, out.declined = "a guard set it aside: what ended a worker is not run again here", True
            elif error == UNREADABLE:
                again = f"`cleanpipe quarantine {self.run.root} --rerun` tries again"
                out.undone, out.declined = f"storage did not give the input when it was run; {again}", True
            else:
                self._replay(row, out)
        except CleanpipeError as fault:
            out.undone = out.undone or _why(fault)
        out.seconds = time.perf_counter() - began
        return out

    def _replay(self, row: Row, out: Replay) -> None:
        have = self._opened()
        table = self._first(row, out)
        if table is None:
            return
        flowed: Flowed | None = None
        if isinstance(table, pa.RecordBatch):
            flowed = have.flow(0).run(table, seen=_watching(out))
            last = len(have.passes) == 1
            table = _ledger_table(table, flowed, have.ledger, last=last)
            for index in range(1, len(have.passes)):
                if not flowed.rows.num_rows or row.get(col.FATE) is None:
                    break
                rows = self._met(index, flowed.rows, row, out)
                flowed = have.flow(index).run(rows, seen=_watching(out))
                table = ledger.merge(table, _fates(flowed, last=index == len(have.passes) - 1))
            if flowed.failures:
                out.error = f"{flowed.failures[0].error}: {flowed.failures[0].message}"
        if row.get(col.FATE) is not None:
            table = ledger.finish(table)
            if flowed is not None and flowed.rows.num_rows:
                out.windows = pa.Table.from_batches([final_rows(flowed.rows, have.shard)])
        out.row = table.to_pylist()[0]
        self._compare(row, out)

    def _opened(self) -> Opened:
        if self._have is None:
            try:
                self._have = opened(self.run.recipe)
                for index in range(len(self._have.passes)):
                    self._have.flow(index)
            except ConfigError:
                raise
            except Exception as error:  # a stage of the user's own
                raise ConfigError(f"a stage cannot be opened: {type(error).__name__}: {error}") from error
        return self._have

    def _first(self, row: Row, out: Replay) -> pa.RecordBatch | pa.Table | None:
        """The document as a batch of one row; of one that cannot be read its ledger row."""
        source = str(row[col.SOURCE])
        uri = self.uris.get(source)
        if uri is None:
            raise ConfigError(f"where the input {source} lies is not known: name it by --input")
        place = int(row[col.RECORD_OFFSET]), int(row[col.RECORD_LENGTH]), str(row[col.OFFSET_KIND])
        item = read_one(uri, *place, limits=self._limits, storage=_storage(self.run))
        if isinstance(item, Damage):
            out.error = f"{item.error}: {item.message}"
        else:
            out.head, out.block_bytes = item.headers, len(item.block)
        for part in DocumentBatches().rows([item], source, self._limits):
            if part.failed:
                out.error = out.error or f"{part.failed[0].error}: {part.failed[0].message}"
                out.steps.append((READ, False))
                schema = self._opened().ledger
                return ledger.conform(ledger_columns(part.failed, ledger.IDENTITY, READ), 1, schema)
            out.steps.append((READ, True))
            return part.batch
        out.undone = f"at {source}@{place[0]:,} lies a record that is no document any more"
        return None

    # --- meeting

    def _met(self, index: int, rows: pa.RecordBatch, row: Row, out: Replay) -> pa.RecordBatch:
        """The document's rows with what a meeting says of it: of it alone, or of it and the one that stands for it."""
        have = self._opened()
        exchange = have.passes[index].exchange
        assert exchange is not None
        mine = _waiting(rows, have, index - 1)
        other = self._other(index, row, out)
        parts = [mine] if other is None else sorted((mine, other), key=lambda b: b.column(col.SOURCE)[0].as_py())
        tables = exchange.meet([_Held(p) for p in parts]).tables
        told = tables[next(i for i, p in enumerate(parts) if p is mine)].combine_chunks().to_batches()[0]
        out.unproven += [n for n in _of_all(exchange) if n in have.ledger.names and n not in out.unproven]
        return col.with_columns(mine, {n: told.column(n) for n in told.schema.names})

    def _other(self, index: int, row: Row, out: Replay) -> pa.RecordBatch | None:
        """Rows of the document that stands for this one, as they come to the same meeting."""
        kept = row.get(col.KEPT_DOC_ID)
        if kept is None:
            return None
        its = self._row_of(kept)
        if its is None:
            raise ConfigError(f"the document that stands for this one, {kept.hex()}, is in no row of the ledger")
        out.keeper = again = Replay()
        have = self._opened()
        first = self._first(its, again)
        if not isinstance(first, pa.RecordBatch):
            raise ShardError(f"the document that stands for this one cannot be read again ({again.error})")
        flowed = have.flow(0).run(first, seen=_watching(again))
        for before in range(1, index):
            rows = self._met(before, flowed.rows, {**its, col.KEPT_DOC_ID: None}, again)
            flowed = have.flow(before).run(rows, seen=_watching(again))
        table, came = _ledger_table(first, flowed, have.ledger, last=False), flowed.rows
        if any(col.CONTENT_ID in s.writes for made in have.passes[index:] for s in made.stages):
            for later in range(index, len(have.passes)):  # its text is another in the end
                if flowed.rows.num_rows:
                    rows = self._met(later, flowed.rows, {**its, col.KEPT_DOC_ID: None}, again)
                    flowed = have.flow(later).run(rows)
                    table = ledger.merge(table, _fates(flowed, last=later == len(have.passes) - 1))
        again.row = table.to_pylist()[0]
        for name in (col.DOC_ID, col.CONTENT_ID, col.CHARS_OUT):
            _one(again, name, its.get(name), again.row.get(name))
        if not came.num_rows:
            raise ShardError("the document that stands for this one does not come to the meeting any more")
        return _waiting(came, have, index - 1)

    # --- proof

    def _compare(self, row: Row, out: Replay) -> None:
        """Every column of the ledger, but those that hang on all documents."""
        out.unproven = [col.SHARD, *out.unproven]
        for name, value in out.row.items():
            if name in row and name not in out.unproven:
                _one(out, name, row[name], value)


def program_changes(recipe: Recipe, identity: Mapping[str, Any]) -> list[str]:
    """In what today's program is not that of a run, one line each."""
    out = []
    if code_version(s.ref for s in recipe.settings) not in (identity.get("code"), identity.get("kept_code")):
        out.append("the code is not that of the run: what differs below may come of that")
    was = identity.get("models") or {}
    for stage in recipe.pipeline().stages:
        try:
            for name, path in stage.models().items():
                if was.get(f"{stage.name}.{name}") != digest_of(path):
                    out.append(f"the model {stage.name}.{name} is not that of the run: its scores may differ")
        except ConfigError as error:
            out.append(str(error))
    return out


def _one(out: Replay, name: str, ours: Any, theirs: Any) -> None:
    if ours == theirs or (ours != ours and theirs != theirs):  # NaN
        out.same.append(name)
    else:
        out.differences.append(Difference(name, ours, theirs))


def _of_all(exchange: Exchange) -> Sequence[str]:
    return [n for n in exchange.writes if n not in (col.KEPT_DOC_ID, col.JACCARD)]


def _waiting(rows: pa.RecordBatch, have: Opened, index: int) -> pa.RecordBatch:
    names = waiting_columns(have.passes, index)
    return rows.select([n for n in rows.schema.names if n in names])


def _fates(flowed: Flowed, *, last: bool) -> pa.Table:
    counts = np.bincount(flowed.origin, minlength=flowed.fates.num_rows)
    windows = pa.array(counts, pa.int32(), mask=(counts == 0) | (not last))
    return ledger.verdicts(flowed.fates, windows)


def _ledger_table(entered: pa.RecordBatch, flowed: Flowed, schema: pa.Schema, *, last: bool) -> pa.Table:
    """As the first pass writes it (engine/read.py)."""
    verdicts = _fates(flowed, last=last)
    columns = {n: entered.column(n) for n in ledger.IDENTITY}
    columns |= {n: verdicts.column(n) for n in verdicts.schema.names}
    return ledger.conform(columns, entered.num_rows, schema)


def _watching(out: Replay) -> Callable[[Stage, pa.RecordBatch, pa.RecordBatch], None]:
    """Takes down every step, and the text where it is new or another."""
    last = {b.column: b.text for b in out.boundaries}

    def seen(stage: Stage, _before: pa.RecordBatch, after: pa.RecordBatch) -> None:
        if out.steps[-1][1]:
            out.steps.append((stage.name, after.num_rows > 0))
        if after.num_rows != 1 or col.WINDOW in after.schema.names:
            return
        for name in TEXTS:
            text = after.column(name)[0].as_py() if name in after.schema.names else None
            if text is not None and last.get(name) != text:
                last[name] = text
                out.boundaries.append(Boundary(stage.name, name, text))

    return seen


def _storage(run: OpenRun) -> StorageOptions:
    return run.recipe.storage


def _why(error: CleanpipeError) -> str:
    more = "" if "--input" in str(error) or not isinstance(error, ShardError) else ": name where it lies now by --input"
    return f"{error}{more}"
