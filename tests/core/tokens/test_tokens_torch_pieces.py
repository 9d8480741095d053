"""Texts in pieces, and the numbers of pieces."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backends.pieces import PieceNumbers, Split, Splitter, SplitterPool

library = pytest.importorskip("tokenizers")


def spec(**parts: Any) -> str:
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    tokenizer = library.Tokenizer(library.models.BPE({char: one for one, char in enumerate(sorted(alphabet))}, []))
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    for name, value in parts.items():
        if name == "added":
            tokenizer.add_tokens(value)
        else:
            setattr(tokenizer, name, value)
    return str(tokenizer.to_str())


def in_full(split: Split) -> list[list[str]]:
    """The pieces of each text."""
    ends = split.ends.tolist()
    pieces = [split.pieces[place] for place in split.which]
    return [pieces[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def test_pieces_by_hand() -> None:
    split = Splitter(spec()).split(["one one", "", "é one"])
    assert split.pieces == ["one", "Ġone", "Ã©"]
    assert split.which.tolist() == [0, 1, 2, 1]
    assert split.ends.tolist() == [2, 2, 4]
    assert split.aside == []
    empty = Splitter(spec()).split([])
    assert (empty.pieces, empty.which.tolist(), empty.ends.tolist(), empty.aside) == ([], [], [], [])


def test_added_tokens_are_numbers_with_a_blank() -> None:
    split = Splitter(spec(added=["<tool>", library.AddedToken("two", lstrip=True)])).split(["a<tool> b  two", "b"])
    assert in_full(split) == [["a", " 256", "Ġb", " 257"], ["b"]]


def test_what_a_normalizer_changes_lies_aside() -> None:
    split = Splitter(spec(normalizer=library.normalizers.NFC())).split(["e\u0301", "é", "e\u0301 é", ""])
    assert split.aside == [0, 2]
    assert in_full(split) == [[], ["Ã©"], [], []]


def test_a_pool_says_the_same_in_order() -> None:
    groups = [[f"text {number}", "", "é" * number] for number in range(20)]
    pool = SplitterPool(spec(), 2)
    try:
        found = list(pool.split(groups))
        assert list(pool.split([])) == []
    finally:
        pool.close()
    alone = Splitter(spec())
    assert list(map(in_full, found)) == [in_full(alone.split(group)) for group in groups]
    with pytest.raises(ConfigError, match="not 0"):
        SplitterPool(spec(), 0)


def test_numbers_go_on_until_there_is_no_room() -> None:
    numbers = PieceNumbers(limit=1000)
    assert numbers.unknown(["a", "b"]) == ["a", "b"]
    numbers.add(["a", "b"])
    assert numbers.unknown(["b", "c", "a"]) == ["c"]
    numbers.add(["c"])
    assert numbers.of(["c", "a", "c"]).tolist() == [2, 0, 2]
    assert (numbers.asked, numbers.missing, len(numbers)) == (5, 3, 3)
    assert not numbers.renew()
    numbers.add(["x" * 400])
    assert numbers.bytes > 1000
    assert numbers.renew()
    assert (len(numbers), numbers.bytes, numbers.clears) == (0, 0, 1)
    assert numbers.unknown(["a"]) == ["a"]
    numbers.add(["z"])
    assert numbers.of(["z"]).tolist() == [0]


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    modules = "device_checks, pieces, torch_backend, torch_bpe, torch_device, torch_scope"
    code = f"import sys; from cleanpipe.tokens.backends import {modules}; print([*sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in ("torch", "tokenizers", "tiktoken", "sentencepiece"):
        assert f"'{name}'" not in loaded
