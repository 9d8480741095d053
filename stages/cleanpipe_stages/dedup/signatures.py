"""MinHash signatures: for each of k hash functions the smallest value over a document's shingles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe.errors import ConfigError
from cleanpipe_stages.dedup import plain
from cleanpipe_stages.dedup.hashing import stream
from cleanpipe_stages.dedup.shingles import ShingleSets

EMPTY = np.uint32(0xFFFFFFFF)  # the value of a set without shingles; it never gets a band key

_BLOCK = 1 << 15  # shingles at a time: two arrays of 128 KiB


@dataclass(frozen=True, slots=True)
class Family:
    """k functions ``multiply * x + add`` modulo 2^32, one to one as ``multiply`` is odd.

    x is the upper half of a shingle's 64-bit hash, which is uniform already. Two sets agree in a share of values that
    estimates their Jaccard index J with standard error sqrt(J (1 - J) / k).
    """

    multiply: npt.NDArray[np.uint32]
    add: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, seed: int, values: int) -> Family:
        """The family of a seed: the same on every machine."""
        numbers = stream(seed, 2 * values)
        upper = (numbers >> np.uint64(32)).astype(np.uint32)
        return cls(upper[0::2] | np.uint32(1), upper[1::2])

    def signatures(self, sets: ShingleSets) -> npt.NDArray[np.uint32]:
        """uint32 of (documents, k); EMPTY in the rows of documents without shingles."""
        result = np.full((self.add.size, len(sets)), EMPTY, dtype=np.uint32)
        filled = np.flatnonzero(sets.counts)
        starts = sets.offsets[filled]
        first = 0
        while first < filled.size:
            last = max(first + 1, int(np.searchsorted(starts, starts[first] + _BLOCK, side="right")) - 1)
            end = sets.offsets[filled[last - 1] + 1]
            values = (sets.values[starts[first] : end] >> np.uint64(32)).astype(np.uint32)
            within = starts[first:last] - starts[first]
            room = np.empty_like(values)
            rows = filled[first:last]
            for k in range(self.add.size):
                np.multiply(values, self.multiply[k], out=room)
                np.add(room, self.add[k], out=room)
                result[k, rows] = np.minimum.reduceat(room, within)
            first = last
        return np.ascontiguousarray(result.T)


def datasketch_signatures(
    texts: pa.Array, *, values: int, seed: int, words: int, characters: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int32]]:
    """What ``datasketch.MinHash(num_perm=values, seed=seed)`` says of the plain shingles of n texts.

    Returns uint64 of (n, values) and the number of distinct shingles; a null is a text without any.
    Raises ConfigError where datasketch is not installed.
    """
    try:
        from datasketch import MinHash
    except ImportError as error:
        raise ConfigError("scheme 'datasketch' needs the package datasketch: pip install datasketch") from error
    signatures = np.zeros((len(texts), values), dtype=np.uint64)
    counts = np.zeros(len(texts), dtype=np.int32)
    blank = MinHash(num_perm=values, seed=seed)
    for row, text in enumerate(texts):
        found = plain.shingles(text.as_py() or "", words=words, characters=characters)
        sketch = blank.copy()
        sketch.update_batch([shingle.encode() for shingle in found])
        signatures[row] = sketch.hashvalues
        counts[row] = len(found)
    return signatures, counts
