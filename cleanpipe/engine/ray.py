"""Ray tasks: the only file of the core that imports ray. One task is one unit; it writes its outputs itself and returns
a small dict, so nothing passes through the object store. The driver keeps a bounded window of tasks in flight.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from cleanpipe.engine.base import Context, Engine, Result, Task
from cleanpipe.engine.perform import perform
from cleanpipe.errors import CleanpipeError, ConfigError, ShardError

MAX_CALLS = 50  # a worker process is replaced after so many tasks: parsers leak
RETRIES = 2


class RayEngine(Engine):
    """Uses the cluster of RAY_ADDRESS, else a Ray of its own on this machine with ``workers`` processors."""

    name = "ray"

    def __init__(self, context: Context, workers: int) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # never left to Ray's changing default
        os.environ.setdefault("RAY_task_oom_retries", "1")  # endless by default
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            import ray
        except ImportError as error:
            raise ConfigError("the ray engine needs Ray: pip install 'cleanpipe[ray]'") from error
        self._ray: Any = ray
        self._own = not ray.is_initialized()
        if self._own:
            options: dict[str, Any] = {"log_to_driver": False, "configure_logging": True, "logging_level": "error"}
            if not os.environ.get("RAY_ADDRESS"):
                options |= {"num_cpus": max(1, workers), "include_dashboard": False, "object_store_memory": 80 << 20}
            ray.init(**options)
        self._context = ray.put(context)
        self._remote = ray.remote(num_cpus=1, max_calls=MAX_CALLS, max_retries=RETRIES)(_perform)

    def run(
        self, tasks: Iterable[Task], progress: Callable[[Task, int], None]
    ) -> Iterator[tuple[Task, Result | ShardError]]:
        """Largest first; at most twice as many in flight as there are slots."""
        todo = deque(sorted(tasks, key=lambda t: (-t.weight, t.label)))
        flying: dict[Any, Task] = {}
        while todo or flying:
            slots = max(1, int(self._ray.cluster_resources().get("CPU", 1)))
            while todo and len(flying) < 2 * slots:
                task = todo.popleft()
                flying[self._remote.remote(self._context, task)] = task
            ready, _ = self._ray.wait(list(flying), num_returns=1, fetch_local=False)
            for ref in ready:
                task = flying.pop(ref)
                progress(task, task.weight)
                yield task, self._result(ref, task)

    def _result(self, ref: Any, task: Task) -> Result | ShardError:
        errors = self._ray.exceptions
        try:
            kind, value = self._ray.get(ref)
        except errors.OutOfMemoryError:
            return ShardError("Ray ended its worker for want of memory", source=task.label)
        except (errors.WorkerCrashedError, errors.RayTaskError, errors.RayActorError) as error:
            return ShardError(f"its worker died {RETRIES + 1} times: {str(error).splitlines()[0]}", source=task.label)
        if kind == "error" and not isinstance(value, ShardError):
            raise value
        result: Result | ShardError = value
        return result

    def close(self) -> None:
        """Leave Ray if this engine entered it."""
        if self._own:
            self._ray.shutdown()


def _perform(context: Context, task: Task) -> tuple[str, Any]:
    """One task in a Ray worker; our own errors come back as values, whole."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    try:
        return "done", perform(context, task, lambda _: None)
    except CleanpipeError as error:
        return "error", error
