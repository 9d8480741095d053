"""Greedy stars again, with what the ledger knows of pairs: kept, gone, or not to be told. See ``again.py``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# verdicts, as in ``again.NAMES``
KEPT, IS_EXACT, IS_NEAR, IS_UNKNOWN, IF_KEPT, IF_NEAR, GOES_EXACT, GOES_NEAR = range(8)
_ABSENT = -1
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Limits:
    """The meeting's options, as they are to be and as they were; thresholds at 6 decimals."""

    threshold: float
    hot: int
    old_threshold: float
    old_hot: int


@dataclass(frozen=True, slots=True)
class Affected:
    """n rows of whole groups, group by group, each in the meeting's order.

    order: of each, its place as the caller numbers the rows. node: its exact group. group: its component (of a node
    that shares no key: itself). took, yes, maybe: whether it took part, takes part, may take part. old: KEPT, IS_EXACT
    or IS_NEAR, as it was. keeper: the row that stood for a near duplicate, -1 for none. jaccard: of these two, else
    NaN. depends: rows that a stranger may stand for.
    """

    order: Ints
    node: Ints
    group: npt.NDArray[np.uint64]
    took: Flags
    yes: Flags
    maybe: Flags
    old: npt.NDArray[np.int8]
    keeper: Ints
    jaccard: npt.NDArray[np.float64]
    depends: Flags


def replay(rows: Affected, limits: Limits) -> npt.NDArray[np.int8]:
    """The verdict of each row, in the caller's order."""
    nodes = Nodes(rows)
    state = at_once(nodes, limits)
    left = np.flatnonzero(~plain(nodes, limits))
    if left.size:
        state[left] = walk(nodes, limits, left)
    out = np.full(rows.node.size, KEPT, np.int8)
    mine = state[rows.node]
    first = np.arange(rows.node.size) == nodes.first_yes[rows.node]
    # of an exact group, what the first one's verdict means for itself and for the others
    rest = np.array([IS_EXACT, IS_EXACT, IS_NEAR, GOES_EXACT, GOES_EXACT, GOES_NEAR], np.int8)
    again = mine == IS_UNKNOWN
    out[rows.yes] = np.where(first, mine, rest[mine])[rows.yes]
    near = rows.yes & ~first & again & (rows.old == IS_NEAR)
    out[near] = GOES_NEAR
    out[rows.maybe] = IS_UNKNOWN
    whole = np.empty_like(out)
    whole[rows.order] = out
    return whole


class Nodes:
    """Exact groups, component by component in the order in which they are now: for each its first row that took part,
    that surely takes part, and that may. sorted: the nodes in that order. which: the number of each one's component.
    """

    def __init__(self, rows: Affected) -> None:
        count = int(rows.node.max()) + 1
        place = np.arange(rows.node.size)

        def first(among: Flags) -> Ints:
            out = np.full(count, _NEVER)
            np.minimum.at(out, rows.node[among], place[among])
            return out

        self.old_first, self.first_yes, self.first_maybe = first(rows.took), first(rows.yes), first(rows.maybe)
        self.at = np.minimum(self.first_yes, self.first_maybe)  # _NEVER: it is not there any more
        run = np.cumsum(np.diff(rows.group, prepend=rows.group[:1]) != 0)
        self.which = run[self.old_first]
        self.kept = rows.old[self.old_first] == KEPT
        keeper = rows.keeper[self.old_first]
        self.keeper = np.where(keeper < 0, -1, rows.node[keeper])
        self.jaccard = rows.jaccard[self.old_first]
        self.depends = rows.depends[self.old_first]
        self.sorted = np.lexsort((self.at, self.which))


def plain(nodes: Nodes, limits: Limits) -> Flags:
    """Nodes of components in which no bucket can be full, and every node surely takes part or surely does not."""
    few = np.bincount(nodes.which) <= min(limits.hot, limits.old_hot)
    doubted = np.bincount(nodes.which, nodes.first_maybe < nodes.first_yes) > 0
    return np.asarray((few & ~doubted)[nodes.which])


def at_once(nodes: Nodes, limits: Limits) -> npt.NDArray[np.int8]:
    """What ``walk`` says of plain components, without walking: of a component all hangs on the first node that is
    there now and was not kept, or, at a lower threshold, on the first that is there at all.
    """
    order = nodes.sorted
    there = nodes.at[order] != _NEVER
    kept, stands, which = nodes.kept[order], nodes.keeper[order], nodes.which[order]
    place = np.empty(order.size, np.int64)
    place[order] = np.arange(order.size)
    before = np.where(stands >= 0, place[stands], _NEVER)
    matched = (stands >= 0) & (nodes.jaccard[order] >= limits.threshold)
    matched &= (before < place[order]) & there[np.minimum(before, order.size - 1)]
    turns = there if limits.threshold < limits.old_threshold else there & ~kept & ~matched
    first = np.full(int(which.max()) + 1, _NEVER)
    at = np.flatnonzero(turns)[::-1]
    first[which[at]] = at  # the last to be written is the first of its component
    turn = first[which]
    here = np.arange(order.size)
    state = np.where(here < turn, np.where(kept, KEPT, IS_NEAR), IS_UNKNOWN).astype(np.int8)
    state[(here > turn) & matched & (before < turn)] = IS_NEAR
    if limits.threshold < limits.old_threshold:
        state[here == turn] = KEPT
        state[matched & (before == turn)] = IS_NEAR
    else:
        state[(here == turn) & _free(nodes, limits, there & kept)] = KEPT
    state[~there] = _ABSENT
    depends = nodes.depends[order]
    state[(state == KEPT) & depends] = IF_KEPT
    near = (state == IS_NEAR) & (stands >= 0)
    hangs = np.zeros(order.size, np.bool_)
    hangs[near] = depends[before[near]]
    state[hangs] = IF_NEAR
    out = np.empty_like(state)
    out[order] = state
    return out


