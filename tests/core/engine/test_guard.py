"""One worker process and the watch over it: real processes that crash, eat memory, never end, freeze."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from cleanpipe.engine import guard as module
from cleanpipe.engine.attempts import OUTSIDE, OWN, Place
from cleanpipe.engine.guard import Guard, usage, wait

pytestmark = pytest.mark.slow  # with others of its length in a target of their own


@pytest.fixture
def guard(deadly, context, request):
    made = Guard(context(**getattr(request, "param", {})))
    yield made
    made.end()


def follow(guard, task, timeout=30.0):
    """Do the task; its events but "consumed", the last being its end."""
    guard.give(task)
    events, until = [], time.monotonic() + timeout
    while guard.task is not None or not events:
        assert time.monotonic() < until, "no end"
        wait([guard], 0.05)
        events += [e for e in guard.poll() if e[0] != "consumed"]
        if events and events[-1][0] == "died":
            break
    return events


def gone(pid, within=5.0):
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


LOW = {"memory": 300 << 20, "cpu_seconds": 0.5, "stall_seconds": 1.0}
# deed → whose, error, text, whether a Python stack that names this line comes with it
DEATHS = [
    (("signal", signal.SIGSEGV), OWN, "WorkerCrash", "SIGSEGV", True),
    (("signal", signal.SIGABRT), OWN, "WorkerCrash", "SIGABRT", True),
    (("signal", signal.SIGKILL), OUTSIDE, "WorkerKilled", "killed by SIGKILL while it used ", False),
    (("signal", signal.SIGTERM), OUTSIDE, "WorkerKilled", "killed by SIGTERM while it used ", False),
    (("exit", 0), OWN, "WorkerExit", "exit 0", False),
    (("exit", 3), OWN, "WorkerExit", "exit 3", False),
    (("system exit", 4), OWN, "WorkerExit", "exit 4", False),
    (("leave a child", None), OWN, "WorkerExit", "exit 7", False),
    (("memory", None), OWN, "MemoryGuard", " of memory (guards.memory = 300 MiB)", False),
    (("compute", None), OWN, "CpuGuard", " s on it (guards.cpu_seconds = 0.5)", True),
    (("sleep", 60), OUTSIDE, "NoAnswer", "gave no answer for 1 s (guards.stall_seconds = 1)", True),
    (("freeze", None), OUTSIDE, "NoAnswer", "gave no answer for 1 s (guards.stall_seconds = 1)", False),
]


@pytest.mark.parametrize("guard", [LOW], indirect=True)
@pytest.mark.parametrize(
    ("deed", "whose", "error", "text", "stack"), DEATHS, ids=[" ".join(map(str, d[0])) for d in DEATHS]
)
def test_a_death_is_named_and_placed(guard, deadly, deed, whose, error, text, stack):
    task = deadly.task(deeds={12: deadly.Deed(*deed)}, careful=[[10, 10]])
    *_, (kind, death) = follow(guard, task)
    assert kind == "died"
    assert (death.place, death.consumed, death.ready) == (Place(12, 1, deadly.doc(12)), 10, True)
    assert (death.cause.whose, death.cause.error) == (whose, error)
    assert text in death.cause.text
    assert ("deadly.py" in death.cause.trace) == stack, death.cause.trace
    assert guard.pid == 0


def test_after_a_death_the_next_task_finds_a_new_worker(guard, deadly):
    assert follow(guard, deadly.task(deeds={3: deadly.Deed("exit", 1)}))[-1][0] == "died"
    first = follow(guard, deadly.task())
    assert [k for k, _ in first] == ["ready", "done"]
    os.kill(guard.pid, signal.SIGKILL)  # idle
    until = time.monotonic() + 5
    while not guard._is_gone():
        assert time.monotonic() < until
    again = follow(guard, deadly.task())
    assert [k for k, _ in again] == ["ready", "done"]
    assert again[-1][1]["pid"] != first[-1][1]["pid"]


@pytest.mark.parametrize("guard", [{"cpu_seconds": 0.8}], indirect=True)
def test_the_clock_starts_anew_with_each_place(guard, deadly):
    deeds = {i: deadly.Deed("compute", 0.5) for i in range(3)}  # 1.5 s in all
    assert follow(guard, deadly.task(n=3, batch=1, deeds=deeds))[-1][0] == "done"
    *_, (kind, death) = follow(guard, deadly.task(n=3, batch=3, deeds=deeds))
    assert (kind, death.place) == ("died", Place(0, 3))


@pytest.mark.parametrize("guard", [{"stall_seconds": 0.5}], indirect=True)
def test_who_computes_is_not_silent(guard, deadly):
    assert follow(guard, deadly.task(deeds={12: deadly.Deed("compute", 1.2)}))[-1][0] == "done"


@pytest.mark.parametrize("guard", [{"stall_seconds": 1.0}], indirect=True)
def test_a_worker_frozen_in_the_middle_of_a_message_freezes_nobody(guard, deadly):
    guard.give(deadly.task(extra=30 << 20))  # far more than the line holds
    time.sleep(2)  # it waits for us in the middle of its answer
    os.kill(guard.pid, signal.SIGSTOP)
    began, events = time.monotonic(), []
    while not events or events[-1][0] != "died":
        wait([guard], 0.05)
        at = time.monotonic()
        events += guard.poll()
        assert time.monotonic() - at < 1
        assert at - began < 20
    assert events[-1][1].cause.error == "NoAnswer"


def test_a_large_answer_comes_whole(guard, deadly):
    assert follow(guard, deadly.task(extra=5 << 20))[-1][1]["extra"] == b"x" * (5 << 20)


def test_what_a_worker_prints_stays_with_it(guard, deadly, capfd):
    task = deadly.task(deeds={3: deadly.Deed("write", 20_000), 5: deadly.Deed("exit", 1)})
    *_, (_, death) = follow(guard, task)
    assert capfd.readouterr() == ("", "")
    assert death.cause.trace.endswith("to standard error")
    assert len(death.cause.trace) <= module.TRACE


def test_a_worker_is_kept_and_then_replaced(guard, deadly, monkeypatch):
    monkeypatch.setattr(module, "UNITS", 3)
    pids = [follow(guard, deadly.task())[-1][1]["pid"] for _ in range(5)]
    assert len(set(pids[:3])) == 1
    assert pids[3] == pids[4] != pids[0]
    assert gone(pids[0])


def test_one_that_has_become_large_is_replaced_before_the_next_unit(guard, deadly):
    first = follow(guard, deadly.task())[-1][1]["pid"]
    size = usage(first).memory
    object.__setattr__(guard._limits, "memory", size)  # idle, it is above half of that, and below it
    assert follow(guard, deadly.task())[-1][1]["pid"] != first


def test_a_worker_that_cannot_load_the_run_was_never_ready(deadly, context):
    made = Guard(deadly.Unloadable(context().recipe))
    *_, (kind, death) = follow(made, deadly.task())
    assert (kind, death.ready, death.cause.text) == ("died", False, "exit 5")


def test_usage_counts_a_process_and_its_children():
    program = (
        "import subprocess, sys, time\nheld = b'x' * (40 << 20)\n"
        "if len(sys.argv) == 1: subprocess.Popen([sys.executable, '-c', sys.stdin.read(), 'child'])\n"
        "until = time.process_time() + .3\nwhile time.process_time() < until: pass\n"
        "print('ready', flush=True)\ntime.sleep(60)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        process.stdin.write(program.encode())
        process.stdin.close()
        assert [process.stdout.readline(), process.stdout.readline()] == [b"ready\n"] * 2
        used = usage(process.pid)
        assert 80 << 20 < used.memory < 200 << 20
        assert 0.6 <= used.cpu < 3
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert usage(process.pid) == module.Usage(0, 0.0)


DRIVER = """
    import signal, sys
    sys.path.insert(0, sys.argv[1])
    import deadly
    from cleanpipe.engine.base import Context
    from cleanpipe.engine.local import LocalEngine
    from cleanpipe.recipe import Recipe

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
    engine = LocalEngine(Context(Recipe(name="test"), "nowhere"), 2)
    tasks = [deadly.task(label=f"{i}", folder=sys.argv[2], deeds={3: deadly.Deed("compute")}) for i in range(2)]
    try:
        list(engine.run(tasks, lambda *_: None))
    finally:
        engine.close()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_driver(number, tmp_path):
    (tmp_path / "sleep.py").write_text(
        "raise SystemExit('a file of the current folder was imported')", encoding="utf-8"
    )
    (tmp_path / "pickle.py").write_text(
        "raise SystemExit('a file of the current folder was imported')", encoding="utf-8"
    )
    driver = tmp_path / "elsewhere" / "driver.py"
    driver.parent.mkdir()
    driver.write_text(textwrap.dedent(DRIVER), encoding="utf-8")
    arguments = [sys.executable, "-P", str(driver), str(Path(__file__).parent), str(tmp_path)]
    process = subprocess.Popen(arguments, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        until, files = time.monotonic() + 20, [tmp_path / "pid-0", tmp_path / "pid-1"]
        while not all(f.exists() and f.read_text() for f in files):
            assert time.monotonic() < until
            assert process.poll() is None
            time.sleep(0.05)
        pids = [int(f.read_text()) for f in files]
        assert all(Path(f"/proc/{pid}").exists() for pid in pids)
        process.send_signal(number)
        began = time.monotonic()
        assert process.wait(10) == (9 if number == signal.SIGTERM else -signal.SIGKILL)
        assert all(gone(pid, within=2) for pid in pids)
        assert time.monotonic() - began < 3
    finally:
        process.kill()
        process.wait()
