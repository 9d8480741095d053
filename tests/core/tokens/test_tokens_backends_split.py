"""Pieces found by whole arrays begin where the reference's own regex engine begins them: every short text of hard
characters, and long mixtures.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

library = pytest.importorskip("tokenizers")

from cleanpipe.errors import ConfigError  # noqa: E402
from cleanpipe.tokens.backends.fast_pieces import APART, piece_begins  # noqa: E402
from cleanpipe.tokens.backends.fast_split import (  # noqa: E402
    Rule,
    alternatives,
    byte_classes,
    point_classes,
    reference_class,
    rule_of,
)
from cleanpipe.tokens.tokenizer.patterns import CL100K, GPT2, O200K  # noqa: E402

pre = library.pre_tokenizers
PLAIN = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
QWEN2 = CL100K.replace("{1,3}", "")
QWEN35 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
OWN = QWEN35[QWEN35.index("|[") + 1 :]  # cleanpipe-16k's: no contractions
TRIPLES = GPT2.replace(r" ?\p{N}+", r"\p{N}{1,3}")


def split(pattern: str) -> Any:
    return pre.Split(library.Regex(pattern), "isolated")


def step(pattern: str) -> dict[str, Any]:
    found = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [found, PLAIN]}


def digits(single: bool) -> dict[str, Any]:
    last = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    return {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": single}, last]}


# as it stands in a tokenizer.json; the reference that gives places in the text itself
FAMILIES: dict[str, tuple[dict[str, Any], Any]] = {
    "gpt2": ({"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, split(GPT2)),
    "cl100k": (step(CL100K), split(CL100K)),
    "qwen2": (step(QWEN2), split(QWEN2)),
    "qwen3.5": (step(QWEN35), split(QWEN35)),
    "starcoder": (digits(True), pre.Sequence([pre.Digits(individual_digits=True), split(GPT2)])),
    "digit runs": (digits(False), pre.Sequence([pre.Digits(individual_digits=False), split(GPT2)])),
    "own": (step(OWN), split(OWN)),
    "triples": (step(TRIPLES), split(TRIPLES)),
}
HARD = [
    *"a1 \n\t'sS!L\r\x0b\x1c",
    *"é\u00a0”\u0301中\u3000٣😀\u2028\u0085Ⅷ½ǅʰ\u200d\u0378\U00010348\U000e0041",
]


def differing(name: str, texts: list[str]) -> list[str]:
    """Texts whose pieces begin elsewhere."""
    told, engine = FAMILIES[name]
    rule = rule_of(told)
    assert rule.shape is not None
    data = "".join(text + "\x02" for text in texts).encode()
    found, apart = piece_begins(data, byte_classes(rule), None if data.isascii() else point_classes(rule), rule.shape)
    assert not len(apart)
    wrong, place = [], 0
    ours = set(found.tolist())
    for text in texts:
        wanted = {place + len(text[:begin].encode()) for _, (begin, _) in engine.pre_tokenize_str(text)}
        size = len(text.encode())
        wanted.add(place + size)  # what stands after it is a piece of its own
        if wanted != ours.intersection(range(place, place + size + 1)):
            wrong.append(text)
        place += size + 1
    return wrong


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    ("letters", "length"),
    [("a1 \n\t'!é\u00a0”\u0301", 3), ("a1 \n'!\r", 5), ("le'rvSt !1", 4), ("".join(HARD), 2)],
)
def test_every_short_text(name: str, letters: str, length: int) -> None:
    texts = ["".join(chosen) for chosen in itertools.product(letters, repeat=length)]
    assert differing(name, ["", *texts]) == []


@pytest.mark.parametrize("name", FAMILIES)
def test_long_mixtures(name: str) -> None:
    chosen = random.Random(5)
    texts = ["".join(chosen.choices(HARD, k=chosen.randint(5, 60))) for _ in range(1_500)]
    assert differing(name, texts) == []


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(sorted(FAMILIES)), text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_any_text(name: str, text: str) -> None:
    table = point_classes(rule_of(FAMILIES[name][0]))
    known = "".join(letter for letter in text if table[ord(letter)] != APART and letter not in "\x01\x02")
    assert differing(name, [known]) == []


@pytest.mark.parametrize("name", ["gpt2", "cl100k"])
def test_classes_are_the_references(name: str) -> None:
    # found in one pass; here class by class
    table = point_classes(rule_of(FAMILIES[name][0]))
    asked = table != APART
    for value, found in ((1, r"\p{L}"), (2, r"\p{N}")):
        np.testing.assert_array_equal((table == value)[asked], reference_class(found)[asked])
    blank = reference_class(r"\s")
    np.testing.assert_array_equal(np.isin(table, [3, 4])[asked], blank[asked])


def test_what_was_not_asked_is_apart() -> None:
    table = point_classes(rule_of(FAMILIES["cl100k"][0]))
    assert [table[point] == APART for point in (0x41, 0x17F, 0x4E2D, 0x1F600, 0x50000, 0xF0000)] == [
        False,
        True,  # the long s, an s to (?i)
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("pattern", "shaped"),
    [
        (GPT2, True),
        (CL100K, True),
        (O200K, False),  # words by case: by the engine
        (r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s+(?!\S)|\s", True),
        (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+",
            True,
        ),
        (r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", False),  # fewer contractions
    ],
)
def test_known_patterns(pattern: str, shaped: bool) -> None:
    assert (rule_of(step(pattern)).shape is not None) == shaped


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (None, "none, not byte-level"),
        ({"type": "Metaspace", "replacement": "▁"}, "Metaspace, not byte-level"),
        ({"type": "ByteLevel", "add_prefix_space": True, "use_regex": True}, "puts a space before"),
        (step(r"\S+|\s+"), "does not end in a known way"),
        (step(r"(?<=a)b|\s+(?!\S)|\s+"), "not known here"),
        (step(r" ?\p{L}+| ?\p{N}+|\s+(?!\S)|\s+"), "none of those known"),  # leaves out marks
        (step(GPT2.replace(r"\p{L}\p{N}]+", r"\p{L}\p{N}]+[\r\n]*")), "none of those known"),
        (step(r"\s*[\r\n]+|" + GPT2), "none of those known"),
        ({"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, PLAIN]}, r"Whitespace \+ ByteLevel"),
        (
            {
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Split", "pattern": {"Regex": GPT2}, "behavior": "MergedWithNext", "invert": False},
                    PLAIN,
                ],
            },
            "of a kind",
        ),
    ],
)
def test_unknown_ways_are_refused(told: dict[str, Any] | None, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        rule_of(told)


def test_alternatives_are_the_outermost() -> None:
    assert alternatives(r"(?:a|b)|[|c]|\||d") == ["(?:a|b)", "[|c]", r"\|", "d"]


def test_rule_of_case() -> None:
    assert rule_of(step(CL100K)).folds
    found: Rule = rule_of(step(GPT2))
    assert not found.folds
