"""The reader as PyTorch takes data: same stream for any loader, any number of workers, any stop."""

import copy
import json
import multiprocessing
import os
import pickle
import time
import traceback

import numpy as np
import pytest
from made_tokens import doc_id, make_store

from cleanpipe.errors import ConfigError, DamagedFileError
from cleanpipe.tokens import Plan, Reader, TokenDataset, collate, open_tokens, remask, state_after
from cleanpipe.tokens.decisions import Decision, append

os.environ.setdefault("OMP_NUM_THREADS", "1")
torch = pytest.importorskip("torch", reason="the extra gpu brings PyTorch")
from torch.utils.data import DataLoader  # noqa: E402

from cleanpipe.tokens import TokenIterableDataset  # noqa: E402

torch.set_num_threads(1)
pytestmark = [
    # workers are forked, as PyTorch does on Linux; newer Pythons warn of it
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),  # more workers than cores
    pytest.mark.filterwarnings("ignore:.set_vital. is deprecated:UserWarning"),  # torchdata with a newer torch
]
NAMES = ("input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen", "sequences")
BATCH = 24


def bodies(count=120, seed=0, longest=60):
    draw = np.random.default_rng(seed)
    return [draw.integers(3, 1000, draw.integers(0, longest)).tolist() for _ in range(count)]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("tokens") / "t", bodies(), per_shard=40)


@pytest.fixture
def plan(root):
    return Plan(open_tokens(root), length=16, packing="best-fit", seed=2)


def plain(batch):
    return {n: batch[n].tolist() if hasattr(batch[n], "tolist") else batch[n] for n in NAMES}


def expected(plan, batch, **more):
    return [plain(b.arrays()) for b in Reader(plan, batch, **more)]


def test_tensors_have_the_types_that_models_take(plan):
    batch = next(iter(TokenIterableDataset(plan, 4)))
    assert {batch[n].dtype for n in ("input_ids", "labels", "position_ids", "sequences")} == {torch.int64}
    assert batch["cu_seqlens"].dtype == torch.int32 and type(batch["max_seqlen"]) is int
    assert all(batch[n].is_contiguous() for n in ("input_ids", "labels", "position_ids"))
    loss = torch.nn.functional.cross_entropy(torch.zeros(4 * 16, 1000), batch["labels"].reshape(-1))
    assert abs(float(loss) - np.log(1000)) < 1e-4  # -100 is left out


def failure(loader):
    """The error that reading a loader to its end raises, without the frames that would keep its workers."""
    try:
        list(loader)
    except (ConfigError, DamagedFileError) as error:
        traceback.clear_frames(error.__traceback__)
        return f"{type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_map_style_is_the_stream(plan, workers):
    loader = DataLoader(TokenDataset(plan, epochs=2), batch_size=8, collate_fn=collate, num_workers=workers)
    assert [plain(b) for b in loader] == expected(plan, 8, epochs=2)


def test_map_style_one_by_one_and_in_any_order(plan):
    data = TokenDataset(plan)
    assert len(data) == plan.sequences
    order = [5, 3, 9, 0]
    rows = [data[g] for g in order]
    assert all(type(a) is np.ndarray or type(a) is int for r in rows for a in r.values())
    assert rows[0]["input_ids"].shape == (16,) and rows[0]["cu_seqlens"][-1] == 16
    assert plain(collate(rows)) == plain(collate(data.__getitems__(order)))
    assert plain(collate([data[g] for g in range(4)])) == expected(plan, 4)[0]
    for bad in (-1, len(data)):
        with pytest.raises(IndexError):
            data[bad]


def test_map_style_is_a_source_of_random_access(plan):
    """What Grain's MapDataset.source asks for: len and [], of any integer type."""
    data = TokenDataset(plan, labels="same")
    assert np.array_equal(data[np.int64(3)]["input_ids"], data[3]["input_ids"])
    assert set(data[0]) == {*NAMES, "decisions"}


@pytest.mark.parametrize("workers", [0, 1, 4])
@pytest.mark.parametrize("world", [1, 2, 3, 4, 6, 8])
def test_ranks_and_workers_change_nothing(plan, world, workers):
    whole = expected(plan, BATCH)
    ids, labels = ([row for b in whole for row in b[n]] for n in ("input_ids", "labels"))
    shared = []
    for rank in range(world):
        data = TokenIterableDataset(plan, BATCH, rank, world, prefetch=0)
        shared.append(list(DataLoader(data, batch_size=None, num_workers=workers)))
    assert len({len(batches) for batches in shared}) == 1
    read = {}
    for step in zip(*shared, strict=True):
        got = [g for b in step for g in b["sequences"].tolist()]
        assert got == list(range(len(read), len(read) + len(got)))
        read.update(
            (g, (i, t))
            for b in step
            for g, i, t in zip(b["sequences"].tolist(), b["input_ids"].tolist(), b["labels"].tolist(), strict=True)
        )
        assert len({b["consumed"] for b in step}) == 1 and step[0]["consumed"] == len(read)
    assert list(read.values()) == list(zip(ids, labels, strict=True))


