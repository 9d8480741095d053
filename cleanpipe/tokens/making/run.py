"""A run's shards to a token store. Idempotent: start the same line again and it goes on, or finds it finished."""

from __future__ import annotations

import errno
import json
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from cleanpipe.engine.base import Context, Engine
from cleanpipe.engine.folder import place
from cleanpipe.engine.journal import heal
from cleanpipe.engine.perform import translate
from cleanpipe.errors import ConfigError, DamagedFileError, StopError
from cleanpipe.io.remote import redacted
from cleanpipe.observer import Observer
from cleanpipe.recipe import Recipe, load_recipe
from cleanpipe.run import HEALINGS, chosen
from cleanpipe.tokens.audit.limits import OURS, Limits
from cleanpipe.tokens.decisions import Decisions, load
from cleanpipe.tokens.layout import TOKENIZER
from cleanpipe.tokens.making.decided import quarantines
from cleanpipe.tokens.making.driver import Driver, gpus_of
from cleanpipe.tokens.making.folder import Claim, Made, claim, code_version
from cleanpipe.tokens.making.gates import gates_of
from cleanpipe.tokens.making.job import Job, Settings
from cleanpipe.tokens.making.opened import close_backends
from cleanpipe.tokens.making.source import Source

BACKENDS = ("auto", "hf", "fast", "torch")


