"""A reader and the file of decisions: what is in force stays in force, in a state too, and what is new costs little."""

import json
import random
from pathlib import Path

import pytest
from made_tokens import doc_id, make_store

from cleanpipe.errors import CleanpipeError, ConfigError, DamagedFileError
from cleanpipe.tokens import Plan, Reader, open_tokens, remask
from cleanpipe.tokens import decisions_effects as effects_of
from cleanpipe.tokens import decisions_lines as lines_of
from cleanpipe.tokens.decisions import Decision, append, load
from cleanpipe.tokens.layout import DECISIONS
from cleanpipe.tokens.reading.plan import seal
from cleanpipe.tokens.reading.sequences import IGNORED

BODIES = [[3 + (i * j) % 900 for j in range(5 + i % 40)] for i in range(60)]


def mask(number, **more):
    return Decision("mask", "doc_id", doc_id(number).hex(), **more)


@pytest.fixture
def root(tmp_path):
    root = make_store(tmp_path / "t", BODIES, per_shard=13)
    append(root, [mask(n) for n in (4, 5)], time="2026-11-30T12:00:00Z")
    return root


def plan_of(*roots):
    return Plan([open_tokens(r) for r in roots], length=32, seed=3)


def learned(batch):
    return int((batch.labels != IGNORED).sum())


# --- what a running reader knows


def cut(data):
    return data[: data.index(b"\n") + 1]


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("what", ["emptied", "deleted", "cut", "torn", "replaced", "swapped for a longer one"])
def test_lines_in_force_are_never_dropped(root, prefetch, what):
    reader = Reader(plan_of(root), 4, prefetch=prefetch)
    loop = iter(reader)
    next(loop)
    path = Path(root, DECISIONS)
    data = path.read_bytes()
    if what in ("replaced", "swapped for a longer one"):
        path.unlink()
        append(root, [mask(n) for n in ((7, 8) if what == "replaced" else (7, 8, 9))])
    elif what == "deleted":
        path.unlink()
    else:
        path.write_bytes({"emptied": b"", "cut": cut(data), "torn": data[:-5]}[what])
    for _ in range(2):  # the second look says it too
        with pytest.raises(ConfigError, match=r"no longer begins with the 2 lines in force"):
            reader.load_state_dict({})
    with pytest.raises(ConfigError, match=r"no longer begins with the 2 lines in force"):
        list(loop)
    assert reader.state_dict()["decisions"] == 2
    path.write_bytes(data)  # put back: it goes on
    append(root, [mask(20)])
    assert list(reader)[-1].decisions == 3


def test_one_line_in_force(root, tmp_path):
    other = make_store(tmp_path / "o", BODIES)
    append(other, [mask(1)])
    reader = Reader(plan_of(other), 4)
    (tmp_path / "o" / DECISIONS).unlink()
    with pytest.raises(ConfigError, match="no longer begins with the line in force"):
        next(iter(reader))


def test_an_extension_is_taken_up(root):
    reader = Reader(plan_of(root), 4, prefetch=0)
    loop = iter(reader)
    assert next(loop).decisions == 2
    append(root, [Decision("mask", "host", f"host{n}.example") for n in range(7)])
    assert all(learned(b) == 0 and b.decisions == 9 for b in loop)


# --- states


def test_a_state_knows_the_lines_and_not_only_how_many(root):
    reader = Reader(plan_of(root), 4)
    next(iter(reader))
    state = reader.state_dict()
    assert (state["decisions"], state["seal"]) == (2, load(root).digest[:8])
    assert len(json.dumps(state)) < 300
    append(root, [mask(9)])
    assert Reader(plan_of(root), 4, state=state).consumed == 4  # an extension
    Path(root, DECISIONS).unlink()
    append(root, [mask(n) for n in (6, 7, 8)], time="2026-11-30T12:00:00Z")
    with pytest.raises(ConfigError, match="does not begin with the lines that the state was written under"):
        Reader(plan_of(root), 4, state=state)
    old = {k: v for k, v in state.items() if k != "seal"}
    assert Reader(plan_of(root), 4, state=old).consumed == 4  # of a version that kept none


