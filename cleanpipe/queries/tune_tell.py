"""The answer of ``tune``: what is kept before and after, by stage and reason, and what flips, with samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.audit.facts import HOST, mixed
from cleanpipe.queries.diff_recipe import NOT_SET, in_force, spelled
from cleanpipe.queries.opened_run import OpenRun
from cleanpipe.queries.tune import IF, NOT_KNOWN, SOMEHOW, UNDECIDED, Fate, Tuned, outcomes
from cleanpipe.queries.tune_kept import kept
from cleanpipe.queries.tune_ledger import Piece
from cleanpipe.queries.tune_samples import samples_of
from cleanpipe.queries.tune_steps import forgotten
from cleanpipe.recipe import Recipe

TOP = 20
FLIPS = ("lost", "gained", "moved", "decided", "unknown")
HOSTS_READ = 250_000  # flips of which the hosts are counted: URLs are the widest column of a ledger


def kind_of(before: Fate, after: Fate) -> str:
    """lost: kept before, gone now. gained: the other way. moved: gone for something else. decided: the
    run, unfinished, has not. unknown. "" for none.
    """
    if after.fate == NOT_KNOWN:
        return "unknown"
    if (before.fate, before.stage, before.reason) == (after.fate, after.stage, after.reason):
        return ""
    if before.fate == UNDECIDED:
        return "decided"
    if before.fate == col.KEPT:
        return "lost"
    return "gained" if after.fate == col.KEPT else "moved"


def tell(run: OpenRun, tuned: Tuned, *, samples: int = 20, seed: int = 0) -> dict[str, Any]:
    """The answer as plain JSON values; see ``cleanpipe.queries.tune_text`` for how it is read."""
    counts = outcomes(tuned)
    answer: dict[str, Any] = {
        "out": run.root,
        **({"caution": run.caution} if run.caution else {}),
        "changes": [_change(run.recipe, tuned, *change) for change in tuned.plan.changes],
        "notes": [*tuned.plan.cautions, *_notes(tuned)],
        "rows": int(tuned.old.size),
        "kept": kept(tuned, counts),
        "undecided": {
            when: sum(n for pair, n in counts.items() if pair[i].fate == UNDECIDED)
            for i, when in enumerate(("before", "after"))
        },
        "funnel": _funnel(tuned, counts),
        "unknown": _unknown(counts),
        "flips": {k: sum(n for (a, b), n in counts.items() if kind_of(a, b) == k) for k in FLIPS},
    }
    answer["contingent"] = {
        "kept": sum(n for (_, b), n in counts.items() if b.fate == col.KEPT and b.sure == IF),
        "dropped": sum(n for (_, b), n in counts.items() if b.fate == col.DROPPED and b.sure == IF),
        "reason_open": sum(n for (_, b), n in counts.items() if b.sure == SOMEHOW),
    }
    flips = _flips(tuned)
    answer["by"], answer["hosts"] = _by(tuned, flips)
    answer["samples"] = samples_of(tuned, _picked(flips, samples, seed))
    return answer


def _funnel(tuned: Tuned, counts: Mapping[tuple[Fate, Fate], int]) -> list[dict[str, Any]]:
    """For each step the documents that went at it, by reason, before and after."""
    names = [*(s.name for s in tuned.plan.steps), *tuned.plan.off]
    known = set(names)
    names += sorted({f.stage for pair in counts for f in pair if f.stage} - known)
    rows = []
    for name in names:
        reasons: dict[str, dict[str, int]] = {}
        for (a, b), n in counts.items():
            for when, fate in (("before", a), ("after", b)):
                if fate.stage == name:
                    label = fate.reason or NOT_KNOWN
                    entry = reasons.setdefault(label, {"before": 0, "after": 0})
                    entry[when] += n
        rows.append({"stage": name, "runs": name not in tuned.plan.off, "reasons": dict(sorted(reasons.items()))})
    return rows


def _unknown(counts: Mapping[tuple[Fate, Fate], int]) -> list[dict[str, Any]]:
    """At which stage documents are unknown, and why."""
    found: Counter[tuple[str, str]] = Counter()
    for (_, b), n in counts.items():
        if b.fate == NOT_KNOWN:
            found[b.stage, b.why] += n
    return [{"stage": s, "why": w, "documents": n} for (s, w), n in sorted(found.items(), key=lambda i: (-i[1], i[0]))]


def _notes(tuned: Tuned) -> Iterator[str]:
    idle = [n for n, _, _ in tuned.plan.changes if n.partition(".")[0] in ("shards", "audit")]
    steps = {s.name: s for s in tuned.plan.steps}
    for name, before, after in tuned.plan.changes:
        stage = name.partition(".")[0]
        step = steps.get(stage)
        if step is not None and not step.drops and not name.endswith(".enabled"):
            text_rule = step.stage is not None and step.stage.text_rule() is not None
            reader = [s.name for s in tuned.plan.steps if s.blind and s.drops]
            if not text_rule and not reader:
                idle.append(name)
        if name.endswith(".enabled") and after is False and before is True:
            yield f"{stage} is switched off"
    yield from forgotten(tuned.plan)
    if idle:
        yield f"{', '.join(idle)}: decides no document's fate"
    if not tuned.plan.changes:
        yield "every option has the value that it had in the run: nothing changes"


def _kinds(tuned: Tuned) -> npt.NDArray[np.int8]:
    """For each old and new fate the place of their kind in FLIPS, else -1: [before, after]."""
    table = np.full((max(len(tuned.before), 1), max(len(tuned.after), 1)), -1, np.int8)
    for i, a in enumerate(tuned.before):
        for j, b in enumerate(tuned.after):
            if kind := kind_of(a, b):
                table[i, j] = FLIPS.index(kind)
    return table


def _flips(tuned: Tuned) -> npt.NDArray[np.int8]:
    """The kind of each row, as a place in FLIPS; -1 where its fate is what it was."""
    flips: npt.NDArray[np.int8] = _kinds(tuned)[tuned.old, tuned.new]
    return flips


_By = dict[str, dict[str, list[dict[str, Any]]]]


def _by(tuned: Tuned, flips: npt.NDArray[np.int8]) -> tuple[_By, dict[str, int]]:
    """Flips of each kind by language and by host, the most first; and of how many flips the hosts were read: where
    there are more than HOSTS_READ, blocks of rows are skipped evenly.
    """
    ledger = tuned.ledger
    many = int(np.count_nonzero(flips >= 0))
    stride = -(-many // HOSTS_READ) or 1
    wanted = [p for p in ledger.pieces if (flips[p.span] >= 0).any()]
    hosts = {p.first for p in wanted[::stride]}
    read = sum(int(np.count_nonzero(flips[p.span] >= 0)) for p in wanted if p.first in hosts)
    spoken = [n for n in (col.LANGUAGE, col.LANGUAGE_PREVIEW) if n in ledger.names]

    def work(piece: Piece) -> pa.Table:
        kind = flips[piece.span]
        mask = kind >= 0
        with_host = piece.first in hosts
        columns = [col.URL, *spoken] if with_host else spoken
        if not columns:
            return _counted(pa.array(kind[mask]), "language", pa.nulls(int(mask.sum()), pa.string()))
        table = ledger.read(piece, columns, coded=spoken).filter(pa.array(mask))
        parts = [table.column(n).cast(pa.string()) for n in spoken]
        language = pc.coalesce(*parts) if parts else pa.nulls(table.num_rows, pa.string())
        kinds = pa.array(kind[mask])
        found = [_counted(kinds, "language", language)]
        if with_host:
            host = pc.utf8_lower(pc.struct_field(pc.extract_regex(table.column(col.URL), HOST), "host"))
            found.append(_counted(kinds, "host", host))
        return pa.concat_tables(found)

    tables = list(ledger.each(work, lambda p: bool((flips[p.span] >= 0).any())))
    out: _By = {}
    if tables:
        whole = pa.concat_tables(tables).group_by(["kind", "what", "name"]).aggregate([("n", "sum")])
        for i, kind in enumerate(FLIPS):
            for what in ("language", "host"):
                mine = whole.filter(pc.and_(pc.equal(whole["kind"], i), pc.equal(whole["what"], what)))
                if mine.num_rows:
                    out.setdefault(kind, {})[what] = _top(mine)
    return out, {"read": read, "of": many}


def _counted(kinds: pa.Array, what: str, names: pa.ChunkedArray | pa.Array) -> pa.Table:
    """How often each name is there for each kind; "" where there is none."""
    table = pa.table({"kind": kinds, "name": pc.fill_null(names, "")})
    found = table.group_by(["kind", "name"], use_threads=False).aggregate([([], "count_all")])
    label = pa.array([what] * found.num_rows, pa.string())
    columns = {"kind": found["kind"], "what": label, "name": found["name"], "n": found["count_all"]}
    return pa.table(columns)


def _top(counts: pa.Table) -> list[dict[str, Any]]:
    ranked = counts.sort_by([("n_sum", "descending"), ("name", "ascending")])
    first = ranked.slice(0, TOP)
    pairs = zip(first["name"].to_pylist(), first["n_sum"].to_pylist(), strict=True)
    out: list[dict[str, Any]] = [{"name": name or "not known", "documents": n} for name, n in pairs]
    if ranked.num_rows > TOP:
        rest = pc.sum(ranked["n_sum"].slice(TOP)).as_py()
        out.append({"name": f"{ranked.num_rows - TOP:,} others", "documents": rest})
    return out


def _picked(flips: npt.NDArray[np.int8], samples: int, seed: int) -> dict[str, list[int]]:
    """Of each kind the rows of smallest hash of seed and place in the ledger."""
    key = mixed(np.array([seed % (1 << 64)], np.uint64))
    out: dict[str, list[int]] = {}
    for i, kind in enumerate(FLIPS):
        places = np.flatnonzero(flips == i)
        if places.size:
            order = mixed(places.astype(np.uint64) ^ key)
            some = np.argpartition(order, min(samples, places.size - 1))[:samples]
            out[kind] = places[some[np.argsort(order[some])]].tolist()
    return out


def _change(old: Recipe, tuned: Tuned, option: str, before: Any, after: Any) -> dict[str, Any]:
    """An option's values, and in words what is in force where one is not set."""
    stage, _, name = option.partition(".")
    words = []
    for recipe, value in ((old, before), (tuned.plan.recipe, after)):
        said = spelled(_plain(value))
        limit = in_force(recipe, stage).get(name) if said == NOT_SET else None
        words.append(said if limit is None else f"{said} ({limit} in force)")
    return {"option": option, "before": _plain(before), "after": _plain(after), "words": " → ".join(words)}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (tuple, frozenset, set)) else value


def masks(tuned: Tuned, wanted: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which pairs of old and new fate are of the wanted kinds: [before, after]."""
    return np.isin(_kinds(tuned), [FLIPS.index(k) for k in wanted])
