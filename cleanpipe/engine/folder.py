"""The run folder: taking it for a run, finding it finished, refusing it to another."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cleanpipe.engine.commit import differences
from cleanpipe.errors import ConfigError
from cleanpipe.io.store import TEMPORARY, publish_json

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


def claim(folder: Path, identity: Mapping[str, Any]) -> Finished | None:
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
        clear(folder / "work", keep=facts.get("kept_work", False))
        return Finished(folder, True, _load(folder / "audit" / "audit.json"), facts, facts.get("failed", {}))
    if plan.exists():
        _refuse(folder, differences(identity, _load(plan)), "an unfinished run")
        for left in folder.rglob(f"{TEMPORARY}*"):
            left.unlink(missing_ok=True)
        return None
    if folder.exists() and any(p.name != "work" for p in folder.iterdir()):
        raise ConfigError(f"{folder} is not empty and holds no run: name another folder")
    try:
        (folder / "work").mkdir(parents=True, exist_ok=True)
        publish_json(plan, identity)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise ConfigError(f"the run folder {folder} cannot be made: {error.strerror}") from error
    return None


def local_folder(given: str | Path, what: str) -> Path:
    """The folder that an argument means.

    Raises:
        ConfigError: it is a URL; outputs lie on local or mounted file systems in this release.
    """
    text = str(given)
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    if "://" in text:
        raise ConfigError(f"{what} {text}: a run is written to a local or mounted folder; URLs are for inputs")
    return Path(text).absolute()


def _refuse(folder: Path, changes: Sequence[str], what: str) -> None:
    if changes:
        more = f" (and {len(changes) - 5} more)" if len(changes) > 5 else ""
        raise ConfigError(
            f"{folder} holds {what} that differs: {'; '.join(changes[:5])}{more}. Name another folder"
            + (f", and --reuse {folder} to take over what matches" if (folder / "work").is_dir() else "")
        )


def clear(work: Path, *, keep: bool) -> None:
    """Remove the pass outputs of a finished run."""
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
