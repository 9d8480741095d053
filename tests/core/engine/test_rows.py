"""The schema of shards: lengths and places name their unit, in the file too."""

import pyarrow as pa
import pytest

from cleanpipe import batch as col
from cleanpipe.engine.rows import final_rows, shard_schema
from cleanpipe.pipeline import Pipeline

UNITS = [
    (col.LENGTH, "code points"),
    (col.CHAR_START, "code points"),
    (col.CHAR_END, "code points"),
    (col.OVERLAP, "code points"),
    (col.BYTES, "bytes"),
    (col.RECORD_OFFSET, "bytes"),
    (col.WINDOW, None),
    (col.TEXT, None),
]


@pytest.mark.parametrize(("name", "unit"), UNITS)
def test_a_length_names_its_unit(name: str, unit: str | None) -> None:
    schema = shard_schema(Pipeline(()))
    text = "née 👩‍👧"  # 7 code points, 9 UTF-16 units, 16 bytes in UTF-8
    row = pa.RecordBatch.from_pydict(
        {
            col.TEXT: pa.array([text], pa.large_string()),
            col.LENGTH: pa.array([len(text)], pa.int64()),
            col.BYTES: pa.array([len(text.encode())], pa.int64()),
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(final_rows(row, schema))
    with pa.ipc.open_stream(sink.getvalue()) as reader:
        table = reader.read_all()
    assert table.schema.field(name).metadata == ({b"unit": unit.encode()} if unit else None)
    assert table.select([col.LENGTH, col.CHAR_END, col.BYTES]).to_pylist() == [
        {col.LENGTH: 7, col.CHAR_END: 7, col.BYTES: 16}
    ]
