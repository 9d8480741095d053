"""Pieces that were met before, with their ids: looked up all at once, bounded in size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe.tokens.backend import Ids

Int64 = npt.NDArray[np.int64]
MOST = 1 << 17  # pieces kept
_WORTH = 4  # known pieces that one piece is worth
LONGEST = 64  # bytes of a piece that is kept

Encode = Callable[[Sequence[bytes]], tuple[Ids, Int64]]  # ids of all, and how many of each


class PieceTable:
    """stop: a piece without ids, number 0. encode: gives the ids of pieces that are new."""

    def __init__(self, stop: bytes, encode: Encode, most: int = MOST) -> None:
        self._stop, self._encode, self._most = stop, encode, most
        self._clear()

    def _clear(self) -> None:
        ends = pa.py_buffer(np.array([0, len(self._stop)], np.int32))
        self._pieces = pa.Array.from_buffers(pa.binary(), 1, [None, ends, pa.py_buffer(self._stop)])
        self._ids: Ids = np.empty(0, np.uint32)
        self._begins: Int64 = np.zeros(1, np.int64)
        self._counts: Int64 = np.zeros(1, np.int64)

    def encode(self, data: bytes, begins: Int64) -> tuple[Ids, Int64]:
        """(ids of all pieces, how many ids each text has); pieces begin at ``begins``, texts end with ``stop``."""
        offsets = np.append(begins, len(data)).astype(np.int32)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        pieces = pa.Array.from_buffers(pa.binary(), len(begins), buffers)
        # to look few pieces up in a large table costs more than to encode them
        few = len(begins) * _WORTH < len(self._counts)
        known = self._pieces.slice(0, 1) if few else self._pieces
        found = pc.index_in(pieces, value_set=known)
        ids, starts, counts = self._ids, self._begins[: len(known)], self._counts[: len(known)]
        if found.null_count:
            new = pieces.filter(found.is_null()).dictionary_encode()
            more_ids, more = self._encode(new.dictionary.to_pylist())
            numbers = new.indices.to_numpy().astype(np.int64) + len(counts)
            starts = np.concatenate([starts, len(ids) + np.cumsum(more) - more])
            ids, counts = np.concatenate([ids, more_ids]), np.concatenate([counts, more])
            places = found.fill_null(-1).to_numpy().astype(np.int64)
            places[places < 0] = numbers
            if not few:
                self._keep(new.dictionary, ids, starts, counts)
        else:
            places = found.to_numpy()
        sizes = counts[places]
        after = np.cumsum(sizes)
        total = int(after[-1]) if len(after) else 0
        spread = np.repeat(starts[places] - (after - sizes), sizes)
        spread += np.arange(total)
        return ids[spread], np.diff(after[places == 0], prepend=0)

    def _keep(self, new: pa.Array, ids: Ids, starts: Int64, counts: Int64) -> None:
        """Remember new pieces (the last in these arrays), but for long ones; a full table is begun anew."""
        if len(counts) > self._most or len(ids) > 8 * self._most:
            self._clear()
            return
        short = pc.less_equal(pc.binary_length(new), pa.scalar(LONGEST, pa.int32()))
        known = len(self._counts)
        self._pieces = pa.concat_arrays([self._pieces, new.filter(short)])
        kept = np.concatenate([np.ones(known, bool), short.to_numpy(zero_copy_only=False)])
        self._ids, self._begins, self._counts = ids, starts[kept], counts[kept]
