"""Open what a run published, as pyarrow datasets: lazily, by column, from disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cleanpipe.errors import ConfigError


def ledger(out: str | Path) -> Any:
    """The ledger of a run as a ``pyarrow.dataset.Dataset``: one row for every document record or damaged range.

    Raises:
        ConfigError: there is no finished run at ``out``.
    """
    return _dataset(Path(out), "ledger", "part-*.parquet", "parquet")


def shards(out: str | Path) -> Any:
    """The cleaned windows of a run as a ``pyarrow.dataset.Dataset``.

    Raises:
        ConfigError: there is no finished run at ``out``.
    """
    return _dataset(Path(out), "data", "data-*.arrow", "ipc")


def _dataset(out: Path, folder: str, pattern: str, kind: str) -> Any:
    import pyarrow.dataset as ds

    if str(out).startswith("s3:/"):
        raise ConfigError(
            f"{out}: only runs on a file system are opened; copy data/ or ledger/ of this one to a folder"
        )
    if not (out / "manifest.json").is_file():
        raise ConfigError(f"{out} holds no finished run (no manifest.json)")
    files = [str(p) for p in sorted((out / folder).glob(pattern))]
    if kind == "parquet":
        return ds.dataset(files, format="parquet")
    import pyarrow as pa

    tables = [pa.ipc.open_stream(pa.memory_map(f)).read_all() for f in files]  # mapped, not loaded
    return ds.dataset(pa.concat_tables(tables))
