"""Resuming far into a store of over 10⁹ sequences costs what resuming at its begin costs: counted, not timed."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from cleanpipe.tokens import Plan, Reader, open_tokens

LENGTH, BATCH = 4096, 24


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
    try:
        from synthetic_tokens import make_sparse
    finally:
        sys.path.pop(0)
    return make_sparse(tmp_path_factory.mktemp("sparse") / "t", documents=1 << 12)


@pytest.fixture(scope="module")
def counts(root):
    return {place: resumed(root, place) for place in (10, 10**9)}


def resumed(root, place):
    store = open_tokens(str(root))
    read, asked = store.read, []

    def counted(start, stop):
        asked.append(stop - start)
        return read(start, stop)

    store.read = counted
    plan = Plan(store, length=LENGTH, seed=5)
    state = {**Reader(plan, BATCH).state_dict(), "sequences": place}
    assert len(json.dumps(state)) < 300
    reader = Reader(plan, BATCH, state=state, prefetch=0)
    batch = next(iter(reader))
    assert batch.sequences.tolist() == list(range(place, place + BATCH))
    assert reader.state_dict()["sequences"] == place + BATCH
    blocks = sum(bin(byte).count("1") for seen in store._seen.values() for byte in seen if byte)
    return {
        "sequences": plan.sequences,
        "asked": asked,
        "blocks": blocks,
        "starts": plan.rows(batch.sequences).index,
    }


def test_the_store_has_over_a_billion_sequences(counts):
    assert counts[10]["sequences"] == 1 << 30


def test_the_same_bytes_are_read_at_both_places(counts):
    assert counts[10]["asked"] == counts[10**9]["asked"] == [LENGTH + 1] * BATCH


def test_no_block_is_read_that_holds_nothing_of_the_batch(counts):
    for found in counts.values():
        first = found["starts"] * 2 * LENGTH
        wanted = {block for a in first.tolist() for block in range(a >> 16, ((a + 2 * LENGTH + 1) >> 16) + 1)}
        assert found["blocks"] == len(wanted)


def test_places_are_far_apart(counts):
    """The order is over the whole store: a batch does not come from one shard."""
    for found in counts.values():
        assert len(np.unique(found["starts"] // (1 << 20))) > BATCH // 2
