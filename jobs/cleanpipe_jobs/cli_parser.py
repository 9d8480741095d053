"""The command line: what can be asked for, and how it is explained."""

from __future__ import annotations

import argparse
from functools import partial
from importlib import import_module
from typing import Any

BASE = "https://data.commoncrawl.org/"  # where Common Crawl's files lie
KINDS = ("warc", "wet", "wat", "robotstxt", "non200responses")  # the lists that a crawl has of them

# commands that ask a run or a corpus; each module has HELP, EPILOG, arguments(parser) and main(args) → exit status, and
# imports what is heavy when it is asked
ASKING: dict[str, str] = {
    "audit": "cleanpipe_jobs.corpus_audit",
    "decide": "cleanpipe_jobs.decide",
    "diff": "cleanpipe_jobs.diff",
    "explain": "cleanpipe_jobs.explain",
    "export": "cleanpipe_jobs.export",
    "plan": "cleanpipe_jobs.plan",
    "query": "cleanpipe_jobs.query",
    "report": "cleanpipe_jobs.report",
    "tokenize": "cleanpipe_jobs.tokenize",
    "trace": "cleanpipe_jobs.trace",
    "tune": "cleanpipe_jobs.tune",
    "watch": "cleanpipe_jobs.live",
}

EPILOG = """\
first steps, by examples:
  cleanpipe doctor                                          what is installed here, and what mends the rest
  cleanpipe run sample --out run/sample                     the recipe and archives in the package
  cleanpipe stages; cleanpipe recipe web                    what there is to choose from, and every option

one machine:
  cleanpipe run web crawl/*.warc.gz --out run/web           your own; a folder, a list file or a URL will do too
  cleanpipe recipe web > mine.toml; cleanpipe run mine.toml crawl/ --out run/mine
  cleanpipe verify run/web                                  re-read and prove everything that a run published
  cleanpipe quarantine run/web                              the records that were set aside, and why

tokens:
  cleanpipe tokenize run/web --tokens tokens/web            for training: Megatron, datatrove, PyTorch
  cleanpipe trace tokens/web --token 123456                 which page, which bytes of which archive
  cleanpipe decide tokens/web mask --url http://…           readers honour it at once

many machines (jobs/README.md has more):
  cleanpipe doctor --cluster --address http://HEAD:8265 --storage s3://bucket/run
  cleanpipe fetch-list CC-MAIN-2026-46 --sample 100 --out crawl.txt
  ray job submit --address http://HEAD:8265 -- \\
      cleanpipe run web s3://bucket/crawl.txt --out s3://bucket/run/web --engine ray

exit status: 0 done; 1 an input could not be read, the balance does not close, something is wrong, or --strict and
anything was quarantined; 2 usage or configuration; 3 stopped before the end (disk full, storage lost): start the same
line again; 130/143 by signal
"""

RUN = """\
The same line again resumes a run that was stopped, or finds it finished. Nothing that is done is done again.

where things lie:
  INPUT and OUT are local paths, or s3://bucket/prefix; an INPUT may be an http(s) URL too. Another S3 server than AWS:
      --set storage.endpoint=http://127.0.0.1:9000        region, profile, anonymous, attempts, timeout, scratch
  Credentials are no options: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or the machine's role.

when a document is too much for a worker:
      --set guards.memory=8589934592                      bytes; cpu_seconds, stall_seconds, unit_seconds
      --limits OUT/quarantine/limits.json                 documents that an earlier run had to set aside

what it tells:
      --log run.jsonl         one JSON line a task, phase and warning     (or CLEANPIPE_LOG=run.jsonl; - is stdout)
      --metrics FILE.prom     for a node exporter; on Ray its own Prometheus port has ray_cleanpipe_… without asking

examples:
  cleanpipe run web crawl/ --out run/web --set language_id.threshold=0.8
  cleanpipe run web crawl.txt --out s3://bucket/run/web --engine ray --log run.jsonl
  cleanpipe run web https://data.commoncrawl.org/crawl-data/…/x.warc.gz --out run/x --workers 4
"""

