"""Progress on standard error: a bar on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import shutil
import sys
import time

from cleanpipe.observer import Observer
from cleanpipe_jobs.output import warn

EVERY = 5.0  # seconds between lines where there is no terminal
PHASES = {
    "read": "reading and judging",
    "meet": "comparing documents",
    "window": "cutting windows",
    "publish": "publishing",
}


class Console(Observer):
    """Shows files, bytes, documents and the time left."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet, self.live = quiet, sys.stderr.isatty()
        self.files = self.size = self.tasks = self.done_tasks = 0
        self.done: dict[str, int] = {}
        self.documents = self.alive = 0
        self.name, self.began, self.last = "", time.monotonic(), 0.0
        self.width = 0

    def started(self, files: int, size: int, resumed: int, reused: int) -> None:
        """Files and bytes still to read; how many were done before."""
        self.files, self.size = files, size
        whole = files + resumed + reused
        for n, what in ((resumed, "done before"), (reused, "taken over")):
            if n and not self.quiet:
                self._line(f"{n:,} of {whole:,} inputs {'was' if n == 1 else 'were'} {what}")

    def phase(self, name: str, tasks: int) -> None:
        """A new phase."""
        self.name, self.tasks, self.done_tasks = PHASES.get(name, name), tasks, 0
        self.began, self.done = time.monotonic(), {}
        self._show(force=self.live)

    def progress(self, label: str, done: int) -> None:
        """Bytes of one input consumed."""
        self.done[label] = done
        self._show()

    def finished(self, label: str, documents: int, alive: int) -> None:
        """One task more."""
        self.done.setdefault(label, 0)
        self.done_tasks += 1
        if self.name == PHASES["read"]:
            self.documents += documents
        self.alive = alive
        self._show()

    def warn(self, message: str) -> None:
        """A line of its own."""
        self._line(f"warning: {message}")

    def close(self) -> None:
        """Remove the bar."""
        if self.live and self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
            self.width = 0

    def _line(self, text: str) -> None:
        self.close()
        warn(text)

    def _show(self, *, force: bool = False) -> None:
        now = time.monotonic()
        if self.quiet or not (force or now - self.last >= (0.2 if self.live else EVERY)):
            return
        if not self.live and not self.last:  # a short run needs no line
            self.last = now
            return
        self.last = now
        text = self._text(now)
        if not self.live:
            warn(text)
            return
        text = text[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)

    def _text(self, now: float) -> str:
        if self.name != PHASES["read"]:
            return f"{self.name}: {self.done_tasks:,} of {self.tasks:,}"
        read = sum(self.done.values())
        share = min(1.0, read / self.size) if self.size > 0 else 0.0
        bar = "█" * int(20 * share) + "░" * (20 - int(20 * share))
        rate = read / max(now - self.began, 1e-9)
        left = (self.size - read) / rate if rate and self.size > read else 0.0
        return (  # what matters most first: a narrow terminal cuts the end
            f"{self.name} {bar} {share:4.0%}, {_clock(left)} left, {read / 1e6:,.0f} of {self.size / 1e6:,.0f} MB, "
            f"{self.done_tasks:,} of {self.files:,} files, {rate / 1e6:,.1f} MB/s, {self.documents:,} records"
        )


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
