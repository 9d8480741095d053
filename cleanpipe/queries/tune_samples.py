"""Single rows of the answer of ``tune``: samples with the score that decides, and whole lists as files."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.queries.tune import UNDECIDED, Fate, Tuned
from cleanpipe.queries.tune_ledger import Piece
from cleanpipe.stage import Cut, Stage

SUFFIXES = (".parquet", ".jsonl")
_SCHEMA = pa.schema(
    [
        (col.DOC_ID, pa.string()), (col.URL, pa.string()), (col.SOURCE, pa.string()), (col.RECORD_OFFSET, pa.int64()),
        *((f"{when}_{name}", pa.string()) for when in ("old", "new") for name in (col.FATE, col.STAGE, col.REASON)),
        ("sure", pa.string()), ("why", pa.string()),
    ]
)  # fmt: skip


class _Writer(Protocol):
    def write(self, table: pa.Table) -> None:
        """Add rows."""

    def close(self) -> None:
        """End the file."""


def samples_of(tuned: Tuned, picked: Mapping[str, Sequence[int]]) -> dict[str, list[dict[str, Any]]]:
    """Rows as a person reads them: who, where, both fates, and the score beside the old and the new limit."""
    places = sorted({p for rows in picked.values() for p in rows})
    cuts = {
        (s.name, when): _cuts(stage) for s in tuned.plan.steps for when, stage in (("old", s.was), ("new", s.stage))
    }
    scores = sorted({c.score for found in cuts.values() for c in found} & tuned.ledger.names)
    names = [col.DOC_ID, col.URL, col.SOURCE, col.RECORD_OFFSET, *scores, *_LANGUAGES]
    names = list(dict.fromkeys(n for n in names if n in tuned.ledger.names))

    def mine(piece: Piece) -> list[int]:
        return places[bisect_left(places, piece.first) : bisect_left(places, piece.first + piece.rows)]

    def work(piece: Piece) -> dict[int, dict[str, Any]]:
        table = tuned.ledger.read(piece, names).take(pa.array([p - piece.first for p in mine(piece)]))
        return dict(zip(mine(piece), table.to_pylist(), strict=True))

    rows: dict[int, dict[str, Any]] = {}
    for found in tuned.ledger.each(work, lambda p: bool(mine(p))):
        rows |= found
    out = {}
    for kind, some in picked.items():
        out[kind] = [_sample(tuned, rows[p], tuned.before[tuned.old[p]], tuned.after[tuned.new[p]], cuts) for p in some]
    return out


_LANGUAGES = (col.LANGUAGE, col.LANGUAGE_PREVIEW)


def _cuts(stage: Stage | None) -> Sequence[Cut]:
    return () if stage is None else stage.cuts()


def _sample(
    tuned: Tuned, row: Mapping[str, Any], before: Fate, after: Fate, cuts: Mapping[tuple[str, str], Sequence[Cut]]
) -> dict[str, Any]:
    decides = after if after.fate == col.DROPPED and before.fate in (col.KEPT, UNDECIDED) else before
    if after.fate == col.DROPPED and before.fate == col.DROPPED:
        decides = after if _changed(tuned, after.stage) else before
    return {
        col.DOC_ID: row[col.DOC_ID].hex(), col.URL: row[col.URL],
        "at": f"{row[col.SOURCE]}@{row[col.RECORD_OFFSET]}",
        "language": next((row[n] for n in _LANGUAGES if row.get(n) is not None), None),
        "before": _named(before), "after": _named(after), "sure": after.sure, "why": after.why,
        "scores": _scores(row, decides, cuts.get((decides.stage, "old"), ()), cuts.get((decides.stage, "new"), ())),
    }  # fmt: skip


def _changed(tuned: Tuned, stage: str) -> bool:
    return any(s.name == stage and s.changed for s in tuned.plan.steps)


def _named(fate: Fate) -> str:
    return "/".join(filter(None, (fate.fate, fate.stage, fate.reason)))


def _scores(row: Mapping[str, Any], fate: Fate, old: Sequence[Cut], new: Sequence[Cut]) -> list[dict[str, Any]]:
    """Scores that a limit of the reason is held against: the score, the limit as it was and as it is."""
    found = []
    was = {(c.score, c.option, c.of if c.where else ""): c for c in old if c.reason == fate.reason and _asked(c, row)}
    now = {(c.score, c.option, c.of if c.where else ""): c for c in new if c.reason == fate.reason and _asked(c, row)}
    for key in dict.fromkeys([*was, *now]):
        cut = now.get(key) or was[key]
        value = row.get(cut.score)
        if value is not None:
            limits = {when: cuts[key].at if key in cuts else None for when, cuts in (("old", was), ("new", now))}
            found.append({"score": cut.score, "value": value, "keeps": cut.keeps, **limits, "option": cut.option})
    return [f for f in found if f["old"] != f["new"]] or found


def _asked(cut: Cut, row: Mapping[str, Any]) -> bool:
    return all(row.get(name) == value for name, value in cut.where.items())


def check_file(name: str | None, option: str) -> None:
    """Raises ConfigError where a list of rows cannot be written there."""
    if name is None:
        return
    path = Path(name)
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"{option} {name}: name a file that ends in {' or '.join(SUFFIXES)}")
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else "has no folder to lie in"
        raise ConfigError(f"{option} {name} {what}: name a file")


def write_rows(tuned: Tuned, path: str | Path, wanted: npt.NDArray[np.bool_]) -> int:
    """Every row whose pair of fates is wanted, [before, after], as Parquet or JSON lines, in the ledger's order; how
    many.

    Raises:
        ConfigError: the file cannot be written.
    """
    ledger = tuned.ledger

    def mask(piece: Piece) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = wanted[tuned.old[piece.span], tuned.new[piece.span]]
        return found

    def work(piece: Piece) -> pa.Table:
        chosen = mask(piece)
        names = [n for n in _SCHEMA.names if n in ledger.names]
        table = ledger.read(piece, names).filter(pa.array(chosen))
        old = [tuned.before[i] for i in tuned.old[piece.span][chosen].tolist()]
        new = [tuned.after[i] for i in tuned.new[piece.span][chosen].tolist()]
        columns: dict[str, Any] = {n: table.column(n) for n in names}
        columns[col.DOC_ID] = pa.array([v.hex() for v in table.column(col.DOC_ID).to_pylist()], pa.string())
        for when, fates in (("old", old), ("new", new)):
            columns[f"{when}_fate"] = [f.fate for f in fates]
            columns[f"{when}_stage"] = [f.stage or None for f in fates]
            columns[f"{when}_reason"] = [f.reason or None for f in fates]
        columns["sure"], columns["why"] = [f.sure for f in new], [f.why or None for f in new]
        rest = {f.name: pa.nulls(len(new), f.type) for f in _SCHEMA if f.name not in columns}
        return pa.table({**columns, **rest}).select(_SCHEMA.names).cast(_SCHEMA)

    rows = 0
    try:
        writer = _open(Path(path))
        try:
            for table in ledger.each(work, lambda p: bool(mask(p).any())):
                writer.write(table)
                rows += table.num_rows
        finally:
            writer.close()
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error
    return rows


def _open(path: Path) -> _Writer:
    return pq.ParquetWriter(path, _SCHEMA, compression="zstd") if path.suffix == ".parquet" else _Lines(path)


class _Lines:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def write(self, table: pa.Table) -> None:
        """One line a row."""
        self._file.writelines(json.dumps(row) + "\n" for row in table.to_pylist())

    def close(self) -> None:
        """End the file."""
        self._file.close()
