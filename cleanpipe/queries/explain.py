"""Why a document was kept or not, from its ledger row: its way through the stages, each score beside its limit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cleanpipe import batch as col
from cleanpipe.builtin import READ
from cleanpipe.errors import CleanpipeError
from cleanpipe.queries.lookup import Finder, Found
from cleanpipe.queries.opened_run import damaged
from cleanpipe.queries.shelf import Shelf
from cleanpipe.stage import Cut, Stage

Mark = Literal["passed", "decided", "not decisive", "not asked", "not measured", "not reached"]
PROVENANCE = (
    col.SOURCE, col.RECORD_OFFSET, col.RECORD_LENGTH, col.OFFSET_KIND, col.RECORD_ID, col.REFERS_TO, col.RECORD_TYPE,
    col.URL, col.DATE, col.HTTP_STATUS, col.IS_HTTP, col.DECLARED_TYPE, col.PAYLOAD_TYPE, col.SNIFFED_TYPE,
    col.MEDIA_TYPE, col.CHARSET, col.TRUNCATED, col.BYTES_IN, col.CHARS_OUT, col.CONTENT_ID,
)  # fmt: skip
_KEEPS = {
    ">=": lambda score, at: score >= at,
    ">": lambda score, at: score > at,
    "<=": lambda score, at: score <= at,
    "<": lambda score, at: score < at,
}


def explain(finder: Finder, found: Found, row: Mapping[str, Any], part: int) -> dict[str, Any]:
    """The answer as plain data.

    Args:
        finder: where the row was found; other rows (the kept document) are looked up there.
        found: the rows that the key names. row: the one that is explained, all columns. part: the ledger part it is in.
    """
    run = finder.shelf.run
    stages, cautions = run.recipe.pipeline().complete(), list[str]()
    fate, stage = row.get(col.FATE), row.get(col.STAGE)
    by = next((s for s in stages if s.name == stage), None)
    answer = {
        "out": run.root,
        "caution": run.caution,
        "kind": found.kind,
        "captures": [plain(r) for r in found.rows],
        "more": found.more,
        "scanned_parts": found.scanned,
        "doc_id": row[col.DOC_ID].hex(),
        "fate": fate,
        "stage": stage,
        "reason": row.get(col.REASON),
        "in_words": _told(by, cautions)[0] if by is not None else "",
        "provenance": plain({n: row.get(n) for n in PROVENANCE if n in row}),
        "stages": list(_way(stages, row, cautions)),
        "stands_for_it": _kept(finder, row),
        "stands_for": finder.stands_for(row[col.DOC_ID]) if fate == col.KEPT else None,
        "windows": row.get(col.WINDOWS),
        "shard": row.get(col.SHARD),
        "quarantine": _set_aside(finder.shelf, part, row) if fate == col.QUARANTINED else None,
    }
    return {**answer, "cautions": [*finder.shelf.cautions, *dict.fromkeys(cautions)]}


def _told(stage: Stage, cautions: list[str]) -> tuple[str, Sequence[Cut]]:
    """The stage in words, and its limits; a model that is not here, of which they hang, is a caution."""
    try:
        return stage.in_words(), stage.cuts()
    except CleanpipeError as error:
        cautions.append(f"the limits of {stage.name} are not known here: {error}")
        return "", ()


def _way(stages: Sequence[Stage], row: Mapping[str, Any], cautions: list[str]) -> Iterator[dict[str, Any]]:
    """Each stage with what came of the document there, its scores, and its limits."""
    names = [READ, *(s.name for s in stages)]
    fate, last = row.get(col.FATE), row.get(col.STAGE)
    end = names.index(last) if last in names else -1  # of a stage that this recipe does not have: nothing is known
    for place, stage in enumerate(stages, start=1):
        scores = {n: row.get(n) for n in stage.scores if n in row}
        measured = any(v is not None for v in scores.values())
        if fate == col.KEPT:
            outcome = "passed"
        elif fate is None:  # an unfinished run: what has a score has been there
            outcome = "passed" if measured else "not decided"
        elif end < 0:
            outcome = "unknown"
        else:
            outcome = "passed" if place < end else "not reached" if place > end else str(fate)
        words, cuts = _told(stage, cautions)
        limits = [_limit(c, row, outcome) for c in cuts]
        here = outcome == col.DROPPED and not any(li["mark"] == "decided" for li in limits)
        yield {
            "stage": stage.name,
            "in_words": words,
            "outcome": outcome,
            "scores": plain(scores),
            "limits": limits,
            "judged": plain(_judged(stage, row)) if here else None,
        }


def _judged(stage: Stage, row: Mapping[str, Any]) -> dict[str, Any]:
    """What a stage decides by where no limit does: columns of the row that it reads, and its scores."""
    judge = stage.judge()
    names = judge.columns if judge is not None else {*stage.reads, *stage.scores}
    return {n: v for n, v in row.items() if n in names}


def _limit(cut: Cut, row: Mapping[str, Any], outcome: str) -> dict[str, Any]:
    value = row.get(cut.score)
    mark: Mark
    been = outcome in ("passed", col.DROPPED, col.QUARANTINED)
    if not been:
        mark = "not reached"
    elif any(row.get(name) != wanted for name, wanted in cut.where.items()):
        mark = "not asked"
    elif value is None:
        mark = "not asked" if cut.of and outcome != col.QUARANTINED else "not measured"
    elif _KEEPS[cut.keeps](value, cut.at):
        mark = "passed"
    elif outcome == "passed":  # of those that it is asked of, none goes on
        mark = "not asked"
    else:
        mark = "decided" if outcome == col.DROPPED and row.get(col.REASON) == cut.reason else "not decisive"
    return {
        "score": cut.score, "value": value, "keeps": cut.keeps, "at": cut.at, "option": cut.option,
        "reason": cut.reason, "of": cut.of, "mark": mark,
    }  # fmt: skip


def _kept(finder: Finder, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The document that stands for this one."""
    kept = row.get(col.KEPT_DOC_ID)
    if kept is None:
        return None
    other = finder.row_of(kept) or {}
    names = (col.URL, col.SOURCE, col.RECORD_OFFSET, col.DATE, col.FATE, col.STAGE, col.REASON, col.CHARS_OUT)
    said = plain({n: other.get(n) for n in names})
    return {"doc_id": kept.hex(), "jaccard": row.get(col.JACCARD), "in_ledger": bool(other), **said}


