"""Best-fit packing: documents laid into sequences so that none below the length is cut (Ding et al. 2024).

A document of L tokens or more gives full pieces of L and a rest; wholes and rests go, the longest first, each into the
sequence with the least room that still holds it (best-fit decreasing). Documents are packed in fixed groups, each by
itself, so that groups can be planned apart and in parallel. Equal lengths are placed at once: what one at a time would
do, a sequence with room c takes ⌊c/l⌋ of them before the next one.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

GROUP = 1 << 17  # documents planned together
VERSION = 1  # of the rule: other pieces for the same documents need another

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Sequences as pieces of documents. ends: (sequences,) int64, the end of each one's pieces in the others;
    document: (pieces,) int64; begin: (pieces,) int64, the piece's first token within its document; tokens: (pieces,)
    int32.
    """

    ends: Numbers
    document: Numbers
    begin: Numbers
    tokens: npt.NDArray[np.int32]


def pack(lengths: Numbers, length: int) -> Pieces:
    """The pieces of one group. lengths: (documents,) int64 tokens; length: L.

    Sequences are in the order of their first documents, pieces within one the longest first.
    """
    full, rest = lengths // length, lengths % length
    items = np.flatnonzero(rest)
    items = items[np.argsort(-rest[items], kind="stable")]
    bins, count = _best_fit(rest[items], length)
    repeats = np.repeat(np.arange(len(lengths)), full)
    ordinal = np.arange(len(repeats)) - np.repeat(np.cumsum(full) - full, full)
    document = np.concatenate([repeats, items])
    begin = np.concatenate([ordinal * length, full[items] * length])
    tokens = np.concatenate([np.full(len(repeats), length), rest[items]]).astype(np.int32)
    sequence = np.concatenate([np.arange(len(repeats)), bins + len(repeats)])
    first = np.full(count + len(repeats), len(lengths), np.int64)
    np.minimum.at(first, sequence, document)
    named = np.empty_like(first)  # a sequence's number: by its first document, full pieces of one in their order
    named[np.lexsort((np.arange(len(first)), first))] = np.arange(len(first))
    sequence = named[sequence]
    order = np.argsort(sequence, kind="stable")
    ends = np.cumsum(np.bincount(sequence, minlength=len(first)))
    return Pieces(ends.astype(np.int64), document[order], begin[order], tokens[order])


def _best_fit(lengths: Numbers, room: int) -> tuple[Numbers, int]:
    """The bin of each item, and how many bins. lengths: (items,) falling, each ≥ 1 and < room."""
    out = np.empty(len(lengths), np.int64)
    waiting: dict[int, list[Numbers]] = {}  # bins by the room left in them, in runs
    mask = 0  # bit r: some bin has room r
    count = 0
    edges = np.flatnonzero(np.diff(lengths, prepend=-1, append=-1)) if len(lengths) else np.zeros(0, np.int64)
    for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        size, at = int(lengths[begin]), begin
        while at < end:
            above = mask >> size
            if above:
                left = size + (above & -above).bit_length() - 1
                run = waiting[left].pop()
                if not waiting[left]:
                    mask ^= 1 << left
            else:
                left = room
                need = -(-(end - at) // (room // size))
                run, count = np.arange(count, count + need, dtype=np.int64), count + need
            each = left // size
            used = min(len(run), -(-(end - at) // each))
            if used < len(run):
                waiting.setdefault(left, []).append(run[used:])
                mask |= 1 << left
            taken = min(used * each, end - at)
            out[at : at + taken] = np.repeat(run[:used], each)[:taken]
            at += taken
            whole = taken // each
            for bins, rest in (
                (run[:whole], left - each * size),
                (run[whole:used], left - (taken - whole * each) * size),
            ):
                if len(bins) and rest:
                    waiting.setdefault(rest, []).append(bins)
                    mask |= 1 << rest
    return out, count


def pack_groups(ends: Numbers, length: int, *, group: int = GROUP, workers: int = 1) -> Pieces:
    """The pieces of all documents, group by group. ends: (documents,) int64 tokens of the documents up to each.

    The result does not depend on ``workers`` (processes).
    """
    lengths = np.diff(ends, prepend=0)
    begins = range(0, len(lengths), group)
    jobs = [lengths[b : b + group] for b in begins]
    if workers > 1 and len(jobs) > 1:
        with ProcessPoolExecutor(workers) as pool:
            found = list(pool.map(pack, jobs, [length] * len(jobs)))
    else:
        found = [pack(job, length) for job in jobs]
    before = np.cumsum([0, *(len(p.document) for p in found)])
    return Pieces(
        _joined([p.ends + b for p, b in zip(found, before, strict=False)]),
        _joined([p.document + b for p, b in zip(found, begins, strict=True)]),
        _joined([p.begin for p in found]),
        np.concatenate([p.tokens for p in found]) if found else np.zeros(0, np.int32),
    )


def _joined(parts: list[Numbers]) -> Numbers:
    return np.concatenate(parts).astype(np.int64, copy=False) if parts else np.zeros(0, np.int64)