@pytest.mark.parametrize("wrong", ["", "zzzzzzzz", "0" * 9, 7, True, [], "01234567:2.0", "01234567:1", "01234567:"])
def test_a_seal_that_cannot_be(root, wrong):
    state = Reader(plan_of(root), 4).state_dict()
    with pytest.raises(ConfigError, match="the state's 'seal' is"):
        Reader(plan_of(root), 4, state={**state, "seal": wrong})


def test_without_decisions_a_state_has_no_seal(tmp_path):
    root = make_store(tmp_path / "t", BODIES)
    state = Reader(plan_of(root), 4).state_dict()
    assert state["decisions"] == 0 and "seal" not in state
    append(root, [mask(1)])
    assert Reader(plan_of(root), 4, state=state).plan.decided[0] == 1


def test_a_state_of_several_stores_knows_the_lines_of_each(root, tmp_path):
    roots = [root, make_store(tmp_path / "b", BODIES, salt="b"), make_store(tmp_path / "c", BODIES, salt="c")]
    append(roots[2], [Decision("mask", "host", "host1.example")])
    state = Reader(plan_of(*roots), 4).state_dict()
    assert state["decisions"] == 3 and state["seal"].endswith(":2.0.1") and len(json.dumps(state)) < 300
    assert state["seal"] == seal([(2, load(roots[0]).digest), (0, load(roots[1]).digest), (1, load(roots[2]).digest)])
    append(roots[1], [Decision("mask", "host", "host2.example")])
    append(roots[0], [mask(11)])
    assert Reader(plan_of(*roots), 4, state=state).plan.decided[0] == 5
    for wrong in (f"{state['seal'][:8]}:1.1.1", f"{state['seal'][:8]}:2.1.0", "00000000:2.0.1"):
        with pytest.raises(ConfigError, match="does not begin with"):
            Reader(plan_of(*roots), 4, state={**state, "seal": wrong})
    Path(roots[2], DECISIONS).unlink()
    append(roots[2], [Decision("mask", "host", "host3.example")])
    with pytest.raises(ConfigError, match="does not begin with"):
        Reader(plan_of(*roots), 4, state=state)


def test_a_state_of_very_many_stores_stays_small(root):
    roots = [root] * 40
    state = Reader(plan_of(*roots), 40).state_dict()
    assert state["decisions"] == 80 and len(json.dumps(state)) < 300 and len(state["seal"]) == 8
    assert Reader(plan_of(*roots), 40, state=state).consumed == 0
    with pytest.raises(ConfigError, match="does not begin with"):
        Reader(plan_of(*roots), 40, state={**state, "seal": "00000000"})


# --- what is new costs what is new


def test_of_a_longer_file_only_the_new_lines_are_read_and_weighed(root, monkeypatch):
    append(root, [Decision("mask", "url", f"https://host.example/none/{n}") for n in range(500)])
    reader = Reader(plan_of(root), 4, prefetch=0)
    loop = iter(reader)
    next(loop)
    parsed, weighed = [], []
    parse, hits = lines_of._parsed, effects_of._hits
    monkeypatch.setattr(lines_of, "_parsed", lambda raw: parsed.append(raw) or parse(raw))
    monkeypatch.setattr(effects_of, "_hits", lambda s, w, d: weighed.append(d.num_rows) or hits(s, w, d))
    append(root, [mask(20)])
    assert next(loop).decisions == 503
    assert (len(parsed), weighed) == (1, [1])
    append(root, [Decision("revoke", "line", "503")])
    next(loop)
    assert (len(parsed), weighed) == (2, [1, 1])
    next(loop)
    assert (len(parsed), weighed) == (2, [1, 1])


