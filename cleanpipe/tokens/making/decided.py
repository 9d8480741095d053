"""Documents that were decided to be left out: which lines of decisions.jsonl hit documents of which shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa

from cleanpipe.tokens.decisions import QUARANTINE, Decision, Decisions, hits
from cleanpipe.tokens.decisions_lines import FOREVER

_SPOKEN = ("action", "key_kind", "key")


def quarantines(decisions: Decisions) -> list[dict[str, Any]]:
    """Lines that leave documents out of the next build: quarantines that nobody has taken back. Plain data."""
    return [
        {**{k: asdict(d)[k] for k in _SPOKEN}, "line": d.number}
        for d, _, end in decisions.spans()
        if d.action == "quarantine" and end == FOREVER
    ]


def lines_of(said: Sequence[dict[str, Any]], documents: pa.Table | pa.RecordBatch) -> list[dict[str, Any] | None]:
    """Of each document (a row with doc_id, content_id, url) the line that leaves it out, None where none does."""
    if not said or not documents.num_rows:
        return [None] * documents.num_rows
    alone = [Decision(**{k: d[k] for k in _SPOKEN}, number=at) for at, d in enumerate(said, 1)]
    found = hits(Decisions(tuple(alone)), documents)
    out: list[dict[str, Any] | None] = [None] * documents.num_rows
    chosen = found.actions == QUARANTINE
    for row, line in zip(found.documents[chosen].tolist(), found.line[chosen].tolist(), strict=True):
        out[row] = said[line - 1]
    return out


def detail_of(line: dict[str, Any]) -> str:
    """``line 3: host example.org``."""
    return f"line {line['line']}: {line['key_kind']} {line['key']}"


def by_shard(said: Sequence[dict[str, Any]], documents: pa.Table) -> dict[str, list[int]]:
    """Shard → line numbers that hit a document in it. documents: with the keys' columns and ``shard``."""
    out: dict[str, set[int]] = {}
    lines = lines_of(said, documents)
    rows = np.flatnonzero([line is not None for line in lines])
    shards = documents.column("shard").take(pa.array(rows)).to_pylist()
    for row, shard in zip(rows.tolist(), shards, strict=True):
        line = lines[row]
        if line is not None and shard is not None:
            out.setdefault(shard, set()).add(line["line"])
    return {shard: sorted(found) for shard, found in sorted(out.items())}


__all__ = ["by_shard", "detail_of", "lines_of", "quarantines"]
