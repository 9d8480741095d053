"""Which tokenizers the device can encode exactly, and their merges as arrays: read from a ``tokenizer.json``.

Exact means: byte-level BPE whose pieces come from a pre-tokenizer of its own. A piece's ids then depend on its bytes
alone, every byte has an id to begin with, and merging in the order of ranks is all that is left to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError

Int64 = npt.NDArray[np.int64]

_NEVER = frozenset({0xC0, 0xC1, *range(0xF5, 0x100)})  # bytes that no UTF-8 text holds
_SPLITTING = frozenset(
    {"ByteLevel", "Split", "Digits", "Whitespace", "WhitespaceSplit", "Punctuation", "BertPreTokenizer"}
    | {"CharDelimiterSplit", "UnicodeScripts", "FixedLength"}
)
_REMOVING = frozenset({"Whitespace", "WhitespaceSplit", "BertPreTokenizer", "CharDelimiterSplit"})
# these leave a text that they need not change exactly as it was, places included
_IDLE_ON_NORMAL = frozenset({"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Nmt", "StripAccents"})


@dataclass(frozen=True, slots=True)
class Rules:
    """What a byte-level BPE does to one piece.

    vocabulary: pieces in the byte alphabet to ids, added tokens not among them. size: largest id + 1, added tokens
    included. alphabet: (65536,) id of the byte that a code point stands for, -1 where it stands for none.
    left, right, result: (merges,) ids, in the order of ranks. alone: (merges,) True where a rank's occurrences must be
    merged one by one, since what one of them makes may take part in a merge that comes earlier. added: strings that
    become one id wherever they stand. normalizes: texts that its normalizer changes need another way. placed: no
    character is left out, added or moved, so that byte lengths tell where tokens begin. byte_lengths: (size,).
    """

    vocabulary: Mapping[str, int]
    size: int
    alphabet: npt.NDArray[np.int32]
    left: Int64
    right: Int64
    result: Int64
    alone: npt.NDArray[np.bool_]
    ignore_merges: bool
    added: Mapping[str, int]
    normalizes: bool
    placed: bool
    byte_lengths: npt.NDArray[np.int32]


def byte_alphabet() -> list[str]:
    """The character that stands for each of the 256 bytes in byte-level vocabularies (GPT-2's table: printable Latin-1
    characters stand for themselves, the others for U+0100 and on).
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def read_rules(spec: str) -> Rules:
    """The rules in the text of a ``tokenizer.json`` as the `tokenizers` package writes it.

    Raises:
        ConfigError: it asks for something that the device could not do exactly; says what.
    """
    told: dict[str, Any] = json.loads(spec)
    model = told.get("model") or {}
    _refuse(model)
    vocabulary: dict[str, int] = model["vocab"]
    if len(set(vocabulary.values())) != len(vocabulary):
        raise refusal("two entries of its vocabulary share an id")
    removes, prefixes = _pre_tokenizers(told.get("pre_tokenizer"))
    normalizers = list(_normalizers(told.get("normalizer")))
    marked = told.get("added_tokens") or []
    added = {one["content"]: int(one["id"]) for one in marked if not one["special"]}
    stretches = any(one["lstrip"] or one["rstrip"] for one in marked if not one["special"])
    size = 1 + max([*vocabulary.values(), *(int(one["id"]) for one in marked)], default=-1)
    left, right, result = _merges(model, vocabulary)
    return Rules(
        vocabulary=vocabulary,
        size=size,
        alphabet=_alphabet(vocabulary, model),
        left=left,
        right=right,
        result=result,
        alone=_alone(left, right, result, size),
        ignore_merges=bool(model.get("ignore_merges")),
        added=added,
        normalizes=bool(normalizers),
        placed=not (removes or prefixes or stretches),
        byte_lengths=_byte_lengths(vocabulary, added, size),
    )


def refusal(reason: str) -> ConfigError:
    """The error that names why this backend does not take a tokenizer."""
    return ConfigError(f"the torch backend cannot encode with this tokenizer exactly: {reason}; take --backend hf")


