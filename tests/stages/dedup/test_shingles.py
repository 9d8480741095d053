r"""Shingle sets: equal to plain Python's ``\w+`` over casefold(), hashed as the docstrings say, whatever the batch."""

from __future__ import annotations

import re
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe_stages.dedup import characters as ch
from cleanpipe_stages.dedup import plain
from cleanpipe_stages.dedup import shingles as module
from cleanpipe_stages.dedup.shingles import shingle_sets

FULL = (1 << 64) - 1


def absorb(value: int) -> int:
    value = value * 0xD6E8FEB86659FD93 & FULL
    return value ^ value >> 32


def token(word: str) -> int:
    data = word.encode()
    if len(data) > 64:
        return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
    value = 0
    for at in range(0, len(data), 8):
        value = absorb(value ^ int.from_bytes(data[at : at + 8], "little"))
    return value


def mix(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & FULL
    value = (value ^ value >> 27) * 0x94D049BB133111EB & FULL
    return value ^ value >> 31


def window(tokens: list[int]) -> int:
    total = 0
    for value in tokens:
        total = (total * 0xD6E8FEB86659FD93 + value) & FULL
    return mix(total)


def reference(text: str, words: int = 5, characters: int = 8) -> list[int]:
    """Big integers and plain strings only."""
    found = plain.shingles(text, words=words, characters=characters)
    if plain.by_characters(text.casefold()):
        return sorted({window([mix(ord(c)) for c in s]) for s in found})
    return sorted({window([token(w) for w in s.split(" ")]) for s in found})


def sets_of(texts: list[str], **sizes: int) -> list[list[int]]:
    sets = shingle_sets(pa.array(texts, pa.large_string()), **sizes)
    return [sets[i].tolist() for i in range(len(sets))]


PIECES = st.one_of(
    st.text(max_size=12),
    st.text(alphabet="abXYZ_09 .,-\n\t\0\x1c\x85", max_size=30),
    st.text(alphabet="aÀéßİıſKΣςДд\u0345\u0301ﬁ’—\u00a0\u3000 ", max_size=30),
    st.text(alphabet="中文字日本語ひらがなカﾀｶナไทยລາວမြန်ខ្មែរ。、 ab", max_size=40),
    st.text(alphabet="𝒜𝟘😀𠀀𐐀\U000e0041 a", max_size=12),
    st.integers(1, 200).map(lambda n: "x" * n),
    st.integers(1, 50).map(lambda n: "é" * n),
)
TEXTS = st.lists(PIECES, max_size=12).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6), st.integers(1, 6), st.integers(1, 9))
def test_equal_to_plain_python(texts: list[str], words: int, characters: int) -> None:
    assert sets_of(texts, words=words, characters=characters) == [reference(t, words, characters) for t in texts]


def test_every_code_point_between_two_letters() -> None:
    r"""Each code point folds, divides or joins as Python's re says; 500 to a document, a word before and after each."""
    codes = [c for c in [*range(0x40000), *range(0xE0000, 0xE0200)] if not 0xD800 <= c < 0xE000]
    texts = ["".join(f" a{chr(c)}b" for c in codes[i : i + 500]) for i in range(0, len(codes), 500)]
    sets = shingle_sets(pa.array(texts, pa.large_string()))
    expected = [plain.shingles(t) for t in texts]
    assert sets.counts.tolist() == [len(e) for e in expected]
    for row in range(0, len(texts), 40):
        assert sets[row].tolist() == reference(texts[row])


def test_nothing_is_assigned_above_the_table() -> None:
    for code in range(0x40000, 0x110000):
        char = chr(code)
        if char.isalnum() or char.isspace() or char.casefold() != char:
            pytest.fail(f"U+{code:X} has a property that the table leaves out")


