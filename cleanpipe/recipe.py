"""Recipes: TOML files into frozen, validated settings. One list, ``stages``, is the order; one table is one stage.

Unknown keys are refused with the nearest known one. What a recipe does not say is the option's default, and the
effective recipe, defaults included, is published with every run.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe.io.remote import redacted
from cleanpipe.io.store import Store
from cleanpipe.options import MACHINE, SECTIONS, AuditOptions, GuardOptions, ReadOptions, ShardOptions, StorageOptions
from cleanpipe.pipeline import Pipeline
from cleanpipe.registry import StageRef, find, load, nearest
from cleanpipe.stage import Stage

_KINDS: Mapping[Any, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
TOP = ("name", "description", "extends", "inputs", "stages", *SECTIONS)


@dataclass(frozen=True, slots=True)
class StageSetting:
    """One entry of the list: the stage, whether it runs, and every option's value."""

    ref: StageRef
    spelled: str  # as the recipe names it
    enabled: bool
    options: Mapping[str, Any]

    def build(self) -> Stage:
        """The stage with its options."""
        return load(self.ref)(**self.options)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that decides what a run keeps, before its inputs."""

    name: str
    description: str = ""
    inputs: tuple[str, ...] = ()
    settings: tuple[StageSetting, ...] = ()
    read: ReadOptions = field(default_factory=ReadOptions)
    shards: ShardOptions = field(default_factory=ShardOptions)
    audit: AuditOptions = field(default_factory=AuditOptions)
    storage: StorageOptions = field(default_factory=StorageOptions)
    guards: GuardOptions = field(default_factory=GuardOptions)
    folder: Path | None = None

    def pipeline(self) -> Pipeline:
        """The enabled stages; a disabled one still lends its text rule, which is never off."""
        rules = [r for s in self.settings if not s.enabled and (r := s.build().text_rule()) is not None]
        return Pipeline(tuple(s.build() for s in self.settings if s.enabled), rules[0] if rules else None)

    def canonical(self) -> dict[str, Any]:
        """Settings as plain data: what the fingerprint and config_hash are taken of. Neither inputs nor the tables that
        speak of machines are among them.
        """
        return {
            "stages": [[s.ref.name, s.enabled, plain_of(s.options)] for s in self.settings],
            **{name: plain_of(_values(getattr(self, name))) for name in SECTIONS if name not in MACHINE},
        }

    def to_toml(self, *, machine: bool = True) -> str:
        """The effective recipe, each option with its line of explanation.

        machine: with the tables that decide no byte (storage, guards). Without them, as a run publishes it, a stage of
        the user's own is named by its whole path.
        """
        lines = [f"# {self.description}"] if self.description else []
        lines += [f"name = {toml_of(self.name)}", f"description = {toml_of(self.description)}"]
        if self.inputs:  # a published one shows no password or signature
            lines.append(f"inputs = {toml_of([i if machine else redacted(i) for i in self.inputs])}")
        own = (str(s.ref.path) if not (s.ref.module or machine) else s.spelled for s in self.settings)
        lines += ["", "stages = [", *(f"    {toml_of(stage)}," for stage in own), "]"]
        for name in SECTIONS:
            if name in MACHINE and not machine:
                continue
            options = getattr(self, name)
            lines += ["", f"[{name}]", *_described(type(options), _values(options))]
        for setting in self.settings:
            lines += ["", f"[{setting.ref.name}]", f"enabled = {toml_of(setting.enabled)}"]
            lines += _described(load(setting.ref), setting.options)
        return "\n".join(lines) + "\n"


def names() -> list[str]:
    """Recipes that come with cleanpipe."""
    folder = resources.files("cleanpipe.recipes")
    return sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml"))


def load_recipe(ref: str | Path, sets: Iterable[str] = ()) -> Recipe:
    """A recipe by name or path, with ``stage.option=value`` changes.

    Raises:
        ConfigError: no such recipe, no valid TOML, an unknown key or a value of the wrong type.
    """
    data, folder = _read(str(ref), set())
    _merge_sets(data, sets)
    return build_recipe(data, folder)


def recipe_of(store: Store, machine: Recipe) -> Recipe:
    """The recipe that a run published, with the storage and guards of another.

    Raises:
        ConfigError: there is none, or it is no recipe any more.
    """
    try:
        text = store.read("recipe.toml").decode()
        data = tomllib.loads(text)
    except (OSError, ValueError) as error:
        why = "there is no recipe.toml" if isinstance(error, FileNotFoundError) else f"its recipe.toml is none: {error}"
        raise ConfigError(f"{store.root} holds no finished run: {why}") from error
    _known(data, None, "recipe.toml")
    try:
        recipe = build_recipe(data, Path())
    except ConfigError as error:
        raise ConfigError(f"{store.root}/recipe.toml is not as the run wrote it: {error}") from error
    return replace(recipe, storage=machine.storage, guards=machine.guards)


def _read(ref: str, seen: set[str]) -> tuple[dict[str, Any], Path]:
    path = Path(ref)
    if ref in names():
        path = Path(str(resources.files("cleanpipe.recipes"))) / f"{ref}.toml"
    elif not path.is_file():
        if path.suffix == ".toml" or "/" in ref:
            raise ConfigError(f"recipe file not found: {ref}")
        raise ConfigError(f"unknown recipe {ref!r}{nearest(ref, names())}")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    _known(data, None, str(path))
    base = data.pop("extends", None)
    if base is None:
        return data, path.parent
    if str(path) in seen:
        raise ConfigError(f"{path}: recipes extend each other in a circle")
    beside = path.parent / f"{base}.toml"
    below, _ = _read(base if base in names() else str(beside), seen | {str(path)})
    return _overlay(below, data), path.parent


def _overlay(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe on the one it extends; what that says of stages that are not in the list any more is left out."""
    if isinstance(listed := above.get("stages"), list):
        still = {Path(str(s)).stem for s in listed}  # a stage is called like its file
        below = {k: v for k, v in below.items() if k in TOP or k in still or not isinstance(v, dict)}
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            below[key] = {**below[key], **value}
        else:
            below[key] = value
    return below