def _free(nodes: Nodes, limits: Limits, kept: Flags) -> Flags:
    """In the nodes' order: nodes that went, and match none of the ``kept`` ones before them, as all these stood before
    their keeper in the old order, or are the keeper, which is not near enough any more.
    """
    order = nodes.sorted
    rank = nodes.old_first[order]
    # ranks of a component are above those of the ones before it, so a running maximum needs no borders but its own
    latest = np.maximum.accumulate(np.where(kept, rank, -1))
    start = np.flatnonzero(np.diff(nodes.which[order], prepend=-1))
    least = np.zeros(order.size, np.int64)
    least[start] = 1
    begin = start[np.cumsum(least) - 1]
    top = np.where(begin > 0, latest[np.maximum(begin - 1, 0)], -1)
    top = np.where(latest > top, latest, -1)
    stands = nodes.keeper[order]
    before = np.where(stands >= 0, nodes.old_first[stands], -1)
    free = (top < before) | ((top == before) & (nodes.jaccard[order] < limits.threshold))
    return np.asarray(free & (stands >= 0))


def walk(nodes: Nodes, limits: Limits, some: Ints) -> npt.NDArray[np.int8]:
    """The verdict of each node's first row, for ``some`` of them: whole components."""
    count = nodes.at.size
    state = [_ABSENT] * count
    wanted = np.zeros(count, np.bool_)
    wanted[some] = True
    rank, at, kept, keeper = (x.tolist() for x in (nodes.old_first, nodes.at, nodes.kept, nodes.keeper))
    jaccard, depends, group = nodes.jaccard.tolist(), nodes.depends.tolist(), nodes.which.tolist()
    certain = (nodes.first_yes < nodes.first_maybe).tolist()
    risky, upset = _hot(nodes, limits)
    lowered, threshold = limits.threshold < limits.old_threshold, limits.threshold
    cap = min(limits.hot, limits.old_hot) if limits.hot != limits.old_hot else count
    now, alive, revived, top, changed = None, 0, 0, -1, False
    for node in nodes.sorted[wanted[nodes.sorted]].tolist():
        if group[node] != now:
            now, alive, revived, top, changed = group[node], 0, 0, -1, False
        if at[node] == _NEVER:
            continue
        stands, was_kept = keeper[node], kept[node]
        full = risky[node] and (changed or at[node] >= upset[node] or alive > cap)
        if full or (changed and alive > limits.hot):
            found = IS_UNKNOWN
        elif stands >= 0 and jaccard[node] >= threshold and state[stands] in (KEPT, IF_KEPT):
            found = IF_NEAR if state[stands] == IF_KEPT else IS_NEAR
        elif not certain[node]:
            found = IS_UNKNOWN
        elif lowered:
            found = IS_UNKNOWN if alive else KEPT
        elif was_kept:
            found = IS_UNKNOWN if revived else KEPT
        else:
            before = rank[stands] if stands >= 0 else -1
            free = not revived and (top < before or (top == before and jaccard[node] < threshold))
            found = KEPT if free else IS_UNKNOWN
        if found == KEPT and depends[node]:
            found = IF_KEPT
        state[node] = found
        stays = found not in (IS_NEAR, IF_NEAR)
        changed = changed or found == IS_UNKNOWN or stays != was_kept
        if stays:
            alive += 1
            if was_kept:
                top = max(top, rank[node])
            else:
                revived += 1
    return np.array(state, np.int8)[some]


def _hot(nodes: Nodes, limits: Limits) -> tuple[list[bool], list[int]]:
    """Of each node: whether a bucket of its component may have been full, and the first place where something moved
    (then nobody knows who was pushed out of it).
    """
    size = np.bincount(nodes.which, nodes.kept)
    risky = (size > min(limits.hot, limits.old_hot))[nodes.which]
    upset = np.full(size.size, _NEVER)
    moved = nodes.kept & (nodes.at != nodes.old_first)
    np.minimum.at(upset, nodes.which[moved], nodes.old_first[moved])
    return risky.tolist(), upset[nodes.which].tolist()
