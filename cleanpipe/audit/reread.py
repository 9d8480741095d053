"""Reading a published run back: the ledger's laws, its counts, and the windows of each document joined again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe.audit.facts import ledger_tally
from cleanpipe.io.documents import DOCUMENT_TYPES
from cleanpipe.tally import Tally, add

_FATES = (col.KEPT, col.DROPPED, col.QUARANTINED)
_AT_ONCE = 8_000_000  # ids compared in one go
_KEPT = (col.DOC_ID, col.CONTENT_ID, col.CHARS_OUT, col.WINDOWS, col.SHARD)
Row = tuple[bytes, bytes | None, int | None, int | None]  # id, content id, characters, windows of a kept document


class LedgerReader:
    """The sound parts of a ledger. ``at`` is the one being read, for whoever catches what reading it raises."""

    def __init__(self, out: Path, parts: Sequence[str], shards: set[str]) -> None:
        self.out, self.parts, self.shards = out, list(parts), {s.removeprefix("data/") for s in shards}
        self.at = self.parts[0] if self.parts else "ledger/"
        self.rows = self.quarantined = 0
        self.tally: Tally = {}

    def _groups(self, columns: Sequence[str] | None = None) -> Iterator[tuple[str, pa.Table]]:
        for name in self.parts:
            self.at = name
            with pq.ParquetFile(self.out / name) as file:
                for i in range(file.num_row_groups):
                    yield name, file.read_row_group(i, columns=None if columns is None else list(columns))

    def check(self, rows_named: Callable[[str], int | None]) -> Iterator[tuple[str, str]]:
        """Faults as (file, what); counts everything on the way. Raises what pyarrow raises on a damaged part."""
        schema: pa.Schema | None = None
        for name in self.parts:
            self.at = name
            with pq.ParquetFile(self.out / name) as file:
                rows, found = file.metadata.num_rows, file.schema_arrow
            if (said := rows_named(name)) != rows:
                yield name, f"{rows:,} rows, {said} in the manifest"
            if schema is not None and not found.equals(schema):
                yield name, f"its columns are not those of {self.parts[0]}"
            schema = schema or found
        for name, table in self._groups():
            table.validate(full=True)
            self.rows += table.num_rows
            yield from ((name, what) for what in self._laws(table))
            tally, _ = ledger_tally(table, {}, seed=0, samples=0)
            tally.pop("hosts")  # as many as there are hosts; nothing here asks for them
            add(self.tally, tally)
        fates = self.tally.get("fates", {}).get(col.QUARANTINED, {})
        self.quarantined = sum(e["documents"] for by in fates.values() for e in by.values())
        yield from self._ids()

    def _laws(self, table: pa.Table) -> Iterator[str]:
        """What holds for every single row."""
        fate, shard = table.column(col.FATE), table.column(col.SHARD)
        kept = pc.fill_null(pc.equal(fate, col.KEPT), False)
        valid = {n: pc.is_valid(table.column(n)) for n in (*_KEPT, col.STAGE, col.REASON)}
        known = pc.is_in(shard, pa.array(sorted(self.shards), pa.string()))
        laws = {
            "have no doc_id": pc.invert(valid[col.DOC_ID]),
            f"have a fate other than {', '.join(_FATES)}": pc.invert(pc.is_in(fate, pa.array(_FATES))),
            "are kept, yet have a stage or reason": pc.and_(kept, pc.or_(valid[col.STAGE], valid[col.REASON])),
            "are not kept, and lack a stage or reason": pc.and_(
                pc.invert(kept), pc.invert(pc.and_(valid[col.STAGE], valid[col.REASON]))
            ),
            "are not kept, yet name a shard": pc.and_(pc.invert(kept), valid[col.SHARD]),
            "are kept, and name a shard that is not in the manifest": pc.and_(kept, pc.invert(known)),
        }
        for name in (col.CONTENT_ID, col.CHARS_OUT, col.WINDOWS):
            laws[f"are kept, and have no {name}"] = pc.and_(kept, pc.invert(valid[name]))
        for what, broken in laws.items():
            if n := pc.sum(broken).as_py() or 0:
                first = pc.index(broken, True).as_py()
                row = table.select([col.SOURCE, col.RECORD_OFFSET]).slice(first, 1).to_pylist()[0]
                yield f"{n:,} rows {what}: first {row[col.SOURCE]}@{row[col.RECORD_OFFSET]}"

    def _ids(self) -> Iterator[tuple[str, str]]:
        """Ids stand once each, and every document that stands for another one is there; so many ids at a time."""
        passes = -(-self.rows // _AT_ONCE)
        twice = lost = 0
        for i in range(passes):
            own: list[npt.NDArray[np.uint64]] = []
            named: list[npt.NDArray[np.uint64]] = []
            for _, table in self._groups((col.DOC_ID, col.KEPT_DOC_ID)):
                for name, into in ((col.DOC_ID, own), (col.KEPT_DOC_ID, named)):
                    ids = _halves(pc.drop_null(table.column(name)))
                    into.append(ids[ids[:, 0] % passes == i])
            mine = np.concatenate(own)
            mine = mine[np.lexsort((mine[:, 1], mine[:, 0]))]
            twice += int((mine[1:] == mine[:-1]).all(axis=1).sum())
            lost += int((~np.isin(np.concatenate(named)[:, 0], mine[:, 0])).sum())
        if twice:
            yield "ledger/", f"{twice:,} doc_ids stand twice"
        if lost:
            yield "ledger/", f"{lost:,} rows name a kept_doc_id that is in no row"

    def compared(self, audit: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        """Figures of the audit that differ from this count: what, theirs, ours."""
        said, own = audit.get("ledger"), self.tally
        said = said if isinstance(said, dict) else {}
        yield from _differ("rows of the ledger", said.get("rows"), own.get("rows", 0))
        yield from _differ("characters kept", said.get("chars_kept"), own.get("chars_kept", 0))
        theirs, ours = _flat(said.get("fates")), _flat(own.get("fates"))
        for key in sorted({*theirs, *ours}):
            yield from _differ(key, theirs.get(key, 0), ours.get(key, 0))
        for stage, entry in _items(audit.get("stages")):
            fates = own.get("fates", {})
            for word in (col.DROPPED, col.QUARANTINED):
                there = entry.get(word) if isinstance(entry, dict) else None
                again = {r: e["documents"] for r, e in fates.get(word, {}).get(stage, {}).items()}
                yield from _differ(f"documents {word} by {stage}", there, again)
        records = audit.get("input", {}).get("records", {}).get("by_source", {})
        sources = own.get("sources", {})
        for source in sorted({*records, *sources}):
            again = {k: n for k, n in sources.get(source, {}).get("types", {}).items() if k}
            there = {k: n for k, n in _items(records.get(source)) if k in DOCUMENT_TYPES}
            yield from _differ(f"documents of {source}", there, again)

    def kept(self) -> Iterator[tuple[str, list[Row]]]:
        """Kept documents in the ledger's order, by runs of one shard."""
        held: list[Row] = []
        shard: str | None = None
        for _, table in self._groups((*_KEPT, col.FATE)):
            rows = table.filter(pc.equal(table.column(col.FATE), col.KEPT))
            columns = [rows.column(n).to_pylist() for n in _KEPT]
            for identity, content, chars, windows, name in zip(*columns, strict=True):
                if name != shard:
                    if shard is not None:
                        yield shard, held
                    held, shard = [], name
                held.append((identity, content, chars, windows))
        if shard is not None:
            yield shard, held


