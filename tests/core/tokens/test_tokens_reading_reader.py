"""The stream of a plan, however it is shared out, stopped, killed or decided about."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from made_tokens import doc_id, make_store

from cleanpipe.errors import ConfigError
from cleanpipe.tokens import Plan, Reader, open_tokens
from cleanpipe.tokens.decisions import Decision, append


def bodies(count=150, seed=0, longest=60):
    draw = np.random.default_rng(seed)
    return [draw.integers(3, 1000, draw.integers(0, longest)).tolist() for _ in range(count)]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("tokens") / "t", bodies(), per_shard=40)


@pytest.fixture
def plan(root):
    return Plan(open_tokens(root), length=16, seed=2)


def rows(batches):
    """Each row as (sequence, ids, labels, positions), plain."""
    for b in batches:
        for at, g in enumerate(b.sequences.tolist()):
            yield g, b.input_ids[at].tolist(), b.labels[at].tolist(), b.position_ids[at].tolist()


def take(reader, steps):
    """Some batches of a reader."""
    out = []
    if steps:
        for batch in reader:
            out.append(batch)
            if len(out) == steps:
                break
    return out


def merged(ranks):
    """What all ranks read, step by step."""
    for parts in zip(*ranks, strict=True):
        yield from sorted(rows(parts))


BATCH = 24


@pytest.mark.parametrize("world", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("packing", ["concat", "best-fit"])
def test_any_number_of_ranks_reads_the_same_stream(root, world, packing):
    plan = Plan(open_tokens(root), length=16, packing=packing, seed=2)
    whole = list(rows(Reader(plan, BATCH, epochs=2)))
    assert [g for g, *_ in whole] == list(range(2 * plan.sequences))
    shared = [list(Reader(plan, BATCH, rank, world, epochs=2)) for rank in range(world)]
    assert len({len(batches) for batches in shared}) == 1
    assert list(merged(shared)) == whole
    step = [b.sequences.tolist() for b in (batches[1] for batches in shared)]
    assert step == [list(range(BATCH + r * BATCH // world, BATCH + (r + 1) * BATCH // world)) for r in range(world)]


@pytest.mark.parametrize("seed", range(6))
def test_ranks_batches_and_micro_batches_change_on_the_way(plan, seed):
    """Another world, micro-batch or batch at every stop, state by JSON: nothing lost, nothing twice."""
    draw = random.Random(seed)
    whole = list(rows(Reader(plan, BATCH, epochs=2)))
    read, state = [], None
    while len(read) < len(whole):
        world = draw.choice([1, 2, 3, 4, 6, 8])
        batch = draw.choice([BATCH, 48, world])
        micro = draw.choice([m for m in range(1, batch // world + 1) if batch // world % m == 0])
        ranks = [
            Reader(plan, batch, r, world, state, micro=micro, epochs=2, prefetch=draw.choice([0, 1, 3]))
            for r in range(world)
        ]
        steps = draw.randrange(1, 6)
        read += merged([take(reader, steps) for reader in ranks])
        states = [json.dumps(reader.state_dict()) for reader in ranks]
        assert len(set(states)) == 1 and len(states[0]) < 300
        state = json.loads(states[0])
        assert state["sequences"] == len(read)
    assert read == whole


def test_a_state_says_the_epoch_and_is_small_at_the_largest_numbers(root):
    plan = Plan(open_tokens(root), length=16, packing="best-fit", seed=(1 << 63) - 1, shuffle="block")
    reader = Reader(plan, 8, epochs=None)
    reader.load_state_dict({**reader.state_dict(), "sequences": 10**17, "epoch": 10**17 // plan.sequences})
    state = reader.state_dict()
    assert len(json.dumps(state)) < 300
    assert (state["sequences"], state["epoch"]) == (10**17, 10**17 // plan.sequences)
    (batch,) = take(reader, 1)
    assert batch.sequences.tolist() == list(range(10**17, 10**17 + 8))


def test_a_batch_is_consumed_when_the_loop_gets_it(plan):
    reader = Reader(plan, 8, prefetch=4)
    for at, batch in enumerate(reader):
        assert reader.state_dict()["sequences"] == batch.consumed == 8 * (at + 1)
        if at == 3:
            break
    assert [b.sequences[0] for b in take(reader, 2)] == [32, 40]  # the loop goes on where it stopped


def test_the_end_is_a_smaller_batch_or_none(plan):
    rest = plan.sequences % 7
    assert rest
    batches = list(Reader(plan, 7))
    assert [len(b) for b in batches] == [7] * (plan.sequences // 7) + [rest]
    assert len(list(Reader(plan, 7, drop_last=True))) == plan.sequences // 7
    ranks = [list(Reader(plan, 28, r, 4)) for r in range(4)]
    assert {len(r) for r in ranks} == {-(-plan.sequences // 28)}
    last = [len(r[-1]) for r in ranks]
    assert sum(last) == plan.sequences % 28 and last == sorted(last, reverse=True)
    empty = [r[-1] for r in ranks if not len(r[-1])]
    for batch in empty:
        assert batch.input_ids.shape == (0, 16) and batch.cu_seqlens.tolist() == [0] and batch.max_seqlen == 0
    assert list(Reader(plan, 7, state=None, epochs=1).batches())
    with pytest.warns(UserWarning, match="nothing is left to read"):
        assert not list(_at_end(plan))


def _at_end(plan):
    reader = Reader(plan, 7)
    assert sum(len(b) for b in reader) == plan.sequences
    return reader


def test_epochs_differ_and_each_holds_every_token_once(plan):
    first, second = (list(rows(Reader(plan, 5, epochs=2)))[n : n + plan.sequences] for n in (0, plan.sequences))
    assert sorted(ids for _, ids, *_ in first) == sorted(ids for _, ids, *_ in second)
    assert [ids for _, ids, *_ in first] != [ids for _, ids, *_ in second]


def test_stores_are_mixed_by_weight_and_each_in_its_own_order(root, tmp_path):
    two = make_store(tmp_path / "b", bodies(60, seed=9), salt="b")
    stores = [open_tokens(root), open_tokens(two)]
    plan = Plan(stores, length=16, weights=[0.25, 0.75])
    alone = [Plan(s, length=16) for s in stores]
    seen = {0: [], 1: []}
    for b in Reader(plan, 8, epochs=2):
        for at, (g, source) in enumerate(zip(b.sequences.tolist(), b.sources.tolist(), strict=True)):
            seen[source].append((g, b.input_ids[at].tolist()))
    total = 2 * plan.sequences
    assert abs(len(seen[1]) - total * 3 // 4) <= 1
    store_one = [ids for _, ids, *_ in rows(take(Reader(alone[0], 1), min(20, len(seen[0]))))]
    assert [ids for _, ids in seen[0][:20]] == store_one[:20]  # the same key: store 0 of the plan
    lap = plan.counts[1]
    laps = [sorted(ids for _, ids in seen[1][n : n + lap]) for n in range(0, len(seen[1]) - lap + 1, lap)]
    assert len(laps) > 1 and all(one == laps[0] for one in laps)  # each time round, all of it


def test_without_weights_an_epoch_is_every_token_of_every_store_once(root, tmp_path):
    two = make_store(tmp_path / "b", bodies(33, seed=9), salt="b")
    plan = Plan([open_tokens(root), open_tokens(two)], length=16)
    read = [(p.source, p.start, p.stop) for g in range(plan.sequences) for p in plan.locate(g)]
    assert len(set(read)) == plan.sequences
    assert sum(b - a for _, a, b in read) == sum(s.tokens for s in plan.sources)
    again = [(p.source, p.start, p.stop) for g in range(plan.sequences, 2 * plan.sequences) for p in plan.locate(g)]
    assert sorted(again) == sorted(read) and again != read


# --- states that do not fit


def refused(plan, state, *words):
    with pytest.raises(ConfigError) as error:
        Reader(plan, 8, state=state)
    for word in words:
        assert word in str(error.value), str(error.value)
    assert "\n" not in str(error.value)


def test_a_state_of_another_plan_is_refused_and_says_what_differs(root, tmp_path, plan):
    state = Reader(plan, 8).state_dict()
    store = open_tokens(root)
    other = open_tokens(make_store(tmp_path / "b", bodies(seed=5)))
    refused(Plan(store, length=32, seed=2), state, "another plan", "length of a sequence: 16 there, 32 here")
    refused(Plan(store, length=16, seed=3), state, "seed: 2 there, 3 here")
    refused(Plan(store, length=16, seed=2, packing="best-fit"), state, "packing: concat there, best-fit here")
    refused(Plan(store, length=16, seed=2, shuffle="none"), state, "shuffle: feistel there, none here")
    refused(Plan(other, length=16, seed=2), state, "the tokens themselves")
    refused(Plan(other, length=32, seed=2), state, "the tokens themselves", "length")
    refused(plan, {**state, "plan": "0" * 32}, "its fingerprint differs")
    Reader(Plan(open_tokens(root), length=16, seed=2), 8, state=state)


WRONG = {
    "sequences": (-1, 1.5, 8.0, True, None, "8", [8], 10**19, float("nan")),
    "decisions": (-1, 0.0, False, None, "0", 10**19),
    "epoch": (-1, 1, 0.0, False, None, "x", 10**19),  # 0 it is
    "length": (16.0, "16", None, 17),
    "seed": (True, "1", 2.0),
    "stores": (None, 3, "0" * 12),
    "packing": ("best-fit", None),
    "shuffle": (["feistel"], "block"),
    "format": (True, 1.0, "1", None, 2),
    "mixture": (None, 1, "0" * 12),
}


@pytest.mark.parametrize(("field", "value"), [(k, v) for k, values in WRONG.items() for v in values])
def test_a_changed_field_is_refused_and_named(plan, field, value):
    state = Reader(plan, 8).state_dict()
    said = {"format": "no state of a token reader", "mixture": "mixing weights"}.get(field, f"the state's '{field}' is")
    refused(plan, {**state, field: value}, said)
    refused(plan, {k: v for k, v in state.items() if k != field}, said)
    Reader(plan, 8, state=state)


def test_a_refused_state_changes_nothing_and_one_behind_the_end_is_refused(plan):
    reader = Reader(plan, 8, epochs=2)
    took = take(reader, 2)[-1]
    state = reader.state_dict()
    with pytest.raises(ConfigError):
        reader.load_state_dict({**state, "epoch": -1})
    assert reader.state_dict() == state and take(reader, 1)[0].sequences[0] == took.consumed
    far = {**state, "sequences": plan.sequences + 1, "epoch": 1}
    refused(plan, far, "epochs=1", "more epochs")
    assert Reader(plan, 8, epochs=2, state=far).consumed == plan.sequences + 1


@pytest.mark.parametrize("wrong", [{}, {"format": 2}, [], None.__class__, "state", 7])
def test_what_is_no_state_is_refused(plan, wrong):
    refused(plan, wrong, "no state of a token reader")


def test_weights_change_only_ahead(root, tmp_path):
    stores = [open_tokens(root), open_tokens(make_store(tmp_path / "b", bodies(60, seed=9), salt="b"))]
    before = Plan(stores, length=16, weights=[1, 1])
    reader = Reader(before, 8, epochs=None)
    take(reader, 3)
    state = reader.state_dict()
    ahead = Plan(stores, length=16, weights=[1, 1], changes=[(24, [0, 1])])
    got = take(Reader(ahead, 8, state=state, epochs=None), 2)
    assert all((b.sources == 1).all() for b in got)
    assert got[0].sequences[0] == 24
    refused(Plan(stores, length=16, weights=[1, 1], changes=[(23, [0, 1])]), state, "24 sequences", "weights")
    refused(Plan(stores, length=16, weights=[1, 2]), state, "weights")
    later = Reader(ahead, 8, state=state, epochs=None)
    take(later, 1)
    refused(before, later.state_dict(), "weights")  # what was read by the change knows it


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"batch": 0}, "batch 0: at least 1"),
        ({"batch": 24, "world": 5}, "multiple of 5"), ({"batch": 24, "rank": -1}, "rank"),
        ({"batch": 24, "rank": 2, "world": 2}, "rank"), ({"batch": 24, "world": 0}, "world 0: at least 1"),
        ({"batch": 24, "micro": 5}, "5 seq"), ({"batch": 24, "world": 2, "micro": 24}, "24 seq"),
        ({"batch": 24, "epochs": 0}, "epochs"), ({"batch": 24, "pad": 1000}, "pad"), ({"batch": 1 << 28}, "cu_seqlens"),
        ({"batch": 24, "labels": "x"}, "labels"), ({"batch": 24, "positions": "x"}, "positions"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(plan, arguments, word):
    with pytest.raises(ConfigError, match=word):
        Reader(plan, **arguments)


# --- decisions while it runs


def unlearned_rows(batches, number):
    """Of the sequences that hold a document, those in which none of its tokens is learned."""
    out = {}
    for b in batches:
        starts = b.cu_seqlens.tolist()
        flat = b.labels.reshape(-1)
        at = 0
        for row, documents in enumerate(b.documents):
            while starts[at] < row * b.labels.shape[1]:
                at += 1
            for which, document in enumerate(documents.tolist()):
                if document == number:
                    part = flat[starts[at + which] : starts[at + which + 1]]
                    out[int(b.sequences[row])] = bool((part == -100).all())
    return out


@pytest.mark.parametrize("prefetch", [0, 4])
def test_a_running_reader_honours_a_decision_at_once(tmp_path, prefetch):
    """Also what was prefetched before it; order, ids and state's count stay; a replay of the past sees the past."""
    root = make_store(tmp_path / "t", bodies(12, longest=90, seed=1), per_shard=5)
    plan = Plan(open_tokens(root), length=16, seed=2)
    number = 7
    plain = list(Reader(plan, 4, epochs=3))
    reader, read = Reader(plan, 4, epochs=3, prefetch=prefetch), []
    since = 0
    for at, batch in enumerate(reader):
        read.append(batch)
        if at == 4:
            assert reader.state_dict()["decisions"] == 0
            since = batch.consumed
            append(root, [Decision("mask", "doc_id", doc_id(number).hex(), from_sequence=since)])
    assert reader.state_dict()["decisions"] == 1
    for one, two in zip(plain, read, strict=True):
        assert np.array_equal(one.input_ids, two.input_ids) and np.array_equal(one.sequences, two.sequences)
        assert np.array_equal(one.cu_seqlens, two.cu_seqlens)
    fates = unlearned_rows(read, number)
    before = unlearned_rows(plain, number)
    assert {g for g in fates if g >= since} and {g for g in fates if g < since and not fates[g]}
    assert all(fates[g] for g in fates if g >= since)
    assert all(fates[g] == before[g] for g in fates if g < since)
    again = list(Reader(Plan(open_tokens(root), length=16, seed=2), 4, epochs=3))
    assert [b.labels.tolist() for b in again] == [b.labels.tolist() for b in read]


