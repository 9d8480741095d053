"""What an unfinished run's folder says of it, without its driver: the plan, the units that are done, the phase.

The keys of the units are derived as the driver derives them, so what an earlier start left and this one will not use
(a unit read anew from another member, passes over other documents) is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from cleanpipe.engine.base import Context, Engine, Result, Task
from cleanpipe.engine.commit import parsed, unit_key
from cleanpipe.engine.folder import IDENTITY, PLAN, load
from cleanpipe.engine.going import Going
from cleanpipe.engine.passes import Pass
from cleanpipe.errors import ConfigError, ShardError
from cleanpipe.io.inputs import Input
from cleanpipe.io.record import Span
from cleanpipe.io.store import Hold, Store
from cleanpipe.observer import Observer
from cleanpipe.options import SECTIONS, StorageOptions
from cleanpipe.queries.seen import DONE, Dated, Seen, books_of, dated
from cleanpipe.recipe import Recipe, StageSetting, build_recipe
from cleanpipe.registry import StageRef, catalogue
from cleanpipe.stage import Stage, Step
from cleanpipe.tally import Tally

_TRIES = 5  # listings of a journal that changes meanwhile
READING, MEETING, WINDOWS, PUBLISHING = "reading", "meeting", "windows", "publishing"


def plan_of(store: Store) -> dict[str, Any]:
    """``work/plan.json``: the identity of the run, and what it may tell beside it (``about``).

    Raises:
        ConfigError: there is none, or it cannot be read.
    """
    return load(store, PLAN, IDENTITY)


def recipe_of_plan(plan: Mapping[str, Any], storage: StorageOptions, root: str, *, blank: bool = False) -> Recipe:
    """The recipe again, from the settings in the plan; stages of the user's own by the path that ``about`` gives.

    blank: a stage that is not to be found here is put as one that does nothing, which is enough to count units.

    Raises:
        ConfigError: a stage of it is not to be found, or this version does not know its options.
    """
    about = plan.get("about") or {}
    paths = {Path(p).stem: p for p in about.get("stages", ()) if str(p).endswith(".py") and Path(p).is_file()}
    settings = plan["settings"]
    data: dict[str, Any] = {name: dict(settings[name]) for name in SECTIONS if name in settings}
    data |= {"name": about.get("recipe", "not recorded yet"), "stages": []}
    for name, enabled, options in settings["stages"]:
        if blank and name not in paths and name not in catalogue():
            continue
        data["stages"].append(paths.get(name, name))
        data[name] = {"enabled": enabled, **{k: v for k, v in options.items() if v is not None}}
    try:
        recipe = build_recipe(data, Path())
    except ConfigError as error:
        why = f"its recipe cannot be rebuilt here yet ({error.message})"
        raise ConfigError(f"{root} is not finished, and {why}: ask when it is finished") from error
    built = {s.ref.name: s for s in recipe.settings}
    whole = (built.get(n) or _Blank(StageRef(n, "", "", Path()), n, on, o) for n, on, o in settings["stages"])
    return replace(recipe, settings=tuple(whole), storage=storage)


@dataclass(frozen=True, slots=True)
class _Blank(StageSetting):
    """A stage of which nothing but the name and the options is known."""

    def build(self) -> Stage:
        """One that cannot be opened."""
        return _kind(self.ref.name)()


@cache
def _kind(name: str) -> type[Stage]:
    def opened(self: Stage) -> Step:
        raise ConfigError(f"stage {self.name!r} is not to be found here")

    return type("NotHere", (Stage,), {"name": name, "open": opened})


class _Idle(Engine):
    """No engine: nothing is run."""

    def run(
        self,
        tasks: Iterable[Task],  # noqa: ARG002
        progress: Callable[[Task, int], None],  # noqa: ARG002
    ) -> Iterator[tuple[Task, Result | ShardError]]:
        """Nothing."""
        return iter(())

    def close(self) -> None:
        """Nothing to end."""


class _Free(Hold):
    """No right to the folder, and none needed: nothing is written."""

    def check(self) -> None:
        """Nothing to lose."""

    def release(self) -> None:
        """Nothing to give back."""


class _Told(Pass):
    """A pass as its manifests tell it: only the driver's rules for keys are used."""

    def __init__(self, going: Going, index: int, seen: Seen) -> None:
        self.going, self.index, self._seen = going, index, seen
        self.keys, self._failed = [], {}
        self._base = self._bases()

    def __getitem__(self, unit: int) -> dict[str, Any]:
        return self._seen.manifest(self.keys[unit])

    def first(self, done: set[str]) -> None:
        """Keys of the first pass. A unit that the driver will read again, as its neighbours tell, has its new one."""
        plan = self.going.plan
        self.keys = [self._key(unit, plan[unit].span, "") for unit in range(len(plan))]
        if len(plan) == len(plan.inputs):
            return
        spans: dict[int, Span] = {}
        error = ShardError("not read yet")
        while True:
            lost = {unit: error for unit, key in enumerate(self.keys) if key not in done}
            again = self._corrections(spans, lost)
            if not again:
                return
            spans.update(again)
            for unit, span in again.items():
                self.keys[unit] = self._key(unit, span, "")

    def later(self, before: list[str], answers: Mapping[str, Any]) -> None:
        """Keys of a later pass; "" where an input could not be read."""
        self.keys = [
            self._key(unit, None, key + answers[str(unit)]["sha256"]) if key and str(unit) in answers else ""
            for unit, key in enumerate(before)
        ]


