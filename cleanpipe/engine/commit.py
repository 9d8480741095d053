"""Units of work and their manifests: what is done is what a manifest says.

A unit's key names everything that decides its outputs. Outputs carry the attempt in their names and the manifest is
published last, by the first attempt that comes so far: a unit may run twice, or at the same time, and harms nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cleanpipe.errors import ConfigError, DamagedFileError
from cleanpipe.io.arrow import RowFile
from cleanpipe.io.store import Store, spelled
from cleanpipe.recipe import fingerprint

File = Mapping[str, Any]  # name in the store, bytes, sha256


def unit_key(*parts: Any) -> str:
    """SHA-256 (hex, 32 characters) over plain data."""
    return fingerprint(list(parts))[:32]


class Units:
    """Units of one kind. Files lie in ``work/<kind>/<key>/``, manifests in ``work/done/<kind>/<key>.json``."""

    def __init__(self, store: Store, kind: str) -> None:
        self.store, self.kind = store, kind

    def attempt(self) -> str:
        """A name that no other attempt has."""
        return uuid.uuid4().hex[:12]

    def name(self, key: str, attempt: str, role: str) -> str:
        """Of one output of one attempt."""
        return f"work/{self.kind}/{key}/{attempt}-{role}.arrow"

    def manifest(self, key: str) -> str:
        """Of a unit's manifest, as long as no book of the journal holds it."""
        return f"work/done/{self.kind}/{key}.json"

    def commit(self, key: str, result: dict[str, Any]) -> dict[str, Any]:
        """Publish the unit's manifest; from here on it is done. Where another attempt was first, its result is what
        counts, and the files of this one go. ``result["files"]`` maps roles to File.
        """
        if self.store.write_new(self.manifest(key), spelled(result)):
            return result
        theirs = self.done(key)
        if theirs is None:  # no manifest at all: what a damaged disk leaves
            self.store.write(self.manifest(key), spelled(result))
            return result
        kept = {f["name"] for f in theirs["files"].values()}
        for file in result["files"].values():
            if file["name"] not in kept:
                self.store.delete(file["name"])
        return theirs

    def done(self, key: str) -> dict[str, Any] | None:
        """The manifest of a finished unit, else None."""
        try:
            return parsed(self.store.read(self.manifest(key)))
        except FileNotFoundError:
            return None


def parsed(data: bytes) -> dict[str, Any] | None:
    """A manifest's bytes as a result; None if they are none."""
    try:
        manifest = json.loads(data)
        files = manifest["files"].values()
        sound = all(isinstance(f["name"], str) and isinstance(f["bytes"], int) and f["sha256"] for f in files)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return dict(manifest) if sound else None


@contextmanager
def row_file(store: Store, file: File) -> Iterator[RowFile]:
    """A finished file of a unit, proven to be as it was written, for the time of a ``with``.

    Raises:
        DamagedFileError: it is not.
    """
    with store.fetch(file["name"], file) as path:
        yield RowFile(path)


def take_over(ours: Store, theirs: Store, manifest: Mapping[str, Any]) -> bool:
    """Link or copy the files of an equal unit of another run; false if they are not as they were written."""
    for file in manifest["files"].values():
        draft = ours.draft(file["name"], "taken")
        with suppress(FileNotFoundError):
            draft.unlink()
        try:
            with theirs.fetch(file["name"], file) as path:
                _link(path, draft)
        except DamagedFileError:
            return False
        ours.publish(draft, file["name"], file)
    return True


def _link(path: Path, draft: Path) -> None:
    try:
        os.link(path, draft)
    except OSError:  # another file system
        shutil.copyfile(path, draft)


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """What stands between two run identities, in words; empty if they are equal."""
    out: list[str] = []
    if ours["settings"] != theirs["settings"]:
        out += [f"option {line}" for line in _changed(_flat(theirs["settings"]), _flat(ours["settings"]))]
    for what in ("models", "code"):
        if ours[what] != theirs[what]:
            detail = _changed(_flat({what: theirs[what]}), _flat({what: ours[what]})) if what == "models" else []
            out += [f"model {d}" for d in detail] or ["the code version"]
    if ours.get("limits", {}) != theirs.get("limits", {}):
        out.append("the list of --limits")
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
    def said(value: Any) -> str:
        return "not set" if value is None else json.dumps(value, ensure_ascii=False)

    names = sorted({*before, *after})
    return [f"{k}: {said(before.get(k))} → {said(after.get(k))}" for k in names if before.get(k) != after.get(k)]


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
