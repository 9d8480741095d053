"""Tasks over units, in this process or in several. Results come in any order; what is made of them does not show it."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, resource_tracker
from typing import Any

from cleanpipe.corpus.files import Unit
from cleanpipe.errors import StopError

Work = Callable[[Unit, Any], dict[str, Any]]


def run_tasks(
    work: Work, tasks: Sequence[tuple[Unit, Any]], workers: int
) -> Iterator[tuple[Unit, dict[str, Any] | BaseException]]:
    """What ``work`` makes of each task, or the error in its place. A worker that dies costs the unit that killed it."""
    if workers <= 1 or len(tasks) <= 1:
        for unit, given in tasks:
            yield unit, _one(work, unit, given)
        return
    suspects: list[tuple[Unit, Any]] = []
    with _signals_later() as due:
        with _pool(min(workers, len(tasks))) as pool:
            for unit, given, result in _through(pool, work, tasks, workers, due):
                if isinstance(result, BrokenProcessPool):
                    suspects.append((unit, given))
                else:
                    yield unit, result
        for task in suspects:  # the one that kills a process, and those that only stood beside it: one by one
            with _pool(1) as pool:
                for unit, _, result in _through(pool, work, [task], 1, due):
                    yield unit, StopError("a worker died on it") if isinstance(result, BrokenProcessPool) else result
        due()


@contextmanager
def _signals_later() -> Iterator[Callable[[], None]]:
    """Hold back SIGINT and SIGTERM until the function that it gives is called.

    An exception that a signal raises anywhere, as in the midst of the start of a process, can leave that process
    behind, or is lost where Python lets none out (a finaliser).
    """
    came: list[int] = []
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {n: handler for n in _ENDS if callable(handler := signal.getsignal(n))}  # what is ignored stays so

    def due() -> None:
        while came:
            number = came.pop(0)
            before[number](number, None)

    for number in before:
        signal.signal(number, lambda n, _frame: came.append(n))
    try:
        yield due
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_ENDS = (signal.SIGINT, signal.SIGTERM)
_LOOK = 0.2  # seconds between two looks for a signal


def _submit(pool: ProcessPoolExecutor, work: Work, task: tuple[Unit, Any]) -> Future[Any]:
    """A process that this starts sees no interrupt of its own before ``_begin``: the terminal sends it to all."""
    resource_tracker.ensure_running()  # its start would let signals through
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(_one, work, *task)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end at once when this one is told to."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(os.getpid(),))
    try:
        yield pool
    except BaseException:
        processes = list((getattr(pool, "_processes", None) or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    pool.shutdown()


def _begin(parent: int) -> None:
    """In a worker: an interrupt is the parent's to handle, and without a parent there is nothing to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


def _one(work: Work, unit: Unit, given: Any) -> dict[str, Any] | BaseException:
    try:
        return work(unit, given)
    except Exception as error:  # said where the unit's name is known
        return error


def _through(
    pool: ProcessPoolExecutor, work: Work, tasks: Sequence[tuple[Unit, Any]], workers: int, due: Callable[[], None]
) -> Iterator[tuple[Unit, Any, Any]]:
    waiting = iter(tasks)
    running: dict[Future[Any], tuple[Unit, Any]] = {}

    def more() -> None:
        while len(running) < 2 * workers:
            task = next(waiting, None)
            if task is None:
                return
            try:
                running[_submit(pool, work, task)] = task
            except BrokenProcessPool as error:
                broken: Future[Any] = Future()
                broken.set_exception(error)
                running[broken] = task

    more()
    while running:
        done, _ = wait(running, timeout=_LOOK, return_when=FIRST_COMPLETED)
        due()
        for future in done:
            unit, given = running.pop(future)
            error = future.exception()
            yield unit, given, error if error is not None else future.result()
        more()
