"""Near-duplicate sets whose exact Jaccard indices are known: what the meeting finds, and what it must not."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from cleanpipe import batch as col
from cleanpipe_stages.dedup.meet import DUPLICATE, EXACT, NearDuplicates
from cleanpipe_stages.dedup.plain import shingles
from cleanpipe_stages.dedup.shingles import shingle_sets
from cleanpipe_stages.minhash_sign import MinhashSign

ROOT = Path(__file__).parents[2]
SAMPLES = Path(os.environ.get("CLEANPIPE_SAMPLES", ROOT.parent / "shared" / "samples")) / "neardup"
NAMES = ("aeb-extractor-variants", "installation-guide-3arch", "libreoffice-en-us-vs-en-gb")

pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples at {SAMPLES}: set CLEANPIPE_SAMPLES")


@dataclass
class MemoryPart:
    table: pa.Table

    def __post_init__(self) -> None:
        self.rows: int = self.table.num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        return self.table.column(name)

    def take(self, name: str, rows: np.ndarray) -> pa.Array:
        return self.table.column(name).take(pa.array(rows)).combine_chunks()


def load(name: str) -> tuple[list[str], dict[str, str]]:
    with gzip.open(SAMPLES / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = {row["id"]: row["text"] for row in map(json.loads, lines)}
    return list(texts), texts


def pairs_of(name: str) -> list[tuple[str, str, float]]:
    with gzip.open(SAMPLES / f"{name}.pairs.tsv.gz", "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines][1:]
    return [(a, b, float(j)) for a, b, j in rows]


def signed(names: list[str], texts: dict[str, str]) -> pa.Table:
    arrays = {
        col.DOC_ID: pa.array([hashlib.sha256(n.encode()).digest()[:16] for n in names], col.ID),
        col.DATE: pa.nulls(len(names), col.TIME),
        col.URL: pa.nulls(len(names), pa.string()),
        col.CONTENT_ID: pa.array([hashlib.sha256(texts[n].encode()).digest()[:16] for n in names], col.ID),
        col.LENGTH: pa.array([len(texts[n]) for n in names], pa.int64()),
        col.TEXT: pa.array([texts[n] for n in names], pa.large_string()),
    }
    outcome = MinhashSign().open()(pa.record_batch(arrays))
    return pa.Table.from_batches([col.with_columns(outcome.batch, outcome.scores)])


@pytest.mark.parametrize("name", NAMES)
def test_shingle_sets_are_the_sets_of_plain_strings(name: str) -> None:
    names, texts = load(name)
    sets = shingle_sets(pa.array([texts[n] for n in names], pa.large_string()))
    strings = [shingles(texts[n]) for n in names]
    assert sets.counts.tolist() == [len(s) for s in strings]
    row = {n: i for i, n in enumerate(names)}
    for a, b, jaccard in pairs_of(name):
        one, other = row[a], row[b]
        union = len(strings[one] | strings[other])
        assert np.union1d(sets[one], sets[other]).size == union
        if union and sets.by_characters[one] == sets.by_characters[other]:
            assert len(strings[one] & strings[other]) / union == pytest.approx(jaccard, abs=0.02)
        elif union:  # one just above 30 % and one just below meet in no shingle: only unlike texts may pay for that
            assert jaccard < 0.85


@pytest.mark.parametrize("name", NAMES)
def test_recall_by_band_and_no_wrong_removal(name: str) -> None:
    """A pair is lost if both stay. Of the pairs above the threshold at most 1 in 50 may be."""
    names, texts = load(name)
    strings = {n: shingles(texts[n]) for n in names}
    table = signed(names, texts)
    answer = NearDuplicates().meet([MemoryPart(table.slice(0, 100)), MemoryPart(table.slice(100))])
    verdict = pa.concat_tables(answer.tables).to_pylist()
    by_id = dict(zip(table.column(col.DOC_ID).to_pylist(), names, strict=True))
    keeper: dict[str, str] = {}
    for n, row in zip(names, verdict, strict=True):
        if row[DUPLICATE] is None:
            assert row[col.KEPT_DOC_ID] is None
            assert row[col.JACCARD] is None
            continue
        other = by_id[row[col.KEPT_DOC_ID]]
        keeper[n] = other
        if row[DUPLICATE] == EXACT:
            assert texts[n] == texts[other]
        else:  # precision: the stored index is the real one, at or above the threshold
            exact = len(strings[n] & strings[other]) / len(strings[n] | strings[other])
            assert row[col.JACCARD] == pytest.approx(exact, abs=1e-6)
            assert row[col.JACCARD] >= 0.85
    assert not set(keeper.values()) & set(keeper), "what stands for another must itself stay"

    caught: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for a, b, jaccard in pairs_of(name):
        if jaccard < 0.855 or a not in strings or b not in strings:  # the file rounds
            continue
        band = ">= .87" if jaccard >= 0.87 else ".855-.87"
        total[band] += 1
        caught[band] += a in keeper or b in keeper
    assert caught[">= .87"] >= 0.98 * total[">= .87"], (caught, total)
    assert sum(caught.values()) >= 0.98 * sum(total.values()), (caught, total)
