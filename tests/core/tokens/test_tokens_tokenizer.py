"""Tokenizers as files: their kind by content, what they say of themselves, BOS and EOS, and every way to be broken."""

from __future__ import annotations

import base64
import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("sentencepiece")

import made_tokenizers as made

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backends import reference
from cleanpipe.tokens.tokenizer import Tokenizer, embedded, open_tokenizer
from cleanpipe.tokens.tokenizer.opening import kind_of
from cleanpipe.tokens.tokenizer.patterns import CL100K

Saved = Callable[..., str]


@pytest.fixture
def saved(tmp_path: Path) -> Saved:
    def save(data: bytes, name: str = "some.file") -> str:
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return save


def document(name: str = "gpt2_like") -> dict[str, Any]:
    return dict(json.loads(made.FILES[name]()))


def spelled(found: dict[str, Any]) -> bytes:
    return json.dumps(found).encode()


def ranks(*pairs: tuple[bytes, int], single: bool = True) -> bytes:
    rows = [(bytes([byte]), byte) for byte in range(256)] if single else []
    return b"".join(base64.b64encode(token) + f" {rank}\n".encode() for token, rank in [*rows, *pairs])


# --- kinds ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (made.gpt2_like, "json"),
        (lambda: b"\xef\xbb\xbf \n" + made.gpt2_like(), "json"),
        (made.tiktoken_ranks, "tiktoken"),
        (lambda: made.tiktoken_ranks().replace(b"\n", b"\r\n"), "tiktoken"),
        (made.unigram_model, "sentencepiece"),
        (lambda: made.unigram_model(400, "bpe"), "sentencepiece"),
    ],
)
def test_kind_is_told_by_content(data: Callable[[], bytes], kind: str) -> None:
    assert kind_of(data(), "x") == kind


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 100, b"hello world\n", b"\x1f\x8b\x08\0\0", b"PK\x03\x04", b"IQ==\nIg==\n", b"#version: 0.2\nt h\n"],
)
def test_unknown_kinds_are_refused(data: bytes, saved: Saved) -> None:
    with pytest.raises(ConfigError, match="no tokenizer that this program knows"):
        open_tokenizer(saved(data))


