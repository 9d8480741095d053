"""How far a run is: what an observer is told, folded into figures, and these figures in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cleanpipe.observer import Observer

PHASES = {
    "read": "reading and judging",
    "meet": "comparing documents",
    "window": "cutting windows",
    "publish": "publishing",
    "prove": "proving the backend",
    "wait": "waiting for the run",
    "map": "reading the ledger",
    "encode": "encoding",
    "join": "joining spans",
}
READING = ("read", "encode")  # phases that are measured by the bytes of their input
RECENT = 60.0  # seconds at least that a rate looks back: units end in lumps


@dataclass(frozen=True, slots=True)
class Look:
    """The figures at one moment; rates are per second, None where nothing is known yet."""

    phase: str
    seconds: float  # in this phase
    units: int
    tasks: int
    read: int  # bytes of input; 0 in phases that read none
    size: int
    documents: int  # of this phase
    quarantined: int  # of this start of the run
    byte_rate: float | None
    document_rate: float | None
    left: float | None  # seconds
    token_rate: float | None = None

    @property
    def share(self) -> float | None:
        """Part of the phase that is done, 0 to 1; None where it cannot be known."""
        if self.size > 0:
            return min(1.0, self.read / self.size)
        return self.units / self.tasks if self.tasks > 1 else None

    def words(self) -> list[str]:
        """The figures that there are, what matters most first."""
        units = f"{self.units:,} of {self.tasks:,} unit{'s' * (self.tasks != 1)}"
        out = [units] if self.tasks > 1 or self.size > 0 else []
        if self.byte_rate is not None:
            out.append(f"{self.byte_rate / 1e6:,.1f} MB/s")
        if self.document_rate is not None:
            out.append(f"{self.document_rate:,.0f} documents/s")
        if self.token_rate is not None:
            out.append(f"{self.token_rate:,.0f} tokens/s")
        if self.quarantined:
            out.append(f"{self.quarantined:,} quarantined")
        if self.size > 0:
            out.append(amounts(self.read, self.size))
        return out

    def time_left(self) -> str:
        """For people; the time spent where the rest is unknown."""
        if self.left is not None:
            return f"{clock(self.left)} left"
        return f"{clock(self.seconds)} so far" if self.seconds >= 1 else "just begun"


class Figures(Observer):
    """Only counts: any number of units costs the memory of those in flight."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._size = self._planned = self.quarantined = 0
        self._begin("", 0)

    def _begin(self, name: str, tasks: int) -> None:
        self.name, self.tasks, self.units = name, tasks, 0
        self.began = self._now()
        self._flying: dict[str, int] = {}  # bytes consumed of what is being read
        self._flown = self._landed = self._moved = 0  # their sum; bytes of finished units; of which by the last one
        self.documents = self.tokens = 0
        self._marks: list[tuple[float, float]] = [(self.began, 0.0)]

    def started(self, units: int, size: int, resumed: int, reused: int) -> None:  # noqa: ARG002
        """The bytes to read."""
        self._planned = size

    def phase(self, name: str, tasks: int) -> None:
        """Counting begins anew. Where some units are read again, their bytes are not known."""
        self._begin(name, tasks)
        if name in READING:
            self._size, self._planned = self._planned, 0

    def progress(self, label: str, done: int) -> None:
        """Bytes of one unit so far; a second try begins below the first."""
        self._flown += done - self._flying.get(label, 0)
        self._flying[label] = done

    def finished(self, label: str, documents: int, alive: int) -> None:  # noqa: ARG002
        """Its bytes stay counted; ``result`` knows them better."""
        self._moved = self._flying.pop(label, 0)
        self._flown -= self._moved
        self._landed += self._moved
        self.units += 1
        self.documents += documents

    def result(self, kind: str, label: str, key: str, facts: Mapping[str, Any]) -> None:  # noqa: ARG002
        """The bytes of the unit just finished, and what of it lies in quarantine."""
        if kind in ("pass", "encode"):
            self.tokens += int(facts.get("tokens", 0))
            self.quarantined += int(facts.get("quarantined", 0))
            self._landed += int(facts.get("bytes", self._moved)) - self._moved
        self._moved = 0

    def look(self) -> Look:
        """The figures now. Called from the display's thread: reads single numbers, changes only its own marks."""
        now, reading = self._now(), self.name in READING
        read, size = (self._landed + self._flown, self._size) if reading else (0, 0)
        documents, landed, units, tasks = self.documents, self._landed, self.units, self.tasks
        rate = self._rate(now, read if reading else units)
        by_bytes = documents / landed if reading and landed else None
        tokens = self.tokens / landed if reading and landed and self.tokens else None
        left = None
        if rate and reading and size:
            left = max(0, size - read) / rate
        elif rate and tasks > 1:
            left = (tasks - units) / rate
        return Look(
            phase=PHASES.get(self.name, self.name),
            seconds=now - self.began,
            units=units,
            tasks=tasks,
            read=read,
            size=size,
            documents=documents,
            quarantined=self.quarantined,
            byte_rate=rate if reading else None,
            document_rate=rate * by_bytes if rate and by_bytes is not None else None,
            left=left,
            token_rate=rate * tokens if rate and tokens is not None else None,
        )

    def _rate(self, now: float, amount: float) -> float | None:
        """Per second over the newer half of the phase, at least the last minute: a slow start is soon forgotten."""
        marks = self._marks
        if now - marks[-1][0] >= 1.0:
            marks.append((now, amount))
            if len(marks) > 600:
                del marks[1::2]
        since = now - max(RECENT, (now - self.began) / 2)
        first = next((m for m in reversed(marks) if m[0] <= since), marks[0])
        gone = now - first[0]
        return (amount - first[1]) / gone if gone > 0 and amount > first[1] else None


def clock(seconds: float) -> str:
    """``4:10``, ``1:02:03``, ``2 d 04:10:00``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days:,} d {hours:02d}:{minutes:02d}:{rest:02d}"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def amounts(part: int, whole: int) -> str:
    """``512 of 1,130 MB``: two sizes in the unit of the greater."""
    unit, name = next(((u, n) for u, n in ((1e15, "PB"), (1e12, "TB"), (1e10, "GB")) if whole >= u), (1e6, "MB"))
    unit = 1e9 if name == "GB" else unit
    digits = 1 if whole < 100 * unit else 0
    return f"{part / unit:,.{digits}f} of {whole / unit:,.{digits}f} {name}"
