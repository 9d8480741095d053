"""Completing a finished run: what a step, a guard or storage set aside is tried again, the rest is kept as it is.

A finished run with such records keeps its ``work/``. The units that hold them are read again, the later passes follow,
and the folder ends as if the run had gone well the first time. Where the code changed meanwhile (a stage was mended),
both code versions are part of the completed run's identity and stand in its audit: nothing is mixed in silence.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cleanpipe.engine.base import Context
from cleanpipe.engine.folder import MANIFEST, PLAN, Claim, Finished, load, place
from cleanpipe.engine.journal import Journal
from cleanpipe.engine.plan import UnitPlan
from cleanpipe.errors import ConfigError, ShardError, StopError
from cleanpipe.io.bytesource import ByteSource
from cleanpipe.io.inputs import Input, resolve_inputs
from cleanpipe.io.store import Store
from cleanpipe.observer import Observer
from cleanpipe.quarantine import may_end_otherwise
from cleanpipe.recipe import Recipe
from cleanpipe.registry import code_version
from cleanpipe.run import chosen, claiming, drive


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the quarantine: the unit it is of, and its rows."""

    unit: int
    rows: pa.Table


def quarantine(store: Store) -> Iterator[Part]:
    """Everything that a finished run set aside, unit by unit.

    Raises:
        ConfigError: there is no finished run.
    """
    named = load(store, MANIFEST, ("files",))["files"]
    for name, facts in sorted(named.items()):
        if name.startswith("quarantine/part-"):
            with store.fetch(name, facts) as path:
                table = pq.read_table(path)
            yield Part(int(name.removeprefix("quarantine/part-").removesuffix(".parquet")), table)


def complete(
    recipe: Recipe,
    out: str,
    *,
    engine: str | None = None,
    workers: int | None = None,
    accept_code: bool = False,
    given: Sequence[str] = (),
    observer: Observer | None = None,
) -> Finished:
    """Try again what lies in a finished run's quarantine and may end otherwise now.

    Args:
        recipe: the run's own (``OUT/recipe.toml``), with the guards and storage of today.
        accept_code: go on though the code is not that of the run; both versions are named in the result.
        given: where inputs lie now, as for a run; those of the run are known by their names. For inputs whose address
            held a signature or a password, which no run publishes.

    Raises:
        ConfigError: no finished run, nothing to try again, its work/ is gone, an input in question is not what it was,
            or the code changed and that is not accepted.
    """
    observer = observer or Observer()
    root = place(out, "OUT")
    context = Context(recipe, root, uuid.uuid4().hex[:8])
    store = context.store
    facts = load(store, "run.json", ("identity", "inputs"))
    if store.size(MANIFEST) >= 0:
        identity = _identity(store, recipe, facts["identity"], accept_code=accept_code)
    else:
        planned = load(store, PLAN, ("again",))  # completing was stopped on its way
        identity = {k: v for k, v in planned.items() if k != "about"}
    now = {i.source: i.uri for i in resolve_inputs(given, source_root=None, storage=recipe.storage)} if given else {}
    inputs = tuple(
        Input(i["source"], now.get(i["source"], was["uri"]), i["size"], i["stamp"])
        for i, was in zip(identity["inputs"], facts["inputs"], strict=True)
    )
    plan = UnitPlan(inputs, recipe.read.unit_bytes)
    for index in sorted({plan.input_of(unit) for unit in identity["again"]}):
        _is_as_it_was(inputs[index], recipe)
    pool = chosen(engine, workers)
    taken = claiming(context, identity, inputs, observer, again=lambda: _forget(store, set(identity["again"])))
    assert isinstance(taken, Claim)
    return drive(context, identity, inputs, taken, pool, observer, limits={}, reuse=None, keep_work=False)


def _is_as_it_was(source: Input, recipe: Recipe) -> None:
    """Before anything is undone: what is to be read again is there, and is what it was."""
    try:
        with ByteSource(source.uri, storage=recipe.storage) as file:
            same = file.size == source.size and file.modified in ("", source.stamp)
    except (ShardError, StopError) as error:
        raise ConfigError(f"{error}; nothing was changed: mend that, or name where it lies now by --input") from error
    if not same:
        raise ConfigError(f"input {source.source} is not what it was when the run read it: start a new run")


def _identity(store: Store, recipe: Recipe, identity: dict[str, Any], *, accept_code: bool) -> dict[str, Any]:
    again = sorted({p.unit for p in quarantine(store) if may_end_otherwise(p.rows).num_rows})
    if not again:
        raise ConfigError(f"{store.root}: nothing in its quarantine can end otherwise: damaged bytes stay damaged")
    code = code_version(s.ref for s in recipe.settings)
    if code != identity["code"]:
        if not accept_code:
            raise ConfigError(
                "the code is not that of the run: --accept-code reads the units in question by the new code, keeps the "
                "others, and names both versions in the audit; or start a new run"
            )
        identity = {**identity, "kept_code": identity.get("kept_code", identity["code"]), "code": code}
    return {**identity, "again": sorted({*identity.get("again", []), *again})}


def _forget(store: Store, units: set[int]) -> None:
    """Make the first pass of these units unfinished, and all that follows from it."""
    journal = Journal(store, "pass0")
    for key in list(journal):
        if journal[key]["unit"] in units:
            journal.forget(key)
    for name in {n.split("/")[2] for n, _ in store.names("work/done/")} - {"pass0"}:
        store.delete_below(f"work/done/{name}/")
