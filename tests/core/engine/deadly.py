"""A task kind that ends its worker in every way there is. No test: workers import it because their tasks hold one of
its objects, and importing it adds the kind to ``WORK``.

A task goes through documents 0…n-1 in batches as the engine's own do, and heeds ``careful`` and ``condemned``.
``args["deeds"]``: {document, or "start", "end", ("reading", first): deed}.
"""

import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from cleanpipe.engine.base import Task
from cleanpipe.engine.work import WORK
from cleanpipe.errors import ConfigError, RetryableError, ShardError, StopError

ERRORS = {
    "shard": ShardError("broken input", source="here"),
    "retry": RetryableError("a time-out", source="here"),
    "stop": StopError("disk full"),
    "config": ConfigError("wrong"),
    "bug": KeyError("nothing"),
    "memory": MemoryError(),
}


@dataclass(frozen=True)
class Deed:
    """What a document does to the process that treats it. times: the first so many times only, counted in
    ``args["folder"]``; 0: always.
    """

    what: str
    value: object = 0
    times: int = 0


@dataclass(frozen=True)
class Unloadable:
    """A context that ends the worker which loads it."""

    recipe: object
    out: str = ""
    run_id: str = ""

    def __reduce__(self):
        return os._exit, (5,)


def doc(number):
    return number.to_bytes(16, "big")


def task(n=30, label="unit", **args):
    return Task("deadly", f"key-{label}", label, n, {"documents": n, "kind": Deed("nothing"), **args})


def do(deed, name, folder):
    if deed.times:
        seen = Path(folder) / f"deed-{name}"
        count = len(seen.read_bytes()) if seen.exists() else 0
        if count >= deed.times:
            return
        seen.write_bytes(b"." * (count + 1))
    DEEDS[deed.what](deed.value)


def eat_memory(_):
    held = []
    while True:
        held.append(bytearray(b"x" * (16 << 20)))
        time.sleep(0.03)


def compute(seconds):
    until = time.process_time() + (seconds or 1e9)
    while time.process_time() < until:
        pass


def write(count):
    os.write(1, b"to standard output\n")
    os.write(2, b"to standard error\n" * count)


def die_and_leave_a_child(_):
    """It holds the line open, so that only the death itself tells of the death."""
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
    os._exit(7)


def fail(name):
    raise ERRORS[name]


DEEDS = {
    "signal": lambda number: os.kill(os.getpid(), number) or time.sleep(60),
    "exit": os._exit,
    "system exit": sys.exit,
    "memory": eat_memory,
    "compute": compute,
    "sleep": time.sleep,
    "freeze": lambda _: os.kill(os.getpid(), signal.SIGSTOP),
    "write": write,
    "leave a child": die_and_leave_a_child,
    "raise": fail,
}


def work(context, task, watch):
    args = task.args
    deeds, n, size, folder = args.get("deeds", {}), args["documents"], args.get("batch", 10), args.get("folder")
    careful = [range(a, a + c) for a, c in args.get("careful", ())]
    condemned = {bytes.fromhex(k) for k in args.get("condemned", {})}
    if folder:
        (Path(folder) / f"pid-{task.label}").write_text(str(os.getpid()), encoding="ascii")
    if "start" in deeds:
        do(deeds["start"], "start", folder)
    kept = []
    for first in range(0, n, size):
        watch.at(first, 0)
        watch.consumed(first)
        if ("reading", first) in deeds and args.get("reader") != "member":
            do(deeds["reading", first], f"reading-{first}", folder)
        numbers = range(first, min(n, first + size))
        singly = any(first in r for r in careful)
        for piece in [[i] for i in numbers] if singly else [list(numbers)]:
            watch.at(piece[0], len(piece), doc(piece[0]) if singly else None)
            for i in piece:
                if doc(i) in condemned:
                    continue
                if i in deeds:
                    do(deeds[i], i, folder)
                kept.append(i)
    watch.at(n, 0)
    if "end" in deeds:
        do(deeds["end"], "end", folder)
    return {"kept": kept, "entered": n, "pid": os.getpid(), "extra": b"x" * args.get("extra", 0)}


WORK["deadly"] = work
