"""What decisions mean for the documents of a store: one pass over the columns of its spans, a shard at a time."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.audit.facts import HOST
from cleanpipe.tokens import decisions_lines as lines
from cleanpipe.tokens.decisions_lines import Decision, Decisions
from cleanpipe.tokens.layout import DOCUMENT

if TYPE_CHECKING:
    from cleanpipe.tokens.store import TokenStore

Ints = npt.NDArray[np.int64]
RELEASED, WEIGHT, MASK, QUARANTINE = 0, 1, 2, 3  # the stronger wins; of two of a kind the later line
CODES = {lines.WEIGHT: WEIGHT, lines.MASK: MASK, lines.QUARANTINE: QUARANTINE}
NAMES = {code: name for name, code in CODES.items()}
KEYED = (col.DOC_ID, col.CONTENT_ID, col.URL)  # columns that documents are found by
_SCHEMES = ("http://", "https://")  # that a URL may be given without
_HELD = 4  # stores and decisions whose effects this process remembers
_ADDRESS = re.compile(r"[0-9.]+|\[.*\]")  # a host that has no subdomains
_FEW = 4096  # documents whose keys are looked up one by one
_held: OrderedDict[tuple[str, str, str], tuple[int, Effects]] = OrderedDict()  # with how many lines they are of


@dataclass(frozen=True)
class Effects:
    """What is decided, a row for each document and change: from sequence ``since`` on its document is treated so.

    documents: (rows,) int64, ascending; of a document with several rows ``since`` ascends. actions: (rows,) int8, one
    of RELEASED (decided before, taken back since), WEIGHT, MASK, QUARANTINE. weights: (rows,) float64, 1 but for
    WEIGHT. since: (rows,) int64. line: (rows,) int64, the line of decisions.jsonl that wins.
    """

    documents: Ints
    actions: npt.NDArray[np.int8]
    weights: npt.NDArray[np.float64]
    since: Ints
    line: Ints

    def __len__(self) -> int:
        return len(self.documents)

    @cached_property
    def most(self) -> int:
        """Rows of the document that has the most."""
        return int(np.unique(self.documents, return_counts=True)[1].max(initial=0))

    def rows(self, documents: npt.ArrayLike, sequences: npt.ArrayLike) -> Ints:
        """For each document the row that holds at a sequence, -1 for none; both of one shape, or one sequence of all.

        O(log rows) a document, without a loop over them.
        """
        wanted, at = np.broadcast_arrays(np.asarray(documents, np.int64), np.asarray(sequences, np.int64))
        low = np.searchsorted(self.documents, wanted)
        end = np.searchsorted(self.documents, wanted, "right")
        found = np.full(wanted.shape, -1, np.int64)
        for step in range(self.most):
            row = low + step
            inside = row < end
            holds = inside & (self.since[np.where(inside, row, 0)] <= at)
            found = np.where(holds, row, found)
        return found

    def of(
        self, documents: npt.ArrayLike, sequences: npt.ArrayLike
    ) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float64]]:
        """Action and weight of each document at a sequence; RELEASED and 1 where nothing is decided."""
        rows = self.rows(documents, sequences)
        if not len(self):
            return np.zeros(rows.shape, np.int8), np.ones(rows.shape)
        return np.where(rows < 0, np.int8(RELEASED), self.actions[rows]), np.where(rows < 0, 1.0, self.weights[rows])

    def at(self, sequence: int) -> Effects:
        """What holds at one sequence: a row a document."""
        documents = np.unique(self.documents)
        rows = self.rows(documents, sequence)
        rows = rows[rows >= 0]
        return self.take(rows[self.actions[rows] != RELEASED])

    def take(self, rows: npt.NDArray[Any]) -> Effects:
        """Some rows."""
        return Effects(*(a[rows] for a in (self.documents, self.actions, self.weights, self.since, self.line)))

    def with_others(self, others: Effects) -> Effects:
        """These and the effects on other documents."""
        both = _joined([self, others])
        return both.take(np.argsort(both.documents, kind="stable"))


def _no_effects() -> Effects:
    none = np.zeros(0, np.int64)
    return Effects(none, np.zeros(0, np.int8), np.zeros(0, np.float64), none, none)


def effects(store: TokenStore, decisions: Decisions) -> Effects:
    """Of all documents of a store, by their global numbers. Remembered for the same store and decisions.

    Where they were known for the first of the lines, only what the others change is looked for. Memory: three columns
    of one shard's spans, and the hits. Nothing is read where nothing is in force.
    """
    standing = decisions.spans()
    if not standing:
        return _no_effects()
    key = str(store.root), str(store.info.get("digest") or store.digest), decisions.digest
    if key in _held:
        _held.move_to_end(key)
        return _held[key][1]
    version, known = _earlier(key, decisions)
    # documents that later lines hit, or lines that these take back: all that is said of them is weighed anew
    later = decisions.lines[version:]
    back = [decisions.lines[int(d.key) - 1] for d in later if d.action == lines.REVOKE]
    seek = [d for d in (*later, *back) if d.action != lines.REVOKE]
    sought = Wanted(seek)
    everything = None if version else Wanted([d for d, _, _ in standing])
    starts = np.asarray(store.document_starts)
    parts, touched = [], []
    for shard in range(len(starts) - 1):
        documents = documents_of(store.spans(shard), KEYED if not version else _columns(seek))
        rows = None
        if version:
            rows = np.unique(sought.pairs(documents)[0])
            if not len(rows):
                continue
            documents = documents_of(store.spans(shard)).take(pa.array(rows))
            touched.append(rows + starts[shard])
        found = _hits(standing, everything, documents)
        if len(found):
            numbers = found.documents if rows is None else rows[found.documents]
            parts.append(Effects(numbers + starts[shard], *_rest(found)))
    out = _joined(parts)
    if version:
        out = _without(known, touched).with_others(out)
    _held[key] = decisions.version, out
    while len(_held) > _HELD:
        _held.popitem(last=False)
    return out


def _earlier(key: tuple[str, str, str], decisions: Decisions) -> tuple[int, Effects]:
    """What is remembered of the same store for the most of the first lines; 0 lines where nothing is."""
    best = 0, _no_effects()
    for (root, digest, of), (version, found) in list(_held.items()):
        if (root, digest) == key[:2] and version > best[0] and decisions.digest_at(version) == of:
            best = version, found
    return best


def _without(effects: Effects, documents: Sequence[Ints]) -> Effects:
    if not documents:
        return effects
    return effects.take(np.flatnonzero(~np.isin(effects.documents, np.concatenate(documents))))


def _columns(seek: Sequence[Decision]) -> tuple[str, ...]:
    """The columns of KEYED that these are looked for in."""
    kinds = {d.key_kind for d in seek}
    urls = bool(kinds & {lines.URL, lines.HOST_KEY})
    wanted = {col.DOC_ID: lines.DOC_ID in kinds, col.CONTENT_ID: lines.CONTENT_ID in kinds, col.URL: urls}
    return tuple(name for name in KEYED if wanted[name])


def _keys_of(documents: pa.Table | pa.RecordBatch) -> set[str]:
    """Every key, of any kind, that one of these documents has."""
    out: set[str] = set()
    names = documents.schema.names
    for name in (col.DOC_ID, col.CONTENT_ID):
        if name in names:
            out.update(value.hex() for value in documents.column(name).to_pylist() if value is not None)
    if col.URL in names:
        urls = [url for url in documents.column(col.URL).to_pylist() if url is not None]
        out.update(urls)
        out.update(url.removeprefix(s) for url in urls for s in _SCHEMES if url.startswith(s))
        out.update(one for url in urls for one in _labels(lines.bare_host(url)))
    return out


def documents_of(spans: pa.Table, names: Sequence[str] = KEYED) -> pa.Table:
    """Of spans, a row a window, these columns of each document: its row is the document's number in the shard."""
    number = spans.column(DOCUMENT).to_numpy()
    first = np.flatnonzero(np.diff(number, prepend=-1))
    return spans.select([n for n in names if n in spans.column_names]).take(pa.array(first))


