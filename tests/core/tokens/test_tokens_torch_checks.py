"""Ids outside the vocabulary and control ids are counted alike with NumPy and on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.tokens.backends.device_checks import IdChecks, check_ids

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

Kind = Callable[[Any], Any]
kinds = pytest.mark.parametrize("kind", [np.array, torch.tensor], ids=["numpy", "torch"])


@kinds
def test_counts_by_hand(kind: Kind) -> None:
    found = check_ids(kind([5, 1, 1, 4, 6, -1, 5, 7]), 6, [4, 5, 9])
    assert found.histogram.tolist() == [0, 2, 0, 0, 1, 2]
    assert found.outside == 3  # 6, -1 and 7
    assert found.controls == {4: 1, 5: 2}
    assert found.ids == 8
    assert found.unseen == 3
    assert found.facts() == {"ids": 8, "outside_vocabulary": 3, "control_ids": 3, "unseen": 3}


@kinds
def test_nothing_yet(kind: Kind) -> None:
    checks = IdChecks(3, [0])
    assert checks.found().facts() == {"ids": 0, "outside_vocabulary": 0, "control_ids": 0, "unseen": 3}
    checks.add(kind([]))
    assert checks.found().ids == 0


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.int32, np.int64, np.uint64])
def test_no_width_wraps(dtype: Any) -> None:
    largest = np.iinfo(dtype).max
    found = check_ids(np.array([0, 65_535, largest], dtype), 65_536, [])
    assert found.histogram[0] == 1
    assert found.outside == (0 if largest == 65_535 else 1)
    assert found.histogram[65_535] == (2 if largest == 65_535 else 1)


@given(st.lists(st.lists(st.integers(-3, 40), max_size=30), max_size=6), st.integers(1, 32))
def test_batches_sum_up_whoever_counts(batches: list[list[int]], vocabulary: int) -> None:
    here, there, mixed = (IdChecks(vocabulary, [0, 7]) for _ in range(3))
    for index, batch in enumerate(batches):
        array = np.array(batch, np.int64)
        here.add(array)
        there.add(torch.from_numpy(array))
        mixed.add(array if index % 2 else torch.from_numpy(array))
    flat = [one for batch in batches for one in batch]
    for checks in (here, there, mixed):
        found = checks.found()
        assert found.histogram.tolist() == [flat.count(one) for one in range(vocabulary)]
        assert found.outside == sum(not 0 <= one < vocabulary for one in flat)
        assert found.controls == {one: flat.count(one) for one in (0, 7) if one < vocabulary and one in flat}
