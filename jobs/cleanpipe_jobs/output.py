"""Printing that cannot change what a command did: a closed pipe or a full device costs the text, not the status."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


def open_missing_streams() -> None:
    """Give a process that was started without standard output or error (``2>&-``) somewhere to write."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  open to the end


def show(text: str = "") -> None:
    """Print to standard output; from the first failure on, to nowhere."""
    try:
        print(text, flush=True)
    except OSError:
        with contextlib.suppress(OSError, ValueError):  # a captured stream has no file number
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(text: str) -> None:
    """Print to standard error, if it can be."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)
