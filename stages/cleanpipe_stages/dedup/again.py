"""The meeting's verdicts again, from the ledger alone: other documents take part, or other limits hold.

What the ledger knows of pairs in a component of the band-key graph (no pair of two components was ever compared):
two kept nodes are no match, a node that went matches its keeper with the index noted, and is no match of any kept one
before that keeper. All else is unknown. A match is a fact of two texts, so it holds in any company; a pair that is no
match at one threshold is none at a higher one. ``replay.py`` walks a component in the order with these facts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.exchange import CONTINGENT, GOES, MAYBE, TAKES_PART, TOOK_PART, UNKNOWN, YES, Part
from cleanpipe_stages.dedup.bands import SHINGLES
from cleanpipe_stages.dedup.order import Ints, addresses, dates, words_of
from cleanpipe_stages.dedup.replay import (
    GOES_EXACT,
    IF_KEPT,
    IF_NEAR,
    IS_EXACT,
    IS_NEAR,
    IS_UNKNOWN,
    KEPT,
    Affected,
    Limits,
    replay,
)
from cleanpipe_stages.dedup.verdict import COMPONENT, EXACT, NEAR

READS = frozenset({
    col.DOC_ID, col.CONTENT_ID, col.CHARS_OUT, col.DATE, col.URL, col.KEPT_DOC_ID, col.JACCARD, SHINGLES, COMPONENT,
})  # fmt: skip
NAMES = (None, EXACT, NEAR, UNKNOWN, CONTINGENT, f"{CONTINGENT}:{NEAR}", f"{GOES}:{EXACT}", f"{GOES}:{NEAR}")

Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int8]


def verdicts(rows: Part, limits: Limits) -> pa.Array | None:
    """See ``Exchange.again``. Memory: some 60 bytes a row, and more only for rows of components that change."""
    again = _Again(rows, limits)
    if np.any((again.old == IS_NEAR) & ~again.together):
        return None  # a version that noted no components had a hand in this ledger
    codes = again.settle()
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes == KEPT), pa.array(NAMES, pa.string()))


@dataclass(frozen=True, slots=True)
class _Strangers:
    """Rows whose likes are not known, for they were never signed. longest: code points of the longest; any length where
    one's is unknown. alike: whether one may be equal to any other row (its content is not known).
    """

    rows: Ints
    longest: int
    alike: bool


class _Again:
    def __init__(self, rows: Part, limits: Limits) -> None:
        self.rows, self.limits = rows, limits
        self.took = _is(rows.column(TOOK_PART), YES)
        self.yes, self.maybe = (_is(rows.column(TAKES_PART), word) for word in (YES, MAYBE))
        self.takes = self.yes | self.maybe
        reason = rows.column(col.REASON)
        self.old = (_is(reason, EXACT) * IS_EXACT + _is(reason, NEAR) * IS_NEAR).astype(np.int8)
        self.component, self.together = words_of(rows.column(COMPONENT))
        self._content: tuple[npt.NDArray[np.uint64], Flags] | None = None

    def content(self) -> tuple[npt.NDArray[np.uint64], Flags]:
        """Half of each content_id, and which rows have one."""
        if self._content is None:
            self._content = words_of(self.rows.column(col.CONTENT_ID))
        return self._content

    def settle(self) -> Codes:
        """The verdict of each row, as a place in NAMES."""
        out = np.where(self.maybe, IS_UNKNOWN, np.where(self.yes, self.old, KEPT)).astype(np.int8)
        fresh = ~self.took & self.takes
        twins = self._twins(fresh)
        strangers = self._strangers(fresh & ~twins)
        depends = self._depends(strangers)
        affected = self._affected(twins)
        if strangers.rows.size:
            self._contingent(out, depends)
            out[strangers.rows] = IS_UNKNOWN
            self._equal_strangers(strangers.rows, out)
        if affected.size:
            out[affected] = replay(self._nodes(affected, depends[affected]), self.limits)
        return out

    def _twins(self, fresh: Flags) -> Flags:
        """Rows that did not take part, but whose text is that of one that did: all is known of its pairs."""
        out = np.zeros_like(fresh)
        if fresh.any():
            content, known = self.content()
            wanted = fresh & known
            met = _among(content, self.took & known, content[wanted])
            out[wanted] = np.isin(content[wanted], content[met])
        return out

    def _strangers(self, rows: Flags) -> _Strangers:
        at = np.flatnonzero(rows)
        if not at.size:
            return _Strangers(at, -1, False)
        lengths, known = self._lengths()
        longest = int(lengths[at].max()) if known[at].all() else np.iinfo(np.int64).max
        return _Strangers(at, longest, not self.content()[1][at].all())

    def _lengths(self) -> tuple[Ints, Flags]:
        column = self.rows.column(col.CHARS_OUT)
        return np.asarray(pc.fill_null(column, 0).to_numpy()), np.asarray(column.is_valid().to_numpy())

    def _depends(self, strangers: _Strangers) -> Flags:
        """Rows that a stranger may stand for, if it is kept: it is as long as they or longer."""
        if not strangers.rows.size:
            return np.zeros(self.rows.rows, np.bool_)
        later = self._lengths()[0] <= strangers.longest
        if not strangers.alike:  # then it is a near duplicate or nothing
            later &= np.asarray(pc.fill_null(self.rows.column(SHINGLES), 0).to_numpy()) > 0
        return np.asarray(later)

    def _contingent(self, out: Codes, depends: Flags) -> None:
        """Of rows whose company did not change otherwise."""
        out[depends & self.yes & (out == KEPT)] = IF_KEPT
        out[depends & self.yes & (out == IS_EXACT)] = GOES_EXACT  # as long as its keeper
        near = np.flatnonzero(depends & self.yes & (out == IS_NEAR))  # where its keeper is longer than any: certain
        if near.size:
            keepers = np.flatnonzero(self.took & self.together & (self.old == KEPT))
            at = self._keepers(near, keepers)
            free = np.zeros(near.size, np.bool_)
            free[at >= 0] = ~depends[keepers[at[at >= 0]]]
            out[near[~free]] = IF_NEAR

    def _keepers(self, rows: Ints, among: Ints) -> Ints:
        """For each of ``rows`` the place in ``among`` of the row that stands for it; -1 where it is not there."""
        if not among.size:
            return np.full(rows.size, -1, np.int64)
        wanted = self.rows.take(col.KEPT_DOC_ID, rows)
        ids = self.rows.take(col.DOC_ID, among)
        (high, _), (sought, _) = words_of(ids), words_of(wanted)
        (low, _), (other, _) = words_of(ids, 1), words_of(wanted, 1)
        order = np.argsort(high, kind="stable")
        at = order[np.minimum(np.searchsorted(high[order], sought), among.size - 1)]
        return np.where((high[at] == sought) & (low[at] == other), at, -1)

    def _equal_strangers(self, rows: Ints, out: Codes) -> None:
        """A stranger that surely takes part goes if one of the same text, that surely does too, is before it."""
        content, known = self.content()
        rows = rows[known[rows] & self.yes[rows]]
        ranked = rows[np.argsort(content[rows], kind="stable")]
        same = content[ranked[1:]] == content[ranked[:-1]]
        twice = np.zeros(ranked.size, np.bool_)
        twice[1:] |= same
        twice[:-1] |= same
        ranked = ranked[twice]
        if ranked.size:
            ranked = ranked[self._order(ranked, content[ranked])]
            later = np.flatnonzero(content[ranked[1:]] == content[ranked[:-1]]) + 1
            out[ranked[later]] = GOES_EXACT

    def _order(self, rows: Ints, group: npt.NDArray[np.uint64]) -> Ints:
        """Places of ``rows`` in the meeting's order (``order.py``), group by group. URLs are read for ties only."""
        length = self._lengths()[0][rows]
        date = dates(self.rows.column(col.DATE))[rows]
        rough = np.lexsort((date, -length, group))
        same = (group[rough[1:]] == group[rough[:-1]]) & (length[rough[1:]] == length[rough[:-1]])
        same &= date[rough[1:]] == date[rough[:-1]]
        if not same.any():
            return rough
        tied = np.zeros(rows.size, np.bool_)  # in rough order
        tied[1:] |= same
        tied[:-1] |= same
        at = np.flatnonzero(tied)
        run = np.cumsum(np.concatenate(([True], ~same)))[at]
        up = np.argsort(rows[rough[at]])  # what is taken is read in ascending order of rows
        places = rows[rough[at[up]]]
        address, high, low = (np.empty(at.size, np.uint64) for _ in range(3))
        found = self.rows.take(col.DOC_ID, places)
        address[up] = addresses(self.rows.take(col.URL, places))
        high[up], low[up] = words_of(found)[0], words_of(found, 1)[0]
        rough[at] = rough[at[np.lexsort((low, high, address, run))]]
        return rough

    def _affected(self, twins: Flags) -> Ints:
        """Rows of every component or exact group in which a verdict may be another: what went or came was kept, or the
        limits moved. Nothing hangs on a document that went.
        """
        limits, kept = self.limits, self.took & (self.old == KEPT)
        gone = kept & ~self.yes
        changed = [self.component[gone & self.together]]
        if limits.threshold > limits.old_threshold:
            jaccard = np.asarray(pc.fill_null(self.rows.column(col.JACCARD), 1.0).to_numpy())
            changed.append(self.component[(self.old == IS_NEAR) & self.together & (jaccard < limits.threshold)])
        alone = 1 if limits.threshold < limits.old_threshold else None
        if limits.hot != limits.old_hot:
            alone = min(limits.hot, limits.old_hot) if alone is None else alone
        if alone is not None:
            found, count = np.unique(self.component[kept & self.together], return_counts=True)
            changed.append(found[count > alone])
        rows = np.zeros_like(gone)
        if twins.any() or (gone & ~self.together).any():
            content, known = self.content()
            loose = self.took & known & ~self.together
            rows |= _among(content, loose, content[gone & ~self.together])
            met = _among(content, self.took & known, content[twins])
            rows |= met & ~self.together
            changed.append(self.component[met & self.together])
        rows |= _among(self.component, self.took & self.together, np.concatenate(changed))
        return np.flatnonzero(rows | twins)

    def _nodes(self, rows: Ints, depends: Flags) -> Affected:
        content = self.content()[0][rows]
        # a group is told by its component, else by its text; a twin by what the rows of its text say
        node = np.asarray(pa.array(content).dictionary_encode().indices.to_numpy(), np.int64)
        group = np.zeros(int(node.max()) + 1, np.uint64)
        met = self.took[rows]
        own = np.where(self.together[rows], self.component[rows], content)
        group[node[met]] = own[met]
        order = self._order(rows, group[node])
        rows, node, depends = rows[order], node[order], depends[order]
        near = np.flatnonzero(self.took[rows] & (self.old[rows] == IS_NEAR))
        keeper, jaccard = np.full(rows.size, -1, np.int64), np.full(rows.size, np.nan)
        keeper[near] = self._ordered_keepers(rows, near)
        jaccard[near] = np.asarray(self.rows.column(col.JACCARD).to_numpy())[rows[near]]
        flags = self.took[rows], self.yes[rows], self.maybe[rows]
        return Affected(order, node, group[node], *flags, self.old[rows], keeper, jaccard, depends)

    def _ordered_keepers(self, rows: Ints, near: Ints) -> Ints:
        """Places in ``rows`` of what stands for the rows at ``near``. Reading goes in ascending order of rows."""
        up, mine = np.argsort(rows), np.argsort(rows[near])
        found = self._keepers(rows[near][mine], rows[up])
        out = np.empty(near.size, np.int64)
        out[mine] = np.where(found < 0, -1, up[found])
        return out


def _is(column: pa.ChunkedArray, word: str) -> Flags:
    """Where the word stands; the codes of dictionary-encoded columns are compared, not their words."""
    found = [np.zeros(0, np.bool_)]
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            codes = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            found += [np.isin(codes, [i for i, w in enumerate(chunk.dictionary.to_pylist()) if w == word])]
        else:
            found += [np.asarray(pc.fill_null(pc.equal(chunk, word), False).to_numpy(zero_copy_only=False))]
    return np.concatenate(found)


def _among(values: npt.NDArray[np.uint64], rows: Flags, wanted: npt.NDArray[np.uint64]) -> Flags:
    """Which of ``rows`` have one of the wanted values."""
    if not wanted.size:
        return np.zeros_like(rows)
    found: Flags = pc.is_in(pa.array(values), pa.array(wanted)).to_numpy(zero_copy_only=False)
    return np.logical_and(rows, found)
