"""Metrics of a run, counted in the driver: for Prometheus through Ray, where the run is on Ray, and as a text file.

Only the driver counts: Ray labels every series with its process, and worker processes are replaced all the time.
"""

from __future__ import annotations

import os
import sys
import time
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from cleanpipe.errors import ConfigError
from cleanpipe.observer import Observer
from cleanpipe_jobs.figures import READING
from cleanpipe_jobs.output import warn

# name: kind, what it says, labels. No gauge: Ray forgets one a few seconds after it was set
SERIES: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "cleanpipe_documents": ("counter", "Documents read and judged", ()),
    "cleanpipe_bytes": ("counter", "Bytes of input read", ()),
    "cleanpipe_quarantined": ("counter", "Records and ranges set aside", ()),
    "cleanpipe_stage_seconds": ("counter", "CPU seconds by stage", ("stage",)),
    "cleanpipe_units": ("counter", "Units of input by how they ended: done, resumed, reused, failed", ("state",)),
    "cleanpipe_units_planned": ("counter", "Units of input of the run", ()),
    "cleanpipe_unit_seconds": ("histogram", "Wall seconds of a unit of input", ()),
}
BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
EVERY = 5.0  # seconds at least between two writings of the text file


class Sink(Protocol):
    """Takes the numbers of SERIES."""

    def add(self, name: str, amount: float, label: str = "") -> None:
        """To a counter."""

    def observe(self, name: str, value: float) -> None:
        """In a histogram."""

    def flush(self, *, force: bool) -> None:
        """Let others see them."""


class Metrics(Observer):
    """Feeds Ray's metrics once Ray is at work in this process, and the text file if one is named.

    Raises:
        ConfigError: the text file cannot be written.
    """

    def __init__(self, file: str | None = None) -> None:
        self._sinks: list[Sink] = [TextFile(Path(file))] if file else []
        self._reading = self._waits = False

    def started(self, units: int, size: int, resumed: int, reused: int) -> None:  # noqa: ARG002
        """The engine is there now: Ray too, if it is the engine."""
        ray = sys.modules.get("ray")
        if ray is not None and ray.is_initialized():
            self._sinks.append(RayMetrics())
        for sink in self._sinks:
            sink.add("cleanpipe_units_planned", units + resumed + reused)
        for state, count in (("done", 0), ("failed", 0), ("resumed", resumed), ("reused", reused)):
            self._add("cleanpipe_units", count, state)

    def phase(self, name: str, tasks: int) -> None:  # noqa: ARG002
        """Units are counted where they are read."""
        self._settle("failed")
        self._reading = name in READING
        self._flush(force=True)

    def finished(self, label: str, documents: int, alive: int) -> None:  # noqa: ARG002
        """A unit ended; if it did well, ``result`` follows."""
        self._settle("failed")
        self._waits = self._reading

    def result(self, kind: str, label: str, key: str, facts: Mapping[str, Any]) -> None:  # noqa: ARG002
        """What it counted."""
        self._settle("failed" if facts.get("failed") else "done")
        for stage, seconds in dict(facts.get("stage_seconds") or {}).items():
            self._add("cleanpipe_stage_seconds", seconds, stage)
        if kind in ("pass", "encode"):
            self._add("cleanpipe_quarantined", facts.get("quarantined", 0))
        if kind in ("pass", "encode") and self._reading:
            self._add("cleanpipe_documents", facts.get("documents", 0))
            self._add("cleanpipe_bytes", facts.get("bytes", 0))
            if facts.get("wall_seconds") is not None:
                for sink in self._sinks:
                    sink.observe("cleanpipe_unit_seconds", facts["wall_seconds"])
        self._flush(force=False)

    def close(self, error: BaseException | None = None) -> None:  # noqa: ARG002
        """The last figures."""
        self._settle("failed")
        self._sinks = [s for s in self._sinks if isinstance(s, TextFile)]  # Ray may have ended
        self._flush(force=True)

    def _settle(self, state: str) -> None:
        if self._waits:
            self._add("cleanpipe_units", 1, state)
        self._waits = False

    def _add(self, name: str, amount: float, label: str = "") -> None:
        for sink in self._sinks:
            sink.add(name, amount, label)

    def _flush(self, *, force: bool) -> None:
        for sink in self._sinks:
            sink.flush(force=force)