def _refuse(model: Mapping[str, Any]) -> None:
    kind = model.get("type")
    if kind != "BPE":
        raise refusal(f"its model is {kind}, and only byte-level BPE is merged by rank alone")
    if model.get("dropout"):
        raise refusal("BPE dropout draws its merges at random")
    for key in ("continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(key):
            raise refusal(f"its {key} makes the ids of bytes depend on their place in a word")


def _pre_tokenizers(told: Mapping[str, Any] | None) -> tuple[bool, bool]:
    """Whether they leave out characters, and whether they put a space before."""
    if told is None:
        raise refusal("it has no pre-tokenizer, so a whole text is one piece")
    steps = list(_flat(told, "pretokenizers"))
    kinds = [step["type"] for step in steps]
    strange = sorted({kind for kind in kinds if kind not in _SPLITTING})
    if strange:
        raise refusal(f"its pre-tokenizer {strange[0]} changes the characters of its pieces")
    if kinds.count("ByteLevel") != 1:
        raise refusal("its pre-tokenizer does not turn characters into bytes (ByteLevel), so it has unknown characters")
    removes = any(step["type"] in _REMOVING or step.get("behavior") == "Removed" for step in steps)
    return removes, any(step.get("add_prefix_space") for step in steps)


def _normalizers(told: Mapping[str, Any] | None) -> Iterator[str]:
    for step in _flat(told, "normalizers") if told else ():
        if step["type"] not in _IDLE_ON_NORMAL:
            raise refusal(f"its normalizer {step['type']} would have to be undone to tell where tokens begin")
        yield step["type"]


def _flat(told: Mapping[str, Any], inner: str) -> Iterator[Mapping[str, Any]]:
    if told["type"] != "Sequence":
        yield told
        return
    for step in told[inner]:
        yield from _flat(step, inner)


def _alphabet(vocabulary: Mapping[str, int], model: Mapping[str, Any]) -> npt.NDArray[np.int32]:
    table = np.full(1 << 16, -1, np.int32)
    lacking = []
    for byte, char in enumerate(byte_alphabet()):
        table[ord(char)] = vocabulary.get(char, -1)
        if char not in vocabulary and byte not in _NEVER:
            lacking.append(byte)
    if lacking:
        way = "its byte fallback or unk token" if model.get("byte_fallback") or model.get("unk_token") else "nothing"
        raise refusal(f"{len(lacking)} bytes, 0x{lacking[0]:02X} first, have no entry and would become {way}")
    return table


def _merges(model: Mapping[str, Any], vocabulary: Mapping[str, int]) -> tuple[Int64, Int64, Int64]:
    pairs: dict[tuple[int, int], int] = {}
    ranked: dict[tuple[int, int], int] = {}
    for rank, told in enumerate(model["merges"]):
        first, second = told.split(" ") if isinstance(told, str) else told
        pair = vocabulary[first], vocabulary[second]
        pairs[pair] = vocabulary[first + second]
        ranked[pair] = rank  # of a pair told twice the last rank counts
    rows = sorted(pairs, key=ranked.__getitem__)
    both = np.array(rows, np.int64).reshape(-1, 2)
    return both[:, 0].copy(), both[:, 1].copy(), np.array([pairs[pair] for pair in rows], np.int64)


def _alone(left: Int64, right: Int64, result: Int64, size: int) -> npt.NDArray[np.bool_]:
    """A rank may merge all its occurrences at once only if every merge of what it makes has a later rank."""
    ranks = np.arange(len(left), dtype=np.int64)
    soonest = np.full(size, len(left), np.int64)
    np.minimum.at(soonest, left, ranks)
    np.minimum.at(soonest, right, ranks)
    return np.asarray(soonest[result] <= ranks)


def _byte_lengths(vocabulary: Mapping[str, int], added: Mapping[str, int], size: int) -> npt.NDArray[np.int32]:
    lengths = np.zeros(size, np.int32)
    for piece, one in vocabulary.items():
        lengths[one] = len(piece)
    for content, one in added.items():
        lengths[one] = len(content.encode())
    return lengths
