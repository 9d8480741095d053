"""Wide columns made and picked from by hand are what Arrow itself makes of them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.wide import joined, kept, replaced

TEXTS = st.lists(st.text(max_size=5), max_size=8)


def sliced(column: pa.Array, *, at: int) -> pa.Array:
    """The same values behind ``at`` others of the same buffers."""
    return pa.concat_arrays([pa.array(["é"] * at, column.type), column]).slice(at)


@settings(max_examples=60)
@given(TEXTS)
def test_joined_is_what_arrow_makes_of_the_values(texts: list[str]) -> None:
    values = [t.encode() for t in texts]
    made = joined(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.large_binary()))


@settings(max_examples=60)
@given(TEXTS, st.data(), st.integers(0, 2))
def test_replaced_rows_are_others_and_the_rest_stays(texts: list[str], data: st.DataObject, at: int) -> None:
    others = data.draw(st.lists(st.none() | st.text(max_size=4), min_size=len(texts), max_size=len(texts)))
    column = sliced(pa.array(texts, pa.large_string()), at=at)
    made = replaced(column, [None if o is None else o.encode() for o in others])
    made.validate(full=True)
    assert made.type == column.type
    assert made.to_pylist() == [t if o is None else o for t, o in zip(texts, others, strict=True)]


def test_a_null_row_can_be_replaced() -> None:
    column = pa.array([b"a", None, b"c"], pa.large_binary())
    assert replaced(column, [None, b"bb", None]).to_pylist() == [b"a", b"bb", b"c"]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.text(max_size=4), st.none() | st.text(max_size=3), st.booleans()), max_size=10),
       st.integers(0, 2))  # fmt: skip
def test_kept_rows_are_what_filter_keeps(rows: list[tuple[str, str | None, bool]], at: int) -> None:
    texts, some = (sliced(pa.array([r[n] for r in rows], pa.large_string()), at=at) for n in (0, 1))
    numbers, keep = pa.array(range(len(rows)), pa.int32()), np.array([r[2] for r in rows], bool)
    batch = pa.RecordBatch.from_arrays(
        [texts, numbers, some, texts.cast(pa.large_binary())], names=["a", "n", "null", "b"]
    )
    made = kept(batch, keep)
    made.validate(full=True)
    assert made.equals(batch.filter(pa.array(keep, pa.bool_())))


@pytest.mark.parametrize("names", [["a"], ["n"]])
def test_kept_of_wide_columns_alone_and_of_none(names: list[str]) -> None:
    batch = pa.record_batch({"a": pa.array(["x", "y", "z"], pa.large_string()), "n": pa.array([1, 2, 3])}).select(names)
    for keep in ([True, False, True], [False] * 3, [True] * 3):
        assert kept(batch, np.array(keep)).equals(batch.filter(pa.array(keep)))