def test_a_pointer_is_told_apart(saved: Saved) -> None:
    with pytest.raises(ConfigError, match="git lfs pull"):
        open_tokenizer(saved(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no tokenizer at .*cleanpipe-16k, gpt2"):
        open_tokenizer(str(tmp_path / "none.json"))
    with pytest.raises(ConfigError, match="is a folder"):
        open_tokenizer(str(tmp_path))
    with pytest.raises(ConfigError, match="no tokenizer at"):
        open_tokenizer("a\0b")


@pytest.mark.parametrize("name", ["cleanpipe-16k", "gpt2"])
def test_embedded_ones(name: str, tmp_path: Path) -> None:
    found = open_tokenizer(name)
    assert name in embedded()
    assert (found.name, found.lossless) == (name, True)
    assert found.vocabulary == {"cleanpipe-16k": 16_384, "gpt2": 50_257}[name]
    assert found.eos in found.controls.values()
    copy = tmp_path / "copy"
    with embedded()[name].open("rb") as own, copy.open("wb") as out:
        shutil.copyfileobj(own, out)
    assert open_tokenizer(str(copy)).fingerprint == found.fingerprint


def test_gpt2_is_gpt2() -> None:
    found = open_tokenizer("gpt2")
    assert (found.bos, found.eos, found.controls) == (None, 50_256, {"<|endoftext|>": 50_256})
    assert reference(found).encode(["Hello world"]).ids.tolist() == [15_496, 995]  # as published
    assert found.decode([15_496, 995, 50_256]) == "Hello world<|endoftext|>"
    assert (found.token_bytes(995), found.byte_lengths[995], found.byte_lengths[50_256]) == (b" world", 6, 0)


# --- what they say of themselves -----------------------------------------------------------------------------------


def test_llama3_like(saved: Saved) -> None:
    found = open_tokenizer(saved(made.llama3_like()))
    assert (found.kind, found.bos, found.eos, found.lossless) == ("json", 3_000, 3_001, True)
    assert found.vocabulary == 3_256  # added tokens included
    assert len(found.controls) == 256
    assert found.byte_lengths.dtype == np.int32
    assert found.byte_lengths.shape == (3_256,)
    assert not found.byte_lengths[3_000:].any()
    ids = reference(found).encode([made.CODE]).ids
    assert int(found.byte_lengths[ids].sum()) == len(made.CODE.encode())
    assert b"".join(found.token_bytes(token) for token in ids.tolist()) == made.CODE.encode()
    assert found.decode(ids) == made.CODE


def test_sentencepiece(saved: Saved) -> None:
    found = open_tokenizer(saved(made.unigram_model()))
    assert (found.kind, found.unk, found.bos, found.eos, found.lossless) == ("sentencepiece", 0, 1, 2, False)
    assert found.controls == {"<s>": 1, "</s>": 2}
    assert len(found.byte_ids) == 256
    assert [found.token_bytes(found.byte_ids[byte]) for byte in (0, 65, 255)] == [b"\0", b"A", b"\xff"]
    assert len(found.byte_lengths) == 0
    ids = reference(found).encode(["Hello \U0001f600 world"]).ids
    assert found.decode(ids) == "Hello \U0001f600 world"
    assert {*found.byte_ids} & {*ids.tolist()}


def test_byte_fallback_json(saved: Saved) -> None:
    found = open_tokenizer(saved(made.metaspace_bpe_byte_fallback()))
    assert (found.unk, found.bos, found.eos, found.lossless) == (0, 1, 2, False)
    assert found.byte_ids == tuple(range(3, 259))
    assert found.decode(reference(found).encode(["a \U0001f600 b"]).ids) == "a \U0001f600 b"


def test_ranks(saved: Saved) -> None:
    path = saved(made.tiktoken_ranks())
    with pytest.raises(ConfigError, match=r"2999 ranks are none of the known .* pattern"):
        open_tokenizer(path)
    found = open_tokenizer(path, pattern="cl100k")
    assert (found.kind, found.vocabulary, found.eos, found.lossless) == ("tiktoken", 3_000, 2_999, True)
    assert open_tokenizer(path, pattern=CL100K).fingerprint == found.fingerprint  # by name or spelled out
    assert open_tokenizer(path, pattern="gpt2").fingerprint["content"] != found.fingerprint["content"]
    ours = open_tokenizer(saved(made.gpt2_like(), "tokenizer.json"))
    texts = made.texts()
    same = open_tokenizer(path, pattern="gpt2")
    np.testing.assert_array_equal(reference(same).encode(texts).ids, reference(ours).encode(texts).ids)


def test_ranks_are_tiktokens(saved: Saved) -> None:
    tiktoken = pytest.importorskip("tiktoken")
    data = made.tiktoken_ranks()
    found = open_tokenizer(saved(data), pattern="cl100k")
    rows = [line.split() for line in data.splitlines()]
    own = tiktoken.Encoding(
        "own", pat_str=CL100K, mergeable_ranks={base64.b64decode(a): int(b) for a, b in rows}, special_tokens={}
    )
    texts = [*made.texts(), "a" * 300, " \n" * 50, "xaxbxc" * 20]
    encoded = reference(found).encode(texts)
    assert [part.tolist() for part in np.split(encoded.ids, encoded.ends[:-1])] == [
        own.encode_ordinary(t) for t in texts
    ]


def test_padding_truncation_and_post_processor_are_off(saved: Saved) -> None:
    plain = document("llama3_like")
    loud = plain | {
        "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": {"strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 7}
        | {"pad_type_id": 0, "pad_token": "x"},
    }
    first, second = open_tokenizer(saved(spelled(plain), "a")), open_tokenizer(saved(spelled(loud), "b"))
    assert first.fingerprint == second.fingerprint
    texts = ["", "a longer text than four tokens, by far"]
    one, two = reference(first).encode(texts), reference(second).encode(texts)
    np.testing.assert_array_equal(one.ids, two.ids)
    assert one.ends[0] == 0  # nothing of its own in the empty text


def test_plain_data(saved: Saved) -> None:
    for data, pattern in ((made.llama3_like(), ""), (made.tiktoken_ranks(), "o200k"), (made.unigram_model(), "")):
        found = open_tokenizer(saved(data), pattern=pattern)
        again = pickle.loads(pickle.dumps(found))
        files = found.files()
        back = Tokenizer.from_files(files)
        for other in (again, back):
            assert other.fingerprint == found.fingerprint
            assert (other.name, other.bos, other.eos, other.controls) == (
                "some.file",
                found.bos,
                found.eos,
                found.controls,
            )
            np.testing.assert_array_equal(other.byte_lengths, found.byte_lengths)
        assert data in files.values()
        assert json.loads(files["policy.json"])["fingerprint"] == found.fingerprint


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"policy.json": b"{"},
        {"policy.json": b'{"format": 1, "kind": "json"}'},
        {"policy.json": b'{"format": 2}'},
        {"policy.json": b'{"format": 1, "kind": "json", "bos": null, "eos": 1, "name": "x", "pattern": ""}'},
    ],
)
def test_files_that_are_damaged(files: dict[str, bytes]) -> None:
    with pytest.raises(ConfigError):
        Tokenizer.from_files(files)


