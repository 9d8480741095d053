"""Documents that a store does not have: what became of them, by its own ledger and by the ledger of its run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe.errors import DamagedFileError
from cleanpipe.io.store import Store, open_store
from cleanpipe.options import StorageOptions
from cleanpipe.queries.lookup import Finder
from cleanpipe.queries.shelf import Shelf, open_shelf
from cleanpipe.tokens.decisions_effects import KEYED, pairs
from cleanpipe.tokens.decisions_impact import hit_by
from cleanpipe.tokens.decisions_lines import CONTENT_ID, DOC_ID, URL, Decision
from cleanpipe.tokens.making.ledger import DECISION, DETAIL, part_name
from cleanpipe.tokens.store.names import MANIFEST

if TYPE_CHECKING:
    from cleanpipe.tokens.store import TokenStore

BUILD, RUN = "tokenize", "run"
_HERE = StorageOptions()
_FATE = (col.FATE, col.STAGE, col.REASON)
_OF_RUN = (*KEYED, *_FATE, col.KEPT_DOC_ID, col.JACCARD)


@dataclass(frozen=True, slots=True)
class Absent:
    """A document that is not in the store.

    keys: places of the decisions that name it, among those asked for. by: whose ledger knows it: "tokenize", the
    store's own, or "run". fate, stage, reason: as it is there. detail: of the store's ledger: the line that left it
    out, what an error said. kept_doc_id, jaccard: which document the run kept in its place, and how alike they are.
    kept_url: of that one. kept: whether it is in the store.
    """

    keys: tuple[int, ...]
    doc_id: str
    url: str | None
    by: str
    fate: str
    stage: str | None
    reason: str | None
    detail: str | None = None
    kept_doc_id: str | None = None
    jaccard: float | None = None
    kept_url: str | None = None
    kept: bool = False

    @property
    def decided(self) -> bool:
        """Left out by a decision."""
        return self.by == BUILD and self.reason == DECISION


def left_out(store: TokenStore, given: Sequence[Decision]) -> list[Absent]:
    """Documents that some decisions would hit, and that the build left out: by decision, or for what they are.

    From the store's ledger, each part of which is proven by the manifest before it is believed.

    Raises:
        DamagedFileError: a part is gone, or not as it was written.
    """
    if not given:
        return []
    found = []
    for part in _parts(store, (*KEYED, *_FATE, DETAIL)):
        found += [_absent(BUILD, keys, row) for keys, row in _hit(given, part)]
    return found


def ids_left_out(store: TokenStore, kind: str, digits: str) -> list[str]:
    """The doc_ids (or content_ids) that begin with these hex digits, of documents that the build left out; sorted."""
    column = {DOC_ID: col.DOC_ID, CONTENT_ID: col.CONTENT_ID}[kind]
    found = set()
    for part in _parts(store, (column, col.FATE)):
        found |= {one.hex() for one in part.column(column).to_pylist() if one is not None}
    return sorted(one for one in found if one.startswith(digits.lower()))


def _parts(store: TokenStore, names: Sequence[str]) -> Iterator[pa.Table]:
    """Rows of the token ledger of documents that the store does not have."""
    files = open_store(store.root, store.storage)
    named: Mapping[str, Any] = json.loads(files.read(MANIFEST)).get("files", {})
    for number in range(len(store.shards)):
        data = _proven(files, part_name(number), named)
        table = pq.read_table(pa.BufferReader(data), columns=list(names))
        yield table.filter(pc.not_equal(table.column(col.FATE), col.KEPT))


def _proven(files: Store, name: str, named: Mapping[str, Any]) -> bytes:
    try:
        data = files.read(name)
    except FileNotFoundError:
        raise DamagedFileError("is gone; `cleanpipe verify` tells what else", source=name) from None
    if hashlib.sha256(data).hexdigest() != (named.get(name) or {}).get("sha256"):
        raise DamagedFileError("was cut short or changed; `cleanpipe verify` tells what else", source=name)
    return data


def _hit(given: Sequence[Decision], table: pa.Table) -> Iterator[tuple[tuple[int, ...], dict[str, Any]]]:
    """Rows that decisions hit, in their order, with the places of these."""
    rows, places = pairs(given, table)
    order = np.lexsort((places, rows))
    rows, places = rows[order], places[order]
    hit, first = np.unique(rows, return_index=True)
    if len(hit):
        taken = table.take(pa.array(hit)).to_pylist()
        yield from zip((tuple(p.tolist()) for p in np.split(places, first[1:])), taken, strict=True)


def _absent(by: str, keys: tuple[int, ...], row: Mapping[str, Any]) -> Absent:
    kept = row.get(col.KEPT_DOC_ID)
    return Absent(
        keys=keys,
        doc_id=row[col.DOC_ID].hex(),
        url=row.get(col.URL),
        by=by,
        fate=row[col.FATE] or "undecided",
        stage=row.get(col.STAGE),
        reason=row.get(col.REASON),
        detail=row.get(DETAIL),
        kept_doc_id=None if kept is None else kept.hex(),
        jaccard=row.get(col.JACCARD),
    )


# --- the run


def dropped_by_run(
    store: TokenStore, given: Sequence[Decision], run: str, storage: StorageOptions = _HERE
) -> tuple[list[Absent], str]:
    """Documents that some decisions would hit and that the run did not keep, by its ledger, and a caution or "".

    A URL and a doc_id are looked up by index; hosts and content_ids in the columns of all parts.

    Raises:
        ConfigError: there is no run, or its ledger is damaged.
    """
    with open_shelf(run, storage) as shelf:
        found = [a for a in _of_run(shelf, given) if a.fate != col.KEPT]
        kept = sorted({a.kept_doc_id for a in found if a.kept_doc_id is not None})
        there = hit_by(store, [Decision("mask", DOC_ID, one) for one in kept])
        inside = {one for one, documents in zip(kept, there, strict=True) if len(documents)}
        finder = Finder(shelf)
        rows = {one: finder.row_of(bytes.fromhex(one)) or {} for one in kept}
        found = [
            a if a.kept_doc_id is None
            else replace(a, kept=a.kept_doc_id in inside, kept_url=rows[a.kept_doc_id].get(col.URL))
            for a in found
        ]  # fmt: skip
        theirs, ours = shelf.run.facts.get("config_hash"), (store.info.get("run") or {}).get("config_hash")
        caution = ""
        if theirs and ours and theirs != ours:
            caution = f"{run} is another run (config hash {theirs}) than the store was made of ({ours})"
        return found, caution


def ids_of_run(run: str, digits: str, storage: StorageOptions = _HERE) -> list[str]:
    """The doc_ids in a run's ledger that begin with these hex digits, sorted."""
    with open_shelf(run, storage) as shelf:
        return sorted({row[col.DOC_ID].hex() for row in Finder(shelf).rows_with("doc_id", digits)})


def _of_run(shelf: Shelf, given: Sequence[Decision]) -> list[Absent]:
    finder, found = Finder(shelf), dict[tuple[str, Any], Absent]()

    def put(places: Sequence[int], row: Mapping[str, Any]) -> None:
        one = _absent(RUN, tuple(places), row)
        before = found.get(key := (one.doc_id, one.url))
        found[key] = one if before is None else replace(one, keys=tuple(sorted({*before.keys, *one.keys})))

    scanned = [place for place, d in enumerate(given) if d.key_kind not in (DOC_ID, URL)]
    for place, d in enumerate(given):
        if d.key_kind in (DOC_ID, URL):
            for row in finder.rows_with("doc_id" if d.key_kind == DOC_ID else "url", d.key):
                put([place], row)
    for part in shelf.parts if scanned else ():
        for keys, row in _hit([given[p] for p in scanned], shelf.columns(part, _OF_RUN)):
            put([scanned[k] for k in keys], row)
    return list(found.values())
