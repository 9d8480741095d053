"""``cleanpipe watch OUT``: how far a run is, from its folder alone; on a terminal it renews itself."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from typing import TYPE_CHECKING, Any, NoReturn

from cleanpipe.errors import ConfigError
from cleanpipe_jobs.output import show, warn

if TYPE_CHECKING:
    from cleanpipe.queries.opened_run import OpenRun
    from cleanpipe.queries.standing import Standing, Watched

HELP = "how far a run is, live, from its folder alone"
EPILOG = """\
The figures come from what the run's units leave in OUT: its driver is not asked, and nothing is written there, so any
number of people may watch, from any machine that reaches OUT. It ends when the run does, with the funnel; Ctrl-C ends
the watching, never the run. On a terminal the picture is renewed every 2 seconds (of s3:// every 10); without one a
plain line is printed every 30 seconds, where something changed; with --json a line of JSON every 30 seconds. --every
sets any of the three. A run that has not begun is waited for, and first told when it starts, whatever the pace.

examples:
  cleanpipe watch run/web
  cleanpipe watch s3://bucket/run/web --every 30
  cleanpipe watch run/web --once --json | jq .left_seconds
"""
LOCAL, REMOTE, PLAIN = 2.0, 10.0, 30.0  # seconds between two looks; at least between two plain lines
LEAST = 0.2


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of the command."""
    parser.add_argument("out", metavar="OUT", help="the run folder, or s3://bucket/prefix; waited for if absent")
    parser.add_argument(
        "--every",
        type=float,
        metavar="SECONDS",
        help=f"between two looks (default: on a terminal {LOCAL:g}, of s3:// {REMOTE:g}; without one, and with --json, "
        f"{PLAIN:g})",
    )
    parser.add_argument("--once", action="store_true", help="one look, then exit")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="sets",
        metavar="storage.OPTION=VALUE",
        help="how the object store is reached: storage.endpoint, region, profile, anonymous",
    )


