"""Deduplication step by step: microseconds a document, beside datasketch on the same texts, in one run.

    python benchmarks/dedup_micro.py [--texts FILE.jsonl.gz] [--documents 400] [--meet 100000] [--rounds 5]

Texts: a JSON-lines file with a field ``text`` (the near-duplicate samples are such files), else made-up words. Rounds
are interleaved, so that a busy machine slows all alike; the least CPU time of each is shown, and ratios of medians.
--meet: a meeting of so many made-up documents, one in ten a near copy, with the peak of memory beside the texts.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe_stages.dedup import plain
from cleanpipe_stages.dedup.bands import SHINGLES, Layout, band_keys
from cleanpipe_stages.dedup.meet import NearDuplicates
from cleanpipe_stages.dedup.shingles import shingle_sets
from cleanpipe_stages.dedup.signatures import Family
from cleanpipe_stages.minhash_sign import MinhashSign


def made_up(count: int, words: int, seed: int) -> list[str]:
    rng = random.Random(seed)
    stock = ["".join(rng.choices("etaoinshrdlucmfw", k=rng.choice((2, 3, 4, 5, 6, 7, 9, 11)))) for _ in range(20_000)]
    return [" ".join(rng.choices(stock, k=words)) for _ in range(count)]


def read(path: Path, count: int) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line, _ in zip(lines, range(count), strict=False)]


def compare(texts: list[str], rounds: int) -> None:
    array = pa.array(texts, pa.large_string())
    batch = pa.record_batch({col.TEXT: array})
    layout = Layout.of(bands=16, rows=8, words=5, characters=8, scheme="cleanpipe", seed=1)
    family, step, sets = Family.of(1, 128), MinhashSign().open(), shingle_sets(array)
    signatures = family.signatures(sets)
    work: dict[str, Callable[[], object]] = {
        "shingles": lambda: shingle_sets(array),
        "signatures": lambda: family.signatures(sets),
        "band keys": lambda: band_keys(signatures, layout),
        "minhash_sign": lambda: step(batch),
        "plain shingles": lambda: [plain.shingles(t) for t in texts],
    }
    try:
        from datasketch import MinHash
    except ImportError:
        print("datasketch is not installed: no ratio")
    else:

        def named() -> None:
            """What a plain user of the package writes: shingles by re, one update_batch a document."""
            for text in texts:
                MinHash(num_perm=128).update_batch([shingle.encode() for shingle in plain.shingles(text)])

        work["datasketch"] = named
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, run in work.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    size = sum(len(t.encode()) for t in texts)
    print(f"{len(texts)} documents of {size / len(texts):.0f} bytes and {sets.counts.mean():.0f} shingles")
    for name, spent in times.items():
        print(f"{name:16s} {min(spent) / len(texts) * 1e6:9.1f} us/document {size / min(spent) / 1e6:8.1f} MB/s")
    if "datasketch" in times:
        ratio = statistics.median(times["datasketch"]) / statistics.median(times["minhash_sign"])
        print(f"datasketch / minhash_sign: {ratio:.1f}")


class LazyPart:
    """Narrow columns in memory, texts made when asked for, as if they lay on disk."""

    def __init__(self, first: int, rows: int, stock: list[str]) -> None:
        self.rows, self._first, self._stock = rows, first, stock
        step, tables = MinhashSign().open(), []
        for start in range(0, rows, 2000):
            numbers = range(first + start, first + min(rows, start + 2000))
            texts = [self._text(n) for n in numbers]
            arrays = {
                col.DOC_ID: pa.array([hashlib.sha256(str(n).encode()).digest()[:16] for n in numbers], col.ID),
                col.CONTENT_ID: pa.array([hashlib.sha256(t.encode()).digest()[:16] for t in texts], col.ID),
                col.LENGTH: pa.array([len(t) for t in texts], pa.int64()),
                col.DATE: pa.nulls(len(texts), col.TIME),
                col.URL: pa.array([f"http://a.example.org/{n}" for n in numbers]),
                col.TEXT: pa.array(texts, pa.large_string()),
            }
            done = step(pa.record_batch(arrays))
            narrow = col.with_columns(done.batch, {SHINGLES: done.scores[SHINGLES]})
            tables.append(pa.Table.from_batches([col.without_columns(narrow, frozenset({col.TEXT}))]))
        self._table = pa.concat_tables(tables)

    def _text(self, number: int) -> str:
        rng = random.Random(number - 1 if number % 10 == 0 else number)
        words = rng.choices(self._stock, k=300)
        if number % 10 == 0:
            words[150 + number % 100] = f"changed{number}"
        return " ".join(words)

    def column(self, name: str) -> pa.ChunkedArray:
        """One narrow column."""
        return self._table.column(name)

    def take(self, name: str, rows: np.ndarray) -> pa.Array:
        """Texts by row number."""
        assert name == col.TEXT
        return pa.array([self._text(self._first + int(r)) for r in rows], pa.large_string())


def meeting(count: int) -> None:
    stock = made_up(1, 20_000, 5)[0].split(" ")
    parts = [LazyPart(first, min(20_000, count - first), stock) for first in range(0, count, 20_000)]
    start = time.process_time()
    facts: dict[str, Any] = dict(NearDuplicates().meet(parts).facts)
    spent = time.process_time() - start
    print(f"meeting of {count}: {spent / count * 1e6:.1f} us/document, of which texts are made anew; "
          f"{facts['near_duplicates']} near duplicates, {facts['verified_pairs']} pairs verified")  # fmt: skip
    tracemalloc.start()
    NearDuplicates(cache=1 << 20).meet(parts)
    print(f"peak of memory: {tracemalloc.get_traced_memory()[1] / count:.0f} bytes/document")


def main() -> None:
    """Read the command line and run what it names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--documents", type=int, default=400)
    parser.add_argument("--meet", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    texts = read(options.texts, options.documents) if options.texts else made_up(options.documents, 1090, 1)
    compare(texts, options.rounds)
    if options.meet:
        meeting(options.meet)


if __name__ == "__main__":
    main()
