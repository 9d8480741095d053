"""Printing: nothing from a page or a file name can move a terminal, a reader that went away (`| head`) ends nothing,
and text that a full device lost is told.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from pathlib import Path

# controls but tab and line end, and what turns the direction of text
_MOVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
lost: list[str] = []  # why standard output does not have all that was printed


def open_missing_streams() -> None:
    """Give a process that was started without standard output or error (``2>&-``) somewhere to write; and where a
    locale cannot spell a character, its escape.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  open to the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def harmless(text: str) -> str:
    """The text with control characters, but tabs and line ends, as escapes."""
    return _MOVES.sub(
        lambda found: f"\\x{ord(found[0]):02x}" if found[0] < "\u0100" else f"\\u{ord(found[0]):04x}", text
    )


def scrubbed(text: str) -> str:
    """The text without the passwords and signatures in it."""
    from cleanpipe.io.remote import redacted  # lazily: --help needs none of it

    return redacted(text)


def show(text: str = "") -> None:
    """Print to standard output, harmless; from the first failure on, to nowhere (see ``lost``)."""
    try:
        print(harmless(text), flush=True)
    except OSError as error:
        if error.errno != errno.EPIPE:
            lost.append(error.strerror or str(error))
        with contextlib.suppress(OSError, ValueError):  # a captured stream has no file number
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(text: str, *, public: bool = False) -> None:
    """Print to standard error, if it can be; harmless, and without credentials. public: see ``CleanpipeError``."""
    with contextlib.suppress(OSError):
        print(harmless(text if public else scrubbed(text)), file=sys.stderr, flush=True)


def outside(target: str | Path, option: str, *runs: str | Path) -> Path:
    """A place to write a file at that lies in none of these runs: what a run published is sealed by its manifest.

    Raises:
        ConfigError: it lies in one, or is a folder.
    """
    from cleanpipe.errors import ConfigError

    path = Path(target)
    for run in runs:
        if "://" not in str(run) and path.resolve().is_relative_to(Path(run).resolve()):
            raise ConfigError(f"{option} {target} lies in the run, whose files are sealed: name a place outside it")
    if path.is_dir():
        raise ConfigError(f"{option} {target} is a folder: name a file")
    return path
