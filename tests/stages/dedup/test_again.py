"""The meeting told again from the ledger: whatever is claimed for certain is what a real second meeting says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.exchange import CONTINGENT, GOES, MAYBE, NO, TAKES_PART, TOOK_PART, UNKNOWN, YES, Exchange
from cleanpipe_stages.dedup.bands import SHINGLES
from cleanpipe_stages.dedup.meet import COMPONENT, DUPLICATE, EXACT, NEAR, NearDuplicates
from cleanpipe_stages.dedup.replay import IS_EXACT, IS_NEAR, KEPT, Affected, Limits, Nodes, at_once, plain, walk

ALL = {"bands": 128, "rows": 1}


def words(first: int, last: int, *, other: Any = ()) -> str:
    return " ".join(f"x{i}" if i in other else f"w{i}" for i in range(first, last))


def met(part: Any, table: pa.Table, rows: np.ndarray, options: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """Row → what a real meeting of ``rows`` says."""
    answer = NearDuplicates(**options).meet([part(table.take(pa.array(rows)))])
    return dict(zip(rows.tolist(), answer.tables[0].to_pylist(), strict=True))


def ledger(
    table: pa.Table, first: dict[int, dict[str, Any]], takes: list[str], known: list[bool], shingles: list[bool]
) -> pa.Table:
    """What the ledger would say: nothing of pairs for rows that were dropped before; of some of these no content."""
    n = table.num_rows
    said = [first.get(i) for i in range(n)]
    blank: dict[str, Any] = dict.fromkeys((DUPLICATE, col.KEPT_DOC_ID, col.JACCARD, COMPONENT))

    def values(name: str, kind: pa.DataType) -> pa.Array:
        return pa.array([(s or blank)[name] for s in said], kind)

    def own(name: str, there: list[bool]) -> pa.Array:
        return pa.array([v if t else None for v, t in zip(table.column(name).to_pylist(), there, strict=True)],
                        table.schema.field(name).type)  # fmt: skip

    took = [i in first for i in range(n)]
    return pa.table({
        col.DOC_ID: table.column(col.DOC_ID),
        col.URL: table.column(col.URL),
        col.DATE: table.column(col.DATE),
        col.CHARS_OUT: own(col.LENGTH, [t or k for t, k in zip(took, known, strict=True)]),
        col.CONTENT_ID: own(col.CONTENT_ID, [t or k for t, k in zip(took, known, strict=True)]),
        SHINGLES: own(SHINGLES, took),
        col.REASON: values(DUPLICATE, pa.string()),
        col.KEPT_DOC_ID: values(col.KEPT_DOC_ID, col.ID),
        col.JACCARD: values(col.JACCARD, pa.float64()),
        COMPONENT: values(COMPONENT, pa.binary(8)),
        TOOK_PART: pa.array([YES if t else NO for t in took]),
        TAKES_PART: pa.array(takes),
    })  # fmt: skip


@dataclass
class Case:
    texts: list[str]
    ids: list[bytes]
    dates: list[int | None]
    took: list[bool]
    takes: list[str]
    really: list[bool]  # of those that may take part, which do
    known: list[bool]  # of those that did not, whose text was made (dropped after it)
    before: dict[str, Any]
    after: dict[str, Any]


@st.composite
def cases(draw: st.DrawFn, *, maybe: bool = True) -> Case:
    texts: list[str] = []
    for base in range(draw(st.integers(1, 2))):
        length = draw(st.sampled_from([4, 30, 60, 90]))
        for _ in range(draw(st.integers(1, 8))):  # each edit takes 5 shingles away, each cut word one
            edits = draw(st.sets(st.integers(0, 6), max_size=2))
            start, stop = draw(st.integers(0, 3)), length - draw(st.integers(0, 3))
            at = [1000 * base + 9 * e for e in edits]
            texts.append(words(1000 * base + start, 1000 * base + stop, other=at))
    texts += draw(st.lists(st.sampled_from(texts), max_size=3))
    n = len(texts)
    flags = st.lists(st.booleans(), min_size=n, max_size=n)
    often = st.lists(st.sampled_from([True, True, True, False]), min_size=n, max_size=n)
    state = st.sampled_from(
        [YES] * 5 + [NO] * draw(st.integers(1, 4)) + ([MAYBE] if maybe and draw(st.booleans()) else [])
    )
    took = draw(often)
    takes = draw(st.lists(state, min_size=n, max_size=n))
    if not draw(st.booleans()):  # nobody new, as where limits only get stricter
        takes = [t if had else NO for t, had in zip(takes, took, strict=True)]
    ids = [bytes(draw(st.permutations(range(16)))[:1]) + i.to_bytes(15) for i in range(n)]
    threshold, hot = st.sampled_from([0.5, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95]), st.sampled_from([1, 2, 64, 64])
    before = {"threshold": draw(threshold), "hot_bucket": draw(hot)}
    after = dict(before)
    if draw(st.booleans()):
        after["threshold"] = draw(threshold)
    if draw(st.integers(0, 5)) == 0:
        after["hot_bucket"] = draw(hot)
    dates = draw(st.lists(st.sampled_from([None, 5, 5, 7]), min_size=n, max_size=n))
    return Case(texts, ids, dates, took, takes, draw(flags), draw(flags), before, after)


def tell(sign: Any, part: Any, case: Case, bands: dict[str, int]) -> tuple[list[str | None], dict[int, dict[str, Any]]]:
    """What is claimed of each row, and what a real second meeting says."""
    table = sign(case.texts, case.ids, **bands)
    table = table.set_column(
        table.schema.get_field_index(col.DATE), col.DATE, pa.array(case.dates, pa.int64()).cast(col.TIME)
    )
    first = met(part, table, np.flatnonzero(case.took), case.before)
    rows = part(ledger(table, first, case.takes, case.known, []))
    exchange: Exchange = NearDuplicates(**case.after)
    claimed = exchange.again(rows, NearDuplicates(**case.before))
    assert claimed is not None
    assert len(claimed) == table.num_rows
    there = [t == YES or (t == MAYBE and r) for t, r in zip(case.takes, case.really, strict=True)]
    return claimed.to_pylist(), met(part, table, np.flatnonzero(there), case.after)


def check(case: Case, claimed: list[str | None], real: dict[int, dict[str, Any]]) -> None:
    strangers = [
        t != NO and not had and real.get(i) is not None
        for i, (t, had) in enumerate(zip(case.takes, case.took, strict=True))
    ]
    row_of = {identity: i for i, identity in enumerate(case.ids)}
    for i, claim in enumerate(claimed):
        if case.takes[i] == NO:
            assert claim is None
            continue
        if case.takes[i] == MAYBE:
            assert claim == UNKNOWN
            continue
        found = real[i][DUPLICATE]
        word, _, expected = (claim or "").partition(":")
        if word == GOES:
            assert found in (EXACT, NEAR)
        elif word == CONTINGENT:
            if found != (expected or None):
                assert any(strangers)
                if found is not None:  # it fell to a row of which nothing was claimed for certain
                    keeper = row_of[real[i][col.KEPT_DOC_ID]]
                    assert claimed[keeper] is not None
        elif word != UNKNOWN:
            assert found == claim


@settings(max_examples=250, deadline=None)
@given(cases(), st.sampled_from([ALL, ALL, {"bands": 16, "rows": 8}, {"bands": 4, "rows": 2}]))
def test_what_is_certain_is_so(sign: Any, part: Any, case: Case, bands: dict[str, int]) -> None:
    claimed, real = tell(sign, part, case, bands)
    check(case, claimed, real)


@settings(max_examples=100, deadline=None)
@given(cases(maybe=False))
def test_nothing_changed_nothing_is_unknown(sign: Any, part: Any, case: Case) -> None:
    case.takes = [YES if t else NO for t in case.took]
    case.after = case.before
    claimed, real = tell(sign, part, case, {"bands": 16, "rows": 8})
    assert claimed == [real[i][DUPLICATE] if t else None for i, t in enumerate(case.took)]


@st.composite
def companies(draw: st.DrawFn) -> tuple[Affected, Limits]:
    """Rows of some components, as ``again`` hands them over, without texts: whoever went names a kept one before it."""
    groups, nodes, old, keeper = list[int](), list[int](), list[int](), list[int]()
    count = 0
    for group in range(draw(st.integers(1, 4))):
        kept: list[int] = []
        firsts: dict[int, int] = {}
        for _ in range(draw(st.integers(1, 8))):
            place = len(nodes)
            twin = draw(st.sampled_from([None, None, *firsts]))
            if twin is not None:
                first = firsts[twin]
                nodes.append(twin)
                old.append(IS_NEAR if old[first] == IS_NEAR else IS_EXACT)
                keeper.append(keeper[first])
            else:
                goes = bool(kept) and draw(st.booleans())
                nodes.append(count)
                firsts[count] = place
                old.append(IS_NEAR if goes else KEPT)
                keeper.append(draw(st.sampled_from(kept)) if goes else -1)
                count += 1
                if not goes:
                    kept.append(place)
            groups.append(group)
    n = len(nodes)
    yes = draw(st.lists(st.sampled_from([True, True, False]), min_size=n, max_size=n))
    near = [k >= 0 for k in keeper]
    jaccard = [draw(st.sampled_from([0.7, 0.8, 0.9])) if x else np.nan for x in near]
    rows = Affected(
        np.arange(n), np.array(nodes), np.array(groups, np.uint64), np.ones(n, bool), np.array(yes), np.zeros(n, bool),
        np.array(old, np.int8), np.array(keeper), np.array(jaccard),
        np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n))),
    )  # fmt: skip
    return rows, Limits(draw(st.sampled_from([0.65, 0.7, 0.75, 0.85, 0.95])), 64, 0.7, 64)


@settings(max_examples=600, deadline=None)
@given(companies())
def test_all_at_once_is_one_by_one(case: tuple[Affected, Limits]) -> None:
    rows, limits = case
    nodes = Nodes(rows)
    assert plain(nodes, limits).all()
    there = nodes.at < np.iinfo(np.int64).max
    one_by_one = walk(nodes, limits, np.arange(there.size))
    assert at_once(nodes, limits)[there].tolist() == one_by_one[there].tolist()
