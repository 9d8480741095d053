"""Units on a Ray of this machine: deadly documents, lost workers, units that are overdue, heads that are not there."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cleanpipe.engine import ray as module
from cleanpipe.engine.ray import RayEngine
from cleanpipe.engine.ray_connect import _refusal, connect
from cleanpipe.errors import ConfigError, RetryableError, ShardError, StopError

# in one process: each would start a Ray of its own
pytestmark = [pytest.mark.slow, pytest.mark.ray, pytest.mark.xdist_group("ray")]


@pytest.fixture(scope="module")
def ray():
    """A Ray for all tests of this module: it takes seconds to start. Its workers find deadly.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        found, ours = connect(2)
        assert ours
        yield found
        found.shutdown()


@pytest.fixture
def engine(ray, deadly, context):
    def make(**guards):
        made = RayEngine(context(memory=600 << 20, **guards), 2)
        assert not made._own
        return made

    return make


def one(engine, task):
    ((given, result),) = engine.run([task], lambda *_: None)
    assert given is task
    return result


def lost(result):
    return sorted(set(range(result["entered"])) - set(result["kept"]))


def processes(word):
    out = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in out.splitlines() if word in line]


def test_every_task_ends_once_and_few_are_in_flight(engine, deadly):
    pool, taken = engine(), []

    def tasks():
        for i in range(12):
            taken.append(i)
            yield deadly.task(label=str(i))

    results = {}
    for task, result in pool.run(tasks(), lambda *_: None):
        assert len(taken) <= len(results) + 2 * 2 + 1
        assert task.label not in results
        results[task.label] = result
    assert sorted(results, key=int) == [str(i) for i in range(12)]
    assert all(lost(r) == [] and r["tries"] == 1 for r in results.values())
    assert len({r["pid"] for r in results.values()}) <= 4  # a child is kept


def test_a_deadly_document_costs_itself(engine, deadly):
    deeds = {12: deadly.Deed("signal", signal.SIGSEGV), 14: deadly.Deed("memory")}
    result = one(engine(), deadly.task(deeds=deeds))
    assert lost(result) == [12, 14]
    said = {int(k, 16): v[0] for k, v in result["condemned"].items()}
    assert said == {12: "WorkerCrash", 14: "MemoryGuard"}
    assert result["tries"] == 6


def test_errors_keep_their_kind(engine, deadly):
    error = one(engine(), deadly.task(deeds={3: deadly.Deed("raise", "shard")}))
    assert type(error) is ShardError
    assert str(error) == "here: broken input"
    for name, kind in (("stop", StopError), ("config", ConfigError), ("bug", RuntimeError)):
        with pytest.raises(kind):
            one(engine(), deadly.task(deeds={3: deadly.Deed("raise", name)}))


def test_a_large_result_comes_too(engine, deadly):
    assert one(engine(), deadly.task(extra=3 << 20))["extra"] == b"x" * (3 << 20)


def wait_for(path, within=20):
    until = time.monotonic() + within
    while not path.exists() or not path.read_text(encoding="ascii"):
        assert time.monotonic() < until
        time.sleep(0.05)
    return int(path.read_text(encoding="ascii"))


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[1])


def state_of(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.mark.parametrize("whom", ["child", "ray worker"])
def test_a_kill_costs_a_try_and_leaves_no_process(engine, deadly, tmp_path, whom):
    file = tmp_path / "pid-unit"
    found = {}

    def kill():
        child = wait_for(file)
        found.update(child=child, parent=parent_of(child))
        os.kill(child if whom == "child" else found["parent"], signal.SIGKILL)

    deeds = {12: deadly.Deed("sleep", 1.5, 1)}
    thread = threading.Thread(target=kill)
    thread.start()
    result = one(engine(), deadly.task(deeds=deeds, folder=str(tmp_path)))
    thread.join()
    assert (lost(result), result["condemned"], result["tries"]) == ([], {}, 2)
    assert result["pid"] != found["child"]
    end = time.monotonic() + 10  # whoever is its parent now has to take note of it
    while (state := state_of(found["child"])) not in ("", "Z") and time.monotonic() < end:
        time.sleep(0.1)
    assert state in ("", "Z")


@pytest.mark.slow
def test_a_unit_that_takes_too_long_is_called_back_and_done_again(engine, deadly, tmp_path):
    task = deadly.task(deeds={12: deadly.Deed("sleep", 60, 1)}, folder=str(tmp_path))
    result = one(engine(unit_seconds=15.0), task)
    assert (lost(result), result["condemned"], result["tries"]) == ([], {}, 2)


@pytest.mark.slow
def test_a_unit_that_ray_loses_every_time_is_given_up_alone(engine, deadly, monkeypatch):
    monkeypatch.setattr(module, "LOSSES", 1)
    pool = engine(unit_seconds=15.0)
    slow = deadly.task(label="slow", deeds={12: deadly.Deed("sleep", 60)})
    results = {t.label: r for t, r in pool.run([slow, deadly.task(label="good")], lambda *_: None)}
    assert lost(results["good"]) == []
    assert type(results["slow"]) is RetryableError
    assert str(results["slow"]) == "slow: Ray lost it 1 times, the last time: no result within 15 s"


def test_a_signal_ends_the_run_at_once(engine, deadly):
    class Stopped(BaseException):
        pass

    def stop(*_):
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 2)
    began = time.monotonic()
    try:
        with pytest.raises(Stopped):
            one(engine(), deadly.task(deeds={3: deadly.Deed("sleep", 60)}))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert 2 <= time.monotonic() - began < 4


