"""What a run's ledger says about its documents, counted by clusters: values, scores, outcomes, hosts.

Memory does not grow with the rows, but for 32 bytes a host: hosts and inputs are thrown into BUCKETS groups by a hash,
which leaves the variance between them unbiased (the method of random groups: Wolter 2007, ch. 2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.audit.bins import edges
from cleanpipe.audit.facts import HOST, THRESHOLDS
from cleanpipe.queries.diff_ledger import Hashes, Ints, Outcomes, chunks, coded, fields, floats, hashed, whole
from cleanpipe.queries.opened_run import OpenRun

BUCKETS = 256
BY_HOST, BY_SOURCE = 0, 1
VALUES: Mapping[str, tuple[str, str]] = {  # column, and what null means ("": the document is not counted)
    "language": (col.LANGUAGE, ""),
    "previewed language": (col.LANGUAGE_PREVIEW, ""),
    "HTTP status": (col.HTTP_STATUS, "unknown"),
    "media type": (col.MEDIA_TYPE, "unknown"),
    "sniffed type": (col.SNIFFED_TYPE, "unknown"),
    "charset": (col.CHARSET, ""),
    "record type": (col.RECORD_TYPE, ""),
    "truncated": (col.TRUNCATED, "whole"),
}
OTHERS = "(others)"
Mask = npt.NDArray[np.bool_]
_MOST = 2000  # values told apart of one column
_HELD = 1 << 21  # host counts held before equal ones are added
_NO_SCORE = frozenset({col.RECORD_OFFSET, col.RECORD_LENGTH, col.HTTP_STATUS})
_CURVE = "keep-curve"
_TOP = np.uint64(64 - 8)  # of a hash, that many bits are the bucket's
_BEYOND = edges()[edges() >= 10]


@dataclass
class Counts:
    """Documents (or a sum over them) of each value in each cluster.

    labels: of values; of a histogram the bins are ordinals (``audit.bins``) from ``base`` on. by: BY_HOST or
    BY_SOURCE, cluster, value. kept: of each value.
    """

    labels: list[str] = field(default_factory=list)
    base: int = 0
    by: Ints = field(default_factory=lambda: np.zeros((2, BUCKETS, 0), np.int64))
    kept: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def totals(self) -> Ints:
        """Of each value."""
        return np.asarray(self.by[0].sum(0))

    def add(self, clusters: Ints, values: Ints, kept: Mask, weights: Ints | None = None) -> None:
        """values: indices of labels, or ordinals − base; all below ``width`` given to ``grow``."""
        width = self.by.shape[2]
        if not clusters.any():
            self.by[:, 0] += _summed(values, weights, width)
        for kind in (BY_HOST, BY_SOURCE) if clusters.any() else ():
            self.by[kind] += _summed(clusters[kind] * width + values, weights, BUCKETS * width).reshape(BUCKETS, width)
        self.kept += _summed(values[kept], None if weights is None else weights[kept], width)

    def grow(self, width: int, before: int = 0) -> None:
        """Room for ``width`` values, ``before`` of them in front."""
        after = width - before - self.by.shape[2]
        self.by = np.pad(self.by, ((0, 0), (0, 0), (before, after)))
        self.kept = np.pad(self.kept, (before, after))


@dataclass
class Hosts:
    """By hash, ascending: documents, kept ones, and a row to learn the name from."""

    hashes: Hashes
    documents: Ints
    kept: Ints
    row: Ints


@dataclass
class Tally:
    """outcomes, sizes, characters: documents, ``bytes_in`` and ``chars_out`` by number of outcome. sources: inputs.

    curve: documents by language and how many of the keep-curve's THRESHOLDS their score reaches ("en 3"); counted only
    by clusters. integers: scores that are whole numbers.
    """

    rows: int = 0
    sources: int = 0
    outcomes: Counts = field(default_factory=Counts)
    sizes: Counts = field(default_factory=Counts)
    characters: Counts = field(default_factory=Counts)
    values: dict[str, Counts] = field(default_factory=dict)
    values_kept: dict[str, Counts] = field(default_factory=dict)
    scores: dict[str, Counts] = field(default_factory=dict)
    scores_kept: dict[str, Counts] = field(default_factory=dict)
    curve: Counts = field(default_factory=Counts)
    hosts: Hosts = field(default_factory=lambda: _no_hosts())
    integers: frozenset[str] = frozenset()


def score_columns(run: OpenRun) -> list[str]:
    """Ledger columns that are numbers and say something of a document."""
    kinds = fields(run).items()
    return [n for n, t in kinds if (pa.types.is_floating(t) or pa.types.is_integer(t)) and n not in _NO_SCORE]


def tally(run: OpenRun, outcomes: Outcomes, *, clustered: bool = True) -> Tally:
    """One walk over the ledger.

    Args:
        run: whose. outcomes: of both runs; numbers are given out as names are met.
        clustered: count by hosts and inputs; else all documents are in one cluster.
    """
    out = Tally()
    scores = score_columns(run)
    for name in scores:
        out.scores[name], out.scores_kept[name] = Counts(), Counts()
    have = fields(run)
    for name, (column, _) in VALUES.items():
        if column in have:
            out.values[name], out.values_kept[name] = Counts(), Counts()
    wanted = [col.FATE, col.STAGE, col.REASON, col.SOURCE, col.URL, *scores]
    wanted += [c for name, (c, _) in VALUES.items() if name in out.values]
    hosts, held, sources = [out.hosts], 0, set[str]()
    labels: dict[str, dict[str, int]] = {name: {} for name in out.values}
    for first, table in chunks(run, wanted):
        host, hashes, clusters = _clusters(table, sources, clustered)
        code = outcomes.codes(table)
        kept = np.array([n[0] == col.KEPT for n in outcomes.names], bool)[code]
        sums = [np.bincount(host[mask], minlength=len(hashes)) for mask in (slice(None), kept)]
        hosts.append(Hosts(hashes, sums[0], sums[1], _first_rows(host, first, len(hashes))))
        held += len(hashes)
        if held > _HELD:
            hosts, held = [_added(hosts)], 0
        out.rows += table.num_rows
        _count_outcomes(out, table, code, clusters, kept, len(outcomes.names))
        for name, counts in out.values.items():
            both = counts, out.values_kept[name]
            column, null = VALUES[name]
            _count_codes(both, labels[name], *coded(table.column(column)), null, clusters, kept)
        if clustered and {col.LANGUAGE, col.LANGUAGE_ID_SCORE} <= {*have}:
            _count_codes((out.curve, Counts()), labels.setdefault(_CURVE, {}), *_reached(table), "", clusters, kept)
        for name in scores:
            values = floats(table.column(name))
            there = np.flatnonzero(~np.isnan(values))
            bins, of_kept = ordinals(values[there]), kept[there]
            _count_scores(out.scores[name], bins, clusters[:, there], of_kept)
            _count_scores(out.scores_kept[name], bins[of_kept], clusters[:, there[of_kept]], of_kept[of_kept])
    out.integers = frozenset(name for name in scores if pa.types.is_integer(have[name]))
    out.hosts, out.sources = _added(hosts), len(sources)
    return out


def host_of(url: str | None) -> str:
    """The host of a URL, in lower case; "" where there is none."""
    found = re.match(HOST, url or "")
    return found["host"].lower() if found else ""


def level(a: Tally, b: Tally, outcomes: Outcomes) -> None:
    """Make both count the same values and bins in the same order."""
    for one in (a, b):
        for counts in (one.outcomes, one.sizes, one.characters):
            counts.grow(len(outcomes.names))
    for name in {*a.values} & {*b.values}:
        both = sorted({*a.values[name].labels, *b.values[name].labels})
        for one in (a, b):
            _reorder(one.values[name], both)
            _reorder(one.values_kept[name], both)
    for of in ("scores", "scores_kept"):
        left, right = getattr(a, of), getattr(b, of)
        for name in {*left} & {*right}:
            _stretch([left[name], right[name]])


def _clusters(table: pa.Table, sources: set[str], clustered: bool) -> tuple[Ints, Hashes, Ints]:
    """For each row the place of its host among the hashes, which follow; and its two clusters."""
    at, names = coded(table.column(col.SOURCE))
    sources.update(names)
    codes, hashes = hosts_of(whole(table.column(col.URL)).cast(pa.string()))
    if not clustered:
        return codes, hashes, np.zeros((2, len(codes)), np.int64)
    source = np.append(hashed(pa.array(names, pa.string())), np.uint64(0))
    both = np.stack([(hashes >> _TOP)[codes], (source >> _TOP)[at]])
    return codes, hashes, both.astype(np.int64)


def hosts_of(urls: pa.Array) -> tuple[Ints, Hashes]:
    """For each URL the place of its host among the hashes of hosts, which follow; "" is the host of those without."""
    parts = pc.split_pattern(pc.fill_null(urls, ""), "/", max_splits=3)
    offsets = parts.offsets.to_numpy()
    there = np.diff(offsets) >= 3  # scheme, nothing, authority
    first = np.where(there, offsets[:-1], 0)
    scheme, gap, authority = (parts.values.take(pa.array(first + i, mask=~there)).dictionary_encode() for i in range(3))
    names = [f"{host_of(f'x://{a}/')}" for a in authority.dictionary.to_pylist()] + [""]
    begins = [re.fullmatch(r"[A-Za-z][A-Za-z0-9+.\-]*:", s) is not None for s in scheme.dictionary.to_pylist()]
    empty = [g == "" for g in gap.dictionary.to_pylist()]
    codes, schemes, gaps = (
        pc.fill_null(x.indices, -1).to_numpy(zero_copy_only=False) for x in (authority, scheme, gap)
    )
    valid = np.append(begins, [False])[schemes].astype(bool) & np.append(empty, [False])[gaps].astype(bool)
    known = pa.array(names, pa.string()).dictionary_encode()
    places = known.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(valid, places[codes], places[-1]), hashed(known.dictionary)


def _first_rows(codes: Ints, first: int, hosts: int) -> Ints:
    out = np.zeros(hosts, np.int64)
    out[codes[::-1]] = np.arange(first + len(codes) - 1, first - 1, -1)
    return out


def _no_hosts() -> Hosts:
    none = np.zeros(0, np.int64)
    return Hosts(none.astype(np.uint64), none, none, none)


def _added(parts: Sequence[Hosts]) -> Hosts:
    hashes = np.concatenate([p.hashes for p in parts])
    found, first, at = np.unique(hashes, return_index=True, return_inverse=True)
    sums = [
        _summed(at, np.concatenate(each), len(found))
        for each in zip(*((p.documents, p.kept) for p in parts), strict=True)
    ]
    there = sums[0] > 0
    row = np.concatenate([p.row for p in parts])[first]
    return Hosts(found[there], sums[0][there], sums[1][there], row[there])


def _summed(at: Ints, weights: Ints | None, length: int) -> Ints:
    if weights is None:
        return np.bincount(at, minlength=length).astype(np.int64)
    return np.rint(np.bincount(at, weights=weights, minlength=length)).astype(np.int64)  # exact below 2⁵³


def _count_outcomes(out: Tally, table: pa.Table, code: Ints, clusters: Ints, kept: Mask, width: int) -> None:
    for counts, column in ((out.outcomes, ""), (out.sizes, col.BYTES_IN), (out.characters, col.CHARS_OUT)):
        weights = None
        if column:
            given = table.column(column) if column in table.schema.names else pa.nulls(table.num_rows)
            weights = np.nan_to_num(floats(pa.chunked_array(given) if isinstance(given, pa.Array) else given)).astype(
                np.int64
            )
        counts.grow(width)
        counts.add(clusters, code, kept, weights)


def _reached(table: pa.Table) -> tuple[Ints, list[str]]:
    """See ``Tally.curve``."""
    codes, names = coded(table.column(col.LANGUAGE))
    scores, steps = floats(table.column(col.LANGUAGE_ID_SCORE)), len(THRESHOLDS) + 1
    reached = np.searchsorted(THRESHOLDS, np.nan_to_num(scores, nan=-1.0), side="right")
    return np.where(codes < 0, -1, codes * steps + reached), [f"{n} {i}" for n in names for i in range(steps)]


def _count_codes(
    both: Sequence[Counts], labels: dict[str, int], codes: Ints, names: Sequence[str], null: str, clusters: Ints,
    kept: Mask,
) -> None:  # fmt: skip
    """both: of all documents, and of the kept. codes: of names, -1 for null."""
    numbers = np.full(len(names) + 1, -1, np.int64)
    for i, name in enumerate([*names, null] if (codes < 0).any() else names):
        known = name if name in labels or len(labels) < _MOST else OTHERS
        numbers[i] = labels.setdefault(known, len(labels)) if known else -1
    values = numbers[codes]
    for counts, there in zip(both, (values >= 0, (values >= 0) & kept), strict=True):
        counts.labels = list(labels)
        counts.grow(len(labels))
        counts.add(clusters[:, there], values[there], kept[there])


def _count_scores(counts: Counts, bins: Ints, clusters: Ints, kept: Mask) -> None:
    if not len(bins):
        return
    low, high = int(bins.min()), int(bins.max())
    if not counts.by.shape[2]:
        counts.base = low
    before = max(0, counts.base - low)
    counts.base -= before
    counts.grow(max(counts.by.shape[2] + before, high - counts.base + 1), before)
    counts.add(clusters, bins - counts.base, kept)


def ordinals(values: npt.NDArray[np.float64]) -> Ints:
    """The bin of each value, as ``audit.bins`` numbers them; values have 6 decimals, as scores do."""
    out = np.floor(np.clip(values, -10, 10) * 100 + 1e-7).astype(np.int64)
    large = np.flatnonzero(np.abs(values) >= 10)
    if len(large):
        size = np.abs(values[large])
        guess = np.clip((np.log(size / 10) / np.log(1.02)).astype(np.int64), 0, len(_BEYOND) - 2)
        guess += _BEYOND[guess + 1] <= size  # what the logarithm has rounded, put right
        guess -= _BEYOND[guess] > size
        out[large] = np.where(values[large] > 0, 1000 + guess, -1001 - guess)
        out[large] += (values[large] < 0) & (size == _BEYOND[guess])  # bins are closed at their lower ends
    return np.maximum(out, -999 - len(_BEYOND))  # the last one on each side is open


def _reorder(counts: Counts, labels: list[str]) -> None:
    place = {label: i for i, label in enumerate(labels)}
    at = np.array([place[label] for label in counts.labels], np.int64)
    by, kept = np.zeros((2, BUCKETS, len(labels)), np.int64), np.zeros(len(labels), np.int64)
    by[:, :, at], kept[at] = counts.by, counts.kept
    counts.labels, counts.by, counts.kept = labels, by, kept


def _stretch(both: Sequence[Counts]) -> None:
    full = [c for c in both if c.by.shape[2]]
    if not full:
        return
    base, end = min(c.base for c in full), max(c.base + c.by.shape[2] for c in full)
    for c in both:
        if not c.by.shape[2]:
            c.base = base
        c.grow(end - base, c.base - base)
        c.base = base