FETCH = """\
PATHS is a list as crawls publish it (warc.paths.gz; a file or a URL), or the name of a crawl. The URLs come one a line:
`cleanpipe run` takes such a list as input. A sample is the same whatever the list's order, and part of any larger one.

examples:
  cleanpipe fetch-list CC-MAIN-2026-46 --sample 20 --seed 1 --out crawl.txt && cleanpipe run web crawl.txt --out run/cc
  cleanpipe fetch-list CC-MAIN-2026-46 --kind wet --first 3
  cleanpipe fetch-list warc.paths.gz --base s3://commoncrawl/ --out crawl.paths
"""

CLUSTER = """\
With --cluster: the Ray cluster at --address is entered as a run would enter it, and every node is looked at: versions,
code, authentication, keep-alive, memory, limits, clocks, and (--storage) whether it can write, read and delete there.

examples:
  cleanpipe doctor --cluster --address http://HEAD:8265 --storage s3://bucket/run     from outside, as a job
  cleanpipe doctor --cluster --address HEAD:6379                                      from inside
"""

CLEAN = """\
Attempts that were killed leave drafts behind, and on an object store uploads that were never completed; both cost room
and money and are no part of the run. No run may be at work in OUT.
"""

QUARANTINE = """\
Without options: what was set aside, with record, place and reason. --rerun treats these records again, after a fix or
with other guards: the run is completed, not restarted.

examples:
  cleanpipe quarantine run/web --reason resource_limit
  cleanpipe quarantine run/web --show 9f86d081884c7d65
  cleanpipe quarantine run/web --rerun --accept-code
"""


class _Version(argparse.Action):
    """Finds the version out when it is asked for: it takes time, and may take a digest of the code."""

    def __init__(self, option_strings: list[str], dest: str, **_: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show cleanpipe's version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from cleanpipe_jobs.about import version

        print(f"cleanpipe {version()}")
        parser.exit()


def build() -> argparse.ArgumentParser:
    """The parser of all commands."""
    raw = partial(argparse.RawDescriptionHelpFormatter, max_help_position=28)
    parser = argparse.ArgumentParser(
        prog="cleanpipe",
        description="Raw web archives (WARC, WET, ARC) in; cleaned, deduplicated, windowed Arrow shards out,\n"
        "with a ledger that accounts for every record. `cleanpipe COMMAND --help` explains each.",
        epilog=EPILOG,
        formatter_class=raw,
    )
    parser.add_argument("--version", action=_Version)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--debug", action="store_true", help="show the traceback of an error")
    shared.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND [OPTION …]")

    def command(name: str, help_: str, description: str = "", epilog: str | None = None) -> argparse.ArgumentParser:
        text = description or help_[:1].upper() + help_[1:] + "."
        return commands.add_parser(
            name, parents=[shared], help=help_, description=text, epilog=epilog, formatter_class=raw
        )

    _run(command("run", "clean archives into a run folder", "Clean archives by a recipe into a folder.", RUN))
    verify = command("verify", "re-read everything a run or a token store published and prove it")
    verify.add_argument("out", metavar="OUT", help="the run folder, or a token store")
    verify.add_argument("--quiet", "-q", action="store_true", help="print nothing but what is wrong")
    _sets(verify)
    _quarantine(command("quarantine", "list, show and treat again what a run set aside", epilog=QUARANTINE))
    clean = command("clean", "remove what killed attempts left in a run folder", epilog=CLEAN)
    clean.add_argument("out", metavar="OUT", help="the run folder")
    clean.add_argument(
        "--work", action="store_true", help="remove the work/ that a finished run kept (--keep-work) too"
    )
    clean.add_argument("--dry-run", action="store_true", help="only list it")
    _sets(clean)
    for name, module in ASKING.items():
        asking = import_module(module)
        asking.arguments(command(name, asking.HELP, epilog=asking.EPILOG))

    stages = command("stages", "the catalogue: every stage, its options, columns and reasons")
    stages.add_argument("name", nargs="?", metavar="STAGE", help="show this one in full")
    recipe = command("recipe", "print an effective recipe as TOML; without a name list them")
    recipe.add_argument("name", nargs="?", metavar="RECIPE", help="name or path")
    _sets(recipe, "STAGE.OPTION=VALUE", "change an option")
    _fetch_list(command("fetch-list", "a crawl's list of files as URLs to run on", epilog=FETCH))
    _doctor(command("doctor", "what is installed here or on a cluster, and the line that mends it", epilog=CLUSTER))
    return parser


def _sets(
    parser: argparse.ArgumentParser,
    name: str = "storage.OPTION=VALUE",
    help_: str = "how the object store is reached: storage.endpoint, region, profile, anonymous",
) -> None:
    parser.add_argument("--set", action="append", default=[], dest="sets", metavar=name, help=help_)


def _run(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "recipe", metavar="RECIPE", help="name of a recipe (see `cleanpipe recipe`) or path of a TOML file"
    )
    run.add_argument(
        "inputs",
        metavar="INPUT",
        nargs="*",
        help="archive, folder, glob, list file or URL (http, s3, …); default: the recipe's own",
    )
    run.add_argument(
        "--out", required=True, metavar="OUT", help="the run folder, or s3://bucket/prefix; made if absent"
    )
    _engine(run)
    _sets(run, "TABLE.OPTION=VALUE", "change an option of a stage (every one has `enabled`), of storage or of guards")
    run.add_argument(
        "--limits", metavar="FILE", help="set aside what this list names (quarantine/limits.json of a run)"
    )
    run.add_argument(
        "--source-root", metavar="DIR", help="name inputs by their path below this folder, not by base name"
    )
    run.add_argument(
        "--reuse",
        metavar="OLD_OUT",
        help="take over finished units of another run where they match (it needs its work/: --keep-work)",
    )
    run.add_argument("--keep-work", action="store_true", help="keep OUT/work after the end, for a later --reuse")
    run.add_argument("--strict", action="store_true", help="exit 1 if anything was quarantined")
    _told(run)


def _engine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine", metavar="NAME", help="serial, local (default) or ray (default where RAY_ADDRESS is set)"
    )
    parser.add_argument(
        "--workers", type=int, metavar="N", help="worker processes (default: processors of this machine)"
    )