def test_an_abandoned_run_ends_its_tasks(engine, deadly, tmp_path):
    tasks = [
        deadly.task(label="0", folder=str(tmp_path)),
        deadly.task(label="1", folder=str(tmp_path), deeds={0: deadly.Deed("compute")}),
    ]
    results = engine().run(tasks, lambda *_: None)
    next(results)
    child = wait_for(tmp_path / "pid-1")
    began = time.monotonic()
    results.close()
    assert time.monotonic() - began < 2
    until = time.monotonic() + 10
    while Path(f"/proc/{child}").exists():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.fixture
def listener():
    """A server that accepts, says what it is told, and nothing else."""
    made = []

    def make(answer):
        server = socket.create_server(("127.0.0.1", 0))
        made.append(server)

        def serve():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                connection.sendall(answer)

        held = made
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        return server.getsockname()[1]

    yield make
    for one_socket in made:
        one_socket.close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


VERSIONS = (
    "Version mismatch: The cluster was started with:\n    Ray: 2.60.0\nThis process was started with:\n    Ray: 2.59.0"
)
REFUSALS = [
    (RuntimeError(VERSIONS), "head:6379", "differ: use one image for head, workers and driver (Version mismatch: The"),
    (ConnectionError("Failed to connect to Ray cluster at head:6379"), "head:6379", "it must be one value, token"),
    (RuntimeError("Unauthenticated: token is missing"), "head:6379", "it must be one value, token"),
    (ConnectionError("Failed to connect"), "", "Ray on this machine cannot be used: Failed to connect"),
    (ValueError("odd\nand long"), "head:6379", "Ray at head:6379 cannot be used: odd"),
    (TimeoutError(), "head:6379", "Ray at head:6379 cannot be used: TimeoutError"),
]


@pytest.mark.parametrize(("error", "address", "message"), REFUSALS, ids=[repr(r[0])[:40] for r in REFUSALS])
def test_what_ray_refuses_is_told_with_the_way_out(error, address, message):
    assert message in _refusal(address, error)


PROGRAM = "from cleanpipe.engine.ray_connect import connect\nconnect(1)\n"


@pytest.mark.parametrize(
    ("what", "address", "message"),
    [
        ("nothing listens", "127.0.0.1:{free}", "no Ray head answers at 127.0.0.1:"),
        ("something else listens", "127.0.0.1:{http}", "is no Ray head"),
        ("it accepts, and is silent", "127.0.0.1:{silent}", "no Ray head answers at 127.0.0.1:"),
        ("no such host", "no-such-host.invalid:6379", "no Ray head answers at no-such-host.invalid:6379"),
        ("an address of another kind", "http://127.0.0.1:8265", "`ray job submit`"),
        ("Ray Client", "ray://127.0.0.1:10001", "`ray job submit`"),
        ("no port", "head", "must be HOST:PORT"),
        ("a port that is none", "head:66000000", "no Ray head answers"),
    ],
)
def test_a_head_that_is_not_there_is_told_at_once(listener, what, address, message):
    ports = {"free": free_port(), "http": listener(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "silent": listener(b"")}
    env = {**os.environ, "RAY_ADDRESS": address.format(**ports)}
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert time.monotonic() - began < 12
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("cleanpipe.errors.ConfigError: ")
    assert message in done.stderr.splitlines()[-1]
