"""Worker processes on this machine, each under a guard: the death of one is seen, named, and costs no other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cleanpipe.engine.attempts import KILLED, Attempts, Death
from cleanpipe.engine.base import Context, Engine, Result, Task
from cleanpipe.engine.guard import POLL, Guard, wait
from cleanpipe.engine.tasklog import log_try
from cleanpipe.errors import RetryableError, ShardError, StopError

Outcome = tuple[Task, Result | ShardError]
UNBORN = 3  # workers in a row that fail before they are ready: then the fault is the installation's
UNBORN_KILLED = 50  # the same of workers that somebody kills
PAUSE = 1.0  # seconds before a unit is tried again that met a fault which may pass


class _Post:
    """A guard and the task whose tries it makes now."""

    def __init__(self, context: Context) -> None:
        self.guard = Guard(context)
        self.attempts: Attempts | None = None
        self.began, self.pid = 0.0, 0

    def give(self, attempts: Attempts) -> None:
        self.attempts, self.began = attempts, time.monotonic()
        self.guard.give(attempts.task)
        self.pid = self.guard.pid


class LocalEngine(Engine):
    """``workers`` processes (cleanpipe.engine.worker), kept to the end of the run and replaced as they die."""

    name = "local"

    def __init__(self, context: Context, workers: int) -> None:
        self.context, self.count = context, max(1, workers)
        self._posts: list[_Post] = []
        self._unborn = 0

    def run(self, tasks: Iterable[Task], progress: Callable[[Task, int], None]) -> Iterator[Outcome]:
        """Results as they come; ``tries`` and ``condemned`` ({doc_id in hex: [error, message]}) are among each."""
        todo = iter(tasks)
        later: list[tuple[float, Attempts]] = []  # when, what
        try:
            while True:
                self._feed(todo, later)
                busy = [p for p in self._posts if p.attempts]
                if not busy and not later:
                    return
                wait((p.guard for p in busy), POLL)
                for post in busy:
                    for kind, value in post.guard.poll():
                        attempts = post.attempts
                        assert attempts is not None
                        if kind == "ready":
                            self._unborn = 0
                        elif kind == "consumed":
                            progress(attempts.given, value)
                        elif (outcome := self._ended(post, attempts, kind, value, later)) is not None:
                            yield attempts.given, outcome
        finally:
            for post in self._posts:
                if post.attempts:
                    post.guard.end()
                    post.attempts = None

    def _feed(self, todo: Iterator[Task], later: list[tuple[float, Attempts]]) -> None:
        while True:
            idle = next((p for p in self._posts if p.attempts is None), None)
            if idle is None and len(self._posts) >= self.count:
                return
            attempts = self._next(todo, later)
            if attempts is None:
                return
            if idle is None:
                idle = _Post(self.context)
                self._posts.append(idle)
            idle.give(attempts)

    def _next(self, todo: Iterator[Task], later: list[tuple[float, Attempts]]) -> Attempts | None:
        now = time.monotonic()
        for entry in later:
            if entry[0] <= now:
                later.remove(entry)
                return entry[1]
        task = next(todo, None)
        return None if task is None else Attempts(task)

    def _ended(
        self, post: _Post, attempts: Attempts, kind: str, value: Any, later: list[tuple[float, Attempts]]
    ) -> Result | ShardError | None:
        """What one try came to: a result, the error that its unit ends with, or None: there will be another try.

        Raises:
            StopError, ConfigError, StageContractError, RuntimeError: the run cannot go on.
        """
        tries, began, pid = attempts.tries, post.began, post.pid
        post.attempts = None
        outcome: Result | ShardError | None
        if kind == "done":
            outcome, said = value | attempts.facts(), None
        elif kind == "died":
            outcome, said = self._died(post, attempts, value), value.cause.text
        elif isinstance(value, RetryableError):
            outcome, said = attempts.refused(value), str(value)
            if outcome is None:
                later.append((time.monotonic() + PAUSE, attempts))
                post.guard.end()  # a fresh process: the fault may have been in this one
        else:
            outcome, said = value, str(value)
        log_try(
            self.context,
            attempts.given,
            tries=tries,
            pid=pid,
            seconds=time.monotonic() - began,
            result=outcome if isinstance(outcome, dict) else None,
            error=said,
        )
        if isinstance(outcome, Exception) and not isinstance(outcome, ShardError):
            raise outcome
        return outcome

    def _died(self, post: _Post, attempts: Attempts, death: Death) -> ShardError | None:
        if not death.ready:  # its unit had no part in it
            self._unborn += 1
            if self._unborn >= (UNBORN_KILLED if death.cause.error == KILLED else UNBORN):
                words = death.cause.trace.rpartition("\n")[2]
                why = f"{death.cause.text}; {words}" if words else death.cause.text
                raise StopError(f"{self._unborn} worker processes in a row could not start ({why})")
            error = None
        else:
            error = attempts.died(death)
        if error is None:
            post.give(attempts)
        return error

    def close(self) -> None:
        """End the workers, at once."""
        for post in self._posts:
            post.guard.end()
        self._posts.clear()
