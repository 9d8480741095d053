"""How full sequences would be: against packing one document after the other."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.tokens.audit.packing import best_fit, fills
from cleanpipe.tokens.reading.packing import pack


def one_by_one(lengths: list[int], length: int) -> int:
    """Best-fit decreasing as it is defined."""
    rooms: list[int] = []
    whole = 0
    rest = []
    for n in lengths:
        whole += n // length
        rest.append(n % length)
    for n in sorted((r for r in rest if r), reverse=True):
        fitting = [(room, i) for i, room in enumerate(rooms) if room >= n]
        if fitting:
            rooms[min(fitting)[1]] -= n
        else:
            rooms.append(length - n)
    return whole + len(rooms)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 20))
def test_best_fit_at_once_is_best_fit_one_by_one(lengths: list[int], length: int) -> None:
    assert best_fit(Counter(lengths), length) == one_by_one(lengths, length)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=1, max_size=80), st.integers(2, 25))
def test_best_fit_is_what_a_plan_of_one_group_packs(lengths: list[int], length: int) -> None:
    assert best_fit(Counter(lengths), length) == len(pack(np.array(lengths, np.int64), length).ends)


@pytest.mark.parametrize(
    ("counts", "sequences"),
    [
        ({}, 0),
        ({10: 3}, 3),  # exactly full
        ({6: 2, 4: 2}, 2),
        ({6: 3, 3: 3}, 3),  # one left over in each
        ({3: 7}, 3),  # three go into one
        ({25: 1, 5: 1}, 3),  # two full ones, then 5 + 5
        ({0: 4}, 0),
    ],
)
def test_best_fit_by_hand(counts: dict[int, int], sequences: int) -> None:
    assert best_fit(counts, 10) == sequences


def test_fills_by_hand() -> None:
    # 3 documents of 1,024 and one of 3,000 tokens: 6,072 tokens, 6 windows that hold 7,000
    found = fills({1024: 3, 3000: 1}, 6, 7000)["2048"]
    assert found["concat"]["sequences"] == 3
    assert found["concat"]["padding"] == 3 * 2048 - 6072
    assert found["concat"]["fill"]["value"] == round(6072 / 6144, 6)
    # (3 · 1,023 + 2,048) / 2,048 = 2.498…, rounded down
    assert found["concat"]["documents_cut"]["numerator"] == 2
    # 2,048 of the long one; 952 + 1,024; 1,024 + 1,024
    assert found["best_fit"]["sequences"] == 3
    assert found["best_fit"]["documents_cut"]["numerator"] == 1
    assert found["document_each"]["sequences"] == 5
    assert found["window_each"]["fill"]["value"] == round(7000 / (6 * 2048), 6)


def test_windows_longer_than_a_sequence_say_nothing() -> None:
    assert fills({5000: 1}, 1, 5000)["2048"]["window_each"]["fill"]["value"] == "not measured"
    assert fills({}, 0, 0)["4096"]["concat"]["fill"]["value"] == "not applicable"
