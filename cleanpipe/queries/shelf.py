"""Ledger parts and their indexes by the number of the part. Of an object store each is fetched when it is asked for: a
look for one document needs the indexes and one part, not the whole ledger.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe.engine.folder import MANIFEST, load, place
from cleanpipe.engine.plan import UnitPlan
from cleanpipe.errors import DamagedFileError
from cleanpipe.io.inputs import Input
from cleanpipe.io.store import LocalStore, Store, open_store
from cleanpipe.options import StorageOptions
from cleanpipe.queries.index import KEYED, Index, index_name, index_of
from cleanpipe.queries.opened_run import OpenRun, damaged, open_run

_HERE = StorageOptions()
_READERS = 16  # files fetched at a time
_KINDS = {col.DOC_ID: col.ID, col.KEPT_DOC_ID: col.ID, col.RECORD_ID: pa.string(), col.URL: pa.string()}
Place = tuple[int, int]  # ledger part, row in it


class Shelf:
    """The parts of one open run. cautions: what is wrong with an index, so that its part is scanned instead."""

    def __init__(self, run: OpenRun, stack: ExitStack, files: Mapping[str, Any] | None) -> None:
        self.run, self._stack = run, stack
        self._files = files  # of the manifest, where they lie on an object store
        self._paths: dict[str, Path] = {}
        self._open: dict[int, pq.ParquetFile] = {}
        self.cautions: list[str] = []
        names = [p.name for p in run.parts] if files is None else [n for n in files if n.startswith("ledger/part-")]
        self.parts = sorted(int(n.rpartition("-")[2].partition(".")[0]) for n in names)

    @property
    def store(self) -> Store:
        """Of the run."""
        return self.run.store

    def file(self, name: str) -> Path | None:
        """A published file of the run as a local path for the time of the ``with``; None where it is not there."""
        if self._files is None:
            path = self.run.folder / name
            return path if path.is_file() else None
        if name not in self._files:
            return None
        if name not in self._paths:
            try:
                self._paths[name] = self._stack.enter_context(self.store.fetch(name, self._files[name]))
            except DamagedFileError as error:
                raise damaged(self.run.root, name, error.message) from error
        return self._paths[name]

    # ledger

    def part(self, number: int) -> pq.ParquetFile:
        """A ledger part, opened once. Raises ConfigError where it is damaged."""
        if number not in self._open:
            name = f"ledger/part-{number:05d}.parquet"
            path = self.file(name)
            if path is None:
                raise damaged(self.run.root, name, "it is not there")
            with self._reading(number):
                self._open[number] = self._stack.enter_context(pq.ParquetFile(path, memory_map=True))
        return self._open[number]

    @contextmanager
    def _reading(self, number: int) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise damaged(self.run.root, f"ledger/part-{number:05d}.parquet", str(error)) from error

    def columns(self, number: int, names: Sequence[str]) -> pa.Table:
        """Whole columns of a part; those that an older ledger does not have are left out."""
        file = self.part(number)
        with self._reading(number):
            return file.read(columns=[n for n in names if n in file.schema_arrow.names])

    def rows(self, places: Sequence[Place], names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The rows at these places, in their order, with all columns or these."""
        found: dict[Place, dict[str, Any]] = {}
        for number in sorted({part for part, _ in places}):
            file = self.part(number)
            columns = None if names is None else [n for n in names if n in file.schema_arrow.names]
            wanted = np.array(sorted({row for part, row in places if part == number}))
            first = 0
            with self._reading(number):
                for group in range(file.num_row_groups):
                    rows = file.metadata.row_group(group).num_rows
                    here = wanted[(wanted >= first) & (wanted < first + rows)]
                    if len(here):
                        table = file.read_row_group(group, columns).take(pa.array(here - first))
                        found |= {(number, int(r)): v for r, v in zip(here, table.to_pylist(), strict=True)}
                    first += rows
        return [found[p] for p in places if p in found]

    def offsets(self, number: int, source: str, low: int, high: int) -> list[tuple[int, int]]:
        """Rows and record offsets of a source in a part; row groups without an offset low ≤ offset ≤ high left out."""
        file, out, first = self.part(number), list[tuple[int, int]](), 0
        with self._reading(number):
            at = file.schema_arrow.names.index(col.RECORD_OFFSET)
            for group in range(file.num_row_groups):
                facts = file.metadata.row_group(group)
                known = facts.column(at).statistics
                if known is None or not known.has_min_max or (known.min <= high and low <= known.max):
                    table = file.read_row_group(group, [col.SOURCE, col.RECORD_OFFSET])
                    mine = np.flatnonzero(pc.equal(table.column(col.SOURCE), source).to_numpy())
                    offsets = table.column(col.RECORD_OFFSET).to_numpy()
                    out += [(first + int(r), int(offsets[r])) for r in mine]
                first += facts.num_rows
        return out

    def units_of(self, source: str) -> list[int]:
        """Numbers of the parts that an input's records are in."""
        inputs = self.run.facts["inputs"]
        if all("units" in i for i in inputs):
            counts = [int(i["units"]) for i in inputs]
        else:
            found = [Input(i["source"], "", int(i["size"]), "") for i in inputs]
            plan = UnitPlan(found, self.run.recipe.read.unit_bytes)
            counts = [len(plan.of_input(n)) for n in range(len(found))]
        have, first = set(self.parts), 0
        for given, count in zip(inputs, counts, strict=True):
            if given["source"] == source:
                return [n for n in range(first, first + count) if n in have]
            first += count
        return []

    # index

    @cached_property
    def indexes(self) -> Mapping[int, Index]:
        """Of each part that has a sound one."""
        if self._files is None:
            data = [(n, self._mapped(n)) for n in self.parts] if self.run.finished else []
        else:
            names = [(n, index_name(n)) for n in self.parts if index_name(n) in self._files]
            with ThreadPoolExecutor(_READERS) as pool:
                data = list(zip([n for n, _ in names], pool.map(self._fetched, [n for _, n in names]), strict=True))
        out = {}
        for number, found in data:
            if found is None:
                continue
            try:
                out[number] = Index.of(found)
            except ValueError as error:
                self.cautions.append(f"{index_name(number)}: {error}: see `cleanpipe verify {self.run.root}`")
        if lost := len(self.parts) - len(data) + sum(found is None for _, found in data) if out else 0:
            self.cautions.append(
                f"{lost:,} of {len(self.parts):,} ledger parts have no index: see `cleanpipe verify {self.run.root}`"
            )
        return out

    def made(self, number: int) -> Index:
        """The index of a part that has none, from its columns: a second for 300,000 rows."""
        table = self.columns(number, KEYED)
        for name in KEYED:
            if name not in table.column_names:
                table = table.append_column(name, pa.nulls(table.num_rows, _KINDS[name]))
        return Index.of(index_of(table))

    def _fetched(self, name: str) -> memoryview:
        try:
            return memoryview(self.store.read(name))
        except FileNotFoundError:
            return memoryview(b"")  # told as damaged

    def _mapped(self, number: int) -> memoryview | None:
        try:
            with (self.run.folder / index_name(number)).open("rb") as file:
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except FileNotFoundError:
            return None
        except (OSError, ValueError):  # an empty file cannot be mapped
            return memoryview(b"")


@contextmanager
def open_shelf(out: str | Path, storage: StorageOptions = _HERE) -> Iterator[Shelf]:
    """Open a run to look documents up in it. Raises what ``open_run`` does."""
    store = open_store(place(out, "OUT"), storage)
    far = not isinstance(store, LocalStore) and store.size(MANIFEST) >= 0
    want = () if far else ("ledger",)  # without an index, or with a broken one, there is an answer too
    with ExitStack() as stack:
        run = stack.enter_context(open_run(out, storage, want=want))
        files = load(store, MANIFEST, ("files",))["files"] if far else None
        yield Shelf(run, stack, files)
