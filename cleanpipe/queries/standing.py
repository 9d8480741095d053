"""Where a run stands, looked at again and again from outside: by its folder alone, reading each time only what is new.

Nothing is written into the run, its lock is not touched, its driver is not asked.
"""

from __future__ import annotations

import os
import platform
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cleanpipe.audit.build import build_audit
from cleanpipe.builtin import READ
from cleanpipe.engine.folder import MANIFEST, PLAN
from cleanpipe.errors import DamagedFileError, StopError
from cleanpipe.io.lease import LEASE, Lease, holder_name, is_dead, read_holder
from cleanpipe.io.store import LOCK, LocalStore, Store
from cleanpipe.options import StorageOptions
from cleanpipe.queries.seen import DONE, Dated, Seen, dated
from cleanpipe.queries.unfinished import MEETING, PUBLISHING, READING, WINDOWS, Unfinished, under_way_of
from cleanpipe.tally import Tally, add

WAITING, FINISHED = "waiting", "finished"
RECENT, LONGER = 300.0, 3600.0  # seconds that a rate looks back; where fewer than FEW units ended in them
FEW = 8
AT_ONCE = 1000  # manifests of a kind that one look reads; the others are only counted
AT_WORK, NOBODY, NOT_KNOWN = "at work", "nobody", "not known"


@dataclass(frozen=True, slots=True)
class Standing:
    """One look. Of what is not known from the folder, None. Rates are per second, of the last minutes.

    done, units: units of the phase (publishing: shards and ledger parts), of all. documents: read so far. alive: not
    lost so far. driver: AT_WORK, NOBODY or NOT_KNOWN; holder: who it is. quiet: seconds since the last unit ended.
    work: bytes of the finished units' files below work/, about. audit: funnel and stages of what is done.
    """

    root: str
    phase: str
    done: int = 0
    units: int = 0
    read: int = 0
    size: int = 0
    documents: int = 0
    alive: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    failed: int = 0
    byte_rate: float | None = None
    document_rate: float | None = None
    unit_rate: float | None = None
    left: float | None = None
    quiet: float | None = None
    driver: str = NOT_KNOWN
    holder: str = ""
    work: int = 0
    audit: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Event:
    at: float
    units: int
    size: int
    documents: int


