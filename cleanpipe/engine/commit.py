"""Units and manifests: what is done is what a manifest says. Resuming is listing manifests; nothing is read again.

A unit's key names everything that decides its outputs. Outputs carry the attempt in their names and the manifest is
published last, so a unit may run twice, or at the same time, and harms nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe.io.arrow import sha256_of
from cleanpipe.io.store import publish_json
from cleanpipe.recipe import fingerprint


def unit_key(*parts: Any) -> str:
    """SHA-256 (hex, 32 characters) over plain data."""
    return fingerprint(list(parts))[:32]


class Units:
    """Finished units of one kind below ``work/``: one folder a key, with ``manifest.json`` published last."""

    def __init__(self, work: Path, kind: str) -> None:
        self.folder = work / kind

    def home(self, key: str) -> Path:
        """The folder of a unit; made if absent."""
        home = self.folder / key
        home.mkdir(parents=True, exist_ok=True)
        return home

    def attempt(self) -> str:
        """A name that no other attempt has."""
        return uuid.uuid4().hex[:12]

    def commit(self, key: str, result: Mapping[str, Any]) -> None:
        """Publish the unit's manifest; from here on it is done. ``result["files"]`` maps roles to names and sizes."""
        publish_json(self.home(key) / "manifest.json", dict(result))

    def done(self, key: str) -> dict[str, Any] | None:
        """The manifest of a finished unit whose files are all there as they were written, else None."""
        home = self.folder / key
        try:
            manifest: dict[str, Any] = json.loads((home / "manifest.json").read_text(encoding="utf-8"))
            for entry in manifest["files"].values():
                path = home / entry["name"]
                if path.stat().st_size != entry["bytes"] or sha256_of(path) != entry["sha256"]:
                    return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        return manifest

    def path(self, key: str, manifest: Mapping[str, Any], role: str) -> Path:
        """Where one output of a finished unit lies."""
        return self.folder / key / str(manifest["files"][role]["name"])

    def take_over(self, other: Units, key: str) -> bool:
        """Link the files of an equal unit of another run; false if that run does not have it."""
        manifest = other.done(key)
        if manifest is None:
            return False
        home = self.home(key)
        for entry in manifest["files"].values():
            target = home / entry["name"]
            target.unlink(missing_ok=True)
            try:
                os.link(other.folder / key / entry["name"], target)
            except OSError:  # another file system
                shutil.copyfile(other.folder / key / entry["name"], target)
        self.commit(key, manifest)
        return True


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """What stands between two run identities, in words; empty if they are equal."""
    out: list[str] = []
    if ours["settings"] != theirs["settings"]:
        out += [f"option {line}" for line in _changed(_flat(theirs["settings"]), _flat(ours["settings"]))]
    for what in ("models", "code"):
        if ours[what] != theirs[what]:
            detail = _changed(_flat({what: theirs[what]}), _flat({what: ours[what]})) if what == "models" else []
            out += [f"model {d}" for d in detail] or ["the code version"]
    a, b = ({i["source"]: i for i in x["inputs"]} for x in (theirs, ours))
    gone, new = sorted(a.keys() - b.keys()), sorted(b.keys() - a.keys())
    changed = sorted(s for s in a.keys() & b.keys() if (a[s]["size"], a[s]["stamp"]) != (b[s]["size"], b[s]["stamp"]))
    for word, names in (
        ("no longer among the inputs", gone),
        ("new among the inputs", new),
        ("changed on disk", changed),
    ):
        if names:
            out.append(f"{', '.join(names[:3])}{' and more' if len(names) > 3 else ''}: {word}")
    return out


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {
            k: v
            for name, below in value.items()
            for k, v in _flat(below, f"{path}.{name}" if path else str(name)).items()
        }
    if path == "stages" and isinstance(value, list):
        flat = {"stages": [s[0] for s in value]}
        for name, enabled, options in value:
            flat |= _flat({**options, "enabled": enabled}, name)
        return flat
    return {path: value}


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[str]:
    return [
        f"{k}: {before.get(k)!r} → {after.get(k)!r}" for k in sorted({*before, *after}) if before.get(k) != after.get(k)
    ]


def digest_of(path: Path) -> str:
    """SHA-256 (hex) of a model file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"model file {path} cannot be read: {error.strerror or error}") from error
