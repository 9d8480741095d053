"""The second pass over one unit: each document's fate, its row in the ledger, and what the audit counts of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe.audit.bins import histogram
from cleanpipe.audit.facts import THRESHOLDS
from cleanpipe.corpus import damage
from cleanpipe.corpus.files import JSONL, TXT, Unit
from cleanpipe.corpus.meeting import answers_name
from cleanpipe.corpus.sampling import Keeper, order_of
from cleanpipe.corpus.scan import DROP, HOST, PLACE, SEGMENT, TOKENS, WINDOWS, Setup, scores_of
from cleanpipe.corpus.textstages import NORMALISE, TextStages, ask, first_drop, text_stages
from cleanpipe.io.arrow import RowFile
from cleanpipe.tally import Tally, add

ROW, FAILS, CLUSTER = "row_no", "fails", "cluster"  # row_no: the line of a file of lines, else the row, from 1
CLEAN = "clean"  # group of samples: no fault, and no stage would drop it
CLUSTER_SAMPLES = 3
ROWS = 1 << 15  # settled at a time
_HOST = r"^(?:[A-Za-z][A-Za-z0-9+.\-]*:)?//(?:[^/?#@]*@)?(?P<host>\[[^\]/?#]*\]|[^/?#:\[\]]+)"
_BARE = r"^(?P<host>(?:[A-Za-z0-9\-]+\.)+[A-Za-z]{2,24})(?:[:/?#]|$)"


@dataclass(frozen=True, slots=True)
class Ending:
    """bases: for each segment the rows of its file before it. clusters: doc_ids whose members are shown."""

    setup: Setup
    ledger: str
    bases: Sequence[int]
    clusters: tuple[str, ...]


def ledger_schema(stages: TextStages) -> pa.Schema:
    """One row a document."""
    after = {n: t for s in stages.after for n, t in s.scores.items()}
    return pa.schema(
        [
            (col.DOC_ID, col.ID), (col.SOURCE, pa.string()), (ROW, pa.int64()),
            (col.RECORD_OFFSET, pa.int64()), (col.RECORD_ID, pa.string()),
            (col.URL, pa.string()), (HOST, pa.string()), (WINDOWS, pa.int32()), (col.BYTES_IN, pa.int64()),
            (col.LENGTH, pa.int64()), (col.BYTES, pa.int64()), (TOKENS, pa.int64()), (col.CONTENT_ID, col.ID),
            *((fault, pa.int32()) for fault in damage.FAULTS), *stages.scores.items(), *after.items(),
            (col.FATE, pa.string()), (col.STAGE, pa.string()), (col.REASON, pa.string()), (FAILS, pa.string()),
            (CLUSTER, col.ID),
        ]
    )  # fmt: skip


def settle_unit(unit: Unit, ending: Ending) -> dict[str, Any]:
    """Write the unit's part of the ledger; counts and samples. Memory: of ROWS documents, without their texts."""
    stages = text_stages(ending.setup.recipe)
    work, k = Path(ending.setup.work), ending.setup.samples
    file = RowFile(work / f"rows-{unit.number:06d}.arrow")
    answers = RowFile(work / answers_name(unit.number)) if stages.exchange is not None else None
    narrow = [n for n in file.schema.names if n not in (col.TEXT, *stages.carried)]
    steps = [(stage, stage.open()) for stage in stages.after]
    schema = ledger_schema(stages)
    tally: Tally = {}
    keepers = Keeper(k), Keeper(min(CLUSTER_SAMPLES, k))
    part = Path(ending.ledger) / f"part-{unit.number:05d}.parquet"
    with pq.ParquetWriter(part, schema, compression="zstd") as writer:
        for start in range(0, file.rows, ROWS):
            rows = _piece(file, narrow, start)
            if answers is not None:
                said = _piece(answers, answers.schema.names, start)
                rows = col.with_columns(rows, dict(zip(said.schema.names, said.columns, strict=True)))
            drops = {n: rows.column(DROP + n) for n in [NORMALISE, *(s.name for s in stages.apart)]}
            empty = pc.is_valid(drops[NORMALISE])
            for stage, step in steps:
                rows, verdicts = ask(stage, step, rows)
                drops[stage.name] = pc.if_else(empty, pa.scalar(None, pa.string()), verdicts)
            settled = _Settled(unit, ending, stages, rows, drops)
            writer.write_table(pa.Table.from_batches([settled.ledger.select(schema.names)]).cast(schema))
            add(tally, settled.tally())
            settled.sample(file, start, *keepers)
    samples = {**keepers[0].samples, **keepers[1].samples}
    return {"unit": unit.number, "tally": tally or {"documents": 0, "kept": 0}, "samples": samples}


def _piece(file: RowFile, names: Sequence[str], start: int) -> pa.RecordBatch:
    """ROWS rows from ``start`` on, in one batch."""
    schema = pa.schema([file.schema.field(n) for n in names])
    table = pa.Table.from_batches([b.select(names) for b in file.slice(start, start + ROWS)], schema=schema)
    return table.combine_chunks().to_batches()[0]


