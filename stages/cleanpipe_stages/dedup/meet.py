"""The meeting of all documents: exact groups, candidates by band keys, verified pairs, star clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.exchange import Exchange, Meeting, Part
from cleanpipe_stages.dedup.again import READS, verdicts
from cleanpipe_stages.dedup.bands import BAND_KEYS, SHINGLES, Layout
from cleanpipe_stages.dedup.buckets import Buckets, collect, key_columns, layout_of
from cleanpipe_stages.dedup.order import Documents, Ints, arrange
from cleanpipe_stages.dedup.replay import Limits
from cleanpipe_stages.dedup.stars import Stars, Tally, stars
from cleanpipe_stages.dedup.verdict import COMPONENT, COMPONENT_TYPE, DUPLICATE, EXACT, NEAR, Verdict
from cleanpipe_stages.dedup.verify import SetStore

__all__ = ["COMPONENT", "COMPONENT_TYPE", "DUPLICATE", "EXACT", "NEAR", "NearDuplicates"]


@dataclass(frozen=True, kw_only=True)
class NearDuplicates(Exchange):
    """Says of each document whether it goes, for which kept one, and how like they are.

    Documents of equal content are one node. Nodes that share a band key are candidates; what decides is the exact
    Jaccard index of their shingle sets. Every document that goes is within the threshold of the one that stands for
    it, which is kept; the rest of a group whose node went is near to that same document.

    threshold: least Jaccard index, rounded to 6 decimals. hot_bucket: see ``stars``. cache: bytes of shingle sets held.
    """

    name: ClassVar[str] = "minhash_meet"
    reads: ClassVar[frozenset[str]] = frozenset(
        {col.DOC_ID, col.CONTENT_ID, col.LENGTH, col.DATE, col.URL, BAND_KEYS, SHINGLES, col.TEXT}
    )
    writes: ClassVar[Mapping[str, pa.DataType]] = {
        col.KEPT_DOC_ID: col.ID,
        col.JACCARD: pa.float64(),
        DUPLICATE: pa.string(),
        COMPONENT: COMPONENT_TYPE,
    }

    threshold: float = 0.85
    hot_bucket: int = 64
    cache: int = 64 << 20

    def again_reads(self) -> frozenset[str]:
        """Who each document is, its place in the order, and what the meeting said of it."""
        return READS

    def again(self, rows: Part, before: Exchange) -> pa.Array | None:
        """See ``Exchange.again``; None where another kind of exchange was before."""
        if not isinstance(before, NearDuplicates):
            return None
        return verdicts(rows, Limits(self.threshold, self.hot_bucket, before.threshold, before.hot_bucket))

    def meet(self, parts: Sequence[Part]) -> Meeting:
        """Decide over all parts. Raises ConfigError if they were signed with unlike options."""
        documents = arrange(parts)
        layout, present = layout_of(parts)
        verdict = Verdict(documents)
        facts: dict[str, object] = {"documents": len(documents), "threshold": self.threshold}
        tally, buckets = Tally(), None
        if layout is not None:
            ranks = np.flatnonzero((documents.first == np.arange(len(documents))) & present[documents.places])
            places = documents.places[ranks]
            buckets = collect(keys[places] for keys in key_columns(parts, layout, present))
            found = self._stars(parts, documents, places, buckets, layout)
            verdict.near(ranks, found)
            tally = found.tally
        facts |= verdict.facts(parts) | self._facts(tally, buckets, layout)
        return Meeting(verdict.tables(parts), facts)

    def _stars(
        self, parts: Sequence[Part], documents: Documents, places: Ints, buckets: Buckets, layout: Layout
    ) -> Stars:
        counts = [np.asarray(p.column(SHINGLES).cast(pa.int64()).fill_null(0).to_numpy()) for p in parts]
        sizes = np.concatenate(counts)[places]
        sets = SetStore(
            parts, documents.starts, documents.lengths, places, sizes,
            words=layout.words, characters=layout.characters, limit=self.cache,
        )  # fmt: skip
        return stars(
            buckets, sizes, sets, threshold=self.threshold, hot=self.hot_bucket, at_once=max(1, self.cache // 3)
        )

    def _facts(self, tally: Tally, buckets: Buckets | None, layout: Layout | None) -> dict[str, object]:
        hot = np.zeros(0, dtype=np.bool_) if buckets is None else buckets.sizes > self.hot_bucket
        members = 0 if buckets is None else np.unique(buckets.members[np.repeat(hot, buckets.sizes)]).size
        facts: dict[str, object] = {
            "candidate_pairs": tally.candidates,
            "ruled_out_by_size": tally.ruled_out,
            "verified_pairs": sum(tally.verified.values()),
            "hot_buckets": int(hot.sum()),
            "hot_documents": int(members),
            "hot_pushed_out": tally.pushed_out,
            "jaccard_histogram": {f"{k / 100:.2f}": tally.verified[k] for k in sorted(tally.verified)},
            "s_curve": None,
            "s_curve_measured": {},
        }
        if layout is not None:
            at = {f"{j:.2f}": round(layout.candidate_share(j), 6) for j in (0.75, 0.8, 0.85, 0.9, 0.95)}
            facts["s_curve"] = {
                "bands": layout.bands,
                "rows": layout.rows,
                "p50": round(layout.even, 6),
                "p": at,
                "p_at_threshold": round(layout.candidate_share(self.threshold), 6),
            }
            facts["s_curve_measured"] = _measured(tally, layout)
        return facts


def _measured(tally: Tally, layout: Layout) -> dict[str, object]:
    """Bands that verified pairs shared, by twentieths of their Jaccard index, beside what the theory expects.

    A pair is seen only if it shares a band, so the expectation is bands * J^rows over the chance to share any.
    """
    curve: dict[str, object] = {}
    for low in sorted({k // 5 * 5 for k in tally.verified}):
        inside = [k for k in tally.verified if k // 5 * 5 == low]
        pairs, bands = sum(tally.verified[k] for k in inside), sum(tally.bands[k] for k in inside)
        expected = sum(tally.verified[k] * _expected(min(1.0, (k + 0.5) / 100), layout) for k in inside)
        curve[f"{low / 100:.2f}"] = {"pairs": pairs, "bands": bands, "expected": round(expected / pairs, 3)}
    return curve


def _expected(jaccard: float, layout: Layout) -> float:
    return float(layout.bands * jaccard**layout.rows / layout.candidate_share(jaccard))