def test_policy_survives_the_files(saved: Saved) -> None:
    found = open_tokenizer(saved(made.llama3_like()), bos="none", eos="<|eot_id|>")
    assert Tokenizer.from_files(found.files()).fingerprint == found.fingerprint
    assert (found.bos, found.eos) == (None, 3_004)


# --- BOS and EOS ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "got"),
    [("auto", 3_001), ("none", None), ("<|eot_id|>", 3_004), (3_010, 3_010), ("3010", 3_010)],
)
def test_policy(asked: str | int, got: int | None, saved: Saved) -> None:
    assert open_tokenizer(saved(made.llama3_like()), eos=asked).eos == got


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (3_256, "lies beyond the vocabulary"),
        ("-1", "lies beyond the vocabulary"),
        ("<|nothing|>", "has no token"),
        ("a", "is ordinary text"),
        (97, "is ordinary text"),
        ("\u0120the", "is ordinary text"),
        ("", "has no token"),
    ],
)
def test_policy_that_is_refused(asked: str | int, reason: str, saved: Saved) -> None:
    with pytest.raises(ConfigError, match=reason):
        open_tokenizer(saved(made.llama3_like()), bos=asked)


def test_names_that_no_flag_marks(saved: Saved) -> None:
    # </s> in the vocabulary of a unigram, and no list of added tokens: found by name, and out of reach of text
    found = {
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [
                ["<unk>", 0.0],
                ["<s>", 0.0],
                ["</s>", 0.0],
                ["a", -1.0],
                ["<", -2.0],
                ["/", -2.0],
                ["s", -2.0],
                [">", -2.0],
            ],
        },
    }
    made_of = open_tokenizer(saved(spelled(found)))
    assert (made_of.bos, made_of.eos, made_of.unk) == (1, 2, 0)
    assert reference(made_of).encode(["a</s><s>a<unk>"]).ids.tolist().count(2) == 0
    assert not {1, 2} & {*reference(made_of).encode(["</s>", "<s>"]).ids.tolist()}
    with pytest.raises(ConfigError, match="is ordinary text"):
        open_tokenizer(saved(spelled(found)), eos="a")


def test_whole_pieces_that_are_controls(saved: Saved) -> None:
    # ignore_merges looks whole pieces up in the vocabulary, a special token of letters alone among them
    found = document("llama3_like")
    size = len(found["model"]["vocab"])
    found["model"]["vocab"]["endofpage"] = size
    for token in found["added_tokens"]:
        token["id"] += 1
    found["added_tokens"].insert(0, {**found["added_tokens"][0], "id": size, "content": "endofpage"})
    opened = open_tokenizer(saved(spelled(found)), eos="endofpage")
    assert opened.eos == size
    assert size not in reference(opened).encode(["endofpage", "an endofpage", "x\nendofpage\n"]).ids.tolist()


# --- broken files --------------------------------------------------------------------------------------------------


