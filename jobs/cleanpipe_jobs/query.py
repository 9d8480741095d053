"""``cleanpipe query``: SQL over the ledger, the quarantine and the shards of a run."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cleanpipe.errors import ConfigError, StopError
from cleanpipe_jobs.output import outside, show, warn

if TYPE_CHECKING:
    import pyarrow as pa

    from cleanpipe.queries.opened_run import OpenRun
    from cleanpipe.queries.sql import Answer

HELP = "ask a run by SQL: the ledger, the quarantine, the text; of tokens the spans"
FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "jsonl", ".md": "markdown", ".parquet": "parquet", ".txt": "table"}
LIMIT = 100  # rows shown on a terminal
EPILOG = """\
Without SQL: the tables, what each column means, and examples. The SQL is
DuckDB's; it reads the run's files and nothing else, and writes nothing. Of
several statements the last one is shown.

Identities (doc_id, content_id, kept_doc_id) are 16 bytes, shown as 32
hexadecimal digits: WHERE doc_id = id('9f86…'). host(url) is a URL's host in
lower case, as the audit counts hosts. Times are UTC.

examples:
  cleanpipe query run/web
  cleanpipe query run/web \\
    "SELECT fate, stage, reason FROM ledger WHERE url = 'http://example.org/'"
  cleanpipe query run/web --out lost.parquet \\
    "FROM ledger WHERE reason = 'low_confidence'"
  cleanpipe query run/web --file funnel.sql --format markdown
  echo "SELECT host(url), count(*) FROM ledger GROUP BY 1 ORDER BY 2 DESC" |
    cleanpipe query run/web - --limit 20
  cleanpipe query s3://bucket/run/web \\
    "SELECT count(*) FROM ledger WHERE language_id_score >= 0.8"
