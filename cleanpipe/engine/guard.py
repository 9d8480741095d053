"""One worker process and the watch over it: its memory, its computing time, its silence, its death.

The watch is kept from outside, by looking at ``/proc`` a few times a second, because nothing inside a process can end a
C call that never returns. It never blocks, so one thread keeps many guards. It measures and reports; what a death means
for a unit is decided in engine/attempts.py.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cleanpipe.engine.attempts import CHANCE, KILLED, OUTSIDE, OWN, Cause, Death, Place
from cleanpipe.engine.base import Context, Task
from cleanpipe.engine.channel import Channel, Nonsense
from cleanpipe.engine.worker import SHOW
from cleanpipe.errors import StopError

POLL = 0.2  # seconds between two looks at a worker that computes
PATIENCE = 5.0  # seconds for a killed process to be gone
BRIEFLY = 1.0  # the same where everything is being ended
UNITS = 200  # a worker is replaced after so many: parsers leak
LAST_WORDS = 1 << 14  # bytes of standard error that are kept
SMALL = 64 << 20  # bytes by which a worker may grow without a suspicion
TRACE = 4096  # of these, bytes that are shown
CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGSYS, signal.SIGTRAP}
)
_STACK = re.compile(r"^(?:Fatal Python error|Stack \(most recent call first\))", re.M)  # as faulthandler begins
_TICK = os.sysconf("SC_CLK_TCK")

Event = tuple[str, Any]  # "ready"; "consumed", bytes; "done", result; "error", exception; "died", Death


@dataclass(frozen=True, slots=True)
class Usage:
    """memory: bytes that only this process holds, on disk too if swapped (mapped files are the kernel's to drop);
    cpu: seconds, of all its threads. Child processes are counted with it.
    """

    memory: int
    cpu: float


def usage(pid: int) -> Usage:
    """What a process uses now; nothing if it is gone."""
    memory, cpu = 0, 0.0
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        cpu = sum(map(int, fields[11:15])) / _TICK  # user, system, and those of children that ended
        for line in Path(f"/proc/{pid}/status").read_bytes().splitlines():
            if line.startswith((b"RssAnon:", b"RssShmem:", b"VmSwap:")):
                memory += int(line.split()[1]) << 10
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split():
            below = usage(int(child))
            memory, cpu = memory + below.memory, cpu + below.cpu
    return Usage(memory, cpu)


class Guard:
    """At most one worker process at a time; it is started when there is something to do."""

    def __init__(self, context: Context) -> None:
        self._context, self._limits = context, context.recipe.guards
        self.task: Task | None = None  # what the worker is doing
        self.ready = False  # it has started, and waits or works
        self._process: subprocess.Popen[bytes] | None = None
        self._clear()

    def _clear(self) -> None:
        self.ready = False
        self._done = 0
        self._words = bytearray()
        self._begin()

    def _begin(self) -> None:
        self._place, self._consumed = Place(), 0
        self._cause: Cause | None = None  # why it is being ended
        self._shown = False  # told to show where it is; ended at the next look
        self._killed_at = self._closed_at = 0.0
        self._new = True  # it said something since the last look
        self._mark = 0.0  # CPU seconds at the first look after that
        self._still = (0.0, 0.0)  # since when, and at how many CPU seconds, it neither computes nor says anything
        self._look = 0.0
        self._seen = False  # looked at since it is where it is
        self._small = self._largest = 0  # bytes of memory then, and the most since

    @property
    def pid(self) -> int:
        """Of the worker; 0 if there is none."""
        return self._process.pid if self._process else 0

    def give(self, task: Task) -> None:
        """Have an idle worker do this, a new one where there is none, or where the old one has become too large."""
        assert self.task is None
        if self._process and (self._is_gone() or self._done >= UNITS or self._is_large()):
            self.end()
        if self._process is None:
            self._start()
        self._begin()
        self.task = task
        self._channel.send(task)

    def _is_large(self) -> bool:
        return usage(self.pid).memory > self._limits.memory // 2

    def _start(self) -> None:
        if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else nobody learns how a worker ended (Ray's workers)
        ours, theirs = socket.socketpair()
        path = [p or str(Path.cwd()) for p in sys.path]
        with theirs:
            handle = theirs.fileno()
            try:
                self._process = subprocess.Popen(  # noqa: S603  our own program
                    [sys.executable, "-P", "-m", "cleanpipe.engine.worker", str(handle), str(os.getpid())],
                    pass_fds=[handle],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    start_new_session=True,  # a terminal's Ctrl-C is for the driver; its children can be ended with it
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
                )
            except OSError as error:
                ours.close()
                raise StopError(f"no worker process can be started ({error.strerror or error})") from error
        self._clear()
        assert self._process.stderr is not None
        self._stderr = self._process.stderr.fileno()
        os.set_blocking(self._stderr, False)
        self._channel = Channel(ours)
        kept = {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        self._channel.send({"path": path, "environ": kept})
        self._channel.send(self._context)

    def handles(self) -> dict[int, int]:
        """File descriptors to wait for, each with its ``select.poll`` mask."""
        if self._process is None:
            return {}
        out = {self._stderr: select.POLLIN} if self._stderr >= 0 else {}
        if not self._channel.ended:
            out[self._channel.fileno()] = select.POLLIN | (select.POLLOUT if self._channel.waiting else 0)
        return out

    def poll(self) -> list[Event]:
        """What happened since the last time; looks at the process if it is time to. "died" is the last of a process."""
        if self._process is None:
            return []
        now = time.monotonic()
        gone = self._is_gone()  # before receiving: what was sent before the end is received below
        self._listen()
        self._channel.flush()
        events: list[Event] = []
        try:
            while messages := self._channel.receive():
                for message in messages:
                    self._hear(message, events)
                if not gone:
                    break
        except Nonsense as error:
            self._kill(Cause(OWN, "WorkerCrash", f"its worker sent {error}"), now)
        if gone:
            cause = replace(self._cause, trace=self._trace()) if self._cause else self._status()
            death = Death(cause, self._place, self._consumed, self.ready)
            busy = self.task is not None
            self.end()
            if busy:
                events.append(("died", death))
        elif self._channel.ended and not self._killed_at:
            self._closed_at = self._closed_at or now
            if now - self._closed_at > PATIENCE:
                self._kill(Cause(OWN, "WorkerCrash", "its worker hung up, and lived"), now)
        elif now - self._look >= POLL:
            self._look = now
            if self.task is not None and not self._killed_at:
                self._judge(now)
        return events

    def _hear(self, message: tuple[Any, ...], events: list[Event]) -> None:
        self._new = True
        if self._shown and not self._killed_at:
            self._shown, self._cause = False, None  # it went on
        kind = message[0]
        if kind == "at":
            self._place, self._consumed, self._seen = Place(*message[1]), message[2], False
            return
        if kind == "ready":
            self.ready = True
        elif kind == "consumed":
            self._consumed = message[1]
        else:
            self.task, self._done = None, self._done + 1
        events.append((kind, message[1] if len(message) > 1 else None))

    def _judge(self, now: float) -> None:
        used, limits = usage(self.pid), self._limits
        if self._new:
            self._new, self._mark, self._still = False, used.cpu, (now, used.cpu)
        if not self._seen:
            self._seen, self._small, self._largest = True, used.memory, used.memory
        self._largest = max(self._largest, used.memory)
        computed = used.cpu - self._mark
        if self._shown and self._cause:
            self._kill(self._cause, now)
        elif used.memory > limits.memory:
            text = f"used {_amount(used.memory)} of memory (guards.memory = {_limit(limits.memory)})"
            self._kill(Cause(OWN, "MemoryGuard", text), now)
        elif computed > limits.cpu_seconds:
            text = f"computed {computed:,.0f} s on it (guards.cpu_seconds = {limits.cpu_seconds:g})"
            self._show(Cause(OWN, "CpuGuard", text))
        elif used.cpu - self._still[1] > min(0.5, limits.stall_seconds / 100):  # more than threads that only tick
            self._still = now, used.cpu
        elif now - self._still[0] > limits.stall_seconds:
            silent = f"{now - self._still[0]:,.0f} s"
            text = f"gave no answer for {silent} (guards.stall_seconds = {limits.stall_seconds:g})"
            self._show(Cause(OUTSIDE, "NoAnswer", text))

    def _show(self, cause: Cause) -> None:
        self._cause, self._shown = cause, True
        with suppress(ProcessLookupError):
            os.kill(self.pid, SHOW)

    def _kill(self, cause: Cause, now: float) -> None:
        self._cause, self._killed_at = cause, now
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def _is_gone(self) -> bool:
        """Whether it ended; it is not reaped yet, so its number is still its own. One that cannot even be killed (its
        storage hangs) is given up.
        """
        try:
            gone = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # somebody else reaped it
            return True
        return gone or bool(self._killed_at and time.monotonic() - self._killed_at > PATIENCE)

    def _listen(self) -> None:
        """Take what it wrote to standard error, and keep the end."""
        while self._stderr >= 0:
            try:
                data = os.read(self._stderr, LAST_WORDS)
            except BlockingIOError:
                return
            if not data:
                self._stderr = -1
            self._words += data
            del self._words[:-LAST_WORDS]

    def _status(self) -> Cause:
        """The cause that its exit status tells."""
        assert self._process is not None
        trace = self._trace()
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            found = None
        if found is None:
            crashed = "Fatal Python error" in trace
            return Cause(OWN if crashed else OUTSIDE, "WorkerCrash", "its worker ended, nobody knows how", trace)
        if found.si_code == os.CLD_EXITED:
            return Cause(OWN, "WorkerExit", f"exit {found.si_status}", trace)
        name = signal.Signals(found.si_status).name if found.si_status in set(signal.Signals) else "a signal"
        if found.si_status in CRASHES:
            return Cause(OWN, "WorkerCrash", name, trace)
        text = f"killed by {name} while it used {_amount(self._largest)} of memory"
        return Cause(CHANCE if self._is_as_ever() else OUTSIDE, KILLED, text)

    def _is_as_ever(self) -> bool:
        """Whether its memory, as last seen, gave nobody a reason to kill it: it had not grown since it was where it is,
        or, while no document is treated, it was far from the guard. Not where it was not seen there at all.
        """
        if not self._seen:
            return False
        grown = self._largest - self._small
        return grown < SMALL or (self._place.count == 0 and self._largest < self._limits.memory // 8)

    def _trace(self) -> str:
        text = self._words.decode("utf-8", "replace")
        begins = [m.start() for m in _STACK.finditer(text)]
        if not begins:
            return text.strip()[-TRACE:]
        return text[begins[-1] :].partition("\n\nExtension modules:")[0][:TRACE].strip()

    def end(self) -> None:
        """End the worker at once, whatever it is doing: its outputs count only once they are published."""
        process, self._process, self.task = self._process, None, None
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._channel.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(BRIEFLY)
        assert process.stderr is not None
        process.stderr.close()
        self._clear()


def wait(guards: Iterable[Guard], timeout: float) -> None:
    """Until one of them has something to say, or ``timeout`` seconds."""
    poll = select.poll()
    for guard in guards:
        for handle, mask in guard.handles().items():
            poll.register(handle, mask)
    poll.poll(timeout * 1000)


def _amount(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def _limit(size: int) -> str:
    return f"{size >> 30} GiB" if size % (1 << 30) == 0 else f"{size / (1 << 20):g} MiB"
