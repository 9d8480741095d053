"""What a run tells while it runs. The base class is silent; the command line shows figures, logs and feeds metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class Observer:
    """Called by the driver, in its process and thread."""

    def begun(self, run_id: str, facts: Mapping[str, Any]) -> None:
        """Names a start of the run, before all else. facts: ``recipe``, ``out``, ``engine``, ``workers``,
        ``inputs`` (their number); what is not known is absent.
        """

    def started(self, units: int, size: int, resumed: int, reused: int) -> None:
        """Work begins: units (parts of inputs) and bytes still to read; units that were done before, and taken over."""

    def phase(self, name: str, tasks: int) -> None:
        """A phase of so many tasks begins: "read", "meet", "window", "publish"; of tokens "prove", "wait",
        "map", "encode", "join".
        """

    def progress(self, label: str, done: int) -> None:
        """So many bytes of this input are consumed."""

    def finished(self, label: str, documents: int, alive: int) -> None:
        """One task ended; documents that entered and that came through."""

    def result(self, kind: str, label: str, key: str, facts: Mapping[str, Any]) -> None:
        """What one finished task reports. kind: "pass", "shard", "ledger", "encode". facts: ``documents`` that entered,
        ``rows`` out, ``bytes`` of input, ``quarantined``, ``cpu_seconds``, ``wall_seconds``, ``peak_memory_bytes``,
        ``stage_seconds`` {stage: CPU seconds}, ``host``, ``tries``; what does not apply is absent. Called after
        ``finished``.
        """

    def warn(self, message: str) -> None:
        """Something a person should know now."""

    def close(self, error: BaseException | None = None) -> None:
        """The run is over, with what ended it early; called once, by whoever made the observer."""


class Several(Observer):
    """Tells each of them everything, in order."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self.observers = tuple(observers)

    def begun(self, run_id: str, facts: Mapping[str, Any]) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.begun(run_id, facts)

    def started(self, units: int, size: int, resumed: int, reused: int) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.started(units, size, resumed, reused)

    def phase(self, name: str, tasks: int) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.phase(name, tasks)

    def progress(self, label: str, done: int) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.progress(label, done)

    def finished(self, label: str, documents: int, alive: int) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.finished(label, documents, alive)

    def result(self, kind: str, label: str, key: str, facts: Mapping[str, Any]) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.result(kind, label, key, facts)

    def warn(self, message: str) -> None:
        """Passed on."""
        for observer in self.observers:
            observer.warn(message)

    def close(self, error: BaseException | None = None) -> None:
        """Passed on, the last one first; each is closed whatever another does."""
        failure: BaseException | None = None
        for observer in reversed(self.observers):
            try:
                observer.close(error)
            except BaseException as caught:  # the others are closed before it goes on
                failure = failure or caught
        if failure is not None:
            raise failure
