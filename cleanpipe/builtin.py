"""The two steps that the core itself puts into every pipeline: ``decode`` before the first stage that reads markup,
``normalise`` before the first that reads text. They are stages like any other, so the same fold drops and counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.io.documents import decode_batch
from cleanpipe.options import ReadOptions
from cleanpipe.stage import Outcome, Stage, Step, TextRule, option
from cleanpipe.text import damage
from cleanpipe.text.mojibake_repair import utf8
from cleanpipe.text.normalise import NBSP, normalise, odd_characters, rare_facts, white_runs

READ = "read"  # the reader's own name in ledger and audit


def read_in_words(options: ReadOptions) -> str:
    """What the reader sets aside, as ``Stage.in_words``."""
    return (
        "Reads every record; sets aside damaged byte ranges, bodies whose coding is broken, that decode to more than "
        f"{options.max_body:,} bytes, or that expand more than {options.expansion:,} times."
    )


@dataclass(frozen=True, kw_only=True)
class Decode(Stage):
    """Bytes to characters, once, by the charset that BOM, HTTP, markup or content tell."""

    name: ClassVar[str] = "decode"
    reads: ClassVar[frozenset[str]] = frozenset({col.BODY, col.MEDIA_TYPE, col.DECLARED_CHARSET})
    writes: ClassVar[Mapping[str, pa.DataType]] = col.DECODED_COLUMNS
    reasons: ClassVar[frozenset[str]] = frozenset({"replacement_encoding"})
    consumes: ClassVar[frozenset[str]] = frozenset({col.BODY})

    def in_words(self) -> str:
        """The order of evidence."""
        return (
            "Turns bytes into characters by the charset that byte order mark, HTTP, markup or content tell, in this "
            "order; drops documents whose label means that nothing may be decoded."
        )

    def open(self) -> Step:
        """The step; nothing to load."""

        def step(batch: pa.RecordBatch) -> Outcome:
            decoded, drops = decode_batch(batch)
            return Outcome(col.without_columns(decoded, self.consumes), drops=drops)

        return step


@dataclass(frozen=True, kw_only=True)
class Normalise(Stage):
    """The text rule of the recipe over every document: what is judged, hashed and cut from here on."""

    name: ClassVar[str] = "normalise"
    reads: ClassVar[frozenset[str]] = frozenset({col.MARKUP, col.MEDIA_TYPE})
    reads_optional: ClassVar[frozenset[str]] = frozenset({col.SCRUBBED})
    writes: ClassVar[Mapping[str, pa.DataType]] = col.TEXT_COLUMNS
    scores: ClassVar[Mapping[str, pa.DataType]] = damage.SCORES
    ledger_only: ClassVar[frozenset[str]] = frozenset(scores)
    meanings: ClassVar[Mapping[str, str]] = damage.MEANINGS
    reasons: ClassVar[frozenset[str]] = frozenset({"empty_text", "too_large"})
    consumes: ClassVar[frozenset[str]] = frozenset({col.MARKUP, col.MARKUP_LENGTH, col.SCRUBBED, col.BODY})

    rule: TextRule = normalise
    max_text: int = option(
        64 << 20, "largest text of a document, UTF-8 bytes", source="data-model: rows stay below a shard"
    )

    def in_words(self) -> str:
        """With the size in force."""
        return (
            "Repairs every text (mojibake, NFC, invisible controls, white space, by utf8_normalize's rule) before it "
            f"is judged; drops documents that are empty then, or larger than {self.max_text:,} bytes."
        )

    def open(self) -> Step:
        """The step; nothing to load."""
        return lambda batch: self._step(batch)

    def _step(self, batch: pa.RecordBatch) -> Outcome:
        scrubbed, markup = batch.column(col.SCRUBBED), batch.column(col.MARKUP)
        bare = pc.and_(pc.is_null(scrubbed), pc.is_in(batch.column(col.MEDIA_TYPE), pa.array(sorted(col.HTML_TYPES))))
        if pc.any(bare).as_py():
            url = batch.column(col.URL)[pc.index(bare, True).as_py()]
            raise ConfigError(f"html_scrub is switched off, but the input holds HTML ({url}): switch it on")
        facts: dict[str, int] = {}
        texts: list[str] = []
        encoded: list[bytes] = []
        damaged: list[Mapping[str, float]] = []
        before: list[bytes] = []
        odd: set[str] = set()
        for raw in pc.coalesce(scrubbed, markup).to_pylist():
            text = self.rule(raw)
            texts.append(text)
            if found := rare_facts(raw, text):
                count_facts(facts, found)
            damaged.append(damage.damage_scores(text, found))
            odd |= odd_characters(raw)
            before.append(utf8(raw.replace(NBSP, " ")))  # nothing where there is none, and quicker than among bytes
            encoded.append(utf8(text))
        runs = {"before white_runs": white_runs(before, odd - {NBSP}), "after white_runs": white_runs(encoded)}
        facts |= {name: n for name, n in runs.items() if n}
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        sizes = np.fromiter(map(len, encoded), np.int64, len(texts))
        columns = {
            col.TEXT: pa.array(encoded, pa.large_binary()).cast(pa.large_string()),
            col.LENGTH: pa.array(lengths),
            col.BYTES: pa.array(sizes),
            col.CONTENT_ID: pa.array([hashlib.sha256(e).digest()[:16] for e in encoded], col.ID),
        }
        drops = pa.array(
            np.where(lengths == 0, "empty_text", "too_large"), mask=(lengths > 0) & (sizes <= self.max_text)
        )
        rest = col.without_columns(batch, self.consumes)
        scores = {n: pa.array([d.get(n, 0) for d in damaged], t) for n, t in self.scores.items()}
        return Outcome(col.with_columns(rest, columns), drops=drops, scores=scores, facts=facts)


def count_facts(facts: dict[str, int], found: Mapping[str, int]) -> None:
    """Add what ``text_facts`` found in one document: "before U+200E", "after U+200E", "before white_runs" …, and
    whether it held an invisible one ("before documents").
    """
    held = set()
    for name, n in found.items():
        what, dot, point = name.partition(".")
        what, _, when = what.rpartition("_")
        if dot:
            held.add(when)
        key = f"{when} {point or what}" if when in ("before", "after") else f"before {name}"
        facts[key] = facts.get(key, 0) + n
    for when in held:
        key = f"{when} documents"
        facts[key] = facts.get(key, 0) + 1
