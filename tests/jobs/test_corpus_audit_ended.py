"""``cleanpipe audit`` that is told to stop: its status, and nothing of it goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from planted import planted, write

from cleanpipe.corpus.files import Unit
from cleanpipe.corpus.work import run_tasks
from cleanpipe_jobs.cli import main


@pytest.mark.slow
@pytest.mark.parametrize("workers_seen", [1, 2, 3])  # in the midst of their start, too
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_audit_that_is_ended_leaves_no_process_behind(tmp_path, number, workers_seen):
    documents, _ = planted(4000)
    for i in range(4):
        write(documents[i::4], tmp_path / "in" / str(i), "jsonl")
    code = (
        "import signal, sys\nfrom cleanpipe.corpus import files\nfrom cleanpipe_jobs.cli import main\n"
        "if __name__ == '__main__':\n    "
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n    files.UNIT_BYTES = 1 << 20\n    "
        "sys.exit(main(sys.argv[1:]))\n"
    )
    # `nohup … &` makes whatever it starts deaf to SIGINT, these tests too
    (tmp_path / "start.py").write_text(code)
    args = ["audit", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--workers", "2", "-q"]
    begun = subprocess.Popen([sys.executable, str(tmp_path / "start.py"), *args], stderr=subprocess.PIPE, text=True)
    children = Path(f"/proc/{begun.pid}/task/{begun.pid}/children")
    until = time.monotonic() + 60
    while len(children.read_text().split()) < workers_seen and time.monotonic() < until:  # Python's tracker is one
        time.sleep(0.01)
    workers = children.read_text().split()
    assert len(workers) >= workers_seen
    begun.send_signal(number)
    _, err = begun.communicate(timeout=60)
    assert begun.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    if number != signal.SIGKILL:  # then a process that just starts finds its pipe closed
        assert "Traceback" not in err
    until = time.monotonic() + 30
    while any(_alive(pid) for pid in workers) and time.monotonic() < until:
        time.sleep(0.1)
    assert not [pid for pid in workers if _alive(pid)]
    again = main(["audit", str(tmp_path / "in" / "0"), "--out", str(tmp_path / "out"), "--workers", "1", "-q"])
    assert again == 0  # what the ended one left is cleared away
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["audit.html", "audit.json", "ledger"]


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Told(Exception):
    """By a signal."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_heard_between_tasks_and_the_handler_stands_again(number):
    def handler(*_):
        raise Told

    before = signal.signal(number, handler)
    try:
        tasks = run_tasks(_quick, [(Unit(n, ()), None) for n in range(50)], 2)
        next(tasks)
        os.kill(os.getpid(), number)  # is held: a finaliser, or the start of a process, would lose it
        with pytest.raises(Told):
            list(tasks)
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


def _quick(unit, _given):
    return {"unit": unit.number}