@dataclass(slots=True)
class Unfinished:
    """Where a run stands, by its folder alone. Nothing is written there, and its lock is not touched.

    done: of each pass the units that are done, by number, with their keys. meetings: manifest of each exchange that was
    held, by the pass that it precedes.
    """

    store: Store
    plan: Mapping[str, Any]
    recipe: Recipe
    going: Going
    seen: dict[str, Seen] = field(default_factory=dict)
    done: list[dict[int, str]] = field(default_factory=list)
    meetings: dict[int, dict[str, Any]] = field(default_factory=dict)
    published: dict[str, dict[str, Any]] = field(default_factory=dict)  # what the last phase has published so far
    parts: dict[int, str] = field(default_factory=dict)  # unit → key of its published ledger part
    _keys: dict[int, tuple[object, list[str]]] = field(default_factory=dict)  # of each pass, and what they came from
    _met: dict[int, tuple[str, dict[str, Any] | None]] = field(default_factory=dict)  # name and manifest of a meeting
    _noted: dict[str, int] = field(default_factory=dict)  # kind → changes when its published files were noted

    @classmethod
    def of(cls, store: Store, storage: StorageOptions, *, blank: bool = False) -> Unfinished:
        """As the folder says now. blank: see ``recipe_of_plan``.

        Raises:
            ConfigError: it holds no unfinished run, or its recipe cannot be rebuilt.
        """
        plan = plan_of(store)
        recipe = recipe_of_plan(plan, storage, store.root, blank=blank)
        try:
            inputs = tuple(Input(i["source"], "", int(i["size"]), i["stamp"]) for i in plan["inputs"])
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"{store.root}/{PLAN} is not what a run writes ({error})") from error
        limits = {source: dict.fromkeys(known, ("", "", "")) for source, known in plan.get("limits", {}).items()}
        going = Going(
            Context(recipe, store.root),
            plan,
            inputs,
            _Idle(),
            Observer(),
            _Free(),
            limits=limits,
            reuse=None,
            keep_work=False,
        )
        return cls(store, plan, recipe, going)

    @property
    def units(self) -> int:
        """Of the first pass, all."""
        return len(self.going.plan)

    @property
    def phase(self) -> str:
        """What the driver does, or would do next."""
        last = len(self.done) - 1
        if len(self.done[0]) < self.units and not self.meetings and not self.published:
            return READING
        for index in range(1, last + 1):
            if index not in self.meetings:
                return MEETING
            if len(self.done[index]) < len(self.done[0]):
                return WINDOWS
        return PUBLISHING

    def manifest(self, index: int, unit: int) -> dict[str, Any]:
        """What a pass made of a unit that it is done with."""
        return self.seen[f"pass{index}"].manifest(self.done[index][unit])

    def decided(self, unit: int) -> bool:
        """Whether every document of the unit has its fate."""
        return unit in self.done[-1]

    def tallies(self, without: Iterable[int] = ()) -> list[Tally]:
        """Of each pass that was begun, the sum over the units that are done."""
        skip = set(without)
        return [
            self.seen[f"pass{index}"].tally({key for unit, key in done.items() if unit not in skip})
            for index, done in enumerate(self.done)
            if done
        ]

    def look(self, there: Dated | None = None, most: int = 1 << 60) -> None:
        """Read what is new. there: a listing of ``work/done/``; most: manifests of each kind that are read."""
        listed = dated(self.store, DONE) if there is None else there
        for _ in range(_TRIES):
            for kind in sorted({name.split("/")[2] for name in listed} | {"pass0", *self.seen}):
                if not kind.startswith("meet"):
                    self.of_kind(kind).look(listed, most)
            if there is not None:  # what a listing missed while a book was made, the next look finds
                break
            before, listed = listed, dated(self.store, DONE)
            if books_of(listed) == books_of(before):
                break
        self._passes(listed)
        self._published()

    def of_kind(self, kind: str) -> Seen:
        """Finished units of a kind: "pass0", "shard", "ledger"."""
        return self.seen.setdefault(kind, Seen(self.store, kind))

    def _passes(self, there: Dated) -> None:
        passes, seen = self.going.have.passes, self.of_kind("pass0")
        keys = self._known(0, seen.changes, lambda told: told.first(seen.keys()))
        self.done, self.meetings = [self._of(keys, seen)], {}
        for index in range(1, len(passes)):
            before = [key if unit in self.done[-1] else "" for unit, key in enumerate(keys)]
            manifest = self._meeting(index, before, there)
            if manifest is None:
                self.done += [{} for _ in passes[index:]]
                return
            self.meetings[index] = manifest
            token = (seen.changes, [f["sha256"] for f in manifest["files"].values()])
            keys = self._known(index, token, lambda told, b=before, m=manifest: told.later(b, m["files"]))  # type: ignore[misc]
            seen = self.of_kind(f"pass{index}")
            self.done.append(self._of(keys, seen))

    def _known(self, index: int, token: object, derive: Callable[[_Told], None]) -> list[str]:
        """Keys of a pass, derived anew only where what they come from has changed."""
        if index not in self._keys or self._keys[index][0] != token:
            told = _Told(self.going, index, self.of_kind(f"pass{index}"))
            derive(told)
            self._keys[index] = token, told.keys
        return self._keys[index][1]

    @staticmethod
    def _of(keys: list[str], seen: Seen) -> dict[int, str]:
        done = seen.keys()
        return {unit: key for unit, key in enumerate(keys) if key in done}

    def _meeting(self, index: int, keys: list[str], there: Dated) -> dict[str, Any] | None:
        """The manifest of the exchange before a pass. Where an input could not be read, the last one that was held."""
        prefix = f"{DONE}meet{index}/"
        names = [name for name in there if name.startswith(prefix)]
        if all(keys):
            stages = {s.name for s in self.going.have.passes[index].stages}
            options = [s for s in self.plan["settings"]["stages"] if s[0] in stages]
            name = f"{prefix}{unit_key('meet', keys, options, self.plan['code'])}.json"
            names = [name] if name in there else []
        for name in sorted(names, key=lambda n: -there[n][1])[:1]:
            if index not in self._met or self._met[index][0] != name:
                try:
                    self._met[index] = name, parsed(self.store.read(name))
                except FileNotFoundError:
                    return None
            return self._met[index][1]
        return None

    def _published(self) -> None:
        if len(self.done[-1]) < max(1, len(self.done[0])):  # of an earlier end, that is undone
            self.published, self.parts, self._noted = {}, {}, {}
            return
        for kind in ("shard", "ledger"):
            seen = self.of_kind(kind)
            if self._noted.get(kind) == seen.changes:
                continue
            self._noted[kind] = seen.changes
            for key in seen.keys() - seen.unread:
                for name, facts in seen.manifest(key).get("published", {}).items():
                    self.published[name] = facts
                    if name.startswith("ledger/part-"):
                        self.parts[int(name.removeprefix("ledger/part-").partition(".")[0])] = key


def under_way_of(state: Unfinished) -> set[str]:
    """Stages that some units have come through, and not yet all."""
    passes = list(zip(state.going.have.passes, state.done, strict=False))[1:]
    return {s.name for p, done in passes if len(done) < len(state.done[0]) for s in p.stages}
