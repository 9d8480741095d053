"""The flow where documents are set aside: condemned before any step, or for want of memory; and every count adds up."""

import errno
from typing import ClassVar

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.errors import StageContractError
from cleanpipe.flow import STAGE_ERROR, Flow
from cleanpipe.io.documents import RESOURCE_LIMIT
from cleanpipe.stage import Outcome, Stage

SEEN = []


class First(Stage):
    """Drops what is empty; notes what it sees."""

    name: ClassVar = "first"
    reads: ClassVar = frozenset({col.TEXT})
    reasons: ClassVar = frozenset({"empty"})
    scores: ClassVar = {"size": pa.int64()}

    def open(self):
        def step(rows):
            texts = rows.column(col.TEXT).to_pylist()
            SEEN.extend(texts)
            drops = pa.array([None if t else "empty" for t in texts], pa.string())
            return Outcome(rows, drops=drops, scores={"size": pa.array([len(t) for t in texts], pa.int64())})

        return step


class Second(Stage):
    """Raises what a text names."""

    name: ClassVar = "second"
    reads: ClassVar = frozenset({col.TEXT})

    def open(self):
        def step(rows):
            for text in rows.column(col.TEXT).to_pylist():
                if text in ERRORS:
                    raise ERRORS[text]
            if rows.num_rows > 3 and "large" in rows.column(col.TEXT).to_pylist():
                raise MemoryError
            return Outcome(rows)

        return step


ERRORS = {
    "memory": MemoryError("no room"),
    "arrow memory": pa.lib.ArrowMemoryError("malloc of size 7 failed"),
    "bad": ValueError("cannot"),
    "odd file": FileNotFoundError(errno.ENOENT, "no such file"),
    "full": OSError(errno.ENOSPC, "no space left"),
}


def doc(number):
    return number.to_bytes(16, "big")