def _set_aside(shelf: Shelf, part: int, row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Error, message and trace of a document in quarantine."""
    path = shelf.file(f"quarantine/part-{part:05d}.parquet")
    if path is None:
        return None
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return None
    for found in table.to_pylist():
        if found[col.DOC_ID] == row[col.DOC_ID] and found[col.RECORD_OFFSET] == row[col.RECORD_OFFSET]:
            return {n: found.get(n) for n in ("error", "message", "trace")}
    return None


def shard_rows(shelf: Shelf, row: Mapping[str, Any]) -> pa.Table | None:
    """The windows of a kept document as its shard has them; None where the shard is not at hand (object stores).

    Raises:
        ConfigError: the shard cannot be read.
    """
    name = f"data/{row.get(col.SHARD)}"
    path = shelf.run.folder / name
    if not row.get(col.SHARD) or not shelf.store.local or not path.is_file():
        return None
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_stream(source) as reader:
            return _of_document(reader, row[col.DOC_ID])
    except (OSError, pa.ArrowException) as error:
        raise damaged(shelf.run.root, name, str(error)) from error


def _of_document(reader: Any, doc_id: bytes) -> pa.Table:
    wanted, found = np.frombuffer(doc_id, "<u8"), []
    for batch in reader:
        ids = batch.column(col.DOC_ID)
        data = np.frombuffer(ids.buffers()[1], np.uint8)[ids.offset * 16 : (ids.offset + len(ids)) * 16]
        same = np.flatnonzero((data.reshape(-1, 16).view("<u8") == wanted).all(axis=1))
        if len(same):
            found.append(batch.take(pa.array(same)))
        elif found:
            break  # a document's windows stand together
    return pa.Table.from_batches(found, reader.schema)


def against_shard(written: pa.Table, again: pa.Table, text: str | None, but: Collection[str] = ()) -> list[str]:
    """In what the windows of a shard are not those of a replay; they must join to ``text`` too. [] for equal ones.

    but: columns that no document alone tells.
    """
    if written.num_rows != again.num_rows:
        return [f"{written.num_rows:,} windows in the shard, {again.num_rows:,} in the replay"]
    both = [n for n in written.schema.names if n in again.schema.names and n not in but]
    out = [f"column {n}" for n in both if not pc.all(_equal(written.column(n), again.column(n))).as_py()]
    pairs = zip(written.column(col.TEXT).to_pylist(), written.column(col.OVERLAP).to_pylist(), strict=True)
    if text is not None and "".join(t[o:] for t, o in pairs) != text:
        out.append("the windows do not join to the text")
    return out


def _equal(a: pa.ChunkedArray, b: pa.ChunkedArray) -> Any:
    same = pc.fill_null(pc.equal(a, b.cast(a.type)), False)
    return pc.or_(same, pc.and_(pc.is_null(a), pc.is_null(b)))


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Values as JSON has them: ids in hex, times in ISO 8601."""
    return {n: _plain(v) for n, v in row.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return value
