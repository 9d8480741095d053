"""An unfinished run as one that can be asked: the units that are done, with a ledger and an audit of them.

A row of the ledger whose fate is null is not decided yet: its document waits for a meeting with all the others. In the
audit such documents stand among the kept: not lost so far; ``audit["unfinished"]`` says how many they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe import ledger
from cleanpipe.audit.build import build_audit
from cleanpipe.audit.facts import Samples, ledger_tally, merge_samples
from cleanpipe.audit.lines import missing
from cleanpipe.engine.commit import row_file
from cleanpipe.engine.folder import MANIFEST
from cleanpipe.engine.publish import LEDGER_ROWS
from cleanpipe.errors import DamagedFileError, StopError
from cleanpipe.io.store import LocalStore, Store
from cleanpipe.options import StorageOptions
from cleanpipe.quarantine import QUARANTINE_SCHEMA
from cleanpipe.queries.opened_run import OpenRun
from cleanpipe.queries.unfinished import Unfinished, under_way_of
from cleanpipe.tally import Tally, add

_OF_SHARDS = frozenset({"rows of the shards", "characters of the shards"})
_OF_THE_END = frozenset({"documents kept", "bytes kept", "characters kept"})


@contextmanager
def open_partial(
    store: Store, storage: StorageOptions, want: Sequence[str] = ("ledger", "audit", "quarantine")
) -> Iterator[OpenRun]:
    """What a run has so far. Nothing is written into its folder, and a driver may be at work there.

    Args:
        store: the run's. storage: how object stores are reached; its ``scratch`` gets the ledger.
        want: with "ledger", the ledger parts of the units that are done lie in ``OpenRun.folder``; with "quarantine"
            what these set aside.

    Raises:
        ConfigError: there is no unfinished run, or its recipe cannot be rebuilt yet. StopError: the scratch is full.
    """
    with tempfile.TemporaryDirectory(prefix="cleanpipe-", dir=storage.scratch or None) as made:
        yield _opened(store, storage, Path(made), want)


def _opened(store: Store, storage: StorageOptions, folder: Path, want: Sequence[str]) -> OpenRun:
    state = Unfinished.of(store, storage)
    state.look()
    rows = _Rows(state, folder, tuple(kind for kind in ("ledger", "quarantine") if kind in want))
    for kind in ("ledger", "quarantine"):
        (folder / kind).mkdir()
    for unit in sorted(state.done[0]):
        rows.take(unit)
    rows.close()
    if rows.damaged and store.size(MANIFEST) >= 0:
        raise DamagedFileError("went when the run ended", source="work/")
    audit = _audit(state, rows)
    about = state.plan.get("about") or {}
    uris = about.get("uris") or [None] * len(state.plan["inputs"])
    inputs = [{**i, **({"uri": uri} if uri else {})} for i, uri in zip(state.plan["inputs"], uris, strict=True)]
    identity = {k: v for k, v in state.plan.items() if k != "about"}
    return OpenRun(
        root=store.root,
        folder=folder,
        store=store,
        finished=False,
        done=audit["unfinished"]["done"],
        units=state.units,
        audit=audit,
        facts={"identity": identity, "inputs": inputs},
        recipe=state.recipe,
        phase=state.phase,
        undecided=rows.undecided,
    )


@dataclass(slots=True)
class _Rows:
    """The ledger rows of the units, one unit at a time: counted, and written with what was set aside where wanted.

    damaged: units whose files are not as they were written; the driver does them again, so they are not done.
    """

    state: Unfinished
    folder: Path
    kinds: Sequence[str]  # "ledger", "quarantine"
    tally: Tally = field(default_factory=dict)
    samples: Samples = field(default_factory=dict)
    undecided: int = 0
    damaged: set[int] = field(default_factory=set)
    _published_keys: set[str] = field(default_factory=set)

    def take(self, unit: int) -> None:
        """Count a unit's rows."""
        try:
            if unit in self.state.parts and self._published(unit):
                return
            table, aside = self._merged(unit)
        except DamagedFileError:
            self.damaged.add(unit)
            return
        if not self.state.decided(unit):
            self.undecided += table.column(col.FATE).null_count
            counted = ledger.finish(table)
        else:
            counted = table = ledger.finish(table)
        self._write("ledger", unit, table)
        if aside.num_rows:
            self._write("quarantine", unit, aside)
        options = self.state.recipe.audit
        tally, samples = ledger_tally(counted, self.state.going.have.scores, seed=options.seed, samples=options.samples)
        add(self.tally, tally)
        self._add(samples)

    def close(self) -> None:
        """What the published parts say; where nothing is done yet, an empty part: queries find the schema in it."""
        if self._published_keys:
            add(self.tally, self.state.seen["ledger"].tally(self._published_keys))
        if next((self.folder / "ledger").iterdir(), None) is None:
            self._write("ledger", 0, self.state.going.have.ledger.empty_table())

    def _add(self, samples: Samples) -> None:
        self.samples = merge_samples(self.samples, samples, self.state.recipe.audit.samples)

    def _merged(self, unit: int) -> tuple[pa.Table, pa.Table]:
        """The unit's ledger rows, and what was set aside."""
        with ExitStack() as stack:
            table: pa.Table | None = None
            aside: list[pa.Table] = []
            for index, done in enumerate(self.state.done):
                if unit not in done:
                    break
                files = self.state.manifest(index, unit)["files"]
                part = stack.enter_context(row_file(self.state.store, files["fates"])).table()
                table = part if table is None else ledger.merge(table, part)
                if "quarantine" in self.kinds:
                    aside.append(stack.enter_context(row_file(self.state.store, files["quarantine"])).table())
            assert table is not None
            return _as_now(table, self.state.going.have.ledger), ledger.concat(aside, QUARANTINE_SCHEMA)

    def _published(self, unit: int) -> bool:
        """A part that the run has published already; false where that is not as it was written."""
        key, store = self.state.parts[unit], self.state.store
        manifest = self.state.seen["ledger"].manifest(key)
        published = manifest["published"]
        if any(store.size(name) != facts["bytes"] for name, facts in published.items()):
            return False
        for name, facts in published.items():
            if name.partition("/")[0] in self.kinds:
                if isinstance(store, LocalStore):
                    (self.folder / name).symlink_to(store.path / name)
                else:
                    with store.fetch(name, facts) as path:
                        (self.folder / name).write_bytes(path.read_bytes())
        self._published_keys.add(key)
        self._add(manifest["samples"])
        return True

    def _write(self, kind: str, unit: int, table: pa.Table) -> None:
        if kind not in self.kinds:
            return
        path = self.folder / kind / f"part-{unit:05d}.parquet"
        try:
            pq.write_table(table, path, compression="zstd", row_group_size=LEDGER_ROWS)
        except OSError as error:
            why = error.strerror or error
            raise StopError(f"local scratch {self.folder} fails ({why}): set storage.scratch to another") from error


