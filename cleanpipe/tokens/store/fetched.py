"""Where a store's files lie locally: in its own folder, or in a cache that is filled as they are first touched."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

from cleanpipe.io.scratch import disk, scratch
from cleanpipe.io.store import LocalStore, Store, open_store
from cleanpipe.options import StorageOptions


class Files:
    """Paths of a store's files by name. Picklable; another process makes its own connection.

    cache: a folder that keeps what was fetched, shared by processes; "": a temporary one of each process.
    """

    def __init__(self, root: str, storage: StorageOptions, cache: str, key: str) -> None:
        self.root, self.storage, self.cache, self.key = root, storage, cache, key
        self.local = not root.startswith("s3://")
        self.keeps = self.local or bool(cache)  # what was fetched, as long as the process lives

    @property
    def store(self) -> Store:
        """The store; one object a process."""
        return open_store(self.root, self.storage)

    def path(self, name: str) -> Path:
        """The local path of a file, fetched if it is not here yet. Its content is proven by who reads it.

        Raises:
            StopError: the storage was lost, or the disk of the cache is full. DamagedFileError: it is not there.
        """
        if self.local:
            return Path(self.root) / name
        folder = Path(self.cache) if self.cache else scratch(self.storage.scratch)
        path = folder / self.key / name
        if path.exists():
            return path
        with self.store.fetch(name) as fetched, disk(folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.parent / f".tmp-{uuid.uuid4().hex}"
            try:
                shutil.copyfile(fetched, beside)
                beside.replace(path)
            finally:
                beside.unlink(missing_ok=True)
        return path

    def forget(self, names: list[str]) -> None:
        """Remove files from a temporary cache; maps of them go on."""
        if not self.keeps:
            for name in names:
                (scratch(self.storage.scratch) / self.key / name).unlink(missing_ok=True)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Bytes of every file below a folder."""
        store = self.store
        if isinstance(store, LocalStore):
            with os.scandir(store.path / prefix) as entries:
                return {prefix + e.name: e.stat().st_size for e in entries}
        return dict(store.names(prefix))