def _known(data: Mapping[str, Any], stages: Sequence[str] | None, where: str) -> None:
    for key, value in data.items():
        if key in TOP or (stages is None and isinstance(value, dict)) or (stages is not None and key in stages):
            continue
        kind = "table" if isinstance(value, dict) else "key"
        raise ConfigError(f"{where}: unknown {kind} {key!r}{nearest(key, {*TOP, *(stages or ())})}")


def _merge_sets(data: dict[str, Any], sets: Iterable[str]) -> None:
    for item in sets:
        left, equals, right = item.partition("=")
        table, dot, key = left.strip().partition(".")
        if not equals or not dot or not key:
            raise ConfigError(f"--set {item!r}: write stage.option=value")
        try:
            value = tomllib.loads(f"v = {right}")["v"]
        except tomllib.TOMLDecodeError:
            value = right.strip()
        data[table] = {**data.get(table, {}), key: _Given(value, right.strip())}


@dataclass(frozen=True, slots=True)
class _Given:
    """A value of the command line: as TOML reads it, and as it was typed (a string option takes that)."""

    value: Any
    typed: str


def build_recipe(data: dict[str, Any], folder: Path) -> Recipe:
    """A recipe from its tables; stages named by path are looked for below ``folder``. Raises ConfigError."""
    listed = data.get("stages")
    if not isinstance(listed, list) or not all(isinstance(s, str) for s in listed):
        raise ConfigError("a recipe has a list `stages = [...]` of stage names")
    refs = [find(s, folder) for s in listed]
    _known(data, [r.name for r in refs], "recipe")
    settings = []
    for ref, spelled in zip(refs, listed, strict=True):
        table = dict(data.get(ref.name, {}))
        enabled = _coerce(table.pop("enabled", True), bool, f"{ref.name}.enabled")
        settings.append(StageSetting(ref, spelled, enabled, _options(load(ref), table, ref.name)))
    inputs = data.get("inputs", [])
    if not isinstance(inputs, list) or not all(isinstance(i, str) for i in inputs):
        raise ConfigError("`inputs` is a list of paths")
    sections = {n: kind(**_options(kind, dict(data.get(n, {})), n)) for n, kind in SECTIONS.items()}
    for options in sections.values():
        options.check()
    recipe = Recipe(
        name=str(data.get("name", "unnamed")),
        description=str(data.get("description", "")),
        inputs=tuple(i if "://" in i or Path(i).is_absolute() else str(folder / i) for i in inputs),
        settings=tuple(settings),
        folder=folder,
    )
    return replace(recipe, **sections)


