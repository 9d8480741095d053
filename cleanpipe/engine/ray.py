"""Ray tasks: one task is one unit; it writes its outputs itself and returns a small dict, so nothing passes through the
object store. The driver keeps a bounded window of tasks in flight.

A task does its unit in a process under a guard, as the local engine does, so a crash, an endless page or one that eats
memory is dealt with where it happens. What Ray loses (a worker, a node) is submitted anew from here, each time as a new
attempt: a late first one does no harm. Only this file and ray_connect.py know Ray.
"""

from __future__ import annotations

import os
import pickle
import platform
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from cleanpipe.engine.base import Context, Engine, Result, Task
from cleanpipe.engine.local import LocalEngine, Outcome
from cleanpipe.engine.ray_connect import connect
from cleanpipe.engine.tasklog import VARIABLE
from cleanpipe.errors import CleanpipeError, RetryableError, ShardError, StopError

MAX_CALLS = 50  # a Ray worker is replaced after so many units; one that held a GPU after each, which gives it back
LOSSES = 6  # of one unit: workers and nodes that Ray lost under it
WINDOW = 2  # tasks in flight for each slot
WAIT = 1.0  # seconds between two looks at deadlines and signals
CLUSTER = 5.0  # seconds between two looks at what the cluster has
NOTHING = 1800.0  # seconds without any processor, after which a run stops
FETCH = 60.0  # seconds for a result that is too large to come by itself
MEMORY_SHARE = 4  # a task asks for a quarter of guards.memory: what a worker needs as a rule; the guard is for the rare


@dataclass(slots=True)
class _Flight:
    """A unit on its way. memory: bytes that its next task asks for."""

    task: Task
    memory: int
    losses: int = 0
    deadline: float = 0.0


