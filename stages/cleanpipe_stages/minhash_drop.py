"""minhash_drop: documents that another one stands for go, exact copies and near ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.exchange import Exchange
from cleanpipe.stage import Outcome, Stage, Step, option
from cleanpipe_stages.dedup.bands import BAND_KEYS, SHINGLES
from cleanpipe_stages.dedup.meet import DUPLICATE, EXACT, NEAR, NearDuplicates


@dataclass(frozen=True, kw_only=True)
class MinhashDrop(Stage):
    """All documents of the run meet; each one that goes names the kept one that stands for it, and their Jaccard index.

    How keys and shingles were made is written in the keys, so minhash_sign alone has those options. Without it, no
    document has keys and only exact copies go.
    """

    name: ClassVar[str] = "minhash_drop"
    reads: ClassVar[frozenset[str]] = frozenset({col.KEPT_DOC_ID, col.JACCARD, DUPLICATE})
    reads_optional: ClassVar[frozenset[str]] = frozenset({BAND_KEYS, SHINGLES})
    scores: ClassVar[Mapping[str, pa.DataType]] = {col.KEPT_DOC_ID: col.ID, col.JACCARD: pa.float64()}
    reasons: ClassVar[frozenset[str]] = frozenset({EXACT, NEAR})

    threshold: float = option(0.85, "least Jaccard index of two shingle sets, verified", source="the literal rule")
    hot_bucket: int = option(64, "kept documents of one band key that a further one is compared with")
    cache_mb: int = option(64, "MiB of shingle sets held while pairs are verified; speed only, never the result")

    def exchange(self) -> Exchange:
        """Raises ConfigError for options that cannot work."""
        if not 0 < self.threshold <= 1:
            raise ConfigError(f"threshold must be above 0 and at most 1, not {self.threshold}", stage=self.name)
        if self.hot_bucket < 1 or self.cache_mb < 1:
            raise ConfigError("hot_bucket and cache_mb must be at least 1", stage=self.name)
        return NearDuplicates(threshold=self.threshold, hot_bucket=self.hot_bucket, cache=self.cache_mb << 20)

    def open(self) -> Step:
        """The step only says what the meeting decided."""
        self.exchange()
        return _step


def _step(batch: pa.RecordBatch) -> Outcome:
    scores = {name: batch.column(name) for name in (col.KEPT_DOC_ID, col.JACCARD)}
    return Outcome(batch=batch, drops=batch.column(DUPLICATE), scores=scores)