def test_a_change_in_what_was_read_before_is_found(root):
    path = Path(root, DECISIONS)
    data = path.read_bytes()
    for at in range(0, len(data) - 1, 37):
        assert load(root).version == 2
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(DamagedFileError, match="is not as it was written"):
            load(root)
        path.write_bytes(data)


@pytest.mark.parametrize("seed", range(6))
def test_effects_taken_up_step_by_step_are_those_of_all_at_once(root, seed):
    draw = random.Random(seed)
    store = open_tokens(root)
    for step in range(8):
        known = load(root)
        given = []
        for _ in range(draw.randrange(1, 4)):
            number = draw.randrange(60)
            action = draw.choice(["mask", "weight", "quarantine", "revoke"])
            since = draw.choice([0, 0, 5, 9])
            open_ = [d.number for d in known.lines if d.action != "revoke"]
            if action == "revoke":
                given.append(Decision("revoke", "line", str(draw.choice(open_)), from_sequence=since))
                continue
            kind, key = draw.choice(
                [
                    ("doc_id", doc_id(number).hex()),
                    ("url", f"host{number % 7}.example/{number}"),
                    ("host", f"host{number % 7}.example"),
                ]
            )
            weight = draw.choice([0.25, 0.5]) if action == "weight" else None
            given.append(Decision(action, kind, key, weight=weight, from_sequence=since))
        append(root, given)
        found = load(root)
        got = effects_of.effects(store, found)
        held = dict(effects_of._held)
        effects_of._held.clear()
        whole = effects_of.effects(store, found)
        effects_of._held.update(held)
        for name in ("documents", "actions", "weights", "since", "line"):
            assert getattr(got, name).tolist() == getattr(whole, name).tolist(), (step, name)


# --- files that are no decisions, and a store that is another one


@pytest.mark.parametrize(
    "line",
    [b"[" * 200_000, b'{"a":' * 50_000, b"NaN", b"-Infinity", b"1" * 10_000, b"1e999", b'"text"', b"null", b"{}",
     b"\xff", b'{"digest":NaN}', b'{"digest":' + b"9" * 5_000 + b"}", b"\0" * 100],
    ids=lambda b: repr(b[:12]),
)  # fmt: skip
def test_a_line_of_anything_is_damage_or_torn(root, line):
    path = Path(root, DECISIONS)
    path.write_bytes(path.read_bytes() + line)
    with pytest.warns(UserWarning, match="what is left of a line"):
        assert load(root).version == 2
    path.write_bytes(path.read_bytes() + b"\n")
    for ask in (lambda: load(root), lambda: append(root, [mask(9)]), lambda: Reader(plan_of(root), 4)):
        with pytest.raises(DamagedFileError, match="line 3 is not as it was written"):
            ask()


