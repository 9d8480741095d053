"""Who watches a run: the console, and what ``--log`` and ``--metrics`` ask for."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from cleanpipe.errors import ConfigError
from cleanpipe.observer import Observer, Several
from cleanpipe_jobs.metrics import Metrics
from cleanpipe_jobs.progress import Console
from cleanpipe_jobs.tasklog import TaskLog


def log_target(args: argparse.Namespace) -> str:
    """Where the log goes: ``--log``, else CLEANPIPE_LOG, else "" (nowhere)."""
    target = getattr(args, "log", None)
    return os.environ.get("CLEANPIPE_LOG", "") if target is None else str(target)


@contextmanager
def watching(args: argparse.Namespace) -> Iterator[Observer]:
    """The observers that a command line asks for; they learn how the ``with`` ended.

    args: ``quiet``, ``json``, and ``log``, ``metrics`` if it has them.

    Raises:
        ConfigError: a file cannot be written, or two results are wanted on standard output.
    """
    target = log_target(args)
    if target == "-" and args.json:
        raise ConfigError("--json and --log - both write to standard output: name a file for the log")
    observers: list[Observer] = [Console(quiet=args.quiet or args.json)]
    if target:
        observers.append(TaskLog(target))
    observers.append(Metrics(getattr(args, "metrics", None)))
    several = Several(observers)
    try:
        yield several
    except BaseException as error:
        several.close(error)
        raise
    several.close()
