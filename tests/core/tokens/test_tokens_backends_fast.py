"""The fast backend: the reference's ids on three families of tokenizers, whatever the texts and the batches."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tokenizers")
pytest.importorskip("tiktoken")
import made_tokenizers as made

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backends import fast as module
from cleanpipe.tokens.backends import reference
from cleanpipe.tokens.backends.fast import FastBackend
from cleanpipe.tokens.backends.fast_ranks import ranked
from cleanpipe.tokens.backends.fast_table import PieceTable
from cleanpipe.tokens.tokenizer import Tokenizer, open_tokenizer
from cleanpipe.tokens.tokenizer.opening import made as tokenizer_of
from cleanpipe.tokens.tokenizer.patterns import O200K

HARD = "ab1 \n\t'sS!\r\x00\x0b\x1c\x7fé\u00a0”\u0301中\u3000٣😀\u2028Ⅷ½ǅ\u200d\u0378\U000e0041<|>"
RUNS = ["a", "ab", " ", "\n", "\r\n", "!", "7", "'", "'s", "é", "\u0301", "中", "中文字", "\u0378", "\u00a0", "😀"]


def tokenizer(name: str) -> Tokenizer:
    if name == "o200k":
        return tokenizer_of("made", "tiktoken", made.tiktoken_ranks(), "o200k", "auto", "auto")
    if name == "ranks":
        return tokenizer_of("made", "tiktoken", made.tiktoken_ranks(), "cl100k", "auto", "auto")
    if name in ("gpt2", "cleanpipe-16k"):
        return open_tokenizer(name)
    return tokenizer_of("made", "json", made.FILES[name](), "", "auto", "auto")


SPLIT = {"type": "Split", "pattern": {"Regex": O200K}, "behavior": "Isolated", "invert": False}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
FAMILIES = ["gpt2", "cleanpipe-16k", "gpt2_like", "llama3_like", "ignore_merges_orphans", "ranks", "o200k"]


@pytest.fixture(scope="module", params=FAMILIES)
def pair(request: pytest.FixtureRequest) -> tuple[Any, FastBackend]:
    found = tokenizer(request.param)
    return reference(found), FastBackend(found)


def same(pair: tuple[Any, FastBackend], texts: Sequence[str]) -> None:
    expected, got = pair[0].encode(texts, starts=True), pair[1].encode(texts, starts=True)
    np.testing.assert_array_equal(got.ids, expected.ids)
    np.testing.assert_array_equal(got.ends, expected.ends)
    np.testing.assert_array_equal(got.starts, expected.starts)
    assert got.ids.dtype == np.uint32
    assert got.ends.dtype == np.int64


def test_languages_and_code(pair: tuple[Any, FastBackend]) -> None:
    same(pair, made.texts())
    assert pair[1].facts()["texts_by_reference"] < 3
    same(pair, [*made.texts()][::-1])  # now from the table


def test_runs(pair: tuple[Any, FastBackend]) -> None:
    same(pair, [run * size + end for run in RUNS for size in (1, 2, 3, 7, 100, 3_001) for end in ("", "x", " x", "\n")])


def test_mixtures(pair: tuple[Any, FastBackend]) -> None:
    chosen = random.Random(11)
    same(pair, ["".join(chosen.choices(HARD, k=chosen.randint(0, 80))) for _ in range(1_000)])


def test_nothing(pair: tuple[Any, FastBackend]) -> None:
    for texts in ([], [""], ["", "", ""], ["", "a", ""]):
        same(pair, texts)


def test_every_kind_of_character(pair: tuple[Any, FastBackend]) -> None:
    points = [point for point in range(0x30000) if not 0xD800 <= point < 0xE000][::7]
    same(
        pair,
        ["".join(f"a{c}1 {c}{c}'{c}x\n{c}" for c in map(chr, points[k : k + 64])) for k in range(0, len(points), 64)],
    )


def test_what_differs_goes_to_the_reference(pair: tuple[Any, FastBackend]) -> None:
    before = pair[1].facts()["texts_by_reference"]
    texts = ["plain", "a\x01b", "x\x02", "planes \U00050000 \U0010ffff", "plain again", ""]
    same(pair, texts)
    assert pair[1].facts()["texts_by_reference"] == before + 3
    assert pair[1].facts()["texts_by_reference_control_characters"] >= 2
    assert pair[1].facts()["texts_by_reference_code_points"] >= 1


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), max_size=6))
def test_any_unicode(pair: tuple[Any, FastBackend], texts: list[str]) -> None:
    same(pair, texts)


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(st.text(HARD, max_size=40), max_size=6))
def test_any_hard_text(pair: tuple[Any, FastBackend], texts: list[str]) -> None:
    same(pair, texts)


def test_batches_play_no_part(pair: tuple[Any, FastBackend], monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [*made.texts()][:20]
    whole = pair[1].encode(texts)
    monkeypatch.setattr(module, "_CALL", 1_000)
    small = pair[1].encode(texts)
    alone = [pair[1].encode([text]).ids for text in texts]
    np.testing.assert_array_equal(whole.ids, small.ids)
    np.testing.assert_array_equal(whole.ends, small.ends)
    np.testing.assert_array_equal(whole.ids, np.concatenate(alone))


def test_table_stays_small_and_right() -> None:
    found = tokenizer("llama3_like")
    fast, truth = FastBackend(found), reference(found)
    assert fast._table is not None
    fast._table._most = 50
    for text in made.texts()[:30]:
        np.testing.assert_array_equal(fast.encode([text]).ids, truth.encode([text]).ids)
        assert len(fast._table._counts) <= 50 + 1_500
    long = PieceTable(b"\x02", lambda pieces: (np.arange(len(pieces), dtype=np.uint32), np.ones(len(pieces), np.int64)))
    ids, counts = long.encode(b"a" * 100 + b"b\x02", np.array([0, 100, 101]))
    assert (ids.tolist(), counts.tolist()) == ([0, 1], [2])
    assert long._pieces.to_pylist() == [b"\x02", b"b"]  # the long one is not kept


class Panic(BaseException):
    """As the engine's own."""