class _Settled:
    def __init__(
        self, unit: Unit, ending: Ending, stages: TextStages, rows: pa.RecordBatch, drops: Mapping[str, pa.Array]
    ) -> None:
        self._unit, self._ending, self._stages, self._drops = unit, ending, stages, drops
        n = rows.num_rows
        stage, reason = first_drop(stages.order, drops)
        kept = pc.is_null(reason)
        self._lost = np.asarray(pc.invert(kept).to_numpy(zero_copy_only=False), bool)
        hosts = host_of(rows.column(col.URL))
        failing = [
            pc.fill_null(pc.binary_join_element_wise(pa.scalar(name), drops[name], "/"), "") for name in stages.order
        ]
        fails = pc.utf8_trim(pc.replace_substring_regex(pc.binary_join_element_wise(*failing, ","), ",+", ","), ",")
        keeper = rows.column(col.KEPT_DOC_ID) if col.KEPT_DOC_ID in rows.schema.names else pa.nulls(n, col.ID)
        self.ledger = col.with_columns(
            rows,
            {
                ROW: self._places(rows),
                HOST: hosts,
                col.FATE: pc.if_else(kept, pa.scalar(col.KEPT), pa.scalar(col.DROPPED)),
                col.STAGE: stage,
                col.REASON: reason,
                FAILS: pc.if_else(pc.equal(fails, ""), pa.scalar(None, pa.string()), fails),
                CLUSTER: pc.coalesce(keeper, rows.column(col.DOC_ID)),
            },
        )
        self._why = pc.if_else(kept, pa.scalar(""), pc.binary_join_element_wise(stage, reason, "/"))

    def _places(self, rows: pa.RecordBatch) -> pa.Array:
        """The row, from 1: the line of a file of lines."""
        by_line = np.array([s.file.kind in (JSONL, TXT) for s in self._unit.segments], bool)
        bases = np.array(self._ending.bases, np.int64)
        segment = np.asarray(rows.column(SEGMENT).to_numpy(zero_copy_only=False))
        place, offset = (np.asarray(rows.column(n).to_numpy(zero_copy_only=False)) for n in (PLACE, col.RECORD_OFFSET))
        return pa.array(np.where(by_line[segment], bases[segment] + place, offset) + 1)

    def tally(self) -> Tally:
        """Whole numbers that add up."""
        rows, stages = self.ledger, self._stages
        length = _ints(rows.column(col.LENGTH))
        faults = np.zeros(rows.num_rows, bool)
        for fault in damage.FAULTS:
            faults |= _ints(rows.column(fault)) > 0
        windows = _ints(rows.column(WINDOWS))
        out: Tally = {
            "documents": rows.num_rows,
            "kept": int((~self._lost).sum()),
            "faulty": int(faults.sum()),
            "clean": int((~faults & ~self._lost).sum()),
            "empty": int((length == 0).sum()),
            "bytes_in": int(_ints(rows.column(col.BYTES_IN)).sum()),
            "characters": int(length.sum()),
            "bytes": int(_ints(rows.column(col.BYTES)).sum()),
            "tokens": int(_ints(rows.column(TOKENS)).sum()),
            "windows": int(windows.sum()),
            "cut": int((windows > 1).sum()),
            "characters_kept": int(length[~self._lost].sum()),
            "fates": _counted(self._why),
            "fails": {},
            "scores": {},
            "by_source": self._by(rows.column(col.SOURCE)),
            "by_host": self._by(rows.column(HOST)),
        }
        out["without_host"] = rows.num_rows - sum(v["documents"] for v in out["by_host"].values())
        for name in stages.order:
            out["fails"] |= {f"{name}/{reason}": n for reason, n in _counted(self._drops[name]).items()}
        if stages.language() is not None:
            out["by_language"] = self._by(rows.column(col.LANGUAGE))
            out["keep_curve"] = _curve(rows)
        for name in [col.LENGTH, *self._numbers()]:
            values = scores_of(rows.column(name))
            real = ~np.isnan(values)
            out["scores"][name] = {
                "measured": int(real.sum()),
                "bins": histogram(values[real]),
                "bins_kept": histogram(values[real & ~self._lost]),
            }
        return out

    def _numbers(self) -> list[str]:
        kinds = {n: t for s in self._stages.stages for n, t in s.scores.items()}
        return [n for n, t in kinds.items() if pa.types.is_floating(t) or pa.types.is_integer(t)]

    def _by(self, values: pa.Array) -> Tally:
        """For each value: documents, and those that are lost, by stage and reason; rows without one are left out."""
        table = pa.table({"value": values, "why": self._why}).group_by(["value", "why"]).aggregate([([], "count_all")])
        out: Tally = {}
        for value, why, n in zip(*(table.column(c).to_pylist() for c in ("value", "why", "count_all")), strict=True):
            if value is not None:
                add(out.setdefault(value, {}), {"documents": n, **({"lost": {why: n}} if why else {})})
        return out

    # samples

    def sample(self, file: RowFile, start: int, keeper: Keeper, members: Keeper) -> None:
        """Of every verdict, of the clean, and of the members of the biggest clusters. start: row of the first."""
        rows, chosen = self.ledger, _Chosen(self.ledger.column(col.DOC_ID).to_pylist(), self._ending.setup.seed)
        for name in self._stages.order:
            for reason, flags in _values(self._drops[name]):
                chosen.offer(f"{name}/{reason}", flags, keeper)
        clean = ~self._lost
        for fault in damage.FAULTS:
            clean &= _ints(rows.column(fault)) == 0
        chosen.offer(CLEAN, clean, keeper)
        wanted = pa.array([bytes.fromhex(c) for c in self._ending.clusters], col.ID)
        shown = pc.if_else(pc.is_in(rows.column(CLUSTER), wanted), rows.column(CLUSTER), pa.scalar(None, col.ID))
        for cluster, flags in _values(shown):
            chosen.offer(f"cluster/{cluster.hex()}", flags, members)
            kept = pc.equal(rows.column(col.DOC_ID), pa.scalar(cluster, col.ID)).to_numpy(zero_copy_only=False)
            chosen.offer(f"keeper/{cluster.hex()}", np.asarray(kept, bool), members)
        self._fill(file, start, chosen)

    def _fill(self, file: RowFile, start: int, chosen: _Chosen) -> None:
        at = sorted(chosen.groups)
        texts = file.take(col.TEXT, np.array(at, np.int64) + start).to_pylist()
        kinds = {n: t for s in self._stages.stages for n, t in s.scores.items()}
        scores = [n for n, t in kinds.items() if not (pa.types.is_fixed_size_binary(t) or pa.types.is_binary(t))]
        names = [col.DOC_ID, col.SOURCE, ROW, col.RECORD_ID, col.URL, FAILS, *scores]
        picked = self.ledger.select(names).take(pa.array(at, pa.int64())).to_pylist()
        for i, text, row in zip(at, texts, picked, strict=True):
            for keeper, group in chosen.groups[i]:
                keeper.add(
                    group,
                    {
                        "order": chosen.orders[i], "doc_id": row[col.DOC_ID].hex(), "source": row[col.SOURCE],
                        "row": row[ROW], "url": row[col.URL], "id": row[col.RECORD_ID], "fails": row[FAILS],
                        "scores": {n: row[n] for n in scores if row[n] is not None},
                        "evidence": damage.excerpt(text),
                    },
                )  # fmt: skip


