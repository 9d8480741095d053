"""The local engine on real processes: a deadly document costs itself, a kill nothing, and every task ends once."""

import itertools
import json
import os
import random
import signal
import time

import pytest

from cleanpipe.engine import attempts
from cleanpipe.engine import local as module
from cleanpipe.engine.local import LocalEngine
from cleanpipe.engine.serial import SerialEngine
from cleanpipe.errors import ConfigError, RetryableError, ShardError, StopError

pytestmark = pytest.mark.slow  # with others of its length in a target of their own

LOW = {"memory": 300 << 20, "cpu_seconds": 0.5, "stall_seconds": 1.5}


@pytest.fixture
def engine(deadly, context):
    made = []

    def make(workers=1, **guards):
        made.append(LocalEngine(context(**guards), workers))
        return made[-1]

    yield make
    for one in made:
        one.close()


def one(engine, task):
    ((given, result),) = engine.run([task], lambda *_: None)
    assert given is task
    return result


def lost(result):
    return sorted(set(range(result["entered"])) - set(result["kept"]))


# what document 12 does → the error and message it is set aside with, and the tries that this took
POISON = [
    (("signal", signal.SIGSEGV), "WorkerCrash", "SIGSEGV, at deadly.py:", 4),
    (("memory", None), "MemoryGuard", "used ", 4),
    (("signal", signal.SIGKILL), "WorkerKilled", "killed by SIGKILL while it used ", 6),
]


@pytest.mark.parametrize(("deed", "error", "message", "tries"), POISON, ids=[str(p[0]) for p in POISON])
def test_a_deadly_document_costs_itself(engine, deadly, deed, error, message, tries):
    result = one(engine(**LOW), deadly.task(deeds={12: deadly.Deed(*deed)}))
    assert lost(result) == [12]
    ((identity, said),) = result["condemned"].items()
    assert bytes.fromhex(identity) == deadly.doc(12)
    assert said[0] == error
    assert said[1].startswith(message)
    assert result["tries"] == tries
    assert result["host"]
    assert result["peak_memory_bytes"] > 10 << 20
    assert 0 < result["cpu_seconds"] < 60
    assert result["wall_seconds"] >= 0
    assert result["opening_seconds"] == 0


def test_many_deadly_documents_of_every_kind_in_one_unit(engine, deadly):
    kinds = [("signal", signal.SIGSEGV), ("exit", 3), ("system exit", 2)]
    deeds = {i: deadly.Deed(*kinds[i % 3]) for i in (0, 1, 29)}
    result = one(engine(**LOW), deadly.task(deeds=deeds))
    assert lost(result) == sorted(deeds)
    assert len(result["condemned"]) == 3
    assert result["tries"] == 1 + 2 + 2 * 3  # two batches, three documents


def test_a_crash_that_does_not_come_again_costs_nothing(engine, deadly, tmp_path):
    deeds = {12: deadly.Deed("signal", signal.SIGSEGV, 2), 13: deadly.Deed("signal", signal.SIGKILL, 2)}
    result = one(engine(), deadly.task(deeds=deeds, folder=str(tmp_path)))
    assert (lost(result), result["condemned"], result["tries"]) == ([], {}, 5)


def test_who_dies_while_reading_is_tried_with_the_careful_reader(engine, deadly):
    deeds = {("reading", 10): deadly.Deed("signal", signal.SIGSEGV)}
    result = one(engine(), deadly.task(deeds=deeds, span=[0, 100]))
    assert (lost(result), result["tries"]) == ([], 9)


def test_a_unit_whose_input_kills_fails_with_its_place(engine, deadly, monkeypatch):
    monkeypatch.setattr(attempts, "CRASHES_READING", 2)
    error = one(engine(), deadly.task(deeds={("reading", 10): deadly.Deed("signal", signal.SIGSEGV)}))
    assert type(error) is ShardError
    assert str(error).startswith("unit@10: its worker died 2 times at one place: after 10 documents: SIGSEGV")


def test_condemned_documents_are_known_from_the_start(engine, deadly, context):
    known = {deadly.doc(12).hex(): ["WorkerCrash", "SIGSEGV"]}
    task = deadly.task(deeds={12: deadly.Deed("signal", signal.SIGSEGV)}, condemned=known)
    for result in (one(engine(), task), one(SerialEngine(context()), task)):
        assert (lost(result), result["condemned"], result["tries"]) == ([12], {}, 1)


