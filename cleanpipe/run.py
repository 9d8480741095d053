"""One run, from a recipe and inputs to a finished folder. Idempotent: start the same line again and it goes on."""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cleanpipe.engine.base import Context, Engine
from cleanpipe.engine.commit import digest_of
from cleanpipe.engine.driver import Driver
from cleanpipe.engine.folder import Claim, Finished, claim, place
from cleanpipe.engine.going import Going, Limits
from cleanpipe.engine.journal import heal
from cleanpipe.engine.perform import translate
from cleanpipe.errors import ConfigError, DamagedFileError, StopError
from cleanpipe.io.inputs import Input, resolve_inputs
from cleanpipe.io.remote import redacted
from cleanpipe.io.store import Store, open_store
from cleanpipe.observer import Observer
from cleanpipe.quarantine import read_limits
from cleanpipe.recipe import Recipe, load_recipe
from cleanpipe.registry import code_version
from cleanpipe.stage_hooks import prove_hooks

ENGINES = ("serial", "local", "ray")
HEALINGS = 4  # starts of one run over damaged files


def prepare(
    recipe: Recipe, inputs: Sequence[str], source_root: str | None = None
) -> tuple[dict[str, Any], tuple[Input, ...]]:
    """The run's identity: settings, models, code, inputs. Everything that can be wrong before a run is found here.

    Raises:
        ConfigError: with one clear line.
    """
    pipeline = recipe.pipeline()
    pipeline.validate()
    models: dict[str, str] = {}
    for stage in pipeline.stages:
        models |= {f"{stage.name}.{name}": digest_of(Path(path)) for name, path in stage.models().items()}
        stage.open()  # options that cannot work and models that are damaged stop the run before it starts
        prove_hooks(stage)
    given = list(inputs) or list(recipe.inputs)
    if not given:
        raise ConfigError("no input: name archives, folders, globs, URLs or a file that lists them")
    found = tuple(resolve_inputs(given, source_root=source_root, storage=recipe.storage))
    identity = {
        "settings": recipe.canonical(),
        "models": models,
        "code": code_version(s.ref for s in recipe.settings),
        "inputs": [{"source": i.source, "size": i.size, "stamp": i.stamp} for i in found],
    }
    return json.loads(json.dumps(identity)), found


