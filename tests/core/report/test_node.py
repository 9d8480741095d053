"""Places: every number that a node gives is found again at the place that it names."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_numbers import evaluate

from cleanpipe.report.node import Node

DATA = {"a": {"x/y": 1, "~": 2, "b [1:2]": 3, "q" * 70: 4, "@0": 5, "": 6, "مثال": 7}, "list": [{"n": 8}, 9]}


@pytest.mark.parametrize("key", list(DATA["a"]))
def test_any_key_can_be_named(key):
    found = Node(DATA).at("a", key)
    assert evaluate(DATA, {}, found.of) == found.value == DATA["a"][key]
    assert len(found.of) < 70


def test_lists_and_what_is_not_there():
    assert Node(DATA).at("list", 0, "n").of == "/list/0/n"
    for path in (("list", 7), ("list", -1), ("nothing", "below"), ("a", "x/y", "deeper"), ("list", "n")):
        assert Node(DATA).at(*path).value is None
        assert Node(DATA).at(*path).absent


bins = st.dictionaries(st.integers(-50, 50).map(lambda i: f"{i / 10:g}"), st.integers(0, 9), max_size=20)
ends = st.none() | st.integers(-60, 60).map(lambda i: i / 10)


@given(bins, ends, ends)
def test_sums_over_a_range_are_those_of_the_place(found, low, high):
    data = {"h": {**found, "nan": 3}}
    node = Node(data).at("h").within(low, high)
    assert evaluate(data, {}, node.of) == node.value
    inside = sum(n for k, n in found.items() if (low is None or float(k) >= low) and (high is None or float(k) < high))
    assert node.value == inside


def test_computed_numbers_say_how():
    data = {"a": {"x": 1, "y": 2}, "b": 7, "zero": 0}
    node = Node(data)
    cases = [
        (node.at("a").total(), "/a[*]", 3),
        (node.at("a").size(), "/a[#]", 2),
        (node.at("b").less(node.at("a", "x")), "/b - /a/x", 6),
        (node.at("a").total().over(node.at("b")), "/a[*] ÷ /b", 0.428571),
    ]
    for found, of, value in cases:
        assert (found.of, found.value) == (of, value)
        assert evaluate(data, {}, of) == value
    assert node.at("b").over(node.at("zero")).value is None


def test_entries_come_in_one_order_whatever_the_file_s():
    one, other = Node(json.loads('{"b":1,"a":2,"(others)":9}')), Node(json.loads('{"(others)":9,"a":2,"b":1}'))
    assert one.items() == other.items()
    assert [k for k, _ in one.ranked()] == ["a", "b", "(others)"]


def test_a_section_that_says_why_it_is_not_there_is_absent():
    for value in ("not applicable", None, {"value": "not measured", "reason": "x"}):
        assert Node(value).absent
    assert not Node({}).absent
    assert not Node(0).absent