Panic.__name__ = "PanicException"


class Failing:
    def __init__(self, engine: Any, error: BaseException) -> None:
        self.engine, self.error = engine, error

    def encode_to_tiktoken_buffer(self, text: str, allowed: set[str]) -> bytes:
        if "bomb" in text:
            raise self.error
        return bytes(self.engine.encode_to_tiktoken_buffer(text, allowed))


@pytest.mark.parametrize("error", [Panic("Unexpected stack overflow"), ValueError("no")])
@pytest.mark.parametrize("name", ["gpt2_like", "o200k"])
def test_a_text_on_which_the_engine_fails(name: str, error: BaseException) -> None:
    found = tokenizer(name)
    fast, truth = FastBackend(found), reference(found)
    fast._engine = Failing(fast._engine, error)
    texts = ["one", "a bombastic text", "three"]
    np.testing.assert_array_equal(fast.encode(texts).ids, truth.encode(texts).ids)
    assert fast.facts()["texts_by_reference_engine"] == 1


def test_a_stop_is_no_failure() -> None:
    fast = FastBackend(tokenizer("gpt2_like"))
    fast._engine = Failing(fast._engine, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        fast.encode(["bomb"])


def test_a_wrong_engine_is_noticed() -> None:
    found = tokenizer("gpt2_like")
    fast, truth = FastBackend(found), reference(found)
    fast._engine = type("Wrong", (), {"encode_to_tiktoken_buffer": lambda self, text, allowed: b""})()
    np.testing.assert_array_equal(fast.encode(["some text"]).ids, truth.encode(["some text"]).ids)


# --- tokenizers that others do not have ---------------------------------------------------------------------------


def changed(name: str = "gpt2_like", **model: Any) -> Tokenizer:
    document = json.loads(made.FILES[name]())
    document["model"] |= model
    return tokenizer_of("made", "json", json.dumps(document).encode(), "", "auto", "auto")


def test_added_tokens_that_are_ordinary() -> None:
    document = json.loads(made.gpt2_like())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    document["added_tokens"] += [
        {"id": 3_000, "content": "<tool_call>", **flags},
        {"id": 3_001, "content": "</tool_call>", **flags},
    ]
    found = tokenizer_of("made", "json", json.dumps(document).encode(), "", "auto", "auto")
    fast, truth = FastBackend(found), reference(found)
    same((truth, fast), ["a<tool_call>b</tool_call>", "plain", "<tool_call", "<|endoftext|><tool_call>"])
    assert fast.facts()["texts_by_reference_added_tokens"] == 2
    assert truth.encode(["<tool_call>"]).ids.tolist() == [3_000]
    assert "<tool_call>" not in found.controls
    document["added_tokens"][-1]["content"] = "  "
    with pytest.raises(ConfigError, match="added token of blanks"):
        FastBackend(tokenizer_of("made", "json", json.dumps(document).encode(), "", "auto", "auto"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("with_normalizer", "normalizer"), ("wordpiece", "WordPiece"), ("metaspace_bpe_byte_fallback", "normalizer")],
)
def test_refusals(name: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        FastBackend(tokenizer(name))


def test_dropout_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"dropout of 0\.1.*set model\.dropout to null"):
        changed(dropout=0.1)
    assert FastBackend(changed(dropout=0.0)).name == "fast"


def test_merges_whose_order_is_not_that_of_ids() -> None:
    # ids of the vocabulary turned round: ranks of the engine are not ids
    document = json.loads(made.gpt2_like())
    vocab = document["model"]["vocab"]
    names = [name for name in vocab if name != "<|endoftext|>"]
    vocab |= dict(zip(names, [vocab[name] for name in reversed(names)], strict=True))
    found = tokenizer_of("made", "json", json.dumps(document).encode(), "", "auto", "auto")
    same((reference(found), FastBackend(found)), made.texts())


def _tiny(merges: list[str], more: Sequence[str] = (), **model: Any) -> dict[str, Any]:
    letters = list(made.byte_alphabet())
    tokens = [*letters, *dict.fromkeys([merge.replace(" ", "") for merge in merges]), *more]
    return {
        "model": {
            "type": "BPE",
            "vocab": {token: place for place, token in enumerate(tokens)},
            "merges": merges,
            **model,
        },
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True},
        "added_tokens": [],
    }


