"""The run folder: taking it for a run, finding it finished, refusing it to another."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cleanpipe.engine.commit import differences
from cleanpipe.errors import ConfigError
from cleanpipe.io.store import TEMPORARY, publish_json
from cleanpipe.recipe import fingerprint

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run left: its folder, whether this call did any work, and what to tell about it."""

    out: Path
    already: bool
    audit: Mapping[str, Any]
    facts: Mapping[str, Any]  # run.json
    failed: Mapping[str, str] = field(default_factory=dict)  # inputs that could not be read, and why; tried again

    @property
    def exit_code(self) -> int:
        """0, or 1 where an input could not be read or the balance does not close."""
        return 1 if self.failed or not self.audit["conservation"]["balanced"] else 0


class Claim:
    """The right to work in a run folder; one process has it at a time, and its death gives it back."""

    def __init__(self, folder: Path) -> None:
        path, self._folder = folder / "work" / "lock", folder
        self._file = path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read().strip() or "unknown"
            self._file.close()
            raise ConfigError(f"another run is at work in {folder} ({holder}): wait for it or end it") from error
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {platform.node()}\n")
        self._file.flush()

    def withdraw(self) -> None:
        """Leave no trace of a run that nothing was done for: its corrected line must find the folder free."""
        work = self._folder / "work"
        if not any(work.glob("pass*/*/manifest.json")):
            shutil.rmtree(work, ignore_errors=True)
            for name in ("data", "ledger", "quarantine", "audit", "."):
                with contextlib.suppress(OSError):
                    (self._folder / name).rmdir()

    def release(self) -> None:
        """Let others work in it."""
        self._file.close()


def claim(folder: Path, identity: Mapping[str, Any]) -> Finished | Claim:
    """Take the folder for this run, or find it finished.

    A run that ended without some of its inputs is not finished: it goes on with these.

    Raises:
        ConfigError: it holds another run, one that is at work, or something that is no run; the difference is named.
    """
    plan = folder / "work" / "plan.json"
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is a file: name a folder for the run")
    if (folder / MANIFEST).exists():
        facts = _finished(folder)
        _refuse(folder, differences(identity, facts["identity"]), "a finished run")
        if not facts.get("failed") or not plan.exists():
            clear(folder / "work", keep=facts.get("kept_work", False))
            audit = _load(folder, "audit/audit.json", ("funnel", "conservation", "shards"))
            return Finished(folder, True, audit, facts, facts.get("failed", {}))
    elif folder.exists() and not plan.exists() and any(p.name != "work" for p in folder.iterdir()):
        raise ConfigError(f"{folder} is not empty and holds no run: name another folder")
    (folder / "work").mkdir(parents=True, exist_ok=True)
    taken = Claim(folder)
    try:
        if plan.exists():
            _refuse(
                folder, differences(identity, _load(folder, "work/plan.json", tuple(identity))), "an unfinished run"
            )
            for left in folder.rglob(f"{TEMPORARY}*"):
                left.unlink(missing_ok=True)
            (folder / MANIFEST).unlink(missing_ok=True)
        else:
            publish_json(plan, identity)
    except BaseException:
        taken.release()
        raise
    return taken


def _finished(folder: Path) -> dict[str, Any]:
    """run.json of a finished run whose files are all there at their sizes."""
    manifest = _load(folder, MANIFEST, ("files", "config_hash", "digest"))
    digest = fingerprint({k: v for k, v in manifest.items() if k != "digest"})
    gone = [n for n, f in manifest["files"].items() if _size(folder / n) != f.get("bytes")] if digest else []
    if digest != manifest["digest"] or gone:
        what = f"{gone[0]} is not what it was" if gone else "its manifest was changed"
        raise ConfigError(
            f"{folder} holds a damaged run ({what}): see `cleanpipe verify {folder}`, or name another folder"
        )
    return _load(folder, "run.json", ("identity", "config_hash", "work", "units"))


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


def local_folder(given: str | Path, what: str) -> Path:
    """The folder that an argument means.

    Raises:
        ConfigError: it is a URL; outputs lie on local or mounted file systems in this release.
    """
    text = str(given)
    if not text:
        raise ConfigError(f"{what} is empty: name a folder")
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


def _load(folder: Path, name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        data = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{folder}/{name} cannot be read ({error}): see `cleanpipe verify {folder}`, or name another folder"
        ) from error
    if not isinstance(data, dict) or any(k not in data for k in keys):
        raise ConfigError(f"{folder}/{name} is not what a run writes: name another folder")
    return data
