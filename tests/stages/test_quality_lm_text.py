"""What the n-gram models read, by the rules of version 2 written down plainly, and by hand."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe_stages.quality import lm_text

ANY = st.text(st.characters(blacklist_categories=("Cs",)), max_size=300)
ODD = st.text("aZ9_ \t\n.,'’“–…\u00ad\u00a0éÉЖж²٣界。😀İ\u0301\x00\x7f▁１", max_size=80)


def folded(text: str) -> list[str]:
    for old, new in zip("‘’“”–—", "''\"\"--", strict=True):
        text = text.replace(old, new)
    text = text.replace("…", "...").replace("\u00ad", "")
    return [line.lower() if line.isupper() else line for line in text.split("\n")]


def plain_words(text: str) -> list[str]:
    out = []
    for line in folded(text):
        line = re.sub(r"[\x00-\x1f\x7f]", " ", re.sub(r"0+([.,:/-]0+)*", "0", re.sub(r"\d", "0", line)))
        out.append(" ".join(re.findall(r"[^\W_]+|[^\w\s]|_", line)))
    return [line for line in out if line]


@given(ANY | ODD)
@settings(max_examples=300, deadline=None)
def test_words_follow_their_rules(text):
    found = lm_text.words(text)
    assert [b" ".join(line.split()).decode() for line, _ in found] == plain_words(text)
    assert [n for _, n in found] == [len(line.split()) for line, _ in found]


@given(ANY | ODD)
@settings(max_examples=300, deadline=None)
def test_characters_lose_nothing_visible(text):
    found = lm_text.characters(text)
    assert [n for _, n in found] == [len(line.split()) for line, _ in found]
    seen = "".join(line.decode().replace(" ", "").replace("▁", "") for line, _ in found)
    plain = "".join(re.sub(r"[\s\x00-\x1f\x7f▁]", "", re.sub(r"\d+([.,:/-]\d+)*", "0", line)) for line in folded(text))
    assert seen == plain


WORDS = [
    ("It’s 2024:\nsnake_case(x)…\n\n Ünï", ["It ' s 0 :", "snake _ case ( x ) . . .", "Ünï"], "folds, digits, blanks"),
    ("1.6.4. On 2024-01-02, 3,000.50 at 12:30–14", ["0 . On 0 , 0 at 0"], "a number is one token"),
    ("utf8 x-1 1-x", ["utf0 x - 0 0 - x"], "a hyphen between a digit and a letter is no part of a number"),
    ("THE KEEPER WEIGHS\nThe Keeper", ["the keeper weighs", "The Keeper"], "a shouted line is lowered, another is not"),
    ("NATO met", ["NATO met"], "one small letter: nobody shouts"),
    ("１２ ٣ ²", ["0 0 ²"], "digits of every script; a fullwidth one is no quote (cc_net's table makes it one)"),
    ("a\x00b\x1fc\td", ["a b c d"], "control characters are blanks"),
    ("one\ntwo\n", ["one", "two"], "line breaks part lines: they are no control characters to be stripped first"),
    ("co\u00adoperate", ["cooperate"], "soft hyphens vanish"),
    ("a\u2028b", ["a b"], "only \\n parts lines"),
    ("<unk> </s>", ["< unk > < / s >"], "names of control tokens are text"),
    ("", [], "nothing"),
    (" \n\t\n\u00a0", [], "blanks alone"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "lines", "comment"), WORDS, ids=[c for *_, c in WORDS])
def test_words_by_hand(text, lines, comment):
    assert [b" ".join(line.split()).decode() for line, _ in lm_text.words(text)] == lines


CHARACTERS = [
    ("猫が好き。\n犬も", ["猫 が 好 き 。", "犬 も"], "a token a code point"),
    ("我用 Python 3.11 写", ["我 用 ▁ Python 0 ▁ 写"], "Latin words are words; a blank beside a point is none"),
    ("the quick fox", ["the quick fox"], "no mark between Latin words: English must not be likely Chinese"),
    ("首页 关于", ["首 页 ▁ 关 于"], "the blanks of a menu are seen"),
    (
        "  二〇二四年\u3000三月 ",
        ["二 〇 二 四 年 ▁ 三 月"],
        "blanks at the ends are none, the ideographic one is a blank",
    ),
    ("\n \n", [], "nothing"),
]


@pytest.mark.parametrize(("text", "lines", "comment"), CHARACTERS, ids=[c for *_, c in CHARACTERS])
def test_characters_by_hand(text, lines, comment):
    assert [line.decode() for line, _ in lm_text.characters(text)] == lines


@pytest.mark.parametrize(
    ("text", "chars", "head"),
    [
        ("one two three", 13, "one two three"),
        ("one two three", 10, "one two"),  # inside "three"
        ("one two three", 7, "one two"),  # just before a blank
        ("one two three", 8, "one two "),
        ("one\ntwo", 5, "one"),
        ("onetwothree", 5, "onetw"),  # nothing else is there
    ],
)
def test_head_leaves_out_the_word_that_is_cut(text, chars, head):
    assert lm_text.head(text, chars) == head


@pytest.mark.parametrize(
    ("language", "reads"),
    [("en", "words"), ("ru", "words"), ("zh", "characters"), ("ja", "characters"), ("th", "characters")],
)
def test_the_language_decides_the_token(language, reads):
    assert lm_text.tokeniser(language).__name__ == reads