def hits(decisions: Decisions, documents: pa.Table | pa.RecordBatch) -> Effects:
    """What decisions mean for documents, numbered by their rows.

    documents: a row a document, with the columns KEYED; one that it does not have hits nothing.
    """
    return _hits(decisions.spans(), None, documents)


def _hits(
    standing: Sequence[tuple[Decision, int, int]], wanted: Wanted | None, documents: pa.Table | pa.RecordBatch
) -> Effects:
    if wanted is None and documents.num_rows <= _FEW < len(standing):  # most lines speak of others
        keys = _keys_of(documents)
        standing = [one for one in standing if one[0].key in keys]
    rows, places = (wanted or Wanted([d for d, _, _ in standing])).pairs(documents)
    if not len(rows):
        return _no_effects()
    order = np.lexsort((places, rows))
    rows, places = rows[order], places[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    counts = np.diff(np.append(starts, len(rows)))
    known: dict[bytes, int] = {}  # documents with the same lines are treated alike
    kinds = np.empty(len(starts), np.int64)
    alone = counts == 1
    lone, kinds[alone] = np.unique(places[starts[alone]], return_inverse=True)
    changes = [_changes([standing[p]]) for p in lone.tolist()]
    for i in np.flatnonzero(~alone):
        mine = places[starts[i] : starts[i] + counts[i]]
        number = known.setdefault(mine.tobytes(), len(changes))
        if number == len(changes):
            changes.append(_changes([standing[p] for p in mine]))
        kinds[i] = number
    sizes = np.array([len(c) for c in changes])
    flat = [change for some in changes for change in some]
    columns = np.array([(since, code, line) for since, code, _, line in flat], np.int64).reshape(-1, 3)
    weights = np.array([weight for _, _, weight, _ in flat])
    firsts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    many = sizes[kinds]
    ends = np.cumsum(many)
    take = np.repeat(firsts[kinds], many) + np.arange(ends[-1]) - np.repeat(ends - many, many)
    since, code, line = columns[take].T
    return Effects(np.repeat(rows[starts], many), code.astype(np.int8), weights[take], since.copy(), line.copy())


def _changes(standing: Sequence[tuple[Decision, int, int]]) -> list[tuple[int, int, float, int]]:
    """What holds for a document that these hit: (since, code, weight, line), by since."""
    out: list[tuple[int, int, float, int]] = []
    for since in sorted({begin for _, begin, _ in standing} | {end for _, _, end in standing} - {lines.FOREVER}):
        held = [d for d, begin, end in standing if begin <= since < end]
        best = max(held, key=lambda d: (CODES[d.action], d.number), default=None)
        if best is None:
            change = since, RELEASED, 1.0, out[-1][3]
        else:
            change = since, CODES[best.action], 1.0 if best.weight is None else best.weight, best.number
        if not out or out[-1][1:] != change[1:]:
            out.append(change)
    return out


def pairs(standing: Sequence[Decision], documents: pa.Table | pa.RecordBatch) -> tuple[Ints, Ints]:
    """Which documents (rows) which decisions (places) hit; each pair once, in no order."""
    return Wanted(standing).pairs(documents)


class Wanted:
    """The keys of decisions, to be looked for in documents; made once for all shards of a store."""

    def __init__(self, standing: Sequence[Decision]) -> None:
        self._equal: list[tuple[str, pa.Array, list[list[int]]]] = []
        for kind, column in ((lines.DOC_ID, col.DOC_ID), (lines.CONTENT_ID, col.CONTENT_ID)):
            if wanted := lines.keys(standing, kind):
                values = pa.array([bytes.fromhex(k) for k in wanted], col.ID)
                self._equal.append((column, values, list(wanted.values())))
        spelled: dict[str, list[int]] = {}
        for key, places in lines.keys(standing, lines.URL).items():
            for one in (key, *((f"{s}{key}" for s in _SCHEMES) if "://" not in key else ())):
                spelled.setdefault(one, []).extend(places)
        if spelled:
            self._equal.append((col.URL, pa.array(list(spelled), pa.string()), list(spelled.values())))
        self._hosts = lines.keys(standing, lines.HOST_KEY)

    def pairs(self, documents: pa.Table | pa.RecordBatch) -> tuple[Ints, Ints]:
        """See the function of this name."""
        names = documents.schema.names
        found: list[tuple[Ints, Ints]] = []
        for column, values, places in self._equal:
            if column in names:
                found += _equal(documents.column(column), values, places)
        if self._hosts and col.URL in names:
            found += _hosts(documents.column(col.URL), self._hosts)
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        return np.concatenate([r for r, _ in found]), np.concatenate([p for _, p in found])


def _equal(column: Any, values: pa.Array, places: Sequence[Sequence[int]]) -> Iterator[tuple[Ints, Ints]]:
    """Rows whose value is one of ``values``, with the places that go with it."""
    at = np.asarray(pc.fill_null(pc.index_in(column, values), -1).to_numpy(zero_copy_only=False), np.int64)
    yield from _with_places(np.flatnonzero(at >= 0), at[at >= 0], places)


def _with_places(rows: Ints, at: Ints, places: Sequence[Sequence[int]]) -> Iterator[tuple[Ints, Ints]]:
    for step in range(max((len(p) for p in places), default=0)):
        nth = np.array([p[step] if step < len(p) else -1 for p in places], np.int64)[at]
        yield rows[nth >= 0], nth[nth >= 0]


def _hosts(urls: Any, wanted: dict[str, list[int]]) -> Iterator[tuple[Ints, Ints]]:
    """The same of documents whose host, or a domain that it is in, is wanted."""
    column = urls.combine_chunks() if isinstance(urls, pa.ChunkedArray) else urls
    hosts = pc.struct_field(pc.extract_regex(column, HOST), "host").dictionary_encode()
    codes = np.asarray(pc.fill_null(hosts.indices, -1).to_numpy(zero_copy_only=False), np.int64)
    named = (_labels(lines.bare_host(name or "")) for name in hosts.dictionary.to_pylist())
    places = [[p for one in labels for p in wanted.get(one, ())] for labels in named]
    mine = np.flatnonzero(np.append([bool(p) for p in places], [False])[codes])
    yield from _with_places(mine, codes[mine], places)


def _labels(host: str) -> list[str]:
    """``a.b.c`` → itself, b.c, c; of an address itself."""
    if _ADDRESS.fullmatch(host):
        return [host]
    parts = host.split(".")
    return [".".join(parts[i:]) for i in range(len(parts))]


def _rest(found: Effects) -> tuple[Any, ...]:
    return found.actions, found.weights, found.since, found.line


def _joined(parts: Sequence[Effects]) -> Effects:
    if not parts:
        return _no_effects()
    names = ("documents", "actions", "weights", "since", "line")
    return Effects(*(np.concatenate([getattr(p, n) for p in parts]) for n in names))
