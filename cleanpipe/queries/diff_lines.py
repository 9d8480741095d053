"""Audit lines that moved: by count where both runs read the same, else beyond what sampling explains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cleanpipe.audit.bins import QUANTILES, WIDTH, edges, lower_edge
from cleanpipe.audit.lines import share
from cleanpipe.queries import diff_walk as walk
from cleanpipe.queries.diff_stats import CONFIDENCE, FALSE_DISCOVERIES, discoveries, movement
from cleanpipe.queries.diff_sums import Compared, Sums, reason_of, sums_of
from cleanpipe.queries.diff_tally import BY_HOST, Counts

LAST = len(edges()) // 2  # ordinal of the last bin, which is open
_UNMEASURED = 0.9  # lines whose spread the ledger does not tell take this quantile of the design effects of the others
_PARTS = (("of", "denominator"), ("n", "numerator"))
Entry = dict[str, Any]
Lines = Mapping[walk.Path, Mapping[str, Any]]


def compare(both: Compared) -> dict[str, Any]:
    """All lines of the audits and the quantiles of all scores, as plain JSON; the largest movement first."""
    left, right = walk.lines(both.a), walk.lines(both.b)
    for here, there, audit in ((left, right, both.a), (right, left, both.b)):
        here.update({p: zero for p in {*there} - {*here} if (zero := _none_dropped(audit, p)) is not None})
    not_yet = both.pending()
    left, right = ({p: v for p, v in lines.items() if not not_yet(p)} for lines in (left, right))
    one, two = walk.absent_sections(both.a), walk.absent_sections(both.b)
    words = [
        _entry((s,), {"value": one.get(s, "there")}, {"value": two.get(s, "there")})
        for s in sorted({*one} ^ {*two})
        if not not_yet((s,))
    ]
    shares, not_comparable = _split(left, right)
    tests, untested = (shares, []) if both.exact else _test(both, shares, left, right)
    quantiles = _quantiles(both)
    if not both.exact:
        every = [*tests, *quantiles]
        for entry, yes in zip(every, discoveries([e["p"] for e in every]), strict=True):
            entry["moved"] = yes and not entry["low"] <= 0 <= entry["high"]
    moved = [e for e in tests if e.get("moved", e["a"] != e["b"])]
    return {
        "compared": len(tests),
        "moved": sorted(moved, key=lambda e: (-abs(e["difference"]), e["line"])),
        "quantiles": [e for e in quantiles if e.get("moved", True) and e["a"] != e["b"]],
        "quantiles_from": f"read from bins {WIDTH}, and rounded to these",
        "numbers": _numbers(both) if both.exact else [],
        "untested": untested,
        "not_comparable": [*not_comparable, *words],
        "only_a": _alone(left, right, one, two),
        "only_b": _alone(right, left, one, two),
        "design_effect": round(float(np.median(both.deffs)), 2) if both.deffs else None,
        "method": _method(both),
    }


def _entry(path: walk.Path, a: Mapping[str, Any], b: Mapping[str, Any]) -> Entry:
    unit = a.get("unit", b.get("unit", ""))
    factor = any(isinstance(x["value"], float) and x["value"] > 1 for x in (a, b))
    return {"line": ".".join(path), "words": walk.words(path, factor), "unit": unit, "a": a["value"], "b": b["value"]}


def _split(left: Lines, right: Lines) -> tuple[list[Entry], list[Entry]]:
    """Lines that have a share in both runs; and those that have one in one of them, and in the other a word."""
    shares, not_comparable = [], []
    for path in [p for p in left if p in right]:
        a, b = left[path], right[path]
        entry = _entry(path, a, b)
        if isinstance(a["value"], str) or isinstance(b["value"], str):
            not_comparable += [entry] if a["value"] != b["value"] else []
        elif not _is_number(a) or not _is_number(b):
            entry |= {f"{what}_{s}": x[key] for s, x in (("a", a), ("b", b)) for what, key in _PARTS}
            shares.append({**entry, "difference": round(b["value"] - a["value"], 6)})
    return shares, not_comparable


def _is_number(line: Mapping[str, Any]) -> bool:
    """Whether it is a plain count (see ``_numbers``), no part of anything."""
    return line["denominator"] == 1 and isinstance(line["value"], int)


def _test(both: Compared, shares: list[Entry], left: Lines, right: Lines) -> tuple[list[Entry], list[Entry]]:
    """The shares, each with its interval and p; and those of which the ledger cannot tell what chance does to them."""
    by_name = {".".join(p): p for p in left}
    tests, rest, untested = [], [], []
    for entry in shares:
        path = by_name[entry["line"]]
        a, b = left[path], right[path]
        sums = [sums_of(both, i, path, line["value"]) for i, line in enumerate((a, b))]
        if sums[0] is not None and sums[1] is not None:
            tests.append(_tested(both, entry, a, b, sums[0], sums[1]))
        else:
            rest.append((entry, a, b))
    for entry, a, b in rest:
        if both.deffs and _is_share(a) and _is_share(b):
            tests.append(_tested(both, entry, a, b))
        elif a["value"] != b["value"]:
            untested.append(entry)
    return tests, untested


def _none_dropped(audit: Mapping[str, Any], path: walk.Path) -> Mapping[str, Any] | None:
    """The line of a reason for which this run dropped nothing, and therefore does not list it; None where its stage is
    not in the run, or does not know the reason.
    """
    stages, reason = reason_of(audit, path)
    stage = audit["stages"].get(stages[0]) if stages else None
    if stage is None or not reason or not isinstance(stage.get("docs_in"), int):
        return None
    whole = stage["docs_in"]
    return share(0, whole, "documents that reached the stage")


def _is_share(line: Mapping[str, Any]) -> bool:
    """Whether it counts documents among documents."""
    return line["numerator"] <= line["denominator"] and ("documents" in line["unit"] or line["unit"] == "ledger rows")


def _tested(
    both: Compared, entry: Entry, a: Mapping[str, Any], b: Mapping[str, Any],
    one: Sums | None = None, other: Sums | None = None,
) -> dict[str, Any]:  # fmt: skip
    spreads = both.spreads(one, other) if one is not None and other is not None else []
    documents = [s[2] if s is not None else float(c["denominator"]) for s, c in ((one, a), (other, b))]
    pair = [(c["numerator"] / c["denominator"] * n, n) for c, n in zip((a, b), documents, strict=True)]
    assumed = float(np.quantile(both.deffs, _UNMEASURED)) if both.deffs else 1.0
    found = movement(pair[0], pair[1], both.shared((documents[0], documents[1])), spreads, assumed)
    known = math.isfinite(found.deff)
    if spreads and known:
        both.deffs.append(found.deff)
    return entry | {
        "documents_a": int(documents[0]),
        "documents_b": int(documents[1]),
        "low": round(found.low, 6),
        "high": round(found.high, 6),
        "p": found.p,
        "design_effect": round(found.deff, 2) if known else None,
        "measured": bool(spreads) and known,
    }


def _quantiles(both: Compared) -> list[Entry]:
    """Scores of which a quantile lies in another bin. Sampled: the share of documents below the quantile of both runs
    together is compared, which needs no spacing of the values.
    """
    out = []
    one, other = both.tallies
    not_yet = both.pending()
    for of, which in (("scores", "all"), ("scores_kept", "kept")):
        for name in sorted({*getattr(one, of)} & {*getattr(other, of)}):
            if not_yet((of, name, which)):
                continue
            a, b = getattr(one, of)[name], getattr(other, of)[name]
            if not a.totals.sum() or not b.totals.sum():
                continue
            pooled = a.totals / a.totals.sum() + b.totals / b.totals.sum()
            for q in QUANTILES:
                bins = [_at(c, q) for c in (a, b)]
                integers = all(name in t.integers for t in both.tallies)
                values = [rounded(*b, integers) for b in bins]
                entry: dict[str, Any] = {
                    "score": name, "of": which, "quantile": q, "a": values[0], "b": values[1],
                    "bin_a": list(bins[0]), "bin_b": list(bins[1]),
                    "of_a": int(a.totals.sum()), "of_b": int(b.totals.sum()),
                }  # fmt: skip
                if both.exact:
                    out += [entry] if values[0] != values[1] else []
                    continue
                upto = np.append(0.0, np.cumsum(pooled) / 2)
                cut = int(np.argmin(np.abs(upto - q)))  # the border between bins that is nearest
                sums = [
                    (c.by[:, :, :cut].sum(2).astype(float), c.by.sum(2).astype(float), float(c.totals.sum()))
                    for c in (a, b)
                ]
                lines = [
                    {"numerator": int(c.totals[:cut].sum()), "denominator": int(c.totals.sum()), "unit": "documents"}
                    for c in (a, b)
                ]
                out.append(_tested(both, entry, lines[0], lines[1], sums[0], sums[1]))
    return out


def _at(counts: Counts, q: float) -> tuple[float, float]:
    """The bin that holds the quantile: lower and upper edge."""
    upto = np.cumsum(counts.totals)
    rank = -(-int(upto[-1]) * round(q * 100) // 100)
    ordinal = int(np.searchsorted(upto, rank)) + counts.base
    return lower_edge(ordinal), lower_edge(min(ordinal + 1, LAST))


def rounded(low: float, high: float, integers: bool) -> float:
    """What a bin tells of a value in it: the only whole number there; else two decimals, or three digits."""
    first, last = math.ceil(low), math.ceil(high) - 1
    if integers and first >= last:
        return first
    if abs(low) < 10:
        return round(low, 2)
    middle = float(f"{(first + last) / 2 if integers else (low + high) / 2:.3g}")
    return round(middle) if integers else middle


def _numbers(both: Compared) -> list[Entry]:
    """Plain numbers that differ: totals, and rows of the tables (0 where a table of both does not list the row). What
    was not measured is not among them: the share that was says the same.
    """
    left, right = walk.counts(both.a), walk.counts(both.b)
    for lines, counts in ((walk.lines(both.a), left), (walk.lines(both.b), right)):
        counts.update(
            {p: v["value"] for p, v in lines.items() if v.get("denominator") == 1 and isinstance(v["value"], int)}
        )
    not_yet = both.pending()
    tables = [{p[:-1] for p in counts} for counts in (left, right)]
    out = []
    for path in {p for p in (*left, *right) if not not_yet(p)}:
        if path[:-1] in tables[0] and path[:-1] in tables[1] and path[-1] != "not_measured":
            a, b = left.get(path, 0), right.get(path, 0)
            if a != b:
                out.append({"line": ".".join(path), "words": walk.words(path), "a": a, "b": b, "difference": b - a})
    return sorted(out, key=lambda e: (-abs(e["difference"]), e["line"]))


def _alone(here: Mapping[walk.Path, Any], there: Mapping[walk.Path, Any], *absent: Mapping[str, str]) -> list[str]:
    sections = {s for a in absent for s in a}
    paths = [p for p in here if p not in there and p[0] not in sections]
    curves = [f"keep-curve of {p[2]}" if p[1:2] == ("keep_curve",) else walk.words(p) for p in paths]
    return list(dict.fromkeys(curves))


def _method(both: Compared) -> str:
    if both.exact:
        return (
            "Both runs read the same documents: every count is exact, there is no sampling error, and every difference "
            "is one."
        )
    groups = sum(int(np.count_nonzero(t.outcomes.by[BY_HOST].sum(1))) for t in both.tallies)
    inputs = ", and between inputs where there are enough" if min(t.sources for t in both.tallies) > 1 else ""
    effect = f" (design effect {np.median(both.deffs):,.1f} in the middle)" if both.deffs else ""
    return (
        f"The documents differ: {both.joint:,} are in both. Pages of one host are alike, so the spread is taken "
        f"between hosts, in {groups:,} groups{inputs}{effect}. A line has moved if chance does not explain it; "
        f"{_percent(FALSE_DISCOVERIES)} of such lines may be chance (Benjamini-Hochberg). Intervals hold "
        f"{_percent(CONFIDENCE)} of the time; they and the tests are of the same standard error, and wider where few "
        "hosts decide (Student's t)."
    )


def _percent(share_: float) -> str:
    return f"{share_:.0%}".replace("%", " %")
