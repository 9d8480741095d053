"""Which documents of two runs are the same one: by doc_id, else by record id, else by URL and date.

Sort-merge in partitions of the key on disk: memory stays at a few hundred MB for any number of rows. Two runs over the
same inputs list the same documents in the same order; as long as they do, chunks are compared as they come.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.queries.diff_ledger import (
    Hashes,
    Ints,
    Outcomes,
    chunks,
    has_values,
    hashed,
    mixed,
    rows_of,
    whole,
    words,
)
from cleanpipe.queries.opened_run import OpenRun

DOC_ID, RECORD, PAGE, VISIT = "doc_id", "record id", "the record it was made from", "URL and date"
PARTITION = 1 << 20  # rows of both runs that are sorted at a time, about
_MOST_BITS = 8  # two files for each partition are open at a time
ROW = np.dtype([
    ("hi", "<u8"), ("lo", "<u8"),  # the key
    ("row", "<i8"), ("code", "<i8"),  # number in the run, and of its outcome
    ("id", "<u8"), ("content", "<u8"), ("keeper", "<u8"),  # doc_id, content_id, kept_doc_id in 64 bits; 0: null
])  # fmt: skip
Rows = npt.NDArray[Any]
Found = Callable[[str, Rows, Rows], None]  # of a key: rows of A and of B, one beside the other
_OWN = (col.DOC_ID, col.FATE, col.STAGE, col.REASON, col.CONTENT_ID, col.KEPT_DOC_ID)
_NEEDS: Mapping[str, Sequence[str]] = {
    DOC_ID: (),
    RECORD: (col.RECORD_TYPE, col.RECORD_ID),
    PAGE: (col.RECORD_ID, col.REFERS_TO),
    VISIT: (col.URL, col.DATE),
}


def join(
    a: OpenRun, b: OpenRun, outcomes: Outcomes, found: Found, *, scratch: str | None = None
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Tell ``found`` of every pair, once; each row is in one pair at most.

    Where a key stands several times in a run, its rows are paired in reading order.

    Returns:
        For each row of A, and of B, whether it was paired.
    """
    paired: list[npt.NDArray[np.bool_]] = [np.zeros(rows_of(run), bool) for run in (a, b)]
    for key in _NEEDS:
        if any(p.all() for p in paired):  # nothing is left to pair
            break
        if key == PAGE and not any(has_values(run, col.REFERS_TO) for run in (a, b)):
            continue
        sides = [_keyed(run, key, outcomes, skip.copy()) for run, skip in zip((a, b), paired, strict=True)]

        def told(left: Rows, right: Rows, key: str = key) -> None:
            paired[0][left["row"]], paired[1][right["row"]] = True, True
            found(key, left, right)

        _merge(sides[0], sides[1], int(sum(np.count_nonzero(~p) for p in paired)), told, scratch)
    return paired[0], paired[1]


def unpaired(run: OpenRun, paired: npt.NDArray[np.bool_], outcomes: Outcomes) -> Iterator[Rows]:
    """Rows that have no partner."""
    if not paired.all():
        yield from _keyed(run, DOC_ID, outcomes, paired)


def _keyed(run: OpenRun, key: str, outcomes: Outcomes, skip: npt.NDArray[np.bool_]) -> Iterator[Rows]:
    """The run's rows that are not to be skipped and have the key, a chunk at a time, in order."""
    for first, table in chunks(run, list(dict.fromkeys([*_OWN, *_NEEDS[key]]))):
        out = np.zeros(table.num_rows, ROW)
        ids = words(table.column(col.DOC_ID))
        there = ~skip[first : first + table.num_rows]
        if key == DOC_ID:
            out["hi"], out["lo"] = ids
        elif there.any():
            text, valid = _text(table, key)
            there &= valid
            out["hi"][there] = hashed(text.filter(pa.array(there)))
            if key == VISIT:
                seconds = whole(table.column(col.DATE)).cast(pa.timestamp("s", tz="UTC"), safe=False).cast(pa.int64())
                out["hi"] ^= mixed(pc.fill_null(seconds, 0).to_numpy(zero_copy_only=False).astype(np.uint64))
        out["row"], out["code"] = np.arange(first, first + table.num_rows), outcomes.codes(table)
        out["id"] = _folded(ids)
        out["content"], out["keeper"] = (_folded(words(table.column(n))) for n in (col.CONTENT_ID, col.KEPT_DOC_ID))
        yield out[there]