class Watched:
    """A run that is looked at. ``look`` gives its standing; it may not have begun yet.

    Raises:
        ConfigError: its plan cannot be read. StopError: the storage does not answer, or may not be read.
    """

    def __init__(self, store: Store, storage: StorageOptions, now: Callable[[], float] = time.time) -> None:
        self.store, self.storage, self._now = store, storage, now
        self._state: Unfinished | None = None
        self._planned = 0.0
        self._events: dict[str, deque[_Event]] = {}
        self._known: dict[str, set[str]] = {}  # kind → keys whose events are noted
        self._sizes: dict[str, tuple[int, int]] = {}  # kind → units, bytes of their files
        self._holder = _Holder(store)
        self._token: object = None
        self._sums: tuple[Tally, dict[str, Any]] = {}, {}

    def look(self) -> Standing:
        """The standing now."""
        if self.store.size(MANIFEST) >= 0:
            return Standing(self.store.root, FINISHED)
        try:
            planned = published_at(self.store, PLAN)
            if planned is None:
                self._state = None
                return Standing(self.store.root, WAITING)
            if self._state is None or planned != self._planned:
                self._begin(planned)
            return self._look()
        except (FileNotFoundError, DamagedFileError):
            if self.store.size(MANIFEST) >= 0:  # it ended while it was looked at
                return Standing(self.store.root, FINISHED)
            if self.store.size(PLAN) < 0:  # or was taken back
                return Standing(self.store.root, WAITING)
            raise
        except OSError as error:
            raise StopError(f"cannot be read: {error.strerror or error}", source=self.store.root) from error

    def _begin(self, planned: float) -> None:
        self._state, self._planned = Unfinished.of(self.store, self.storage, blank=True), planned
        self._events, self._known, self._sizes, self._token = {}, {}, {}, None

    def _look(self) -> Standing:
        state = self._state
        assert state is not None
        there = dated(self.store, DONE)
        kinds = {name.split("/")[2] for name in there}
        first = state.of_kind("pass0")
        if kinds <= {"pass0"}:
            first.look(there, AT_ONCE)
        early = kinds <= {"pass0"} and len(first) < state.units and "again" not in state.plan
        if not early:
            state.look(there, AT_ONCE)
        token = (early, list(state.meetings), [(kind, seen.changes) for kind, seen in state.seen.items()])
        if token != self._token:
            # of nothing but units of the first pass, and not yet all, no key needs to be derived
            tallies = [first.tally()] if early else state.tallies()
            total: Tally = {}
            for tally in tallies:
                add(total, tally)
            self._token, self._sums = token, (total, _audit(state, total, len(tallies)))
            for kind in kinds:
                if not kind.startswith("meet"):
                    self._note(kind, state.of_kind(kind))
        return self._standing(state, READING if early else state.phase, there)

    def _note(self, kind: str, seen: Seen) -> None:
        """When which units ended, and how large their files are."""
        known, events = self._known.setdefault(kind, set()), self._events.setdefault(kind, deque(maxlen=10_000))
        units, size = self._sizes.get(kind, (0, 0))
        new = []
        for key, single in seen.singles.items():
            if key not in known:
                known.add(key)
                read = single.manifest.get("tally", {}).get(READ, {})
                new.append(_Event(single.at, 1, int(read.get("file_bytes", 0)), int(read.get("docs_in", 0))))
                units, size = units + 1, size + sum(int(f["bytes"]) for f in single.manifest["files"].values())
        for book in seen.books.values():
            if book.at >= self._planned and (missed := sum(key not in known for key in book.keys)):
                known.update(book.keys)
                read, share = book.tally.get(READ, {}), missed / len(book.keys)
                amounts = (int(share * int(read.get(n, 0))) for n in ("file_bytes", "docs_in"))
                new.append(_Event(book.at, missed, *amounts))
        self._sizes[kind] = units, size
        events.extend(sorted(new, key=lambda e: e.at))

    def _standing(self, state: Unfinished, phase: str, there: Dated) -> Standing:
        now, (total, audit) = self._now(), self._sums
        kinds, done, units = _progress(state, phase)
        size = sum(max(i.size, 0) for i in state.going.plan.inputs)
        read = min(int(total.get(READ, {}).get("file_bytes", 0)), size)
        driver, holder, since = self._holder.look(now)
        ended = [at for name, (_, at) in there.items() if "/tally-" not in name]
        rates = self._rates(kinds, now, max(self._planned, since)) if driver != NOBODY else None
        left = None
        if rates is not None and phase == READING and rates[1]:
            left = (size - read) / rates[1]
        elif rates is not None and phase in (WINDOWS, PUBLISHING) and rates[0]:
            left = (units - done) / rates[0]
        funnel = audit["funnel"]
        quarantined: dict[str, int] = {}
        for stage in audit["stages"].values():
            add(quarantined, stage["quarantined"])
        return Standing(
            root=self.store.root,
            phase=phase,
            done=done,
            units=units,
            read=read,
            size=size,
            documents=funnel[0]["documents"]["in"],
            alive=_alive(funnel),
            quarantined=quarantined,
            failed=0 if phase == READING else state.units - len(state.done[0]),
            unit_rate=rates[0] if rates else None,
            byte_rate=rates[1] if rates and phase == READING else None,
            document_rate=rates[2] if rates and phase == READING else None,
            left=left,
            quiet=max(0.0, now - max(ended)) if ended else None,
            driver=driver,
            holder=holder,
            work=self._work(state),
            audit=audit,
        )

    def _rates(self, kinds: tuple[str, ...], now: float, since: float) -> tuple[float, float, float] | None:
        """Units, bytes, documents a second."""
        events = [e for kind in kinds for e in self._events.get(kind, ())]
        for back in (RECENT, LONGER):
            begin = max(now - back, since)
            recent = [e for e in events if e.at > begin]
            if len(recent) >= FEW:
                break
        if not recent or now <= begin:
            return None
        return tuple(sum(getattr(e, n) for e in recent) / (now - begin) for n in ("units", "size", "documents"))

    def _work(self, state: Unfinished) -> int:
        """Units whose manifests were in books before are taken to be like the others."""
        total = 0.0
        for kind, (units, size) in self._sizes.items():
            total += size * max(1.0, len(state.of_kind(kind)) / units) if units else 0
        return int(total)