class RayMetrics:
    """Shown as ``ray_cleanpipe_…`` on the metrics port of the driver's node, about ten seconds later."""

    def __init__(self) -> None:
        from ray.util import metrics

        self._made: dict[str, Any] = {}
        for name, (kind, said, labels) in SERIES.items():
            if kind == "histogram":
                self._made[name] = metrics.Histogram(name, said, boundaries=list(BOUNDS), tag_keys=labels)
            else:
                self._made[name] = metrics.Counter(name, said, tag_keys=labels)

    def add(self, name: str, amount: float, label: str = "") -> None:
        """Ray takes no zero."""
        if amount > 0:
            labels = SERIES[name][2]
            self._made[name].inc(amount, tags={labels[0]: label} if labels else None)

    def observe(self, name: str, value: float) -> None:
        """Observed."""
        self._made[name].observe(value)

    def flush(self, *, force: bool) -> None:
        """Ray collects them itself."""


class TextFile:
    """The file of a node exporter's textfile collector: whole at every moment, since it is renamed into place."""

    def __init__(self, path: Path) -> None:
        self.path, self._last, self._broken = path, 0.0, False
        self._values: dict[tuple[str, str], float] = {
            (name, ""): 0.0 for name, (kind, _, labels) in SERIES.items() if kind != "histogram" and not labels
        }
        self._counts = {n: [0] * (len(BOUNDS) + 1) for n, s in SERIES.items() if s[0] == "histogram"}
        self._sums = dict.fromkeys(self._counts, 0.0)
        try:
            self._write()
        except OSError as error:
            raise ConfigError(f"--metrics {path} cannot be written: {error.strerror or error}") from error

    def add(self, name: str, amount: float, label: str = "") -> None:
        """Added."""
        self._values[name, label] = self._values.get((name, label), 0.0) + amount

    def observe(self, name: str, value: float) -> None:
        """Counted in its bucket."""
        self._counts[name][bisect_left(BOUNDS, value)] += 1
        self._sums[name] += value

    def flush(self, *, force: bool) -> None:
        """Written, if it was not just now; a file that cannot be written is told once and costs nothing else."""
        now = time.monotonic()
        if not force and now - self._last < EVERY:
            return
        self._last = now
        try:
            self._write()
        except OSError as error:
            if not self._broken:
                warn(f"warning: --metrics {self.path} is not written: {error.strerror or error}")
            self._broken = True

    def _write(self) -> None:
        beside = self.path.with_name(f".{self.path.name}.{os.getpid()}")  # no *.prom: not collected
        beside.write_text(self.text(), encoding="utf-8")
        beside.replace(self.path)

    def text(self) -> str:
        """In Prometheus' text format."""
        out = []
        for name, (kind, said, labels) in SERIES.items():
            shown = f"{name}_total" if kind == "counter" else name
            out += [f"# HELP {shown} {said}", f"# TYPE {shown} {kind}"]
            if kind == "histogram":
                below = 0
                for bound, count in zip([*map(_number, BOUNDS), "+Inf"], self._counts[name], strict=True):
                    below += count
                    out.append(f'{shown}_bucket{{le="{bound}"}} {below}')
                out += [f"{shown}_sum {_number(self._sums[name])}", f"{shown}_count {below}"]
            for (of, label), value in sorted(self._values.items()):
                if of == name:
                    tag = f'{{{labels[0]}="{_escaped(label)}"}}' if labels else ""
                    out.append(f"{shown}{tag} {_number(value)}")
        return "\n".join(out) + "\n"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(round(value, 6))


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
