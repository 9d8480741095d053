"""Tokenizers that the device cannot do exactly are refused, each with its reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backends.torch_scope import byte_alphabet, read_rules

BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True}


def spec(pre_tokenizer: Any = BYTE_LEVEL, normalizer: Any = None, **model: Any) -> str:
    vocabulary = {char: number for number, char in enumerate([*byte_alphabet(), "ab"])}
    body = {"type": "BPE", "vocab": vocabulary, "merges": [["a", "b"]], "dropout": None, "unk_token": None} | model
    return json.dumps({"model": body, "pre_tokenizer": pre_tokenizer, "normalizer": normalizer, "added_tokens": []})


def without(*bytes_left_out: int) -> dict[str, int]:
    return {char: byte for byte, char in enumerate(byte_alphabet()) if byte not in bytes_left_out}


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (spec(type="WordPiece"), "its model is WordPiece"),
        (spec(type="WordLevel"), "its model is WordLevel"),
        (spec(type="Unigram"), "its model is Unigram"),
        (spec(dropout=0.1), "dropout"),
        (spec(continuing_subword_prefix="##"), "continuing_subword_prefix"),
        (spec(end_of_word_suffix="</w>"), "end_of_word_suffix"),
        (spec(pre_tokenizer=None), "no pre-tokenizer"),
        (spec(pre_tokenizer={"type": "Whitespace"}), "does not turn characters into bytes"),
        (spec(pre_tokenizer={"type": "Whitespace"}, byte_fallback=True), "does not turn characters into bytes"),
        (spec(pre_tokenizer={"type": "Metaspace"}), "Metaspace changes"),
        (spec(pre_tokenizer={"type": "SomethingNew"}), "SomethingNew changes"),
        (spec(pre_tokenizer={"type": "Sequence", "pretokenizers": [BYTE_LEVEL, BYTE_LEVEL]}), "into bytes"),
        (spec(normalizer={"type": "Prepend", "prepend": "▁"}), "normalizer Prepend"),
        (spec(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace"}]}), "Replace"),
        (spec(normalizer={"type": "Precompiled"}), "normalizer Precompiled"),
        (spec(normalizer={"type": "ByteLevel"}), "normalizer ByteLevel"),
        (
            spec(vocab=without(0x41), merges=[], unk_token="?"),
            "1 bytes, 0x41 first, have no entry and would become its",
        ),
        (spec(vocab=without(0x80, 0x41), merges=[]), "2 bytes, 0x41 first, have no entry and would become nothing"),
        (spec(vocab={**without(), "ab": 7}, merges=[]), "share an id"),
    ],
)
def test_refused(told: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_rules(told)
    assert reason in str(caught.value)
    assert "torch backend cannot encode with this tokenizer exactly" in str(caught.value)
    assert "hf" in str(caught.value)


@pytest.mark.parametrize(
    "told",
    [
        spec(),
        spec(dropout=0.0, continuing_subword_prefix="", end_of_word_suffix=""),
        spec(unk_token="a", fuse_unk=True, byte_fallback=True),  # every byte has an entry: none of these is ever used
        spec(vocab=without(0xC0, 0xC1, *range(0xF5, 0x100)), merges=[]),  # no text in UTF-8 holds these
        spec(normalizer={"type": "NFC"}),
    ],
)
def test_taken(told: str) -> None:
    assert len(read_rules(told).byte_lengths)


def test_the_alphabet_is_the_library_s() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    alphabet = byte_alphabet()
    assert sorted(alphabet) == sorted(pre_tokenizer.alphabet())
    every = "".join(map(chr, range(0x800))) + "\uffff\U00010000\U0010ffff"
    ((piece, _),) = pre_tokenizer.pre_tokenize_str(every)
    assert piece == "".join(alphabet[byte] for byte in every.encode())


def test_numbers_of_a_small_one() -> None:
    rules = read_rules(spec())
    assert rules.size == 257
    assert (rules.left.tolist(), rules.right.tolist(), rules.result.tolist()) == ([0x61], [0x62], [256])
    assert rules.alphabet[ord("Ġ")] == 0x20
    assert rules.alphabet[ord(" ")] == -1
    assert rules.byte_lengths.tolist() == [1] * 256 + [2]
    assert rules.placed
    assert not rules.normalizes


@pytest.mark.parametrize(
    "steps",
    [
        [{"type": "WhitespaceSplit"}, BYTE_LEVEL],
        [{"type": "Split", "pattern": {"String": " "}, "behavior": "Removed", "invert": False}, BYTE_LEVEL],
        [{**BYTE_LEVEL, "add_prefix_space": True}],
        [{"type": "Sequence", "pretokenizers": [{"type": "CharDelimiterSplit", "delimiter": "x"}]}, BYTE_LEVEL],
    ],
)
def test_what_moves_characters_is_known(steps: list[dict[str, Any]]) -> None:
    assert not read_rules(spec(pre_tokenizer={"type": "Sequence", "pretokenizers": steps})).placed


def test_a_sentencepiece_model_is_refused() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("tokenizers")
    from types import SimpleNamespace

    from cleanpipe.tokens.backends.torch_backend import TorchBackend

    with pytest.raises(ConfigError, match="SentencePiece"):
        TorchBackend(SimpleNamespace(kind="sentencepiece"))  # type: ignore[arg-type]
