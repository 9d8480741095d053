"""Rows of an answer as text: a table for a terminal, CSV, JSON, JSON lines, Markdown; and what there is to ask."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
from rich.cells import cell_len, set_cell_size

from cleanpipe import batch as col
from cleanpipe.engine.rows import shard_schema
from cleanpipe.queries.columns import TABLES, meanings
from cleanpipe.queries.opened_run import OpenRun
from cleanpipe.queries.sql import CORPUS_EXAMPLES, EXAMPLES, Sql, tables_of
from cleanpipe.queries.token_tables import EXAMPLES as TOKEN_EXAMPLES
from cleanpipe.queries.token_tables import TABLES as TOKEN_TABLES
from cleanpipe.queries.token_tables import token_meanings
from cleanpipe_jobs.output import show

LEAST = 8  # cells of a column that is cut, at least
HEAD = 2000  # rows from which the widths of a table's columns are taken
_NULL = "NULL"


def plain_rows(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Each row as JSON has it: identities as hexadecimal digits, times in ISO 8601; equal names are numbered."""
    names = _unique(schema.names)
    for values in _values(batches):
        yield dict(zip(names, values, strict=True))


def lines(kind: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    """csv, json, jsonl or markdown, line by line."""
    if kind == "csv":
        yield _csv(schema.names)
        for values in _values(batches):
            yield _csv(["" if v is None else _text(v) for v in values])
    elif kind == "jsonl":
        yield from (json.dumps(row, ensure_ascii=False) for row in plain_rows(schema, batches))
    elif kind == "json":
        rows = plain_rows(schema, batches)
        last = next(rows, None)
        yield "[" if last is not None else "[]"
        while last is not None:
            following = next(rows, None)
            yield f" {json.dumps(last, ensure_ascii=False)}{',' if following is not None else ''}"
            last = following
            if last is None:
                yield "]"
    else:
        yield from _markdown(schema, batches)


def table(schema: pa.Schema, batches: Iterable[pa.RecordBatch], width: int | None) -> Iterator[str]:
    """A table, or a line a column where even cut columns are too wide. width: cells of the terminal; None: no limit."""
    rows = ([_NULL if v is None else safe(_text(v)) for v in values] for values in _values(batches))
    heads = [safe(name) for name in schema.names]
    if not heads:
        return
    first = list(itertools.islice(rows, HEAD))
    widths = [max(map(cell_len, column)) for column in zip(heads, *first, strict=True)]
    if width is not None:
        widths = _cut(widths, width - 2 * (len(widths) - 1))
        if not widths:
            yield from _upright(heads, itertools.chain(first, rows), width)
            return
    right = [_is_number(f.type) for f in schema]
    yield _line(heads, widths, right)
    yield "  ".join("─" * w for w in widths)
    for row in itertools.chain(first, rows):
        yield _line(row, widths, right) if width is not None else _line(row, widths, right, cut=False)


def safe(text: str) -> str:
    """Text from pages as a terminal may have it: what does not print is spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _spelled(c) for c in text)


def overview(run: OpenRun, asked: Sql, *, as_json: bool) -> None:
    """Print the tables, their columns with their meanings, and examples."""
    pipeline = run.recipe.pipeline()
    stages = pipeline.complete()
    known: dict[str, list[dict[str, str]]] = {}
    rows: dict[str, int | None] = {}
    examples = CORPUS_EXAMPLES if run.corpus else TOKEN_EXAMPLES if run.tokens else EXAMPLES
    what_is = {**TABLES, "ledger": "one row for every document of the corpus"} if run.corpus else TABLES
    what_is = TOKEN_TABLES if run.tokens else what_is
    for name in tables_of(run):
        if name == "shards":
            schema = shard_schema(pipeline)
            counted = run.audit.get("shards", {}).get("rows", {}).get("value") if run.finished else None
            rows[name] = counted if isinstance(counted, int) else None
        else:
            schema = asked.ask(f"FROM {name} LIMIT 0").schema
            rows[name] = next(asked.ask(f"FROM {name} SELECT count(*)").batches).column(0)[0].as_py()
        if run.tokens:
            said = token_meanings(schema.names, name, stages)
        else:
            said = {**meanings(schema.names, name, stages), **(_of_corpus() if run.corpus else {})}
        known[name] = [{"name": f.name, "type": _type(f.type), "meaning": said[f.name]} for f in schema]
    if as_json:
        tables = {n: {"rows": rows[n], "meaning": what_is[n], "columns": known[n]} for n in known}
        out: dict[str, Any] = {"out": run.root, "tables": tables, "examples": [s for _, s in examples]}
        show(json.dumps(out | ({"caution": run.caution} if run.caution else {}), indent=2, ensure_ascii=False))
        return
    for name, columns in known.items():
        count = f"{rows[name]:,} rows" if rows[name] is not None else "not written yet"
        show(f"{name}: {what_is[name]} ({count})\n")
        for c in columns:
            show(f"  {c['name']:<32} {c['type']:<10} {safe(c['meaning'])}")
        show()
    show("host(url): a URL's host. id('…'): 32 hexadecimal digits as an identity, for WHERE doc_id = id('…').")
    show("\nexamples:")
    for what, sql in examples:
        show(f"  -- {what}\n  {sql}")


def _of_corpus() -> dict[str, str]:
    """Columns that the ledger of a corpus audit has alone, or has otherwise than that of a run."""
    from cleanpipe.corpus.damage import FAULTS
    from cleanpipe.corpus.scan import HOST, TOKENS, WINDOWS
    from cleanpipe.corpus.settle import CLUSTER, FAILS, ROW

    faults = {fault: f"a count; documents above 0 {what}" for fault, what in FAULTS.items()}
    return faults | {
        col.SOURCE: "the file it was read from",
        col.RECORD_OFFSET: "where its row begins: bytes of a file of lines, else the number of the row",
        col.RECORD_ID: "the identifier that the corpus gives it",
        col.URL: "the address that the corpus gives it",
        col.FATE: "what a run of the recipe would do: kept or dropped; quarantined where it failed",
        ROW: "the line of a file of lines, else the row, from 1",
        HOST: "of the address",
        WINDOWS: "windows that it was joined from, where the corpus is a run's shards",
        TOKENS: "by the tokenizer that was named",
        FAILS: "every stage and reason that it would be dropped for",
        CLUSTER: "of copies: the doc_id of the one that is kept",
    }


def _type(kind: pa.DataType) -> str:
    if pa.types.is_fixed_size_binary(kind) or pa.types.is_binary(kind):
        return "identity"
    names = {"string": "text", "large_string": "text", "double": "number", "bool": "boolean"}
    if pa.types.is_integer(kind):
        return "integer"
    return "time" if pa.types.is_timestamp(kind) else names.get(str(kind), str(kind))


def _values(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        columns = [[_plain(v) for v in _naive(c).to_pylist()] for c in batch.columns]
        for i, kind in enumerate(batch.schema.types):
            if _is_instant(kind):
                columns[i] = [v if v is None else f"{v}Z" for v in columns[i]]
        yield from zip(*columns, strict=True) if columns else ()


def _naive(column: pa.Array) -> pa.Array:
    """Instants as UTC without a zone's name, for which Python may have no database of zones; ``_values`` marks them."""
    return column.cast(pa.timestamp(column.type.unit)) if _is_instant(column.type) else column


def _is_instant(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.tz is not None)


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat()
        return value.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return str(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False)


def _csv(cells: Sequence[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(cells)  # so that both are quoted where they stand in a cell
    return out.getvalue().removesuffix("\r\n")


def _markdown(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[str]:
    from cleanpipe.card.readme import escape_all

    yield "| " + " | ".join(map(escape_all, schema.names)) + " |"
    yield "|" + "|".join(" ---: " if _is_number(f.type) else " --- " for f in schema) + "|"
    for values in _values(batches):
        yield "| " + " | ".join("" if v is None else escape_all(_text(v)) for v in values) + " |"


def _unique(names: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return out


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _cut(widths: list[int], room: int) -> list[int]:
    """The widest columns cut to one width so that all fit; [] where they would be too narrow to read."""
    if sum(widths) <= room:
        return widths
    for most in range(max(widths) - 1, LEAST - 1, -1):
        if sum(min(w, most) for w in widths) <= room:
            return [min(w, most) for w in widths]
    return []


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], *, cut: bool = True) -> str:
    out = []
    for cell, width, numeric in zip(cells, widths, right, strict=True):
        size = cell_len(cell)
        if size > width and cut:
            cell, size = set_cell_size(cell, width - 1) + "…", width
        pad = " " * max(0, width - size)
        out.append(pad + cell if numeric else cell + pad)
    return "  ".join(out).rstrip()


def _upright(heads: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> Iterator[str]:
    """Each row as lines of one column."""
    first = min(max(map(cell_len, heads)), max(width // 2, LEAST))
    widths = [first, max(width - first - 2, LEAST)]
    for number, row in enumerate(rows, 1):
        yield f"── row {number:,} "
        yield from (_line(pair, widths, [False, False]) for pair in zip(heads, row, strict=True))


def _spelled(c: str) -> str:
    point = ord(c)
    known = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return known.get(c) or (
        f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
    )
