"""Texts on which tokenizers' engines have differed, and how two backends are compared."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

# Unicode blocks that random texts draw from; each with letters, marks, digits, blanks or signs that engines class apart
BLOCKS = (
    (0x00, 0x7F), (0x20, 0x7E), (0x80, 0x24F), (0x250, 0x36F), (0x370, 0x52F), (0x530, 0x5FF), (0x600, 0x7BF),
    (0x860, 0x8FF), (0x900, 0xDFF), (0xE00, 0x109F), (0x10A0, 0x139F), (0x13A0, 0x167F), (0x1680, 0x18AF),
    (0x1AB0, 0x1DFF), (0x1E00, 0x1FFF), (0x2000, 0x206F), (0x2070, 0x2BFF), (0x2C00, 0x2DFF), (0x2E00, 0x303F),
    (0x3040, 0x33FF), (0x4E00, 0x4FFF), (0xA000, 0xA4CF), (0xA4D0, 0xABFF), (0xAC00, 0xD7FF), (0xE000, 0xE0FF),
    (0xF900, 0xFAFF), (0xFB00, 0xFDFF), (0xFE00, 0xFE6F), (0xFE70, 0xFFFF), (0x10000, 0x1013F), (0x10A00, 0x10FFF),
    (0x11000, 0x11FFF), (0x16A00, 0x16FFF), (0x1B000, 0x1B2FF), (0x1D000, 0x1D7FF), (0x1E000, 0x1E9FF),
    (0x1F000, 0x1FAFF), (0x20000, 0x200FF), (0x2F800, 0x2FA1F), (0x30000, 0x323AF), (0xE0000, 0xE01EF),
    (0xF0000, 0xF00FF), (0x10FF00, 0x10FFFF),
)  # fmt: skip
BLANKS = (
    " \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2000\u2007\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
)
UNITS = (
    "a", "ab", "aab", "A", "é", "e\u0301", "ß", " ", "  a", "\n", "\r\n", "\t", "0", "12", "!", "?!", "-", "=",
    "'", "'s", "中", "あ", "กำ", "क्ष", "\u0301", "\u200d", "🙂", "👨\u200d👩\u200d👧", "🇩🇪", "\xa0", "\u3000",
    "\0", "\x01", "\x02", "\x7f", "\ufffd",
)  # fmt: skip
TAILS = ("s", "t", "re", "ve", "m", "ll", "d", "ſ", "am", "S", "Re", "lL", "K")
FORGED = ("<|endoftext|>", "<|bos|>", "<s>", "</s>", "<unk>", "[PAD]", "<|im_start|>", "<0x0A>", "▁")
RUNS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 63, 100, 127, 255, 256, 1_000)


def random_unicode(count: int, seed: int) -> list[str]:
    """Texts of up to 120 code points, no lone surrogates: from one block, from several, with blanks and repeats."""
    draw = random.Random(seed)
    texts = []
    for _ in range(count):
        blocks = draw.choices(BLOCKS, k=draw.choice((1, 1, 2, 5)))
        made: list[str] = []
        for _ in range(draw.randrange(1, 40)):
            character = _character(draw, *draw.choice(blocks))
            made.append(character * draw.choice((1, 1, 1, 2, 3)))
            if draw.random() < 0.3:
                made.append(draw.choice(BLANKS) * draw.choice((1, 1, 2, 3)))
        texts.append("".join(made))
    return texts


def _character(draw: random.Random, first: int, last: int) -> str:
    point = draw.randint(first, last)
    return chr(point) if not 0xD800 <= point <= 0xDFFF else " "


def adversarial(controls: Sequence[str] = ()) -> list[str]:
    """Runs, ties, blanks before and after everything, joined emoji, stacked marks, forged control strings."""
    return list(_adversarial(controls))


def _adversarial(controls: Sequence[str]) -> Iterator[str]:
    yield ""
    for unit in UNITS:
        for times in RUNS:
            yield unit * times
            yield f"x{unit * times}y {unit * times} 1"
    yield from (left + right for left in BLANKS for right in BLANKS)
    yield from (f"a{blank}{blank}b{blank}1{blank}!{blank}\n{blank}" for blank in BLANKS)
    for mark in "'’`":
        for word in ("it", "x", "l", "ſ"):
            yield " ".join(f"{word}{mark}{tail} {word.upper()}{mark}{tail.upper()}" for tail in TAILS)
    yield from (f"{'9' * n} {'9' * n},{'٣' * n}.{'五' * n}½{'²' * n}Ⅷ{'१' * n}" for n in (1, 2, 3, 4, 5, 6, 7, 31))
    yield "Z" + "".join(chr(0x300 + i % 0x70) for i in range(400)) + "z"  # stacked marks
    yield "".join(chr(c) for c in range(0x250))
    yield "\r\n\r\n \r \n\n\r  \n   x\n \n\ty \u2028\u2029 z"
    yield "https://example.org/a_b-c/%C3%A9?q=1&r[]=2#x <div class='a'>&nbsp;</div> {\"k\": [1.5e-3, null]} C:\\dir\\x"
    yield "ﬁ Å Å ℵ Ω Ω ͺ ſt ŉ İ ı ẞ ǅ ʼn ﷺ ﷽ ㍿ ½ ⅷ ① ㊿"
    yield "\u202eabc\u202c \u2066x\u2069 \u061c\u200e\u200f\ufeff\u00ad\u034f\u115f\u3164\uffa0"
    yield "\ufdd0\uffff\U0001fffe\U0010ffff \ue000\U000f0000 \u0378\u05ff\U0001f9ff\U0001fae8\u0897\u1c89\ua7cb\ua7dc"
    yield from ("".join(chr(c) for c in range(first, last + 1) if not 0xD800 <= c <= 0xDFFF) for first, last in BLOCKS)
    for control in (*controls, *FORGED):
        yield control
        yield f"a {control} b{control}{control} {control[:-1]} {control}\n{control} <{control}>"


def differing(got: Any, expected: Any) -> list[int]:
    """Places of the texts whose ids differ between two Encoded of the same texts."""
    if np.array_equal(got.ends, expected.ends) and np.array_equal(got.ids, expected.ids):
        return []
    mine, theirs = (np.split(each.ids, each.ends[:-1]) for each in (got, expected))
    return [place for place, pair in enumerate(zip(mine, theirs, strict=True)) if not np.array_equal(*pair)]


def smallest(text: str, differs: Callable[[str], bool]) -> str:
    """A shorter text that still differs: halves, then single characters, are taken away as long as it does."""
    size = max(1, len(text) // 2)
    while size:
        place = 0
        while place < len(text):
            shorter = text[:place] + text[place + size :]
            if shorter and differs(shorter):
                text = shorter
            else:
                place += size
        size //= 2
    return text
