"""The fold: what stages promise and what the core does with it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError, StageContractError
from cleanpipe.exchange import Exchange, Meeting
from cleanpipe.flow import Flow
from cleanpipe.pipeline import Pipeline
from cleanpipe.stage import Outcome, Stage
from cleanpipe.testing import batch, run


@dataclass(frozen=True, kw_only=True)
class Short(Stage):
    name: ClassVar[str] = "short"
    reads: ClassVar = frozenset({col.TEXT, col.LENGTH})
    scores: ClassVar = {"size": pa.int64()}
    reasons: ClassVar = frozenset({"too_short"})
    least: int = 3

    def open(self):
        def step(rows):
            size = rows.column(col.LENGTH)
            drops = pc.if_else(pc.less(size, self.least), pa.scalar("too_short"), pa.scalar(None, pa.string()))
            return Outcome(rows, drops=drops, scores={"size": size})

        return step


def stage(step, **declared):
    """A stage of one function; declarations by keyword."""

    class Made(Stage):
        name = declared.pop("name", "made")

        def open(self):
            return step

    for key, value in declared.items():
        setattr(Made, key, value)
    return Made()


def test_drops_are_removed_and_scores_of_dropped_rows_stay():
    done = run(Short(), batch(text=["a", "four", "no", "longer"]))
    assert done.rows.column(col.TEXT).to_pylist() == ["four", "longer"]
    assert done.reasons == ["too_short", None, "too_short", None]
    assert done.scores == {"size": [1, 4, 2, 6]}
    assert done.rows.column("size").to_pylist() == [4, 6]  # a score is a column too


def test_counts_of_a_stage_balance():
    tally = run(Short(), batch(text=["a", "four", "no"], bytes_in=[10, 20, 30])).flowed.tally["short"]
    assert tally["docs_in"], tally["docs_out"] == (3, 1)
    assert (tally["bytes_in"], tally["bytes_out"]) == (60, 20)
    assert (tally["chars_in"], tally["chars_dropped"], tally["chars_out"]) == (7, 3, 4)
    assert tally["dropped"] == {"too_short": 2}


BROKEN = [
    ("verdicts for other rows", lambda b: Outcome(b, drops=pa.array(["bad"])), "2 rows"),
    ("an undeclared reason", lambda b: Outcome(b, drops=pa.array(["odd", None])), "odd"),
    ("rows lost in silence", lambda b: Outcome(b.slice(0, 1)), "without naming parents"),
    ("an undeclared score", lambda b: Outcome(b, scores={"x": pa.array([1, 2])}), "'x'"),
    ("a score of another type", lambda b: Outcome(b, scores={"s": pa.array(["1", "2"])}), "'s'"),
    ("parents out of range", lambda b: Outcome(b, parents=pa.array([0, 7])), "parents"),
    ("parents that mix documents", lambda b: Outcome(b, parents=pa.array([1, 0])), "mixed"),
    ("a row lost among parents", lambda b: Outcome(b, parents=pa.array([0, 0])), "lost a row"),
    ("a column not written", lambda b: Outcome(b), "'w'"),
]


@pytest.mark.parametrize(("what", "step", "message"), BROKEN, ids=[b[0] for b in BROKEN])
def test_a_broken_promise_is_named(what, step, message):
    writes = {"w": pa.int64()} if "written" in what else {}
    made = stage(step, scores={"s": pa.float64()}, reasons=frozenset({"bad"}), writes=writes)
    with pytest.raises(StageContractError, match=message):
        run(made, batch(text=["a", "b"]))


def test_a_row_on_which_a_step_raises_costs_one_row():
    def step(rows):
        if "bad" in rows.column(col.TEXT).to_pylist():
            raise ValueError("cannot")
        return Outcome(rows)

    done = run(stage(step), batch(text=["a", "bad", "c"]))
    assert done.rows.column(col.TEXT).to_pylist() == ["a", "c"]
    assert done.reasons == [None, "stage_error", None]
    assert done.flowed.fates.column(col.FATE).to_pylist() == [None, col.QUARANTINED, None]
    assert [(f.row, f.error, f.message) for f in done.flowed.failures] == [(1, "ValueError", "cannot")]


def test_a_stage_that_always_raises_stops_the_run():
    def step(rows):
        raise ValueError("broken stage")

    with pytest.raises(StageContractError, match="all 8 documents"):
        run(stage(step), batch(text=["x"] * 8))


def test_rows_of_one_document_may_become_several_and_are_counted_as_one():
    def cut(rows):
        parents = pa.array(np.repeat(np.arange(rows.num_rows), 2).astype(np.int32))
        return Outcome(rows.take(parents), parents=parents)

    flowed = Flow([Short(), stage(cut)], {"size": pa.int64()}).run(batch(text=["no", "four", "fives"]))
    assert flowed.rows.column(col.TEXT).to_pylist() == ["four", "four", "fives", "fives"]
    assert flowed.origin.tolist() == [1, 1, 2, 2]
    assert flowed.tally["made"]["docs_out"], flowed.tally["made"]["rows_out"] == (2, 4)


def test_no_drops_after_a_document_was_cut():
    def cut(rows):
        return Outcome(rows, parents=pa.array(np.arange(rows.num_rows, dtype=np.int32)))

    with pytest.raises(StageContractError, match="judge before"):
        Flow([stage(cut), Short()], {"size": pa.int64()}).run(batch(text=["no", "four"]))


@given(st.lists(st.text(max_size=8), min_size=1, max_size=30), st.integers(1, 5), st.integers(1, 29))
def test_verdicts_do_not_depend_on_batch_borders_and_counts_add_up(texts, least, cut):
    rows = batch(text=texts, bytes_in=[len(t.encode()) for t in texts])
    whole = run(Short(least=least), rows)
    cut = min(cut, len(texts))
    parts = [run(Short(least=least), p) for p in (rows.slice(0, cut), rows.slice(cut)) if p.num_rows]
    assert [r for p in parts for r in p.reasons] == whole.reasons
    for key in ("docs_in", "docs_out", "bytes_in", "bytes_out", "chars_in", "chars_dropped", "chars_out"):
        assert sum(p.flowed.tally["short"][key] for p in parts) == whole.flowed.tally["short"][key]
    counts = whole.flowed.tally["short"]
    assert counts["docs_in"] == counts["docs_out"] + sum(counts["dropped"].values())
    assert counts["chars_in"] == counts["chars_dropped"] + counts["chars_out"]


# validate


class Twins(Exchange):
    name = "twins_meet"
    reads = frozenset({col.TEXT})
    writes: ClassVar = {"twin": pa.bool_()}

    def meet(self, parts):
        return Meeting([])


def reader(name, reads, **more):
    return stage(Outcome, name=name, reads=frozenset(reads), **more)


def test_the_core_decodes_before_markup_and_normalises_before_text():
    names = [s.name for s in Pipeline((reader("a", {col.MARKUP}), reader("b", {col.TEXT}))).complete()]
    assert names == ["decode", "a", "normalise", "b"]
    assert [s.name for s in Pipeline((reader("a", {col.URL}),)).complete()] == ["a", "decode", "normalise"]


def test_an_exchange_breaks_the_list_into_passes():
    meets = reader("drop", {"twin"}, exchange=lambda self: Twins())
    passes = Pipeline((reader("a", {col.URL}), meets, reader("z", {col.TEXT}))).validate()
    assert [[s.name for s in p.stages] for p in passes] == [["a", "decode", "normalise"], ["drop", "z"]]
    assert passes[0].exchange is None
    assert passes[1].exchange.name == "twins_meet"


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((reader("a", {"nowhere"}),), "'a' reads 'nowhere', which no stage"),
        ((reader("a", {"x"}), reader("b", set(), writes={"x": pa.int8()})), "'b' writes it and stands after it"),
        ((reader("a", {col.TEXT}), reader("b", {col.MARKUP})), "'markup'.*move 'b' above 'a'"),
        (
            (reader("a", set(), reads_optional=frozenset({"x"})), reader("b", set(), scores={"x": pa.int8()})),
            "'b' writes",
        ),
        (
            (reader("a", set(), writes={col.WINDOW: pa.int32()}), reader("b", set(), reasons=frozenset({"r"}))),
            "'a' cuts",
        ),
        ((reader("a", set()), reader("a", set())), "twice"),
    ],
)
def test_a_list_that_cannot_work_is_refused(stages, message):
    with pytest.raises(ConfigError, match=message):
        Pipeline(stages).validate()


def test_a_document_fails_whole_once_it_is_cut():
    def cut(rows):
        parents = pa.array(np.repeat(np.arange(rows.num_rows), 2).astype(np.int32))
        return Outcome(rows.take(parents).set_column(1, col.TEXT, pa.array(["w", "bad", "x", "y"])), parents=parents)

    def step(rows):
        if "bad" in rows.column(col.TEXT).to_pylist():
            raise ValueError("cannot")
        return Outcome(rows)

    given = batch(doc_id=[bytes(16), bytes(15) + b"1"], text=["one", "two"], length=[3, 3], bytes_in=[10, 20])
    flowed = Flow([stage(cut, name="cut"), stage(step)], {}).run(given)
    assert flowed.rows.column(col.TEXT).to_pylist() == ["x", "y"]
    assert flowed.fates.column(col.REASON).to_pylist() == ["stage_error", None]
    counts = flowed.tally["made"]
    assert (counts["docs_in"], counts["docs_out"], counts["rows_out"]) == (2, 1, 2)
    assert (counts["bytes_in"], counts["bytes_out"]) == (30, 20)
