"""Open what a run published, as pyarrow datasets: lazily, by column, from disk.

A run on an object store, and what an unfinished run has so far, are opened for the time of a ``with``::

    from cleanpipe.queries.opened_run import open_run

    with open_run("s3://bucket/run/web") as run:
        table = run.ledger().to_table(columns=["url", "fate", "reason"])
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cleanpipe.errors import ConfigError

_LATER = "with cleanpipe.queries.opened_run.open_run({!r}{}) as run: run.{}()"


def ledger(out: str | Path) -> Any:
    """The ledger of a run as a ``pyarrow.dataset.Dataset``: one row for every document record or damaged range.

    Raises:
        ConfigError: there is no finished run on a file system at ``out``, or it is damaged; what to do is said.
    """
    return _dataset(out, "ledger")


def shards(out: str | Path) -> Any:
    """The cleaned windows of a run as a ``pyarrow.dataset.Dataset``.

    Raises:
        ConfigError: there is no finished run on a file system at ``out``, or it is damaged; what to do is said.
    """
    return _dataset(out, "shards")


def _dataset(out: str | Path, what: str) -> Any:
    text, folder = str(out), Path(str(out).removeprefix("file://"))
    way = _LATER.format(text, ", data=True" if what == "shards" else "", what)
    if text.startswith(("s3:/", "s3a:/")):
        raise ConfigError(f"{text}: only runs on a file system are opened in place; a copy of it is made by `{way}`")
    if not (folder / "manifest.json").is_file():
        if (folder / "work" / "plan.json").is_file():
            has = f"; what it has so far comes by `{way}`" if what == "ledger" else ", and has no shards yet"
            raise ConfigError(f"{text} is not finished: start the same line again{has}")
        raise ConfigError(f"{text} holds no finished run (no manifest.json): name the folder that a run wrote")
    return ledger_of(text, folder) if what == "ledger" else shards_of(text, folder)


def ledger_of(root: str, folder: Path) -> Any:
    """The parts below ``folder/ledger`` as one dataset, in the order of the units.

    Raises:
        ConfigError: there are none, or one cannot be read. root: how the run is named then.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    files = sorted((folder / "ledger").glob("part-*.parquet"), key=lambda p: int(p.stem.partition("-")[2]))
    if not files:
        raise _damaged(root, "ledger/ is empty")
    try:
        return ds.dataset([str(p) for p in files], format="parquet")
    except (OSError, pa.ArrowInvalid) as error:
        raise _damaged(root, str(error)) from error


def shards_of(root: str, folder: Path) -> Any:
    """The shards below ``folder/data`` as one dataset, in order; mapped, not loaded.

    Raises:
        ConfigError: there are none, or one cannot be read. root: how the run is named then.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    files = sorted((folder / "data").glob("data-*.arrow"))
    try:
        tables = [pa.ipc.open_stream(pa.memory_map(str(f))).read_all() for f in files]
    except (OSError, pa.ArrowInvalid) as error:
        raise _damaged(root, str(error)) from error
    if not tables:
        raise _damaged(root, "data/ is empty")
    return ds.dataset(pa.concat_tables(tables))


def _damaged(root: str, why: str) -> ConfigError:
    first = (why.splitlines() or [""])[0]
    return ConfigError(f"{root} is damaged ({first}): `cleanpipe verify {root}` says what is wrong")
