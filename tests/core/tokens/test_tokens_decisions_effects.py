"""What decisions mean for the documents of a store."""

import dataclasses
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.tokens import decisions_effects
from cleanpipe.tokens.decisions import MASK, QUARANTINE, RELEASED, WEIGHT, Decision, Decisions, effects, hits
from cleanpipe.tokens.layout import DOCUMENT


def table(*urls, start=0):
    """A document for each URL; its doc_id is its number, its content_id that modulo 4 and 0xcc."""
    n = range(start, start + len(urls))
    return pa.table(
        {
            col.DOC_ID: pa.array([i.to_bytes(16, "big") for i in n], col.ID),
            col.CONTENT_ID: pa.array([bytes([0xCC]) * 15 + bytes([i % 4]) for i in n], col.ID),
            col.URL: pa.array(urls, pa.string()),
        }
    )


def decided(*lines):
    """Every line, the same twice too."""
    found = []
    for number, line in enumerate(lines, start=1):
        found.append(dataclasses.replace(line.checked(), number=number))
    return Decisions(tuple(found))


def doc(number):
    return f"{number:032x}"


def rows(found):
    columns = (found.documents, found.actions, found.weights, found.since, found.line)
    return [tuple(x.item() for x in row) for row in zip(*columns, strict=True)]


PAGES = table(
    "http://a.example/1", "https://sub.a.example:8080/2", "http://b-a.example/3", "https://user@A.EXAMPLE./4",
    None, "no url", "http://a.example.org/7", "http://10.1.2.3/8", "https://bücher.example/9",
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "key", "documents"),
    [
        ("doc_id", doc(3), [3]),
        ("doc_id", doc(99), []),
        ("content_id", "cc" * 15 + "01", [1, 5]),
        ("url", "http://a.example/1", [0]),
        ("url", "a.example/1", [0]),
        ("url", "http://a.example/", []),
        ("url", "https://a.example/1", []),
        ("host", "a.example", [0, 1, 3]),
        ("host", "sub.a.example", [1]),
        ("host", "example", [0, 1, 2, 3, 8]),
        ("host", "b-a.example", [2]),
        ("host", "org", [6]),
        ("host", "10.1.2.3", [7]),
        ("host", "2.3", []),
        ("host", "bücher.example", [8]),
        ("host", "xn--bcher-kva.example", [8]),
    ],
)
def test_keys_find_their_documents(kind, key, documents):
    found = hits(decided(Decision("mask", kind, key)), PAGES)
    assert rows(found) == [(d, MASK, 1.0, 0, 1) for d in documents]


def test_the_strongest_wins_and_of_weights_the_later():
    both = [Decision("weight", "doc_id", doc(0), weight=0.3), Decision("weight", "host", "a.example", weight=0.9)]
    assert rows(hits(decided(*both), PAGES))[0] == (0, WEIGHT, 0.9, 0, 2)
    assert rows(hits(decided(*both[::-1]), PAGES))[0] == (0, WEIGHT, 0.3, 0, 2)
    stronger = [Decision("quarantine", "url", "a.example/1"), Decision("mask", "doc_id", doc(0)), *both]
    assert rows(hits(decided(*stronger), PAGES))[0] == (0, QUARANTINE, 1.0, 0, 1)
    assert rows(hits(decided(*stronger[1:]), PAGES))[0] == (0, MASK, 1.0, 0, 1)


def test_what_holds_changes_with_the_sequence():
    """Weight from 10, mask from 20 to 30 and quarantine from 40 to 50; then the weight is all that is left."""
    found = hits(
        decided(
            Decision("mask", "doc_id", doc(0), from_sequence=20),
            Decision("weight", "host", "a.example", weight=0.5, from_sequence=10),
            Decision("quarantine", "doc_id", doc(0), from_sequence=40),
            Decision("revoke", "line", "1", from_sequence=30),
            Decision("revoke", "line", "3", from_sequence=50),
            Decision("revoke", "line", "2", from_sequence=60),
        ),
        PAGES,
    )
    mine = [r[1:] for r in rows(found) if r[0] == 0]
    assert mine == [
        (WEIGHT, 0.5, 10, 2), (MASK, 1.0, 20, 1), (WEIGHT, 0.5, 30, 2), (QUARANTINE, 1.0, 40, 3),
        (WEIGHT, 0.5, 50, 2), (RELEASED, 1.0, 60, 2),
    ]  # fmt: skip
    assert found.most == 6
    sequences = [0, 9, 10, 19, 20, 29, 30, 45, 55, 60, 1 << 60]
    actions, weights = found.of(np.zeros(11, np.int64), sequences)
    assert actions.tolist() == [0, 0, WEIGHT, WEIGHT, MASK, MASK, WEIGHT, QUARANTINE, WEIGHT, RELEASED, RELEASED]
    assert weights.tolist() == [1, 1, 0.5, 0.5, 1, 1, 0.5, 1, 0.5, 1, 1]
    assert found.of([1, 2, 3, 5], 45)[0].tolist() == [WEIGHT, RELEASED, WEIGHT, RELEASED]
    assert rows(found.at(45)) == [(0, QUARANTINE, 1.0, 40, 3), (1, WEIGHT, 0.5, 10, 2), (3, WEIGHT, 0.5, 10, 2)]
    assert len(found.at(9)) == len(found.at(60)) == 0