def _options(kind: type, table: dict[str, Any], where: str) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    known = {f.name: f for f in fields(kind) if f.init}
    for key in table:
        if key not in known:
            switch = (
                {"enabled"} if issubclass(kind, Stage) else set()
            )  # tables that are no stage cannot be switched off
            raise ConfigError(f"{where} has no option {key!r}{nearest(key, {*known, *switch})}")
    out: dict[str, Any] = {}
    for name, spec in known.items():
        if name in table:
            out[name] = _coerce(table[name], hints[name], f"{where}.{name}")
        elif spec.default is not MISSING:
            out[name] = spec.default
        elif spec.default_factory is not MISSING:
            out[name] = spec.default_factory()
        else:
            raise ConfigError(f"{where}.{name} has no default: give it a value")
    return out


def _coerce(value: Any, hint: Any, where: str) -> Any:
    typed = None
    if isinstance(value, _Given):
        value, typed = value.value, value.typed
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if typed in ("none", "None", ""):
            return None
        kinds = [a for a in args if a is not type(None)]
        if len(kinds) == 1:
            return _coerce(value if typed is None else _Given(value, typed), kinds[0], where)
        for kind in kinds:
            try:
                return _coerce(value if typed is None else _Given(value, typed), kind, where)
            except ConfigError:
                continue
        raise ConfigError(f"{where} = {value!r}: expected {hint}")
    if origin is typing.Literal:
        if value in args:
            return value
        raise ConfigError(f"{where} = {value!r}: one of {', '.join(map(repr, args))}")
    if hint is bool and isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and not -(1 << 63) <= value < 1 << 64:  # NaN is not in there either
        raise ConfigError(f"{where} = {value!r}: a finite number of 64 bits")
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if hint is str and (isinstance(value, str) or typed is not None):
        return value if isinstance(value, str) else typed
    if origin in (tuple, frozenset, list):
        items = value if isinstance(value, (list, tuple)) else [v.strip() for v in typed.split(",")] if typed else None
        if items is not None:
            return origin(_coerce(v, args[0], where) for v in items)
    if isinstance(value, Mapping) and isinstance(origin, type) and issubclass(origin, Mapping):
        return {str(k): _coerce(v, args[1], f"{where}.{k}") for k, v in value.items()}
    shown = _KINDS.get(hint) or (getattr(hint, "__name__", None) if origin is None else str(hint))
    raise ConfigError(f"{where} = {value!r}: expected {shown}")


def _values(options: Any) -> dict[str, Any]:
    return {f.name: getattr(options, f.name) for f in fields(options)}


def plain_of(value: Any) -> Any:
    """Option values as JSON and TOML know them: sets sorted, tuples as lists."""
    if isinstance(value, Mapping):
        return {str(k): plain_of(v) for k, v in sorted(value.items())}
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, (list, tuple)):
        return [plain_of(v) for v in value]
    return value


def _described(kind: type, values: Mapping[str, Any]) -> list[str]:
    lines = []
    for spec in fields(kind):
        if not spec.init or spec.name not in values:
            continue
        doc, source = spec.metadata.get("doc", ""), spec.metadata.get("source", "")
        if doc:
            lines.append(f"# {doc}" + (f" ({source})" if source else ""))
        value = values[spec.name]
        lines.append(f"# {spec.name} is not set" if value is None else f"{spec.name} = {toml_of(plain_of(value))}")
    return lines


def toml_of(value: Any) -> str:
    """Plain data as a TOML value."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_of(k)} = {toml_of(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_of, value)) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)


def fingerprint(value: Any) -> str:
    """SHA-256 (hex) of plain data in its one canonical spelling."""
    return hashlib.sha256(
        json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    ).hexdigest()
