"""Documents that met another fate, another text or another keeper, with samples; those that one run alone has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe import batch as col
from cleanpipe.queries.diff_decided import Limits, decided, in_words, limits_of, passed, scores_needed
from cleanpipe.queries.diff_join import DOC_ID, Rows, join, unpaired
from cleanpipe.queries.diff_ledger import UNDECIDED, Ints, Outcomes, mixed, take
from cleanpipe.queries.opened_run import OpenRun

CELLS = 30  # changes of fate that are shown with samples, the largest
_SHOWN = (col.URL, col.SOURCE, col.RECORD_OFFSET, col.DOC_ID)
_TEXT, _KEEPER, _ONLY_A, _ONLY_B = -1, -2, -3, -4  # groups of samples that are no cells
NOT_YET = "not decided yet"
_STRIDE = 1 << 20  # above every number of an outcome: a cell of the matrix as one number
Name = tuple[str, str, str]  # fate, stage, reason


def label(name: Name) -> str:
    """An outcome in words: "kept", "dropped by language_id: low_confidence", "not decided yet"."""
    fate, stage, reason = name
    if fate == UNDECIDED:
        return NOT_YET
    if fate in (col.DROPPED, col.QUARANTINED) and (stage or reason):
        return f"{fate} by {stage}: {reason}" if fate == col.DROPPED else f"{fate} in {stage}: {reason}"
    return fate


class Fates:
    """Collects from the join what is to be told of it. ``sides``: of each run's rows by outcome, those paired."""

    def __init__(self, outcomes: Outcomes, seed: int, samples: int) -> None:
        self.outcomes, self._seed, self._k = outcomes, seed, samples
        self.by_key: dict[str, int] = {}
        self.cells: dict[tuple[int, int], int] = {}
        self.counts = {"both_kept": 0, "text_changed": 0, "keepers": 0, "keeper_changed": 0, "keepers_unknown": 0}
        self.only: list[dict[int, int]] = [{}, {}]
        self.picked: dict[int, list[tuple[int, int, int]]] = {}  # group: (order, row in A, row in B), k smallest

    def pair(self, key: str, a: Rows, b: Rows) -> None:
        """Rows that are the same document, one beside the other."""
        if not len(a):
            return
        self.by_key[key] = self.by_key.get(key, 0) + len(a)
        width = len(self.outcomes.names)
        cells = a["code"] * width + b["code"]
        counts = np.bincount(cells, minlength=0) if width < 2000 else None
        found = np.flatnonzero(counts) if counts is not None else np.unique(cells)
        for cell in found.tolist():
            n = int(counts[cell]) if counts is not None else int((cells == cell).sum())
            at = (cell // width, cell % width)
            self.cells[at] = self.cells.get(at, 0) + n
        changed = a["code"] != b["code"]
        self._pick(a["code"][changed] * _STRIDE + b["code"][changed], a[changed], b[changed])
        kept = np.array([n[0] == col.KEPT for n in self.outcomes.names], bool)
        both = kept[a["code"]] & kept[b["code"]]
        other = both & (a["content"] != b["content"])
        self.counts["both_kept"] += int(both.sum())
        self.counts["text_changed"] += int(other.sum())
        self._pick(np.full(int(other.sum()), _TEXT), a[other], b[other])
        doubles = (a["keeper"] != 0) & (b["keeper"] != 0)
        if key != DOC_ID:  # keepers are named by doc_id, which is another in the other run
            self.counts["keepers_unknown"] += int(doubles.sum())
            return
        other = doubles & (a["keeper"] != b["keeper"])
        self.counts["keepers"] += int(doubles.sum())
        self.counts["keeper_changed"] += int(other.sum())
        self._pick(np.full(int(other.sum()), _KEEPER), a[other], b[other])

    def alone(self, side: int, rows: Rows) -> None:
        """Rows of A (0) or B (1) without a partner."""
        codes, counts = np.unique(rows["code"], return_counts=True)
        for code, n in zip(codes.tolist(), counts.tolist(), strict=True):
            self.only[side][code] = self.only[side].get(code, 0) + n
        nobody = np.zeros(len(rows), rows.dtype)
        nobody["row"] = -1
        pair = (rows, nobody) if side == 0 else (nobody, rows)
        self._pick(np.full(len(rows), _ONLY_B if side else _ONLY_A), *pair)

    def _pick(self, groups: Ints, a: Rows, b: Rows) -> None:
        """Keep the k of smallest hash of each group: the same whichever run is A."""
        if not len(groups) or not self._k:
            return
        order = mixed(mixed(a["id"]) + mixed(b["id"]), self._seed)
        ranked = np.lexsort((b["row"], a["row"], order, groups))
        sorted_ = groups[ranked]
        starts = np.searchsorted(sorted_, sorted_)
        chosen = ranked[np.arange(len(ranked)) - starts < self._k]
        for i in chosen.tolist():
            self.picked.setdefault(int(groups[i]), []).append((int(order[i]), int(a["row"][i]), int(b["row"][i])))
        for group in np.unique(groups).tolist():
            self.picked[group] = sorted(self.picked[group])[: self._k]


def fates(a: OpenRun, b: OpenRun, outcomes: Outcomes, *, seed: int, samples: int) -> dict[str, Any]:
    """Everything of the module, as plain JSON.

    Args:
        a, b: the runs. outcomes: of both; numbers are given out as names are met.
        seed, samples: the k documents of smallest hash(seed, doc_ids) stand for each change.
    """
    found = Fates(outcomes, seed, samples)
    paired = join(a, b, outcomes, found.pair, scratch=a.recipe.storage.scratch)
    for side, (run, mask) in enumerate(zip((a, b), paired, strict=True)):
        for rows in unpaired(run, mask, outcomes):
            found.alone(side, rows)
    return _told(a, b, found, paired)


def _told(
    a: OpenRun, b: OpenRun, found: Fates, paired: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]
) -> dict[str, Any]:
    names = found.outcomes.names
    waiting = {i for i, name in enumerate(names) if name[0] == UNDECIDED}
    decided_ = {c: n for c, n in found.cells.items() if not waiting & {*c}}
    changed = sorted(((n, c) for c, n in decided_.items() if c[0] != c[1]), key=lambda x: _rank(x, names))
    shown = {c for _, c in changed[:CELLS]}
    picked = {g: rows for g, rows in found.picked.items() if g < 0 or divmod(g, _STRIDE) in shown}
    tell = _Teller(a, b, picked)
    joined = sum(found.by_key.values())

    def alone(side: int, group: int) -> dict[str, Any]:
        return {
            "documents": sum(found.only[side].values()),
            "by_outcome": _ranked({label(names[c]): n for c, n in found.only[side].items()}),
            "samples": tell.samples(group),
        }

    return {
        "a": len(paired[0]),
        "b": len(paired[1]),
        "joined": joined,
        "joined_by": dict(found.by_key),
        "same_fate": sum(n for (i, j), n in decided_.items() if i == j),
        "changed": sum(n for n, _ in changed),
        "undecided": {
            "documents": joined - sum(decided_.values()),
            **{s: sum(n for c, n in found.cells.items() if c[i] in waiting) for i, s in enumerate("ab")},
        },
        "matrix": [
            {"a": label(names[i]), "b": label(names[j]), "documents": n}
            for n, (i, j) in sorted(((n, c) for c, n in found.cells.items()), key=lambda x: _rank(x, names))
        ],
        "changes": [
            {
                "a": label(names[i]),
                "b": label(names[j]),
                "documents": n,
                "samples": tell.samples(i * _STRIDE + j),
            }
            for n, (i, j) in changed[:CELLS]
        ],
        "changes_left_out": max(0, len(changed) - CELLS),
        "text": {
            "kept_in_both": found.counts["both_kept"],
            "changed": found.counts["text_changed"],
            "samples": tell.samples(_TEXT),
        },
        "keepers": {
            "duplicates_in_both": found.counts["keepers"],
            "changed": found.counts["keeper_changed"],
            "not_compared": found.counts["keepers_unknown"],
            "samples": tell.samples(_KEEPER),
        },
        "only_a": alone(0, _ONLY_A),
        "only_b": alone(1, _ONLY_B),
        "notes": tell.notes,
    }


