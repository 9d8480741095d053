"""SQL over a run, by DuckDB in memory: it reads the run's files and nothing else, and writes nothing.

What a statement may touch is settled before the first one runs: DuckDB may open the ledger and quarantine parts alone
(``allowed_paths``), its settings are locked, and statements that write files are refused by their kind.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from cleanpipe import ledger
from cleanpipe.engine.rows import shard_schema
from cleanpipe.errors import ConfigError
from cleanpipe.quarantine import QUARANTINE_SCHEMA
from cleanpipe.queries.opened_run import OpenRun
from cleanpipe.queries.token_tables import spans_of
from cleanpipe.tokens.making.ledger import SCHEMA as LEDGER

BATCH = 2048  # rows
T = TypeVar("T")
HOST = r"^[A-Za-z][A-Za-z0-9+.\-]*://(?:[^/?#@]*@)?(\[[^\]/?#]*\]|[^/?#:\[\]]+)"  # as the audit counts hosts
MACROS = (
    f"CREATE MACRO host(url) AS nullif(lower(regexp_extract(url, '{HOST}', 1)), '')",
    "CREATE MACRO id(hexadecimal) AS unhex(hexadecimal)",
)
EXAMPLES: tuple[tuple[str, str], ...] = (
    ("why a page went", "SELECT fate, stage, reason, language_id_score, perplexity FROM ledger WHERE url = 'http://…'"),
    (
        "the funnel",
        "SELECT fate, stage, reason, count(*) AS n, sum(bytes_in) AS bytes FROM ledger GROUP BY ALL ORDER BY n DESC",
    ),
    (
        "share kept, by host",
        "SELECT host(url) AS host, count(*) AS n, avg((fate = 'kept')::INT) AS kept FROM ledger GROUP BY 1 ORDER BY n",
    ),
    (
        "another threshold",
        "SELECT language, count(*) AS n, count(*) FILTER (language_id_score >= 0.8) AS at_80 FROM ledger GROUP BY 1",
    ),
    ("duplicates of a document", "SELECT url, jaccard FROM ledger WHERE kept_doc_id = id('… 32 digits …')"),
    (
        "text of some documents",
        "SELECT url, text FROM shards JOIN ledger USING (doc_id, url) WHERE length > 2000 ORDER BY doc_id, char_start",
    ),
)
CORPUS_EXAMPLES: tuple[tuple[str, str], ...] = (
    ("what a run would drop", "SELECT stage, reason, count(*) AS n FROM ledger GROUP BY ALL ORDER BY n DESC"),
    ("documents that fail", "SELECT fails, count(*) AS n FROM ledger GROUP BY 1 ORDER BY n DESC"),
    ("share kept, by host", "SELECT host, count(*) AS n, avg((fate = 'kept')::INT) AS kept FROM ledger GROUP BY 1"),
)
_WRITERS = (
    "one that only reads: SELECT, FROM, WITH, VALUES, DESCRIBE, SUMMARIZE, SHOW, EXPLAIN, PIVOT, CREATE in memory"
)
_MULTI = re.compile(r"\s*(pivot|unpivot|with|select|from|describe|summarize)\b", re.IGNORECASE)
_EXPLAIN = re.compile(r"\s*explain\b(\s*\([^()]*\)|\s+analyze\b)?", re.IGNORECASE)
_READS = ("SELECT", "CREATE", "DROP")


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns as DuckDB names them, and batches of at most BATCH rows as they come."""

    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]


