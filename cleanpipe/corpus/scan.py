"""The first pass over one unit: read, look at the raw text, repair it, ask every stage; rows wait for the meeting."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.corpus import damage
from cleanpipe.corpus.files import Segment, Unit
from cleanpipe.corpus.reading import read_segment
from cleanpipe.corpus.recurring import Lines
from cleanpipe.corpus.rows import Rows
from cleanpipe.corpus.sampling import Keeper, doc_id, order_of, row_orders
from cleanpipe.corpus.textstages import EMPTY, NORMALISE, TextStages, opened
from cleanpipe.corpus.tokens import estimate, load_tokenizer, script_counts
from cleanpipe.io.arrow import TableWriter
from cleanpipe.recipe import Recipe
from cleanpipe.stage import rounded
from cleanpipe.tally import Tally, add

SEGMENT, PLACE, WINDOWS, TOKENS, HOST = "segment", "place", "windows", "tokens", "host"
DROP = "drop "  # prefix of the column of a stage's verdict
SHOWN_PROBLEMS = 100  # of each kind and unit


@dataclass(frozen=True, slots=True)
class Setup:
    """What every unit is told. threshold: of ``row_orders``, the largest that is judged; None for all rows. counts:
    rows of the unit's segments, where there is a threshold.
    """

    recipe: Recipe
    work: str
    samples: int
    seed: int
    by_line: bool
    tokenizer: str = ""
    threshold: int | None = None
    counts: tuple[int, ...] = ()


def work_schema(stages: TextStages) -> pa.Schema:
    """Columns in which documents wait."""
    return pa.schema(
        [
            (col.DOC_ID, col.ID), (SEGMENT, pa.int32()), (PLACE, pa.int64()), (col.RECORD_OFFSET, pa.int64()),
            (col.SOURCE, pa.string()), (col.RECORD_ID, pa.string()), (col.URL, pa.string()), (col.DATE, col.TIME),
            (WINDOWS, pa.int32()), (col.BYTES_IN, pa.int64()), *col.TEXT_COLUMNS.items(), (TOKENS, pa.int64()),
            *((fault, pa.int32()) for fault in damage.FAULTS), *stages.scores.items(), *stages.carried.items(),
            *((DROP + s, pa.string()) for s in [NORMALISE, *(s.name for s in stages.apart)]),
        ]
    )  # fmt: skip


class Scan:
    """One unit's documents, one batch after the other."""

    def __init__(self, unit: Unit, setup: Setup) -> None:
        self._unit, self._setup = unit, setup
        self._stages = opened(setup.recipe)
        self._count = load_tokenizer(setup.tokenizer) if setup.tokenizer else None
        self._lines = Lines(unit.number, Path(setup.work))
        self._keeper = Keeper(setup.samples)
        self._rows = 0
        self.tally: Tally = {}
        self.problems: list[tuple[str, int, int, str]] = []

    def run(self) -> dict[str, Any]:
        """Write what waits; the unit's counts, samples and problems."""
        work = Path(self._setup.work)
        name = work / f"rows-{self._unit.number:06d}.arrow"
        writer = TableWriter(name, work_schema(self._stages.stages))
        read: list[int] = []
        try:
            for number, segment in enumerate(self._unit.segments):
                read.append(0)
                for rows in read_segment(segment, self._chosen(number, segment), by_line=self._setup.by_line):
                    read[-1] += rows.read
                    for problem in rows.problems:
                        add(self.tally, {"problems": {problem.kind: 1}})
                        if self.tally["problems"][problem.kind] <= SHOWN_PROBLEMS:
                            self.problems.append((problem.kind, number, problem.row, problem.message))
                    if len(rows):
                        writer.write(self._batch(rows, number, segment))
            writer.close()
        finally:
            writer.abandon()
        self._lines.save()
        return {
            "unit": self._unit.number,
            "documents": self._rows,
            "read": read,
            "tally": self.tally,
            "samples": self._keeper.samples,
            "problems": self.problems,
        }

    def _chosen(self, number: int, segment: Segment) -> frozenset[int] | None:
        if self._setup.threshold is None:
            return None
        orders = row_orders(segment.file.source, segment.first, self._setup.counts[number], self._setup.seed)
        return frozenset(np.flatnonzero(orders <= np.uint64(self._setup.threshold)).tolist())

    def _batch(self, rows: Rows, number: int, segment: Segment) -> pa.RecordBatch:
        rule, n = self._stages.stages.rule, len(rows)
        source = segment.file.source
        texts: list[str] = []
        counts = {fault: np.zeros(n, np.int32) for fault in damage.FAULTS}
        ids = [doc_id(source, offset) for offset in rows.offset]
        sizes = np.zeros(n, np.int64)
        for i, raw in enumerate(rows.text):
            text = rule(raw)
            found = damage.examine(raw, text, rows.invalid[i])
            texts.append(text)
            sizes[i] = len(raw) if raw.isascii() else len(raw.encode("utf-8", "surrogatepass"))
            if found.counts or found.kept:
                self._note(found, counts, i)
                for fault in found.counts:
                    self._sample(fault, raw, rows, i, ids[i], number, found)
            if text:
                self._lines.add(self._rows + i, text)
        self._rows += n
        encoded = [t.encode() for t in texts]
        lengths = np.fromiter(map(len, texts), np.int64, n)
        columns: dict[str, pa.Array] = {
            col.DOC_ID: pa.array(ids, col.ID),
            SEGMENT: pa.array(np.full(n, number, np.int32)),
            PLACE: pa.array(rows.place, pa.int64()),
            col.RECORD_OFFSET: pa.array(rows.offset, pa.int64()),
            col.SOURCE: pa.array([source] * n, pa.string()),
            col.RECORD_ID: pa.array(rows.id, pa.string()),
            col.URL: pa.array(rows.url, pa.string()),
            col.DATE: pa.nulls(n, col.TIME),
            WINDOWS: pa.array(rows.windows, pa.int32()),
            col.BYTES_IN: pa.array(sizes),
            col.TEXT: pa.array(encoded, pa.large_binary()).cast(pa.large_string()),
            col.LENGTH: pa.array(lengths),
            col.BYTES: pa.array(np.fromiter(map(len, encoded), np.int64, n)),
            col.CONTENT_ID: pa.array([hashlib.sha256(e).digest()[:16] for e in encoded], col.ID),
            TOKENS: pa.array(self._tokens(texts), pa.int64()),
            **{fault: pa.array(values) for fault, values in counts.items()},
            DROP + NORMALISE: pa.array([EMPTY if not t else None for t in texts], pa.string()),
        }
        judged, drops = self._stages.judge(pa.RecordBatch.from_pydict(columns))
        return col.with_columns(judged, {DROP + name: values for name, values in drops.items()})

    def _tokens(self, texts: list[str]) -> list[int]:
        scripts = [script_counts(t) for t in texts]
        for counts in scripts:
            add(self.tally, {"scripts": counts})
        return [estimate(c) for c in scripts] if self._count is None else self._count(texts)

    def _note(self, found: damage.Damage, counts: Mapping[str, np.ndarray], row: int) -> None:
        for fault, times in found.counts.items():
            counts[fault][row] = min(times, 2**31 - 1)
        tally: Tally = {"faults": {f: {"documents": 1, "occurrences": n} for f, n in found.counts.items()}}
        for name, points in (("points", found.points), ("points_kept", found.kept), ("mojibake_kinds", found.kinds)):
            tally[name] = {p: {"documents": 1, "occurrences": n} for p, n in points.items()}
        add(self.tally, tally)

    def _sample(
        self, fault: str, raw: str, rows: Rows, row: int, identity: bytes, segment: int, found: damage.Damage
    ) -> None:
        order = order_of(identity, self._setup.seed)
        if not self._keeper.wants(fault, order):
            return
        self._keeper.add(
            fault,
            {
                "order": order, "doc_id": identity.hex(), "unit": self._unit.number, "segment": segment,
                "row": rows.place[row], "url": rows.url[row], "id": rows.id[row],
                "times": found.counts[fault], "evidence": damage.evidence(fault, raw),
            },
        )  # fmt: skip


def scan_unit(unit: Unit, setup: Setup) -> dict[str, Any]:
    """See ``Scan``."""
    return Scan(unit, setup).run()


def scores_of(values: pa.Array) -> np.ndarray:
    """As floats, null as NaN, rounded as they were stored."""
    return rounded(np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64))
