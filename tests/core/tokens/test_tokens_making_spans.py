"""Windows as ranges of tokens: right values by hand, and the laws for any cut."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe.tokens.making.spans import cuts_of, ranges_of, repeated


def ints(*values):
    return np.array(values, np.int64)


def test_edges_snap_to_the_next_token_start():
    # "the quick brown fox": tokens the| quick| brown| fox begin at 0, 3, 9, 15; windows [0, 10), [6, 16), [12, 19)
    got = ranges_of(ints(0, 6, 12), ints(10, 16, 19), ints(0, 3, 9, 15))
    assert got.start.tolist() == [0, 2, 3]
    assert got.count.tolist() == [3, 2, 1]  # " brown" begins at 9 < 10, " fox" at 15 < 16
    assert got.overlap.tolist() == [0, 1, 1]
    assert got.cut == 2  # 6 lies within " quick", 12 within " brown"


def test_a_window_that_begins_at_a_token_cuts_none():
    got = ranges_of(ints(0, 3), ints(9, 12), ints(0, 3, 9))
    assert (got.start.tolist(), got.count.tolist(), got.overlap.tolist(), got.cut) == ([0, 1], [2, 2], [0, 1], 0)


def test_tokens_within_one_character_go_with_it():
    # an emoji of three tokens, all of which begin at 1: the window at 1 has all, the window before none of them
    got = ranges_of(ints(0, 1), ints(1, 3), ints(0, 1, 1, 1, 2))
    assert (got.start.tolist(), got.count.tolist(), got.overlap.tolist(), got.cut) == ([0, 1], [1, 4], [0, 0], 0)


def test_blanks_that_were_stripped_leave_windows_empty():
    # three blanks before the text of four tokens; the first window is blanks alone
    got = ranges_of(ints(-3, -2, 1), ints(-1, 2, 4), ints(0, 1, 2, 3))
    assert (got.start.tolist(), got.count.tolist(), got.overlap.tolist()) == ([0, 0, 1], [0, 2, 3], [0, 0, 1])
    assert got.cut == 0
    # and behind it: the last window has no token of its own
    got = ranges_of(ints(0, 2, 6), ints(4, 7, 9), ints(0, 1, 2, 3))
    assert (got.start.tolist(), got.count.tolist(), got.overlap.tolist()) == ([0, 2, 4], [4, 2, 0], [0, 2, 0])


@given(st.data())
def test_windows_hold_every_token_once_less_what_they_repeat(data):
    length = data.draw(st.integers(1, 120))
    starts = np.array(sorted({0, *data.draw(st.lists(st.integers(0, length - 1)))}), np.int64)
    starts = np.sort(np.concatenate([starts, data.draw(st.lists(st.sampled_from(starts.tolist()), max_size=5))]))
    starts = starts.astype(np.int64)
    begins, ends = [0], []
    while True:
        end = (
            data.draw(st.integers(max(begins[-1] + 1, (ends or [0])[-1] + 1), length))
            if begins[-1] < length
            else length
        )
        ends.append(end)
        if end >= length:
            break
        begins.append(data.draw(st.integers(begins[-1] + 1, end)))
    got = ranges_of(np.array(begins), np.array(ends), starts)
    assert int((got.count - got.overlap).sum()) == len(starts)
    assert bool((got.overlap <= got.count).all())
    assert bool((got.count >= 0).all())
    held = [set(range(s, s + c)) for s, c in zip(got.start.tolist(), got.count.tolist(), strict=True)]
    assert set().union(*held) == set(range(len(starts)))
    for before, window, n in zip(held, held[1:], got.overlap[1:].tolist(), strict=False):
        assert len(before & window) == n
    for k, tokens in enumerate(held):  # every token of a window begins in it, but the first windows' snap
        assert all(begins[k] <= starts[t] < max(ends[k], 1) for t in tokens)


@pytest.mark.parametrize(
    ("starts", "length", "overlap", "expected", "why"),
    [
        ([0, 3, 9], 12, 0, 0, "nothing is repeated"),
        ([0, 3, 9], 12, 3, 1, "the first token ends where the overlap does"),
        ([0, 3, 9], 12, 5, 1, "the second is only begun: its rest is new"),
        ([0, 3, 9], 12, 9, 2, "two whole ones"),
        ([0, 3, 9], 12, 12, 3, "all of it"),
        ([], 0, 4, 0, "a window of blanks alone"),
        ([0, 1, 1, 1, 2], 3, 1, 1, "an emoji of three tokens begins where the overlap ends"),
        ([0, 1, 1, 1, 2], 3, 2, 4, "and ends there"),
    ],
)
def test_tokens_that_the_window_before_holds(starts, length, overlap, expected, why):
    assert repeated(np.array(starts, np.int64), length, overlap) == expected, why


@pytest.mark.parametrize(
    ("starts", "stops", "overlap", "expected", "why"),
    [
        ([0, 4, 8], [3, 7, 11], 3, 1, "its end is the overlap's, whatever blanks follow"),
        ([0, 4, 8], [3, 7, 11], 4, 1, "the blank alone is repeated more"),
        ([0, 4, 8], [3, 7, 11], 6, 1, "the second is only begun"),
        ([0, 4, 8], [3, 7, 11], 7, 2, "two whole ones"),
        ([0, 4, 8], [3, 7, 11], 12, 3, "all of it, and a blank"),
        ([2, 6], [5, 9], 1, 0, "blanks at the begin are no token"),
        ([0, 0, 1], [1, 1, 2], 1, 2, "two of one character"),
    ],
)
def test_a_token_ends_before_the_blanks_that_are_dropped(starts, stops, overlap, expected, why):
    assert repeated(np.array(starts), 12, overlap, np.array(stops)) == expected, why


def test_places_within_a_token_are_counted():
    assert cuts_of(ints(3, 4, 9, 11), ints(0, 3, 9)) == 1  # 4; 11 lies in the last token, whose end is the text's
    assert cuts_of(ints(0, -2), ints(0, 3)) == 0