class Sql:
    """The tables ``ledger``, ``quarantine`` and (if asked for) ``shards`` of one run."""

    def __init__(self, duckdb: Any, connection: Any, run: OpenRun) -> None:
        self._duckdb, self._connection, self._run = duckdb, connection, run
        self._worker = ThreadPoolExecutor(1, "sql")

    def close(self) -> None:
        """Let go of the connection."""
        self._worker.shutdown()
        self._connection.close()

    def _do(self, work: Callable[[], T]) -> T:
        """``work`` in a thread of its own: DuckDB hears no signal while it works, the waiting thread does."""
        done = self._worker.submit(work)
        try:
            return done.result()
        finally:
            if not done.done():  # a signal ended the waiting
                self._connection.interrupt()

    def ask(self, sql: str) -> Answer:
        """The answer to the last statement; those before it may make macros, views and tables in memory.

        Raises:
            ConfigError: it is no SQL, would write, or fails; with the place in the text. Batches raise it too.
        """
        with self._told():
            statements = [(s.type.name, s.query) for s in self._connection.extract_statements(sql)]
        if not statements:
            raise ConfigError("there is no statement in the SQL")
        for kind, text in statements:
            self._check(kind, text)
        last, end = statements[-1][1], 0
        for _, text in statements[:-1]:
            begin = max(sql.find(text, end), end)
            with self._told(text, sql.count("\n", 0, begin)):
                self._do(partial(self._settle, text))
            end = begin + len(text)
        with self._told(last, sql.count("\n", 0, max(sql.find(last, end), end))):
            relation = self._connection.sql(last)
            if relation is None:
                return Answer(pa.schema([]), iter(()))
            read = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
            reader = self._do(lambda: read(BATCH))
        return Answer(reader.schema, self._batches(reader))

    def _settle(self, text: str) -> None:
        self._connection.execute(text).fetchall()

    def _batches(self, reader: Any) -> Iterator[pa.RecordBatch]:
        while True:
            with self._told():
                batch = self._do(lambda: next(reader, None))
            if batch is None:
                return
            yield batch

    def _check(self, kind: str, text: str) -> None:
        if kind == "EXPLAIN":
            inner = _EXPLAIN.sub("", text, count=1)
            if inner != text:
                with self._told():
                    inside = [(s.type.name, s.query) for s in self._connection.extract_statements(inner)]
                for one in inside:
                    self._check(*one)
                return
        if kind not in _READS and not (kind == "MULTI" and _MULTI.match(text)):
            raise ConfigError(f"{kind} is no statement for a run: write {_WRITERS}")

    @contextmanager
    def _told(self, text: str = "", above: int = 0) -> Iterator[None]:
        """DuckDB's errors as one line. text: the statement; above: lines of the SQL before it."""
        try:
            yield
        except (self._duckdb.Error, pa.ArrowException, RuntimeError) as error:
            if isinstance(error, RecursionError):
                raise
            raise ConfigError(self._line(str(error), text, above)) from error

    def _line(self, message: str, text: str, above: int) -> str:
        tables = ", ".join(tables_of(self._run))
        if message.startswith("Permission"):
            return f"no files but the tables of the run can be read here: FROM {tables.replace(', ', ', FROM ')}"
        folder = str(self._run.folder)
        if folder in message:
            what = " ".join(message.partition("\n\nLINE ")[0].split()).replace(folder, self._run.root)
            return f"a part cannot be read: {what}: see `cleanpipe verify {self._run.root}`"
        if text and "\n\nLINE " not in message:  # some errors tell their place only to who explains
            try:
                self._connection.execute(f"EXPLAIN\n{text}").fetchall()
            except self._duckdb.Error as error:
                message, above = str(error), above - 1
        what, _, place = message.partition("\n\nLINE ")
        what = " ".join(what.split())
        if what.startswith("Catalog Error: Table with name"):  # the nearest may be one of DuckDB's own
            what, _, hint = what.partition(" Did you mean ")
            if not hint or hint.strip('"?') not in tables_of(self._run):
                what = f"{what} The tables are {tables}"
            else:
                what = f"{what} Did you mean {hint}"
        number, _, rest = place.partition(":")
        if not number.isdigit():
            return what
        shown, _, mark = rest.partition("\n")
        # the mark stands below the text, which begins one blank after "LINE n:"
        column = len(mark) - len(mark.lstrip()) - len(f"LINE {number}: ")
        at = shown[1:][max(column, 0) :].strip()
        return f"{what} (line {int(number) + above}{f', at {at[:40]!r}' if at else ''})"


@contextmanager
def open_sql(run: OpenRun, *, shards: bool) -> Iterator[Sql]:
    """A sealed DuckDB over the run. shards: with the text; the run must have been opened with ``data=True``.

    Raises:
        ConfigError: DuckDB is not installed, a part cannot be read, or there are no shards yet.
    """
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError("SQL needs DuckDB: pip install 'cleanpipe[sql]'") from error
    with tempfile.TemporaryDirectory(prefix="cleanpipe-", dir=run.recipe.storage.scratch or None) as scratch:
        connection = duckdb.connect(":memory:")
        sql = Sql(duckdb, connection, run)
        try:
            _fill(sql, connection, run, scratch, shards=shards)
            yield sql
        finally:
            sql.close()


def _fill(sql: Sql, connection: Any, run: OpenRun, scratch: str, *, shards: bool) -> None:
    import pyarrow.dataset as ds

    pipeline = run.recipe.pipeline()
    tables = {"ledger": (run.parts, LEDGER if run.tokens else ledger.schema(pipeline.scores()))}
    if not run.corpus and not run.tokens:
        aside = sorted((run.folder / "quarantine").glob("part-*.parquet"))
        tables["quarantine"] = aside, QUARANTINE_SCHEMA
    for name in ("python_enable_replacements", "autoinstall_known_extensions", "autoload_known_extensions"):
        connection.execute(f"SET {name} = false")
    connection.execute(f"SET temp_directory = {_literal(scratch)}")  # what does not fit in memory
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET allowed_paths = {_literals([p for parts, _ in tables.values() for p in parts])}")
    with sql._told():
        for name, (parts, schema) in tables.items():
            if parts and any(c in str(run.folder) for c in "*?["):  # DuckDB would take the name for a pattern
                connection.register(name, ds.dataset([str(p) for p in parts], format="parquet"))
            elif parts:
                connection.execute(f"CREATE VIEW {name} AS FROM read_parquet({_literals(parts)})")
            else:
                connection.register(name, schema.empty_table())
    if run.tokens:
        if (run.folder / "spans").is_dir():
            connection.register("spans", spans_of(run.root, run.folder))
    elif not run.corpus:
        connection.register("shards", run.shards() if shards else shard_schema(pipeline).empty_table())
    for macro in MACROS:
        connection.execute(macro)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def tables_of(run: OpenRun) -> Sequence[str]:
    """What can be asked of it."""
    return ("ledger",) if run.corpus else ("ledger", "spans") if run.tokens else ("ledger", "quarantine", "shards")


def asks_for_shards(sql: str) -> bool:
    """Whether the text may speak of the shards, or of the spans of tokens: they are opened (and fetched from an object
    store) only then.
    """
    return re.search(r"\b(shards|spans)\b", sql, re.IGNORECASE) is not None


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literals(paths: list[Path]) -> str:
    return "[" + ", ".join(_literal(str(p)) for p in paths) + "]"
