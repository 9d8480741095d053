"""url_filter: knows pages by their address: lists of domains, hosts, URLs and words, all of them the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.stage import Cut, Judge, Outcome, Stage, Step, option
from cleanpipe_stages._checks import within
from cleanpipe_stages.blocklists.address import address
from cleanpipe_stages.blocklists.index import NONE, build
from cleanpipe_stages.blocklists.lines import files_of, text_lines

LIST, WORDS, SOFT_WORDS = "url_filter_list", "url_filter_words", "url_filter_soft_words"
BLOCKED_URL = "blocked_url"
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, kw_only=True)
class UrlFilter(Stage):
    """Scores: ``url_filter_list``, the first list that has the page's address (null: none); ``url_filter_words`` and
    ``url_filter_soft_words``, distinct words of the URL that are on the lists of words (null: no such list).

    Addresses are compared without scheme, user, port, ``www.``, letter case and percent-coding, hosts in Unicode.
    """

    name: ClassVar[str] = "url_filter"
    reads: ClassVar[frozenset[str]] = frozenset({col.URL})
    scores: ClassVar[Mapping[str, pa.DataType]] = {LIST: pa.string(), WORDS: pa.int32(), SOFT_WORDS: pa.int32()}
    ledger_only: ClassVar[frozenset[str]] = frozenset(scores)
    meanings: ClassVar[Mapping[str, str]] = {
        LIST: "the first list of url_filter that has the page's address",
        WORDS: "distinct words of the URL that are on a list of words",
        SOFT_WORDS: "distinct words of the URL that are on a list of soft words",
    }
    reasons: ClassVar[frozenset[str]] = frozenset({BLOCKED_URL})

    lists: tuple[str, ...] = option(
        (), "files of domains, hosts or URLs, one a line, or hosts files; or folders of them as UT1 has them"
    )
    words: tuple[str, ...] = option((), "files of words, one a line, of which one in a URL is enough")
    soft_words: tuple[str, ...] = option((), "files of words, one a line, of which soft_limit in a URL are enough")
    soft_limit: int = option(2, "distinct soft words that drop a page", source="RefinedWeb, appendix G.1")
    drop: bool = option(True, "drop what is on a list; false: only the scores are written")

    def check(self) -> None:
        """Raises ConfigError where a file is missing, or the limit is none."""
        within(self.name, "soft_limit", self.soft_limit, 1)
        self.models()

    def models(self) -> Mapping[str, Path]:
        """Every file of the lists, by option and name. Raises ConfigError."""
        options = {"lists": self.lists, "words": self.words, "soft_words": self.soft_words}
        found = {o: files_of(places, self.name, o) for o, places in options.items()}
        return {f"{o}.{name}": path for o, files in found.items() for name, path in files.items()}

    def in_words(self) -> str:
        """With the number of lists."""
        what = "Drops pages whose URL is" if self.drop else "Tells which URLs are"
        if not (self.lists or self.words or self.soft_words):
            return "Has no list of URLs: drops nothing."
        return (
            f"{what} on one of {len(self.lists)} lists, holds a word of {len(self.words)} lists of words, or "
            f"{self.soft_limit} words of {len(self.soft_words)} lists of soft words."
        )

    def cuts(self) -> Sequence[Cut]:
        """The words, where there are lists of them."""
        hard = Cut(WORDS, "<", 1, "words", BLOCKED_URL, "pages whose URL is on no list")
        soft = Cut(SOFT_WORDS, "<", self.soft_limit, "soft_limit", BLOCKED_URL, "pages whose URL is on no list")
        return tuple(c for c, on in ((hard, self.words), (soft, self.soft_words)) if on and self.drop)

    def judge(self) -> Judge:
        """By the list's name and the counts of words."""
        reason, none = pa.scalar(BLOCKED_URL), pa.scalar(None, pa.string())

        def judge(rows: pa.RecordBatch) -> pa.Array:
            if not self.drop:
                return pa.nulls(rows.num_rows, pa.string())
            hard, soft = (pc.fill_null(rows.column(n), 0) for n in (WORDS, SOFT_WORDS))
            many = pc.or_(pc.greater_equal(hard, 1), pc.greater_equal(soft, self.soft_limit))
            return pc.if_else(pc.or_(pc.is_valid(rows.column(LIST)), many), reason, none)

        return Judge(frozenset(self.scores), frozenset({"soft_limit", "drop"}), judge)

    def open(self) -> Step:
        """Reads the lists: ten bytes of memory for a rule. Raises ConfigError for a list that is none."""
        self.check()
        files = files_of(self.lists, self.name, "lists")
        index, names, judge = build(list(files.values())), pa.array(list(files), pa.string()), self.judge().judge
        hard, soft = (_word_set(files_of(p, self.name, o), self.name) for o, p in self._word_lists())

        def step(batch: pa.RecordBatch) -> Outcome:
            urls = batch.column(col.URL).to_pylist()
            at = index.find(urls)
            scores = {LIST: names.take(pa.array(at, mask=at == NONE))}
            counts = [_counts(url, hard, soft) for url in urls] if hard or soft else [(0, 0)] * len(urls)
            table = np.array(counts, np.int32).reshape(-1, 2)
            for column, name, known in ((0, WORDS, hard), (1, SOFT_WORDS, soft)):
                absent = np.full(len(urls), not known) | np.array([u is None for u in urls], bool)
                scores[name] = pa.array(table[:, column], pa.int32(), mask=absent)
            drops = judge(pa.RecordBatch.from_pydict(scores))
            return Outcome(batch, drops=drops, scores=scores, skipped=pc.is_null(batch.column(col.URL)))

        return step

    def _word_lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ("words", self.words), ("soft_words", self.soft_words)


def _word_set(files: Mapping[str, Path], stage: str) -> frozenset[str]:
    return frozenset(line.casefold() for path in files.values() for line in text_lines(path, stage))


def _counts(url: str | None, hard: frozenset[str], soft: frozenset[str]) -> tuple[int, int]:
    found = address(url) if url else None
    if found is None:
        return 0, 0
    words = {word.casefold() for word in _WORD.findall(" ".join(found))}
    return len(words & hard), len(words & soft)
