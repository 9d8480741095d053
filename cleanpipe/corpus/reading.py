"""One file or segment of any kind: its columns, its rows, their number."""

from __future__ import annotations

import csv

import pyarrow as pa

from cleanpipe.corpus import columns as cols
from cleanpipe.corpus import lines, tables
from cleanpipe.corpus.files import ARROW, CSV, JSONL, PARQUET, STREAM, TSV, TXT, Columns, CorpusFile, Segment
from cleanpipe.corpus.opening import DAMAGE
from cleanpipe.corpus.rows import Pieces
from cleanpipe.errors import ConfigError, ShardError

TABLES = frozenset({PARQUET, ARROW, STREAM})


def inspect(file: CorpusFile, asked: Columns) -> tuple[Columns, list[int]]:
    """The columns of one file, and the sizes of the pieces it can be cut into.

    Raises:
        ConfigError: its text column is not clear, or it is one JSON array.
        ShardError: it cannot be read at all.
    """
    if file.kind in TABLES:
        try:
            schema, pieces = tables.shape(file)
        except (OSError, pa.ArrowException, ValueError) as error:
            raise ShardError(f"no readable {file.kind} file: {error}"[:200], source=file.source) from error
        return cols.from_schema(schema, asked, file.source), pieces
    if file.kind == TXT:
        return Columns("text"), []
    if file.kind in (CSV, TSV):
        try:
            names = lines.csv_head(file)
        except (*DAMAGE, csv.Error) as error:
            raise ShardError(f"no header line can be read: {error}", source=file.source) from error
        if not names:
            raise ShardError("no header line can be read", source=file.source)
        if asked.text or len(names) > 1:
            return cols.choose(dict.fromkeys(names, "text"), asked, file.source, windows=False), []
        return Columns(names[0]), []
    rows, broken = lines.first_objects(file)
    if not rows and lines.begins_array(file):
        name = file.source.rsplit("/", 1)[-1]
        raise ConfigError(
            f"{file.source} is one JSON array, which cannot be read line by line: "
            f"jq -c '.[]' {name} > {name.partition('.')[0]}.jsonl"
        )
    if not rows and broken:
        raise ShardError(f"damaged: {broken}", source=file.source)
    if not rows:
        raise ShardError("no line of its first 16 MiB is a JSON object", source=file.source)
    return cols.from_rows(rows, asked, file.source), []


def read_segment(segment: Segment, chosen: frozenset[int] | None, *, by_line: bool) -> Pieces:
    """Its documents in pieces. chosen: rows that are wanted, counted from the segment's first; None for all."""
    kind = segment.file.kind
    if kind in TABLES:
        return tables.read_windows(segment, chosen) if segment.columns.windows else tables.read_table(segment, chosen)
    if kind == JSONL:
        return lines.read_jsonl(segment, chosen)
    if kind == TXT:
        return lines.read_text(segment, chosen, by_line=by_line)
    return lines.read_csv(segment, chosen)


def count_rows(segment: Segment, *, by_line: bool) -> int:
    """Rows of a segment as ``read_segment`` numbers them, without a look at what they hold."""
    if segment.file.kind in TABLES and not segment.columns.windows:
        try:
            return tables.count_rows(segment)
        except (OSError, pa.ArrowException, ValueError):
            return 0
    return sum(piece.read for piece in read_segment(segment, frozenset(), by_line=by_line))
