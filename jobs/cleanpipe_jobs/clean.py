"""The cleaning job: ``cleanpipe run``, or ``python -m cleanpipe_jobs.clean RECIPE INPUT… --out OUT`` on a cluster."""

from __future__ import annotations

import argparse
import json
import shutil
import sys

from cleanpipe.audit.console import funnel
from cleanpipe.audit.nothing import nothing_in_words
from cleanpipe.engine.folder import Finished
from cleanpipe.recipe import load_recipe
from cleanpipe.run import run
from cleanpipe_jobs.output import show, warn
from cleanpipe_jobs.watch import log_target, watching


def clean(args: argparse.Namespace) -> int:
    """Run, show the funnel, return the exit status."""
    with watching(args) as observer:
        finished = run(
            load_recipe(args.recipe, args.sets),
            args.inputs,
            args.out,
            engine=args.engine,
            workers=args.workers,
            source_root=args.source_root,
            reuse=args.reuse,
            limits=args.limits,
            keep_work=args.keep_work,
            observer=observer,
        )
    code = finished.exit_code
    quarantined = int(finished.facts.get("quarantined", 0))
    if args.strict and quarantined:
        code = 1
    if args.json:
        show(json.dumps(_summary(args.out, finished, code), indent=2))
    elif not args.quiet and log_target(args) != "-":
        _show(args.out, finished, quarantined)
    for source, why in finished.failed.items():
        warn(f"cleanpipe: {source} could not be read: {why}")
    if nothing := nothing_in_words(finished.audit):
        warn(f"cleanpipe: warning: {nothing}")
    if not finished.audit["conservation"]["balanced"]:
        warn(f"cleanpipe: the balance does not close: see {args.out}/audit/audit.json")
    if quarantined and (args.quiet or code):
        warn(f"cleanpipe: {quarantined:,} records or ranges lie in {args.out}/quarantine")
    return code


def _show(out: str, finished: Finished, quarantined: int) -> None:
    facts = finished.facts
    if finished.already:
        show(f"{out} is finished: nothing to do (run of {facts['ended']}, config {facts['config_hash']})\n")
    show(funnel(finished.audit, width=max(60, shutil.get_terminal_size((100, 24)).columns)))
    folder = out.rstrip("/")
    work = facts["work"]
    units = facts["units"]
    show()
    if quarantined:
        show(f"quarantine {quarantined:,} records or ranges, with their errors: {folder}/quarantine")
        if facts.get("again"):
            show(f"{'':10} {facts['again']:,} may end otherwise (cleanpipe quarantine {out}); work/ is kept for that")
    hint = "" if "://" in folder else "    (datasets.load_from_disk)"
    show(f"shards     {folder}/data{hint}")
    show(f"ledger     {folder}/ledger    one row for every record read")
    show(f"audit      {folder}/audit/audit.html")
    told = {"resumed": units["resumed"], "reused": units["reused"], "tries more": units.get("retries", 0)}
    again = ", ".join(f"{n:,} {w}" for w, n in told.items() if n)
    show(
        f"cost       {work['cpu_seconds']:,.1f} s of CPU, {facts['wall_seconds']:,.1f} s of wall time, "
        f"largest worker {work['peak_memory_bytes'] / 1e6:,.0f} MB, engine {facts['engine']}"
        + (f"; {again}" if again else "")
    )


def _summary(out: str, finished: Finished, code: int) -> dict[str, object]:
    return {
        "out": out,
        "already_finished": finished.already,
        "exit_code": code,
        "config_hash": finished.facts["config_hash"],
        "failed_inputs": dict(finished.failed),
        "quarantined": finished.facts["quarantined"],
        "funnel": finished.audit["funnel"],
        "shards": finished.audit["shards"],
        "conservation": finished.audit["conservation"],
        "work": finished.facts["work"],
    }


if __name__ == "__main__":
    from cleanpipe_jobs.cli import main

    sys.exit(main(["run", *sys.argv[1:]]))
