"""minhash_sign: the near-duplicate signature of each document, as the keys under which it meets its likes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.stage import Outcome, Stage, Step, option
from cleanpipe_stages._checks import one_of, within
from cleanpipe_stages.dedup.bands import BAND_KEYS, BAND_KEYS_TYPE, SHINGLES, Layout, band_keys, to_arrow
from cleanpipe_stages.dedup.characters import flags
from cleanpipe_stages.dedup.shingles import CHARACTERS, WORDS, shingle_sets
from cleanpipe_stages.dedup.signatures import Family, datasketch_signatures

SCHEMES = ("cleanpipe", "datasketch")


@dataclass(frozen=True, kw_only=True)
class MinhashSign(Stage):
    """Shingles → MinHash of ``bands * rows`` values → one 64-bit key a band. Judges nothing.

    Only the keys are stored: candidates are verified on their shingle sets, where a signature could but guess.
    Documents of fewer than ``ngram`` words have no shingles and no keys; they meet by exact content only.
    """

    name: ClassVar[str] = "minhash_sign"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})
    writes: ClassVar[Mapping[str, pa.DataType]] = {BAND_KEYS: BAND_KEYS_TYPE}
    scores: ClassVar[Mapping[str, pa.DataType]] = {SHINGLES: pa.int32()}
    meanings: ClassVar[Mapping[str, str]] = {SHINGLES: "distinct shingles of the text"}

    bands: int = option(
        16,
        "bands of the signature; a pair that shares one becomes a candidate",
        source="16x8 finds .994 of the pairs at .85 and .613 at .70, 1 - (1 - J^rows)^bands; what it finds is verified",
    )
    rows: int = option(8, "values in a band; more are stricter", source="see bands")
    ngram: int = option(
        WORDS, "words in a shingle", source="word 5-grams: FineWeb, Gopher and the literal rule's samples"
    )
    characters: int = option(
        CHARACTERS,
        "characters in a shingle, for text in scripts that put no blanks between words",
        source="a Chinese word has about 1.6 characters, so 8 of them span what 5 words do",
    )
    seed: int = option(1, "picks the hash functions")
    scheme: str = option("cleanpipe", "cleanpipe, or datasketch: signatures as datasketch.MinHash makes them (slow)")

    def in_words(self) -> str:
        """With the numbers of the signature."""
        return (
            f"Signs each document by {self.bands} keys of {self.rows} MinHash values of its shingles, {self.ngram} "
            f"words or, in scripts without blanks, {self.characters} characters each; pairs that share a key meet."
        )

    def open(self) -> Step:
        """Raises ConfigError for impossible numbers, an unknown scheme, or datasketch asked for and not installed."""
        one_of(self.name, "scheme", self.scheme, SCHEMES)
        for name in ("bands", "rows", "ngram", "characters"):
            within(self.name, name, getattr(self, name), 1, 255)
        layout = Layout.of(
            bands=self.bands, rows=self.rows, words=self.ngram, characters=self.characters,
            scheme=self.scheme, seed=self.seed,
        )  # fmt: skip
        return self._cleanpipe(layout) if self.scheme == "cleanpipe" else self._datasketch(layout)

    def _cleanpipe(self, layout: Layout) -> Step:
        family = Family.of(self.seed, self.bands * self.rows)
        flags()  # made once a process, here and not in the first batch

        def step(batch: pa.RecordBatch) -> Outcome:
            sets = shingle_sets(batch.column(col.TEXT), words=self.ngram, characters=self.characters)
            keys = band_keys(family.signatures(sets), layout)
            return _outcome(batch, keys, sets.counts.astype(np.int32), layout)

        return step

    def _datasketch(self, layout: Layout) -> Step:
        values = self.bands * self.rows

        def sign(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
            return datasketch_signatures(
                texts, values=values, seed=self.seed, words=self.ngram, characters=self.characters
            )

        sign(pa.array([], pa.large_string()))  # fails here, not in the midst of a run, if the package is absent

        def step(batch: pa.RecordBatch) -> Outcome:
            signatures, counts = sign(batch.column(col.TEXT))
            return _outcome(batch, band_keys(signatures, layout), counts, layout)

        return step


def _outcome(batch: pa.RecordBatch, keys: np.ndarray, counts: np.ndarray, layout: Layout) -> Outcome:
    filled = counts > 0
    return Outcome(
        batch=col.with_columns(batch, {BAND_KEYS: to_arrow(keys, filled, layout)}),
        scores={SHINGLES: pa.array(counts)},
        skipped=pa.array(~filled),
        facts={"without_shingles": int(len(counts) - filled.sum())},
    )