def tokenize(
    out: str | Path,
    tokens: str | Path,
    *,
    tokenizer: str = "cleanpipe-16k",
    bos: str | int = "auto",
    eos: str | int = "auto",
    pattern: str = "",
    per_window: bool = False,
    backend: str = "auto",
    device: str = "cpu",
    splitters: int | None = None,
    engine: str | None = None,
    workers: int | None = None,
    sets: Iterable[str] = (),
    follow: bool = False,
    repair: bool = False,
    max_unk: float = OURS.unk,
    max_byte_fallback: float = OURS.byte_fallback,
    observer: Observer | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Made:
    """Tokenize the shards of the run in ``out`` into the folder ``tokens``.

    Args:
        out, tokens: folders, or ``s3://bucket/prefix``.
        tokenizer, bos, eos, pattern: see ``cleanpipe.tokens.tokenizer.open_tokenizer``.
        per_window: encode each window by itself, not the whole document.
        backend, device, splitters: see ``cleanpipe.tokens.backends.open_backend``.
        engine, workers: see ``cleanpipe.run.run``.
        sets: ``storage.option=value`` and ``guards.option=value``.
        follow: of a run that is not finished, begin with the shards that it has published, and wait for the rest.
        repair: prove every file of a finished store by its SHA-256, and make the shards again whose files differ.
        max_unk, max_byte_fallback: shares of the tokens beyond which the result says so and ``exit_code`` is 1;
            the audit of a store that is made shows them.
        sleep: waits between two looks at a run that is followed.

    Raises:
        ConfigError, StopError: see errors.py.
    """
    root, target, observer = place(out, "OUT"), place(tokens, "--tokens"), observer or Observer()
    _apart(root, target)
    if backend not in BACKENDS:
        raise ConfigError(f"no backend {backend!r}: it is one of {', '.join(BACKENDS)}")
    if device != "cpu" and backend != "torch":
        raise ConfigError(f"--device {device}: only --backend torch works there; the others use processors")
    for name, share in (("--max-unk", max_unk), ("--max-byte-fallback", max_byte_fallback)):
        if not 0 <= share <= 1:
            raise ConfigError(f"{name} {share}: a share between 0 and 1")
    if splitters is not None and (splitters < 0 or backend != "torch"):
        what = "0 or more processes" if splitters < 0 else "only --backend torch has them"
        raise ConfigError(f"--splitters {splitters}: {what}")
    limits = Limits(max_unk, max_byte_fallback)
    pool, recipe = chosen(engine, workers), _machine(sets)
    from cleanpipe.tokens.tokenizer import open_tokenizer  # heavy

    opened = open_tokenizer(tokenizer, bos=bos, eos=eos, pattern=pattern)
    source = _source(root, recipe, observer, follow=follow, sleep=sleep)
    decisions = _decisions(target, recipe, observer)
    settings = Settings(
        tokenizer=opened,
        identity=_identity(opened, source, per_window=per_window),
        per_window=per_window,
        backend=backend,
        device=device,
        splitters=splitters,
        said=tuple(quarantines(decisions)),
        decisions={"lines": decisions.version, "sha256": decisions.digest},
        limits=limits,
    )

    def decided(info: Mapping[str, Any]) -> bool:
        return bool(info.get("decisions") != settings.decisions) and _leaves_out(info) != settings.said

    def _leaves_out(info: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        built = info.get("decisions") or {}
        return tuple(quarantines(decisions.upto(min(int(built.get("lines", 0)), decisions.version))))

    def belongs(info: Mapping[str, Any]) -> bool:
        theirs = [str(s["shard_sha256"]) for s in info["shards"]]
        return not source.finished or theirs == [str(f["sha256"]) for f in source.shards.values()]

    context = Context(recipe, target, uuid.uuid4().hex[:8])
    judging = {"decided": decided, "belongs": belongs, "repair": repair}
    taken = _claiming(context, settings, observer, judging)
    if isinstance(taken, Claim):
        made = taken.mended(_drive(context, settings, source, taken, pool, observer, sleep))
    else:
        made = Made(target, True, taken["info"], taken["audit"], taken["facts"], proven=taken["proven"])
    return replace(made, gates=(*gates_of(made.audit, limits), *made.gates))


def _decisions(target: str, recipe: Recipe, observer: Observer) -> Decisions:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = load(target, recipe.storage)
    for warning in told:
        observer.warn(str(warning.message))
    return found


def _apart(root: str, target: str) -> None:
    inside = target == root or target.startswith(root.rstrip("/") + "/")
    if "://" not in root + target:
        inside = Path(target).resolve().is_relative_to(Path(root).resolve())
    if inside:
        raise ConfigError(f"--tokens {target} lies in the run, whose files are sealed: name a folder outside it")
    if "://" not in target:
        path = Path(target)
        there = next((p for p in (path, *path.parents) if p.exists()), path)
        if there.exists() and not there.is_dir():
            raise ConfigError(f"--tokens {target}: {there} is a file: name a folder for the tokens")


def _machine(sets: Iterable[str]) -> Recipe:
    """Storage and guards: all that a job takes of a recipe."""
    given = list(sets)
    for one in given:
        if not one.startswith(("storage.", "guards.")):
            raise ConfigError(f"--set {one}: here only storage.… and guards.… options matter")
    return load_recipe("sample", given)


def _source(root: str, recipe: Recipe, observer: Observer, *, follow: bool, sleep: Callable[[float], None]) -> Source:
    source = Source(root, recipe.storage)
    if follow and not source.is_there:
        observer.warn(f"{redacted(root)} holds no run yet: waiting for one to begin (Ctrl-C ends that)")
        while not source.is_there:
            sleep(2.0)
    source.look(follow=follow)
    if source.facts.get("failed"):
        observer.warn(f"{redacted(root)}: the run ended without {len(source.facts['failed'])} of its inputs")
    return source


def _identity(tokenizer: Any, source: Source, *, per_window: bool) -> dict[str, Any]:
    identity = {
        "run": source.identity(),
        "tokenizer": {"name": tokenizer.name, **tokenizer.fingerprint},
        "per_window": per_window,
        "code": code_version(),
    }
    plain: dict[str, Any] = json.loads(json.dumps(identity))
    return plain


def _claiming(
    context: Context, settings: Settings, observer: Observer, judging: Mapping[str, Any]
) -> dict[str, Any] | Claim:
    try:
        return claim(context.store, settings.identity, observer.warn, **judging)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise translate(error, context.out) from error
        raise ConfigError(f"the folder {context.out} cannot be used: {error.strerror or error}") from error


def _drive(
    context: Context,
    settings: Settings,
    source: Source,
    taken: Claim,
    pool: tuple[str, int],
    observer: Observer,
    sleep: Callable[[float], None],
) -> Made:
    """To the end. Where a file of an earlier start turns out damaged, its unit is done again."""
    facts = {"recipe": "tokenize", "out": redacted(context.out), "engine": pool[0], "workers": pool[1]}
    observer.begun(context.run_id, {**facts, "inputs": len(source.shards)})
    try:
        for _ in range(HEALINGS):
            engine = _engine(*pool, context)
            try:
                _warn_without_gpu(pool[0], settings, observer)
                for name, data in settings.tokenizer.files().items():
                    context.store.write(TOKENIZER + name, data)
                job = Job(context, settings, source, engine, observer, taken.hold)
                return Driver(job, rebuild=taken.rebuild, sleep=sleep).run()
            except DamagedFileError as error:
                taken.hold.check()
                observer.warn(f"{error.source} {error.message}: looking for more of that kind")
                units = heal(context.store, error.source or "")
                observer.warn(f"{units:,} unit{' is' if units == 1 else 's are'} done again")
            except OSError as error:
                raise translate(error, context.out) from error
            finally:
                engine.close()
                close_backends()  # of the serial engine, whose tasks ran here
        raise StopError("files of the job keep changing; is another program at work there?", source=context.out)
    except ConfigError:
        taken.withdraw()
        raise
    finally:
        taken.hold.release()


def _warn_without_gpu(engine: str, settings: Settings, observer: Observer) -> None:
    """A task that asks Ray for what no node has waits without a word; a node may still come."""
    if engine == "ray" and gpus_of(settings.backend, settings.device):
        ray: Any = import_module("ray")
        if not ray.cluster_resources().get("GPU"):
            observer.warn("no node of the Ray cluster has a GPU: waiting for one (--device cpu needs none)")


def _engine(name: str, count: int, context: Context) -> Engine:
    if name == "serial":
        from cleanpipe.engine.serial import SerialEngine

        return SerialEngine(context)
    if name == "local":
        from cleanpipe.engine.local import LocalEngine

        return LocalEngine(context, count)
    from cleanpipe.engine.ray import RayEngine

    return RayEngine(context, count)
