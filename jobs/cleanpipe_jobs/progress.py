"""Progress on standard error: two lines that renew themselves on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from cleanpipe.observer import Observer
from cleanpipe_jobs.figures import Figures, Look
from cleanpipe_jobs.output import scrubbed, warn

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderResult

EVERY, SELDOM, SLOWER = 10.0, 60.0, 1.3  # seconds to the first plain line; at most between two; growth of the pause
BAR = 40  # columns at most


class Display(Protocol):
    """A way to show figures until it is closed."""

    def say(self, text: str) -> None:
        """A line that stays."""

    def close(self) -> None:
        """Nothing more is shown; a second time is no error."""


class Console(Observer):
    """Shows how far the run is. quiet: nothing but warnings."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet, self.figures = quiet, Figures()
        self.display: Display | None = None

    def started(self, units: int, size: int, resumed: int, reused: int) -> None:
        """What is there already is told in a line of its own."""
        self.figures.started(units, size, resumed, reused)
        whole = units + resumed + reused
        for n, what in ((resumed, "done before"), (reused, "taken over")):
            if n and not self.quiet:
                self._say(f"{n:,} of {whole:,} unit{'s' * (whole != 1)} {'was' if n == 1 else 'were'} {what}")

    def phase(self, name: str, tasks: int) -> None:
        """A new phase; the first one begins the display."""
        self.figures.phase(name, tasks)
        if self.display is None and not self.quiet:
            self.display = _live(self.figures) or Lines(self.figures)

    def progress(self, label: str, done: int) -> None:
        """Bytes of one unit consumed."""
        self.figures.progress(label, done)

    def finished(self, label: str, documents: int, alive: int) -> None:
        """One task more."""
        self.figures.finished(label, documents, alive)

    def result(self, kind: str, label: str, key: str, facts: Mapping[str, Any]) -> None:
        """What it counted."""
        self.figures.result(kind, label, key, facts)

    def warn(self, message: str) -> None:
        """A line of its own."""
        self._say(f"warning: {message}")

    def _say(self, text: str) -> None:
        if self.display is None:
            warn(text)
        else:
            self.display.say(scrubbed(text))

    def close(self, error: BaseException | None = None) -> None:  # noqa: ARG002  # the caller tells it
        """Leaves the terminal as it was."""
        if self.display is not None:
            self.display.close()


class Lines:
    """A plain line every ten seconds, later every minute; a run shorter than that shows none."""

    def __init__(self, figures: Figures) -> None:
        self._figures, self._end = figures, threading.Event()
        threading.Thread(target=self._tell, name="progress", daemon=True).start()

    def _tell(self) -> None:
        pause = EVERY
        while not self._end.wait(pause):
            warn(line(self._figures.look()))
            pause = min(SELDOM, pause * SLOWER)

    def say(self, text: str) -> None:
        """Printed."""
        warn(text)

    def close(self) -> None:
        """No more lines."""
        self._end.set()


def line(look: Look) -> str:
    """All figures in one line, with the time of day: such lines lie in log files."""
    share = look.share
    figures = [*([f"{share:.0%}"] if share is not None else []), *look.words(), look.time_left()]
    return f"{time.strftime('%H:%M:%S')} {look.phase}: {', '.join(figures)}"


class Picture:
    """The figures as lines of a width: what does not fit is left out, never wrapped."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        """Rich's way to ask for lines."""
        from rich.text import Text

        look, width = self._figures.look(), max(1, options.max_width - 1)  # some terminals wrap in the last column
        first = Text(no_wrap=True).append(look.phase, "bold")
        share = look.share
        end = (f"  {share:4.0%}" if share is not None else "") + f"  {look.time_left()}"
        room = min(BAR, width - len(look.phase) - len(end) - 2)
        if share is not None and room >= 5:
            done = int(share * room)
            full, empty = ("#", "-") if options.ascii_only else ("━", "─")
            first.append("  ").append(full * done, "green").append(empty * (room - done), "dim")
        first.append(end)
        words = look.words()
        while len(words) > 1 and sum(len(w) + 3 for w in words) - 3 > width:
            words.pop()
        second = Text(no_wrap=True)
        for word in words:
            style = "yellow" if word.endswith("quarantined") else ""
            second.append("   " if second else "").append(word, style)
        for text in (first, second) if words else (first,):
            text.truncate(width, overflow="crop")
            yield text


class LivePicture:
    """The picture, renewed four times a second by a thread of rich."""

    def __init__(self, figures: Figures, console: RichConsole) -> None:
        from rich.live import Live

        self._console = console
        self._live = Live(
            Picture(figures),
            console=console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # it may be a pipe, which gets what is printed and no more
            vertical_overflow="crop",
        )
        self._live.start()
        console.show_cursor(True)  # a process that is killed or suspended leaves the cursor as it is

    def say(self, text: str) -> None:
        """Printed above the picture."""
        self._console.print(text, soft_wrap=True)

    def close(self) -> None:
        """Wiped away."""
        self._live.stop()


def _live(figures: Figures) -> LivePicture | None:
    """A picture, if standard error is a terminal that can show one."""
    if not sys.stderr.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown", ""):
        return None
    try:
        from rich.console import Console as RichConsole
    except ImportError:  # code that travels without its packages
        return None
    console = RichConsole(stderr=True, highlight=False, markup=False, emoji=False)
    return LivePicture(figures, console) if console.is_terminal and console.is_interactive else None
