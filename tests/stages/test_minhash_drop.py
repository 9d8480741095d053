"""minhash_drop: what goes, for whom, and at which Jaccard index; sign, meeting and step together."""

from __future__ import annotations

import hashlib
import itertools
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe_stages.minhash_drop import MinhashDrop
from cleanpipe_stages.minhash_sign import MinhashSign

LINES = (Path(__file__).parent / "cases" / "minhash_drop.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]


@dataclass
class MemoryPart:
    table: pa.Table

    def __post_init__(self) -> None:
        self.rows: int = self.table.num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        return self.table.column(name)

    def take(self, name: str, rows: np.ndarray) -> pa.Array:
        return self.table.column(name).take(pa.array(rows)).combine_chunks()


def written_out(text: str) -> str:
    """'1-3 x' is short for '1 2 3 x'."""
    pieces: list[str] = []
    for piece in text.split(" "):
        first, dash, last = piece.partition("-")
        pieces += map(str, range(int(first), int(last) + 1)) if dash else [piece]
    return " ".join(pieces)


def run(texts: list[str], ids: list[int], **options: Any) -> list[list[Any]]:
    """Per text: ['kept'], or the reason, the id that stands for it, and the index."""
    stage = MinhashDrop(**options)
    exchange = stage.exchange()
    assert exchange is not None
    parts = []
    for text, number in zip(texts, ids, strict=True):  # each its own part
        arrays = {
            col.DOC_ID: pa.array([number.to_bytes(16)], col.ID),
            col.CONTENT_ID: pa.array([hashlib.sha256(text.encode()).digest()[:16]], col.ID),
            col.LENGTH: pa.array([len(text)], pa.int64()),
            col.DATE: pa.nulls(1, col.TIME),
            col.URL: pa.nulls(1, pa.string()),
            col.TEXT: pa.array([text], pa.large_string()),
        }
        signed = MinhashSign().open()(pa.record_batch(arrays))
        parts.append(MemoryPart(pa.Table.from_batches([col.with_columns(signed.batch, signed.scores)])))
    verdict = []
    for one, answer in zip(parts, exchange.meet(parts).tables, strict=True):
        batch = one.table.to_batches()[0]
        batch = col.with_columns(batch, {n: answer.column(n).combine_chunks() for n in answer.column_names})
        outcome = stage.open()(batch)
        assert outcome.batch.num_rows == 1
        assert {n: a.type for n, a in outcome.scores.items()} == dict(MinhashDrop.scores)
        assert outcome.drops is not None
        reason = outcome.drops[0].as_py()
        keeper, jaccard = (outcome.scores[n][0].as_py() for n in (col.KEPT_DOC_ID, col.JACCARD))
        assert (reason is None) == (keeper is None) == (jaccard is None)
        assert reason is None or reason in MinhashDrop.reasons
        verdict.append(["kept"] if reason is None else [reason, int.from_bytes(keeper), jaccard])
    return verdict


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["comment"][:40])
def test_cases(case: dict[str, Any]) -> None:
    texts = [written_out(t) for t in case["texts"]]
    ids = case.get("ids", list(range(1, len(texts) + 1)))
    expected = [[e[0], ids[e[1]], e[2]] if len(e) > 1 else e for e in case["expected"]]
    for order in itertools.permutations(range(len(texts))):
        found = run([texts[i] for i in order], [ids[i] for i in order])
        assert found == [expected[i] for i in order], case["comment"]


@pytest.mark.parametrize("options", [{"threshold": 0.0}, {"threshold": 1.01}, {"hot_bucket": 0}, {"cache_mb": 0}])
def test_options_that_cannot_work(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        MinhashDrop(**options).exchange()
    with pytest.raises(ConfigError):
        MinhashDrop(**options).open()


def test_the_threshold_is_the_options() -> None:
    texts = [written_out("1-27"), written_out("1-25 x x")]
    assert run(texts, [1, 2], threshold=0.84)[1] == ["near_duplicate", 1, 0.84]
    assert run(texts, [1, 2], threshold=0.840001)[1] == ["kept"]


def test_it_travels_to_workers() -> None:
    stage = MinhashDrop(threshold=0.9)
    assert pickle.loads(pickle.dumps(stage)) == stage
    assert pickle.loads(pickle.dumps(stage.exchange())) == stage.exchange()
