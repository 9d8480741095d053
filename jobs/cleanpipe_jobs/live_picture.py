"""The picture of ``cleanpipe watch`` on a terminal: some lines that renew themselves, and the funnel below them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from cleanpipe.queries.standing import NOBODY, WAITING, Standing
from cleanpipe_jobs import live_words as words
from cleanpipe_jobs.progress import BAR


class Picture:
    """Shows the last standing until it is closed."""

    def __init__(self, console: Console) -> None:
        self._standing: Standing | None = None
        self._live = Live(self, console=console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._live.start()
        self._console = console
        console.show_cursor(True)  # a process that is killed leaves the cursor as it is

    @classmethod
    def on_terminal(cls) -> Picture | None:
        """A picture on standard output, if that can show one."""
        console = Console(highlight=False, markup=False, emoji=False)
        return cls(console) if console.is_terminal and console.is_interactive else None

    def show(self, standing: Standing) -> None:
        """Put a standing in place of the last."""
        self._standing = standing
        self._live.refresh()

    def renew(self) -> None:
        """Fit it to the window, should that have changed."""
        self._live.refresh()

    def close(self) -> None:
        """Wiped away."""
        self._live.stop()

    def leave(self) -> None:
        """The last picture stays."""
        self._live.transient = False
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich's way to ask for lines."""
        width = max(1, options.max_width - 1)  # some terminals wrap in the last column
        s = self._standing
        if s is None:
            return
        if s.phase == WAITING:
            rows = [Text(words.line(s), "yellow")]
        else:
            rows = [_head(s, width, plain=options.ascii_only)]
            rows += _filled(words.figures(s), width) + _filled(words.documents(s), width, yellow="quarantined")
            if lost := words.losses(s):
                rows.append(_fitted("lost most: ", lost, width))
            rows += _filled(words.machinery(s), width, yellow="no driver" if s.driver == NOBODY else "\0")
            rows.append(Text())
            rows += [Text(line, "bold" if i == 0 else "") for i, line in enumerate(words.table(s, width).splitlines())]
        for row in rows[: max(1, console.height - 1)]:
            row.no_wrap = True
            row.truncate(width, overflow="ellipsis")
            yield row


def _head(s: Standing, width: int, *, plain: bool) -> Text:
    share, left = words.share(s), words.time_left(s)
    end = (f"  {share:4.0%}" if share is not None else "") + (f"  {left}" if left else "")
    head = Text(words.phase(s), "bold")
    room = min(BAR, width - len(head) - len(end) - 2)
    if share is not None and room >= 5:
        done = int(share * room)
        full, empty = ("#", "-") if plain else ("━", "─")
        head.append("  ").append(full * done, "not bold green").append(empty * (room - done), "not bold dim")
    head.append(end, "not bold")
    if len(head) + 3 + len(s.root) <= width:
        head.append(f"   {words.printable(s.root)}", "not bold dim")
    return head


def _filled(parts: Sequence[str], width: int, yellow: str = "\0") -> list[Text]:
    """The parts in as many lines as they need."""
    rows: list[Text] = []
    for part in parts:
        style = "yellow" if yellow in part else ""
        if rows and len(rows[-1]) + 3 + len(part) <= width:
            rows[-1].append("   ").append(part, style)
        else:
            rows.append(Text().append(part, style))
    return rows


def _fitted(head: str, parts: Sequence[str], width: int) -> Text:
    """As many of the parts as one line holds, at least one."""
    line = head + parts[0]
    for part in parts[1:]:
        if len(line) + 2 + len(part) > width:
            break
        line += f", {part}"
    return Text(line)
