"""Stage names to classes. A pack enters by one entry point of the group ``cleanpipe.stages``; in it, a stage is known
by its file name. Only the stage that is asked for is imported.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from cleanpipe.errors import ConfigError
from cleanpipe.stage import Stage

GROUP = "cleanpipe.stages"
OWN_PACK = "cleanpipe_stages"
OWN_PACKAGES = ("cleanpipe", "cleanpipe_stages", "cleanpipe_jobs")


@dataclass(frozen=True, slots=True)
class StageRef:
    """Where a stage lives: the module of a pack, or a file of the user's own (module is "" then)."""

    name: str
    pack: str
    module: str
    path: Path


@cache
def _package_folder(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def catalogue() -> dict[str, StageRef]:
    """Every stage of every installed pack, by name, without importing one.

    Raises:
        ConfigError: two packs hold a stage of one name, or a pack's package is missing.
    """
    found: dict[str, StageRef] = {}
    packs = {(p.name, p.value) for p in entry_points(group=GROUP)}
    if not any(package == OWN_PACK for _, package in packs) and _package_folder(OWN_PACK) is not None:
        packs.add(("cleanpipe", OWN_PACK))  # code that came without its distribution, as Ray's py_modules
    for pack, package in sorted(packs):
        folder = _package_folder(package)
        if folder is None:
            raise ConfigError(f"stage pack {pack!r} names the package {package!r}, which is not installed")
        for path in sorted(folder.glob("*.py")):
            name = path.stem
            if name.startswith("_"):
                continue
            if name in found and found[name].path != path:
                raise ConfigError(f"stage {name!r} is in two packs: {found[name].pack} and {pack}; rename one")
            found[name] = StageRef(name, pack, f"{package}.{name}", path)
    return found


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for an error: ``; did you mean 'x'?`` or the list of what is known."""
    names = sorted(known)
    close = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(names)}"


def find(ref: str, base: Path | None = None) -> StageRef:
    """The stage called ``ref``: a name, or a path ending in .py (relative to ``base``, the recipe's folder).

    Raises:
        ConfigError: there is none; the nearest name is offered.
    """
    if ref.endswith(".py"):
        path = (base / ref if base and not Path(ref).is_absolute() else Path(ref)).resolve()
        if not path.is_file():
            raise ConfigError(f"stage file not found: {path}")
        return StageRef(path.stem, str(path), "", path)
    try:
        return catalogue()[ref]
    except KeyError:
        raise ConfigError(f"unknown stage {ref!r}{nearest(ref, catalogue())}") from None


@cache
def load(ref: StageRef) -> type[Stage]:
    """Import the stage's class.

    Raises:
        ConfigError: its module fails to import, or holds no Stage whose ``name`` is the file's.
    """
    try:
        module = importlib.import_module(ref.module) if ref.module else _import_file(ref.path)
    except ImportError as error:
        raise ConfigError(f"stage {ref.name!r} cannot be imported from {ref.path}: {error}") from error
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Stage) and value.__dict__.get("name") == ref.name:
            return value
    raise ConfigError(f"{ref.path} holds no Stage with name = {ref.name!r}: a stage is called like its file")


def _import_file(path: Path) -> ModuleType:
    name = f"cleanpipe_user_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"not a Python file: {path}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def code_version(refs: Iterable[StageRef]) -> str:
    """SHA-256 over the Python files of the three packages and of every stage pack in use (hex)."""
    roots: dict[str, Path] = {p: folder for p in OWN_PACKAGES if (folder := _package_folder(p)) is not None}
    digest = hashlib.sha256()
    for ref in refs:
        if ref.module:
            package = ref.module.rpartition(".")[0]
            roots[package] = ref.path.parent
        else:
            roots[f"file:{ref.name}"] = ref.path
    for name in sorted(roots):
        root = roots[name]
        for path in [root] if root.is_file() else sorted(root.rglob("*.py")):
            label = path.name if root.is_file() else path.relative_to(root).as_posix()
            digest.update(f"{name}/{label}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
