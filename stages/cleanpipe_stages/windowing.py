"""windowing: cuts each document into overlapping windows whose edges leave grapheme clusters whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.stage import Outcome, Stage, Step, option
from cleanpipe.text.graphemes import REACH, Clusters
from cleanpipe_stages._checks import within


@dataclass(frozen=True, kw_only=True)
class Windowing(Stage):
    """One row for each window; every other column is repeated.

    Nominal starts are multiples of ``size - overlap``. A start moves forward and an end back to a cluster boundary, at
    most 32 code points (else it cuts), so no window is longer than ``size`` and their number depends on the length
    alone. Joined without their ``overlap`` the windows of a document are its text again.
    """

    name: ClassVar[str] = "windowing"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})
    writes: ClassVar[Mapping[str, pa.DataType]] = {
        **{name: col.TEXT_COLUMNS[name] for name in (col.TEXT, col.LENGTH, col.BYTES)},
        **col.WINDOW_COLUMNS,
    }

    size: int = option(2048, "code points in a window, at most", source="the literal rules")
    overlap: int = option(512, "code points that a window repeats of the one before", source="the literal rules")

    def in_words(self) -> str:
        """With size and overlap."""
        return (
            f"Cuts documents of more than {self.size:,} code points into windows of at most {self.size:,}, each "
            f"repeating {self.overlap:,} of the one before, at edges that leave grapheme clusters whole."
        )

    def open(self) -> Step:
        """Check that the options keep the laws: both edges may move, and must not meet or pass each other."""
        least = 2 * REACH
        if self.overlap < least or self.size - self.overlap < least:
            raise ConfigError(
                f"size = {self.size}, overlap = {self.overlap}: edges move up to {REACH} code points, so overlap and "
                f"size - overlap must be at least {least}",
                stage=self.name,
            )
        within(self.name, "size", self.size, 2 * least, 1 << 24)
        return self._step

    def _step(self, batch: pa.RecordBatch) -> Outcome:
        parents: list[int] = []
        pieces: list[str] = []
        starts: list[int] = []
        ends: list[int] = []
        firsts: list[int] = []  # of each document, the row of its first window
        cuts = 0
        for row, text in enumerate(batch.column(col.TEXT).to_pylist()):
            firsts.append(len(pieces))
            text = text or ""
            spans, cut = cut_points(text, self.size, self.overlap)
            cuts += cut
            for start, end in spans:
                parents.append(row)
                starts.append(start)
                ends.append(end)
                pieces.append(text[start:end])
        parent = np.array(parents, dtype=np.int32)
        first = np.array(firsts, dtype=np.int64)
        start_at, end_at = np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)
        window = np.arange(len(pieces)) - first[parent]
        counts = np.diff(np.append(first, len(pieces)))
        overlap = np.zeros(len(pieces), dtype=np.int64)
        overlap[1:] = end_at[:-1] - start_at[1:]
        overlap[first] = 0
        texts = pa.array(pieces, pa.large_string())
        columns = {
            col.TEXT: texts,
            col.LENGTH: end_at - start_at,
            col.BYTES: pc.binary_length(texts),
            col.WINDOW: window,
            col.WINDOWS: counts[parent],
            col.CHAR_START: start_at,
            col.CHAR_END: end_at,
            col.OVERLAP: overlap,
        }
        # the long texts are left out of what is repeated
        rest = col.without_columns(batch, frozenset(columns))
        parent_array = pa.array(parent)
        return Outcome(
            col.with_columns(
                rest.take(parent_array), {n: pa.array(a).cast(self.writes[n]) for n, a in columns.items()}
            ),
            parents=parent_array,
            facts={
                "documents": len(first),
                "windows": len(pieces),
                "characters": int((end_at - start_at).sum()),
                "overlap_characters": int(overlap.sum()),
                "clusters_cut": cuts,
            },
        )


def window_count(length: int, size: int, overlap: int) -> int:
    """How many windows a text of ``length`` code points has; none of them lies inside another."""
    return 1 if length <= size else -(-(length - size) // (size - overlap)) + 1


def cut_points(text: str, size: int, overlap: int) -> tuple[list[tuple[int, int]], int]:
    """Start and end of each window, in code points, and how many edges had to cut a cluster."""
    length, stride = len(text), size - overlap
    count = window_count(length, size, overlap)
    if count == 1:
        return [(0, length)], 0
    edges = [(k * stride, k * stride + size) for k in range(count)]
    edges[-1] = edges[-1][0], length
    if text.isascii() and "\r" not in text:  # every character is a cluster
        return edges, 0
    clusters = Clusters(text)
    # the end of a window comes before the start of the next but three: close enough to ascending order
    return [(clusters.after(start), clusters.before(end)) for start, end in edges], clusters.cuts