@pytest.mark.parametrize(
    "changed",
    [
        {"weight": float("nan")},
        {"weight": 10**400},
        {"number": True},
        {"number": 1.0},
        {"from_sequence": 0.0},
        {"from_sequence": 10**30},
        {"key": None},
        {"time": 5},
        {"action": {}},
        {"action": "revoke", "key_kind": "line", "key": "1"},
        {"action": "revoke", "key_kind": "line", "key": "9" * 18},
    ],
    ids=str,
)
def test_a_line_with_its_right_digest_that_says_nothing_is_refused(tmp_path, changed):
    import hashlib

    value = {**Decision("weight", "doc_id", "0f" * 16, weight=0.5, number=1).facts(), **changed}
    if changed.get("action") == "revoke":
        value["weight"] = None

    def spelled(v):
        return json.dumps(v, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()

    line = spelled({**value, "digest": hashlib.sha256(spelled(value)).hexdigest()}) + b"\n"
    (tmp_path / DECISIONS).write_bytes(line)
    with pytest.raises(DamagedFileError, match="line 1 "):
        load(tmp_path)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_store_that_was_made_again_is_no_damage(tmp_path, prefetch):
    root = make_store(tmp_path / "t", BODIES, per_shard=7)
    reader = Reader(plan_of(root), 2, prefetch=prefetch)
    loop = iter(reader)
    next(loop)
    make_store(tmp_path / "t", BODIES[1:], per_shard=7)
    with pytest.raises(ConfigError, match=r"was made again since it was opened: open it anew"):
        list(loop)
    with pytest.raises(ConfigError, match="another plan"):
        Reader(plan_of(root), 2, state=reader.state_dict())


def test_a_store_that_is_being_made_again_is_no_damage(tmp_path):
    root = make_store(tmp_path / "t", BODIES)
    store = open_tokens(root)
    (tmp_path / "t" / "work").mkdir()
    (tmp_path / "t" / "work" / "plan.json").write_text("{}")
    (tmp_path / "t" / "manifest.json").unlink()
    for path in (tmp_path / "t" / "spans").iterdir():
        path.unlink()
    with pytest.raises(ConfigError, match="was made again"):
        store.spans(0)


# --- one loop at a time


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_second_loop_takes_over(root, prefetch):
    reader = Reader(plan_of(root), 4, prefetch=prefetch)
    one, two = iter(reader), iter(reader)
    assert next(one).sequences.tolist() == [0, 1, 2, 3]
    assert next(two).sequences.tolist() == [4, 5, 6, 7]
    with pytest.raises(ConfigError, match="another loop over this reader began"):
        next(one)
    assert reader.consumed == 8
    assert [g for b in two for g in b.sequences.tolist()] == list(range(8, reader.end))
    assert list(one) == []


def test_a_loop_ends_where_the_reader_is_told_to_go_on_elsewhere(root):
    reader = Reader(plan_of(root), 4)
    begin = reader.state_dict()
    loop = iter(reader)
    next(loop)
    reader.load_state_dict(begin)
    with pytest.raises(ConfigError, match="load_state_dict"):
        next(loop)
    assert next(iter(reader)).sequences.tolist() == [0, 1, 2, 3]


# --- batches made before


@pytest.mark.parametrize("labels", ["next", "same"])
@pytest.mark.parametrize("packing", ["concat", "best-fit"])
def test_a_batch_made_before_a_decision_gets_the_labels_of_now(root, labels, packing):
    plan = Plan(open_tokens(root), length=32, packing=packing)
    made = list(Reader(plan, 4, labels=labels))
    assert all(remask(plan, b, labels=labels) is b for b in made)
    append(root, [Decision("mask", "host", "host3.example"), Decision("revoke", "line", "1")])
    again = list(Reader(plan, 4, labels=labels))
    for less, more in ((again, made), (made, again)):  # some labels are taken away, some come back
        pairs = zip(less, more, strict=True)
        assert any(((a.labels == IGNORED) & (b.labels != IGNORED)).any() for a, b in pairs)
    for old, new in zip(made, again, strict=True):
        got = remask(plan, old, labels=labels)
        assert got.labels.tolist() == new.labels.tolist() and got.input_ids is old.input_ids
        assert (got.decisions, got.seal) == (new.decisions, new.seal) == (4, load(root).digest[:8])
        plain = remask(plan, old.arrays(), labels=labels)
        assert plain["labels"].tolist() == new.labels.tolist() and plain["decisions"] == 4
    with pytest.raises(ConfigError, match="not of this plan, or its labels"):
        remask(plan, made[0], labels="same" if labels == "next" else "next")
    for wrong in (Plan(open_tokens(root), length=32, packing=packing, seed=9), Plan(open_tokens(root), length=16)):
        with pytest.raises(ConfigError, match=r"not of this plan|shape"):
            remask(wrong, made[0], labels=labels)


@pytest.mark.parametrize("wrong", [None, 5, {}, {"labels": 1}, []])
def test_what_is_no_batch_is_refused(root, wrong):
    with pytest.raises(CleanpipeError, match="takes a Batch"):
        remask(plan_of(root), wrong)
