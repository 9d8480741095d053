"""Checksums of a payload: one xxh3 of 64 bits for each BLOCK bytes, the last block as long as it is."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from cleanpipe.tokens.layout import BLOCK

Sums = npt.NDArray[np.uint64]


class BlockSums:
    """Taken of bytes as they pass, in pieces of any size. 8 bytes are held for each BLOCK."""

    def __init__(self) -> None:
        self._state, self._filled = xxhash.xxh3_64(), 0
        self._sums = array("Q")

    def update(self, data: Any) -> None:
        """The next bytes."""
        view = memoryview(data).cast("B")
        at = 0
        if self._filled:
            at = min(BLOCK - self._filled, len(view))
            self._take(view[:at])
        whole = at + (len(view) - at) // BLOCK * BLOCK
        for start in range(at, whole, BLOCK):
            self._sums.append(xxhash.xxh3_64_intdigest(view[start : start + BLOCK]))
        if whole < len(view):
            self._take(view[whole:])

    def _take(self, view: memoryview) -> None:
        self._state.update(view)
        self._filled += len(view)
        if self._filled == BLOCK:
            self._end()

    def _end(self) -> None:
        self._sums.append(self._state.intdigest())
        self._state.reset()
        self._filled = 0

    def close(self) -> bytes:
        """The content of the ``.sums`` file."""
        if self._filled:
            self._end()
        return np.frombuffer(self._sums, np.uint64).astype("<u8").tobytes()
