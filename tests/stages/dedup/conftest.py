from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cleanpipe import batch as col
from cleanpipe_stages.minhash_sign import MinhashSign


@dataclass
class MemoryPart:
    """A part that never lay on disk; it notes what was taken."""

    table: pa.Table
    taken: int = 0

    def __post_init__(self) -> None:
        self.rows: int = self.table.num_rows

    def column(self, name: str) -> pa.ChunkedArray:
        return self.table.column(name)

    def take(self, name: str, rows: np.ndarray) -> pa.Array:
        assert np.all(np.diff(rows) > 0), "row numbers ascend"
        self.taken += len(rows)
        return pa.concat_arrays(self.table.column(name).take(pa.array(rows)).chunks)


Sign = Callable[..., pa.Table]


def doc_id(text: str, number: int = 0) -> bytes:
    return hashlib.sha256(f"{number} {text}".encode()).digest()[:16]


@pytest.fixture(scope="session")
def sign() -> Sign:
    """Texts → the table that pass A would leave, signed with the given options; ids by default from text and place."""

    def make(texts: Sequence[str], ids: Sequence[bytes] | None = None, **options: Any) -> pa.Table:
        made = ids or [doc_id(t, i) for i, t in enumerate(texts)]
        arrays = {
            col.DOC_ID: pa.array(made, col.ID),
            col.CONTENT_ID: pa.array([hashlib.sha256(t.encode()).digest()[:16] for t in texts], col.ID),
            col.LENGTH: pa.array([len(t) for t in texts], pa.int64()),
            col.DATE: pa.nulls(len(texts), col.TIME),
            col.URL: pa.nulls(len(texts), pa.string()),
            col.TEXT: pa.array(texts, pa.large_string()),
        }
        outcome = MinhashSign(**options).open()(pa.record_batch(arrays))
        return pa.Table.from_batches([col.with_columns(outcome.batch, outcome.scores)])

    return make


@pytest.fixture(scope="session")
def part() -> type[MemoryPart]:
    return MemoryPart
