"""One run, from a recipe and inputs to a finished folder. Idempotent: start the same line again and it goes on."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from cleanpipe.engine.base import Context, Engine
from cleanpipe.engine.commit import digest_of
from cleanpipe.engine.driver import Driver
from cleanpipe.engine.folder import Finished, claim, local_folder
from cleanpipe.engine.perform import translate
from cleanpipe.errors import ConfigError
from cleanpipe.io.inputs import Input, resolve_inputs
from cleanpipe.observer import Observer
from cleanpipe.recipe import Recipe, load_recipe
from cleanpipe.registry import code_version

ENGINES = ("serial", "local", "ray")


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
    given = list(inputs) or list(recipe.inputs)
    if not given:
        raise ConfigError("no input: name archives, folders, globs, URLs or a file that lists them")
    found = tuple(resolve_inputs(given, source_root=source_root))
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
        reuse: a run folder whose finished units are taken over where they match.
        keep_work: leave ``work/`` in the folder, for a later ``reuse``.

    Raises:
        ConfigError, StopError, StageContractError: see errors.py. A ShardError never leaves: it is in the result.
    """
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, sets)
    given = [inputs] if isinstance(inputs, str) else list(inputs)
    folder, observer = local_folder(out, "OUT"), observer or Observer()
    old = local_folder(reuse, "--reuse") if reuse else None
    if old is not None and not old.is_dir():
        raise ConfigError(f"--reuse {reuse}: there is no such folder")
    if old is not None and not (old / "work").is_dir():
        observer.warn(f"nothing to take over from {reuse}: it has no work/ (it needs --keep-work, or to be unfinished)")
    engine = engine or ("ray" if os.environ.get("RAY_ADDRESS") else "local")
    if engine not in ENGINES:
        raise ConfigError(f"unknown engine {engine!r}; known: {', '.join(ENGINES)}")
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    if count < 1:
        raise ConfigError(f"{workers} workers: there must be at least 1")
    identity, found = prepare(recipe, given, source_root)
    try:
        taken = claim(folder, identity)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise translate(error, str(folder)) from error
        raise ConfigError(f"the run folder {folder} cannot be used: {error.strerror or error}") from error
    if isinstance(taken, Finished):
        return taken
    try:
        return _drive(Context(recipe, str(folder), found), identity, engine, count, observer, old, keep_work)
    except ConfigError:
        taken.withdraw()
        raise
    finally:
        taken.release()


def _drive(
    context: Context,
    identity: dict[str, Any],
    engine: str,
    workers: int,
    observer: Observer,
    reuse: Path | None,
    keep_work: bool,
) -> Finished:
    pool = _engine(engine, context, workers)
    try:
        return Driver(context, identity, pool, observer, reuse, keep_work).run()
    except OSError as error:
        raise translate(error, context.out) from error
    finally:
        pool.close()


def _engine(name: str, context: Context, count: int) -> Engine:
    if name == "serial":
        from cleanpipe.engine.serial import SerialEngine

        return SerialEngine(context)
    if name == "local":
        from cleanpipe.engine.local import LocalEngine

        return LocalEngine(context, count)
    from cleanpipe.engine.ray import RayEngine

    return RayEngine(context, count)
