"""Drift: values, scores, outcomes and hosts of which the documents of B are made otherwise than those of A.

An alarm is a distribution whose PSI passes both its mark and what chance makes of it, or something newly wiped out; a
note is one whose single values moved beyond chance without that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cleanpipe import batch as col
from cleanpipe.audit.bins import lower_edge
from cleanpipe.queries.diff_fates import label
from cleanpipe.queries.diff_stats import LARGE, MOVED, movement, psi, psi_floor
from cleanpipe.queries.diff_sums import Compared
from cleanpipe.queries.diff_tally import BUCKETS, BY_SOURCE, Counts, Hosts
from cleanpipe.queries.diff_walk import spoken

CHANCE = 1e-4  # of one distribution's alarm, if both runs are samples of one crawl
LEAST = 50  # documents on each side, to speak of a distribution
LEAST_BIN = 10  # documents of both together in a bin, on the smaller side's scale
BINS = 10  # of a score: tenths of both runs together
MARK = 0.05  # odds of one value that changed less raise no alarm
LEAST_MOVED = 20  # documents more or fewer, below which one value raises none
HOSTS = 50  # told apart in the distribution of hosts
NAMED = 5  # values or bins named in an alarm
UNTOLD_FLOOR = 10.0  # of a PSI, from which on it says that the hosts are too few: hardly any PSI gets there
UNKNOWN = 1e6  # stands for a design effect that cannot be told
WIPED = 100  # wiped-out hosts, languages and types listed, of each
VALUES, CHANCE_ALONE, UNTOLD, STABLE = "values", "chance", "unknown", "stable"
VERDICTS: Mapping[str, str] = {
    "large": "another distribution", "moved": "has moved", VALUES: "single values moved", CHANCE_ALONE: "within chance",
    UNTOLD: "too few hosts to tell", STABLE: "stable",
}  # fmt: skip
OTHERS, KEPT_ONES = "(others)", ", kept documents"


def drift(both: Compared, host_names: Mapping[int, str]) -> dict[str, Any]:
    """Alarms and every distribution's figure, as plain JSON. host_names: of ``hosts_to_name``."""
    one, other = both.tallies
    waiting = any(both.undecided(side) for side in (0, 1))  # then nobody knows yet what is kept
    measured = [_values(both, "outcome", *_outcome_counts(both), "outcome")]
    for name in one.values:
        if name in other.values:
            a, b = one.values[name], other.values[name]
            measured.append(_values(both, name, a.labels, a.by, b.by))
            measured.append(
                _values(both, name + KEPT_ONES, a.labels, one.values_kept[name].by, other.values_kept[name].by)
            )
    measured += [_hosts(both, host_names, kept=kept) for kept in (False, True)]
    for of, suffix in (("scores", ""), ("scores_kept", KEPT_ONES)):
        for name in getattr(one, of):
            if name in getattr(other, of):
                measured.append(
                    _score(both, spoken(name) + suffix, getattr(one, of)[name], getattr(other, of)[name], name)
                )
    if waiting:
        late = {"outcome", spoken(col.JACCARD), spoken(col.WINDOWS)}
        measured = [_not_decided(m) if m["what"] in late or m["what"].endswith(KEPT_ONES) else m for m in measured]
    wiped = [] if waiting else _wiped(both, host_names)
    ranked = sorted(measured, key=lambda m: (-m["psi"], m["what"]))
    return {
        "alarms": [m for m in ranked if m["alarm"]],
        "notes": [m for m in ranked if m["verdict"] == VALUES],
        "wiped_out": wiped[:WIPED],
        "wiped_out_left_out": max(0, len(wiped) - WIPED),
        "measured": [{k: v for k, v in m.items() if k != "words"} for m in measured],
        "marks": {"moved": MOVED, "large": LARGE, "odds": MARK, "chance": 0.0 if both.exact else CHANCE},
    }


def hosts_to_name(both: Compared) -> list[list[tuple[int, int]]]:
    """For each run, (hash, row) of the hosts whose names are needed."""
    a, b = (t.hosts for t in both.tallies)
    wanted = {*_largest(a, b), *(h for _, h, *_ in _wiped_hosts(both))}
    out: list[list[tuple[int, int]]] = [[], []]
    done: set[int] = set()
    for side, hosts in enumerate((a, b)):
        for h in sorted(wanted - done):
            at = int(np.searchsorted(hosts.hashes, np.uint64(h)))
            if at < len(hosts.hashes) and int(hosts.hashes[at]) == h:
                out[side].append((h, int(hosts.row[at])))
                done.add(h)
    return out


