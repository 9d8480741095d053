"""One process at a time works in an object store: an object that its holder keeps changing, and that others watch.

No clocks are compared: a lease that did not change while somebody watched it for ``TTL`` is a dead holder's.
"""

from __future__ import annotations

import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Protocol

from cleanpipe.errors import CleanpipeError, ConfigError, StopError
from cleanpipe.io.store import Hold

LEASE = "work/lease.json"


class Cell(Protocol):
    """A small object that can be replaced by who knows its state."""

    def get(self) -> tuple[bytes, str] | None:
        """Content and tag; None if it is not there."""

    def put(self, data: bytes, tag: str | None) -> str | None:
        """Its new tag; None if its tag is no longer ``tag`` (None: it must not be there)."""

    def remove(self) -> None:
        """Removes it."""


class Lease(Hold):
    """A lease ``{id, host, pid, process, beat}``, renewed by a thread every ``BEAT`` seconds.

    Raises:
        ConfigError: another process holds it.
    """

    BEAT: ClassVar[float] = 5.0
    TTL: ClassVar[float] = 30.0

    def __init__(self, cell: Cell, root: str, tell: Callable[[str], None]) -> None:
        self._cell, self._root = cell, root
        self._facts: dict[str, Any] = {
            "id": uuid.uuid4().hex,
            "host": platform.node(),
            "pid": os.getpid(),
            "process": _process(os.getpid()),
            "beat": 0,
        }
        self._lock, self._done, self._lost = threading.Lock(), threading.Event(), ""
        self._take(tell)
        self._thread = threading.Thread(target=self._beat, name="cleanpipe-lease", daemon=True)
        self._thread.start()

    def _take(self, tell: Callable[[str], None]) -> None:
        seen, quiet, looked = "", 0.0, time.monotonic()
        while True:
            held = self._cell.get()
            now = time.monotonic()
            if held is None:
                tag = self._cell.put(self._spelled(), None)
            else:
                holder = read_holder(held[0])
                if seen and held[1] != seen:
                    raise ConfigError(
                        f"another run is at work in {self._root} ({holder_name(holder)}): wait for it or end it"
                    )
                if not seen:
                    seen = held[1]
                    if not is_dead(holder):
                        tell(
                            f"{self._root} is held by {holder_name(holder)}: watching for up to {self.TTL:.0f} s "
                            "whether that is still at work"
                        )
                else:  # a look that took long may have met storage that answers the holder no more than us
                    quiet += min(now - looked, self.BEAT)
                looked = now
                if not is_dead(holder) and quiet < self.TTL:
                    time.sleep(min(1.0, self.BEAT / 2))
                    continue
                tag = self._cell.put(self._spelled(), held[1])
            if tag is not None and (got := self._cell.get()) is not None and self._ours(got[0]):
                return
            seen, quiet = "", 0.0  # somebody else was quicker, and now holds it

    def _spelled(self) -> bytes:
        return json.dumps(self._facts, sort_keys=True).encode()

    def _ours(self, data: bytes) -> bool:
        return bool(read_holder(data).get("id") == self._facts["id"])

    def _renew(self) -> None:
        """One beat; sets ``_lost`` where the lease is another's. It is read first: some stores know no conditions."""
        with self._lock:
            if self._lost or self._done.is_set():
                return
            self._facts["beat"] += 1
            now = self._cell.get()
            if now is not None and self._ours(now[0]) and self._cell.put(self._spelled(), now[1]) is None:
                now = self._cell.get()  # somebody changed it between the two
            if now is None or not self._ours(now[0]):
                holder = "nobody" if now is None else holder_name(read_holder(now[0]))
                self._lost = f"{self._root} is no longer held by this process, but by {holder}"

    def _beat(self) -> None:
        while not self._done.wait(self.BEAT):
            try:
                self._renew()
            except CleanpipeError:
                continue  # storage that does not answer takes the lease from nobody: the next beat tells
            if self._lost:
                return

    def check(self) -> None:
        """Proves by a beat that nobody took it."""
        self._renew()
        if self._lost:
            raise StopError(f"{self._lost}: it was thought dead; start the same line again")

    def release(self) -> None:
        """Ends the thread and deletes the lease, if it is ours; where storage is lost the next start waits for it."""
        with self._lock, suppress(CleanpipeError):
            if self._done.is_set():
                return
            self._done.set()
            if not self._lost:
                now = self._cell.get()
                if now is not None and self._ours(now[0]):
                    self._cell.remove()


def read_holder(data: bytes) -> dict[str, Any]:
    """What a lease says of who holds it; {} if it is none."""
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def holder_name(holder: dict[str, Any]) -> str:
    """For people."""
    return f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'an unknown host')}"


def _process(pid: int) -> str:
    """A name for a process that no other ever has: boot, PID namespace, number, start time; "" for none."""
    try:
        if os.readlink("/proc/self") != str(os.getpid()):  # noqa: PTH115  # the /proc of another PID namespace
            return ""
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        if state[0] in "ZX":  # dead, and only not yet buried
            return ""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')} {pid} {state[19]}"  # noqa: PTH115  # a link to no path
    except (OSError, IndexError):
        return ""


def is_dead(holder: dict[str, Any]) -> bool:
    """Whether it lived where we live, and is gone: then nobody needs to be watched."""
    name, here = str(holder.get("process", "")), _process(os.getpid())
    if not name or not here or name.split()[:2] != here.split()[:2]:
        return False
    number = name.split()[2:3]
    return bool(number and number[0].isdigit()) and _process(int(number[0])) != name
