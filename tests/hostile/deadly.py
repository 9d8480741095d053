"""A stage for tests: ends, starves or hangs its process on documents that hold a certain word."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from cleanpipe import batch as col
from cleanpipe.stage import Outcome, Stage, Step, option

_MOST = 3 << 30  # bytes that "hoard" takes at most, if nothing ends it


def _crash() -> None:
    ctypes.string_at(0)


def _abort() -> None:
    os.abort()


def _leave() -> None:
    os._exit(0)


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _leave_by_exception() -> None:
    sys.exit(3)


def _hoard() -> None:
    held = [bytearray(b"\1" * (32 << 20)) for _ in range(_MOST >> 25)]
    time.sleep(600)
    held.clear()


def _loop() -> None:
    while True:
        pass


def _loop_in_c() -> None:
    re.match("(a+)+$", "a" * 64 + "b")


def _sleep() -> None:
    time.sleep(3600)


def _close() -> None:
    os.closerange(0, 4096)


def _fail() -> None:
    raise ValueError("a page that no parser likes")


def _run_short() -> None:
    raise MemoryError


def _recurse() -> None:
    def deeper(n: int) -> int:
        return deeper(n + 1) + 1

    deeper(0)


def _shout() -> None:
    for _ in range(200):
        os.write(1, b"noise on standard output " * 1000)
        os.write(2, b"noise on standard error " * 1000)


WORDS: Mapping[str, Callable[[], None]] = {
    "kabwcrash": _crash,
    "kabwabort": _abort,
    "kabwleave": _leave,
    "kabwkill": _kill,
    "kabwexit": _leave_by_exception,
    "kabwhoard": _hoard,
    "kabwloop": _loop,
    "kabwregex": _loop_in_c,
    "kabwsleep": _sleep,
    "kabwclose": _close,
    "kabwfail": _fail,
    "kabwshort": _run_short,
    "kabwrecurse": _recurse,
    "kabwshout": _shout,
}


@dataclass(frozen=True, kw_only=True)
class Deadly(Stage):
    """Judges nothing. ``log`` is a file that gets a line whenever a word was met."""

    name: ClassVar[str] = "deadly"
    reads: ClassVar[frozenset[str]] = frozenset({col.TEXT})

    log: str = option("", "file that is appended to")

    def open(self) -> Step:
        """The step."""
        log = self.log

        def step(batch: pa.RecordBatch) -> Outcome:
            for text in batch.column(col.TEXT).to_pylist():
                for word in re.findall(r"\bkabw[a-z]+", text):
                    with open(log, "a", encoding="utf-8") as file:  # noqa: PTH123
                        file.write(f"{word}\n")
                    WORDS[word]()
            return Outcome(batch)

        return step
