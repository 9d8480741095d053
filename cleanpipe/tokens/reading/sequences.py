"""Sequences as training wants them: ids, labels, positions, borders; made of pieces, without a loop over tokens."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.arguments import shown, whole
from cleanpipe.tokens.reading.plan import CONCAT, Plan, Rows

IGNORED = -100  # the label of a position that is not learned: torch's CrossEntropyLoss leaves it out

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Form:
    """How sequences are laid out.

    labels: "next": labels[t] is the token that follows input_ids[t]; "same": labels are input_ids, for a model that
    shifts them itself (as those of transformers do). positions: of a document that began in an earlier sequence:
    "restart" at 0, or "continue" where it stopped. pad: the id of padding; by default EOS, else 0.
    """

    labels: str = "next"
    positions: str = "restart"
    pad: int | None = None

    def checked(self, plan: Plan) -> Form:
        """With the padding's id.

        Raises:
            ConfigError: a word is none of these, or the id is none.
        """
        if self.labels not in ("next", "same"):
            raise ConfigError(f"labels {shown(self.labels)}: next or same")
        if self.positions not in ("restart", "continue"):
            raise ConfigError(f"positions {shown(self.positions)}: restart or continue")
        store = plan.sources[0].store
        pad = self.pad if self.pad is not None else (store.eos if store.eos is not None else 0)
        last = store.vocabulary - 1
        pad = whole("pad", pad, 0, last, said=f"an id of the vocabulary, 0 to {last:,}")
        return Form(self.labels, self.positions, pad)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Sequences laid out; B rows of L tokens.

    input_ids, labels, position_ids: (B, L) int64. labels are −100 where nothing is learned: at the last token of a
    document (nothing is predicted across documents), where the token to predict is a repeat of a window's begin or
    of a document that decisions mask, and on padding. position_ids start at 0 in each document. cu_seqlens: (S + 1,)
    int32, where documents begin in the rows laid end to end, and B·L; a row's padding is one more segment.
    max_seqlen: the longest of them. sequences: (B,) int64 global sequences. sources: (B,) int64, the store of each.
    consumed: global sequences that were read when this batch is done, by all ranks together. decisions, seal: the
    decisions it was laid out under, how many lines and their seal; see ``Plan.decided`` and ``remask``.
    """

    input_ids: Numbers
    labels: Numbers
    position_ids: Numbers
    cu_seqlens: npt.NDArray[np.int32]
    max_seqlen: int
    sequences: Numbers
    sources: Numbers
    consumed: int = 0
    decisions: int = 0
    seal: str = ""
    plan: Plan | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def documents(self) -> list[Numbers]:
        """For each row the numbers of its documents in its store, in their order; looked up when asked for."""
        assert self.plan is not None
        return [self.plan.documents(g) for g in self.sequences.tolist()]

    def arrays(self) -> dict[str, Any]:
        """What a model takes, by the names that are usual, and ``sequences`` and ``decisions``."""
        return {
            "input_ids": self.input_ids,
            "labels": self.labels,
            "position_ids": self.position_ids,
            "cu_seqlens": self.cu_seqlens,
            "max_seqlen": self.max_seqlen,
            "sequences": self.sequences,
            "decisions": self.decisions,
        }


def _alone(one: list[Numbers]) -> int:
    """What ``getrefcount`` says within a loop over a list that alone holds an array; versions of Python differ."""
    for held in one:
        return sys.getrefcount(held)
    return 0


_ALONE = _alone([np.zeros(1, np.int64)])


class Buffers:
    """Memory of batches, used again when nothing looks at it any more: fresh pages cost more than what is put there.

    A batch's arrays, and tensors made of them, are views that hold their buffer; whoever keeps one keeps it all.
    """

    def __init__(self, most: int = 8) -> None:
        self._held: list[Numbers] = []
        self._most = most

    def __reduce__(self) -> tuple[type[Buffers], tuple[int]]:
        return Buffers, (self._most,)

    def take(self, rows: int, length: int) -> Numbers:
        """(3, rows, length) int64 of any content."""
        shape = 3, rows, length
        for held in self._held:
            if held.shape == shape and sys.getrefcount(held) == _ALONE:
                return held
        made = np.empty(shape, np.int64)
        self._held = [*self._held[-self._most + 1 :], made]
        return made