def _rank(entry: tuple[int, tuple[int, int]], names: Sequence[Name]) -> Any:
    n, (i, j) = entry
    return -n, sorted((label(names[i]), label(names[j]))), label(names[i])


def _ranked(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


class _Teller:
    """Reads the sampled rows of both ledgers once, and says what decided on them."""

    def __init__(self, a: OpenRun, b: OpenRun, picked: Mapping[int, Sequence[tuple[int, int, int]]]) -> None:
        self._picked = picked
        self._limits: list[Limits] = []
        self.notes: list[str] = []
        self._rows: list[dict[int, dict[str, Any]]] = []
        for side, run in enumerate((a, b)):
            limits, unknown = limits_of(run)
            self._limits.append(limits)
            self.notes += unknown
            wanted = {rows[side + 1] for group in picked.values() for rows in group} - {-1}
            columns = [*_SHOWN, col.FATE, col.STAGE, col.REASON, col.CONTENT_ID, col.CHARS_OUT, *scores_needed(limits)]
            self._rows.append(take(run, np.array(sorted(wanted), np.int64), list(dict.fromkeys(columns))))

    def samples(self, group: int) -> list[dict[str, Any]]:
        """The group's, in the order of their hashes."""
        out = []
        for _, at_a, at_b in self._picked.get(group, ()):
            rows = [self._rows[0].get(at_a), self._rows[1].get(at_b)]
            first = next(r for r in rows if r is not None)
            sample: dict[str, Any] = {col.URL: first[col.URL]}
            deciding = [self._deciding(side, row) for side, row in enumerate(rows)]
            for side, row in enumerate(rows):
                if row is not None:
                    sample["ab"[side]] = self._side(side, row, deciding[side], deciding[1 - side])
            out.append(sample)
        return out

    def _deciding(self, side: int, row: Mapping[str, Any] | None) -> list[tuple[Any, float]]:
        if row is None or row[col.FATE] != col.DROPPED:
            return []
        return decided(self._limits[side], row[col.STAGE], row[col.REASON], row)

    def _side(
        self, side: int, row: Mapping[str, Any], own: Sequence[tuple[Any, float]], other: Sequence[tuple[Any, float]]
    ) -> dict[str, Any]:
        words = [in_words(row[col.STAGE], cut, value) for cut, value in own]
        if not words and other:
            stage = next((s for s, cuts in self._limits[1 - side].items() if other[0][0] in cuts), "")
            words = [in_words(stage, c, v) for c, v in passed(self._limits[side], stage, [c for c, _ in other], row)]
        out = {
            "outcome": label((row[col.FATE] or UNDECIDED, row[col.STAGE] or "", row[col.REASON] or "")),
            "decided": words,
            **{n: _plain(row[n]) for n in (*_SHOWN, col.CONTENT_ID, col.CHARS_OUT)},
        }
        if row[col.KEPT_DOC_ID] is not None:
            out |= {n: _plain(row[n]) for n in (col.KEPT_DOC_ID, col.JACCARD)}
        return out


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value