class RayEngine(Engine):
    """Uses the cluster of RAY_ADDRESS, else a Ray of its own on this machine with ``workers`` processors.

    Raises:
        ConfigError: there is no Ray, or the cluster cannot be entered.
    """

    name = "ray"

    def __init__(self, context: Context, workers: int) -> None:
        self._ray, self._own = connect(workers)
        self._context = pickle.dumps(context)
        self._guards = context.recipe.guards
        self._remote, self._with_gpu = (
            self._ray.remote(num_cpus=1, max_calls=calls, max_retries=0, scheduling_strategy="SPREAD")(_unit)
            for calls in (MAX_CALLS, 1)
        )
        self._looked = self._last_cpu = 0.0
        self._slots, self._largest = 1, 0

    def run(self, tasks: Iterable[Task], progress: Callable[[Task, int], None]) -> Iterator[Outcome]:
        """At most twice as many in flight as there are slots; results as they come."""
        todo = iter(tasks)
        later: list[tuple[float, _Flight]] = []
        flying: dict[Any, _Flight] = {}
        self._last_cpu = time.monotonic()
        try:
            while True:
                self._submit(todo, later, flying)
                if not flying and not later:
                    return
                if not flying:
                    time.sleep(min(WAIT, max(0.0, min(when for when, _ in later) - time.monotonic())))
                for ref in self._landed(flying):
                    flight = flying.pop(ref)
                    outcome = self._outcome(ref, flight, later)
                    if outcome is not None:
                        progress(flight.task, flight.task.weight)
                        yield flight.task, outcome
                for flight, error in self._overdue(flying, later):
                    yield flight.task, error
        finally:
            if not self._own:  # else leaving the cluster ends them
                for ref in flying:
                    with suppress(Exception):
                        self._ray.cancel(ref, force=True)

    def _submit(self, todo: Iterator[Task], later: list[tuple[float, _Flight]], flying: dict[Any, _Flight]) -> None:
        now = time.monotonic()
        self._look(now)
        while len(flying) < WINDOW * self._slots:
            due = next((entry for entry in later if entry[0] <= now), None)
            if due is not None:
                later.remove(due)
                flight = due[1]
            else:
                task = next(todo, None)
                if task is None:
                    return
                flight = _Flight(task, self._guards.memory // MEMORY_SHARE)
            flight.deadline = now + self._guards.unit_seconds
            memory = min(flight.memory, self._largest or flight.memory)
            gpus = flight.task.gpus
            remote = (
                self._with_gpu.options(memory=memory, num_gpus=gpus) if gpus else self._remote.options(memory=memory)
            )
            log = os.environ.get(VARIABLE, "")
            flying[remote.remote(self._context, pickle.dumps(flight.task), log)] = flight

    def _look(self, now: float) -> None:
        """How many tasks can run at a time, and the memory of the largest node."""
        if now - self._looked < CLUSTER and self._looked:
            return
        self._looked = now
        nodes = [n["Resources"] for n in self._ray.nodes() if n["Alive"] and n["Resources"].get("CPU", 0) >= 1]
        self._largest = int(max((n.get("memory", 0) for n in nodes), default=0))
        memory = max(1, min(self._guards.memory // MEMORY_SHARE, self._largest or 1))
        self._slots = max(1, sum(int(min(n["CPU"], n.get("memory", 0) // memory)) for n in nodes))
        if nodes:
            self._last_cpu = now
        elif now - self._last_cpu > NOTHING:
            raise StopError(f"the cluster has had no processor for {NOTHING / 60:.0f} minutes; add a worker node")

    def _landed(self, flying: dict[Any, _Flight]) -> list[Any]:
        if not flying:
            return []
        refs = list(flying)
        with _signals():
            ready, _ = self._ray.wait(refs, num_returns=1, timeout=WAIT, fetch_local=False)
            if ready:  # and whatever else came in the meantime
                ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)
        return list(ready)

    def _outcome(self, ref: Any, flight: _Flight, later: list[tuple[float, _Flight]]) -> Result | ShardError | None:
        """What its task came to; None if Ray lost it and it is submitted again.

        Raises:
            StopError, ConfigError, StageContractError, RuntimeError: the run cannot go on.
        """
        errors = self._ray.exceptions
        try:
            with _signals():
                answer = pickle.loads(zlib.decompress(self._ray.get(ref, timeout=FETCH)))  # noqa: S301  from our own task
        except errors.RuntimeEnvSetupError as error:
            raise StopError(f"Ray cannot set up what a task needs: {_first(error)}") from error
        except errors.OutOfMemoryError as error:
            flight.memory *= 2  # fewer at a time on one node
            return self._lost(flight, _first(error), later)
        except errors.RayTaskError as error:  # not ours: those come back as values
            outcome = self._lost(flight, _first(error), later)
            if outcome is not None:
                raise StopError(f"tasks cannot run on this cluster: {str(error).strip().splitlines()[-1]}") from error
            return outcome
        except errors.RayError as error:
            return self._lost(flight, _first(error), later)
        if isinstance(answer, Exception) and not isinstance(answer, ShardError):
            raise answer
        result: Result | ShardError = answer
        if isinstance(result, dict) and flight.losses:
            result["tries"] = result.get("tries", 1) + flight.losses
        return result

    def _lost(self, flight: _Flight, why: str, later: list[tuple[float, _Flight]]) -> ShardError | None:
        flight.losses += 1
        if flight.losses >= LOSSES:
            return RetryableError(f"Ray lost it {LOSSES} times, the last time: {why}", source=flight.task.label)
        later.append((time.monotonic() + min(30.0, 0.5 * 2**flight.losses), flight))
        return None

    def _overdue(
        self, flying: dict[Any, _Flight], later: list[tuple[float, _Flight]]
    ) -> Iterator[tuple[_Flight, ShardError]]:
        """End what takes too long (Ray's tasks have no time limit), submit it again; its error if that failed too."""
        now = time.monotonic()
        for ref in [r for r, f in flying.items() if f.deadline < now]:
            flight = flying.pop(ref)
            with suppress(Exception):
                self._ray.cancel(ref, force=True)
            error = self._lost(flight, f"no result within {self._guards.unit_seconds:g} s", later)
            if error is not None:
                yield flight, error

    def close(self) -> None:
        """Leave Ray if this engine entered it."""
        if self._own:
            self._ray.shutdown()


@contextmanager
def _signals() -> Iterator[None]:
    """What a signal handler raises while Ray waits comes out of Ray as the cause of a SystemError."""
    try:
        yield
    except SystemError as error:
        raise error.__cause__ or error from None


def _first(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0]}" if text else type(error).__name__


_held: dict[bytes, LocalEngine] = {}  # of this Ray worker: the engine of one process that its calls share


def _unit(context: bytes, task: bytes, log: str) -> bytes:
    """One task in a Ray worker. Returns, packed: a result, or the error; our own errors come back as values, whole.

    log: the driver's CLEANPIPE_TASK_LOG, for a worker that has none.
    """
    answer: Result | Exception
    os.environ.setdefault(VARIABLE, log)
    try:
        if context not in _held:
            for engine in _held.values():
                engine.close()
            _held.clear()
            _held[context] = LocalEngine(pickle.loads(context), 1)  # noqa: S301  from our own driver
        ((_, answer),) = _held[context].run([pickle.loads(task)], _silent)  # noqa: S301
    except CleanpipeError as error:
        answer = error
    except ImportError as error:
        answer = StopError(f"{platform.node()} lacks what the driver has ({error}): use one image for all nodes")
    except Exception as error:
        answer = RuntimeError(f"{type(error).__name__}: {error}")
    return zlib.compress(pickle.dumps(answer), 1)


def _silent(_task: Task, _done: int) -> None:
    """Progress stays in the worker: the driver hears of whole units."""
