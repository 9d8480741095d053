"""minhash_drop: documents that another one stands for go, exact copies and near ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.exchange import Exchange
from cleanpipe.stage import Cut, Outcome, Stage, Step, option
from cleanpipe_stages._checks import within
from cleanpipe_stages.dedup.bands import BAND_KEYS, SHINGLES
from cleanpipe_stages.dedup.meet import COMPONENT, COMPONENT_TYPE, DUPLICATE, EXACT, NEAR, NearDuplicates


@dataclass(frozen=True, kw_only=True)
class MinhashDrop(Stage):
    """All documents of the run meet; each one that goes names the kept one that stands for it, and their Jaccard index.

    How keys and shingles were made is written in the keys, so minhash_sign alone has those options. Without it, no
    document has keys and only exact copies go. ``minhash_drop_component`` is the same for documents that hang together
    through shared keys, null for one that shares none.
    """

    name: ClassVar[str] = "minhash_drop"
    reads: ClassVar[frozenset[str]] = frozenset({col.KEPT_DOC_ID, col.JACCARD, DUPLICATE, COMPONENT})
    reads_optional: ClassVar[frozenset[str]] = frozenset({BAND_KEYS, SHINGLES})
    scores: ClassVar[Mapping[str, pa.DataType]] = {
        col.KEPT_DOC_ID: col.ID,
        col.JACCARD: pa.float64(),
        COMPONENT: COMPONENT_TYPE,
    }
    ledger_only: ClassVar[frozenset[str]] = frozenset(scores)
    meanings: ClassVar[Mapping[str, str]] = {COMPONENT: "the same for documents that hang together by band keys"}
    reasons: ClassVar[frozenset[str]] = frozenset({EXACT, NEAR})

    threshold: float = option(0.85, "least Jaccard index of two shingle sets, verified", source="the literal rule")
    hot_bucket: int = option(64, "kept documents of one band key that a further one is compared with")
    cache_mb: int = option(64, "MiB of shingle sets held while pairs are verified; speed only, never the result")

    def in_words(self) -> str:
        """With the threshold."""
        return (
            "Drops documents of equal text, and those whose shingle set has a Jaccard index of at least "
            f"{round(self.threshold, 6):g} with that of a kept one; the longest is kept, of equals the earliest."
        )

    def cuts(self) -> Sequence[Cut]:
        """The threshold."""
        pairs = "documents that share a band key with a kept one"
        return (Cut(col.JACCARD, "<", round(self.threshold, 6), "threshold", NEAR, pairs),)

    def exchange(self) -> Exchange:
        """Raises ConfigError for options that cannot work."""
        threshold = round(self.threshold, 6)  # as the indexes that it judges
        if not 0 < threshold <= 1:
            raise ConfigError(f"threshold = {self.threshold}: it must be above 0 and at most 1", stage=self.name)
        within(self.name, "hot_bucket", self.hot_bucket, 1)
        within(self.name, "cache_mb", self.cache_mb, 1)
        return NearDuplicates(threshold=threshold, hot_bucket=self.hot_bucket, cache=self.cache_mb << 20)

    def open(self) -> Step:
        """The step only says what the meeting decided."""
        self.exchange()
        return _step


def _step(batch: pa.RecordBatch) -> Outcome:
    scores = {name: batch.column(name) for name in MinhashDrop.scores}
    return Outcome(batch=batch, drops=batch.column(DUPLICATE), scores=scores)
