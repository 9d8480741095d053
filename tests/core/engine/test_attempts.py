"""The policy of tries, as data and as laws; no process is started here (test_guard.py and the engines' tests do)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.engine.attempts import (
    CHANCE,
    CHANCES,
    DEATHS,
    DEATHS_MORE,
    IN_A_ROW,
    OUTSIDE,
    OWN,
    Attempts,
    Cause,
    Death,
    Place,
)
from cleanpipe.engine.base import Task
from cleanpipe.errors import RetryableError, ShardError

CRASH = Cause(OWN, "WorkerCrash", "SIGSEGV")
LUCK = Cause(CHANCE, "WorkerKilled", "killed by SIGKILL, small")
KILL = Cause(OUTSIDE, "WorkerKilled", "killed by SIGKILL")


def doc(number):
    return number.to_bytes(16, "big")


def alone(number):
    return Place(number, 1, doc(number))


def reading(number):
    return Place(number, 0, doc(number))


def task(**args):
    return Task("pass", "key", "crawl.warc.gz", 0, args)


A, B = Place(0, 10), Place(10, 10)  # two batches
READ, READ_ON = Place(0, 0), Place(10, 0)
TWELVE = {doc(12).hex(): ["WorkerCrash", "SIGSEGV"]}

# deaths in order → args of the next try, beyond those given
LESSONS = [
    ("a crash in a batch: it is treated document by document", [(CRASH, B)], {"careful": [[10, 10]]}),
    ("a kill in a batch: again as it was", [(KILL, B)], {}),
    ("a second kill at one batch", [(KILL, B), (KILL, B)], {"careful": [[10, 10]]}),
    ("kills in two batches, the earlier one first", [(KILL, A), (KILL, B)], {}),
    ("a try that got further clears the batch", [(KILL, A), (KILL, B), (KILL, A)], {}),
    ("a try that got less far does not", [(KILL, B), (KILL, A), (KILL, B)], {"careful": [[10, 10]]}),
    ("a kill, then a crash", [(KILL, B), (CRASH, B)], {"careful": [[10, 10]]}),
    ("two batches careful, in order", [(CRASH, B), (CRASH, A)], {"careful": [[0, 10], [10, 10]]}),
    ("one crash alone is tried again", [(CRASH, B), (CRASH, alone(12))], {"careful": [[10, 10]]}),
    (
        "two crashes alone condemn",
        [(CRASH, B), (CRASH, alone(12)), (CRASH, alone(12))],
        {"careful": [[10, 10]], "condemned": TWELVE},
    ),
    ("two kills alone do not", [(KILL, alone(12)), (KILL, alone(12))], {}),
    (
        "three kills alone do",
        [(KILL, alone(12))] * 3,
        {"condemned": {doc(12).hex(): ["WorkerKilled", "killed by SIGKILL"]}},
    ),
    (
        "kills and a crash alone, three together, whatever came last",
        [(KILL, alone(12)), (KILL, alone(12)), (CRASH, alone(12))],
        {"condemned": TWELVE},
    ),
    ("a try that got past the document clears it", [(CRASH, alone(12)), (CRASH, alone(13)), (CRASH, alone(12))], {}),
    ("... if only to the next batch", [(CRASH, alone(12)), (KILL, Place(20, 10)), (CRASH, alone(12))], {}),
    ("... or to its reading", [(CRASH, alone(12)), (KILL, Place(20, 0)), (CRASH, alone(12))], {}),
    (
        "a death before the document says nothing of it",
        [(CRASH, alone(12)), (KILL, A), (CRASH, alone(12))],
        {"condemned": TWELVE},
    ),
    ("three crashes while reading", [(CRASH, READ_ON)] * 3, {}),
    ("the fourth has each document announced", [(CRASH, READ_ON)] * 4, {"announce": True}),
    ("the eighth asks for the careful reader", [(CRASH, READ_ON)] * 8, {"announce": True, "reader": "member"}),
    (
        "two crashes at one that is announced",
        [(CRASH, READ_ON)] * 4 + [(CRASH, reading(12))] * 2,
        {"announce": True, "condemned": {alone(12).doc_id.hex(): ["WorkerCrash", "SIGSEGV", "read"]}},
    ),
    (
        "a crash behind an announced one is not its doing",
        [(CRASH, READ_ON)] * 4 + [(CRASH, reading(12)), (CRASH, Place(13, 0)), (CRASH, reading(12))],
        {"announce": True},
    ),
    ("a try that read on clears it", [(CRASH, READ_ON)] * 3 + [(CRASH, B), (CRASH, READ_ON)], {"careful": [[10, 10]]}),
    ("five kills while reading", [(KILL, READ)] * 5, {}),
    ("kills by chance while reading", [(LUCK, READ)] * 50, {}),
    ("kills by chance in a batch", [(LUCK, B), (LUCK, B)], {"careful": [[10, 10]]}),
    ("kills by chance of a document alone", [(LUCK, alone(12))] * 50, {}),
    ("... do not add to others", [(KILL, alone(12)), (KILL, alone(12)), (LUCK, alone(12)), (CRASH, alone(11))], {}),
]


@pytest.mark.parametrize(("what", "deaths", "args"), LESSONS, ids=[x[0] for x in LESSONS])
def test_what_deaths_teach_the_next_try(what, deaths, args):
    given_args = {"span": [0, 100], "unit": 3}
    attempts = Attempts(task(**given_args))
    assert attempts.task == task(**given_args)
    for cause, place in deaths:
        assert attempts.died(Death(cause, place)) is None
    assert attempts.task == task(**given_args, **args)
    assert attempts.facts() == {"tries": len(deaths) + 1, "condemned": args.get("condemned", {})}


ENDS = [
    ("crashes in reading, the careful reader too", [(CRASH, READ_ON)] * 12, {"span": [0, 9]}, ShardError, "4 times"),
    ("crashes in a task that reads no archive", [(CRASH, READ)] * 4, {}, ShardError, "4 times at one place: SIGSEGV"),
    ("kills by chance without an end", [(LUCK, READ_ON)] * CHANCES, {}, RetryableError, f"died {CHANCES} times"),
    ("kills in reading", [(KILL, READ_ON)] * 6, {}, RetryableError, "after 10 documents: killed by SIGKILL"),
    (
        "a batch that dies though it is careful: the task does not heed its args",
        [(CRASH, B)] * 5,
        {},
        ShardError,
        "4 times",
    ),
    (
        "a document that kills though it is set aside",
        [(CRASH, alone(12))] * 6,
        {},
        ShardError,
        "4 times",
    ),
]


@pytest.mark.parametrize(("what", "deaths", "args", "kind", "message"), ENDS, ids=[x[0] for x in ENDS])
def test_where_tries_end(what, deaths, args, kind, message):
    attempts = Attempts(task(**args))
    *before, last = [attempts.died(Death(cause, place, consumed=4711)) for cause, place in deaths]
    assert before == [None] * (len(deaths) - 1)
    assert type(last) is kind
    assert message in last.message
    assert (last.source, last.offset) == ("crawl.warc.gz", 4711)


def test_what_was_known_before_stays():
    known = {doc(3).hex(): ["CpuGuard", "computed 300 s"]}
    attempts = Attempts(task(condemned=known, careful=[[40, 10]]))
    for _ in range(2):
        attempts.died(Death(CRASH, alone(12)))
    attempts.died(Death(CRASH, B))
    assert attempts.task.args == {"condemned": {**known, **TWELVE}, "careful": [[10, 10], [40, 10]]}
    assert attempts.facts() == {"tries": 4, "condemned": TWELVE}  # what these tries found, no more


def test_the_message_says_where_the_program_was():
    trace = (
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x1 (most recent call first):\n"
        '  File "/opt/x/scrub.py", line 31 in parse\n  File "/opt/y.py", line 2 in step'
    )
    attempts = Attempts(task())
    for _ in range(2):
        attempts.died(Death(Cause(OWN, "WorkerCrash", "SIGSEGV", trace), alone(12)))
    assert attempts.condemned == {doc(12).hex(): ["WorkerCrash", "SIGSEGV, at scrub.py:31 in parse"]}


def test_a_time_out_is_met_once_more():
    attempts, error = Attempts(task()), RetryableError("a time-out")
    assert attempts.refused(error) is None
    assert attempts.refused(error) is error
    assert attempts.tries == 2


def test_where_every_document_is_deadly_the_fault_is_elsewhere():
    unit = Unit(IN_A_ROW - 1, 10, dict.fromkeys(range(IN_A_ROW - 1), CRASH))
    assert unit.run() is None
    assert len(unit.attempts.condemned) == IN_A_ROW - 1
    error = Unit(IN_A_ROW, 10, dict.fromkeys(range(IN_A_ROW), CRASH)).run()
    assert type(error) is ShardError
    assert f"{IN_A_ROW} documents in a row" in error.message


class Unit:
    """A unit of ``n`` documents in batches, some of them deadly, run under the policy. ``kills``: steps (an ``at`` is a
    step; they are numbered through all tries) at which somebody kills the worker, and whether it is seen to be chance.
    """

    def __init__(self, n, batch, poison, kills=()):
        self.n, self.batch, self.poison, self.kills = n, batch, poison, dict(kills)
        self.attempts = Attempts(task())
        self.step = self.killed = 0
        self.hits = {}  # place → kills there since a try got past it, those that are chance left out

    def run(self):
        while (death := self.one_try()) is not None:
            if (error := self.attempts.died(death)) is not None:
                return error
        return None

    def one_try(self):
        args = self.attempts.task.args
        careful = [range(a, a + c) for a, c in args.get("careful", ())]
        condemned = {int(k, 16) for k in args.get("condemned", {})}
        for first in [*range(0, self.n, self.batch), self.n]:
            if (killed := self.killed_at(Place(first, 0))) is not None:
                return killed
            rows = range(first, min(first + self.batch, self.n))
            singly = any(first in r for r in careful)
            for piece in [range(i, i + 1) for i in rows] if singly else [rows] if rows else []:
                place = Place(piece[0], len(piece), doc(piece[0]) if singly else None)
                if (killed := self.killed_at(place)) is not None:
                    return killed
                for i in piece:
                    if i in self.poison and i not in condemned:
                        return Death(self.poison[i], place)
        return None

    def killed_at(self, place):
        self.step += 1
        for passed in [p for p in self.hits if p.passed_by(place)]:
            del self.hits[passed]
        cause = self.kills.get(self.step)
        # nobody can tell three kills of one document alone, or six at one reading, from their own doing
        if cause is None or (cause is KILL and self.hits.get(place, 0) >= (2 if place.doc_id else 5)):
            return None
        self.hits[place] = self.hits.get(place, 0) + (cause is KILL)
        self.killed += 1
        return Death(cause, place)


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 60),
    st.integers(1, 20),
    st.dictionaries(st.integers(0, 59), st.sampled_from([CRASH, KILL]), max_size=12),
    st.dictionaries(st.integers(1, 600), st.sampled_from([KILL, LUCK]), max_size=20)
    | st.sets(st.integers(1, 300), max_size=150).map(lambda steps: dict.fromkeys(steps, LUCK)),
)
def test_poison_is_condemned_and_nothing_else_whoever_kills(n, batch, poison, kills):
    poison = {i: cause for i, cause in poison.items() if i < n}
    unit = Unit(n, batch, poison, kills)
    assert unit.run() is None
    assert {int(k, 16) for k in unit.attempts.condemned} == set(poison)
    crashes = sum(cause is CRASH for cause in poison.values())
    assert unit.attempts.tries <= 1 + 3 * crashes + 5 * (len(poison) - crashes) + unit.killed


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([CRASH, KILL, LUCK]),
            st.integers(0, 30),
            st.sampled_from([0, 1, 10]),
            st.booleans(),
        ),
        min_size=1,
    )
)
def test_tries_end_whatever_happens(deaths):
    attempts = Attempts(task(span=[0, 1]))
    places = [
        (c, Place(first, count, doc(first) if single and count == 1 else None)) for c, first, count, single in deaths
    ]
    for number in range(10_000):
        cause, place = places[number % len(places)]
        if attempts.died(Death(cause, place)) is not None:
            break
    assert attempts.tries <= DEATHS + DEATHS_MORE * len(attempts.condemned) + CHANCES + 1
    assert number < DEATHS + DEATHS_MORE * 31 + CHANCES + 1
