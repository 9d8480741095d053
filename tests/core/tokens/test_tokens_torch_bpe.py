"""Merges on the device, piece by piece against the library's own model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
tokenizers = pytest.importorskip("tokenizers")

from cleanpipe.tokens.backends.torch_bpe import Merger, PieceTable  # noqa: E402
from cleanpipe.tokens.backends.torch_scope import Rules, byte_alphabet, read_rules  # noqa: E402

torch.set_num_threads(1)


def made(merges: Sequence[tuple[str, str]], ids: Iterable[int] | None = None) -> tuple[Any, Rules]:
    """The library's model and ours, with these merges; ids: of all entries, in the order bytes, then results."""
    entries = dict.fromkeys([*byte_alphabet(), *(left + right for left, right in merges)])
    vocabulary = dict(zip(entries, ids or range(len(entries)), strict=False))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, list(merges)))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer.model, read_rules(tokenizer.to_str())


def merged(rules: Rules, pieces: Sequence[str]) -> list[list[int]]:
    letters = [rules.alphabet[ord(char)] for piece in pieces for char in piece]
    ids, counts = Merger(rules, "cpu").merge(
        torch.tensor(letters, dtype=torch.int64), torch.tensor([len(piece) for piece in pieces], dtype=torch.int64)
    )
    assert ids.dtype == torch.int32
    return [part.tolist() for part in ids.split(counts.tolist())] if pieces else []


def expected(model: Any, pieces: Sequence[str]) -> list[list[int]]:
    return [[token.id for token in model.tokenize(piece)] if piece else [] for piece in pieces]


def test_merges_by_hand() -> None:
    _, rules = made([("a", "a"), ("aa", "a"), ("b", "a")])
    aa, aaa, ba = 256, 257, 258
    a, b = byte_alphabet().index("a"), byte_alphabet().index("b")
    assert merged(rules, ["aaa", "aaaa", "aaaaa", "", "baa", "ab"]) == [
        [aaa],  # aa a
        [aa, aa],  # pairs from the left, and aa aa is no merge
        [aa, aaa],  # aa aa a
        [],
        [b, aa],  # a a has the lower rank, and takes the a from b
        [a, b],
    ]
    assert merged(rules, ["ba"]) == [[ba]]


@pytest.mark.parametrize(
    "merges",
    [
        pytest.param([], id="no merges at all"),
        pytest.param([("a", "a")], id="pairs"),
        pytest.param([("a", "a"), ("aa", "aa"), ("aaaa", "aaaa")], id="doubling"),
        pytest.param([("a", "a"), ("aa", "a"), ("aaa", "aa")], id="odd"),
        pytest.param([("a", "b"), ("b", "a"), ("ab", "ab"), ("ba", "b")], id="overlapping pairs"),
        pytest.param([("b", "b"), ("a", "bb"), ("b", "a"), ("abb", "abb")], id="runs of b"),
        # what a merge makes takes part in one that comes earlier: occurrences must be merged one by one
        pytest.param([("aa", "b"), ("b", "aa"), ("a", "a")], id="earlier ranks use later ones"),
        pytest.param([("aa", "a"), ("a", "a")], id="the earlier rank takes the next letter"),
        pytest.param([("ab", "a"), ("a", "ba"), ("b", "a"), ("a", "b")], id="one result by two merges"),
    ],
)
def test_every_run_length(merges: list[tuple[str, str]]) -> None:
    model, rules = made(merges)
    pieces = ["a" * count for count in range(601)]
    pieces += [("ab" * count)[:length] for count in range(1, 120) for length in (2 * count, 2 * count - 1)]
    pieces += ["b" * count + "a" for count in range(100)]
    assert merged(rules, pieces) == expected(model, pieces)


def test_what_a_merge_makes_may_be_taken_at_once() -> None:
    model, rules = made([("aa", "a"), ("a", "a")])
    a, aaa, aa = byte_alphabet().index("a"), 256, 257
    # aa a a, then the earlier merge takes aa a; both pairs at once would give aa aa
    assert merged(rules, ["aaaa"]) == expected(model, ["aaaa"]) == [[aaa, a]]
    assert merged(rules, ["aa", "aaaaaa"]) == [[aa], [aaa, aaa]]


def test_ranks_that_must_wait_are_known() -> None:
    _, rules = made([("aa", "b"), ("a", "a"), ("b", "b")])
    assert rules.alone.tolist() == [False, True, False]


@st.composite
def vocabularies(draw: st.DrawFn) -> tuple[list[tuple[str, str]], list[int]]:
    """Merges over few letters in any order, and ids in any order."""
    entries = list(draw(st.sampled_from(["a", "ab", "abc"])))
    merges: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 20))):
        pair = draw(st.sampled_from(entries)), draw(st.sampled_from(entries))
        if len(pair[0] + pair[1]) <= 12 and pair not in merges:
            merges.append(pair)
            entries = list(dict.fromkeys([*entries, pair[0] + pair[1]]))
    if draw(st.booleans()):
        merges = draw(st.permutations(merges))
    results = len({left + right for left, right in merges})
    return merges, draw(st.permutations(range(256 + results)))


@settings(max_examples=60, deadline=None)
@given(vocabularies(), st.lists(st.text("abc", max_size=40), max_size=30))
def test_any_merges_in_any_order(vocabulary: tuple[list[tuple[str, str]], list[int]], pieces: list[str]) -> None:
    model, rules = made(*vocabulary)
    assert merged(rules, pieces) == expected(model, pieces)


def test_a_pair_told_twice_counts_with_its_last_rank() -> None:
    model = {
        "type": "BPE",
        "vocab": {entry: number for number, entry in enumerate([*byte_alphabet(), "ab", "bc"])},
        "merges": ["a b", "b c", "a b"],
    }
    spec = json.dumps(
        {"model": model, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}}
    )
    reference = tokenizers.Tokenizer.from_str(spec).model
    assert merged(read_rules(spec), ["abc"]) == expected(reference, ["abc"]) == [[byte_alphabet().index("a"), 257]]


def test_table_keeps_what_it_was_given_while_it_grows() -> None:
    table = PieceTable("cpu")
    held: list[list[int]] = []
    for step in range(40):
        lists = [[step * 1000 + number] * (number % 4) for number in range(step * 7 + 1)]
        counts = np.array([len(one) for one in lists], np.int64)
        flat = torch.tensor([one for each in lists for one in each], dtype=torch.int32)
        table.add(flat, torch.from_numpy(counts), counts)
        held += lists
    asked = np.random.default_rng(5).integers(0, len(held), 3000)
    total = sum(len(held[one]) for one in asked)
    ids, ends = table.expand(torch.from_numpy(asked), total)
    assert ids.tolist() == [one for place in asked for one in held[place]]
    assert ends.tolist() == np.cumsum([len(held[place]) for place in asked]).tolist()
    assert table.counts.tolist() == [len(one) for one in held]
    table.clear()
    assert table.pieces == table.bytes == 0
