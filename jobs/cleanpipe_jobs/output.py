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


def scrubbed(text: str) -> str:
    """The text without the passwords and signatures in it."""
    from cleanpipe.io.remote import redacted  # lazily: --help needs none of it

    return redacted(text)


def show(text: str = "") -> None:
    """Print to standard output; from the first failure on, to nowhere."""
    try:
        print(text, flush=True)
    except OSError:
        with contextlib.suppress(OSError, ValueError):  # a captured stream has no file number
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(text: str) -> None:
    """Print to standard error, if it can be; without credentials."""
    with contextlib.suppress(OSError):
        print(scrubbed(text), file=sys.stderr, flush=True)
