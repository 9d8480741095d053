"""The tokenizers that come with the package: what their cards say of them is so."""

from __future__ import annotations

import functools
import json
import re
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tokenizers")
pytest.importorskip("tiktoken")

from made_tokenizers import byte_alphabet, languages, token_bytes

from cleanpipe import tokens
from cleanpipe.tokens.backend import Backend
from cleanpipe.tokens.backends import open_backend
from cleanpipe.tokens.tokenizer import Tokenizer, open_tokenizer

MODELS = Path(tokens.__file__).parent / "models"
OURS, GPT2 = MODELS / "cleanpipe-16k", MODELS / "gpt2"
CONTROLS = ("<|bos|>", "<|eos|>", "<|pad|>", *(f"<|reserved_{i}|>" for i in range(13)))


@functools.cache
def document():
    return json.loads((OURS / "tokenizer.json").read_text(encoding="utf-8"))


@functools.cache
def opened(name: str) -> Tokenizer:
    return open_tokenizer(name)


@functools.cache
def backend(name: str) -> Backend:
    return open_backend(opened(name))[0]


def ids(name: str, text: str) -> list[int]:
    return backend(name).encode([text]).ids.tolist()


def test_16384_ids_without_a_gap_the_control_tokens_last() -> None:
    vocabulary = document()["model"]["vocab"]
    added = {token["content"]: token["id"] for token in document()["added_tokens"]}
    assert sorted([*vocabulary.values(), *added.values()]) == list(range(16_384))
    assert added == {name: 16_368 + i for i, name in enumerate(CONTROLS)}
    assert not set(added) & set(vocabulary)
    assert opened("cleanpipe-16k").vocabulary == 16_384


def test_ids_are_bytes_first_then_one_merge_each() -> None:
    """So that ranks are ids: an engine that knows only ranks needs no table."""
    vocabulary, merges = document()["model"]["vocab"], document()["model"]["merges"]
    assert {token for token, number in vocabulary.items() if number < 256} == set(byte_alphabet())
    assert len(merges) == 16_368 - 256
    for number, (left, right) in enumerate(merges, start=256):
        assert vocabulary[left + right] == number
        assert vocabulary[left] < number and vocabulary[right] < number
        assert len(token_bytes(left + right)) <= 24


def test_nothing_is_normalised_and_nothing_added() -> None:
    assert document()["normalizer"] is None and document()["post_processor"] is None
    assert document()["truncation"] is None and document()["padding"] is None
    model = document()["model"]
    assert (model["dropout"], model["byte_fallback"], model["ignore_merges"]) == (None, False, False)
    assert opened("cleanpipe-16k").lossless


def test_bos_and_eos_are_found_without_being_asked_for() -> None:
    ours = opened("cleanpipe-16k")
    assert (ours.bos, ours.eos, ours.unk) == (16_368, 16_369, None)
    assert dict(ours.controls) == {name: 16_368 + i for i, name in enumerate(CONTROLS)}
    assert (opened("gpt2").bos, opened("gpt2").eos) == (None, 50_256)


@pytest.mark.parametrize("name", ["cleanpipe-16k", "gpt2"])
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
@settings(max_examples=150, deadline=None)
def test_any_text_comes_back(name: str, text: str) -> None:
    assert opened(name).decode(ids(name, text)) == text


@pytest.mark.parametrize("name", ["cleanpipe-16k", "gpt2"])
def test_every_code_point_comes_back(name: str) -> None:
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
    texts = ["".join(points[i : i + 4_000]) for i in range(0, 0x30000, 4_000)]
    texts += ["".join(points[i : i + 200]) for i in range(0x30000, len(points), 40_000)]
    found = backend(name).encode(texts)
    begin = 0
    for text, end in zip(texts, found.ends.tolist(), strict=True):
        assert opened(name).decode(found.ids[begin:end].tolist()) == text
        begin = end


@pytest.mark.parametrize("name", ["cleanpipe-16k", "gpt2"])
def test_control_strings_in_a_text_stay_text(name: str) -> None:
    for control, number in opened(name).controls.items():
        for text in (control, f"a{control}b {control}\n{control}{control}", control[:-1], control.upper()):
            found = ids(name, text)
            assert number not in found and max(found) < min(opened(name).controls.values())
            assert opened(name).decode(found) == text


def test_digits_stand_alone_and_blanks_go_together() -> None:
    assert [opened("cleanpipe-16k").decode([i]) for i in ids("cleanpipe-16k", "2024٣½")][:4] == list("2024")
    assert len(ids("cleanpipe-16k", "        ")) == 1
    assert len(ids("cleanpipe-16k", "\n\n")) == 1
    assert [opened("cleanpipe-16k").decode([i]) for i in ids("cleanpipe-16k", "    return")] == ["   ", " return"]
    assert len(ids("cleanpipe-16k", " है")) == 1  # a mark is no cut


def test_no_writing_system_of_the_mix_falls_to_bytes() -> None:
    """Two bytes a token or more: a letter of three bytes would be three tokens otherwise. Chakma is not in the mix."""
    for tag, text in languages():
        ratio = len(text.encode()) / len(ids("cleanpipe-16k", text))
        assert ratio > 1.8 if tag != "ccp" else ratio < 1.1, (tag, ratio)


def test_the_card_tells_the_file() -> None:
    card, data = (OURS / "CARD.md").read_text(encoding="utf-8"), (OURS / "tokenizer.json").read_bytes()
    assert len(data) < 2_000_000
    assert f"{len(data):,} bytes, SHA-256 `{sha256(data).hexdigest()}`" in card
    pattern = document()["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    assert pattern.replace("|", "\\|") in card
    assert "Apache-2.0" in card


def test_the_card_s_figures_are_right() -> None:
    """Bytes a token of a text that lies in the tests: within 15 % of the card's figure for the same language."""
    card = (OURS / "CARD.md").read_text(encoding="utf-8").partition("Universal Declaration")[2]
    rows = {
        tag: (float(ours), float(gpt2))
        for tag, ours, gpt2 in re.findall(r"\| (\w+) \| (\d\.\d\d) \| (\d\.\d\d) ", card)
    }
    texts = dict(languages())
    for tag, code in (("en", "eng"), ("fr", "fra"), ("ru", "rus"), ("th", "tha"), ("ko", "kor"), ("zh", "cmn_hans")):
        for name, told in zip(("cleanpipe-16k", "gpt2"), rows[code], strict=True):
            assert len(texts[tag].encode()) / len(ids(name, texts[tag])) == pytest.approx(told, rel=0.15), (tag, name)


@pytest.mark.parametrize(("text", "expected"), [
    ("Hello world", [15496, 995]),
    (" world", [995]),
    ("hello", [31373]),
    ("hello world", [31373, 995]),
    ("<|endoftext|>", [27, 91, 437, 1659, 5239, 91, 29]),
    ("!", [0]),
    ("\n\n", [628]),
    ("", []),
])  # fmt: skip
def test_gpt2_gives_the_ids_that_are_known(text: str, expected: list[int]) -> None:
    assert ids("gpt2", text) == expected


def test_gpt2_is_the_file_that_its_readme_names() -> None:
    data, told = (GPT2 / "gpt2.tiktoken").read_bytes(), (GPT2 / "README.md").read_text(encoding="utf-8")
    assert sha256(data).hexdigest() in told and f"{len(data):,} bytes" in told
    assert data.count(b"\n") == 50_256
    assert "MIT License" in (GPT2 / "LICENSE").read_text(encoding="utf-8")
    assert opened("gpt2").vocabulary == 50_257
