"""A finished store, proven file by file: what is not as its manifest says is taken away, so that its shards are made
again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cleanpipe.engine.folder import MANIFEST, PLAN
from cleanpipe.errors import ConfigError, DamagedFileError
from cleanpipe.io.store import LocalStore, Store
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens.layout import STORE
from cleanpipe.tokens.store.names import LINK, PAYLOAD

MEND = "the same line with --repair makes its shard again"
_OF_RUNS = "config_hash.txt"  # that no token store has
_SHARD = re.compile(r"^(?:tokens|spans|audit/shards)/([^/]+?)(?:\.[^/]*)?$")
_MADE = ("tokens/", "spans/", "ledger/", "audit/")


@dataclass(frozen=True, slots=True)
class Damage:
    """files: that are not as the manifest says, by name; all that a shard's unit makes where it cannot be believed.
    named: name → SHA-256 by the manifest; empty where it cannot. checked: files that were read.
    """

    files: tuple[str, ...]
    named: Mapping[str, str] = field(default_factory=dict)
    checked: int = 0

    def spoils(self, name: str) -> bool:
        """Whether it cannot be read."""
        return name in self.files or name not in self.named


def is_finished(store: Store) -> bool:
    """Whether there is a store that was finished once, if only by its store.json."""
    return store.size(MANIFEST) >= 0 or (store.size(PLAN) < 0 and store.size(STORE) >= 0)


def prove(store: Store) -> Damage:
    """Read every file that the manifest names.

    Raises:
        ConfigError: there is no token store.
    """
    files = _files(store)
    if files is None:
        there = [name for folder in _MADE for name, _ in store.names(folder)]
        if not any(name.startswith("tokens/") for name in there):
            raise ConfigError(f"{store.root} holds no tokens that could be repaired: name another folder")
        return Damage((MANIFEST, *sorted(there)))
    bad = [name for name, facts in sorted(files.items()) if not _sound(store, name, facts, files)]
    return Damage(tuple(bad), {n: str(f["sha256"]) for n, f in files.items()}, len(files))


def _files(store: Store) -> dict[str, Any] | None:
    """What the manifest names; None where it is gone or cannot be believed."""
    try:
        manifest = json.loads(store.read(MANIFEST))
        files = manifest["files"]
        whole = manifest["digest"] == fingerprint({k: v for k, v in manifest.items() if k != "digest"})
        whole = whole and all(isinstance(f["bytes"], int) and f["sha256"] for f in files.values())
        names = set(files)
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return None
    if STORE not in names or _OF_RUNS in names:
        raise ConfigError(f"{store.root} holds a run, not tokens: name another folder")
    return dict(files) if whole else None


def _sound(store: Store, name: str, facts: Mapping[str, Any], files: Mapping[str, Any]) -> bool:
    payload = f"{name.removesuffix(LINK)}{PAYLOAD}"
    if name.endswith(LINK) and isinstance(store, LocalStore) and payload in files:
        link, own = store.path / name, store.path / payload
        if link.is_file() and own.is_file() and link.samefile(own) and facts == files[payload]:
            return True  # the payload is proven by its own name
    try:
        with store.fetch(name, facts):
            return True
    except (DamagedFileError, FileNotFoundError, IsADirectoryError):
        return False


def take_away(store: Store, damage: Damage) -> None:
    """Delete the damaged files, and what else speaks for their shards' units; the manifest last."""
    shards = {found[1] for name in damage.files if (found := _SHARD.match(name))}
    records = [f"audit/shards/{shard.partition('.')[0]}{end}" for shard in shards for end in (".json", ".spans.json")]
    gone = {*damage.files, *records} - {MANIFEST}
    there = {name for name, _ in store.names()}
    store.delete_all(sorted(gone & there))
    store.delete(MANIFEST)


def differing(store: Store, named: Mapping[str, str]) -> list[str]:
    """Files of shards that were made again, and have other bytes than the manifest had named."""
    now = json.loads(store.read(MANIFEST))["files"]
    of_shards: Iterable[str] = (n for n in named if not n.startswith("audit/audit.") and n.startswith(_MADE))
    return [n for n in sorted(of_shards) if n not in now or now[n]["sha256"] != named[n]]
