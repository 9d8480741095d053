"""What the machine has: memory used, room on the disk, versions installed."""

from __future__ import annotations

import resource
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from cleanpipe.errors import StopError
from cleanpipe.io.inputs import Input
from cleanpipe.io.store import Store
from cleanpipe.observer import Observer

PACKAGES = (
    "cleanpipe",
    "pyarrow",
    "numpy",
    "FastWARC",
    "Resiliparse",
    "warcio",
    "fasttext-predict",
    "fasttext",
    "kenlm-ex",
    "kenlm",
    "ray",
    "datasets",
)


def peak_memory() -> int:
    """Largest resident set of this process so far, bytes (VmHWM: ru_maxrss would show the parent's across exec)."""
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def check_disk(store: Store, inputs: Sequence[Input], observer: Observer) -> None:
    """Is there room? Texts, windows and shards take about the compressed size of a WARC, of WET five times that.

    Raises:
        StopError: there surely is not.
    """
    if not store.local:  # an object store has room; what lies on this disk is a unit at a time
        return
    need = sum(i.size * (5 if ".wet" in i.source else 1) for i in inputs)
    free = store.free()
    room = f"{free / 1e9:,.1f} GB free, and the run may need {need / 1e9:,.1f} GB"
    if free < need // 10:
        raise StopError(room, source=store.root)
    if free < need:
        observer.warn(f"{room}; a full disk loses nothing")


def versions() -> dict[str, str]:
    """Installed versions of what decides results."""
    out = {}
    for name in PACKAGES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    return out