def batch(texts):
    columns = {
        col.DOC_ID: pa.array([doc(i) for i in range(len(texts))], col.ID),
        col.TEXT: pa.array(texts, pa.large_string()),
        col.LENGTH: pa.array([len(t) for t in texts], pa.int64()),
        col.BYTES_IN: pa.array([10 * len(t) for t in texts], pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)


def run(texts, condemned=None):
    SEEN.clear()
    flow = Flow([First(), Second()], {"size": pa.int64()})
    said = {doc(i): ("WorkerCrash", "SIGSEGV") for i in condemned or ()}
    return flow.run(batch(texts), said) if condemned is not None else flow.run(batch(texts))


def fates(flowed):
    return [
        tuple(flowed.fates.column(n)[i].as_py() for n in (col.FATE, col.STAGE, col.REASON))
        for i in range(flowed.fates.num_rows)
    ]


KEPT = (None, None, None)
CONDEMNED = (col.QUARANTINED, "first", RESOURCE_LIMIT)


def test_a_condemned_document_is_seen_by_no_step():
    flowed = run(["one", "two", "", "four"], {1, 7})
    assert SEEN == ["one", "", "four"]
    assert fates(flowed) == [KEPT, CONDEMNED, (col.DROPPED, "first", "empty"), KEPT]
    assert flowed.rows.column(col.TEXT).to_pylist() == ["one", "four"]
    assert flowed.origin.tolist() == [0, 3]
    assert flowed.fates.column("size").to_pylist() == [3, None, 0, 4]
    assert [(f.row, f.error, f.message, f.trace) for f in flowed.failures] == [(1, "WorkerCrash", "SIGSEGV", None)]
    counts = flowed.tally["first"]
    assert (counts["docs_in"], counts["docs_out"], counts["bytes_in"], counts["bytes_out"]) == (4, 2, 100, 70)
    assert (counts["chars_in"], counts["chars_dropped"], counts["chars_out"]) == (10, 3, 7)
    assert counts["dropped"] == {RESOURCE_LIMIT: 1, "empty": 1}


def test_a_whole_batch_may_be_condemned():
    flowed = run(["one", "two"], {0, 1})
    assert SEEN == []
    assert fates(flowed) == [CONDEMNED, CONDEMNED]
    assert flowed.rows.num_rows == 0
    assert flowed.tally["second"]["docs_in"] == 0


def test_a_name_that_is_not_there_changes_nothing():
    plain, other = run(["one", "two"]), run(["one", "two"], {5})
    assert other.fates.equals(plain.fates)
    assert other.rows.equals(plain.rows)
    assert other.tally == plain.tally


MEMORY, BAD = ((col.QUARANTINED, "second", reason) for reason in (RESOURCE_LIMIT, STAGE_ERROR))
WITHOUT = [
    ("a document that alone finds no memory", ["a", "memory", "b"], [KEPT, MEMORY, KEPT], ["MemoryError"]),
    ("... in Arrow", ["arrow memory", "b"], [MEMORY, KEPT], ["MemoryError"]),
    ("documents that find it alone", ["a", "large", "b", "c"], [KEPT] * 4, []),
    (
        "both kinds of fault",
        ["bad", "memory"],
        [BAD, MEMORY],
        ["ValueError", "MemoryError"],
    ),
    (
        "a page that has a step look for a file",
        ["odd file", "b"],
        [BAD, KEPT],
        ["FileNotFoundError"],
    ),
]


@pytest.mark.parametrize(("what", "texts", "said", "errors"), WITHOUT, ids=[w[0] for w in WITHOUT])
def test_want_of_memory_costs_the_document_that_wants_it(what, texts, said, errors):
    flowed = run(texts)
    assert fates(flowed) == said
    assert [f.error for f in flowed.failures] == errors
    assert all((f.trace is None) == (f.error == "MemoryError") for f in flowed.failures)


def test_a_full_disk_is_no_documents_fault():
    with pytest.raises(OSError, match="no space left"):
        run(["a", "full", "b"])
    with pytest.raises(OSError, match="no space left"):
        run(["bad", "full", "b"])  # found document by document


def test_a_process_without_memory_is_not_the_stages_fault():
    with pytest.raises(MemoryError):
        run(["memory"] * 8)
    with pytest.raises(StageContractError, match="all 8 documents"):
        run(["memory"] * 7 + ["bad"])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["a", "bc", "", "bad", "memory", "large"]), min_size=1, max_size=12),
    st.sets(st.integers(0, 11)),
)
def test_fates_do_not_depend_on_batches_and_every_count_closes(texts, condemned):
    texts = [*texts, "good"]  # not every document of a batch fails
    whole = run(texts, condemned)
    singly = []
    flow = Flow([First(), Second()], {"size": pa.int64()})
    said = {doc(i): ("WorkerCrash", "SIGSEGV") for i in condemned}
    for i in range(len(texts)):
        singly += fates(flow.run(batch(texts).slice(i, 1), said))
    assert fates(whole) == singly
    for stage, before in (("first", len(texts)), ("second", whole.tally["first"]["docs_out"])):
        counts = whole.tally[stage]
        assert counts["docs_in"] == before
        assert counts["docs_in"] == counts["docs_out"] + sum(counts["dropped"].values())
        assert counts["chars_in"] == counts["chars_out"] + counts["chars_dropped"]
    assert sum(f[0] == col.QUARANTINED for f in fates(whole)) == len(whole.failures)
    assert whole.tally["second"]["docs_out"] == whole.rows.num_rows


def test_a_document_may_be_condemned_before_a_later_stage():
    """So that a list of limits gives back what MemoryError did, to the last count."""
    texts = ["one", "memory", "", "four"]
    met = run(texts)
    listed = Flow([First(), Second()], {"size": pa.int64()}).run(
        batch(texts),
        {doc(1): ("MemoryError", "no room", "second"), doc(3): ("WorkerCrash", "SIGSEGV", "elsewhere")},
    )
    assert fates(listed) == fates(met) == [KEPT, MEMORY, (col.DROPPED, "first", "empty"), KEPT]
    assert listed.fates.equals(met.fates)
    assert listed.tally == met.tally
    assert listed.rows.equals(met.rows)
    assert [(f.row, f.error, f.message) for f in listed.failures] == [(1, "MemoryError", "no room")]


def test_all_windows_of_a_condemned_document_go():
    class Cut(Stage):
        name: ClassVar = "cut"

        def open(self):
            def step(rows):
                parents = pa.array([i for i in range(rows.num_rows) for _ in range(2)], pa.int32())
                return Outcome(rows.take(parents), parents=parents)

            return step

    flowed = Flow([Cut(), Second()], {}).run(batch(["one", "two"]), {doc(0): ("MemoryError", "", "second")})
    assert flowed.rows.column(col.TEXT).to_pylist() == ["two", "two"]
    assert fates(flowed) == [MEMORY, KEPT]
    counts = flowed.tally["second"]
    assert (counts["docs_in"], counts["docs_out"], counts["rows_out"], counts["dropped"]) == (
        2,
        1,
        2,
        {RESOURCE_LIMIT: 1},
    )
