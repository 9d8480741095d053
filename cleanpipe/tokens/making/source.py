"""The run whose shards become tokens: finished, or, where its end is waited for, as far as it has published them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cleanpipe.engine.folder import IDENTITY, MANIFEST, PLAN, load
from cleanpipe.errors import ConfigError, DamagedFileError, ShardError
from cleanpipe.io.store import LocalStore, open_store
from cleanpipe.options import StorageOptions
from cleanpipe.queries.seen import Seen
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens.layout import STORE

DATA, LEDGER = "data/", "ledger/"
Files = Mapping[str, Mapping[str, Any]]  # name in the run → bytes, sha256 …


class Source:
    """root: of the run. finished: its manifest was read; ``shards`` and ``ledger`` are whole then."""

    def __init__(self, root: str, storage: StorageOptions) -> None:
        self.root, self.store = root, open_store(root, storage)
        self.finished = False
        self.shards: dict[str, Mapping[str, Any]] = {}  # data-00000-of-00003.arrow → its facts
        self.ledger: dict[str, Mapping[str, Any]] = {}  # ledger/part-00000.parquet → its facts
        self.facts: Mapping[str, Any] = {}  # run.json
        self.audit: Mapping[str, Any] = {}
        self._seen: Seen | None = None
        self._identity: Mapping[str, Any] = {}

    @property
    def is_there(self) -> bool:
        """Whether a run was begun there."""
        return self.store.size(MANIFEST) >= 0 or self.store.size(PLAN) >= 0

    def look(self, *, follow: bool) -> None:
        """What there is now.

        Raises:
            ConfigError: there is no run, or it is not finished and nobody wants to wait for it, or it is damaged.
        """
        if isinstance(self.store, LocalStore) and self.store.path.exists() and not self.store.path.is_dir():
            raise ConfigError(f"{self.root} is a file: name the folder that `cleanpipe run … --out` wrote")
        if self.store.size(STORE) >= 0:
            raise ConfigError(f"{self.root} holds tokens, not a run: name the folder that `cleanpipe run --out` wrote")
        if self.store.size(MANIFEST) >= 0:
            self._read()
        elif self.store.size(PLAN) < 0:
            raise ConfigError(f"{self.root} holds no run: name the folder that `cleanpipe run … --out` wrote")
        elif not follow:
            raise ConfigError(
                f"{self.root} is not finished yet: wait for its end, or tokenize its shards as they come by --follow"
            )
        elif not self._published():  # it ended while it was looked at
            self._read()

    def _read(self) -> None:
        manifest = load(self.store, MANIFEST, ("files", "config_hash", "digest"))
        if fingerprint({k: v for k, v in manifest.items() if k != "digest"}) != manifest["digest"]:
            raise self.damaged(MANIFEST, "it was changed after the run")
        files: Files = manifest["files"]
        sizes = {name: size for folder in (DATA, LEDGER) for name, size in self.store.names(folder)}
        for name, facts in files.items():
            if name.startswith((DATA, LEDGER)) and sizes.get(name, -1) != facts["bytes"]:
                raise self.damaged(name, "it is not what it was")
        self.facts = load(self.store, "run.json", ("identity", "config_hash"))
        self.audit = load(self.store, "audit/audit.json", ("identity", "ledger", "conservation"))
        self.shards = {
            n.removeprefix(DATA): f for n, f in sorted(files.items()) if n.startswith(DATA) and n.endswith(".arrow")
        }
        self.ledger = {n: f for n, f in sorted(files.items()) if n.startswith(LEDGER) and n.endswith(".parquet")}
        self._identity = self.facts["identity"]
        self.finished = True

    def _published(self) -> bool:
        """Shards that the journal of an unfinished run names; false where there is a manifest by now."""
        try:
            self._identity = load(self.store, PLAN, IDENTITY)
        except ConfigError:
            if self.store.size(MANIFEST) >= 0:
                return False
            raise
        self._seen = self._seen or Seen(self.store, "shard")
        self._seen.look()
        found: dict[str, Mapping[str, Any]] = {}
        for key in self._seen.keys() - self._seen.unread:
            try:
                published = self._seen.manifest(key).get("published", {})
            except DamagedFileError:  # its book is being made anew
                continue
            found |= {n.removeprefix(DATA): f for n, f in published.items() if n.startswith(DATA)}
        if self.store.size(MANIFEST) >= 0:
            return False
        self.shards = dict(sorted(found.items()))
        return True

    def identity(self) -> dict[str, str]:
        """Digests of what decides the run's bytes, by what it is: the same before its end and after."""
        whole = self._identity
        parts = {name: fingerprint(whole[name]) for name in IDENTITY}
        more = {n: whole[n] for n in ("limits", "again", "kept_code") if whole.get(n)}
        return {**parts, **({"rerun": fingerprint(more)} if more else {})}

    def damaged(self, name: str, why: str) -> ConfigError:
        """A file of the run that cannot be believed."""
        return ConfigError(f"{self.root}/{name} is damaged ({why}): see `cleanpipe verify {self.root}`")


@contextmanager
def run_file(root: str, storage: StorageOptions, name: str, facts: Mapping[str, Any]) -> Iterator[Path]:
    """A published file of the run, proven to be as it was written, for the time of a ``with``.

    Raises:
        ShardError: it is not; while the run goes on, a later look may find it so.
    """
    try:
        with open_store(root, storage).fetch(name, facts) as path:
            yield path
    except DamagedFileError as error:
        raise ShardError(f"{error.message}: see `cleanpipe verify {root}`", source=name) from error