def _progress(state: Unfinished, phase: str) -> tuple[tuple[str, ...], int, int]:
    """Kinds of units that end in this phase, how many did, of how many."""
    if phase == READING:
        return ("pass0",), min(len(state.of_kind("pass0")), state.units), state.units
    if phase == MEETING:
        return (), 0, 1
    if phase == WINDOWS:
        index = next(i for i in range(1, len(state.done)) if len(state.done[i]) < len(state.done[0]))
        return (f"pass{index}",), len(state.done[index]), len(state.done[0])
    shards = [name for name in state.published if name.startswith("data/data-")]
    planned = int(shards[0].removesuffix(".arrow").rpartition("-")[2]) if shards else 1
    return ("shard", "ledger"), len(shards) + len(state.parts), planned + state.units


def _alive(funnel: list[dict[str, Any]]) -> int:
    """Documents not lost so far: out of the last stage, and those that wait before a later one."""
    lost = sum(row["documents"]["in"] - row["documents"]["out"] for row in funnel)
    return int(funnel[0]["documents"]["in"] - lost)


def _audit(state: Unfinished, tally: Tally, reached: int) -> dict[str, Any]:
    passes = state.going.have.passes[: max(1, reached)]
    audit = build_audit(
        identity={"config_hash": "", "recipe": "", "code": "", "models": {}, "inputs": []},
        recipe=state.recipe,
        stages=[s for p in passes for s in p.stages],
        tally=tally,
        ledger={},
        samples={},
        by_source={},
        meetings={},
        shards=[],
    )
    under_way = under_way_of(state)
    for row in audit["funnel"]:
        if row["stage"] in under_way:  # documents of units that are not there yet would count as lost
            row["documents"]["share_of_run_input"] = {"value": "not yet"}
    return audit


def published_at(store: Store, name: str) -> float | None:
    """When a file was published, by the clock of the storage; None if it is not there."""
    if isinstance(store, LocalStore):
        try:
            return (store.path / name).stat().st_mtime
        except (FileNotFoundError, NotADirectoryError):
            return None
    found = dated(store, name).get(name)
    return found[1] if found is not None else None


class _Holder:
    """Whether a driver is at work, by what it leaves to be seen: a lock in the kernel's list, or a lease that beats."""

    def __init__(self, store: Store) -> None:
        self._store, self._beat, self._since = store, b"", 0.0

    def look(self, now: float) -> tuple[str, str, float]:
        """AT_WORK, NOBODY or NOT_KNOWN; who; when it began, 0 if that is not known."""
        return self._lock() if isinstance(self._store, LocalStore) else self._lease(now)

    def _lock(self) -> tuple[str, str, float]:
        assert isinstance(self._store, LocalStore)
        path = self._store.path / LOCK
        try:
            holder, stat = path.read_text(encoding="utf-8", errors="replace").strip(), path.stat()
        except OSError:
            return NOBODY, "", 0.0
        if locked(stat, holder):
            return AT_WORK, holder, stat.st_mtime
        here = holder.endswith(f" on {platform.node()}")
        return (NOBODY, "", 0.0) if here or not holder else (NOT_KNOWN, holder, stat.st_mtime)

    def _lease(self, now: float) -> tuple[str, str, float]:
        try:
            data = self._store.read(LEASE)
        except FileNotFoundError:
            return NOBODY, "", 0.0
        holder = read_holder(data)
        if is_dead(holder):
            return NOBODY, "", 0.0
        if data != self._beat:
            known, self._beat, self._since = bool(self._beat), data, now
            return (AT_WORK if known else NOT_KNOWN), holder_name(holder), 0.0
        silent = now - self._since
        return (
            (NOBODY if silent > Lease.TTL else AT_WORK if silent < 2 * Lease.BEAT else NOT_KNOWN),
            holder_name(holder),
            0.0,
        )


def locked(stat: os.stat_result, holder: str) -> bool:
    """Whether a process holds a lock on the file, by the kernel's list: to ask for the lock would take it."""
    device = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}"
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    # layered file systems give another device: then the process must be the one that the file names
    return any(
        words[5].startswith(f"{device}:") or holder.startswith(f"process {words[4]} ")
        for words in map(str.split, lines)
        if len(words) > 5 and words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(stat.st_ino)
    )
