"""``cleanpipe watch`` on a real pseudo-terminal, while a run works."""

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

from cleanpipe.run import run


class Screen:
    """As much of a terminal as a picture needs: text, line ends, cursor up, erased lines; it wraps like one."""

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


class Terminal:
    """The command on a terminal of so many columns."""

    def __init__(self, width, *args, height=40, **env):
        self.width, self.data = width, b""
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", **env}
        for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"):
            if name not in env:
                environment.pop(name, None)
        self.child = subprocess.Popen(
            [sys.executable, "-m", "cleanpipe_jobs.cli", "watch", *map(str, args)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        os.close(theirs)

    def screen(self):
        screen = Screen(self.width)
        screen.feed(self.data.decode("utf-8", "ignore"))
        return screen

    def until(self, wanted, seconds=60.0):
        """Reads until the screen shows it, or the end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if wanted is not None and wanted in self.screen().text():
                return self.screen().text()
            if select.select([self.ours], [], [], 0.1)[0]:
                try:
                    part = os.read(self.ours, 1 << 16)
                except OSError:  # Linux says so at the end
                    part = b""
                if not part:
                    break
                self.data += part
        return self.screen().text()

    def end(self):
        text = self.until(None)
        status = self.child.wait(30)
        os.close(self.ours)
        return text, status


@pytest.fixture
def many(make, tmp_path):
    folder = tmp_path / "crawl"
    folder.mkdir()
    for n in range(12):
        pages = [make.response(f"http://h{n}.example.org/{i}", make.page(make.prose(n * 10 + i))) for i in range(20)]
        pages.append(make.response(f"http://h{n}.example.org/gone", make.page(make.prose(1)), status="404 Not Found"))
        make.write_gz(folder / f"{n:02d}.warc.gz", pages)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_live_run_is_watched_from_start_to_end(width, many, tmp_path):
    out = tmp_path / "out"
    terminal = Terminal(width, out, "--every", "0.2")
    assert f"waiting for a run in {out}"[: width - 2] in terminal.until("waiting for a run").replace("\n", "")
    line = [sys.executable, "-m", "cleanpipe_jobs.cli", "run", "web", many, "--out", out, "--quiet", "--workers", "1"]
    driver = subprocess.Popen([*map(str, line), "--engine", "local"])
    assert "reading and judging" in terminal.until("documents read")
    text = terminal.until(f"process {driver.pid} on")
    assert f"process {driver.pid} on" in text
    assert "waiting" not in text
    assert len(re.findall(r"^reading and judging", text, re.MULTILINE)) == 1
    screen = terminal.screen()
    assert screen.wrapped == 0
    text, status = terminal.end()
    assert driver.wait(60) == 0
    assert status == 0
    assert "reading and judging" not in text  # the picture is gone, the result stays
    assert bare(text).startswith(bare(f"{out} is finished"))
    assert "balance    closes" in text
    assert f"shards     {out}/data".replace("\n", "") in text.replace("\n", "")
    assert terminal.screen().cursor


@pytest.mark.slow
def test_ctrl_c_ends_the_watching_and_leaves_what_was_shown(tmp_path):
    out = tmp_path / "out"
    terminal = Terminal(80, out, "--every", "0.2")
    terminal.until("waiting for a run")
    os.killpg(terminal.child.pid, signal.SIGINT)
    text, status = terminal.end()
    assert status == 0
    assert "Traceback" not in text
    assert "waiting for a run in" in text
    assert terminal.screen().cursor


@pytest.mark.slow
def test_a_low_window_shows_what_fits(many, tmp_path):
    from cleanpipe.observer import Observer

    class Stop(Observer):
        def phase(self, name, tasks):
            if name == "meet":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("web", [str(many)], tmp_path / "out", engine="serial", observer=Stop())
    terminal = Terminal(60, tmp_path / "out", "--every", "0.2", height=6)
    text = terminal.until("no driver is at work")
    time.sleep(1)
    text = terminal.until("\0", seconds=0.5)
    assert len(text.splitlines()) <= 6
    assert text.splitlines()[0].startswith("comparing documents")
    os.killpg(terminal.child.pid, signal.SIGINT)
    assert terminal.end()[1] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("TERM", "")])
def test_a_dumb_terminal_gets_lines(name, value, many, tmp_path):
    terminal = Terminal(80, tmp_path / "out", "--every", "0.2", **{name: value})
    terminal.until("waiting for a run")
    run("web", [str(many)], tmp_path / "out", engine="serial")
    text, status = terminal.end()
    assert status == 0
    assert b"\x1b" not in terminal.data
    assert "isfinished" in bare(text)


def bare(text):
    """Without blanks and line ends: where a line is broken hangs on the length of the folder's name."""
    return "".join(text.split())


@pytest.mark.slow
def test_no_color(many, tmp_path):
    terminal = Terminal(80, tmp_path / "out", "--every", "0.2", NO_COLOR="1")
    terminal.until("waiting for a run")
    run("web", [str(many)], tmp_path / "out", engine="serial")
    _, status = terminal.end()
    assert status == 0
    assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m", terminal.data)
