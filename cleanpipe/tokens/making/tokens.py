"""Documents of a piece to ids, as wholes or window by window, and each window as a range of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe import batch as col
from cleanpipe.tokens.backend import Encoded, Ids
from cleanpipe.tokens.making.documents import Piece
from cleanpipe.tokens.making.encoding import Encoder, Refusal, part_of
from cleanpipe.tokens.making.spans import Ranges, cuts_of, ranges_of, repeated

Numbers = npt.NDArray[np.int64]
_NONE: Numbers = np.zeros(0, np.int64)


@dataclass(slots=True)
class Tokens:
    """documents: places in the piece of those that have ids, ascending; refused: place → reason of those that nobody
    could encode. texts: what was encoded, ``each`` of every document. ids, ends: of the texts. rows: of the windows of
    these documents, token ranges within their document. seen, cut: windows but the first, and those that begin within
    a token of the whole. whole: tokens of the documents as wholes.
    """

    per_window: bool
    documents: list[int] = field(default_factory=list)
    refused: dict[int, Refusal] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    each: list[int] = field(default_factory=list)
    parts: list[Encoded] = field(default_factory=list)
    ranges: list[Ranges] = field(default_factory=list)
    overlaps: list[int] = field(default_factory=list)
    seen: int = 0
    cut: int = 0
    whole: int = 0
    ids: Ids = field(default_factory=lambda: np.zeros(0, np.uint32))
    ends: Numbers = field(default_factory=lambda: _NONE)

    def add(self, at: int, texts: Sequence[str], parts: Sequence[Encoded], ranges: Ranges) -> None:
        """One document more."""
        self.documents.append(at)
        self.texts += texts
        self.each.append(len(texts))
        self.parts += parts
        self.ranges.append(ranges)

    def done(self) -> Tokens:
        """No more documents: the ids in one array."""
        self.ends = np.cumsum([len(p.ids) for p in self.parts], dtype=np.int64)
        if self.parts:
            self.ids = np.concatenate([p.ids for p in self.parts])
        return self

    @property
    def lengths(self) -> Numbers:
        """(documents,) tokens of each, BOS and EOS not counted."""
        last = np.cumsum(self.each, dtype=np.int64) - 1
        return np.diff(self.ends[last], prepend=0) if len(last) else _NONE

    def rows(self, what: str) -> Numbers:
        """``start``, ``count`` or ``overlap`` of every window of these documents."""
        return np.concatenate([getattr(r, what) for r in self.ranges]) if self.ranges else _NONE

    def texts_of(self, number: int) -> Iterator[tuple[str, Ids]]:
        """Texts and ids of one of the documents."""
        first = sum(self.each[:number])
        for at in range(first, first + self.each[number]):
            yield self.texts[at], self.parts[at].ids

    def with_marks(self, bos: int | None, eos: int | None) -> Ids:
        """The ids of all documents, BOS before and EOS after each."""
        before = [] if bos is None else [np.array([bos], np.uint32)]
        after = [] if eos is None else [np.array([eos], np.uint32)]
        if not self.documents or not (before or after):
            return self.ids
        out: list[Ids] = []
        begin = 0
        for length in self.lengths.tolist():
            out += before
            out.append(self.ids[begin : begin + length])
            out += after
            begin += length
        return np.concatenate(out)

    def facts(self) -> dict[str, Any]:
        """What the tally wants to know beside the ids."""
        out: dict[str, Any] = {
            "starts_seen": self.seen,
            "starts_cut": self.cut,
            "window_tokens": int(self.rows("count").sum()),
            "per_window": self.per_window,
        }
        if self.per_window:
            out |= {"whole_tokens": self.whole, "overlaps": np.array(self.overlaps, np.int64)}
        return out


def encode_whole(encoder: Encoder, piece: Piece, alive: Sequence[int], bodies: list[str], leads: list[int]) -> Tokens:
    """Each document once, as a whole; windows are ranges of its tokens, at token starts.

    alive: documents to encode. bodies: of every document of the piece, the text without the blanks at its ends; leads:
    code points that were left out at its begin.
    """
    out = Tokens(per_window=False)
    found = _of(encoder, [at for at in alive if _windows(piece, at) == 1], bodies, starts=False, refused=out.refused)
    found |= _of(encoder, [at for at in alive if _windows(piece, at) > 1], bodies, starts=True, refused=out.refused)
    begins, ends = piece.numbers(col.CHAR_START), piece.numbers(col.CHAR_END)
    for at in alive:
        if (own := found.get(at)) is None:
            continue
        if own.starts is None:
            n = np.array([len(own.ids)], np.int64)
            ranges = Ranges(np.zeros(1, np.int64), n, np.zeros(1, np.int64))
        else:
            rows = slice(int(piece.starts[at]), int(piece.starts[at + 1]))
            ranges = ranges_of(begins[rows] - leads[at], ends[rows] - leads[at], own.starts)
            out.seen += len(ranges.start) - 1
            out.cut += ranges.cut
        out.whole += len(own.ids)
        out.add(at, [bodies[at]], [own], ranges)
    return out.done()


def encode_windows(encoder: Encoder, piece: Piece, alive: Sequence[int], bodies: list[str], leads: list[int]) -> Tokens:
    """Each window by itself, one after another; the whole is encoded too, so that what this costs is known exactly."""
    out = Tokens(per_window=True)
    begins, ends = piece.numbers(col.CHAR_START).tolist(), piece.numbers(col.CHAR_END).tolist()
    texts: list[str] = []
    edges: list[tuple[int, int]] = []
    firsts = dict[int, int]()
    for at in alive:
        firsts[at] = len(texts)
        for row in range(int(piece.starts[at]), int(piece.starts[at + 1])):
            begin, end = max(0, begins[row] - leads[at]), max(0, ends[row] - leads[at])
            begin, end = min(begin, len(bodies[at])), min(end, len(bodies[at]))
            texts.append(bodies[at][begin:end])
            edges.append((begin, end))
    found, refused = encoder.encode(texts, starts=True)
    long = [at for at in alive if _windows(piece, at) > 1]
    wholes = _of(encoder, long, bodies, starts=True, refused={})
    for at in alive:
        own = range(firsts[at], firsts[at] + _windows(piece, at))
        if why := [refused[k] for k in own if k in refused]:
            out.refused[at] = why[0]
            continue
        parts = [part_of(found, k) for k in own]
        counts = np.array([len(p.ids) for p in parts], np.int64)
        shared = [max(0, edges[k - 1][1] - edges[k][0]) if k > own.start else 0 for k in own]
        held = [repeated(_starts(p), len(texts[k]), o, p.stops) for k, p, o in zip(own, parts, shared, strict=True)]
        out.overlaps += shared
        out.add(
            at, [texts[k] for k in own], parts, Ranges(np.cumsum(counts) - counts, counts, np.array(held, np.int64))
        )
        whole = wholes.get(at)
        out.whole += int(counts.sum()) if whole is None else len(whole.ids)
        out.seen += len(own) - 1
        if whole is not None:
            out.cut += cuts_of(np.array([edges[k][0] for k in own[1:]], np.int64), _starts(whole))
    return out.done()


def _windows(piece: Piece, at: int) -> int:
    return int(piece.starts[at + 1] - piece.starts[at])


def _starts(own: Encoded) -> Numbers:
    assert own.starts is not None
    return own.starts


def _of(
    encoder: Encoder, places: list[int], bodies: list[str], *, starts: bool, refused: dict[int, Refusal]
) -> dict[int, Encoded]:
    """The ids of some documents, by their place; those that nobody could encode are put into ``refused``."""
    found, bad = encoder.encode([bodies[at] for at in places], starts=starts)
    refused |= {places[i]: why for i, why in bad.items()}
    return {at: part_of(found, i) for i, at in enumerate(places) if i not in bad}
