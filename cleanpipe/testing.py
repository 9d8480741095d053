"""For authors of stages: build a batch, run a stage as the core would, and check every promise of the contract."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.flow import Flow, Flowed
from cleanpipe.stage import Stage

_KNOWN: Mapping[str, pa.DataType] = {
    **col.READ_COLUMNS,
    **col.DECODED_COLUMNS,
    **col.TEXT_COLUMNS,
    **col.WINDOW_COLUMNS,
    col.SCRUBBED: pa.large_string(),
    col.LANGUAGE: pa.string(),
    col.KEPT_DOC_ID: col.ID,
    col.JACCARD: pa.float64(),
}


@dataclass(frozen=True, slots=True)
class Checked:
    """What a stage did: rows that came through, and for each that entered its reason (None: kept) and scores."""

    rows: pa.RecordBatch
    reasons: list[str | None]
    scores: dict[str, list[Any]]
    flowed: Flowed


def batch(types: Mapping[str, pa.DataType] | None = None, **columns: Sequence[Any]) -> pa.RecordBatch:
    """A batch of the given columns; known names get their types, ``types`` names those of your own.

    Every column must have the same number of values. A missing ``doc_id`` is filled in: 0, 1, 2, … in 16 bytes.
    """
    known = {**_KNOWN, **(types or {})}
    n = len(next(iter(columns.values())))
    columns.setdefault(col.DOC_ID, [i.to_bytes(16, "big") for i in range(n)])
    if col.TEXT in columns and col.LENGTH not in columns:
        columns[col.LENGTH] = [len(t) for t in columns[col.TEXT]]
    arrays = {name: pa.array(values, known.get(name)) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict(arrays)


def run(stage: Stage, rows: pa.RecordBatch) -> Checked:
    """Run one stage as the core does: its promises are checked, dropped rows removed.

    Raises:
        StageContractError: a promise was broken.
    """
    flowed = Flow([stage], stage.scores).run(rows)
    reasons = flowed.fates.column(col.REASON).to_pylist()
    scores = {name: flowed.fates.column(name).to_pylist() for name in stage.scores}
    return Checked(flowed.rows, reasons, scores, flowed)


def check_stage(stage: Stage, rows: pa.RecordBatch) -> Checked:
    """``run``, and the laws that a single batch shows: the stage pickles, does not change what it was given, gives the
    same for any cut into batches, and the same twice.

    Raises:
        AssertionError, StageContractError: naming what was broken.
    """
    again = pickle.loads(pickle.dumps(stage))  # noqa: S301  our own bytes
    assert again == stage, "the stage does not survive pickling"
    before = rows.to_pydict()
    whole = run(stage, rows)
    assert rows.to_pydict() == before, "the step changed its input"
    assert run(stage, rows).flowed.fates.equals(whole.flowed.fates), "the same batch gave other verdicts a second time"
    half = rows.num_rows // 2
    if half:
        parts = [run(stage, rows.slice(0, half)), run(stage, rows.slice(half))]
        assert [r for p in parts for r in p.reasons] == whole.reasons, "verdicts depend on batch borders"
        for name, values in whole.scores.items():
            assert [v for p in parts for v in p.scores[name]] == values, f"score {name!r} depends on batch borders"
        rows_of = [r for p in parts for r in p.rows.to_pylist()]
        assert rows_of == whole.rows.to_pylist(), "rows depend on batch borders"
    return whole