def _folded(both: tuple[Hashes, Hashes]) -> Hashes:
    hi, lo = both
    out = mixed(hi) ^ mixed(lo, 1)
    out[(hi == 0) & (lo == 0)] = 0
    return out


def _text(table: pa.Table, key: str) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """The key of each row as a string, and whether it has one."""
    one, other = (whole(table.column(n)) for n in _NEEDS[key])
    if key == VISIT:
        return one, np.asarray(pc.and_(one.is_valid(), other.is_valid()))
    one, other = one.cast(pa.string()), other.cast(pa.string())
    typed = pc.binary_join_element_wise(pc.fill_null(one, ""), other, "\n")
    text = pc.coalesce(other, one) if key == PAGE else typed  # a WET record refers to the one that its text is from
    return pc.fill_null(text, ""), np.asarray(text.is_valid())


def _merge(
    a: Iterator[Rows], b: Iterator[Rows], rows: int, found: Callable[[Rows, Rows], None], scratch: str | None
) -> None:
    bits = min(_MOST_BITS, (rows // PARTITION).bit_length())
    with tempfile.TemporaryDirectory(prefix="cleanpipe-", dir=scratch or None) as folder, ExitStack() as stack:
        spills = [_Spill(Path(folder) / name, bits, stack) for name in "ab"]
        aligned = True
        while True:
            left, right = next(a, None), next(b, None)
            if left is None and right is None:
                break
            if aligned and left is not None and right is not None and len(left) == len(right):
                aligned = bool((left["hi"] == right["hi"]).all() and (left["lo"] == right["lo"]).all())
                if aligned:
                    found(left, right)
                    continue
            aligned = False
            for spill, part in zip(spills, (left, right), strict=True):
                if part is not None:
                    spill.add(part)
        for at in range(1 << bits):
            found(*pairs(spills[0].read(at), spills[1].read(at)))


class _Spill:
    """Rows by the first bits of their key, in files; in memory where there is one partition."""

    def __init__(self, path: Path, bits: int, stack: ExitStack) -> None:
        self._bits = bits
        self._held: list[Rows] = []
        names = [path.with_suffix(f".{i}") for i in range(1 << bits)] if bits else []
        self._files: list[IO[bytes]] = [stack.enter_context(name.open("w+b")) for name in names]

    def add(self, rows: Rows) -> None:
        if not self._bits:
            self._held.append(rows)
            return
        part = (rows["hi"] >> np.uint64(64 - self._bits)).astype(np.int64)
        order = np.argsort(part, kind="stable")
        ends = np.searchsorted(part[order], np.arange(len(self._files) + 1))
        for file, start, end in zip(self._files, ends, ends[1:], strict=False):
            file.write(rows[order[start:end]].tobytes())

    def read(self, at: int) -> Rows:
        if not self._bits:
            return np.concatenate([np.zeros(0, ROW), *self._held])
        self._files[at].seek(0)
        return np.frombuffer(self._files[at].read(), ROW)


def pairs(a: Rows, b: Rows) -> tuple[Rows, Rows]:
    """Rows of the same key, the k-th with the k-th; in the order of the keys."""
    hi, lo = (np.concatenate([a[n], b[n]]) for n in ("hi", "lo"))
    order = np.argsort(hi, kind="stable")
    same = hi[order][1:] == hi[order][:-1]
    if (same & (lo[order][1:] != lo[order][:-1])).any():
        order = np.lexsort((lo, hi))
        same = (hi[order][1:] == hi[order][:-1]) & (lo[order][1:] == lo[order][:-1])
    starts = np.flatnonzero(np.append(True, ~same)) if len(order) else np.zeros(0, np.int64)
    of_a = np.add.reduceat((order < len(a)).astype(np.int64), starts) if len(starts) else starts
    of_b = np.diff(np.append(starts, len(order))) - of_a
    many = np.minimum(of_a, of_b)
    at = np.repeat(starts, many) + _counted(many)
    return a[order[at]], b[order[at + np.repeat(of_a, many)] - len(a)]


def _counted(many: Ints) -> Ints:
    """0, 1, … for each of them."""
    return np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
