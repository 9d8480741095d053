"""The figures of a run that is going on, and how they look on terminals of any width."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console as RichConsole

from cleanpipe.observer import Observer, Several
from cleanpipe_jobs import progress
from cleanpipe_jobs.figures import Figures, amounts, clock
from cleanpipe_jobs.progress import Console, Lines, Picture, line

MB = 1_000_000


class Time:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def at():
    return Time()


def reading(at, units=10, size=100 * MB, resumed=0):
    figures = Figures(at)
    figures.started(units, size, resumed, 0)
    figures.phase("read", units)
    return figures


def test_figures_of_a_reading_phase(at):
    figures = reading(at)
    for i in range(4):  # 10 MB and 200 documents in 5 seconds each
        at.now += 5
        figures.progress(f"u{i}", 9 * MB)
        figures.finished(f"u{i}", 200, 100)
        figures.result("pass", f"u{i}", "k", {"bytes": 10 * MB, "documents": 200, "quarantined": 1})
    look = figures.look()
    assert (look.units, look.tasks, look.read, look.quarantined, look.documents) == (4, 10, 40 * MB, 4, 800)
    assert look.share == 0.4
    assert look.byte_rate == pytest.approx(2 * MB)
    assert look.document_rate == pytest.approx(40)
    assert look.left == pytest.approx(30)
    assert look.words() == ["4 of 10 units", "2.0 MB/s", "40 documents/s", "4 quarantined", "40 of 100 MB"]
    assert line(look).endswith(
        "reading and judging: 40%, 4 of 10 units, 2.0 MB/s, 40 documents/s, 4 quarantined, 40 of 100 MB, 0:30 left"
    )


def test_what_is_in_flight_counts_and_a_second_try_begins_anew(at):
    figures = reading(at)
    at.now += 10
    figures.progress("a", 6 * MB)
    figures.progress("b", 4 * MB)
    assert figures.look().read == 10 * MB
    figures.progress("a", 1 * MB)  # its worker died
    assert figures.look().read == 5 * MB
    figures.finished("a", 0, 0)  # set aside: no result
    figures.finished("b", 10, 5)
    figures.result("pass", "b", "k", {"bytes": 20 * MB})
    assert (figures.look().read, figures.look().units) == (21 * MB, 2)


def test_nothing_is_promised_before_something_is_known(at):
    look = reading(at).look()
    assert (look.share, look.byte_rate, look.document_rate, look.left) == (0.0, None, None, None)
    assert look.time_left() == "just begun"
    empty = Figures(at).look()
    assert (empty.share, empty.left, empty.words()) == (None, None, [])


def test_a_rate_forgets_how_slowly_it_began(at):
    figures = reading(at, size=10_000 * MB)
    for second in range(400):  # 1 MB/s for 200 s, then 11 MB/s
        at.now += 1
        figures.progress("u", second * MB if second < 200 else (200 + (second - 199) * 11) * MB)
        figures.look()
    assert figures.look().byte_rate == pytest.approx(11 * MB, rel=0.02)


def test_marks_do_not_grow_with_the_time(at):
    figures = reading(at)
    for _ in range(5000):
        at.now += 1
        figures.look()
    assert len(figures._marks) <= 601


def test_later_phases_are_counted_in_tasks(at):
    figures = reading(at)
    figures.phase("meet", 1)
    at.now += 65
    look = figures.look()
    assert (look.share, look.words(), look.time_left()) == (None, [], "1:05 so far")
    figures.phase("publish", 8)
    for i in range(2):
        at.now += 3
        figures.finished(f"s{i}", 0, 0)
        figures.result("shard", f"s{i}", "k", {"quarantined": 9})  # ledgers count it a second time
    look = figures.look()
    assert (look.share, look.words(), look.left, look.quarantined) == (0.25, ["2 of 8 units"], pytest.approx(18), 0)


def test_units_that_are_read_again_have_no_known_size(at):
    figures = reading(at, units=10)
    figures.phase("read", 2)
    figures.progress("u", 5 * MB)
    figures.finished("u", 1, 1)
    assert (figures.look().share, figures.look().size) == (0.5, 0)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3600, "1:00:00"), (86_400 * 2 + 3661, "2 d 01:01:01")],
)
def test_clock(seconds, shown):
    assert clock(seconds) == shown


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (0, 1, "0.0 of 0.0 MB"),
        (512 * MB, 1130 * MB, "512 of 1,130 MB"),
        (5_000 * MB, 20_000 * MB, "5.0 of 20.0 GB"),
        (5_000 * MB, 900_000 * MB, "5 of 900 GB"),
        (1_500_000 * MB, 3_000_000 * MB, "1.5 of 3.0 TB"),
        (10**15, 4 * 10**15, "1.0 of 4.0 PB"),
    ],
)
def test_amounts(part, whole, shown):
    assert amounts(part, whole) == shown


def drawn(figures, width, **options):
    file = io.StringIO()
    RichConsole(file=file, force_terminal=True, width=width, height=10, **options).print(Picture(figures))
    return file.getvalue()


@given(
    width=st.integers(2, 200),
    size=st.integers(0, 10**17),
    units=st.integers(0, 10**7),
    done=st.integers(0, 10**7),
    gone=st.floats(0.1, 1e7),
    bad=st.integers(0, 10**6),
    phase=st.sampled_from(["read", "meet", "window", "publish", "another"]),
)
def test_the_picture_fits_every_terminal(width, size, units, done, gone, bad, phase):
    at = Time()
    figures = Figures(at)
    figures.started(units, size, 0, 0)
    figures.phase(phase, units)
    at.now += gone
    figures.progress("u", min(done, size))
    figures.finished("u", done, done)
    figures.result("pass", "u", "k", {"bytes": min(done, size), "quarantined": bad})
    lines = re.sub(r"\x1b\[[0-9;]*m", "", drawn(figures, width)).splitlines()
    assert 1 <= len(lines) <= 2
    assert all(cell_len(one) < width for one in lines)


def test_the_picture_at_three_widths(at):
    figures = reading(at)
    at.now += 10
    figures.progress("u", 40 * MB)
    figures.finished("u", 2000, 100)
    figures.result("pass", "u", "k", {"bytes": 40 * MB, "quarantined": 3})
    plain = {w: re.sub(r"\x1b\[[0-9;]*m", "", drawn(figures, w)).splitlines() for w in (120, 80, 40)}
    bar = "━" * 16 + "─" * 24
    assert plain[120] == [
        f"reading and judging  {bar}   40%  0:15 left",
        "1 of 10 units   4.0 MB/s   200 documents/s   3 quarantined   40 of 100 MB",
    ]
    assert plain[80] == plain[120]
    assert plain[40] == ["reading and judging   40%  0:15 left", "1 of 10 units   4.0 MB/s"]


def test_no_color_is_honoured_and_ascii_terminals_get_ascii(at, monkeypatch):
    figures = reading(at)
    at.now += 1
    figures.progress("u", 50 * MB)
    assert "\x1b[32m" in drawn(figures, 80, color_system="standard")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in drawn(figures, 80, color_system="standard")
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict")
    RichConsole(file=file, force_terminal=True, width=80).print(Picture(figures))
    file.flush()
    assert "####" in file.buffer.getvalue().decode("ascii")


def test_plain_lines_come_every_few_seconds_and_grow_rare(at, monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.02)
    lines = Lines(reading(at))
    for _ in range(200):
        lines._end.wait(0.01)
        if capsys.readouterr().err.count("reading and judging: 0%, 0 of 10 units") > 0:
            break
    else:
        raise AssertionError("no line came")
    lines.close()
    lines._end.wait()


def test_the_pauses_between_plain_lines(at, monkeypatch):
    lines, pauses = Lines.__new__(Lines), []

    class End:
        def wait(self, pause):
            pauses.append(pause)
            return len(pauses) > 12

    lines._figures, lines._end = reading(at), End()
    monkeypatch.setattr(progress, "warn", lambda text: None)
    lines._tell()
    assert pauses[:3] == [10.0, 13.0, pytest.approx(16.9)]
    assert pauses[-1] == 60.0


def test_a_quiet_console_says_warnings_alone(capsys):
    console = Console(quiet=True)
    console.started(3, 10, 2, 1)
    console.phase("read", 3)
    console.warn("see https://user:word@host/x")
    console.close()
    assert capsys.readouterr().err == "warning: see https://host/x\n"


def test_a_console_without_a_terminal_tells_what_was_done_before(capsys):
    console = Console(quiet=False)
    console.started(3, 10, 2, 1)
    console.phase("read", 3)
    console.close()
    assert capsys.readouterr().err == "2 of 6 units were done before\n1 of 6 units was taken over\n"


def test_several_tell_all_and_close_all_whatever_one_does():
    told = []

    class One(Observer):
        def __init__(self, name):
            self.name = name

        def warn(self, message):
            told.append((self.name, message))

        def close(self, error=None):
            told.append((self.name, "closed", error))
            if self.name == "b":
                raise OSError("full")

    both, why = Several([One("a"), One("b")]), ValueError()
    both.warn("x")
    with pytest.raises(OSError, match="full"):
        both.close(why)
    assert told == [("a", "x"), ("b", "x"), ("b", "closed", why), ("a", "closed", why)]
    for name in vars(Observer):
        if not name.startswith("_"):
            assert name in vars(Several), f"Several does not pass {name} on"
