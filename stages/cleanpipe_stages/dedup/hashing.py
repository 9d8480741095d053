"""64-bit hashes on arrays: the same numbers on every machine, no salt, no C library."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]

GOLDEN = 0x9E3779B97F4A7C15
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_K = np.uint64(0xD6E8FEB86659FD93)  # odd, so that multiplying loses nothing
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)
_LONGEST = 64  # bytes; a longer token is hashed alone, so that one endless token costs no endless loop


def mix(values: Words) -> Words:
    """The finaliser of splitmix64, in place: every bit of the input moves every bit of the output; one to one."""
    values ^= values >> _S30
    values *= _M1
    values ^= values >> _S27
    values *= _M2
    values ^= values >> _S31
    return values


def stream(seed: int, count: int) -> Words:
    """``count`` values of splitmix64 started at ``seed``."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GOLDEN)
    return mix(steps + np.uint64(seed % (1 << 64)))


def token_hashes(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Words:
    """One hash a token, from its bytes alone. Tokens hold no byte 0; eight bytes must follow the last token.

    Eight bytes are taken at a time: most words are read, masked and hashed in one step of a dozen array operations.
    """
    eights: Words = np.ndarray((data.size - 7,), dtype="<u8", buffer=data, strides=(1,))
    hashes = _absorb(eights[starts] & _MASKS[np.minimum(lengths, 8)])
    done = 8
    left = np.flatnonzero(lengths > done)
    while left.size and done < _LONGEST:
        chunk = eights[starts[left] + done] & _MASKS[np.minimum(lengths[left] - done, 8)]
        hashes[left] = _absorb(hashes[left] ^ chunk)
        done += 8
        left = left[lengths[left] > done]
    for token in left:
        whole = data[starts[token] : starts[token] + lengths[token]].tobytes()
        hashes[token] = int.from_bytes(blake2b(whole, digest_size=8).digest(), "little")
    return hashes


def window_hashes(tokens: Words, size: int) -> Words:
    """The hash of each run of ``size`` neighbouring tokens, in their order; none if there are fewer tokens."""
    count = tokens.size - size + 1
    if count <= 0:
        return np.empty(0, dtype=np.uint64)
    total = tokens[:count].copy()
    for shift in range(1, size):
        total *= _K
        total += tokens[shift : shift + count]
    return mix(total)


def _absorb(values: Words) -> Words:
    values = values * _K
    values ^= values >> _S32
    return values
