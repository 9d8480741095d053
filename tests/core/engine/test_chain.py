"""Where one unit of an input stopped, the next must have begun."""

import hashlib

import pytest

from cleanpipe.engine.chain import Link, corrections, joined_digest, lost_range
from cleanpipe.io.record import Span


def chain(*facts, size=100):
    return [
        Link(
            n,
            Span(n * size, (n + 1) * size),
            None if f is None else dict(zip(("first", "next", "inflated", "relative"), f, strict=True)),
        )
        for n, f in enumerate(facts)
    ]


NONE = (-1, -1, 0, False)

RIGHT = [
    ("each begins where the one before stopped", [(0, 103, 9, False), (103, 205, 9, False), (205, 300, 9, False)]),
    ("one member over all", [(0, 300, 9, False), NONE, NONE]),
    ("one owns nothing between", [(0, 201, 9, False), NONE, (201, 300, 9, False)]),
    ("a member ends at the border", [(0, 100, 9, False), (100, 200, 9, False), (200, 300, 9, False)]),
    ("the first may count from its own start: that is the file's", [(0, 300, 9, False), NONE]),
    ("one could not be read: what follows cannot be judged", [(0, 103, 9, False), None, (210, 300, 9, False)]),
    ("none could be read", [None, None]),
    ("nothing in the file", [(0, 0, 0, False)]),
]


@pytest.mark.parametrize(("what", "facts"), RIGHT, ids=[r[0] for r in RIGHT])
def test_right_chains(what, facts):
    assert corrections(chain(*facts)) == {}


WRONG = [
    ("began inside a member", [(0, 130, 9, False), (110, 205, 9, False)], {1: Span(100, 200, 130, 9)}),
    ("found one where nothing is its own", [(0, 205, 9, False), (110, 205, 9, False)], {1: Span(100, 200, 205, 9)}),
    ("overlooked its first", [(0, 103, 9, False), (150, 205, 9, False)], {1: Span(100, 200, 103, 9)}),
    ("overlooked all", [(0, 103, 9, False), NONE], {1: Span(100, 200, 103, 9)}),
    (
        "only the first fault of an input, for what follows hangs on it",
        [(0, 130, 9, False), (110, 205, 9, False), (207, 300, 9, False)],
        {1: Span(100, 200, 130, 9)},
    ),
    (
        "offsets that need a base, all at once",
        [(0, 103, 9, False), (103, 205, 8, True), (205, 300, 7, True)],
        {1: Span(100, 200, 103, 9), 2: Span(200, 300, 205, 17)},
    ),
]


@pytest.mark.parametrize(("what", "facts", "expected"), WRONG, ids=[w[0] for w in WRONG])
def test_wrong_chains(what, facts, expected):
    assert corrections(chain(*facts)) == expected


def test_a_unit_that_was_told_is_right_in_the_next_round():
    links = chain((0, 103, 9, False), (103, 205, 8, True))
    told = corrections(links)[1]
    assert corrections([links[0], Link(1, told, {"first": 103, "next": 205, "inflated": 8, "relative": False})]) == {}


LOST = [
    ("alone", [None], 0, 100, (0, 100)),
    ("the first of two", [None, (110, 200, 1, False)], 0, 200, (0, 110)),
    ("the last of two", [(0, 103, 1, False), None], 1, 200, (103, 200)),
    ("between", [(0, 103, 1, False), None, (204, 300, 1, False)], 1, 300, (103, 204)),
    ("two in a row, the first of them", [(0, 103, 1, False), None, None], 1, 300, (103, 200)),
    ("two in a row, the second", [(0, 103, 1, False), None, None], 2, 300, (200, 300)),
]


@pytest.mark.parametrize(("what", "facts", "at", "size", "expected"), LOST, ids=[x[0] for x in LOST])
def test_the_bytes_of_a_lost_unit(what, facts, at, size, expected):
    assert lost_range(chain(*facts), at, size) == expected


def test_lost_ranges_tile():
    links = chain((0, 103, 1, False), None, None, (310, 400, 1, False))
    assert lost_range(links, 1, 400) == (103, 200)
    assert lost_range(links, 2, 400) == (200, 310)


def test_joined_digests():
    a, b = hashlib.sha256(b"a").hexdigest(), hashlib.sha256(b"b").hexdigest()
    assert joined_digest([a]) == a
    whole = hashlib.sha256(hashlib.sha256(b"a").digest() + hashlib.sha256(b"b").digest()).hexdigest()
    assert joined_digest([a, b]) == f"{whole}-2"