def _opened(document: dict[str, Any]) -> tuple[Any, FastBackend]:
    found = tokenizer_of("tiny", "json", json.dumps(document).encode(), "", "auto", "auto")
    return reference(found), FastBackend(found)


WORDS = ["abc abcabc aabbcc", "xabcx", "ababab", "abcd bcd cd", "aaaaaaa", "dcba abcdabcd"]


@pytest.mark.parametrize(
    "document",
    [
        _tiny(["a b", "ab c"]),
        _tiny(["b c", "a b", "ab c"]),  # abc is never reached from "abc": bc comes first
        _tiny(["b c", "a b", "ab c"], ignore_merges=True),  # but is a token as a whole
        _tiny(["a b", "b c", "ab c", "a bc"]),  # two ways to one token
        _tiny(["a a", "aa a", "aa aa"]),
        _tiny(["a b", "c d"], ["abcd", "bc"], ignore_merges=True),  # tokens that no merge makes
        _tiny(["a b", "c d"], ["abcd"]),
        _tiny(["c d", "b cd", "a b"]),
        _tiny([]),
    ],
)
def test_odd_merges(document: dict[str, Any]) -> None:
    same(_opened(document), WORDS)


def test_merges_into_one_token_must_stand_together() -> None:
    with pytest.raises(ConfigError, match="do not stand together"):
        _opened(_tiny(["a b", "ab c", "b c", "a bc"]))


def test_whole_tokens_among_ranks_are_refused_where_neighbours_would_become_them() -> None:
    document = _tiny(["a b", "c d"], ["abcd"], ignore_merges=True)
    with pytest.raises(ConfigError, match="two tokens side by side"):
        ranked(document, apart=False)
    assert ranked(document, apart=True).whole == {b"abcd": 258}
    # three tokens never meet as two
    assert ranked(_tiny(["a b"], ["abcd"], ignore_merges=True), apart=False).whole == {}


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_merges(data: st.DataObject) -> None:
    tokens, merges = list("abc"), []
    for _ in range(data.draw(st.integers(0, 12))):
        left, right = data.draw(st.sampled_from(tokens)), data.draw(st.sampled_from(tokens))
        if f"{left} {right}" not in merges and left + right not in tokens:
            merges.append(f"{left} {right}")
            tokens.append(left + right)
    merges = data.draw(st.permutations(merges))  # a file may list a merge before those that make its parts
    whole = data.draw(st.booleans())
    more = [token for token in ("abab", "cab", "bcabc") if whole and token not in tokens]
    texts = data.draw(st.lists(st.text("abc ", max_size=24), min_size=1, max_size=8))
    same(_opened(_tiny(merges, more, ignore_merges=whole)), texts)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_ranks(data: st.DataObject) -> None:
    # also such as no training makes: longer pieces before their parts, pieces that nothing leads to
    tokens = data.draw(st.lists(st.text("abc", min_size=2, max_size=5), unique=True, max_size=14))
    pieces = [*(bytes([byte]) for byte in range(256)), *(token.encode() for token in tokens)]
    rows = b"".join(base64.b64encode(piece) + b" %d\n" % rank for rank, piece in enumerate(pieces))
    texts = data.draw(st.lists(st.text("abc ", max_size=30), min_size=1, max_size=8))
    for pattern in ("cl100k", "o200k"):
        found = tokenizer_of("any", "tiktoken", rows, pattern, "auto", "auto")
        same((reference(found), FastBackend(found)), texts)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_ranks_by_the_engine_alone(data: st.DataObject) -> None:
    # ``apart=False``: whole pieces among the ranks, or refused
    tokens = data.draw(st.lists(st.text("abc", min_size=2, max_size=5), unique=True, max_size=10))
    letters = list(made.byte_alphabet())
    entries = [*letters, *tokens]
    pairs = [(token[:cut], token[cut:]) for token in tokens for cut in range(1, len(token))]
    merges = [pair for pair in pairs if {*pair} <= {*entries} and data.draw(st.booleans())]
    document = _tiny([], tokens, ignore_merges=True)
    document["model"]["merges"] = merges
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [SPLIT, BYTES]}
    try:
        truth, fast = _opened(document)
    except ConfigError as error:
        assert "side by side" in str(error)
        return
    assert fast._table is None
    same((truth, fast), data.draw(st.lists(st.text("abc ", max_size=30), min_size=1, max_size=8)))