def _not_decided(measured: Mapping[str, Any]) -> dict[str, Any]:
    return _measured(
        measured["what"], measured["kind"], measured["a"], measured["b"], note="documents are not decided yet"
    )


def _outcome_counts(both: Compared) -> tuple[list[str], Any, Any]:
    one, other = both.tallies
    return [label(n) for n in both.outcomes.names], one.outcomes.by, other.outcomes.by


def _values(both: Compared, what: str, labels: Sequence[str], a: Any, b: Any, kind: str = "value") -> dict[str, Any]:
    """A distribution over values; those of few documents are taken together."""
    ta, tb = a[0].sum(0), b[0].sum(0)
    na, nb = int(ta.sum()), int(tb.sum())
    if not min(na, nb):
        return _measured(what, kind, na, nb, note="in one run alone" if max(na, nb) else "in neither run")
    pooled = (ta / na + tb / nb) / 2 * min(na, nb)
    big = np.flatnonzero(pooled >= LEAST_BIN)
    big = big[np.argsort(-pooled[big], kind="stable")]
    rest = np.setdiff1d(np.arange(len(labels)), big)
    names = [labels[i] for i in big.tolist()] + ([OTHERS] if len(rest) else [])
    cells = [
        np.concatenate([m[:, :, big], m[:, :, rest].sum(2, keepdims=True)] if len(rest) else [m[:, :, big]], axis=2)
        for m in (a, b)
    ]
    return _judged(both, what, kind, names, cells[0], cells[1])


