"""What a worker counts of the documents it encoded: nested whole numbers that add up, in any order of batches.

The keys, all optional (``cleanpipe.tally.add`` merges them; ``{}`` is the zero):

    documents, windows, characters, bytes     what was encoded: of text, what windows repeat not counted
    tokens, bos, eos                          ids of texts; ids that were put before and after documents
    stripped                                  blanks (code points) left out at the ends of documents
    unk, byte_fallback                        of the tokens
    languages/L                               documents, characters, bytes, tokens, unk, byte_fallback
    controls                                  see ``controls``
    lengths/N                                 documents of N tokens, BOS and EOS included
    starts                                    of windows but a document's first: seen, cut (a token goes over it)
    whole_tokens                              per window: what the same documents would be as wholes
    window_tokens                             tokens of all windows, what overlaps counted in each of them
    round_trip                                see ``roundtrip``
    lost/FATE/REASON                          documents, windows, characters, bytes that were not encoded
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.errors import StopError
from cleanpipe.tally import Tally, add
from cleanpipe.tokens.audit.controls import control_tally
from cleanpipe.tokens.audit.roundtrip import order_of, round_trip

UNKNOWN = "unknown"  # language of a document of which nobody said one
Whole = npt.NDArray[np.int64]


def tally_of(
    tokenizer: Any,
    texts: Sequence[str],
    ids: npt.NDArray[np.uint32],
    ends: Whole,
    *,
    doc_ids: pa.Array,
    languages: Sequence[str | None],
    windows: Whole,
    stripped: int = 0,
    bos: bool = False,
    eos: bool = False,
    per_window: bool = False,
    overlaps: Whole | None = None,
    starts_seen: int = 0,
    starts_cut: int = 0,
    whole_tokens: int = 0,
    window_tokens: int = 0,
    sample_limit: int = 0,
    seed: int = 0,
) -> Tally:
    """The tally of a batch of documents, each of them in it as a whole.

    Args:
        tokenizer: ``cleanpipe.tokens.tokenizer.Tokenizer``.
        texts: what was encoded, as it was: documents, stripped; with ``per_window`` all windows of all documents.
        ids: of all texts, one after another, without BOS and EOS. ends: (texts,) where each text's ids end.
        doc_ids, languages, windows: of each document; windows: (documents,) how many it has.
        stripped: blanks that were left out at the ends of these documents, code points.
        bos, eos: whether one was put before and after each document.
        overlaps: with ``per_window``, (texts,) code points that the window before holds already.
        starts_seen, starts_cut: windows but the first of each document, and those that begin within a token of the
            whole document. whole_tokens: with ``per_window``, tokens of the same documents encoded as wholes; 0 where
            nobody did. window_tokens: Σ TOKEN_COUNT of these documents' spans.
        sample_limit: documents up to this place in the order of ``roundtrip.order_of`` are decoded again; see
            ``roundtrip.sample_limit``; 0: none. seed: of that order.
    """
    documents = len(doc_ids)
    of_text = np.repeat(np.arange(documents), windows) if per_window else np.arange(documents)
    body = np.diff(ends, prepend=0)
    tokens = _sum(body, of_text, documents)
    repeated = overlaps.tolist() if overlaps is not None else [0] * len(texts)
    own = [t[n:] if n else t for t, n in zip(texts, repeated, strict=True)]
    measures = {
        "documents": np.ones(documents, np.int64),
        "characters": _sum(np.fromiter(map(len, own), np.int64, len(own)), of_text, documents),
        "bytes": _sum(np.fromiter(map(_size, own), np.int64, len(own)), of_text, documents),
        "tokens": tokens,
    }
    measures["unk"] = _sum(
        _marked([] if tokenizer.unk is None else [tokenizer.unk], tokenizer, ids, ends), of_text, documents
    )
    measures["byte_fallback"] = _sum(_marked(tokenizer.byte_ids, tokenizer, ids, ends), of_text, documents)
    out: Tally = {name: int(values.sum()) for name, values in measures.items()}
    out |= {
        "windows": int(windows.sum()),
        "window_tokens": window_tokens,
        "stripped": stripped,
        "bos": documents * bos,
        "eos": documents * eos,
    }
    out["languages"] = _by_language(languages, measures)
    sizes, counts = np.unique(tokens + bos + eos, return_counts=True)
    out["lengths"] = {str(n): c for n, c in zip(sizes.tolist(), counts.tolist(), strict=True)}
    out["starts"] = {"seen": starts_seen, "cut": starts_cut}
    if per_window:
        out["whole_tokens"] = whole_tokens
    out["controls"] = control_tally(texts, of_text.tolist(), repeated, tokenizer.controls.keys())
    out["round_trip"] = {}
    if sample_limit and documents:
        chosen = order_of(doc_ids, seed) <= np.uint64(sample_limit)
        for i in np.flatnonzero(chosen[of_text]).tolist():
            part = ids[ends[i] - body[i] : ends[i]]
            proof = round_trip(tokenizer.decode, doc_ids[int(of_text[i])].as_py(), texts[i], part)
            proof["documents"] = int(i == 0 or of_text[i] != of_text[i - 1])
            add(out["round_trip"], proof)
    return out


def lost_of(
    fate: str, reason: str, *, documents: int = 1, windows: int = 1, characters: int = 0, bytes_: int = 0
) -> Tally:
    """Documents that were not encoded, as they came: dropped (``empty``) or quarantined, with the reason."""
    if fate not in (col.DROPPED, col.QUARANTINED):
        raise ValueError(fate)
    entry = {"documents": documents, "windows": windows, "characters": characters, "bytes": bytes_}
    return {"lost": {fate: {reason: entry}}}


def histogram(ids: npt.NDArray[np.uint32], vocabulary: int) -> Whole:
    """(vocabulary,) how often each id is among ``ids``; histograms of parts add up to that of the whole.

    Raises:
        StopError: an id is not below ``vocabulary``.
    """
    counts = np.bincount(ids, minlength=vocabulary)
    if len(counts) > vocabulary:
        raise StopError(f"the id {len(counts) - 1:,} is not below the vocabulary of {vocabulary:,}")
    return counts.astype(np.int64, copy=False)


def _sum(values: Whole, groups: Whole, count: int) -> Whole:
    return np.bincount(groups, values, count).astype(np.int64)  # sums below 2^53 are exact


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _marked(some: Sequence[int], tokenizer: Any, ids: npt.NDArray[np.uint32], ends: Whole) -> Whole:
    """(texts,) how many ids of each text are among ``some``."""
    if not len(some):
        return np.zeros(len(ends), np.int64)
    table = np.zeros(tokenizer.vocabulary, bool)
    table[np.asarray(some, np.int64)] = True
    before = np.concatenate(([0], np.cumsum(table[ids], dtype=np.int64)))
    return np.diff(before[ends], prepend=0)


def _by_language(languages: Sequence[str | None], measures: dict[str, Whole]) -> Tally:
    names = sorted({name or UNKNOWN for name in languages})
    place = {name: i for i, name in enumerate(names)}
    at = np.array([place[name or UNKNOWN] for name in languages], np.int64)
    sums = {measure: _sum(values, at, len(names)).tolist() for measure, values in measures.items()}
    return {name: {measure: sums[measure][i] for measure in sums} for i, name in enumerate(names)}