and of what `cleanpipe audit` and `cleanpipe tokenize` wrote:
  cleanpipe query audit-mine "SELECT fails, count(*) FROM ledger GROUP BY 1"
  cleanpipe query tokens/web "SELECT url, token_start, token_count FROM spans"
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own."""
    parser.add_argument(
        "out",
        metavar="OUT",
        help="the run folder, or s3://bucket/prefix; unfinished ones, corpus audits and tokens too",
    )
    parser.add_argument("sql", metavar="SQL", nargs="?", help="one statement or more; - reads them from standard input")
    parser.add_argument("--file", metavar="FILE", help="read the SQL from a file")
    parser.add_argument("--format", choices=list(FORMATS.values()), help="default: by the name of --out, else table")
    parser.add_argument("--out", dest="target", metavar="FILE", help="write the answer there")
    parser.add_argument(
        "--limit", type=_rows, metavar="N", help=f"rows at most, 0 for all (default: {LIMIT} on a terminal, else all)"
    )
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="storage.OPTION=VALUE",
        help="how the object store is reached: storage.endpoint, region, profile, anonymous",
    )  # fmt: skip


def _rows(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rows: 0 (all) or more")
    return int(text)


def main(args: argparse.Namespace) -> int:
    """The exit status: 0, or 2 for SQL that is wrong (ConfigError)."""
    from cleanpipe.queries.opened_run import open_run
    from cleanpipe.queries.sql import asks_for_shards, open_sql
    from cleanpipe_jobs.query_tables import overview
    from cleanpipe_jobs.reach import storage_options

    sql, kind = _sql(args), _format(args)
    text = sql is not None and asks_for_shards(sql)
    tables = ("ledger", "spans") if text or sql is None else ("ledger",)
    with open_run(args.out, storage_options(args.sets), data=text, corpus=True, tokens=tables) as run:
        if run.caution:
            warn(run.caution)
        with open_sql(run, shards=text and not run.corpus and not run.tokens) as asked:
            if sql is None:
                overview(run, asked, as_json=args.json)
                return 0
            answer = asked.ask(sql)
            if args.json:
                _as_json(run, answer, args.limit)
            elif args.target:
                _write(run, answer, Path(args.target), kind, args.limit)
            else:
                _print(answer, kind, args.limit)
    return 0


def _sql(args: argparse.Namespace) -> str | None:
    if args.sql is not None and args.file is not None:
        raise ConfigError("give the SQL or --file, not both")
    try:
        if args.file is not None:
            return Path(args.file).read_text("utf-8")
        return sys.stdin.read() if args.sql == "-" else args.sql
    except OSError as error:
        raise ConfigError(f"--file {args.file} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError("the SQL is no UTF-8 text") from error


def _format(args: argparse.Namespace) -> str:
    for name, given in (("--format", args.format), ("--out", args.target)):
        if args.json and given:
            raise ConfigError(f"--json prints to standard output in a form of its own: leave {name} out")
    if (args.target or args.format) and args.sql is None and args.file is None:
        raise ConfigError("there is no SQL whose answer could be written")
    kind = args.format or (FORMATS.get(Path(args.target).suffix.lower()) if args.target else None)
    if args.target and kind is None:
        raise ConfigError(f"--out {args.target}: name it {', '.join('*' + s for s in FORMATS)}, or give --format")
    if kind == "parquet" and not args.target:
        raise ConfigError("--format parquet is for a file: add --out FILE.parquet")
    return kind or "table"


class _First:
    """The first ``limit`` rows of an answer (all for 0 and None); ``more()`` is how many it has beside them."""

    def __init__(self, answer: Answer, limit: int | None) -> None:
        self._batches, self._limit, self._over = answer.batches, limit or sys.maxsize, 0
        self.rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            some = batch.slice(0, self._limit - self.rows)
            self.rows += some.num_rows
            self._over = batch.num_rows - some.num_rows
            yield some
            if self.rows >= self._limit:
                return

    def more(self) -> int:
        return self._over + sum(int(batch.num_rows) for batch in self._batches)


def _print(answer: Answer, kind: str, limit: int | None) -> None:
    from cleanpipe_jobs.query_tables import lines, safe, table

    terminal = sys.stdout.isatty()
    shown = LIMIT if limit is None and terminal else limit
    first = _First(answer, shown)
    if kind == "table":
        width = shutil.get_terminal_size().columns if terminal else None
        out = table(answer.schema, first, width)
    else:
        out = lines(kind, answer.schema, first)
        out = (safe(line) for line in out) if terminal else out
    device = _device()
    while some := list(itertools.islice(out, 1000)):
        show("\n".join(some))
        if _device() != device:  # whoever read it has gone (`| head`), and what comes goes nowhere
            return
    if more := first.more():
        warn(f"… and {more:,} more row{'s' * (more != 1)}: --limit 0 shows all, --out FILE writes them")


def _device() -> tuple[int, int] | None:
    """What standard output is."""
    try:
        found = os.fstat(sys.stdout.fileno())
    except (OSError, ValueError):  # captured
        return None
    return found.st_dev, found.st_ino


def _as_json(run: OpenRun, answer: Answer, limit: int | None) -> None:
    from cleanpipe_jobs.query_tables import plain_rows

    rows = list(plain_rows(answer.schema, _First(answer, limit)))
    columns = [{"name": f.name, "type": str(f.type)} for f in answer.schema]
    result: dict[str, Any] = {"out": run.root, "columns": columns, "rows": rows}
    if run.caution:
        result["caution"] = run.caution
    show(json.dumps(result, ensure_ascii=False))


def _write(run: OpenRun, answer: Answer, target: Path, kind: str, limit: int | None) -> None:
    """Whole or not at all: beside it first, then in its place."""
    from cleanpipe_jobs.query_tables import lines, table

    outside(target, "--out", run.root)
    first = _First(answer, limit)
    try:
        number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise ConfigError(f"--out {target} cannot be written: {error.strerror or error}") from error
    draft = Path(name)
    try:
        os.close(number)
        if kind == "parquet":
            _parquet(answer.schema, first, draft)
        else:
            made = table(answer.schema, first, None) if kind == "table" else lines(kind, answer.schema, first)
            with draft.open("w", encoding="utf-8", newline="") as file:
                file.writelines(f"{line}\n" for line in made)
        draft.chmod(0o666 & ~_umask())
        draft.replace(target)
    except OSError as error:
        raise StopError(f"--out {target} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            draft.unlink()
    warn(f"{first.rows:,} row{'s' * (first.rows != 1)} written to {target}")


def _parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], path: Path) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
