"""``cleanpipe audit``: judge any text corpus, whoever made it, before a model is trained on it."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe_jobs.output import show, warn

HELP = "judge any text corpus: what is damaged, doubled, in which language, what a run would drop"
EPILOG = """\
A corpus is a file, a folder, a glob or several: JSONL (plain, .gz, .zst, .bz2, .xz), Parquet, Arrow, a folder that
`datasets` saved, CSV, TSV, .txt, or a run folder of cleanpipe (its windows are joined again). Every document is read,
looked at as it lies, repaired and judged by the text stages of a recipe, and all of them meet to find copies. Nothing
is removed. --out gets audit.html, audit.json and ledger/part-*.parquet with a row for each document, for SQL:

  select fails, count(*) from 'audit-mine/ledger/*.parquet' group by all order by 2 desc

The same bytes come out for any number of workers and any order of inputs. A bad line, row or file costs itself.

examples:
  cleanpipe audit corpus.jsonl
  cleanpipe audit shards/*.parquet --column content --url-column metadata.url --out audit/shards
  cleanpipe audit run/web --out audit/web                   what is left in our own shards
  cleanpipe audit big/ --sample 100000 --workers 16         shares with 95 % intervals
  cleanpipe audit deutsch.jsonl.zst --set 'language_id.languages=["de"]' --set quality_score.perplexity=off
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("paths", metavar="PATH", nargs="+", help="file, folder or glob")
    parser.add_argument("--out", metavar="DIR", help="where the audit goes (default: ./audit-NAME)")
    parser.add_argument("--column", default="", metavar="NAME", help="the text column (nested ones by dots)")
    parser.add_argument("--url-column", default="", metavar="NAME", help="the column of addresses")
    parser.add_argument("--id-column", default="", metavar="NAME", help="the column of identifiers")
    parser.add_argument(
        "--txt", choices=("file", "line"), default="file", help="a document of .txt is a whole file (default) or a line"
    )
    parser.add_argument("--recipe", default="web", metavar="RECIPE", help="its text stages judge (default: web)")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="judge so many rows alone, chosen by a hash")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="other samples (default: 0)")
    parser.add_argument("--samples", type=int, default=10, metavar="K", help="shown of each fault (default: 10)")
    parser.add_argument(
        "--alarm", type=float, default=0.5, metavar="SHARE", help="a host that loses more is named (default: 0.5)"
    )
    parser.add_argument(
        "--alarm-documents", type=int, default=20, metavar="N", help="... if it has so many documents (default: 20)"
    )
    parser.add_argument(
        "--tokenizer", default="", metavar="FILE", help="count tokens by this tokenizer.json, or tiktoken:NAME"
    )
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="processes (default: processors)")
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="STAGE.OPTION=VALUE", help="change an option"
    )
    parser.add_argument("--quiet", "-q", action="store_true", help="no progress on standard error")


def main(args: argparse.Namespace) -> int:
    """Audit and print; 1 if a whole file could not be read, or nothing for damage. Raises ConfigError and StopError."""
    if args.workers < 0 or args.sample < 0 or args.samples < 0 or not 0 < args.alarm < 1:
        raise ConfigError("--workers, --sample and --samples are 0 or more, --alarm is between 0 and 1")
    if args.alarm_documents < 1:
        raise ConfigError("--alarm-documents is 1 or more")
    if not 0 <= args.seed < 1 << 64:
        raise ConfigError("--seed is 0 or more, below 2^64")
    from cleanpipe.corpus.console import summary
    from cleanpipe.corpus.files import Columns, only_local
    from cleanpipe.corpus.page import to_html
    from cleanpipe.corpus.run import Options, audit_corpus
    from cleanpipe_jobs.progress import Console

    for path in (*args.paths, args.out or ""):
        only_local(path)
    name = _name(args.paths)
    out = Path(args.out or f"audit-{name}")
    options = Options(
        recipe=args.recipe, sets=tuple(args.sets), columns=Columns(args.column, args.url_column, args.id_column),
        by_line=args.txt == "line", sample=args.sample, seed=args.seed, samples=args.samples, alarm=args.alarm,
        alarm_rows=args.alarm_documents, tokenizer=args.tokenizer, workers=args.workers,
    )  # fmt: skip
    observer = Console(quiet=args.quiet or args.json)
    try:
        audit = audit_corpus(args.paths, out, options, observer)
    finally:
        observer.close()
    (out / "audit.html").write_bytes(to_html(audit, name).encode("utf-8", "backslashreplace"))
    if args.json:
        show(json.dumps(audit, indent=2, ensure_ascii=True))
    else:
        for line in summary(audit):
            show(line)
        show(f"{out}: audit.html, audit.json, ledger/ with a row for each document")
    return _status(audit)


def _status(audit: dict[str, Any]) -> int:
    aside = audit["input"]["unreadable_files"]
    if aside:
        warn(f"{len(aside):,} file{'s' * (len(aside) != 1)} could not be read")
    nothing = not audit["documents"]["documents"]["value"] and "damaged" in audit["input"]["problems"]
    return 1 if aside or nothing else 0


def _name(paths: list[str]) -> str:
    first = Path(paths[0].split("*")[0].rstrip("/") or ".").resolve().name
    plain = re.sub(r"[^\w.\-]+", "-", first.partition(".")[0] or first).strip("-")
    return plain or "corpus"
