"""Small indexes beside the payload, one for each of its readers: Megatron's ``.idx``, datatrove's ``.ds.index``.

The payload's bytes are the same for all: flat little-endian ids. Layouts: megatron-core 0.16 (`IndexedDataset`),
datatrove 0.10 (`DatatroveFileDataset`), each read back by its own reader in tests/readers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.io.hashing import HashingFile
from cleanpipe.tokens.store.names import DATATROVE, MEGATRON
from cleanpipe.tokens.store.offsets import Offsets

MAGIC, VERSION = b"MMIDIDX\x00\x00", 1
CODES = {2: 8, 4: 4}  # bytes of an id → Megatron's code of uint16, int32
LONGEST = (1 << 31) - 1  # tokens of a document: Megatron counts them in 32 bits
_PIECE = 1 << 18  # documents at a time


def megatron_head(width: int, documents: int) -> bytes:
    """The first 34 bytes of an ``.idx``: one sequence a document, and one more entry in the list of documents."""
    counts = np.array([documents, documents + 1], "<u8").tobytes()
    return MAGIC + VERSION.to_bytes(8, "little") + bytes([CODES[width]]) + counts


def megatron(offsets: Offsets, width: int) -> Iterator[bytes]:
    """An ``.idx`` in pieces: head, int32 lengths, int64 byte positions, int64 first sequence of each document.

    offsets: (documents + 1,) tokens from the payload's begin. width: bytes of an id.
    """
    documents = len(offsets) - 1
    yield megatron_head(width, documents)
    for start in range(0, documents, _PIECE):
        yield np.diff(offsets[start : start + _PIECE + 1]).astype("<i4").tobytes()
    for start in range(0, documents, _PIECE):
        stop = min(start + _PIECE, documents)
        yield (offsets[start:stop] * width).astype("<i8").tobytes()
    for start in range(0, documents + 1, _PIECE):
        yield np.arange(start, min(start + _PIECE, documents + 1), dtype="<i8").tobytes()


def datatrove(offsets: Offsets, width: int) -> Iterator[bytes]:  # noqa: ARG001  # one signature for all dialects
    """A ``.ds.index`` in pieces: uint64, where each document ends, in tokens."""
    for start in range(1, len(offsets), _PIECE):
        yield offsets[start : start + _PIECE].astype("<u8").tobytes()


INDEXES = {MEGATRON: megatron, DATATROVE: datatrove}


def write_index(suffix: str, path: Path, offsets: Offsets, dtype: npt.DTypeLike) -> dict[str, Any]:
    """Write one index at ``path``, durable; ``{"bytes", "sha256"}``."""
    with HashingFile(path) as file:
        for piece in INDEXES[suffix](offsets, np.dtype(dtype).itemsize):
            file.write(piece)
        file.sync()
        return {"bytes": file.size, "sha256": file.hexdigest()}
