"""One run, from a recipe and inputs to a finished folder. Idempotent: start the same line again and it goes on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cleanpipe.engine.base import Context, Engine, Result, Task
from cleanpipe.engine.commit import differences, digest_of
from cleanpipe.errors import CleanpipeError, ConfigError, ShardError
from cleanpipe.io.inputs import Input, resolve_inputs
from cleanpipe.io.store import TEMPORARY, publish_json
from cleanpipe.observer import Observer
from cleanpipe.recipe import Recipe, fingerprint, load_recipe
from cleanpipe.registry import code_version

ENGINES = ("serial", "local", "ray")
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run left: its folder, whether this call did any work, and what to tell about it."""

    out: Path
    already: bool
    audit: Mapping[str, Any]
    facts: Mapping[str, Any]  # run.json
    failed: Mapping[str, str] = field(default_factory=dict)  # inputs that could not be read, and why

    @property
    def exit_code(self) -> int:
        """0, or 1 where an input could not be read or the balance does not close."""
        return 1 if self.failed or not self.audit["conservation"]["balanced"] else 0


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
        check: Callable[[], None] | None = getattr(stage, "check", None)
        if check is not None:
            check()
        models |= {f"{stage.name}.{name}": digest_of(Path(path)) for name, path in stage.models().items()}
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
    folder, observer = Path(out).absolute(), observer or Observer()
    identity, found = prepare(recipe, given, source_root)
    finished = _claim(folder, identity)
    if finished is not None:
        return finished
    context = Context(recipe, str(folder), found)
    pool = _engine(engine, context, workers)
    from cleanpipe.engine.driver import Driver

    try:
        return Driver(context, identity, pool, observer, Path(reuse).absolute() if reuse else None, keep_work).run()
    except OSError as error:
        from cleanpipe.engine.base import translate

        raise translate(error, str(folder)) from error
    finally:
        pool.close()


def _engine(name: str | None, context: Context, workers: int | None) -> Engine:
    name = name or ("ray" if os.environ.get("RAY_ADDRESS") else "local")
    count = len(os.sched_getaffinity(0)) if workers is None else workers
    if count < 1:
        raise ConfigError(f"{workers} workers: there must be at least 1")
    if name == "serial":
        from cleanpipe.engine.serial import SerialEngine

        return SerialEngine(context)
    if name == "local":
        from cleanpipe.engine.local import LocalEngine

        return LocalEngine(context, count)
    if name == "ray":
        from cleanpipe.engine.ray import RayEngine

        return RayEngine(context, count)
    raise ConfigError(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")


def _claim(folder: Path, identity: Mapping[str, Any]) -> Finished | None:
    """Take the folder for this run, or find it finished.

    Raises:
        ConfigError: it holds another run, or something that is no run; the difference is named.
    """
    plan = folder / "work" / "plan.json"
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file: name a folder for the run")
    if (folder / MANIFEST).exists():
        facts = _load(folder / "run.json")
        _refuse(folder, differences(identity, facts["identity"]), "a finished run")
        _clear(folder / "work", keep=facts.get("kept_work", False))
        return Finished(folder, True, _load(folder / "audit" / "audit.json"), facts, facts.get("failed", {}))
    if plan.exists():
        _refuse(folder, differences(identity, _load(plan)), "an unfinished run")
        for left in folder.rglob(f"{TEMPORARY}*"):
            left.unlink(missing_ok=True)
        return None
    if folder.exists() and any(p.name != "work" for p in folder.iterdir()):
        raise ConfigError(f"{folder} is not empty and holds no run: name another folder")
    (folder / "work").mkdir(parents=True, exist_ok=True)
    publish_json(plan, identity)
    return None


def _refuse(folder: Path, changes: Sequence[str], what: str) -> None:
    if changes:
        more = f" (and {len(changes) - 5} more)" if len(changes) > 5 else ""
        raise ConfigError(
            f"{folder} holds {what} that differs: {'; '.join(changes[:5])}{more}. "
            f"Name another folder, and --reuse {folder} to take over what matches"
        )


def _clear(work: Path, keep: bool) -> None:
    if not keep:
        shutil.rmtree(work, ignore_errors=True)


def _load(path: Path) -> dict[str, Any]:
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{path} cannot be read ({error}): `cleanpipe verify {path.parent}` tells what is wrong"
        ) from error
    return data


__all__ = ["ENGINES", "CleanpipeError", "Finished", "Result", "ShardError", "Task", "fingerprint", "prepare", "run"]
