"""decontaminate: which documents hold items of the user's benchmarks, by shared n-grams of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.stage import Cut, Judge, Outcome, Stage, Step, option, rounded
from cleanpipe_stages._checks import within
from cleanpipe_stages.decontamination.index import Index, Lengths, build
from cleanpipe_stages.decontamination.items import files_of, read_items

NGRAMS, ITEMS, SHARE = "decontaminate_ngrams", "decontaminate_items", "decontaminate_share"
FILE, LINE = "decontaminate_file", "decontaminate_line"
BENCHMARK = "benchmark"


@dataclass(frozen=True, kw_only=True)
class Decontaminate(Stage):
    """Scores every document: shared n-grams, how many items have one, the largest share of one item's n-grams, and file
    and line of the item that comes first. Null where no benchmark is given. Drops only where ``drop`` says so.

    A shared n-gram is proven on the words themselves: two hashes that are equal by chance count for nothing.
    """

    name: ClassVar[str] = "decontaminate"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})
    scores: ClassVar[Mapping[str, pa.DataType]] = {
        NGRAMS: pa.int32(),
        ITEMS: pa.int32(),
        SHARE: pa.float64(),
        FILE: pa.string(),
        LINE: pa.int64(),
    }
    ledger_only: ClassVar[frozenset[str]] = frozenset(scores)
    meanings: ClassVar[Mapping[str, str]] = {
        NGRAMS: "distinct n-grams that the document shares with benchmark items",
        ITEMS: "benchmark items that have one of them",
        SHARE: "of one item's n-grams, the largest part that the document has, 0 to 1",
        FILE: "benchmark file of the item whose n-gram comes first in the document",
        LINE: "that item's line or row, from 1",
    }
    reasons: ClassVar[frozenset[str]] = frozenset({BENCHMARK})

    benchmarks: tuple[str, ...] = option((), "files of items, or folders of them: text, JSONL, Arrow, Parquet")
    fields: tuple[str, ...] = option((), "fields whose texts make an item; empty: all texts of a row")
    n: int = option(13, "words of an n-gram", source="GPT-3, appendix C")
    min_n: int = option(8, "an item of fewer words than n, but not of fewer than this, is one n-gram", source="GPT-3")
    letters: int = option(24, "letters of an n-gram in scripts without blanks", source="about 13 Chinese words")
    max_items: int = option(0, "n-grams of more items than this are ignored, as templates are; 0: none is")
    drop: bool = option(False, "drop documents that share min_ngrams n-grams, and min_share of one item's")
    min_ngrams: int = option(1, "fewest shared n-grams that drop a document")
    min_share: float = option(0.0, "smallest share of one item's n-grams that drops a document")

    def check(self) -> None:
        """Raises ConfigError: a file is missing, or options that cannot work."""
        within(self.name, "n", self.n, 1, 1000)
        within(self.name, "min_n", self.min_n, 1, self.n)
        within(self.name, "letters", self.letters, 1, 1000)
        within(self.name, "max_items", self.max_items, 0)
        within(self.name, "min_ngrams", self.min_ngrams, 1)
        within(self.name, "min_share", self.min_share, 0, 1)
        self.models()

    def models(self) -> Mapping[str, Path]:
        """The benchmark files. Raises ConfigError."""
        return files_of(self.benchmarks)

    def in_words(self) -> str:
        """With n and what drops a document."""
        if not self.benchmarks:
            return "Has no benchmark to look for: scores nothing, drops nothing."
        what = f"Drops documents that share at least {self.min_ngrams} distinct" if self.drop else "Tells which share"
        share = f" and {round(self.min_share, 6):.6g} of one item's" if self.drop and self.min_share else ""
        return f"{what} {self.n}-grams of words{share} with {len(self.benchmarks)} benchmark files or folders."

    def looked_for(self) -> Mapping[str, str]:
        """Whether documents with benchmark texts are still there."""
        did = "were dropped" if self.drop else "are named in the ledger, and are in here"
        said = {"evaluation": f"Documents that share {self.n} words in a row with the user's benchmark files {did}."}
        return said if self.benchmarks else {}

    def cuts(self) -> Sequence[Cut]:
        """N-grams and share; a document goes that keeps neither."""
        share = round(self.min_share, 6)  # 0 is off
        of = f"documents with a share of {share:g} or more" if share else ""
        first = Cut(NGRAMS, "<", self.min_ngrams, "min_ngrams", BENCHMARK, of)
        other = Cut(SHARE, "<", share, "min_share", BENCHMARK, f"documents with {self.min_ngrams:,} n-grams or more")
        return ((first, other) if share else (first,)) if self.drop else ()

    def judge(self) -> Judge:
        """By n-grams and share."""
        reason, none = pa.scalar(BENCHMARK), pa.scalar(None, pa.string())

        def judge(rows: pa.RecordBatch) -> pa.Array:
            if not self.drop:
                return pa.nulls(rows.num_rows, pa.string())
            many = pc.greater_equal(rows.column(NGRAMS), self.min_ngrams)
            much = pc.greater_equal(rows.column(SHARE), round(self.min_share, 6))
            return pc.if_else(pc.fill_null(pc.and_(many, much), False), reason, none)

        return Judge(frozenset({NGRAMS, SHARE}), frozenset({"drop", "min_ngrams", "min_share"}), judge)

    def open(self) -> Step:
        """Reads the benchmarks. Raises ConfigError as ``check`` does, or where a file cannot be read."""
        self.check()
        index, places = self._index()
        judge = self.judge().judge

        def step(batch: pa.RecordBatch) -> Outcome:
            found = index.find([text or "" for text in batch.column(col.TEXT).to_pylist()])
            first = [places[one.first] if one.first >= 0 else (None, None) for one in found]
            absent = np.full(batch.num_rows, not self.benchmarks)
            scores = {
                NGRAMS: pa.array(np.array([f.grams for f in found], np.int32), mask=absent),
                ITEMS: pa.array(np.array([f.items for f in found], np.int32), mask=absent),
                SHARE: pa.array(rounded(np.array([f.share for f in found], np.float64)), mask=absent),
                FILE: pa.array([file for file, _ in first], pa.string()),
                LINE: pa.array([line for _, line in first], pa.int64()),
            }
            facts = {f"in {file}": n for file, n in Counter(file for file, _ in first if file).items()}
            drops = judge(pa.RecordBatch.from_pydict(scores))
            return Outcome(batch, drops=drops, scores=scores, facts=facts)

        return step

    def _index(self) -> tuple[Index, list[tuple[str, int]]]:
        """The index, and file and line of each item."""
        places: list[tuple[str, int]] = []

        def items() -> Iterator[str]:
            for name, path in self.models().items():
                for line, text in read_items(path, self.fields):
                    places.append((name, line))
                    yield text

        least = max(1, self.letters * self.min_n // self.n)
        return build(items(), Lengths(self.n, self.letters, self.min_n, least, self.max_items)), places