def main(args: argparse.Namespace) -> int:
    """Watch until the run is finished; 0, also after Ctrl-C; 143 after SIGTERM. Neither puts a word into the output."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        signal.signal(signal.SIGTERM, _terminated)
        return _main(args)
    except KeyboardInterrupt:
        return 0
    except _Terminated:
        return 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)


class _Terminated(BaseException):
    """By SIGTERM."""


def _terminated(_number: int, _frame: object) -> NoReturn:
    raise _Terminated


def _main(args: argparse.Namespace) -> int:
    if args.every is not None and not args.every >= LEAST:
        raise ConfigError(f"--every {args.every:g}: {LEAST} seconds or more")
    from cleanpipe.engine.folder import MANIFEST, place
    from cleanpipe.io.store import open_store
    from cleanpipe.queries.opened_run import corpus_audit, not_a_run
    from cleanpipe.queries.standing import Watched
    from cleanpipe_jobs.reach import storage_options

    storage = storage_options(args.sets)
    store = open_store(place(args.out, "OUT"), storage)
    if store.size(MANIFEST) < 0 and corpus_audit(store) is not None:
        raise not_a_run(store.root)
    watched = Watched(store, storage)
    return _once(watched, args) if args.once else _Watch(watched, args).run()


def _once(watched: Watched, args: argparse.Namespace) -> int:
    from cleanpipe.queries.standing import WAITING
    from cleanpipe_jobs.live_words import plain

    standing = watched.look()
    if standing.phase == WAITING:
        raise ConfigError(f"{args.out} holds no run: name the folder that `cleanpipe run … --out` writes")
    if _finished(standing):
        return _end(watched, args)
    if args.json:
        show(json.dumps(as_data(standing)))
    else:
        show(plain(standing, _width()))
    return 0


class _Watch:
    """The loop, with what it shows."""

    def __init__(self, watched: Watched, args: argparse.Namespace) -> None:
        self.watched, self.args = watched, args
        self.picture = None if args.json else _picture()
        given = args.every
        local = watched.store.local
        self.every = given or (LOCAL if local else REMOTE)
        self.quick = min(self.every, LOCAL if local else REMOTE)  # while it has not begun
        if self.picture is None and not given:
            self.every = max(self.every, PLAIN)
        self.said = ""
        self.waits = False

    def run(self) -> int:
        """Until the run is finished."""
        try:
            while True:
                standing = self.watched.look()
                if _finished(standing):
                    break
                self._tell(standing)
                self._wait(self.quick if self.waits else self.every)
        except BaseException:
            if self.picture is not None:
                self.picture.leave()
            raise
        if self.picture is not None:
            self.picture.close()
        return _end(self.watched, self.args)

    def _tell(self, standing: Standing) -> None:
        from cleanpipe.queries.standing import WAITING
        from cleanpipe_jobs.live_words import line

        waited, self.waits = self.waits, standing.phase == WAITING
        if self.picture is not None:
            self.picture.show(standing)
        elif self.args.json:
            if not (waited and self.waits):  # it is looked at more often then, and told once
                show(json.dumps(as_data(standing)))
        else:
            text = line(standing)
            if text != self.said:  # a run that stands still says so once
                show(f"{time.strftime('%H:%M:%S')} {text}")
            self.said = text

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 1.0))
            if self.picture is not None:
                self.picture.renew()


def _end(watched: Watched, args: argparse.Namespace) -> int:
    from cleanpipe.audit.console import funnel
    from cleanpipe.queries.opened_run import open_run
    from cleanpipe_jobs.live_words import printable

    with open_run(args.out, watched.storage, want=()) as run:
        if args.json:
            show(json.dumps(_ended(run)))
            return 0
        facts, folder = run.facts, printable(args.out.rstrip("/"))
        show(f"{folder} is finished (run of {facts.get('ended', 'unknown time')}, config {facts['config_hash']})\n")
        show(funnel(run.audit, width=max(60, _width())))
        show()
        for source, why in facts.get("failed", {}).items():
            warn(printable(f"{source} could not be read: {why}"))
        if facts.get("quarantined"):
            show(f"quarantine {facts['quarantined']:,} records or ranges: {folder}/quarantine")
        page = next(n for n in ("audit/audit.html", "audit/audit.md") if n.endswith("md") or run.store.size(n) >= 0)
        show(f"shards     {folder}/data")
        show(f"ledger     {folder}/ledger")
        show(f"audit      {folder}/{page}")
    return 0


def _finished(standing: Standing) -> bool:
    return standing.phase == "finished"


def _ended(run: OpenRun) -> dict[str, Any]:
    return {
        "out": run.root,
        "phase": "finished",
        "units": {"done": run.done, "of": run.units},
        "config_hash": run.facts["config_hash"],
        "ended": run.facts.get("ended"),
        "failed_inputs": run.facts.get("failed", {}),
        "quarantined": run.facts.get("quarantined", 0),
        "funnel": run.audit["funnel"],
        "conservation": run.audit["conservation"],
    }


def as_data(standing: Standing) -> dict[str, Any]:
    """A look as plain data."""
    s = standing
    if s.audit is None:
        return {"out": s.root, "phase": s.phase}
    return {
        "out": s.root,
        "phase": s.phase,
        "units": {"done": s.done, "of": s.units},
        "bytes": {"read": s.read, "of": s.size, "work": s.work},
        "documents": {"read": s.documents, "alive": s.alive},
        "quarantined": dict(s.quarantined),
        "failed_inputs": s.failed,
        "per_second": {"units": s.unit_rate, "bytes": s.byte_rate, "documents": s.document_rate},
        "left_seconds": s.left,
        "last_unit_seconds_ago": s.quiet,
        "driver": {"state": s.driver, "holder": s.holder},
        "funnel": s.audit["funnel"],
        "dropped": {n: st["dropped"] for n, st in s.audit["stages"].items() if st["dropped"]},
        "caution": f"{s.root} is not finished ({s.phase})",
    }


def _width() -> int:
    import shutil

    return shutil.get_terminal_size((100, 24)).columns


def _picture() -> Any:
    """A picture that renews itself, if standard output is a terminal that can show one; else None."""
    import os

    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        return None
    try:
        from cleanpipe_jobs.live_picture import Picture
    except ImportError:  # code that travels without its packages
        return None
    return Picture.on_terminal()
