"""Where documents lie in a payload, as a real ``.npy`` file: it grows on disk while the payload does, so that a hundred
million documents cost no memory, and is mapped when it is read.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.io.hashing import sha256_of
from cleanpipe.tokens.store.mapping import mapped_bytes

HEAD = 128  # bytes before the numbers, whatever their count: numpy pads its header to 64
Offsets = npt.NDArray[np.int64]


def head(count: int) -> bytes:
    """The header of a one-dimensional int64 array of so many numbers (numpy.lib.format, version 1.0)."""
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({count},), }}"
    return b"\x93NUMPY\x01\x00" + (HEAD - 10).to_bytes(2, "little") + text.ljust(HEAD - 11).encode() + b"\n"


class OffsetsFile:
    """Written at ``path``: where each document begins, in tokens from the payload's begin, and the end of the last."""

    def __init__(self, path: Path) -> None:
        self.path, self.documents, self.last = path, 0, 0
        self._file = path.open("wb", buffering=1 << 20)
        self._file.write(head(0) + bytes(8))

    def add(self, ends: Offsets) -> None:
        """Ends of the next documents, ascending, in tokens from the payload's begin."""
        if len(ends):
            self._file.write(ends.astype("<i8").tobytes())
            self.documents, self.last = self.documents + len(ends), int(ends[-1])

    def close(self) -> dict[str, Any]:
        """The head with the count that is known now, and all of it on disk; ``{"bytes", "sha256"}``."""
        self._file.seek(0)
        self._file.write(head(self.documents + 1))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return {"bytes": size_of(self.documents), "sha256": sha256_of(self.path)}

    def abandon(self) -> None:
        """Let go of the file."""
        self._file.close()


def size_of(documents: int) -> int:
    """Bytes of the file for so many documents."""
    return HEAD + 8 * (documents + 1)


def mapped(path: Path) -> Offsets:
    """The numbers of a file, mapped, not read.

    Raises:
        ValueError: it is no such file. OSError: it cannot be read.
    """
    data = mapped_bytes(path)
    count = (len(data) - HEAD) // 8
    if count < 1 or len(data) != HEAD + 8 * count or data[:HEAD] != head(count):
        raise ValueError("is no array of offsets as it was written")
    return np.frombuffer(data, np.int64, offset=HEAD)  # a plain array: np.memmap costs at every slice, and a handle
