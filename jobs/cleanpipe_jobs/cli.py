"""The ``cleanpipe`` command. Errors are one line; tracebacks only with --debug."""

from __future__ import annotations

import sys

try:
    import argparse
    import json
    import signal
    import traceback
    from collections.abc import Sequence
    from importlib import import_module
    from types import FrameType
    from typing import NoReturn

    from cleanpipe.errors import CleanpipeError, ConfigError
    from cleanpipe_jobs.cli_parser import ASKING, build
    from cleanpipe_jobs.output import lost, open_missing_streams, scrubbed, show, warn
except KeyboardInterrupt:  # before ``main`` is there to answer it
    sys.stderr.write("cleanpipe: stopped by SIGINT\n")
    raise SystemExit(130) from None

_WRITES = ("run", "audit", "tokenize")  # what these are for lies in files: text that was lost costs nothing


class _Interrupted(BaseException):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    try:
        open_missing_streams()
        _catch_signals()
        args = _parse(argv)
    except (KeyboardInterrupt, _Interrupted) as error:
        warn(f"cleanpipe: stopped by {_signal_of(error).name}")
        return 128 + _signal_of(error)
    lost.clear()
    try:
        status = _dispatch(args)
        if lost and not status and args.command not in _WRITES:
            return _failed(args, f"standard output could not be written: {lost[0]}", 3)
        return status
    except CleanpipeError as error:
        return _failed(args, str(error), error.exit_code, public=error.public)
    except (KeyboardInterrupt, _Interrupted) as error:
        number = _signal_of(error)
        again = "; start the same line again to go on" if args.command in ("run", "quarantine", "tokenize") else ""
        return _failed(args, f"stopped by {number.name}{again}", 128 + number)
    except Exception as error:  # a fault of the program: one line, and how to see the rest
        first = (str(error).splitlines() or [""])[0]
        return _failed(args, f"internal error: {type(error).__name__}: {first} (--debug shows where)", 1)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Arguments; inputs may stand after options too, and a misspelt option is answered with the nearest."""
    parser = build()
    args, rest = parser.parse_known_args(argv)
    wrong = [word for word in rest if word.startswith("-")]
    if wrong or (rest and args.command not in ("run", "plan", "audit")):
        from cleanpipe.registry import nearest

        word = (wrong or rest)[0]
        known = parser._subparsers._group_actions[0].choices[args.command]._option_string_actions  # type: ignore[union-attr,index]
        hint = nearest(word.partition("=")[0], known) if wrong else ""
        parser.exit(2, f"cleanpipe {args.command}: unknown argument {word!r}{hint} (--help lists them)\n")
    if rest:
        (args.paths if args.command == "audit" else args.inputs).extend(rest)
    return args


def _failed(args: argparse.Namespace, message: str, status: int, *, public: bool = False) -> int:
    if args.debug:
        traceback.print_exc()
    warn(f"cleanpipe: {message}", public=public)
    if args.json:
        show(json.dumps({"error": message if public else scrubbed(message), "exit_code": status}))
    return status


def _signal_of(error: BaseException) -> signal.Signals:
    return signal.Signals(error.number) if isinstance(error, _Interrupted) else signal.SIGINT


def _catch_signals() -> None:
    def stop(number: int, _frame: FrameType | None) -> NoReturn:
        raise _Interrupted(number)

    signal.signal(signal.SIGTERM, stop)


def _dispatch(args: argparse.Namespace) -> int:
    """Each command's module is imported when it is asked for: `cleanpipe --help` waits for none."""
    if args.command in ASKING:
        return int(import_module(ASKING[args.command]).main(args))
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
    if args.command == "quarantine":
        return _quarantine(args)
    if args.command == "clean":
        from cleanpipe_jobs.tidy import clean_up

        return clean_up(args)
    if args.command == "fetch-list":
        from cleanpipe_jobs.fetch_list import fetch_list

        return fetch_list(args)
    return _doctor(args)


def _quarantine(args: argparse.Namespace) -> int:
    from cleanpipe.observer import Observer
    from cleanpipe_jobs.quarantine import show_quarantine
    from cleanpipe_jobs.watch import watching

    if not args.rerun:
        return show_quarantine(args, Observer())
    with watching(args) as observer:
        return show_quarantine(args, observer)


def _doctor(args: argparse.Namespace) -> int:
    if args.cluster:
        from cleanpipe_jobs.doctor_cluster import doctor_cluster

        return doctor_cluster(args)
    for option in ("address", "storage"):
        if getattr(args, option):
            raise ConfigError(f"--{option} needs --cluster")
    from cleanpipe_jobs.doctor import doctor

    return doctor(as_json=args.json)


def _verify(args: argparse.Namespace) -> int:
    from pathlib import Path

    from cleanpipe.brought import brought
    from cleanpipe.tokens.store.verify import is_store, verify_tokens
    from cleanpipe.tokens.store.verify_export import is_export, verify_export
    from cleanpipe.verify import verify
    from cleanpipe_jobs.reach import storage_options

    if "://" not in args.out and not Path(args.out).is_dir():
        what = "a file" if Path(args.out).exists() else "no folder"
        raise ConfigError(f"{args.out} is {what}: name a run folder or a token store")
    with brought(args.out, storage_options(args.sets)) as folder:
        store = is_store(folder)
        report = (verify_tokens if store else verify_export if is_export(folder) else verify)(folder)
    if args.json:
        show(json.dumps({"out": args.out, "findings": report.findings, "checked": report.checked}, indent=2))
    else:
        for line in report.findings:
            show(line)
        if not args.quiet and not report.findings:
            checked = ", ".join(f"{n:,} {what}" for what, n in report.checked.items())
            show(f"{args.out}: everything holds ({checked})")
        elif report.findings:
            way = "; the `cleanpipe tokenize` line that made it mends it with --repair" if store else ""
            warn(f"{args.out}: {len(report.findings)} fault{'s' * (len(report.findings) != 1)}{way}")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