class _Chosen:
    """Which rows are shown, and in which groups."""

    def __init__(self, ids: Sequence[bytes], seed: int) -> None:
        self._ids = ids
        self.orders = [order_of(i, seed) for i in ids]
        self.groups: dict[int, list[tuple[Keeper, str]]] = {}

    def offer(self, group: str, flags: npt.NDArray[np.bool_], to: Keeper) -> None:
        """The rows of smallest order among those flagged, as many as would stay."""
        able = [i for i in np.flatnonzero(flags).tolist() if to.wants(group, self.orders[i])]
        for i in sorted(able, key=lambda i: (self.orders[i], self._ids[i]))[: to.k]:
            self.groups.setdefault(i, []).append((to, group))


def _values(column: pa.Array) -> Iterator[tuple[Any, npt.NDArray[np.bool_]]]:
    """Each value, with the rows that have it; none for null."""
    encoded = column.dictionary_encode()
    at = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False))
    for code, value in enumerate(encoded.dictionary.to_pylist()):
        yield value, at == code


def host_of(urls: pa.Array) -> pa.Array:
    """The host of each URL, lower case; also of an address without a scheme; null where there is none."""
    found = pc.struct_field(pc.extract_regex(urls, _HOST), "host")
    bare = pc.struct_field(pc.extract_regex(urls, _BARE), "host")
    host = pc.utf8_lower(pc.coalesce(found, bare))
    return pc.if_else(pc.equal(host, ""), pa.scalar(None, pa.string()), host)


def _ints(values: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(values, 0).to_numpy(zero_copy_only=False), np.int64)


def _counted(values: pa.Array) -> dict[str, int]:
    return {c["values"]: c["counts"] for c in pc.value_counts(values).to_pylist() if c["values"]}


def _curve(rows: pa.RecordBatch) -> Tally:
    values = scores_of(rows.column(col.LANGUAGE_ID_SCORE))
    out: Tally = {}
    encoded = rows.column(col.LANGUAGE).dictionary_encode()
    codes = np.asarray(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False))
    for code, label in enumerate(encoded.dictionary.to_pylist()):
        mine = values[codes == code]
        out[label] = {"documents": len(mine), **{f"{t:g}": int((mine >= t).sum()) for t in THRESHOLDS}}
    return out
