"""A published run as a local folder: itself where it lies on a file system, else a copy as long as it is looked at."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cleanpipe.engine.folder import place
from cleanpipe.errors import StopError
from cleanpipe.io.store import LocalStore, open_store
from cleanpipe.options import StorageOptions

_HERE = StorageOptions()


@contextmanager
def brought(out: str | Path, storage: StorageOptions = _HERE) -> Iterator[Path]:
    """The folder of a run for the time of a ``with``. Of one on an object store everything but ``work/`` is copied to
    the scratch folder first.

    Raises:
        ConfigError: ``out`` is no place for a run. StopError: it is larger than the scratch folder has room.
    """
    store = open_store(place(out, "OUT"), storage)
    if isinstance(store, LocalStore):
        yield store.path
        return
    files = [(name, size) for name, size in store.names() if not name.startswith("work/")]
    need, free = sum(size for _, size in files), store.free()
    if need > free:
        room = f"{need / 1e9:,.1f} GB to copy, {free / 1e9:,.1f} GB free: set storage.scratch to a larger folder"
        raise StopError(room, source=store.root)
    with tempfile.TemporaryDirectory(prefix="cleanpipe-", dir=storage.scratch or None) as folder:
        for name, _ in files:
            target = Path(folder) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with store.fetch(name) as path:
                shutil.copyfile(path, target)
        yield Path(folder)
