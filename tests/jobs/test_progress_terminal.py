"""Progress on a real pseudo-terminal, seen through the eyes of a terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

PROGRAM = """
import sys, time
from cleanpipe_jobs.progress import Console
console = Console(quiet=False)
try:
    console.started(10, 640_000_000, 0, 0)
    console.phase("read", 10)
    for i in range(10):
        for part in range(8):
            time.sleep(0.02)
            console.progress(f"u{i}", part * 8_000_000)
        console.finished(f"u{i}", 1000, 900)
        console.result("pass", f"u{i}", "k", {"bytes": 64_000_000, "quarantined": i % 2})
        if i == 1:
            console.warn("one.warc.gz: the file [does] not :end: " + "-".join(["record"] * 16))
            sys.stdout.write("a result\\n"); sys.stdout.flush()
except KeyboardInterrupt as error:
    console.close(error)
    print("cleanpipe: stopped by SIGINT", file=sys.stderr)
    sys.exit(130)
console.close()
print("the end", file=sys.stderr)
"""


class Screen:
    """As much of a terminal as progress needs: text, line ends, cursor up, erased lines; it wraps like one."""

    def __init__(self, width):
        self.width, self.rows, self.y, self.x, self.wrapped, self.cursor = width, [[]], 0, 0, 0, True

    def feed(self, data):
        for word in re.findall(r"\x1b\[[?0-9;]*[A-Za-z]|.", data, re.DOTALL):
            if word == "\r":
                self.x = 0
            elif word == "\n":
                self._down()
            elif word.startswith("\x1b"):
                self._order(word)
            else:
                if self.x >= self.width:
                    self.wrapped += 1
                    self._down()
                    self.x = 0
                row = self.rows[self.y]
                row += [" "] * (self.x + 1 - len(row))
                row[self.x] = word
                self.x += 1

    def _down(self):
        self.y += 1
        if self.y == len(self.rows):
            self.rows.append([])

    def _order(self, word):
        number = int(re.sub(r"\D", "", word) or 0)
        if word[-1] == "A":
            self.y = max(0, self.y - (number or 1))
        elif word[-1] == "K":
            self.rows[self.y] = []
        elif word in ("\x1b[?25l", "\x1b[?25h"):
            self.cursor = word[-1] == "h"
        elif word[-1] != "m":
            raise AssertionError(f"an order that this screen does not know: {word!r}")

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.rows).strip("\n")


def run(width, seconds=None, stop=None, **env):
    """The program on a terminal: what was shown after ``seconds`` and at the end, all bytes, its status."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": "", **env}
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
        if not environment.get(name):
            environment.pop(name, None)
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    data, began, seen, sent = b"", time.monotonic(), "", False
    while time.monotonic() - began < 60:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # Linux says so at the end
                break
            if not part:
                break
            data += part
        if not sent and seconds is not None and time.monotonic() - began > seconds:
            screen = Screen(width)
            screen.feed(data.decode("utf-8", "ignore"))
            seen = screen.text()
            sent = "of 10 units" in seen.splitlines()[-1] and "a result" in seen  # not in the middle of a renewal
            if sent and stop:
                os.killpg(child.pid, stop)
    child.wait(30)
    os.close(ours)
    screen = Screen(width)
    screen.feed(data.decode())
    return seen, screen, data, child.returncode


WARNING = "warning: one.warc.gz: the file [does] not :end: " + "-".join(["record"] * 16)


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 80, 120])
def test_two_lines_renew_themselves_and_vanish(width):
    seen, screen, _, status = run(width, seconds=0.9)
    assert status == 0
    at = [line for line in seen.splitlines() if line.startswith("reading and judging")]
    assert len(at) == 1
    assert "of 10 units" in seen.splitlines()[-1]
    assert screen.cursor
    shown = screen.text().replace("\n", "")
    assert shown == (WARNING + "a resultthe end").replace("\n", "")
    assert screen.wrapped == len(WARNING.rstrip()) // width  # the warning may wrap, the picture never does


@pytest.mark.slow
def test_ctrl_c_leaves_a_clean_terminal():
    seen, screen, _, status = run(80, seconds=0.6, stop=signal.SIGINT)
    assert "reading and judging" in seen
    assert status == 130
    assert screen.text().splitlines()[-1] == "cleanpipe: stopped by SIGINT"
    assert "reading and judging" not in screen.text()
    assert screen.cursor


@pytest.mark.slow
def test_a_killed_run_leaves_the_cursor_there():
    _, screen, _, status = run(80, seconds=0.6, stop=signal.SIGKILL)
    assert status == -signal.SIGKILL
    assert screen.cursor


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("TERM", "")])
def test_a_dumb_terminal_gets_no_orders(name, value):
    _, screen, data, status = run(80, **{name: value})
    assert status == 0
    assert b"\x1b" not in data
    assert screen.text().endswith("the end")


@pytest.mark.slow
def test_no_color():
    _, _, data, _ = run(80, NO_COLOR="1")
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", data)
    assert b"reading and judging" in data
