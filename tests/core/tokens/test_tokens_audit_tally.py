"""What workers count: right values worked out by hand, and the same sums for any cut into batches."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe.errors import StopError
from cleanpipe.tally import add
from cleanpipe.tokens.audit.controls import KNOWN, control_tally
from cleanpipe.tokens.audit.roundtrip import order_of, parting, round_trip, sample_limit
from cleanpipe.tokens.audit.tally import histogram, lost_of, tally_of


@dataclass(frozen=True)
class Toy:
    """One id for each byte; 256 is unk, 257 EOS."""

    name: str = "toy"
    kind: str = "json"
    vocabulary: int = 260
    bos: int | None = None
    eos: int | None = 257
    unk: int | None = 256
    controls: dict[str, int] = field(default_factory=lambda: {"<|stop|>": 257, "<odd>": 258})
    byte_ids: tuple[int, ...] = tuple(range(128, 256))
    lossless: bool = True
    fingerprint: dict[str, str] = field(default_factory=lambda: {"digest": "00"})

    def decode(self, ids: Any) -> str:
        return bytes(i for i in ids if i < 256).decode("utf-8", "replace")

    def token_bytes(self, id_: int) -> bytes:
        return bytes([id_]) if id_ < 256 else b"<control>"


TOY = Toy()


def doc_id(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]


def tally(texts: list[str], languages: list[str | None], **more: Any) -> dict[str, Any]:
    ids = np.frombuffer("".join(texts).encode(), np.uint8).astype(np.uint32)
    ends = np.cumsum([len(t.encode()) for t in texts], dtype=np.int64)
    given = {"doc_ids": pa.array([doc_id(t) for t in texts], pa.binary(16)), "windows": np.ones(len(texts), np.int64)}
    return tally_of(TOY, texts, ids, ends, languages=languages, eos=True, **{**given, **more})


def test_counts_of_two_documents() -> None:
    out = tally(["aé<s>", "bb"], ["fr", None], stripped=3)
    # a é(2 bytes) < s > = 5 characters, 6 bytes, 6 tokens, of which é's two are byte fallback
    assert {k: out[k] for k in ("documents", "windows", "characters", "bytes", "tokens", "bos", "eos", "stripped")} == {
        "documents": 2, "windows": 2, "characters": 7, "bytes": 8, "tokens": 8, "bos": 0, "eos": 2, "stripped": 3,
    }  # fmt: skip
    assert (out["unk"], out["byte_fallback"]) == (0, 2)
    assert out["lengths"] == {"7": 1, "3": 1}  # EOS is one of them
    assert out["languages"] == {
        "fr": {"documents": 1, "characters": 5, "bytes": 6, "tokens": 6, "unk": 0, "byte_fallback": 2},
        "unknown": {"documents": 1, "characters": 2, "bytes": 2, "tokens": 2, "unk": 0, "byte_fallback": 0},
    }
    assert out["controls"] == {
        "documents": 1, "occurrences": 1, "by_string": {"<s>": {"documents": 1, "occurrences": 1}},
    }  # fmt: skip


def test_unk_is_counted() -> None:
    ids = np.array([1, 256, 256, 2], np.uint32)
    out = tally_of(
        TOY, ["ab", "cd"], ids, np.array([3, 4]), doc_ids=pa.array([doc_id("a"), doc_id("b")], pa.binary(16)),
        languages=["x", "y"], windows=np.array([1, 1]),
    )  # fmt: skip
    assert out["unk"] == 2
    assert [out["languages"][k]["unk"] for k in "xy"] == [2, 0]


def test_windows_by_themselves() -> None:
    texts = ["abcd", "cdef", "xyz"]  # the first document is abcdef, cut into two that share cd
    out = tally(
        texts, ["en", "en"], per_window=True, overlaps=np.array([0, 2, 0]), windows=np.array([2, 1]),
        doc_ids=pa.array([doc_id("1"), doc_id("2")], pa.binary(16)), whole_tokens=9, sample_limit=2**64 - 1,
    )  # fmt: skip
    assert (out["documents"], out["windows"], out["characters"], out["tokens"]) == (2, 3, 9, 11)
    assert out["lengths"] == {"9": 1, "4": 1}
    assert out["whole_tokens"] == 9
    assert out["round_trip"] == {"documents": 2, "characters": 11}


def test_no_documents() -> None:
    none = np.zeros(0, np.int64)
    out = tally_of(
        TOY, [], none.astype(np.uint32), none, doc_ids=pa.array([], pa.binary(16)), languages=[], windows=none,
        sample_limit=5,
    )  # fmt: skip
    assert add({}, out)["documents"] == 0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.text("ab<s>|é[INST]", max_size=12), st.sampled_from(["en", "fr", None])), max_size=8),
    st.lists(st.integers(0, 8), max_size=3),
)
def test_any_cut_into_batches_gives_the_same(documents: list[tuple[str, str | None]], cuts: list[int]) -> None:
    """Associative and commutative: batches of any size, merged in the other order too."""

    def of(part: list[tuple[str, str | None]]) -> dict[str, Any]:
        return tally([t for t, _ in part], [name for _, name in part], sample_limit=2**63)

    places = sorted({min(c, len(documents)) for c in cuts} | {0, len(documents)})
    parts = [of(documents[a:b]) for a, b in pairwise(places)]
    whole: dict[str, Any] = add({}, of(documents))
    forth: dict[str, Any] = {}
    back: dict[str, Any] = {}
    for part in parts:
        add(forth, part)
    for part in reversed(parts):
        add(back, part)
    assert forth == back
    if parts:
        assert json.dumps(forth, sort_keys=True) == json.dumps(whole, sort_keys=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("nothing here", {}),
        ("a < b [x] <p>", {}),
        ("<|endoftext|>", {"<|endoftext|>": 1}),
        ("<|endoftext|", {}),
        ("x<s><s></s>", {"<s>": 2, "</s>": 1}),
        ("[/INST][INST]", {"[/INST]": 1, "[INST]": 1}),
        ("<<SYS>> <</SYS>>", {"<<SYS>>": 1, "<</SYS>>": 1}),
        ("<own> and <ow", {"<own>": 1}),
        ("{{stop}}", {"{{stop}}": 1}),  # of the tokenizer, with a first character of its own
        ("<S> <UNK>", {}),  # case counts
    ],
)
def test_controls_in_text(text: str, found: dict[str, int]) -> None:
    out = control_tally([text], [0], [0], {"<own>", "{{stop}}", "."})
    assert {s: n["occurrences"] for s, n in out.get("by_string", {}).items()} == found
    assert out.get("occurrences", 0) == sum(found.values())


@settings(max_examples=200, deadline=None)
@given(st.sets(st.text("<a|>[", min_size=3, max_size=6), max_size=12), st.text("<a|>[", max_size=60))
def test_controls_are_what_trying_each_of_them_finds(own: set[str], text: str) -> None:
    tried = re.compile("|".join(map(re.escape, sorted({*own, *KNOWN}, key=len, reverse=True))))
    out = control_tally([text], [0], [0], own)
    assert {s: n["occurrences"] for s, n in out.get("by_string", {}).items()} == Counter(tried.findall(text))


def test_controls_of_any_length() -> None:
    chain = {"<" + "a" * n for n in range(2, 400)}
    assert control_tally(["<" + "a" * 300 + " <aa"], [0], [0], chain)["by_string"].keys() == {"<" + "a" * 300, "<aa"}


def test_a_control_in_what_two_windows_share_is_met_once() -> None:
    document = "aaaa<unk>bbbb<s>"
    windows, overlaps = [document[:9], document[2:]], [0, 7]  # the second holds <unk> again, the overlap ends with it
    assert control_tally(windows, [0, 0], overlaps, set())["by_string"] == {
        "<unk>": {"documents": 1, "occurrences": 1},
        "<s>": {"documents": 1, "occurrences": 1},
    }
    windows, overlaps = [document[:7], document[2:]], [0, 5]  # the first holds a part of it alone
    assert control_tally(windows, [0, 0], overlaps, set())["by_string"]["<unk>"]["occurrences"] == 1


def test_histogram_refuses_an_id_beyond_the_vocabulary() -> None:
    assert histogram(np.array([0, 2, 2], np.uint32), 4).tolist() == [1, 0, 2, 0]
    with pytest.raises(StopError, match="id 4 is not below the vocabulary of 4"):
        histogram(np.array([0, 4], np.uint32), 4)


def test_lost() -> None:
    out = add(lost_of("dropped", "empty"), lost_of("dropped", "empty", windows=2, characters=9))
    assert out == {"lost": {"dropped": {"empty": {"documents": 2, "windows": 3, "characters": 9, "bytes": 0}}}}
    with pytest.raises(ValueError, match="kept"):
        lost_of("kept", "")


def test_sample_is_the_smallest_orders_whatever_the_rows() -> None:
    ids = [doc_id(str(i)) for i in range(200)]
    limit = sample_limit(pa.array([*ids, *ids], pa.binary(16)), seed=1, most=10)
    order = order_of(pa.array(ids, pa.binary(16)), seed=1)
    assert int((order <= np.uint64(limit)).sum()) == 10
    assert limit == int(np.sort(order)[9])
    assert sample_limit(pa.array(ids[:3], pa.binary(16)), most=10) == 2**64 - 1
    assert (order_of(pa.array(ids, pa.binary(16)), seed=2) != order).all()
    assert len(set(order.tolist())) == 200


def test_a_failed_round_trip_says_where() -> None:
    text = "x" * 50 + "é" + "y" * 50
    out = round_trip(lambda ids: text.replace("é", "e"), b"\1" * 16, text, np.zeros(3, np.uint32))
    (key,) = out["failed"]
    told = json.loads(key)
    assert told[:2] == ["01" * 16, 50]
    assert (told[2][20], told[3][20]) == ("é", "e")


@given(st.text("ab", max_size=9), st.text("ab", max_size=9))
def test_parting(a: str, b: str) -> None:
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert parting(a, b) == at
