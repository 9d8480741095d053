"""What the audit needs from one ledger part: whole numbers that add, and samples that merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.audit.asked import asked_tally
from cleanpipe.audit.bins import histogram, histograms
from cleanpipe.stage import Stage
from cleanpipe.tally import Tally

SELECTION = frozenset({"bad_type", "other_language"})  # a recipe's word for what it does not want
NOT_DECODED = "not decoded"
UNKNOWN = "unknown"  # null in the ledger: not said, or not found out; never guessed, never one of the values
THRESHOLDS = (0.5, 0.65, 0.8, 0.9, 0.95, 0.99, 0.995)  # of the keep-curve
AS_READ = (col.RECORD_TYPE, col.IS_HTTP, col.HTTP_STATUS, col.DECLARED_TYPE, col.MEDIA_TYPE, col.CHARSET)  # of a sample
IN_LANGUAGE = (col.LANGUAGE_ID_SCORE, col.PERPLEXITY)  # the core's scores that may have a limit for each language
Samples = dict[str, list[dict[str, Any]]]
Ints = npt.NDArray[np.int64]
HOST = r"^[A-Za-z][A-Za-z0-9+.\-]*://(?:[^/?#@]*@)?(?P<host>\[[^\]/?#]*\]|[^/?#:\[\]]+)"


def ledger_tally(
    table: pa.Table, scores: Mapping[str, pa.DataType], *, seed: int, samples: int, stages: Sequence[Stage] = ()
) -> tuple[Tally, Samples]:
    """Counts and samples of a ledger part.

    Args:
        table: rows of the ledger's schema, each with its fate; any number of parts may be counted apart and added.
        scores: the ledger's score columns.
        stages: every one that ran, in its order: whom each limit was asked about is counted then.
        seed, samples: the k documents of smallest hash(seed, doc_id) stand for each group.

    Returns:
        A tally for ``cleanpipe.tally.add``; and for "kept" and each "stage/reason" its samples, for ``merge_samples``.
    """
    rows = _Rows(table)
    tally: Tally = {
        "rows": rows.count,
        "fates": rows.fates(),
        "chars_kept": int(rows.numbers(col.CHARS_OUT)[rows.kept].sum()),
        "sources": rows.sources(),
        "http_status": rows.counted(col.HTTP_STATUS),
        "types": rows.crossed(col.DECLARED_TYPE, col.SNIFFED_TYPE),
        "windows": _number_counts(rows.present(col.WINDOWS)),
        "by_language": rows.by_fate(pc.coalesce(rows.column(col.LANGUAGE), rows.column(col.LANGUAGE_PREVIEW))),
        "by_type": rows.by_fate(rows.column(col.MEDIA_TYPE)),
        "keep_curve": rows.keep_curve(),
        "scores": {name: rows.score(name) for name, kind in scores.items() if _is_number(kind)},
        "in_language": rows.by_fate(rows.column(col.LANGUAGE)),
        "scores_in_language": {name: rows.by_language(name) for name in IN_LANGUAGE if name in scores},
        "hosts": rows.hosts(),
    }
    tally[col.CHARSET] = rows.counted(col.CHARSET, null=NOT_DECODED)
    for name in (col.PAYLOAD_TYPE, col.RECORD_TYPE):
        tally[name] = rows.counted(name)
    for name in (col.TRUNCATED, col.LANGUAGE, col.LANGUAGE_PREVIEW):
        tally[name] = {k: n for k, n in rows.counted(name, null="").items() if k}
    if stages:
        tally |= {"asked": asked_tally(table, stages), "asked_rows": rows.count}
    return tally, rows.samples(list(scores), seed, samples)


def merge_samples(a: Mapping[str, list[dict[str, Any]]], b: Mapping[str, list[dict[str, Any]]], k: int) -> Samples:
    """The k smallest of both, for each group; commutative and associative."""
    out: Samples = {}
    for key in {*a, *b}:
        both = [*a.get(key, ()), *b.get(key, ())]
        out[key] = sorted(both, key=lambda s: (s["order"], s[col.DOC_ID]))[:k]
    return out


class _Rows:
    """One ledger part, column by column."""

    def __init__(self, table: pa.Table) -> None:
        self._table, self.count = table, table.num_rows
        parts = [_coded(self.column(n), "") for n in (col.FATE, col.STAGE, col.REASON)]
        code = np.zeros(self.count, np.int64)
        for codes, labels in parts:
            code = code * max(len(labels), 1) + codes
        found, first, self.group = np.unique(code, return_index=True, return_inverse=True)
        self.names = [tuple(labels[codes[i]] for codes, labels in parts) for i in first.tolist()]
        self.labels = [col.KEPT if fate == col.KEPT else f"{stage}/{reason}" for fate, stage, reason in self.names]
        kept = np.array([fate == col.KEPT for fate, _, _ in self.names], bool)
        self.kept = kept[self.group] if len(found) else np.zeros(0, bool)
        chosen = np.array([reason in SELECTION for _, _, reason in self.names], bool)
        self.unwanted = chosen[self.group] if len(found) else self.kept
        # a damaged range has no record type; it is no document of whatever kind
        self.documents = np.asarray(pc.is_valid(self.column(col.RECORD_TYPE)).to_numpy(zero_copy_only=False))

    def column(self, name: str) -> pa.Array:
        """In one piece."""
        values = self._table.column(name)
        return pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)

    def numbers(self, name: str) -> Ints:
        """Whole numbers, null as 0."""
        return np.asarray(pc.fill_null(self.column(name), 0).to_numpy(zero_copy_only=False), dtype=np.int64)

    def present(self, name: str) -> Ints:
        """Whole numbers, nulls left out."""
        return np.asarray(pc.drop_null(self.column(name)).to_numpy(zero_copy_only=False), dtype=np.int64)

    def counted(self, name: str, null: str = UNKNOWN) -> dict[str, int]:
        """How many documents have each value."""
        codes, labels = _coded(self.column(name), null)
        return _named(np.bincount(codes[self.documents], minlength=len(labels)), labels)

    def crossed(self, down: str, across: str) -> dict[str, dict[str, int]]:
        """How many documents have each pair of values."""
        (one, names), (other, more) = (_coded(self.column(n), UNKNOWN) for n in (down, across))
        return _cross((one[self.documents], names), (other[self.documents], more))

    def by_fate(self, values: pa.Array) -> dict[str, dict[str, int]]:
        """For each value, rows kept and rows lost by "stage/reason"; rows without a value are left out."""
        codes, labels = _coded(values, "")
        return {k: v for k, v in _cross((codes, labels), (self.group, self.labels)).items() if k}

    def fates(self) -> dict[str, Any]:
        """Documents and bytes of each fate, of the lost by stage and reason."""
        documents = np.bincount(self.group, minlength=len(self.names))
        sizes = _sums(self.group, self.numbers(col.BYTES_IN), len(self.names))
        out: dict[str, Any] = {}
        for (fate, stage, reason), n, size in zip(self.names, documents.tolist(), sizes.tolist(), strict=True):
            entry = {"documents": n, "bytes": size}
            if fate == col.KEPT:
                out[fate] = entry
            else:
                out.setdefault(fate, {}).setdefault(stage, {})[reason] = entry
        return out

    def sources(self) -> dict[str, dict[str, Any]]:
        """For each input: rows by fate, by record type ("" for a damaged range), and bytes."""
        codes, labels = _coded(self.column(col.SOURCE), UNKNOWN)
        fates = _cross((codes, labels), _coded(self.column(col.FATE), UNKNOWN))
        types = _cross((codes, labels), _coded(self.column(col.RECORD_TYPE), ""))
        sizes = _sums(codes, self.numbers(col.BYTES_IN), len(labels))
        return {s: {"fates": fates[s], "types": types[s], "bytes": int(b)} for s, b in zip(labels, sizes, strict=True)}

    def keep_curve(self) -> dict[str, dict[str, int]]:
        """For each judged language: documents, and those whose score reaches each threshold."""
        codes, labels = _coded(self.column(col.LANGUAGE), "")
        values = _floats(self.column(col.LANGUAGE_ID_SCORE))
        out: dict[str, dict[str, int]] = {label: {} for label in labels if label}
        for name, mask in [("documents", codes >= 0), *((f"{t:g}", values >= t) for t in THRESHOLDS)]:
            for label, n in zip(labels, np.bincount(codes[mask], minlength=len(labels)).tolist(), strict=True):
                if label:
                    out[label][name] = n
        return out

    def score(self, name: str) -> dict[str, Any]:
        """Rows that have the score, rows that do not; histograms of all, of the kept, of the lost by stage/reason."""
        values = self.column(name)
        measured = np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))
        floats = _floats(values)
        return {
            "measured": int(measured.sum()),
            "not_measured": int((~measured).sum()),
            "bins": histogram(floats[measured]),
            "bins_kept": histogram(floats[measured & self.kept]),
            "bins_lost": {k: v for k, v in self._by_group(floats, measured).items() if k != col.KEPT},
        }

    def _by_group(self, floats: npt.NDArray[np.float64], mask: npt.NDArray[np.bool_]) -> dict[str, dict[str, int]]:
        """A histogram of the kept and of each "stage/reason"; of groups with no row there is none."""
        out: dict[str, dict[str, int]] = {}
        for label, bins in zip(self.labels, histograms(floats[mask], self.group[mask], len(self.labels)), strict=True):
            if bins:
                have = out.setdefault(label, {})
                for k, n in bins.items():
                    have[k] = have.get(k, 0) + n
        return out

    def by_language(self, name: str) -> dict[str, dict[str, dict[str, int]]]:
        """For each judged language, histograms of a score of the kept and of each "stage/reason"."""
        codes, labels = _coded(self.column(col.LANGUAGE), "")
        values = self.column(name)
        measured = np.asarray(pc.is_valid(values).to_numpy(zero_copy_only=False))
        floats, out = _floats(values), {}
        for code, label in enumerate(labels):
            if label and (found := self._by_group(floats, measured & (codes == code))):
                out[label] = found
        return out

    def hosts(self) -> dict[str, dict[str, int]]:
        """Documents of each host: all, kept, not wanted, duplicates; URLs without a host are left out."""
        found = pc.extract_regex(self.column(col.URL), HOST)
        codes, labels = _coded(pc.utf8_lower(pc.struct_field(found, "host")), "")
        duplicate = np.asarray(pc.is_valid(self.column(col.KEPT_DOC_ID)).to_numpy(zero_copy_only=False))
        masks = {
            "documents": np.ones(self.count, bool),
            "kept": self.kept,
            "unwanted": self.unwanted,
            "duplicates": duplicate,
        }
        out = {n: _named(np.bincount(codes[m], minlength=len(labels)), labels) for n, m in masks.items()}
        return {name: {host: n for host, n in counts.items() if host} for name, counts in out.items()}

    def samples(self, scores: list[str], seed: int, k: int) -> Samples:
        """See ``ledger_tally``."""
        ids = _identifiers(self.column(col.DOC_ID))
        order = _hash(ids, seed)
        ranked = np.lexsort((order, self.group))
        groups = self.group[ranked]
        starts = np.searchsorted(groups, np.arange(len(self.labels)))
        chosen = ranked[np.arange(self.count) - starts[groups] < k] if self.count else ranked
        shown = [col.URL, col.SOURCE, col.RECORD_OFFSET, *AS_READ]
        shown += [s for s in scores if s in self._table.schema.names]
        picked = self._table.select([col.DOC_ID, *shown]).take(pa.array(chosen)).to_pylist()
        out: Samples = {}
        for row, at in zip(picked, chosen.tolist(), strict=True):
            sample = {n: _plain(row[n]) for n in (col.DOC_ID, col.URL, col.SOURCE, col.RECORD_OFFSET)}
            sample["as_read"] = {n: row[n] for n in AS_READ if row[n] is not None}
            sample["scores"] = {n: _plain(row[n]) for n in shown[3 + len(AS_READ) :] if row[n] is not None}
            sample["order"] = f"{int(order[at]):016x}"
            out.setdefault(self.labels[self.group[at]], []).append(sample)
        return merge_samples(out, {}, k)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _floats(values: pa.Array) -> npt.NDArray[np.float64]:
    """Null as NaN."""
    return np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _coded(values: pa.Array, null: str) -> tuple[Ints, list[str]]:
    """For each row the index of its label; labels are the values as text."""
    if not pa.types.is_string(values.type):
        values = values.cast(pa.string())
    encoded = pc.fill_null(values, null).dictionary_encode()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64), encoded.dictionary.to_pylist()


def _named(counts: npt.NDArray[np.int64], labels: list[str]) -> dict[str, int]:
    return {label: n for label, n in zip(labels, counts.tolist(), strict=True) if n}


def _cross(down: tuple[Ints, list[str]], across: tuple[Ints, list[str]]) -> dict[str, dict[str, int]]:
    width = max(len(across[1]), 1)
    cells, counts = np.unique(down[0] * width + across[0], return_counts=True)
    out: dict[str, dict[str, int]] = {}
    for cell, n in zip(cells.tolist(), counts.tolist(), strict=True):
        out.setdefault(down[1][cell // width], {})[across[1][cell % width]] = n
    return out


def _number_counts(values: Ints) -> dict[str, int]:
    found, counts = np.unique(values, return_counts=True)
    return {str(v): n for v, n in zip(found.tolist(), counts.tolist(), strict=True)}


def _sums(codes: Ints, values: Ints, groups: int) -> Ints:
    out = np.zeros(groups, np.int64)
    np.add.at(out, codes, values)
    return out


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float):
        return round(value, 6) if np.isfinite(value) else str(value)
    return value


def _identifiers(values: pa.Array) -> npt.NDArray[np.uint8]:
    """The ids as rows of 16 bytes."""
    whole = np.frombuffer(values.buffers()[1] or b"", np.uint8)[values.offset * 16 : (values.offset + len(values)) * 16]
    return whole.reshape(-1, 16)


def _hash(ids: npt.NDArray[np.uint8], seed: int) -> npt.NDArray[np.uint64]:
    """splitmix64 of the first 8 bytes (little-endian), keyed by that of the seed."""
    first = np.ascontiguousarray(ids[:, :8]).view("<u8").reshape(-1)
    return mixed(first ^ mixed(np.array([seed % (1 << 64)], np.uint64)))


def mixed(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """splitmix64, value by value: an order that has nothing of the input's."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