def test_a_plain_loader_goes_on_with_other_workers_and_ranks(plan):
    """Workers are ahead of the loop; state_after knows what the loop got."""
    whole = [row for b in expected(plan, BATCH, epochs=2) for row in b["input_ids"]]
    read, state = [], None
    for world, workers, steps in [(1, 4, 2), (2, 0, 1), (3, 1, 2), (1, 4, 100)]:
        parts = []
        for rank in range(world):
            data = TokenIterableDataset(plan, BATCH, rank, world, epochs=2, state=state)
            loader = iter(DataLoader(data, batch_size=None, num_workers=workers))
            parts.append([b for b, _ in zip(loader, range(steps), strict=False)])
            del loader
        read += [row for step in zip(*parts, strict=True) for b in step for row in b["input_ids"].tolist()]
        states = [json.dumps(state_after(plan, batches[-1])) for batches in parts]
        assert len(set(states)) == 1 and len(states[0]) < 300
        state = json.loads(states[0])
        assert state["sequences"] == len(read)
    assert read == whole


@pytest.mark.parametrize("workers", [0, 1, 4])
@pytest.mark.parametrize("stop", [1, 3, 6])
def test_within_a_stateful_loader(plan, workers, stop):
    loaders = pytest.importorskip("torchdata.stateful_dataloader")

    def loader():
        return loaders.StatefulDataLoader(TokenIterableDataset(plan, 8), batch_size=None, num_workers=workers)

    whole = expected(plan, 8)
    one, read, state = loader(), [], None
    for batch in one:
        read.append(plain(batch))
        if len(read) == stop:
            state = pickle.dumps(one.state_dict())
            break
    two = loader()
    two.load_state_dict(pickle.loads(state))
    read += [plain(b) for b in two]
    assert read == whole


@pytest.mark.parametrize(("start", "persistent"), [("fork", False), ("fork", True), ("spawn", False)])
def test_a_state_is_never_that_of_a_data_set_that_workers_read(plan, start, persistent):
    data = TokenIterableDataset(plan, 8, epochs=2, prefetch=0)
    begin = data.state_dict()
    assert begin["sequences"] == 0
    loader = DataLoader(
        data, batch_size=None, num_workers=2, multiprocessing_context=start, persistent_workers=persistent
    )
    reading = iter(loader)
    batch = next(reading)
    next(reading)  # of the other worker: one that is ended in the midst of its start may abort
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"state_after\(plan, batch\)"):
            data.state_dict()
        data.load_state_dict(state_after(plan, batch))  # it is where the next loop begins, not where that one will be
    for same in (copy.deepcopy(data), pickle.loads(pickle.dumps(data))):
        with pytest.raises(ConfigError, match="state_after"):
            same.state_dict()
        list(DataLoader(same, batch_size=None, num_workers=1))
        with pytest.raises(ConfigError, match="state_after"):
            same.state_dict()
    del loader, reading
    got = next(iter(DataLoader(data, batch_size=None)))  # read here again: it knows
    assert data.state_dict() == state_after(plan, got)
    assert data.state_dict()["sequences"] == 16
    assert TokenIterableDataset(plan, 8, state=begin).state_dict() == begin


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_a_copy_knows_its_own_workers_only(plan, copied):
    data = TokenIterableDataset(plan, 8)
    other = copied(data)
    list(DataLoader(other, batch_size=None, num_workers=1))
    assert data.state_dict()["sequences"] == 0
    with pytest.raises(ConfigError, match="state_after"):
        other.state_dict()


def test_a_loop_after_the_last_epoch_is_not_silent(plan):
    data = TokenIterableDataset(plan, 8, epochs=2)
    loader = DataLoader(data, batch_size=None)
    assert sum(len(b["sequences"]) for b in loader) == 2 * plan.sequences
    with pytest.warns(UserWarning, match=r"nothing is left to read.*epochs=2.*give epochs="):
        assert not list(loader)
    reader = Reader(plan, 8, state=Reader(plan, 8, epochs=2).state_dict())
    assert list(reader)
    with pytest.warns(UserWarning, match=r"of .* sequences are \(epochs=1\)"):
        assert not list(reader)
    short = Reader(plan, 8, drop_last=True)
    assert plan.sequences % 8 and list(short)
    with pytest.warns(UserWarning, match="nothing is left"):
        assert not list(short)
    data.load_state_dict(Reader(plan, 8).state_dict())
    assert sum(len(b["sequences"]) for b in loader) == 2 * plan.sequences