def _score(both: Compared, what: str, a: Counts, b: Counts, score: str) -> dict[str, Any]:
    """A histogram, in tenths of both runs together, so that each bin is wide enough."""
    ta, tb = a.totals, b.totals
    na, nb = int(ta.sum()), int(tb.sum())
    if not min(na, nb):
        return _measured(what, "score", na, nb, note="in one run alone" if max(na, nb) else "in neither run")
    upto = np.cumsum(ta / na + tb / nb) / 2
    tenths = max(1, min(BINS, min(na, nb) // LEAST_BIN))
    cuts = np.unique(np.searchsorted(upto, np.arange(1, tenths) / tenths - 1e-12) + 1)
    starts = np.unique(np.concatenate([[0], cuts[cuts < len(ta)]]))
    first = int(np.flatnonzero(ta + tb)[0])
    edges = [lower_edge(int(max(s, first)) + a.base) for s in starts]
    names = bands(edges, all(score in t.integers for t in both.tallies))
    cells = [np.add.reduceat(c.by, starts, axis=2) for c in (a, b)]
    return _judged(both, what, "score", names, cells[0], cells[1])


def bands(edges: Sequence[float], integers: bool) -> list[str]:
    """Names of the bands that begin at these edges, the last one open; those of whole numbers name whole numbers."""
    if len(edges) == 1:
        return ["all"]
    if not integers:
        names = [f"below {edges[1]:,.4g}", *(f"{low:,.4g} to {high:,.4g}" for low, high in pairwise(edges[1:]))]
        return [*names, f"{edges[-1]:,.4g} or more"]
    names = []
    for i, (low, high) in enumerate(pairwise(edges)):
        first, last = math.ceil(low), math.ceil(high) - 1
        names.append(f"{first:,}" if first >= last else f"{first:,} to {last:,}" if i else f"{last:,} or less")
    return [*names, f"{math.ceil(edges[-1]):,} or more"]


def _hosts(both: Compared, names: Mapping[int, str], *, kept: bool) -> dict[str, Any]:
    """The largest hosts. Within a host there is no spread to learn from: that of the groups of hosts between inputs
    stands for it, where there are enough inputs.
    """
    a, b = (t.hosts for t in both.tallies)
    top = _largest(a, b)
    wanted = np.array(top, np.uint64)
    totals = []
    for hosts in (a, b):
        of = np.append(hosts.kept if kept else hosts.documents, 0)
        at = np.searchsorted(hosts.hashes, wanted)
        there = np.append(hosts.hashes, np.uint64(0))[at] == wanted
        counts = np.where(there, of[at], 0)
        totals.append(np.append(counts, of.sum() - counts.sum()))
    labels = [*(names.get(h, f"host {h:016x}") or "(no host)" for h in top), OTHERS]
    effect = _host_effect(both)
    cells = [np.zeros((2, BUCKETS, len(labels)), np.int64) for _ in (a, b)]
    for cell, total in zip(cells, totals, strict=True):
        cell[:, 0, :] = total  # one cluster: no spread can be taken from it
    what, sizes = "host" + KEPT_ONES * kept, [int(c[0].sum()) for c in cells]
    if not min(sizes):
        return _measured(what, "host", sizes[0], sizes[1], note="in one run alone" if max(sizes) else "in neither run")
    return _judged(both, what, "host", labels, cells[0], cells[1], effect)


def _host_effect(both: Compared) -> float:
    """Between inputs, how much more the shares of outcomes vary than by chance: what is known of inputs' unlikeness."""
    one, other = (t.outcomes.by for t in both.tallies)
    effects = []
    for i in range(one.shape[2]):
        sums = [(c[:, :, i].astype(float), c.sum(2).astype(float)) for c in (one, other)]
        pair = [(s[0][0].sum(), s[1][0].sum()) for s in sums]
        if min(pair[0][0], pair[1][0]) >= LEAST_BIN:
            spreads = both.spreads((*sums[0], 0.0), (*sums[1], 0.0))[BY_SOURCE:]
            effects.append(min(UNKNOWN, movement(pair[0], pair[1], 0, spreads, 1.0).deff))
    return max(1.0, float(np.median(effects))) if effects else 1.0


def _judged(
    both: Compared, what: str, kind: str, names: Sequence[str], a: Any, b: Any, assumed: float = 1.0
) -> dict[str, Any]:
    """PSI against its marks and floor, and each value's share against the spread of its clusters."""
    ta, tb = (m[0].sum(0).astype(float) for m in (a, b))
    na, nb = float(ta.sum()), float(tb.sum())
    index, parts = psi(ta, tb)
    joint = both.shared((na, nb))
    rows: list[dict[str, Any]] = []
    effects = []
    whole = [m.sum(2).astype(float) for m in (a, b)]
    for i, name in enumerate(names):
        pair = (float(ta[i]), na), (float(tb[i]), nb)
        spreads = both.spreads((a[:, :, i].astype(float), whole[0], na), (b[:, :, i].astype(float), whole[1], nb))
        found = movement(*pair, joint, spreads, assumed)
        effects.append(min(found.deff, UNKNOWN))
        gone = abs(tb[i] - ta[i] * nb / na)
        beyond = found.p * len(names) < CHANCE
        rows.append({
            "value": name, "bin": i, "a": int(ta[i]), "b": int(tb[i]), "share_a": round(float(ta[i] / na), 6),
            "share_b": round(float(tb[i] / nb), 6), "psi": round(float(parts[i]), 6), "p": found.p,
            "moved": bool(beyond and gone >= LEAST_MOVED and name != OTHERS and _odds(pair) > MARK),
        })  # fmt: skip
    effect = float(np.average(effects, weights=1 - (ta + tb) / (na + nb) + 1e-9)) if effects else 1.0
    kinds = [(a[k].astype(float), b[k].astype(float)) for k in both.kinds(whole[0], whole[1])]
    floor = psi_floor(ta, tb, joint, kinds if assumed == 1.0 else [], CHANCE) * assumed
    enough = min(na, nb) >= LEAST
    level = "large" if index >= LARGE else "moved" if index >= MOVED else ""
    level = level if enough and index > floor else ""
    moved = enough and any(r["moved"] for r in rows)
    verdict = level or (
        VALUES if moved else STABLE if index < MOVED else CHANCE_ALONE if floor < UNTOLD_FLOOR else UNTOLD
    )
    rows.sort(key=lambda r: (-r["psi"], r["value"]))
    return _measured(
        what, kind, int(na), int(nb), psi_=index, floor=floor, effect=effect, alarm=level, verdict=verdict, rows=rows,
        note="" if enough else f"fewer than {LEAST} documents on one side",
    )  # fmt: skip


def _odds(pair: Sequence[tuple[float, float]]) -> float:
    """By how much of themselves the odds of a value changed, the larger of both ways."""
    odds = [(y + 0.5) / (n - y + 0.5) for y, n in pair]
    return max(odds[1] / odds[0], odds[0] / odds[1]) - 1


def _measured(
    what: str, kind: str, a: int, b: int, *, psi_: float = 0.0, floor: float = 0.0, effect: float = 1.0,
    alarm: str = "", verdict: str = "", rows: Sequence[dict[str, Any]] = (), note: str = "",
) -> dict[str, Any]:  # fmt: skip
    out: dict[str, Any] = {
        "what": what, "kind": kind, "a": a, "b": b, "psi": round(psi_, 6), "floor": round(min(floor, UNKNOWN), 6),
        "design_effect": round(effect, 2), "alarm": alarm, "verdict": "" if note else verdict, "note": note,
        "values": list(rows),
    }  # fmt: skip
    return {**out, "words": words(out)} if verdict in (alarm, VALUES) and verdict else out


def words(measured: Mapping[str, Any]) -> str:
    """An alarm or a note as a sentence, with what moved most."""
    rows = measured["values"]
    if measured["verdict"] == VALUES:
        rows = [r for r in rows if r["moved"]]
        head = f"{measured['what']}: {VERDICTS[VALUES]} (PSI {measured['psi']:.3f}: {whole(measured)})"
    else:
        head = f"{measured['what']}: {VERDICTS[measured['verdict']]} (PSI {measured['psi']:.2f})"
    told = [f"{r['value']} {_percent(r['share_a'])} → {_percent(r['share_b'])}" for r in rows[:NAMED]]
    return f"{head}: {', '.join(told)}"


def whole(measured: Mapping[str, Any]) -> str:
    """How a distribution without an alarm stands as a whole."""
    if measured["psi"] < MOVED:
        return "stable as a whole"
    floor = measured["floor"]
    return (
        f"as a whole below the {floor:,.3g} of chance" if floor < UNTOLD_FLOOR else "too few hosts to judge the whole"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share < 0.01 else f"{100 * share:.1f} %"


def _largest(a: Hosts, b: Hosts) -> list[int]:
    """The hosts of most documents in both runs, as shares of each; larger first, then by hash."""
    hashes = np.concatenate([a.hashes, b.hashes])
    if not len(hashes):
        return []
    shares = np.concatenate([h.documents / max(1, h.documents.sum()) for h in (a, b)])
    found, at = np.unique(hashes, return_inverse=True)
    sums = np.bincount(at, weights=shares)
    return [int(h) for h in found[np.argsort(-sums, kind="stable")[:HOSTS]]]


def _limits(both: Compared) -> tuple[float, int]:
    """Above which share lost, and from how many documents on, something counts as wiped out: as B's audit alarms."""
    alarms = both.b.get("alarms", {})
    return float(alarms.get("above", 0.9)), int(alarms.get("least_documents", 20))


_Found = tuple[str, Any, tuple[int, int], tuple[int, int]]  # kind, name or hash; documents and kept of A, of B


def _wiped_hosts(both: Compared) -> list[_Found]:
    above, least = _limits(both)
    a, b = (t.hosts for t in both.tallies)
    if not len(a.hashes):
        return []
    low = np.flatnonzero(a.documents >= least)
    low = low[a.documents[low] - a.kept[low] <= above * a.documents[low]]
    out: list[_Found] = []
    for i in low.tolist():
        at = int(np.searchsorted(b.hashes, a.hashes[i]))
        there = at < len(b.hashes) and b.hashes[at] == a.hashes[i]
        y = (int(b.documents[at]), int(b.kept[at])) if there else (0, 0)
        out.append(("host", int(a.hashes[i]), (int(a.documents[i]), int(a.kept[i])), y))
    return [f for f in out if _is_wiped(both, f[2], f[3], len(out))]


def _is_wiped(both: Compared, a: tuple[int, int], b: tuple[int, int], tests: int) -> bool:
    """Whether B lost what A did not: more than the audit's limit, at least half of what A keeps, and no chance."""
    above, least = _limits(both)
    if a[0] < least or a[0] - a[1] > above * a[0]:
        return False
    if not b[0]:  # not there at all: a loss if B has most of what A has
        return both.joint * 2 > both.tallies[0].rows
    if b[0] < least or b[0] - b[1] <= above * b[0] or b[1] / b[0] > a[1] / a[0] / 2:
        return False
    pair = (float(a[1]), float(a[0])), (float(b[1]), float(b[0]))
    return both.exact or movement(*pair, both.shared((a[0], b[0])), [], 1.0).p * tests < CHANCE


def _wiped(both: Compared, host_names: Mapping[int, str]) -> list[dict[str, Any]]:
    """Hosts, languages and types of which B keeps next to nothing, but A did not lose that much."""
    found: list[_Found] = [(k, host_names.get(h, f"host {h:016x}"), x, y) for k, h, x, y in _wiped_hosts(both)]
    for name in ("language", "media type"):
        if any(name not in t.values for t in both.tallies):
            continue
        a, b = (t.values[name] for t in both.tallies)
        for i, value in enumerate(a.labels):
            x, y = (int(a.totals[i]), int(a.kept[i])), (int(b.totals[i]), int(b.kept[i]))
            if _is_wiped(both, x, y, len(a.labels)):
                found.append((name, value, x, y))
    found.sort(key=lambda f: (-f[2][1], f[0], f[1]))
    return [
        {"kind": k, "name": n, "documents_a": x[0], "kept_a": x[1], "documents_b": y[0], "kept_b": y[1]}
        for k, n, x, y in found
    ]