def _as_now(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """In the ledger's schema of today, where another version began the run; what that has beyond it stays."""
    more = [field for field in table.schema if field.name not in schema.names]
    whole = pa.schema([*schema, *more])
    return ledger.conform({n: table.column(n) for n in table.schema.names}, table.num_rows, whole)


def _audit(state: Unfinished, rows: _Rows) -> dict[str, Any]:
    """The audit of the units that are done; stages that none of them reached are left out."""
    tally: Tally = {}
    for one in state.tallies(without=rows.damaged):
        add(tally, one)
    passes = state.going.have.passes
    reached = [p for p, done in zip(passes, state.done, strict=True) if done] or list(passes[:1])
    limit = state.recipe.shards.max_bytes
    shards = [
        {"file": name.removeprefix("data/"), **facts, "limit": limit}
        for name, facts in sorted(state.published.items())
        if name.startswith("data/data-")
    ]
    audit = build_audit(
        identity={
            "config_hash": "unfinished",  # the digests of the inputs are known at the end
            "recipe": state.recipe.name,
            "code": state.plan["code"],
            "models": state.plan["models"],
            "inputs": [{"source": i["source"], "size": i["size"], "sha256": ""} for i in state.plan["inputs"]],
        },
        recipe=state.recipe,
        stages=[s for p in reached for s in p.stages],
        tally=tally,
        ledger=rows.tally,
        samples=rows.samples,
        by_source=_by_source(state, rows.damaged),
        meetings={str(m["name"]): m["facts"] for m in state.meetings.values()},
        shards=shards,
    )
    done = len(state.done[0]) - len(rows.damaged)
    audit["unfinished"] = {"done": done, "units": state.units, "phase": state.phase, "undecided": rows.undecided}
    under_way = under_way_of(state)
    for row in audit["funnel"]:
        if row["stage"] in under_way:  # documents of units that are not there yet would count as lost
            for measure in ("documents", "bytes", "characters"):
                row[measure]["share_of_run_input"] = missing("not all units have come so far")
    audit["conservation"] = _judged(audit["conservation"], state)
    return audit


def _judged(conservation: Mapping[str, Any], state: Unfinished) -> dict[str, Any]:
    """The laws that hold on the way too. Between two passes, and before the shards, documents wait: what says that as
    many left one as entered the other holds at the end.
    """
    complete = [len(done) == len(state.done[0]) for done in state.done]
    waits = {
        p.stages[0].name
        for p, whole in zip(state.going.have.passes[1:], complete[1:], strict=True)
        if not whole and p.stages
    }
    left_out = set(_OF_SHARDS)
    left_out |= {f"{what} of {stage}" for what in ("documents", "bytes", "characters") for stage in waits}
    if any(state.done[1:]) and not complete[-1]:
        left_out |= _OF_THE_END
    lines = [line for line in conservation["lines"] if line["what"] not in left_out]
    return {
        **conservation,
        "balanced": all(line["ok"] for line in lines),
        "lines": lines,
        "not_yet": [line["what"] for line in conservation["lines"] if line["what"] in left_out],
    }


def _by_source(state: Unfinished, damaged: set[int]) -> dict[str, dict[str, int]]:
    """Records of each input by type, of the units that are done."""
    plan, out = state.going.plan, dict[str, dict[str, int]]()
    for unit in state.done[0]:
        if unit not in damaged:
            facts = state.manifest(0, unit)["facts"]
            into = out.setdefault(plan.inputs[plan.input_of(unit)].source, {})
            if facts["first"] >= 0 or len(plan.of_input(plan.input_of(unit))) == 1:
                add(into, facts["records"])
    return {source: dict(sorted(records.items())) for source, records in sorted(out.items())}