@pytest.mark.parametrize("turn", [[4, 4, 0], [0, 0, 0], [-1, 4, 2], [1, 4], "1 4 2", [1, 4, 2.0], [True, 4, 2], 7])
def test_a_turn_that_cannot_be_is_refused(plan, turn):
    data = TokenIterableDataset(plan, 8)
    with pytest.raises(ConfigError, match="the state's 'worker' is"):
        data.load_state_dict({**data.state_dict(), "worker": turn})


def test_a_turn_of_another_number_of_workers_is_refused(plan):
    data = TokenIterableDataset(plan, 8)
    state = {**data.state_dict(), "worker": [1, 4, 2]}
    data.load_state_dict(state)
    told = failure(DataLoader(data, batch_size=None, num_workers=2))
    assert told.startswith("ConfigError") and "worker 1 of 4 given to worker 0 of 2" in told


@pytest.mark.parametrize("workers", [0, 2])
def test_damage_is_told_through_the_loader(tmp_path, workers):
    root = make_store(tmp_path / "t", bodies())
    plan = Plan(open_tokens(root), length=16)
    (path,) = (tmp_path / "t" / "tokens").glob("*.bin")
    data = bytearray(path.read_bytes())
    data[-1] ^= 128
    path.write_bytes(data)
    told = failure(DataLoader(TokenIterableDataset(plan, 8), batch_size=None, num_workers=workers))
    assert told.startswith("DamagedFileError") and "https://host" in told


def test_decisions_reach_workers(tmp_path):
    root = make_store(tmp_path / "t", bodies(30))
    plan = Plan(open_tokens(root), length=16)
    before = [plain(b) for b in DataLoader(TokenIterableDataset(plan, 8), batch_size=None, num_workers=2)]
    append(root, [Decision("mask", "doc_id", doc_id(n).hex()) for n in range(30)])
    loader = DataLoader(TokenIterableDataset(plan, 8), batch_size=None, num_workers=2)
    after = list(loader)
    assert all((b["labels"] == -100).all() and b["decisions"] == 30 for b in after)
    assert [b["input_ids"].tolist() for b in after] == [b["input_ids"] for b in before]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("style", ["map", "iterable"])
def test_what_workers_made_before_a_decision_is_masked_by_remask(tmp_path, style, workers):
    root = make_store(tmp_path / "t", bodies(60))
    append(root, [Decision("mask", "host", "host1.example")])
    plan = Plan(open_tokens(root), length=16)
    made = multiprocessing.get_context("fork").Value("i", 0)

    def counted(rows):
        with made.get_lock():
            made.value += 1
        return collate(rows) if style == "map" else rows

    data, size = (TokenDataset(plan), 4) if style == "map" else (TokenIterableDataset(plan, 4), None)
    ahead = {"prefetch_factor": 4} if workers else {}
    loop = iter(DataLoader(data, size, collate_fn=counted, num_workers=workers, **ahead))
    first = next(loop)
    assert remask(plan, first) is first and first["decisions"] == 1
    while made.value < (4 if workers else 1):  # those ahead are made
        time.sleep(0.01)
    append(root, [Decision("quarantine", "host", "host3.example"), Decision("revoke", "line", "1")])
    late = 0
    wanted = list(Reader(Plan(open_tokens(root), length=16), 4))[1:]
    for batch, right in zip(loop, wanted, strict=True):
        late += batch["decisions"] != 3
        got = remask(plan, batch)
        assert got["sequences"].tolist() == right.sequences.tolist()
        assert got["input_ids"].tolist() == right.input_ids.tolist()
        assert got["labels"].tolist() == right.labels.tolist() and got["labels"].dtype == torch.int64
        assert got["decisions"] == 3
        if style == "iterable":
            state = state_after(plan, got)
            assert (state["decisions"], state["seal"]) == (3, right.seal)
            assert Reader(plan, 4, state=state).consumed == right.consumed
    assert bool(late) == bool(workers)  # some were made ahead


def test_it_goes_to_spawned_workers(plan):
    data = TokenIterableDataset(plan, 8)
    again = pickle.loads(pickle.dumps(data))
    assert [plain(b) for b in again] == [plain(b) for b in data]
    loader = DataLoader(TokenDataset(plan), 8, collate_fn=collate, num_workers=1, multiprocessing_context="spawn")
    assert [plain(b) for b in loader] == expected(plan, 8)