def test_decisions_that_a_state_knows_must_be_there(tmp_path):
    root = make_store(tmp_path / "t", bodies(12))
    append(root, [Decision("mask", "doc_id", doc_id(3).hex())])
    plan = Plan(open_tokens(root), length=16)
    state = Reader(plan, 4).state_dict()
    assert state["decisions"] == 1
    Path(root, "decisions.jsonl").unlink()
    refused(Plan(open_tokens(root), length=16), state, "decisions", "1 lines, here are 0")


# --- threads and processes


def test_readers_of_one_plan_do_not_disturb_each_other(plan):
    """Ranks as threads over one plan, at other places of it."""
    whole = list(rows(Reader(plan, 12, epochs=8)))
    readers = [Reader(plan, 12, r, 4, epochs=8) for r in range(4)]
    loops = [iter(r) for r in readers]
    shared = [[next(loop)] for loop in loops]
    for loop, batches in zip(loops, shared, strict=True):
        batches.extend(loop)
    assert list(merged(shared)) == whole


def test_the_thread_ends_with_the_loop(plan):
    before = threading.active_count()
    for _ in range(5):
        take(Reader(plan, 4, prefetch=2), 2)
    assert threading.active_count() == before
    for at, _ in enumerate(Reader(plan, 4, prefetch=2)):
        assert threading.active_count() == before + 1 or at > 2
    assert threading.active_count() == before


