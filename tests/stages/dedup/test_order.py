"""Which of equal documents stands for the others."""

import pyarrow as pa
import pytest

from cleanpipe import batch as col
from cleanpipe_stages.dedup.meet import NearDuplicates
from cleanpipe_stages.minhash_sign import MinhashSign

TEXT = "one two three four five six seven"
EARLY, LATE = 1_200_000_000, 1_200_000_001


def captures(part, rows):
    """rows: (doc_id, date, url); all of one text."""
    n = len(rows)
    table = pa.record_batch(
        {
            col.DOC_ID: pa.array([bytes([r[0]]) * 16 for r in rows], col.ID),
            col.CONTENT_ID: pa.array([bytes(16)] * n, col.ID),
            col.LENGTH: pa.array([len(TEXT)] * n, pa.int64()),
            col.DATE: pa.array([r[1] for r in rows], col.TIME),
            col.URL: pa.array([r[2] for r in rows], pa.string()),
            col.TEXT: pa.array([TEXT] * n, pa.large_string()),
        }
    )
    done = MinhashSign().open()(table)
    return part(pa.Table.from_batches([col.with_columns(done.batch, done.scores)]))


CASES = [
    ("the earliest capture", [(1, LATE, "b"), (2, EARLY, "a")], 2),
    ("a known date before an unknown one", [(1, None, "a"), (2, LATE, "a")], 2),
    ("then doc_id", [(7, EARLY, "a"), (3, EARLY, "a"), (5, EARLY, "a")], 3),
]


@pytest.mark.parametrize(("what", "rows", "keeper"), CASES, ids=[c[0] for c in CASES])
def test_keeper(what, rows, keeper, part):
    (table,) = NearDuplicates().meet([captures(part, rows)]).tables
    kept = [r[0] for r, d in zip(rows, table.column("duplicate").to_pylist(), strict=True) if d is None]
    assert kept == [keeper]


def test_another_container_keeps_the_same_url(part):
    """ARC and WARC of one crawl give other doc_ids; dates and URLs are the same."""
    urls = [f"http://a.example.org/{i}" for i in range(9)]
    kept = []
    for ids in (range(9), range(9, 0, -1)):
        rows = [(i, EARLY, u) for i, u in zip(ids, urls, strict=True)]
        (table,) = NearDuplicates().meet([captures(part, rows)]).tables
        kept.append([u for u, d in zip(urls, table.column("duplicate").to_pylist(), strict=True) if d is None])
    assert kept[0] == kept[1]