def test_lengths_around_the_eight_byte_steps() -> None:
    words = ["q" * n + "z" for n in range(1, 140)]
    assert sets_of([" ".join(words)]) == [reference(" ".join(words))]
    for word in words:  # the last word of the buffer, where the next eight bytes are padding
        assert sets_of([word], words=1) == [reference(word, 1)]


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=8), st.data())
def test_the_batch_does_not_matter(texts: list[str], data: st.DataObject) -> None:
    alone = [sets_of([t])[0] for t in texts]
    assert sets_of(texts) == alone
    cut = data.draw(st.integers(0, len(texts)))
    array = pa.array(["left out É", *texts], pa.large_string()).slice(1 + cut)
    sets = shingle_sets(array)
    assert [sets[i].tolist() for i in range(len(sets))] == alone[cut:]


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"one two three four five {i} É six 中 seven" for i in range(50)] + ["", "中文字日本語ひらがな" * 3, ""]
    whole = sets_of(texts)
    for size in (1, 40, 100, 1000):
        monkeypatch.setattr(module, "_BLOCK", size)
        assert sets_of(texts) == whole


def test_string_types_and_nulls() -> None:
    values = ["a b c d e", None, "a b c d e f", ""]
    for kind in (pa.string(), pa.large_string()):
        assert shingle_sets(pa.array(values, kind)).counts.tolist() == [1, 0, 2, 0]
    assert len(shingle_sets(pa.array([], pa.large_string()))) == 0
    assert len(shingle_sets(pa.array([], pa.string()))) == 0


def test_golden_hashes() -> None:
    """These numbers are in the keys of finished runs: they may never change."""
    assert sets_of(["The quick brown fox jumps over"]) == [[0x8777961CC19B726D, 0xED60D9E4CA51D970]]
    assert sets_of(["我能吞下玻璃而不"]) == [[0x8E512528C7B6B04E]]


@pytest.mark.parametrize(
    ("text", "expected", "why"),
    [
        ("日本a", True, "2 of 3 letters"),
        ("日本日abcdefg", False, "3 of 10 is not more than 30 %"),
        ("日本日abcdef", True, "3 of 9"),
        ("日本日 1234567890 !!! abcdef", True, "figures and signs are no letters"),
        ("ไทย abc", True, "Thai"),
        ("ລາວ", True, "Lao"),
        ("ខ្មែរ", True, "Khmer"),
        ("မြန်မာ", True, "Myanmar"),
        ("ｶﾀｶﾅ", True, "half-width Katakana"),
        ("한국어 문장", False, "Hangul is written with blanks"),
        ("हिन्दी में", False, "Devanagari is written with blanks"),
        ("12345 。。。", False, "no letters at all"),
        ("々〇", True, "iteration mark and the Han zero are letters or numbers of Han"),
        ("", False, "nothing"),
    ],
)
def test_which_texts_are_cut_into_characters(text: str, expected: bool, why: str) -> None:
    sets = shingle_sets(pa.array([text], pa.large_string()))
    assert bool(sets.by_characters[0]) is expected, why
    assert plain.by_characters(text.casefold()) is expected, why


def test_no_two_shingles_share_a_hash() -> None:
    """Short alike words in all orders: a weak mix would collide here. 64 bits should not in some 50,000."""
    words = [f"{a}{b}" for a in "abcdefghij0123456789" for b in "abcdefghij0123456789_"]
    text = " ".join(words[(i * i * 7 + i // 3) % len(words)] for i in range(60_000))
    assert shingle_sets(pa.array([text], pa.large_string())).counts[0] == len(plain.shingles(text))


def test_hashes_are_uniform() -> None:
    """Every bit of the hash is set in half of the shingles, within five standard errors."""
    text = " ".join(f"w{i}" for i in range(20_000))
    values = shingle_sets(pa.array([text], pa.large_string())).values
    for bit in range(64):
        share = np.mean(values >> np.uint64(bit) & np.uint64(1))
        assert abs(share - 0.5) < 5 * 0.5 / len(values) ** 0.5, bit


def test_word_flag_is_that_of_re() -> None:
    everything = "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, 0x40000)))
    mask = np.zeros(0x110000, dtype=bool)
    for found in re.finditer(r"\w+", everything):
        codes = [ord(c) for c in found.group()]
        mask[codes] = True
    assert np.array_equal(mask[:0x40000], (ch.flags()[:0x40000] & ch.WORD) != 0)
