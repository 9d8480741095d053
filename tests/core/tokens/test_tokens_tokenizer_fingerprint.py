"""The fingerprint: the same for what gives the same ids, another for anything that may not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("sentencepiece")

import made_tokenizers as made

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backend import Encoded
from cleanpipe.tokens.backends import hf
from cleanpipe.tokens.tokenizer import Tokenizer, open_tokenizer
from cleanpipe.tokens.tokenizer.opening import made as opened


def document() -> dict[str, Any]:
    return copy.deepcopy(dict(json.loads(made.llama3_like())))


def of(found: dict[str, Any], **policy: Any) -> Tokenizer:
    ends = {"bos": "auto", "eos": "auto"} | policy
    return opened("tokenizer.json", "json", json.dumps(found).encode(), "", ends["bos"], ends["eos"])


def sequence(step: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": [step]}


PADDING = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0, "pad_type_id": 0}
PADDING |= {"pad_token": "x"}
TRUNCATION = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
SAME: dict[str, Callable[[dict[str, Any]], object]] = {
    "key order": lambda d: d.update({key: d.pop(key) for key in sorted(d, reverse=True)}),
    "padding": lambda d: d.update(padding=PADDING),
    "truncation": lambda d: d.update(truncation=TRUNCATION),
    "post-processor": lambda d: d.update(post_processor=None),
    "decoder": lambda d: d.update(decoder=None),
    "merges as strings": lambda d: d["model"].update(merges=[" ".join(merge) for merge in d["model"]["merges"]]),
    "order of the vocabulary": lambda d: d["model"].update(vocab=dict(reversed(d["model"]["vocab"].items()))),
    "defaults left out": lambda d: [d["model"].pop(key) for key in [*d["model"]] if d["model"][key] in (None, False)],
    "version": lambda d: d.pop("version"),
    "one step as a sequence": lambda d: d.update(pre_tokenizer=sequence(d["pre_tokenizer"])),
}  # fmt: skip
OTHER: dict[str, Callable[[dict[str, Any]], object]] = {
    "merge": lambda d: d["model"]["merges"].pop(),
    "order of merges": lambda d: d["model"]["merges"].insert(0, d["model"]["merges"].pop(700)),
    "vocabulary": lambda d: _swap(d["model"]["vocab"]),
    "normalizer": lambda d: d.update(normalizer={"type": "NFC"}),
    "pattern": lambda d: d["pre_tokenizer"]["pretokenizers"][0]["pattern"].update(Regex=made.GPT2_PATTERN),
    "special token": lambda d: d["added_tokens"][9].update(content="<|other|>"),
    "special flag": lambda d: d["added_tokens"][9].update(special=False),
    "strip of an added token": lambda d: d["added_tokens"][9].update(special=False, lstrip=True),
    "one more token": lambda d: d["added_tokens"].append({**d["added_tokens"][-1], "id": 3_256, "content": "<new>"}),
    "ignore_merges": lambda d: d["model"].update(ignore_merges=False),
    "byte_fallback": lambda d: d["model"].update(byte_fallback=True),
}


def _swap(vocab: dict[str, int]) -> None:
    first, second = list(vocab)[400], list(vocab)[500]
    vocab[first], vocab[second] = vocab[second], vocab[first]


@pytest.fixture(scope="module")
def plain() -> Tokenizer:
    return of(document())


@pytest.mark.parametrize("name", SAME)
def test_spelling_plays_no_part(name: str, plain: Tokenizer) -> None:
    found = document()
    SAME[name](found)
    assert of(found).fingerprint == plain.fingerprint


@pytest.mark.parametrize("name", OTHER)
def test_content_does(name: str, plain: Tokenizer) -> None:
    found = document()
    OTHER[name](found)
    changed = of(found)
    assert changed.fingerprint["content"] != plain.fingerprint["content"]
    assert changed.fingerprint["digest"] != plain.fingerprint["digest"]


@pytest.mark.parametrize("policy", [{"bos": "none"}, {"eos": "none"}, {"eos": "<|eot_id|>"}, {"bos": 3_005}])
def test_policy_does(policy: dict[str, Any], plain: Tokenizer) -> None:
    changed = of(document(), **policy)
    assert changed.fingerprint["content"] == plain.fingerprint["content"]
    assert changed.fingerprint["policy"] != plain.fingerprint["policy"]
    assert changed.fingerprint["digest"] != plain.fingerprint["digest"]
    assert of(document(), bos=3_000, eos=3_001).fingerprint == plain.fingerprint  # spelled out: the same


def test_library_does(plain: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    own = hf.HfBackend.encode

    def changed(self: hf.HfBackend, texts: Any, *, starts: bool = False) -> Encoded:
        found = own(self, texts, starts=starts)
        return Encoded(np.where(found.ids == 65, 66, found.ids).astype(np.uint32), found.ends, found.starts)

    monkeypatch.setattr(hf.HfBackend, "encode", changed)
    other = of(document())
    assert other.fingerprint["content"] == plain.fingerprint["content"]
    assert other.fingerprint["probe"] != plain.fingerprint["probe"]
    assert other.fingerprint["digest"] != plain.fingerprint["digest"]


@pytest.mark.parametrize(("forged", "reason"), [([3_000], "adds tokens itself"), ([], "control ids")])
def test_libraries_that_add_or_forge_are_refused(
    forged: list[int], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def added(self: hf.HfBackend, texts: Any, *, starts: bool = False) -> Encoded:
        return Encoded(np.array([*forged, 5, 3_000], np.uint32), np.array([len(forged), len(forged) + 2]))

    monkeypatch.setattr(hf.HfBackend, "encode", added)
    with pytest.raises(ConfigError, match=reason):
        of(document())


def test_models() -> None:
    digests = {
        opened("m", "sentencepiece", data, "", "auto", "auto").fingerprint["content"]
        for data in (
            made.unigram_model(),
            made.unigram_model(1_400),
            made.unigram_model(kind="bpe"),
            made.unigram_model(byte_fallback=False),
            made.unigram_model(nfkc=False),
        )
    }
    assert len(digests) == 5
    first, second = (opened(name, "sentencepiece", made.unigram_model(), "", "auto", "auto") for name in ("a", "b"))
    assert first.fingerprint == second.fingerprint


def test_ranks() -> None:
    data = made.tiktoken_ranks()
    plain = opened("r", "tiktoken", data, "gpt2", "auto", "auto").fingerprint
    lines = data.splitlines(keepends=True)
    assert opened("r", "tiktoken", b"".join(reversed(lines)), "gpt2", "auto", "auto").fingerprint == plain
    assert opened("r", "tiktoken", data.replace(b"\n", b"\r\n"), "gpt2", "auto", "auto").fingerprint == plain
    first, second = (lines[place].split() for place in (900, 901))
    lines[900], lines[901] = first[0] + b" " + second[1] + b"\n", second[0] + b" " + first[1] + b"\n"
    swapped = opened("r", "tiktoken", b"".join(lines), "gpt2", "auto", "auto").fingerprint
    assert swapped["content"] != plain["content"]
    assert opened("r", "tiktoken", data, "o200k", "auto", "auto").fingerprint["content"] != plain["content"]


def test_digests_are_the_same_tomorrow() -> None:
    # golden: these change only by a change that means to make every store of GPT-2 another one
    found = open_tokenizer("gpt2").fingerprint
    assert (found["content"][:16], found["policy"][:16]) == ("323f7888462eadb5", "72a99f1272e63ac7")
