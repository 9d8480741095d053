"""How full sequences would be, by how documents are put into them: from how many documents have which length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.audit.lines import Line, missing, share

LENGTHS = (2048, 4096, 8192)  # tokens of a sequence
Counts = Mapping[int, int]  # documents by their tokens, BOS and EOS included


def fills(counts: Counts, windows: int, window_tokens: int) -> dict[str, Any]:
    """For each of LENGTHS what packing would do.

    Args:
        counts: documents by length. windows, window_tokens: rows of the run's shards, and tokens that these hold, what
            overlaps counted in each; 0 tokens where nobody counted them.

    Returns:
        By length: ``concat`` (documents one after the other, cut where a sequence ends), ``best_fit`` (no document that
        fits is cut), ``document_each`` (a document begins a sequence of its own), ``window_each`` (so does a window):
        sequences, fill, padding, documents cut.
    """
    return {str(length): _fills(counts, windows, window_tokens, length) for length in LENGTHS}


def _fills(counts: Counts, windows: int, window_tokens: int, length: int) -> dict[str, Any]:
    documents, tokens = sum(counts.values()), sum(n * c for n, c in counts.items())
    longer = sum(c for n, c in counts.items() if n > length)
    # a document of n tokens is cut at n - 1 of the places where its begin may lie in a sequence
    cut = sum(c * min(n - 1, length) for n, c in counts.items() if n > 0)
    each = sum(-(-n // length) * c for n, c in counts.items())
    split = {"documents_cut": share(longer, documents, "documents")}
    return {
        "concat": _packed(tokens, -(-tokens // length), length)
        | {"documents_cut": share(cut // length, documents, "documents", "expected")},
        "best_fit": _packed(tokens, best_fit(counts, length), length) | split,
        "document_each": _packed(tokens, each, length) | split,
        "window_each": _packed(window_tokens, windows, length)
        if window_tokens and window_tokens <= windows * length
        else {"fill": missing("the tokens of windows were not counted, or do not fit")},
    }


def _packed(tokens: int, sequences: int, length: int) -> dict[str, Line | int]:
    room = sequences * length
    return {"sequences": sequences, "fill": share(tokens, room, "tokens"), "padding": room - tokens}


def best_fit(counts: Counts, length: int) -> int:
    """Sequences that best-fit packing of all documents takes: longest first, each into the fullest one that has room.

    Documents of more than ``length`` tokens fill sequences by themselves; what is left of them is packed as the rest
    (Ding et al. 2024, arXiv 2404.10830). Equal lengths are placed at once, which gives what one by one does.
    """
    todo = np.zeros(length + 1, np.int64)
    sequences = 0
    for n, c in counts.items():
        sequences += n // length * c
        todo[n % length] += c
    room: npt.NDArray[np.int64] = np.zeros(length + 1, np.int64)  # sequences by the room that is left in them
    for n in range(length - 1, 0, -1):
        left = int(todo[n])
        while left:
            started = np.flatnonzero(room[n:])
            space = int(started[0]) + n if len(started) else length
            each = min(space // n, left)  # so many go into one: what is left of it is then the smallest room there is
            some = left // each
            if len(started):
                some = min(some, int(room[space]))
                room[space] -= some
            else:
                sequences += some
            room[space - each * n] += some
            left -= each * some
    return sequences
