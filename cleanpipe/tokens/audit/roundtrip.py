"""Whether ids say the text they were made of: decode(encode(x)) = x, on documents that a hash chooses."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe.tally import Tally

SAMPLED = 64  # documents of a shard
EXCERPT = 40  # code points around the place where two texts part
_WORD = np.uint64
_ALL = _WORD(0xFFFFFFFFFFFFFFFF)


def order_of(doc_ids: pa.Array, seed: int = 0) -> npt.NDArray[np.uint64]:
    """A number for each document, from its identity and the seed alone: the order in which documents are sampled.

    doc_ids: binary(16), a digest's bytes, so that half of them mixed with the seed (splitmix64) is random enough.
    """
    raw = np.frombuffer(b"".join(doc_ids.to_pylist()), "<u8")[::2]
    x = raw + _WORD((seed * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15) % (1 << 64))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> _WORD(shift))) * _WORD(factor)
    return x ^ (x >> _WORD(31))


def sample_limit(doc_ids: pa.Array, seed: int = 0, most: int = SAMPLED) -> int:
    """The largest ``order_of`` that is sampled, so that ``most`` documents of a shard are (all, if it has fewer).

    Args:
        doc_ids: binary(16) of all rows of a shard; a document may have many rows.
        seed: another sample. most: documents.
    """
    found = np.unique(order_of(doc_ids, seed))
    return int(found[most - 1] if len(found) > most else _ALL)


def round_trip(decode: Callable[[Sequence[int]], str], doc_id: bytes, text: str, ids: npt.NDArray[np.uint32]) -> Tally:
    """One document's proof: {"documents", "characters"}, and where it fails {"failed": {what failed: 1}}.

    What failed is JSON: [doc_id in hexadecimal digits, code point where the texts part, excerpt of the text, excerpt of
    what came back].
    """
    back = decode(ids.tolist())
    out: Tally = {"documents": 1, "characters": len(text)}
    if back != text:
        at = parting(text, back)
        begin = max(0, at - EXCERPT // 2)
        told = [doc_id.hex(), at, text[begin : begin + EXCERPT], back[begin : begin + EXCERPT]]
        out["failed"] = {json.dumps(told, ensure_ascii=True): 1}
    return out


def parting(a: str, b: str) -> int:
    """The first code point at which two texts differ; the length of the shorter one where it begins the other."""
    low, high = 0, min(len(a), len(b))
    while low < high:  # the longest common beginning, by halves: comparing slices is faster than characters
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low