PROGRAM = """
import json, os, sys
from cleanpipe.tokens import Plan, Reader, open_tokens
root, log = sys.argv[1:]
lines = open(log, "rb").read().split(b"\\n")[:-1] if os.path.exists(log) else []
if lines:
    os.truncate(log, sum(len(line) + 1 for line in lines))  # a line that the kill cut short
plan = Plan(open_tokens(root), length=16, packing="best-fit", seed=2)
reader = Reader(plan, 6, epochs=4, state=json.loads(lines[-1])["state"] if lines else None)
out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
free = False
for batch in reader:
    free = free or not sys.stdin.readline()  # a line is leave for one batch, the end of them for all
    read = [batch.sequences.tolist(), batch.input_ids[:, :4].tolist()]
    os.write(out, json.dumps({"read": read, "state": reader.state_dict()}).encode() + b"\\n")
    print(flush=True)
print("end", flush=True)
"""


def test_twenty_kills_at_random_points_lose_and_repeat_nothing(root, tmp_path):
    log = tmp_path / "log"
    command = [sys.executable, "-c", PROGRAM, root, str(log)]
    draw = random.Random(4)
    for _ in range(20):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        process.stdin.write("\n" * draw.randrange(2, 6))
        for _ in range(draw.randrange(1, 3)):
            assert process.stdout.readline() == "\n"
        threading.Event().wait(draw.choice([0, 0, 0.0005, 0.002]) * draw.random())
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.endswith("end\n")
    plan = Plan(open_tokens(root), length=16, packing="best-fit", seed=2)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    read = [line["read"] for line in lines]
    assert read == [[b.sequences.tolist(), b.input_ids[:, :4].tolist()] for b in Reader(plan, 6, epochs=4)]