def lay_out(plan: Plan, rows: Rows, form: Form, consumed: int = 0, buffers: Buffers | None = None) -> Batch:
    """The batch of some rows of a plan, under the decisions that their sources hold.

    Raises:
        DamagedFileError: a block of a payload is not as it was written; its documents and URLs are named.
    """
    count, length = len(rows.g), plan.length
    decided = plan.decided  # before they are looked at: it may say less than what holds, never more
    ids, labels, positions = (buffers or Buffers(1)).take(count, length)
    fill = _cut if plan.packing == CONCAT else _fitted
    borders: list[Numbers] = []  # where documents end in the rows laid end to end
    after: list[int] = []  # the token behind each row
    short: list[tuple[int, int]] = []  # rows that are not full, and their tokens
    where = list(zip(rows.source.tolist(), rows.index.tolist(), strict=True))
    for row, (at, index) in enumerate(where):
        ends, filled, behind = fill(plan, at, index, ids[row], row * length)
        borders.append(ends)
        after.append(behind)
        if filled < length:
            short.append((row, filled))
            ids[row, filled:] = form.pad or 0
    edges = np.concatenate((np.arange(count + 1) * length, *borders))
    labels[:, :-1] = ids[:, 1:]
    labels[:, -1] = after
    labels.reshape(-1)[edges[count + 1 :] - 1] = IGNORED
    for row, filled in short:
        labels[row, filled:] = IGNORED
    edges.sort()
    lengths = edges[1:] - edges[:-1]
    if np.count_nonzero(lengths) < len(lengths):  # documents without tokens, or that end with a row
        edges, lengths = np.append(edges[:-1][lengths > 0], edges[-1]), lengths[lengths > 0]
    counts = lengths.tolist()
    longest = max(counts, default=0)
    if len(counts) * 128 > count * length:
        positions[:] = _numbers(count * length).reshape(count, length)
        positions.reshape(-1)[:] -= np.repeat(edges[:-1], lengths)
    else:  # documents are long: copying is faster
        target, numbers, start = positions.reshape(-1).data, _numbers(longest).data, 0
        for tokens in counts:
            target[start : start + tokens] = numbers[:tokens]
            start += tokens
    for row, (at, index) in enumerate(where):
        if plan.sources[at].repeats or plan.sources[at].decided is not None:
            _mask(plan, at, index, int(rows.epoch[row]), int(rows.g[row]), labels[row])
        if form.positions == "continue":
            _go_on(plan, at, index, positions[row])
    if form.labels == "same":
        labels[:, 1:] = labels[:, :-1].copy()
        labels[:, :1] = IGNORED
    return Batch(ids, labels, positions, edges.astype(np.int32), longest, rows.g, rows.source, consumed, *decided, plan)


_least = np.arange(1 << 12)


def _numbers(count: int) -> Numbers:
    """0 … count − 1; kept, since writing them is a good part of the work."""
    global _least
    if len(_least) < count:
        _least = np.arange(2 * count)
    return _least[:count]


def _cut(plan: Plan, at: int, index: int, ids: Numbers, origin: int) -> tuple[Numbers, int, int]:
    """Fill a row of a concat plan: where documents end in it, its tokens, and the token behind it (0 for none).

    origin: where the row begins in the rows laid end to end; ends are counted from there.
    """
    source, length = plan.sources[at], plan.length
    start = index * length
    stop = start + length
    if stop < source.tokens:
        found = source.store.read(start, stop + 1)
        ids[:] = found[:-1]
        return source.borders(start, stop, origin)[0], length, int(found[-1])
    filled = source.tokens - start
    ids[:filled] = source.store.read(start, source.tokens)
    return source.borders(start, source.tokens, origin)[0], filled, 0


def _fitted(plan: Plan, at: int, index: int, ids: Numbers, origin: int) -> tuple[Numbers, int, int]:
    """The same of a best-fit plan. Only a piece that is the whole row may go on behind it."""
    packed, read = plan.packed[at], plan.sources[at].store.read
    assert packed is not None
    part = packed.pieces(index)
    starts, tokens = packed.starts[part].tolist(), packed.tokens[part]
    if packed.goes_on[part.start]:
        found = read(starts[0], starts[0] + plan.length + 1)
        ids[:] = found[:-1]
        return np.zeros(0, np.int64), plan.length, int(found[-1])
    ends = np.cumsum(tokens, dtype=np.int64)
    place = 0
    for start, end in zip(starts, ends.tolist(), strict=True):
        ids[place:end] = read(start, start + end - place)
        place = end
    return ends + origin, place, 0


def _go_on(plan: Plan, at: int, index: int, positions: Numbers) -> None:
    """Count the positions of documents that began before their piece from where they were cut."""
    source = plan.sources[at]
    for _, start, stop, place in plan.pieces(at, index):
        ends, document = source.borders(start, stop)
        tokens = int(ends[0]) if len(ends) else stop - start
        positions[place : place + tokens] += start - source.document_start(start, document)


def _mask(plan: Plan, at: int, index: int, epoch: int, g: int, labels: Numbers) -> None:
    """Take the labels of tokens that are not learned from a row: repeats, and documents that decisions mask."""
    source = plan.sources[at]
    for _, start, stop, place in plan.pieces(at, index):
        count = stop - start
        ranges = source.repeated(start, stop + 1) if source.repeats else []
        if source.decided is not None:
            ends, first = source.borders(start, stop)
            begins = np.concatenate([[0], ends])
            for document in source.unlearned(first, first + len(ends), epoch, g):
                low = int(begins[document - first])
                high = int(ends[document - first]) if document - first < len(ends) else count + 1
                ranges.append((low, high))
        for low, high in ranges:  # of tokens; the label of a token is at the position before it
            labels[place + max(low - 1, 0) : place + min(high - 1, count)] = IGNORED
