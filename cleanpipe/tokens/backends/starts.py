"""Where tokens begin in their text, from the lengths of their bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import StageContractError
from cleanpipe.tokens.backend import Ids

_AT_ONCE = 1 << 19  # code points


def starts_of(
    ids: Ids, ends: npt.NDArray[np.int64], texts: Sequence[str], byte_lengths: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """(ids,) code point of its own text at which each token begins; of a token within a character, that character.

    ids, ends: as in ``Encoded``; byte_lengths: of a lossless tokenizer.

    Raises:
        StageContractError: the tokens' bytes are not those of the texts.
    """
    made = np.empty(len(ids), np.int64)
    begin, group, size = 0, 0, 0
    for place, text in enumerate(texts, 1):  # some at a time: arrays as large as all texts cost more than the work
        size += len(text)
        if size >= _AT_ONCE or place == len(texts):
            end = int(ends[place - 1])
            counts = np.diff(ends[group:place], prepend=begin)
            made[begin:end] = _starts(ids[begin:end], counts, texts[group:place], byte_lengths)
            begin, group, size = end, place, 0
    return made


def _starts(
    ids: Ids, counts: npt.NDArray[np.int64], texts: Sequence[str], byte_lengths: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    data = "".join(texts).encode()
    lengths = byte_lengths[ids]
    after = np.cumsum(lengths, dtype=np.int64)
    found = int(after[-1]) if len(after) else 0
    if found != len(data):
        raise StageContractError(f"{found} bytes of tokens for {len(data)} bytes of text: not a lossless tokenizer")
    begins = after - lengths
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    before: npt.NDArray[np.int64] = np.repeat(np.cumsum(sizes) - sizes, counts)
    if len(data) > int(sizes.sum()):  # some character has more than one byte
        leads = (np.frombuffer(data, np.uint8) & 0xC0) != 0x80
        begins = np.cumsum(leads, dtype=np.int64)[begins] - 1  # code points of the joined texts
    begins -= before
    return begins
