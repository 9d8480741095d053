"""How much ``tune`` says is kept: what is certain, between which bounds the rest lies, and an estimate of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe import batch as col
from cleanpipe.queries.tune import IF, NOT_KNOWN, OLDER, UNDECIDED, Fate, Tuned
from cleanpipe.queries.tune_ledger import Piece

Counts = Mapping[tuple[Fate, Fate], int]


def kept(tuned: Tuned, counts: Counts) -> dict[str, Any]:
    """Documents, bytes read and characters written of the kept.

    Each with ``before``, ``after`` (if no unknown one is kept), ``least`` and ``most`` (certain bounds; most is null
    where a text's length is not known) and ``likely``: an estimate, null where there is nothing to take it from.
    An unknown document is taken to be kept as often as those that came as far as the stage were in the run.

    documents have more: certain and contingent, which are those of ``after``; stay: of those kept before, those that
    are kept, stay_if: of these, those that an unknown one may stand for, stay_open: those that are unknown themselves;
    come: kept now, not before; shares: by stage, the share that the estimate took; open: how many unknown ones went
    before, by the stage where they went.
    """
    shares = _shares(tuned, counts)
    documents = _amounts(counts, shares)
    documents |= {
        "stay": _sum(counts, lambda a, b: a.fate == col.KEPT == b.fate),
        "stay_if": _sum(counts, lambda a, b: a.fate == col.KEPT == b.fate and b.sure == IF),
        "stay_open": _sum(counts, lambda a, b: a.fate == col.KEPT and b.fate == NOT_KNOWN),
        "come": _sum(counts, lambda a, b: a.fate != col.KEPT == b.fate),
        "shares": {stage: round(share, 6) for stage, share in (shares or {}).items()},
        "open": _open(counts),
    }  # fmt: skip
    sizes, lengths_open = _sizes(tuned)
    out = {"documents": documents, **{what: _amounts(sums, shares) for what, sums in sizes.items()}}
    if lengths_open:
        out["characters"] |= {"most": None, "likely": None}
    for what in sizes:
        out[what] = {k: out[what][k] for k in ("before", "after", "least", "most", "likely")}
    return out


def _sum(counts: Counts, wanted: Any) -> int:
    return sum(n for (a, b), n in counts.items() if wanted(a, b))


def _open(counts: Counts) -> dict[str, int]:
    found: Counter[str] = Counter()
    for (a, b), n in counts.items():
        if b.fate == NOT_KNOWN and a.fate not in (col.KEPT, UNDECIDED):
            found[a.stage] += n
    return dict(found.most_common())


def _amounts(counts: Counts, shares: Mapping[str, float] | None) -> dict[str, Any]:
    certain = _sum(counts, lambda _, b: b.fate == col.KEPT and b.sure != IF)
    contingent = _sum(counts, lambda _, b: b.fate == col.KEPT and b.sure == IF)
    may = _sum(counts, lambda _, b: b.fate == NOT_KNOWN or (b.fate == col.DROPPED and b.sure == IF))
    likely = None
    if shares is not None:
        open_ones = sum(shares[b.stage] * n for (_, b), n in counts.items() if b.fate == NOT_KNOWN)
        likely = certain + contingent + round(open_ones)
    return {
        "before": _sum(counts, lambda a, _: a.fate == col.KEPT), "after": certain + contingent, "certain": certain,
        "contingent": contingent, "least": certain, "most": certain + contingent + may, "likely": likely,
    }  # fmt: skip


def _shares(tuned: Tuned, counts: Counts) -> dict[str, float] | None:
    """By stage at which documents are unknown: of those that came as far in the run, the share that was kept. None
    where a stage would do something else than in the run, or nothing came as far.
    """
    place = {name: i for i, name in enumerate(tuned.plan.order)}
    blind = {OLDER, *(s.blind for s in tuned.plan.steps if s.blind)}
    stayed = _sum(counts, lambda a, _: a.fate == col.KEPT)
    out: dict[str, float] = {}
    for _, b in counts:
        if b.fate != NOT_KNOWN or b.stage in out:
            continue
        if b.why in blind:
            return None
        at = place.get(b.stage, 0)
        came = stayed + sum(n for (was, _), n in counts.items() if place.get(was.stage, -1) >= at)
        if not came:
            return None
        out[b.stage] = stayed / came
    return out


def _sizes(tuned: Tuned) -> tuple[dict[str, dict[tuple[Fate, Fate], int]], bool]:
    """Bytes read and characters written from each old fate to each new one; whether an unknown one's text has no known
    length.
    """
    width = max(len(tuned.after), 1)
    names = {"bytes": col.BYTES_IN, "characters": col.CHARS_OUT}
    sums = np.zeros((len(names), max(len(tuned.before), 1) * width), np.int64)
    unknown = np.array([f.fate == NOT_KNOWN for f in tuned.after] or [False])
    lengths_open = False

    def work(piece: Piece) -> tuple[npt.NDArray[np.int64], bool]:
        table = tuned.ledger.read(piece, list(names.values()))
        new = tuned.new[piece.span]
        code = tuned.old[piece.span].astype(np.int64) * width + new
        values = (table.column(name).fill_null(0).to_numpy() for name in names.values())
        found = np.array([np.bincount(code, v, sums.shape[1]) for v in values]).astype(np.int64)
        chars = table.column(col.CHARS_OUT)
        none = unknown.any() and chars.null_count and bool((unknown[new] & chars.is_null().to_numpy()).any())
        return found, bool(none)

    for found, none in tuned.ledger.each(work):
        sums += found
        lengths_open = lengths_open or none
    pairs = [(a, b) for a in tuned.before for b in tuned.after]
    return {
        what: {pair: n for pair, n in zip(pairs, row, strict=True) if n}
        for what, row in zip(names, sums.tolist(), strict=True)
    }, lengths_open
