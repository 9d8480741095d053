r"""The words of many texts as one stream of 64-bit hashes, with the place of each.

A word is a run of ``\w`` of the case-folded text; in scripts without blanks (Chinese, Japanese, Thai, …) each letter is
a word of its own. Punctuation and blanks are nothing: ``Don't  stop`` and ``don t stop`` are the same three words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.dedup import characters as ch
from cleanpipe_stages.dedup.hashing import Words, token_hashes

_TAIL = bytes(16)
_BLOCK = 1 << 18
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stream:
    """hashes: of all words, in order. offsets: int64 of n + 1, where each text's words begin. starts, ends: bytes of
    each word in ``data``, the case-folded texts. letters: which are single letters of scripts without blanks.
    """

    hashes: Words
    offsets: Places
    starts: Places
    ends: Places
    data: npt.NDArray[np.uint8]
    letters: npt.NDArray[np.bool_]

    def words(self, first: int, count: int) -> list[bytes]:
        """These words as they are compared."""
        pairs = zip(self.starts[first : first + count].tolist(), self.ends[first : first + count].tolist(), strict=True)
        return [self.data[a:b].tobytes() for a, b in pairs]


def stream(texts: Sequence[str]) -> Stream:
    """The words of n texts."""
    folded = [text.lower() if text.isascii() else text.casefold() for text in texts]
    data, begins = _join([text.encode() for text in folded])
    kept = ch.ascii_words().take(data)
    leads = ch.lead_bytes(data)
    single = np.empty(0, np.int64)
    if leads.size:
        kinds = ch.flags()[ch.code_points(data, leads)]
        _blank_out(kept, leads[kinds & ch.WORD == 0])
        single = leads[kinds & ch.UNSPACED != 0]
    is_word = kept != 0
    opens = np.empty(data.size, bool)
    opens[0] = False
    np.greater(is_word[1:], is_word[:-1], out=opens[1:])
    if single.size:
        opens[single] = True
        after = single + _sizes(data, single)
        opens[after] = is_word[after]
    closes = np.empty(data.size, bool)
    closes[0] = False
    np.logical_and(is_word[:-1], ~is_word[1:] | opens[1:], out=closes[1:])
    starts, ends = np.flatnonzero(opens), np.flatnonzero(closes)
    hashed = np.empty(starts.size, np.uint64)
    for first in range(0, starts.size, _BLOCK):
        part = slice(first, first + _BLOCK)
        hashed[part] = token_hashes(kept, starts[part], ends[part] - starts[part])
    letters = np.zeros(starts.size, bool)
    letters[np.searchsorted(starts, single)] = True
    return Stream(hashed, np.searchsorted(starts, begins), starts, ends, data, letters)


def blocks(texts: Sequence[str], size: int = 1 << 20) -> Iterator[slice]:
    """Neighbouring texts of about ``size`` characters together: the arrays of one block fit into memory."""
    first = held = 0
    for row, text in enumerate(texts):
        held += len(text)
        if held >= size:
            yield slice(first, row + 1)
            first, held = row + 1, 0
    if first < len(texts):
        yield slice(first, len(texts))


def _join(texts: list[bytes]) -> tuple[npt.NDArray[np.uint8], Places]:
    """One buffer, a byte 0 before and after each text, and where each begins (and the next would)."""
    data = np.frombuffer(b"\0".join((b"", *texts, _TAIL)), np.uint8)
    sizes = np.fromiter((len(t) + 1 for t in texts), np.int64, len(texts))
    return data, np.concatenate((np.ones(1, np.int64), 1 + np.cumsum(sizes)))


def _sizes(data: npt.NDArray[np.uint8], leads: Places) -> Places:
    """Bytes of the characters that begin there."""
    first = data[leads]
    return np.asarray(2 + (first >= 0xE0).astype(np.int64) + (first >= 0xF0))


def _blank_out(kept: npt.NDArray[np.uint8], leads: Places) -> None:
    """Put 0 over the characters that begin at ``leads``."""
    first = kept[leads]
    for more, least in enumerate((0xC0, 0xC0, 0xE0, 0xF0)):
        kept[leads[first >= least] + more] = 0