def _with(change: Callable[[dict[str, Any]], object]) -> bytes:
    found = document("llama3_like")
    change(found)
    return spelled(found)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lambda: made.llama3_like()[:-100], "broken JSON"),
        (lambda: b"[" * 100_000, "broken JSON"),
        (lambda: b"{}", "no tokenizer.json"),
        (lambda: b"[1, 2]", "no tokenizer.json"),
        (lambda: b'{"the": 0, "of": 1}', "vocab.json"),
        (lambda: b'{"model": {"vocab": {}, "type": "BPE", "merges": []}}', "the vocabulary is empty"),
        (lambda: b'{"model": {"vocab": {"a": 0, "a": 1}, "merges": []}}', "'a' is there twice"),
        (lambda: b'{"model": {"vocab": 5, "type": "BPE", "merges": []}}', "export the tokenizer again"),
        (lambda: _with(lambda d: d["model"]["vocab"].update(zz=-1)), "-1 is no id"),
        (lambda: _with(lambda d: d["model"]["vocab"].update(zz=1.5)), "1.5 is no id"),
        (lambda: _with(lambda d: d["model"]["vocab"].update(zz="1")), "'1' is no id"),
        (lambda: _with(lambda d: d["model"]["vocab"].update(zz=True)), "True is no id"),
        (lambda: _with(lambda d: d["model"]["vocab"].update(zz=17)), "id 17 is given to two tokens"),
        (lambda: _with(lambda d: d["added_tokens"].pop(3)), "1 ids below 3256 belong to no token, the first is 3003"),
        (lambda: _with(lambda d: d["model"]["vocab"].update(zz=9_999)), "gaps"),
        (lambda: _with(lambda d: d["added_tokens"][3].update(content="a")), "'a' has id"),
        (lambda: _with(lambda d: d["added_tokens"][3].pop("id")), "export the tokenizer again"),
        (lambda: _with(lambda d: d["model"]["merges"].append(["zz", "yy"])), "cannot load it"),
        (lambda: _with(lambda d: d["model"]["merges"].append("a b c")), "export the tokenizer again"),
        (lambda: _with(lambda d: d["model"].update(type="Nonesuch")), "cannot load it|export"),
        (lambda: _with(lambda d: d.update(pre_tokenizer={"type": "Nonesuch"})), "cannot load it"),
    ],
)
def test_broken_json(data: Callable[[], bytes], reason: str, saved: Saved) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        open_tokenizer(saved(data(), "tokenizer.json"))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (lambda: ranks((b"ab", -1)), "-1 is no id|from 0"),
        (lambda: ranks((b"ab", 17)), "id 17 is given to two tokens"),
        (lambda: ranks((b"ab", 300)), "gaps"),
        (lambda: ranks((b"ab", 256), (b"ab", 257)), "there twice"),
        (lambda: ranks((b"ab", 0), single=False), "single bytes"),
        (lambda: ranks() + b"????? 256\n", "line 257"),
        (lambda: ranks() + b"YWI= x\n", "line 257"),
        (lambda: ranks() + b"YWI=\n", "line 257"),
        (lambda: ranks()[:-3] + b"\n", "line 256|is there twice|belong to no token|two tokens"),
    ],
)
def test_broken_ranks(data: Callable[[], bytes], reason: str, saved: Saved) -> None:
    with pytest.raises(ConfigError, match=reason):
        open_tokenizer(saved(data()), pattern="gpt2")


def test_pattern_that_is_no_regex(saved: Saved) -> None:
    with pytest.raises(ConfigError, match="cannot load it"):
        open_tokenizer(saved(ranks()), pattern="(")


def test_pattern_is_for_ranks(saved: Saved) -> None:
    for data in (made.gpt2_like(), made.unigram_model()):
        with pytest.raises(ConfigError, match="pattern is for ranks files"):
            open_tokenizer(saved(data), pattern="gpt2")


@pytest.mark.parametrize("cut", [100, 3_000, -1, -200])
def test_models_cut_short(cut: int, saved: Saved) -> None:
    with pytest.raises(ConfigError):
        open_tokenizer(saved(made.unigram_model()[:cut]))


def test_models_with_flipped_bytes_never_raise_anything_else(saved: Saved) -> None:
    data = made.unigram_model()
    for place in range(0, 3_000, 61):
        broken = bytearray(data)
        broken[place] ^= 0x55
        try:
            open_tokenizer(saved(bytes(broken)))
        except ConfigError as error:
            assert "\n" not in str(error)