class Rejoin:
    """The windows of one shard, row by row, joined to documents. rows: what the ledger expects there, None: unknown."""

    COLUMNS: ClassVar[tuple[str, ...]] = (
        col.DOC_ID, col.TEXT, col.LENGTH, col.BYTES, col.WINDOW, col.WINDOWS, col.CHAR_START, col.CHAR_END, col.OVERLAP,
    )  # fmt: skip

    def __init__(self, size: int | None, rows: list[Row] | None) -> None:
        self.size, self.expected = size, rows
        self.findings: list[str] = []
        self.rows = self.documents = 0
        self._id: bytes | None = None
        self._reset()

    def _reset(self) -> None:
        self._digest = hashlib.sha256()
        self._next = self._windows = self._end = self._start = 0
        self._broken = False

    def take(self, batch: pa.RecordBatch) -> None:
        """The next rows of the shard."""
        for row in zip(*(batch.column(n).to_pylist() for n in self.COLUMNS), strict=True):
            identity, text, length, size, window, windows, start, end, overlap = row
            if identity != self._id or (window == 0 and self._next):
                self._finish()
                self._id, self._windows = identity, windows
            self.rows += 1
            if self._broken:
                continue
            if (fault := self._fault(text, length, size, window, windows, start, end, overlap)) is not None:
                self._broken = True
                self.findings.append(f"row {self.rows - 1:,}, document {_hex(identity)}, window {window}: {fault}")
                continue
            self._digest.update((text[overlap:] if overlap else text).encode())
            self._next, self._start, self._end = self._next + 1, start, end

    def _fault(self, text: Any, *numbers: Any) -> str | None:
        if text is None or self._id is None or None in numbers:
            return "a column that may not be null is null"
        length, size, window, windows, start, end, overlap = numbers
        if window != self._next or windows != self._windows:
            return f"stands where window {self._next} of {self._windows} should: windows are lost or out of order"
        if end - start != length or len(text) != length or len(text.encode()) != size:
            return "length, bytes, char_start and char_end do not fit the text"
        if self.size is not None and length > self.size:
            return f"{length:,} code points, more than {self.size:,}"
        before = self._end if window else 0
        if start + overlap != before or not 0 <= overlap <= max(length - 1, 0):
            return f"begins at {start:,} with an overlap of {overlap:,}, the window before ends at {before:,}"
        if window and (start <= self._start or end <= self._end):
            return "one of two windows lies inside the other"
        return None

    def _finish(self) -> None:
        if self._id is None:
            return
        at, self.documents = self.documents, self.documents + 1
        identity, digest, windows, end = self._id, self._digest.digest()[:16], self._next, self._end
        broken, promised = self._broken, self._windows
        self._reset()
        if broken:
            return
        who = f"document {_hex(identity)}"
        if windows != promised:
            self.findings.append(f"{who}: {windows} of its {promised} windows are there")
            return
        if self.expected is None:
            return
        if at >= len(self.expected) or self.expected[at][0] != identity:
            there = f"has {_hex(self.expected[at][0])}" if at < len(self.expected) else "ends"
            self.findings.append(f"{who} stands at place {at:,}, where the ledger {there}")
            self.expected = None  # from here on nothing would fit
            return
        _, content, chars, counted = self.expected[at]
        if digest != content:
            self.findings.append(f"{who}: its windows do not join to the text whose content_id is in the ledger")
        elif end != chars or windows != counted:
            said = f"{chars} and {counted} in the ledger"
            self.findings.append(f"{who}: {end} characters in {windows} windows, {said}")

    def end(self) -> None:
        """No more rows."""
        self._finish()
        self._id = None
        if self.expected is not None and self.documents < len(self.expected):
            missing = len(self.expected) - self.documents
            self.findings.append(f"{missing:,} documents that the ledger has here are not in the shard")


def _hex(identity: Any) -> str:
    return identity.hex() if isinstance(identity, bytes) else str(identity)


def _halves(ids: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """16-byte ids as two numbers each."""
    parts = []
    for chunk in ids.chunks:
        data = np.frombuffer(chunk.buffers()[1] or b"", np.uint8)
        parts.append(data[chunk.offset * 16 : (chunk.offset + len(chunk)) * 16].view("<u8").reshape(-1, 2))
    return np.concatenate([np.zeros((0, 2), np.uint64), *parts])


def _items(value: Any) -> list[tuple[str, Any]]:
    return sorted(value.items()) if isinstance(value, dict) else []


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    if isinstance(value, dict):
        return {k: v for name, below in value.items() for k, v in _flat(below, f"{path} {name}".strip()).items()}
    return {path: value} if path else {}


def _differ(what: str, theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    if theirs != ours:
        yield what, theirs, ours