def run(
    recipe: Recipe | str,
    inputs: Sequence[str] | str = (),
    out: str | Path = "run",
    *,
    engine: str | None = None,
    workers: int | None = None,
    sets: Iterable[str] = (),
    source_root: str | None = None,
    reuse: str | Path | None = None,
    limits: str | Path | None = None,
    keep_work: bool = False,
    observer: Observer | None = None,
) -> Finished:
    """Clean ``inputs`` by ``recipe`` into the folder ``out``.

    Args:
        recipe: a Recipe, the name of one, or the path of a TOML file.
        inputs: paths, globs, folders, list files or fsspec URLs; none: those the recipe names.
        engine: "serial", "local" (default) or "ray" (default where RAY_ADDRESS is set).
        workers: worker processes; default: processors of this machine.
        sets: ``stage.option=value`` changes to the recipe.
        out: the run folder, or ``s3://bucket/prefix``.
        reuse: a run folder whose finished units are taken over where they match.
        limits: a published ``quarantine/limits.json``: its documents are set aside untreated, as in the run that wrote
            it.
        keep_work: leave ``work/`` in the folder, for a later ``reuse``.

    Raises:
        ConfigError, StopError, StageContractError: see errors.py. A ShardError never leaves: it is in the result.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, sets)
    given = [inputs] if isinstance(inputs, str) else list(inputs)
    root, observer = place(out, "OUT"), observer or Observer()
    pool = chosen(engine, workers)
    old = _old(reuse, recipe, observer) if reuse else None
    known = _limits(limits) if limits else {}
    identity, found = prepare(recipe, given, source_root)
    if known:
        identity["limits"] = {source: sorted(documents) for source, documents in sorted(known.items())}
    context = Context(recipe, root, uuid.uuid4().hex[:8])
    taken = claiming(context, identity, found, observer)
    if isinstance(taken, Finished):
        return taken
    return drive(context, identity, found, taken, pool, observer, limits=known, reuse=old, keep_work=keep_work)


def chosen(engine: str | None, workers: int | None) -> tuple[str, int]:
    """The engine's name and its number of workers.

    Raises:
        ConfigError: no such engine, or no worker.
    """
    name = engine or ("ray" if os.environ.get("RAY_ADDRESS") else "local")
    if name not in ENGINES:
        raise ConfigError(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    if count < 1:
        raise ConfigError(f"{count} workers: there must be at least 1")
    return name, count


def _old(reuse: str | Path, recipe: Recipe, observer: Observer) -> Store:
    old = open_store(place(reuse, "--reuse"), recipe.storage)
    if next(old.names(), None) is None:
        raise ConfigError(f"--reuse {reuse}: there is no such folder, or nothing in it")
    if next(old.names("work/done/"), None) is None:
        observer.warn(f"nothing to take over from {reuse}: it has no work/ (it needs --keep-work, or to be unfinished)")
    return old


def _limits(path: str | Path) -> Limits:
    try:
        return read_limits(Path(path).read_bytes(), str(path))
    except OSError as error:
        raise ConfigError(f"--limits {path} cannot be read: {error.strerror or error}") from error


def claiming(
    context: Context,
    identity: dict[str, Any],
    inputs: Sequence[Input],
    observer: Observer,
    *,
    again: Callable[[], None] | None = None,
) -> Finished | Claim:
    """Take the run folder; see ``claim``. What its storage answers is translated."""
    recipe = context.recipe
    about = {
        "recipe": recipe.name,
        "stages": [s.ref.name if s.ref.module else str(s.ref.path) for s in recipe.settings],
        "uris": [redacted(i.uri) for i in inputs],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        return claim(context.store, identity, observer.warn, about=about, again=again)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise translate(error, context.out) from error
        raise ConfigError(f"the run folder {context.out} cannot be used: {error.strerror or error}") from error


def drive(
    context: Context,
    identity: dict[str, Any],
    inputs: tuple[Input, ...],
    taken: Claim,
    pool: tuple[str, int],
    observer: Observer,
    *,
    limits: Limits,
    reuse: Store | None,
    keep_work: bool,
) -> Finished:
    """Run to the end. Where a file of an earlier start turns out damaged, its unit is done again."""
    facts = {"recipe": context.recipe.name, "out": redacted(context.out), "engine": pool[0], "workers": pool[1]}
    observer.begun(context.run_id, {**facts, "inputs": len(inputs)})
    try:
        for _ in range(HEALINGS):
            workers = _engine(*pool, context)
            try:
                going = Going(
                    context,
                    identity,
                    inputs,
                    workers,
                    observer,
                    taken.hold,
                    limits=limits,
                    reuse=reuse,
                    keep_work=keep_work,
                )
                return Driver(going).run()
            except DamagedFileError as error:
                taken.hold.check()  # else it is another driver that tidies up
                observer.warn(f"{error.source} {error.message}: looking for more of that kind")
                units = heal(context.store, error.source or "")
                observer.warn(f"{units:,} units are done again")
            except OSError as error:
                raise translate(error, context.out) from error
            finally:
                workers.close()
        raise StopError("files of the run keep changing; is another program at work there?", source=context.out)
    except ConfigError:
        taken.withdraw()
        raise
    finally:
        taken.release()


def _engine(name: str, count: int, context: Context) -> Engine:
    if name == "serial":
        from cleanpipe.engine.serial import SerialEngine

        return SerialEngine(context)
    if name == "local":
        from cleanpipe.engine.local import LocalEngine

        return LocalEngine(context, count)
    from cleanpipe.engine.ray import RayEngine

    return RayEngine(context, count)
