"""From a key to the ledger's rows: a URL, a record id, a doc_id or its beginning, ``source@offset``. A key that names
nothing gets the keys nearest to it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.queries.index import UUID, Index, bare_id, bare_url, id_key, prefix_range, url_key
from cleanpipe.queries.near import (
    BRIEF,
    NEAREST,
    PARTS,
    Near,
    near_digits,
    near_of,
    near_urls,
    near_word,
    word_of,
)  # fmt: skip
from cleanpipe.queries.shelf import Place, Shelf

Kind = Literal["doc_id", "record_id", "url", "offset"]
LEAST = 6  # hex digits of a doc_id's beginning
MOST = 1000  # rows of one key that are listed
_SCHEMES = ("https", "http")  # that a URL may be given without
_HEX = re.compile(r"[0-9a-fA-F]+")
_FORMLESS = re.compile(r"[^./@:<>-]*")
FORMS = (
    f"a KEY is a URL (http:// may be left out), a record id, a doc_id or at least {LEAST} hex digits of its beginning, "
    "or SOURCE@OFFSET"
)
_OFFSET = re.compile(r"(.*)@([0-9][0-9,_]*)(?:\+[0-9,_]+)?", re.DOTALL)


@dataclass(slots=True)
class Found:
    """places: the rows, in the ledger's order, at most MOST. more: candidates beyond. kind: how the key was read.

    scanned: ledger parts that had to be read through, for lack of an index.
    """

    kind: Kind
    places: list[Place]
    rows: list[dict[str, Any]]  # columns BRIEF
    more: int = 0
    scanned: int = 0


class UnknownKeyError(ConfigError):
    """No row, or too many, for a key. nearest: the keys that might have been meant."""

    public = True

    def __init__(self, message: str, nearest: Sequence[Near] = ()) -> None:
        super().__init__(message)
        self.nearest = list(nearest)


@dataclass(slots=True)
class Finder:
    """Looks keys up on a shelf."""

    shelf: Shelf
    scanned: set[int] = field(default_factory=set)

    def find(self, key: str) -> Found:
        """Every row that the key names; see UnknownKeyError."""
        key = key.encode("utf-8", "replace").decode().strip()  # bytes of a command line that are no text
        if not key:
            raise UnknownKeyError("KEY is empty: give a URL, a record id, a doc_id or source@offset")
        self.scanned.clear()
        kinds = list(_kinds(key))
        for kind in kinds:
            places, more = self._exact(kind, key)
            if places:
                rows = self.shelf.rows(places, BRIEF)
                if kind == "doc_id" and len({r[col.DOC_ID] for r in rows}) > 1:
                    several = [near_of(r, "doc_id", "begins so too") for r in rows[:NEAREST]]
                    raise UnknownKeyError(f"{key} begins {len(rows):,} doc_ids: give more of it", several)
                return Found(kind, places, rows, more, len(self.scanned))
        nearest: list[Near] = []
        for kind in kinds:
            nearest += [n for n in self._nearest(kind, key) if n.key not in {o.key for o in nearest}]
        looked = ""
        if (word := word_of(key)) and (not nearest or ("url" in kinds and "://" not in key)):
            for near in near_word(self.shelf, word):
                nearest += [near] * (near.key not in {o.key for o in nearest})
                if len(nearest) >= NEAREST:
                    break
            else:
                looked = f" ({word!r} was looked for in the URLs of {PARTS} of its {len(self.shelf.parts):,} parts)"
        whole = len(self.shelf.parts) <= PARTS
        raise UnknownKeyError(self._unknown(kinds, key) + looked * (not whole), nearest[:NEAREST])

    def _unknown(self, kinds: Sequence[Kind], key: str) -> str:
        shown = key if len(key) <= 200 else f"{key[:199]}…"
        if _HEX.fullmatch(key) and not LEAST <= len(key) <= 32:
            return f"{shown}: a doc_id has 32 hex digits; of its beginning at least {LEAST} are needed"
        if _FORMLESS.fullmatch(key) and kinds[0] != "doc_id":
            return f"{shown!r} names no row of the ledger of {self.shelf.run.root}: {FORMS}"
        what = {"doc_id": "doc_id", "record_id": "record id", "url": "URL", "offset": "source and offset"}[kinds[0]]
        return f"no row of the ledger of {self.shelf.run.root} has the {what} {shown}"

    # --- exact

    def _exact(self, kind: Kind, key: str) -> tuple[list[Place], int]:
        if kind == "offset":
            return self._at_offset(*_offset(key)), 0
        candidates = list(self._candidates(kind, key))
        places: list[Place] = []
        for begin in range(0, len(candidates), MOST):
            some = candidates[begin : begin + MOST]
            rows = self.shelf.rows(some, (_COLUMN[kind],))
            places += [p for p, r in zip(some, rows, strict=True) if _says(kind, key, r.get(_COLUMN[kind]))]
            if len(places) >= MOST:
                return places[:MOST], len(places) - MOST + len(candidates) - begin - len(some)
        return places, 0

    def _candidates(self, kind: Kind, key: str) -> Iterator[Place]:
        """Rows that may have the key, by index; where a part has none, by reading the column."""
        low, high = _range(kind, key)
        for part in self.shelf.parts:
            index = self.shelf.indexes.get(part)
            rows = self._scan(part, kind, key) if index is None else index.between(_COLUMN[kind], low, high)
            yield from ((part, row) for row in sorted(rows))

    def _scan(self, part: int, kind: Kind, key: str) -> list[int]:
        self.scanned.add(part)
        table = self.shelf.columns(part, (_COLUMN[kind],))
        if not table.num_columns or not table.num_rows:
            return []
        values = table.column(0)
        if kind == "url":
            rough = pc.is_in(values, pa.array([key, *(f"{scheme}://{key}" for scheme in _SCHEMES)]))
        elif kind == "record_id":
            part_of = max(re.findall(r"[a-z0-9]+", bare_id(key)) or [""], key=len)
            rough = pc.match_substring(pc.utf8_lower(values), part_of)
        else:
            first, (low, high) = pc.binary_slice(values.cast(pa.binary()), 0, 4), _range(kind, key)
            rough = pc.and_(pc.greater_equal(first, low.to_bytes(4)), pc.less_equal(first, high.to_bytes(4)))
        return [int(r) for r in np.flatnonzero(pc.fill_null(rough, False).to_numpy())]

    def stands_for(self, doc_id: bytes) -> int:
        """How many documents name this kept one."""
        low, high = prefix_range(doc_id.hex())
        # every kept_doc_id is a doc_id: where no other one begins so, none but this is meant
        alone = sum(len(i.between(col.DOC_ID, low, high)) for i in self.shelf.indexes.values()) <= 1
        total = 0
        for part in self.shelf.parts:
            index = self.shelf.indexes.get(part)
            if index is not None and not index.between(col.KEPT_DOC_ID, low, high):
                continue
            if index is not None and alone:
                total += len(index.between(col.KEPT_DOC_ID, low, high))
                continue
            table = self.shelf.columns(part, (col.KEPT_DOC_ID,))
            if table.num_columns:
                total += int(pc.sum(pc.equal(table.column(0), pa.scalar(doc_id, col.ID))).as_py() or 0)
        return total

    def rows_with(self, kind: Kind, key: str) -> list[dict[str, Any]]:
        """The whole rows that a key of this kind names, at most MOST; none is no error."""
        return self.shelf.rows(self._exact(kind, key)[0])

    def row_of(self, doc_id: bytes) -> dict[str, Any] | None:
        """The whole row of a document."""
        places, _ = self._exact("doc_id", doc_id.hex())
        return self.shelf.rows(places[:1])[0] if places else None

    # --- source@offset

    def _at_offset(self, source: str, offset: int) -> list[Place]:
        out = []
        for name in self._sources(source)[:1]:
            for part, rows in self._offsets(name, offset, offset):
                out += [(part, row) for row, at in rows if at == offset]
        return out

    def _sources(self, given: str) -> list[str]:
        """The source of this name; or those that end so, where it is given without its folders."""
        names = [str(i["source"]) for i in self.shelf.run.facts["inputs"]]
        if given in names:
            return [given]
        ending = [n for n in names if n.endswith(f"/{given}")] or [n for n in names if given.endswith(f"/{n}")]
        return ending if len(ending) == 1 else []

    def _offsets(self, source: str, low: int, high: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Rows and offsets of the source in the parts that may have offsets low ≤ offset ≤ high."""
        for part in self.shelf.units_of(source):
            yield part, self.shelf.offsets(part, source, low, high)

    # --- nearest

    def _indexes(self) -> dict[int, Index]:
        """Of every part, or of the first ones where they must be made."""
        have = dict(self.shelf.indexes)
        for part in [p for p in self.shelf.parts if p not in have][:PARTS]:
            have[part] = self.shelf.made(part)
        return have

    def _nearest(self, kind: Kind, key: str) -> list[Near]:
        if kind == "url":
            return near_urls(self.shelf, self._indexes(), key)
        if kind == "offset":
            return self._nearest_offsets(*_offset(key))
        if kind == "doc_id":
            return self._nearest_ids(key.lower())
        low, high = _range(kind, key)
        indexes, bare = self._indexes(), bare_id(key)
        off = near_digits(self.shelf, indexes, col.RECORD_ID, bare) if UUID.fullmatch(bare) else []
        some = [(p, r) for p, i in indexes.items() for r in i.between(col.RECORD_ID, low, high)][:NEAREST]
        return [*off, *(near_of(r, col.RECORD_ID, "begins alike") for r in self.shelf.rows(some, BRIEF))]

    def _nearest_ids(self, key: str) -> list[Near]:
        indexes = self._indexes()
        if off := near_digits(self.shelf, indexes, col.DOC_ID, key):
            return off
        for digits in range(min(8, len(key) - 1), 2, -1):
            low, high = prefix_range(key[:digits])
            places = []
            for part, index in indexes.items():
                places += [(part, row) for row in index.between(col.DOC_ID, low, high)[:NEAREST]]
            if places:
                rows = self.shelf.rows(places[:NEAREST], BRIEF)
                return [near_of(r, col.DOC_ID, f"begins with {key[:digits]}") for r in rows]
        return []

    def _nearest_offsets(self, source: str, offset: int) -> list[Near]:
        names = self._sources(source)
        if not names:
            known = {str(i["source"]).rpartition("/")[2]: str(i["source"]) for i in self.shelf.run.facts["inputs"]}
            close = difflib.get_close_matches(source.rpartition("/")[2], known, NEAREST, 0.5)
            return [Near(f"{known[n]}@{offset}", "an input of that name", "", None) for n in close]
        all_of = [((part, row), at) for part, rows in self._offsets(names[0], -(2**62), 2**62) for row, at in rows]
        all_of.sort(key=lambda p: abs(p[1] - offset))
        rows = self.shelf.rows([p for p, _ in all_of[:NEAREST]], (*BRIEF, col.RECORD_LENGTH))
        out = []
        for r in rows:
            at, length = int(r[col.RECORD_OFFSET]), int(r.get(col.RECORD_LENGTH) or 0)
            inside = at < offset < at + length
            why = "the record that this offset lies in" if inside else f"{at - offset:+,} bytes from there"
            out.append((not inside, abs(at - offset), near_of(r, "offset", why)))
        return [n for _, _, n in sorted(out, key=lambda o: o[:2])]


