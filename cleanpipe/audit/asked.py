"""Whom each limit was asked about, found out by the stage's own judge: a document was, if it would go for the limit's
reason with the worst score there is, and would not with the best one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.audit.bins import histogram
from cleanpipe.builtin import READ
from cleanpipe.stage import Cut, Judge, Stage
from cleanpipe.tally import Tally

Mask = npt.NDArray[np.bool_]


def key(stage: str, place: int) -> str:
    """Of the stage's limit at this place among its ``cuts()``."""
    return f"{stage}/{place}"


def asked_tally(table: pa.Table, stages: Sequence[Stage]) -> Tally:
    """For each limit of a stage that has a judge: histograms of those asked, by what became of them in the stage.

    Args:
        table: ledger rows. stages: every one that ran, in its order, the core's own among them.

    Returns:
        {key: {passed, dropped, otherwise}}: ``dropped`` for the limit's reason, ``otherwise`` for another one.
    """
    order = [READ, *(s.name for s in stages)]
    lost = pc.fill_null(pc.index_in(table.column(col.STAGE), pa.array(order)), len(order)).to_numpy()
    out: Tally = {}
    names = set(table.schema.names)
    for stage in stages:
        judge, cuts = stage.judge(), stage.cuts()
        if judge is None or not cuts or not judge.columns <= names:
            continue
        place = order.index(stage.name)
        came = table.filter(pa.array(lost >= place))
        here = lost[lost >= place] == place
        reasons = came.column(col.REASON)
        for i, cut in enumerate(cuts):
            if cut.score not in judge.columns or not set(cut.where) <= names:
                continue
            values = came.column(cut.score)
            asked = _asked(came, judge, cut)
            gone = here & _true(pc.equal(reasons, cut.reason))
            floats = np.asarray(values.cast(pa.float64()).to_numpy(), dtype=np.float64)
            parts = {"passed": ~here, "dropped": gone, "otherwise": here & ~gone}
            out[key(stage.name, i)] = {name: histogram(floats[asked & part]) for name, part in parts.items()}
    return out


def _asked(rows: pa.Table, judge: Judge, cut: Cut) -> Mask:
    values = rows.column(cut.score)
    whole = pa.types.is_integer(values.type)
    most = np.iinfo(values.type.to_pandas_dtype()).max if whole else 1e300
    low, high = (pa.scalar(v, values.type) for v in (-most, most))
    worst, best = (low, high) if cut.keeps[0] == ">" else (high, low)
    goes, stays = (_true(pc.equal(_verdict(rows, judge, cut.score, v), cut.reason)) for v in (worst, best))
    asked = goes & ~stays & _true(pc.is_valid(values))
    for column, value in cut.where.items():
        asked &= _true(pc.equal(rows.column(column), value))
    return asked


def _verdict(rows: pa.Table, judge: Judge, score: str, value: pa.Scalar) -> pa.Array:
    """The judge's, had every document that has the score this one."""
    columns = {n: rows.column(n).combine_chunks() for n in sorted(judge.columns)}
    have = columns[score]
    columns[score] = pc.if_else(pc.is_valid(have), value, pa.scalar(None, have.type))
    return judge.judge(pa.RecordBatch.from_pydict(columns))


def _true(mask: pa.Array) -> Mask:
    """Null as false."""
    return np.asarray(pc.fill_null(mask, False), dtype=bool)
