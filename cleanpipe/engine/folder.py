"""The run folder: taking it for a run, finding it finished, refusing it to another."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cleanpipe.engine.commit import differences
from cleanpipe.errors import ConfigError
from cleanpipe.io.store import Hold, LocalStore, Store, spelled
from cleanpipe.recipe import fingerprint

MANIFEST = "manifest.json"
PLAN = "work/plan.json"
IDENTITY = ("settings", "models", "code", "inputs")


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run left: its folder, whether this call did any work, and what to tell about it."""

    out: str
    already: bool
    audit: Mapping[str, Any]
    facts: Mapping[str, Any]  # run.json
    failed: Mapping[str, str] = field(default_factory=dict)  # inputs that could not be read, and why; tried again

    @property
    def exit_code(self) -> int:
        """0, or 1 where an input could not be read or the balance does not close."""
        return 1 if self.failed or not self.audit["conservation"]["balanced"] else 0


class Claim:
    """The run folder, taken for this run."""

    def __init__(self, store: Store, hold: Hold) -> None:
        self.store, self.hold = store, hold

    def withdraw(self) -> None:
        """Leave no trace of a run that nothing was done for: its corrected line must find the folder free."""
        if any(True for _ in self.store.names("work/done/")):
            return
        self.store.delete_below("work/")
        if isinstance(self.store, LocalStore):
            for name in ("data", "ledger", "index", "quarantine", "audit", "."):
                with contextlib.suppress(OSError):
                    (self.store.path / name).rmdir()

    def release(self) -> None:
        """Let others work in it."""
        self.hold.release()


def claim(
    store: Store,
    identity: Mapping[str, Any],
    tell: Callable[[str], None],
    *,
    about: Mapping[str, Any],
    again: Callable[[], None] | None = None,
) -> Finished | Claim:
    """Take the folder for this run, or find it finished.

    A run that ended without some of its inputs is not finished: it goes on with these. about: what the plan tells
    besides, to whoever asks before the end. again: go on with a finished one
    whose ``work/`` is there, under this identity; called when it is taken.

    Raises:
        ConfigError: it holds another run, one that is at work, or something that is no run; the difference is named.
    """
    root = store.root
    if isinstance(store, LocalStore) and store.path.exists() and not store.path.is_dir():
        raise ConfigError(f"{root} is a file: name a folder for the run")
    planned = store.size(PLAN) >= 0
    if store.size(MANIFEST) >= 0:
        facts = _finished(store)
        if again is not None and not planned:
            raise ConfigError(f"{root} has no work/ any more: nothing can be tried again in it")
        if again is None:
            _refuse(store, differences(identity, facts["identity"]), "a finished run")
        if again is None and (not facts.get("failed") or not planned):
            if not facts.get("kept_work"):
                store.delete_below("work/")
            audit = load(store, "audit/audit.json", ("funnel", "conservation", "shards"))
            return Finished(root, True, audit, facts, facts.get("failed", {}))
    elif not planned and next((n for n, _ in store.names() if not n.startswith("work/")), None) is not None:
        raise ConfigError(f"{root} is not empty and holds no run: name another folder")
    taken = Claim(store, store.hold(tell))
    try:
        if again is not None:
            again()
            store.write(PLAN, spelled({**identity, "about": about}))
            store.delete(MANIFEST)
        elif not store.write_new(PLAN, spelled({**identity, "about": about})):
            if "again" in load(store, PLAN, tuple(IDENTITY)):
                raise ConfigError(f"a --rerun was stopped in {root}: end it by `cleanpipe quarantine {root} --rerun`")
            _refuse(store, differences(identity, load(store, PLAN, tuple(IDENTITY))), "an unfinished run")
            store.remove_leftovers()
            store.delete(MANIFEST)
    except BaseException:
        taken.release()
        raise
    return taken


def _finished(store: Store) -> dict[str, Any]:
    """run.json of a finished run whose files are all there at their sizes."""
    manifest = load(store, MANIFEST, ("files", "config_hash", "digest"))
    digest = fingerprint({k: v for k, v in manifest.items() if k != "digest"})
    sizes = dict(store.names())
    gone = [n for n, f in manifest["files"].items() if sizes.get(n, -1) != f.get("bytes")]
    if digest != manifest["digest"] or gone:
        what = f"{gone[0]} is not what it was" if gone else "its manifest was changed"
        raise ConfigError(
            f"{store.root} holds a damaged run ({what}): see `cleanpipe verify {store.root}`, or name another folder"
        )
    return load(store, "run.json", ("identity", "config_hash", "work", "units"))


def place(given: str | Path, what: str) -> str:
    """The root of the store that an argument means: an absolute path, or s3://bucket/prefix.

    Raises:
        ConfigError: it is empty, or a URL of another kind.
    """
    text = str(given)
    if not text:
        raise ConfigError(f"{what} is empty: name a folder")
    if text.startswith("s3://"):
        bucket, _, prefix = text.removeprefix("s3://").partition("/")
        if not bucket or not prefix.strip("/"):
            raise ConfigError(f"{what} {text}: name a bucket and a prefix in it, s3://bucket/prefix")
        return f"s3://{bucket}/{prefix.strip('/')}"
    if text.startswith("file://"):
        text = text.removeprefix("file://")
    if "://" in text:
        raise ConfigError(f"{what} {text}: a run is written to a folder or to s3://bucket/prefix")
    return str(Path(text).absolute())


def _refuse(store: Store, changes: Sequence[str], what: str) -> None:
    if changes:
        more = f" (and {len(changes) - 5} more)" if len(changes) > 5 else ""
        raise ConfigError(
            f"{store.root} holds {what} that differs: {'; '.join(changes[:5])}{more}. Name another folder"
            + (f", and --reuse {store.root} to take over what matches" if store.size(PLAN) >= 0 else "")
        )


def load(store: Store, name: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """A JSON file of a run.

    Raises:
        ConfigError: it is not there, or not what a run writes.
    """
    try:
        data = json.loads(store.read(name))
    except FileNotFoundError as error:
        if name != MANIFEST:
            raise ConfigError(f"{store.root} holds no finished run: there is no {name}") from error
        if store.size(PLAN) >= 0:
            raise ConfigError(f"{store.root} is not finished yet: start the same line again") from error
        raise ConfigError(f"{store.root} holds no run: name the folder that `cleanpipe run … --out` wrote") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"{store.root}/{name} cannot be read ({error}): see `cleanpipe verify {store.root}`, or name another folder"
        ) from error
    if not isinstance(data, dict) or any(k not in data for k in keys):
        raise ConfigError(f"{store.root}/{name} is not what a run writes: name another folder")
    return data
