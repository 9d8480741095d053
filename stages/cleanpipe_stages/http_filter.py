"""http_filter: keeps the pages a server meant to give: status 200, and a type that holds text.

WET records have neither status nor type; nothing is guessed for them: "not applicable". A ``resource`` has no status,
only a type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.stage import Judge, Outcome, Stage, Step, option

NOT_HTTP, UNREADABLE_STATUS, BAD_STATUS, BAD_TYPE = "not_http", "unreadable_status", "bad_status", "bad_type"


@dataclass(frozen=True, kw_only=True)
class HttpFilter(Stage):
    """Judges record kind, then status, then type; the first that is wrong is the reason.

    not_http: a response that is not HTTP (``dns:``). unreadable_status: HTTP whose status cannot be read. bad_status:
    any other than wanted, 203 and 206 too. bad_type: ``media_type`` (declared, identified and sniffed type weighed by
    the core's one table) is not wanted, or nothing tells it.
    """

    name: ClassVar[str] = "http_filter"
    reads: ClassVar[frozenset[str]] = frozenset(
        {col.RECORD_TYPE, col.HTTP_STATUS, col.IS_HTTP, col.MEDIA_TYPE, col.DECLARED_TYPE}
    )
    reasons: ClassVar[frozenset[str]] = frozenset({NOT_HTTP, UNREADABLE_STATUS, BAD_STATUS, BAD_TYPE})

    statuses: tuple[int, ...] = option((200,), "HTTP statuses that are kept", source="the literal rule")
    types: tuple[str, ...] = option(
        ("text/html", "application/xhtml+xml", "text/plain"),
        "media types that are kept, lower case, without parameters",
        source="the literal rule, and XHTML, which is parsed as HTML",
    )

    type_from: Literal["table", "declared"] = option(
        "table", "the type that is judged: what the table makes of declared, identified and sniffed; or the declared"
    )

    def check(self) -> None:
        """Raises ConfigError if nothing could pass, or a type is not spelled as the reader spells it."""
        if not self.statuses or not self.types:
            raise ConfigError("`statuses` and `types` name at least one each", stage=self.name)
        if odd := [s for s in self.statuses if not 100 <= s <= 999]:
            raise ConfigError(f"statuses: {odd[0]} is no HTTP status", stage=self.name)
        for kind in self.types:
            if kind != kind.lower().partition(";")[0].strip() or kind.count("/") != 1:
                raise ConfigError(f"types: {kind!r} is no lower-case media type without parameters", stage=self.name)

    def in_words(self) -> str:
        """Statuses and types that are kept, as they are set."""
        status = ", ".join(map(str, self.statuses))
        which = "type by declared, identified and sniffed type" if self.type_from == "table" else "declared type"
        return (
            f"Keeps HTTP responses of status {status} whose {which} is {' or '.join(self.types)}; WET records have "
            "neither and pass."
        )

    def judge(self) -> Judge:
        """All that is judged stands in the ledger."""
        statuses, types = pa.array(self.statuses, pa.int16()), pa.array(self.types, pa.string())
        judged = col.MEDIA_TYPE if self.type_from == "table" else col.DECLARED_TYPE

        def judge(rows: pa.RecordBatch) -> pa.Array:
            kind, status, http = (rows.column(n) for n in (col.RECORD_TYPE, col.HTTP_STATUS, col.IS_HTTP))
            wet, no_status = _not_asked(kind, http)
            wrong: Mapping[str, pa.Array] = {
                NOT_HTTP: pc.and_(pc.invert(pc.fill_null(http, True)), pc.invert(no_status)),
                UNREADABLE_STATUS: pc.and_(pc.is_null(status), pc.invert(no_status)),
                BAD_STATUS: pc.and_(pc.invert(pc.is_in(status, statuses)), pc.invert(no_status)),
                BAD_TYPE: pc.and_(pc.invert(pc.is_in(rows.column(judged), types)), pc.invert(wet)),
            }
            names = [pa.scalar(n) for n in wrong]
            cases = pa.StructArray.from_arrays([_whole(w) for w in wrong.values()], names=list(wrong))
            return pc.case_when(cases, *names, pa.scalar(None, pa.string()))

        return Judge(self.reads, frozenset(f.name for f in fields(self)), judge)

    def open(self) -> Step:
        """Raises ConfigError as ``check`` does."""
        self.check()
        judge = self.judge().judge

        def step(batch: pa.RecordBatch) -> Outcome:
            wet, no_status = _not_asked(batch.column(col.RECORD_TYPE), batch.column(col.IS_HTTP))
            facts = {"status_not_applicable": _count(no_status), "type_not_applicable": _count(wet)}
            return Outcome(batch, drops=judge(batch), skipped=wet, facts=facts)

        return step


def _not_asked(kind: pa.Array, http: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Rows without a type to judge, and rows without a status."""
    wet = pc.fill_null(pc.equal(kind, "conversion"), False)
    # a resource is judged by status only where it brings an HTTP block after all
    bare = pc.and_(pc.fill_null(pc.equal(kind, "resource"), False), pc.invert(pc.fill_null(http, False)))
    return wet, pc.or_(wet, bare)


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)
