"""Batches through a flow, as one try of a task is told to treat them: whole, or some documents one by one, or some not
at all (engine/attempts.py decides; this file only obeys).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.engine.base import Task, Watch
from cleanpipe.flow import Condemned, Flow, Flowed

Take = Callable[[Flowed, pa.RecordBatch], pa.Table]


class Treatment:
    """Counts the documents of a task, announces each batch before it is treated, hands what came of it to ``take``."""

    def __init__(self, flow: Flow, take: Take, watch: Watch, task: Task) -> None:
        self._flow, self._take, self._watch = flow, take, watch
        self._careful = sorted((int(a), int(a) + int(n)) for a, n in task.args.get("careful", ()))
        said = task.args.get("condemned", {})
        self._condemned: Condemned = {bytes.fromhex(k): tuple(map(str, v)) for k, v in said.items()}
        self._seen = 0

    def pieces(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, pa.Table]]:
        """The batch in the pieces in which it was treated, each with the verdicts on its rows."""
        start = self._seen
        self._seen += batch.num_rows
        for begin, end in self._cuts(start, self._seen):
            piece = batch.slice(begin - start, end - begin)
            alone = end - begin == 1 and self._is_careful(begin)
            self._watch.at(begin, end - begin, piece.column(col.DOC_ID)[0].as_py() if alone else None)
            yield piece, self._take(self._flow.run(piece, self._condemned), piece)
        self._watch.at(self._seen, 0)

    def __call__(self, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        """The verdicts alone."""
        return (verdicts for _, verdicts in self.pieces(batch))

    def _is_careful(self, row: int) -> bool:
        return any(a <= row < b for a, b in self._careful)

    def _cuts(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        at = start
        for a, b in self._careful:
            a, b = max(a, at), min(b, stop)
            if a >= b:
                continue
            if a > at:
                yield at, a
            yield from ((row, row + 1) for row in range(a, b))
            at = b
        if at < stop:
            yield at, stop
