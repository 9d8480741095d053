"""One JSON line for each try of a task, where ``CLEANPIPE_TASK_LOG`` asks for it: "stderr", or the path of a file. On a
cluster the lines are written where the task runs, so they lie in that worker's own log.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cleanpipe.engine.base import Context, Result, Task

VARIABLE = "CLEANPIPE_TASK_LOG"


def log_try(
    context: Context, task: Task, *, tries: int, pid: int, seconds: float, result: Result | None, error: str | None
) -> None:
    """Write the line of one try.

    Args:
        tries: of this task so far, this one included.
        pid: the process that did the work.
        seconds: wall-clock time of the try.
        result: what the task reported; None where it did not end well.
        error: what it ended with; None where it ended well.
    """
    target = os.environ.get(VARIABLE)
    if not target:
        return
    facts = result or {}
    line: dict[str, Any] = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "run": context.run_id,
        "kind": task.kind,
        "label": task.label,
        "key": task.key,
        "host": platform.node(),
        "pid": pid,
        "seconds": round(seconds, 3),
        "cpu_seconds": round(facts["cpu_seconds"], 3) if "cpu_seconds" in facts else None,
        "documents": facts.get("entered"),
        "tries": tries,
        "error": error,
    }
    text = json.dumps(line, ensure_ascii=True) + "\n"
    with suppress(OSError, ValueError):  # a log that cannot be written costs no unit
        if target == "stderr":
            sys.stderr.write(text)
            sys.stderr.flush()
        else:
            with Path(target).open("a", encoding="ascii") as file:  # one write of a whole line
                file.write(text)
