"""The ``cleanpipe`` command: run, stages, recipe, verify, doctor. Errors are one line; tracebacks only with --debug."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from types import FrameType
from typing import NoReturn

from cleanpipe.errors import CleanpipeError, ConfigError
from cleanpipe.registry import nearest
from cleanpipe_jobs.output import open_missing_streams, show, warn

EPILOG = """\
exit status: 0 done; 1 an input could not be read, the balance does not close, or --strict and anything was quarantined;
2 usage or configuration; 3 stopped before the end (disk full): start the same line again; 130/143 by signal

examples:
  cleanpipe run sample --out run/sample                     the recipe and archives in the package
  cleanpipe run web crawl/*.warc.gz --out run/web           your own; a folder, a list file or a URL will do too
  cleanpipe run web s3://bucket/warc.paths.gz --out run/s3 --set language_id.threshold=0.8
  cleanpipe recipe web > mine.toml; cleanpipe run mine.toml crawl/ --out run/mine
  cleanpipe verify run/web                                  re-read and prove everything that a run published
"""


class _Interrupted(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="cleanpipe",
        description="Raw web archives (WARC, WET, ARC) in; cleaned, deduplicated, windowed Arrow shards out, "
        "with a ledger that accounts for every record.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"cleanpipe {version('cleanpipe')}")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--debug", action="store_true", help="show the traceback of an error")
    shared.add_argument("--json", action="store_true", help="print the result as JSON on standard output")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    run = commands.add_parser(
        "run",
        parents=[shared],
        help="clean archives into a run folder",
        description="Clean archives by a recipe into a folder. The same line again resumes, or finds it finished.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run.add_argument(
        "recipe", metavar="RECIPE", help="name of a recipe (see `cleanpipe recipe`) or path of a TOML file"
    )
    run.add_argument(
        "inputs",
        metavar="INPUT",
        nargs="*",
        help="archive, folder, glob, list file or fsspec URL; default: the recipe's own",
    )
    run.add_argument("--out", required=True, metavar="OUT", help="the run folder; made if absent")
    run.add_argument(
        "--engine", metavar="NAME", help="serial, local (default) or ray (default where RAY_ADDRESS is set)"
    )
    run.add_argument("--workers", type=int, metavar="N", help="worker processes (default: processors of this machine)")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        dest="sets",
        metavar="STAGE.OPTION=VALUE",
        help="change an option; every stage has `enabled`",
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
    run.add_argument("--quiet", "-q", action="store_true", help="print nothing but warnings and errors")

    stages = commands.add_parser(
        "stages", parents=[shared], help="the catalogue: every stage, its options, columns and reasons"
    )
    stages.add_argument("name", nargs="?", metavar="STAGE", help="show this one in full")
    recipe = commands.add_parser(
        "recipe", parents=[shared], help="print an effective recipe as TOML; without a name list them"
    )
    recipe.add_argument("name", nargs="?", metavar="RECIPE", help="name or path")
    recipe.add_argument("--set", action="append", default=[], dest="sets", metavar="STAGE.OPTION=VALUE")
    verify = commands.add_parser("verify", parents=[shared], help="re-read everything a run published and prove it")
    verify.add_argument("out", metavar="OUT")
    verify.add_argument("--quiet", "-q", action="store_true", help="print nothing but what is wrong")
    commands.add_parser(
        "doctor", parents=[shared], help="what is installed here, and the line that mends what is wrong"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    open_missing_streams()
    args = _parse(argv)
    _catch_signals()
    try:
        return _dispatch(args)
    except CleanpipeError as error:
        return _failed(args, str(error), error.exit_code)
    except (KeyboardInterrupt, _Interrupted) as error:
        number = error.number if isinstance(error, _Interrupted) else signal.SIGINT
        again = "; start the same line again to go on" if args.command == "run" else ""
        return _failed(args, f"stopped by {signal.Signals(number).name}{again}", 128 + number)
    except Exception as error:  # a fault of the program: one line, and how to see the rest
        first = (str(error).splitlines() or [""])[0]
        return _failed(args, f"internal error: {type(error).__name__}: {first} (--debug shows where)", 1)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Arguments; inputs may stand after options too, and a misspelt option is answered with the nearest."""
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    wrong = [word for word in rest if word.startswith("-")]
    if wrong or (rest and args.command != "run"):
        word = (wrong or rest)[0]
        known = parser._subparsers._group_actions[0].choices[args.command]._option_string_actions  # type: ignore[union-attr,index]
        hint = nearest(word.partition("=")[0], known) if wrong else ""
        parser.exit(2, f"cleanpipe {args.command}: unknown argument {word!r}{hint} (--help lists them)\n")
    if rest:
        args.inputs += rest
    return args


def _failed(args: argparse.Namespace, message: str, status: int) -> int:
    if args.debug:
        traceback.print_exc()
    warn(f"cleanpipe: {message}")
    if args.json:
        show(json.dumps({"error": message, "exit_code": status}))
    return status


def _catch_signals() -> None:
    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        raise _Interrupted(number)

    signal.signal(signal.SIGTERM, stop)


def _dispatch(args: argparse.Namespace) -> int:
    if args.command == "run":
        from cleanpipe_jobs.clean import clean

        return clean(args)
    if args.command == "stages":
        from cleanpipe_jobs.catalogue import show_stages

        return show_stages(args.name, as_json=args.json)
    if args.command == "recipe":
        from cleanpipe_jobs.catalogue import show_recipe

        return show_recipe(args.name, args.sets, as_json=args.json)
    if args.command == "verify":
        return _verify(args)
    from cleanpipe_jobs.doctor import doctor

    return doctor(as_json=args.json)


def _verify(args: argparse.Namespace) -> int:
    from pathlib import Path

    from cleanpipe.verify import verify

    if not Path(args.out).is_dir():
        raise ConfigError(f"{args.out} is {'a file' if Path(args.out).exists() else 'no folder'}: name a run folder")
    report = verify(Path(args.out))
    if args.json:
        show(json.dumps({"out": args.out, "findings": report.findings, "checked": report.checked}, indent=2))
    else:
        for line in report.findings:
            show(line)
        if not args.quiet and not report.findings:
            checked = ", ".join(f"{n:,} {what}" for what, n in report.checked.items())
            show(f"{args.out}: everything holds ({checked})")
        elif report.findings:
            warn(f"{args.out}: {len(report.findings)} fault{'s' * (len(report.findings) != 1)}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