_COLUMN = {"doc_id": col.DOC_ID, "record_id": col.RECORD_ID, "url": col.URL}


def _kinds(key: str) -> Iterator[Kind]:
    """How a key may be read, the likeliest first."""
    bare = bare_id(key)
    is_hex = _HEX.fullmatch(key) is not None
    is_id = (
        key.startswith("<") or key.lower().startswith("urn:") or re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-.*", bare)
    )
    if is_hex and LEAST <= len(key) <= 32:
        yield "doc_id"
    if is_id:
        yield "record_id"
    is_url = not is_hex and not (is_id and "://" not in key)
    if is_url and "://" in key:
        yield "url"
    if _OFFSET.fullmatch(key):
        yield "offset"
    if is_url and "://" not in key:
        yield "url"
    if not is_hex and not is_id:
        yield "record_id"
    if is_hex and not LEAST <= len(key) <= 32:
        yield "record_id"


def _range(kind: Kind, key: str) -> tuple[int, int]:
    if kind == "doc_id":
        return prefix_range(key.lower())
    only = id_key(key) if kind == "record_id" else url_key(*bare_url(key))
    return only, only


def _says(kind: Kind, key: str, value: Any) -> bool:
    """Whether a row's value is what the key names."""
    if value is None:
        return False
    if kind == "doc_id":
        return bool(value.hex().startswith(key.lower()))
    if kind == "record_id":
        return bare_id(value) == bare_id(key)
    return value == key or value in [f"{scheme}://{key}" for scheme in _SCHEMES]


def _offset(key: str) -> tuple[str, int]:
    found = _OFFSET.fullmatch(key)
    assert found is not None
    digits = found[2].replace(",", "").replace("_", "")
    return found[1], int(digits[:18])  # beyond any file