def test_nothing_decided():
    none = hits(Decisions(), PAGES)
    assert (len(none), none.most) == (0, 0)
    assert [a.tolist() for a in none.of([0, 5], 3)] == [[0, 0], [1, 1]]
    assert len(none.at(0)) == 0
    assert len(hits(decided(Decision("mask", "doc_id", doc(0)), Decision("revoke", "line", "1")), PAGES)) == 0
    empty = hits(decided(Decision("mask", "host", "example")), PAGES.slice(0, 0))
    assert len(empty) == 0


class _Store:
    """Shards of the same documents, of which each has as many windows as its number modulo 3, and one."""

    root, digest, info = "a store", "1", {}

    def __init__(self, *shards):
        self.reads, self._spans = 0, []
        for documents in shards:
            n = np.repeat(np.arange(documents.num_rows), np.arange(documents.num_rows) % 3 + 1)
            self._spans.append(documents.take(pa.array(n)).append_column(DOCUMENT, pa.array(n)))
        self.document_starts = np.cumsum([0, *(d.num_rows for d in shards)])

    def spans(self, shard):
        self.reads += 1
        return self._spans[shard]


def test_documents_have_global_numbers_and_the_answer_is_remembered():
    decisions_effects._held.clear()
    store = _Store(PAGES, PAGES.slice(0, 0), table("http://x.example/", "http://a.example/", start=9))
    decisions = decided(Decision("mask", "host", "a.example"), Decision("quarantine", "doc_id", doc(9)))
    found = effects(store, decisions)
    assert rows(found) == [(d, MASK, 1.0, 0, 1) for d in (0, 1, 3)] + [(9, QUARANTINE, 1.0, 0, 2), (10, MASK, 1, 0, 1)]
    assert store.reads == 3
    assert effects(store, decisions) is found
    assert store.reads == 3
    assert len(effects(store, decisions.upto(1))) == 4
    assert store.reads == 6
    assert len(effects(store, Decisions())) == 0
    assert store.reads == 6


HOSTS = ["a.example", "b.a.example", "example", "c.example", "1.2.3.4"]
LINES = st.one_of(
    st.builds(
        Decision,
        st.sampled_from(["mask", "quarantine"]),
        st.just("host"),
        st.sampled_from(HOSTS),
        from_sequence=st.integers(0, 5),
    ),
    st.builds(
        Decision,
        st.just("weight"),
        st.just("doc_id"),
        st.integers(0, 7).map(doc),
        weight=st.sampled_from([0.0, 0.5, 1.0]),
        from_sequence=st.integers(0, 5),
    ),
    st.builds(
        lambda line, at: Decision("revoke", "line", str(line), from_sequence=at), st.integers(1, 4), st.integers(0, 5)
    ),
)


@given(st.lists(LINES, max_size=7), st.integers(0, 6))
def test_equal_to_a_search_one_by_one(lines, sequence):
    """Each document against each line, as the rules are written."""
    pages = table(*(f"http://{h}/{i}" for i, h in enumerate(HOSTS + HOSTS[:3])))
    held = []
    for line in lines:
        if line.action != "revoke" or (int(line.key) <= len(held) and held[int(line.key) - 1].action != "revoke"):
            held.append(line)
    decisions = decided(*held)
    expected = {}
    for number, url in enumerate(pages.column(col.URL).to_pylist()):
        host = re.match(r"http://([^/]*)/", url)[1]
        mine = []
        for place, line in enumerate(held, start=1):
            gone = [r for r in held if r.action == "revoke" and int(r.key) == place and r.from_sequence <= sequence]
            if line.action == "revoke" or gone or line.from_sequence > sequence:
                continue
            if line.key_kind == "doc_id" and int(line.key, 16) == number:
                mine.append((WEIGHT, place, line.weight))
            if line.key_kind == "host" and (host == line.key or host.endswith(f".{line.key}")):
                mine.append((MASK if line.action == "mask" else QUARANTINE, place, 1.0))
        if mine:
            expected[number] = max(mine)
    found = hits(decisions, pages).at(sequence)
    assert {r[0]: (r[1], r[4], r[2]) for r in rows(found)} == expected
