"""What another recipe changes, step by step: which verdicts stay, which can be told again, which cannot."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from cleanpipe.builtin import READ
from cleanpipe.engine.commit import digest_of
from cleanpipe.errors import ConfigError
from cleanpipe.exchange import Exchange
from cleanpipe.options import ReadOptions
from cleanpipe.pipeline import consumed_by
from cleanpipe.queries.opened_run import OpenRun
from cleanpipe.recipe import Recipe, load_recipe
from cleanpipe.stage import Judge, Stage

_READS_THE_SAME = frozenset({"reader", "batch_rows", "batch_bytes", "unit_bytes"})  # of [read]: they decide no fate


@dataclass(frozen=True, slots=True)
class Step:
    """One stage of the new order.

    place: its place in the old order, the reader's being 0; -1 where it did not run. drops: whether it may drop.
    changed: options with another value. judge: tells its verdicts on rows that reached it. blind: why its verdicts
    cannot be told ("" where they can). exchange, before: how documents meet at it now, and met.
    """

    name: str
    place: int
    drops: bool
    changed: tuple[str, ...] = ()
    judge: Judge | None = None
    blind: str = ""
    exchange: Exchange | None = None
    before: Exchange | None = None
    stage: Stage | None = None
    was: Stage | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The effective new recipe and what it means. order: names of the old steps, the reader first. off: stages that
    run no more. idle: changed options that decide no fate. cautions: sentences for the answer.
    """

    recipe: Recipe
    order: tuple[str, ...]
    steps: tuple[Step, ...]
    changes: tuple[tuple[str, Any, Any], ...]
    off: tuple[str, ...]
    cautions: tuple[str, ...]


def new_recipe(run: OpenRun, sets: Iterable[str]) -> Recipe:
    """The run's recipe with ``stage.option=value`` changes, validated as before a run.

    Raises:
        ConfigError: as ``load_recipe``.
    """
    with tempfile.TemporaryDirectory(prefix="cleanpipe-") as made:
        path = Path(made) / "recipe.toml"
        path.write_text(run.recipe.to_toml(machine=False), encoding="utf-8")
        recipe = load_recipe(path, sets)
    recipe.pipeline().validate()
    return recipe


def plan(run: OpenRun, sets: Sequence[str], columns: frozenset[str]) -> Plan:
    """What the changes mean for the run's ledger.

    Args:
        run: a run.
        sets: ``stage.option=value`` changes.
        columns: of its ledger.

    Raises:
        ConfigError: an unknown or impossible option, or options that cannot work.
    """
    recipe = new_recipe(run, sets)
    old = {s.name: s for s in run.recipe.pipeline().complete()}
    new = recipe.pipeline().complete()
    order = (READ, *old)
    changes = tuple(_changes(run.recipe, recipe))
    steps = [_reader(run.recipe.read, recipe.read)]
    off = tuple(name for name in old if name not in {s.name for s in new})
    tainted: dict[str, str] = {}  # columns that hold, or may hold, something else than in the run, and what does it
    gone = [old[name] for name in off]
    cautions: list[str] = []
    for stage in new:
        while gone and stage.name in old and order.index(gone[0].name) < order.index(stage.name):
            missed = gone.pop(0)
            tainted |= dict.fromkeys((*missed.writes, *missed.scores), f"switching {missed.name} off")
        step = _step(stage, old.get(stage.name), order, tainted, columns)
        if step.changed or step.place < 0:
            stage.open()  # as a run does before it starts: options that cannot work, models that are not there
            cautions += _models(run, stage)
        cause = _cause(step, stage, tainted)
        for name in (*stage.writes, *stage.scores):
            tainted.pop(name, None)
            if cause:
                tainted[name] = cause
        for name in consumed_by(stage):
            tainted.pop(name, None)
        steps.append(step)
    return Plan(recipe, order, tuple(steps), changes, off, tuple(cautions))


def _cause(step: Step, stage: Stage, tainted: Mapping[str, str]) -> str:
    """What makes the stage write something else than in the run; "" where it writes the same."""
    if step.place < 0:
        return f"switching {stage.name} on"
    if step.changed and not _told(step):
        return f"{stage.name}.{step.changed[0]}"
    return next((tainted[name] for name in sorted(_reads(stage) & tainted.keys())), "")


def _told(step: Step) -> bool:
    """Whether all that changed is how the step judges: what it writes is what it was."""
    if step.exchange is not None:
        return True
    return step.judge is not None and set(step.changed) <= step.judge.options


