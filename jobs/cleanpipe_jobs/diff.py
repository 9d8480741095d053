"""``cleanpipe diff``: two runs side by side, from their ledgers."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path

from cleanpipe.errors import ConfigError
from cleanpipe.options import StorageOptions
from cleanpipe_jobs.output import outside, show, warn
from cleanpipe_jobs.reach import storage_options

HELP = "compare two runs: recipes, audit lines, documents whose fate changed, drift"
EPILOG = """\
Nothing is run again: everything is read from the two ledgers, audits and recipes. Documents are the same if they have
the same doc_id (same input, same offset), else the same record id, else the same URL and date.

Where both runs read the same documents, every difference is exact. Where they read others, a line has moved only if
that is more than chance explains: documents of one host are alike, so the spread is taken between hosts.

examples:
  cleanpipe diff run/old run/new                           what another threshold or version changed
  cleanpipe diff run/2026-41 run/2026-46 --html diff.html  two crawls, as a page
  cleanpipe diff s3://bucket/a s3://bucket/b --json > diff.json
  cleanpipe diff run/reference run/nightly --fail-on-drift exit 1 on a drift alarm, for CI

An alarm is a distribution that moved as a whole (PSI of 0.1 or more, and above chance), or a host, language or type
that is newly wiped out. Where single values alone moved, that is listed below the alarms, and is none.

exit status: 0 whatever differs; 1 with --fail-on-drift and an alarm; 2 if a run cannot be read
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("out_a", metavar="OUT_A", help="a run folder, or s3://bucket/prefix: the one to compare with")
    parser.add_argument("out_b", metavar="OUT_B", help="the other one")
    parser.add_argument("--html", metavar="FILE", help="write it as a page: one file that needs no network")
    parser.add_argument(
        "--samples", type=int, default=20, metavar="N", help="documents shown of each change (default: 20)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="other samples (default: 0)")
    parser.add_argument(
        "--fail-on-drift", action="store_true", help="exit 1 if a drift alarm is raised (not where single values moved)"
    )
    parser.add_argument(
        "--set", action="append", default=[], dest="sets", metavar="storage.OPTION=VALUE",
        help="how the object store is reached: storage.endpoint, region, profile, anonymous",
    )  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Compare; the exit status."""
    from cleanpipe.queries.diff import diff
    from cleanpipe.queries.diff_text import text
    from cleanpipe.queries.opened_run import open_run

    if not 0 <= args.samples <= 1000:
        raise ConfigError(f"--samples {args.samples}: 0 to 1,000")
    if not 0 <= args.seed < 1 << 63:
        raise ConfigError(f"--seed {args.seed}: 0 or more")
    if args.html:
        outside(args.html, "--html", args.out_a, args.out_b)
    storage = storage_options(args.sets)
    for out in (args.out_a, args.out_b):
        _refuse_audit(out, storage)
    with ExitStack() as stack:
        runs = [stack.enter_context(open_run(out, storage, want=("ledger",))) for out in (args.out_a, args.out_b)]
        for run in runs:
            if run.caution:
                warn(run.caution)
        result = diff(*runs, samples=args.samples, seed=args.seed)
    if caution := "; ".join(run.caution for run in runs if run.caution):
        result = {"caution": caution, **result}
    if args.html:
        from cleanpipe.report.diff_page import diff_page

        try:
            Path(args.html).write_text(diff_page(result), encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"--html {args.html} cannot be written: {error.strerror}") from error
    if args.json:
        show(json.dumps(result, indent=2))
    else:
        encoding = sys.stdout.encoding or "utf-8"
        for line in text(result):
            show(line.encode(encoding, "replace").decode(encoding))
    drift = result["drift"]
    return 1 if args.fail_on_drift and (drift["alarms"] or drift["wiped_out"]) else 0


def _refuse_audit(out: str, storage: StorageOptions) -> None:
    """Raises ConfigError for what `cleanpipe audit` wrote: it has no fates that a run's could be compared with."""
    from cleanpipe.engine.folder import MANIFEST, place
    from cleanpipe.io.store import open_store

    store = open_store(place(out, "OUT"), storage)
    try:
        if store.size(MANIFEST) >= 0 or store.size("audit.json") < 0:
            return
        found = json.loads(store.read("audit.json"))
    except (OSError, ValueError, RecursionError):
        return  # whatever it is, opening it as a run says what is wrong
    if isinstance(found, dict) and found.get("kind") == "corpus":
        raise ConfigError(
            f"{out} is the audit of a corpus, made by `cleanpipe audit`, and diff compares runs: name the two folders "
            "that `cleanpipe run … --out` wrote; compare two audits by their audit.html, or by SQL over "
            f"{out.rstrip('/')}/ledger/*.parquet"
        )
