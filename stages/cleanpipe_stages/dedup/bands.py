"""Band keys: a signature cut into bands of rows, each band hashed to 64 bits. Pairs that share a key are candidates.

Stored as one binary value a document: eight bytes that say how the keys were made, then one little-endian uint64 for
each band; null where a document has no shingles. So keys of unlike options cannot meet unseen.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe.errors import ConfigError
from cleanpipe_stages.dedup.hashing import Words, mix, stream

BAND_KEYS = "band_keys"
SHINGLES = "shingles"
BAND_KEYS_TYPE = pa.binary()

_FOLD = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True, slots=True)
class Layout:
    """How band keys were made; ``family`` is a digest of whatever else decides their values (scheme, seed)."""

    bands: int
    rows: int
    words: int
    characters: int
    family: int

    @classmethod
    def of(cls, *, bands: int, rows: int, words: int, characters: int, scheme: str, seed: int) -> Layout:
        """Raises ConfigError for numbers that cannot be."""
        for what, value in (("bands", bands), ("rows", rows), ("ngram", words), ("characters", characters)):
            if not 1 <= value <= 255:
                raise ConfigError(f"{what} must be from 1 to 255, not {value}")
        digest = blake2b(f"1 {scheme} {seed}".encode(), digest_size=4).digest()
        return cls(bands, rows, words, characters, int.from_bytes(digest, "little"))

    @classmethod
    def read(cls, word: int) -> Layout:
        """The layout that a stored value begins with."""
        first, family = word & 0xFFFFFFFF, word >> 32
        return cls(first & 255, first >> 8 & 255, first >> 16 & 255, first >> 24 & 255, family)

    def __int__(self) -> int:
        return self.bands | self.rows << 8 | self.words << 16 | self.characters << 24 | self.family << 32

    @property
    def width(self) -> int:
        """Bytes of one stored value."""
        return 8 * (1 + self.bands)

    def candidate_share(self, jaccard: float) -> float:
        """Probability that a pair of this Jaccard index shares a key: 1 - (1 - J^rows)^bands."""
        return float(1 - (1 - jaccard**self.rows) ** self.bands)

    @property
    def even(self) -> float:
        """The Jaccard index at which half of the pairs share a key."""
        return float((1 - 0.5 ** (1 / self.bands)) ** (1 / self.rows))


def band_keys(signatures: npt.NDArray[np.unsignedinteger], layout: Layout) -> Words:
    """uint64 of (documents, bands) from signatures of (documents, bands * rows)."""
    values = signatures.reshape(len(signatures), layout.bands, layout.rows)
    keys = np.zeros((len(signatures), layout.bands), dtype=np.uint64)
    for row in range(layout.rows):
        keys *= _FOLD
        keys += values[:, :, row]
    keys += stream(0, layout.bands)
    return mix(keys)


def to_arrow(keys: Words, filled: npt.NDArray[np.bool_], layout: Layout) -> pa.Array:
    """The column of n documents; null where not ``filled``."""
    stored = np.empty((int(filled.sum()), 1 + layout.bands), dtype="<u8")
    stored[:, 0] = int(layout)
    stored[:, 1:] = keys[filled]
    offsets = np.zeros(len(filled) + 1, dtype=np.int32)
    np.cumsum(filled * np.int32(layout.width), out=offsets[1:])
    valid = np.packbits(filled, bitorder="little")
    buffers = [pa.py_buffer(valid), pa.py_buffer(offsets), pa.py_buffer(stored)]
    return pa.Array.from_buffers(BAND_KEYS_TYPE, len(filled), buffers, int(len(filled) - filled.sum()))


def from_arrow(chunk: pa.Array) -> Words:
    """The stored values of a chunk's non-null rows, in order: uint64 of (rows, 1 + bands), column 0 the layout.

    Raises ConfigError if their layouts differ.
    """
    present = chunk.cast(BAND_KEYS_TYPE).drop_null()
    if not len(present):
        return np.empty((0, 0), dtype=np.uint64)
    _, at, data = present.buffers()
    offsets = np.frombuffer(at, dtype=np.int32)[present.offset : present.offset + len(present) + 1]
    width = int(offsets[1] - offsets[0])
    if width < 16 or width % 8 or np.any(np.diff(offsets) != width):
        raise ConfigError("band keys of several widths: the inputs were signed with different options")
    words = np.frombuffer(data, dtype="<u8", offset=int(offsets[0]), count=len(present) * width // 8)
    keys = words.reshape(len(present), width // 8)
    if np.any(keys[:, 0] != keys[0, 0]) or Layout.read(int(keys[0, 0])).width != width:
        raise ConfigError("band keys of several layouts: the inputs were signed with different options")
    return keys