def _reads(stage: Stage) -> frozenset[str]:
    """Columns on which the stage's verdict and output hang."""
    met = stage.exchange()
    reads = stage.reads | stage.reads_optional
    return (reads | met.reads) - frozenset(met.writes) if met is not None else reads


def _reader(old: ReadOptions, new: ReadOptions) -> Step:
    changed = tuple(
        f.name for f in fields(old) if f.name not in _READS_THE_SAME and getattr(old, f.name) != getattr(new, f.name)
    )
    blind = f"read.{changed[0]} decides what is read at all: start a run" if changed else ""
    return Step(READ, 0, True, changed, blind=blind)


def _step(
    stage: Stage, was: Stage | None, order: Sequence[str], tainted: Mapping[str, str], columns: frozenset[str]
) -> Step:
    drops = bool(stage.reasons)
    if was is None:
        return Step(stage.name, -1, drops, blind=f"{stage.name} did not run", stage=stage)
    changed = tuple(f.name for f in fields(stage) if not _same(getattr(was, f.name), getattr(stage, f.name)))
    judge, exchange = stage.judge(), stage.exchange()
    blind = ""
    if hit := sorted(tainted.keys() & _reads(stage)):
        blind = f"{stage.name} reads {hit[0]}, which {tainted[hit[0]]} changes"
    elif changed and exchange is None and not (judge is not None and set(changed) <= judge.options):
        known = judge.options if judge is not None else frozenset[str]()
        what = next(n for n in changed if n not in known)
        made = [*stage.scores, *stage.writes]
        more = f" and {len(made) - 2} more" if made[2:] else ""
        blind = f"{stage.name}.{what} changes {' and '.join(made[:2]) if not more else ', '.join(made[:2]) + more}"
        blind += ", which the ledger knows for the old value only"
    elif changed and judge is not None and (lacking := sorted(judge.columns - columns)):
        blind = f"the ledger has no {lacking[0]}: an older version wrote it"
        judge = None
    return Step(
        stage.name, order.index(stage.name), drops, changed, judge, blind, exchange,
        was.exchange() if exchange is not None else None, stage, was,
    )  # fmt: skip


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, partial) and isinstance(other, partial):  # a text rule
        return (one.func, one.args, one.keywords) == (other.func, other.args, other.keywords)
    return bool(one == other)


def _changes(old: Recipe, new: Recipe) -> Iterable[tuple[str, Any, Any]]:
    for section in ("read", "shards", "audit"):
        a, b = getattr(old, section), getattr(new, section)
        for f in fields(a):
            if getattr(a, f.name) != getattr(b, f.name):
                yield f"{section}.{f.name}", getattr(a, f.name), getattr(b, f.name)
    for a, b in zip(old.settings, new.settings, strict=True):
        if a.enabled != b.enabled:
            yield f"{b.ref.name}.enabled", a.enabled, b.enabled
        for name, value in b.options.items():
            if a.options[name] != value:
                yield f"{b.ref.name}.{name}", a.options[name], value


def _models(run: OpenRun, stage: Stage) -> Iterable[str]:
    """Whether the models whose limits may be the stage's are those of the run."""
    known = run.facts.get("identity", {}).get("models", {})
    for name, path in stage.models().items():
        digest = known.get(f"{stage.name}.{name}")
        if digest is not None and digest != digest_of(Path(path)):
            yield f"the model {name} of {stage.name} is not the one that the run used: its limits may be others"


def no_sets() -> ConfigError:
    """The answer to a call without changes."""
    return ConfigError(
        "name what would be another: --set language_id.threshold=0.9, --set quality_score.max_perplexity=5000, "
        "--set minhash_drop.enabled=false (`cleanpipe stages` lists every option)"
    )


def forgotten(made: Plan) -> Iterable[str]:
    """Where another stage's option had the same words as a changed one, and lacks those that came new."""
    for option, before, after in made.changes:
        stage, _, name = option.partition(".")
        if not isinstance(before, (tuple, list)) or not isinstance(after, (tuple, list)):
            continue
        new = [str(word) for word in after if word not in before]
        for step in made.steps:
            other = getattr(step.stage, name, None)
            if (
                new
                and step.name != stage
                and step.drops
                and isinstance(other, (tuple, list))
                and set(before) == set(other)
            ):
                words = json.dumps([*after], ensure_ascii=False)
                yield (
                    f"{step.name}.{name} keeps {', '.join(map(str, other)) or 'none'} only, so documents of "
                    f"{', '.join(new)} may go there; to keep them: --set '{step.name}.{name}={words}'"
                )