def _told(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--log", metavar="FILE", help="add JSON lines to this file; - is standard output")
    parser.add_argument("--metrics", metavar="FILE", help="keep Prometheus' text format in this file (name it *.prom)")
    parser.add_argument("--quiet", "-q", action="store_true", help="print nothing but warnings and errors")


def _quarantine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("out", metavar="OUT", help="the run folder")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--show", metavar="DOC|OFFSET", help="one record whole: by doc_id (or its start), offset, record id or URL"
    )
    what.add_argument("--rerun", action="store_true", help="treat these records again and complete the run")
    parser.add_argument(
        "--accept-code", action="store_true", help="with --rerun: although the code is not the run's any more"
    )
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        dest="inputs",
        metavar="INPUT",
        help="where an input lies now, known by its name (addresses with a signature or a password are not published)",
    )
    for name, help_ in (("stage", "of this stage"), ("reason", "for this reason"), ("source", "of this input")):
        parser.add_argument(f"--{name}", metavar=name.upper(), help=f"only those {help_}")
    _sets(parser, "TABLE.OPTION=VALUE", "storage.… options; with --rerun guards.… too")
    _engine(parser)
    _told(parser)


def _fetch_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATHS", help="file or URL of a list, or the name of a crawl")
    parser.add_argument(
        "--kind",
        default="warc",
        choices=KINDS,
        help="of a crawl's lists (default: warc)",
    )
    parser.add_argument(
        "--base",
        default=BASE,
        metavar="URL",
        help="where the files lie (default: %(default)s; also s3://commoncrawl/)",
    )
    some = parser.add_mutually_exclusive_group()
    some.add_argument("--first", type=_count, metavar="N", help="the first N alone")
    some.add_argument("--sample", type=_count, metavar="N", help="N of them, chosen by a hash")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="another sample (default: 0)")
    parser.add_argument("--out", metavar="FILE", help="write the list there (.txt or .paths, with .gz if you like)")
    _sets(parser)


def _count(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of files: 1 or more")
    return number


def _doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", action="store_true", help="look at a Ray cluster and every node of it")
    parser.add_argument(
        "--address", metavar="A", help="HOST:6379 or http://HOST:8265 (default: RAY_ADDRESS, else one that runs here)"
    )
    parser.add_argument("--storage", metavar="URL", help="probe this place from every node: a shared folder or s3://…")
    _sets(parser)