def test_killed_at_random_nothing_is_lost_and_nothing_condemned(engine, deadly):
    pool, rng = engine(2), random.Random(5)
    tasks = [deadly.task(label=str(i), deeds={i: deadly.Deed("sleep", 0.1)}) for i in range(12)]
    results, messages = {}, itertools.count(1)

    def strike(*_):
        if next(messages) % 4 == 0:
            pids = [p.guard.pid for p in pool._posts if p.guard.pid]
            os.kill(rng.choice(pids), rng.choice([signal.SIGKILL, signal.SIGTERM]))

    for task, result in pool.run(tasks, strike):
        assert task.label not in results
        results[task.label] = result
    assert len(results) == 12
    assert next(messages) > 12 * 3  # of which every fourth was a kill
    assert sum(r["tries"] for r in results.values()) > 12
    for result in results.values():
        assert (lost(result), result["condemned"]) == ([], {})


def test_tasks_are_taken_as_workers_get_free_and_in_order(engine, deadly):
    taken = []

    def endless():
        for i in itertools.count():
            taken.append(i)
            yield deadly.task(label=str(i))

    results = engine(2).run(endless(), lambda *_: None)
    for done in range(1, 20):
        next(results)
        assert len(taken) <= done + 2
    assert taken == list(range(len(taken)))
    results.close()


def test_an_abandoned_run_leaves_no_work_behind(engine, deadly):
    pool = engine(2)
    tasks = [deadly.task(label="0"), deadly.task(label="1", deeds={0: deadly.Deed("compute")})]
    results = pool.run(tasks, lambda *_: None)
    next(results)
    assert all(p.guard.pid for p in pool._posts)
    results.close()
    assert [p.guard.task for p in pool._posts] == [None, None]
    assert len(list(pool.run([deadly.task(), deadly.task()], lambda *_: None))) == 2
    began = time.monotonic()
    pool.close()
    assert time.monotonic() - began < 1


ERRORS = [
    ("stop", StopError, "disk full"),
    ("config", ConfigError, "wrong"),
    ("bug", RuntimeError, "KeyError: 'nothing'"),
]


@pytest.mark.parametrize(("name", "kind", "message"), ERRORS, ids=[e[0] for e in ERRORS])
def test_what_ends_the_run_is_raised(engine, deadly, name, kind, message):
    with pytest.raises(kind, match=message):
        one(engine(), deadly.task(deeds={3: deadly.Deed("raise", name)}))


def test_an_input_beyond_reading_ends_its_unit_alone(engine, deadly):
    tasks = [deadly.task(label="bad", deeds={3: deadly.Deed("raise", "shard")}), deadly.task(label="good")]
    results = {t.label: r for t, r in engine().run(tasks, lambda *_: None)}
    assert type(results["bad"]) is ShardError
    assert lost(results["good"]) == []


def test_what_may_pass_is_tried_once_more_in_a_fresh_process(engine, deadly, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.1)
    pool = engine()
    task = deadly.task(deeds={3: deadly.Deed("raise", "memory", 1)}, folder=str(tmp_path))
    result = one(pool, task)
    assert (lost(result), result["tries"]) == ([], 2)
    error = one(pool, deadly.task(deeds={3: deadly.Deed("raise", "retry")}))
    assert type(error) is RetryableError
    assert error.message == "a time-out"


def test_workers_that_cannot_start_stop_the_run(deadly, context):
    pool = LocalEngine(deadly.Unloadable(context().recipe), 2)
    with pytest.raises(StopError, match=r"3 worker processes in a row could not start \(exit 5\)"):
        list(pool.run([deadly.task(), deadly.task()], lambda *_: None))
    pool.close()


def test_progress_is_told(engine, deadly, monkeypatch):
    told = []
    list(engine().run([deadly.task(label="x")], lambda task, size: told.append((task.label, size))))
    assert told
    assert set(told) <= {("x", 0), ("x", 10), ("x", 20)}


def test_each_try_writes_a_line_where_one_is_asked_for(engine, deadly, context, tmp_path, monkeypatch, capfd):
    log = tmp_path / "tasks.log"
    monkeypatch.setenv("CLEANPIPE_TASK_LOG", str(log))
    one(engine(), deadly.task(deeds={12: deadly.Deed("exit", 3)}))
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [(x["tries"], x["error"], x["documents"]) for x in lines] == [
        (1, "exit 3", None),
        (2, "exit 3", None),
        (3, "exit 3", None),
        (4, None, 30),
    ]
    assert len({x["pid"] for x in lines}) == 4
    assert all((x["run"], x["kind"], x["label"], x["key"]) == ("run-1", "deadly", "unit", "key-unit") for x in lines)
    assert lines[-1]["seconds"] >= lines[-1]["cpu_seconds"] >= 0
    monkeypatch.setenv("CLEANPIPE_TASK_LOG", "stderr")
    one(SerialEngine(context()), deadly.task())
    assert json.loads(capfd.readouterr().err)["tries"] == 1
    monkeypatch.setenv("CLEANPIPE_TASK_LOG", str(tmp_path / "no" / "such" / "folder"))
    assert lost(one(SerialEngine(context()), deadly.task())) == []
