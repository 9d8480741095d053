"""Words, lines, paragraphs and runs of words: by hand, and against the same said in plain Python."""

from __future__ import annotations

import numpy as np
import plain_heuristics as plain
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe_stages.heuristics import c4
from cleanpipe_stages.heuristics.grams import REPEATED, TOP, gram_shares
from cleanpipe_stages.heuristics.stop_words import COMMON, STOP_WORDS
from cleanpipe_stages.heuristics.units import BLANKS, TOKENS, Spans, Units, blocks

WORDS = [  # text, words and marks, what stands between blanks
    ("", "", ""),
    ("one", "one", "one"),
    ("Hello, world!", "Hello|,|world|!", "Hello,|world!"),
    ("don't can’t 'tis o'", "don't|can’t|'|tis|o|'", "don't|can’t|'tis|o'"),
    ("3,000 3.14 1,a a,1 v1.2", "3,000|3.14|1|,|a|a|,|1|v1.2", "3,000|3.14|1,a|a,1|v1.2"),
    ("e.g. U.S. example.com end.", "e.g|.|U.S|.|example.com|end|.", "e.g.|U.S.|example.com|end."),
    ("11/20/2019 9:30 a/b a:b", "11/20/2019|9:30|a|/|b|a|:|b", "11/20/2019|9:30|a/b|a:b"),
    ("covid-19 4-fold 3-4 x-y", "covid-19|4-fold|3|-|4|x|-|y", "covid-19|4-fold|3-4|x-y"),
    ("me@example.com R&B a & b @x", "me@example.com|R&B|a|&|b|@|x", "me@example.com|R&B|a|&|b|@x"),
    (
        "(see https://a.example/b-c?d=1&e=2). x://",
        "(|see|https://a.example/b-c?d=1&e=2|)|.|x://",
        "(see|https://a.example/b-c?d=1&e=2).|x://",
    ),
    ("wait... what?! -- #tag", "wait|...|what|?|!|--|#|tag", "wait...|what?!|--|#tag"),
    ("snake_case __init__", "snake_case|__init__", "snake_case|__init__"),
    ("well-known", "well|-|known", "well-known"),
    ("…… “so”", "…|…|“|so|”", "……|“so”"),
    ("naïve e\u0301te\u0301", "naïve|e\u0301te\u0301", "naïve|e\u0301te\u0301"),
    ("हिन्दी भाषा", "हिन्दी|भाषा", "हिन्दी|भाषा"),
    ("می\u200cخواهم", "می\u200cخواهم", "می\u200cخواهم"),
    ("中文 abc中x", "中|文|abc|中|x", "中|文|abc|中|x"),
    ("ภาษาไทย", "ภ|า|ษ|า|ไ|ท|ย", "ภ|า|ษ|า|ไ|ท|ย"),
    ("한국어 문장", "한국어|문장", "한국어|문장"),
    ("a\u00a0b\tc\nd", "a|b|c|d", "a|b|c|d"),
    ("\u200ea\u200f b", "a|b", "a|b"),
]


def words_of(units: Units) -> list[list[str]]:
    return spans_of(units, units.words)


def spans_of(units: Units, spans: Spans) -> list[list[str]]:
    data = units.data.tobytes()
    cut = [data[a:b].decode() for a, b in zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)]
    return [cut[a:b] for a, b in zip(spans.at[:-1].tolist(), spans.at[1:].tolist(), strict=True)]


@pytest.mark.parametrize(("text", "tokens", "between"), WORDS, ids=[w[0] for w in WORDS])
def test_words_by_hand(text: str, tokens: str, between: str) -> None:
    assert words_of(Units([text.encode()], TOKENS)) == [tokens.split("|") if tokens else []]
    assert words_of(Units([text.encode()], BLANKS)) == [between.split("|") if between else []]


LINES = [
    ("a\nb", ["a", "b"], ["a\nb"]),
    ("a\n\nb\nc", ["a", "b", "c"], ["a", "b\nc"]),
    ("\n\n  a  \n \n\tb\n", ["a", "b"], ["a", "b"]),
    ("", [], []),
    (" \n ", [], []),
    ("x" * 5000, ["x" * 5000], ["x" * 5000]),
]


@pytest.mark.parametrize(("text", "lines", "paragraphs"), LINES, ids=[repr(t[0][:9]) for t in LINES])
def test_lines_and_paragraphs_by_hand(text: str, lines: list[str], paragraphs: list[str]) -> None:
    units = Units([text.encode()])
    assert spans_of(units, units.lines) == [lines]
    assert spans_of(units, units.paragraphs()) == [paragraphs]
    assert units.lengths.tolist() == [len(text)]


CHARS = st.sampled_from("aab  \n\n.,:/@&'’#-…1é中界ไ\u0301\u200d\u200e_“😀я")
TEXTS = st.lists(st.text(CHARS, max_size=60), max_size=5)


@given(TEXTS)
@settings(max_examples=400, deadline=None)
def test_units_are_those_of_plain_python(texts: list[str]) -> None:
    documents = [t.encode() for t in texts]
    units = Units(documents, TOKENS)
    assert words_of(units) == [plain.tokens(t) for t in texts]
    assert words_of(Units(documents, BLANKS)) == [plain.blanks(t) for t in texts]
    assert spans_of(units, units.lines) == [plain.lines(t) for t in texts]
    assert units.lengths.tolist() == [len(t) for t in texts]
    sizes = units.characters(units.lines.starts, units.lines.ends)
    again = units.repeats(units.lines)
    expected = [plain.repeated(plain.lines(t)) for t in texts]
    assert units.lines.total(again).tolist() == [n for n, _ in expected]
    assert units.lines.total(sizes * again).tolist() == [n for _, n in expected]


FEW = st.lists(st.sampled_from(["a", "b", "cc", "é", ".", "a b a b"]), max_size=40).map(" ".join)


@given(st.lists(FEW, min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_runs_of_words_are_those_of_plain_python(texts: list[str]) -> None:
    found = gram_shares(Units([t.encode() for t in texts], TOKENS))
    for row, text in enumerate(texts):
        words = plain.tokens(text)
        for n in TOP:
            expected = plain.top(words, n) / len(text) if text else np.nan
            assert found[n][row] == pytest.approx(expected, nan_ok=True), (n, text)
        for n in REPEATED:
            expected = plain.again(words, n) / len(text) if text else np.nan
            assert found[n][row] == pytest.approx(expected, nan_ok=True), (n, text)


@given(st.lists(FEW, min_size=2, max_size=6))
@settings(max_examples=100, deadline=None)
def test_a_document_does_not_see_its_neighbours(texts: list[str]) -> None:
    together = gram_shares(Units([t.encode() for t in texts]))
    for row, text in enumerate(texts):
        alone = gram_shares(Units([text.encode()]))
        for n, values in together.items():
            np.testing.assert_equal(values[row], alone[n][0])


def test_scripts_without_blanks_take_characters_for_words() -> None:
    """Eight letters stand for five words: a phrase of eight that comes again counts, one of seven does not."""
    fill = "".join(chr(0x4E00 + 7 * i) for i in range(60))
    eight, seven = "天地玄黄宇宙洪荒", "天地玄黄宇宙洪"
    text = f"{eight}{fill[:30]}{eight}{fill[30:]}"
    found = gram_shares(Units([text.encode()]))
    assert found[5][0] == pytest.approx(8 / len(text))
    assert found[6][0] == 0
    text = f"{seven}{fill[:30]}{seven}{fill[30:]}"
    assert gram_shares(Units([text.encode()]))[5][0] == 0


def test_blocks_keep_order_and_cut_nothing() -> None:
    texts = ["a" * 200_000, None, "", "b" * 400_000, "c", "d" * 200_000]
    cut = list(blocks(pa.array(texts, pa.large_string())))
    assert [d for block in cut for d in block] == [(t or "").encode() for t in texts]
    assert all(len(block) == 1 or sum(map(len, block)) <= 1 << 18 for block in cut)
    assert list(blocks(pa.array([], pa.large_string()))) == []


def test_long_runs_of_one_document_alone() -> None:
    """More words than the bits of a place hold in a block of many documents."""
    text = "ab cd " * 140_000 + "the end of it all"
    found = gram_shares(Units([text.encode()]))
    words = text.split()
    assert found[2][0] == pytest.approx(plain.top(words, 2) / len(text))
    assert found[10][0] == pytest.approx(plain.again(words, 10) / len(text))


LONG = (
    "one two three four five six seven. Eight and nine and ten and more.\nmenu\n\n"
    "Ω lines of ten words are more than five of them…\n"
)


@pytest.mark.parametrize("longest", [40, 77, 150, 1000])
def test_a_long_document_is_the_sum_of_its_pieces(longest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces that end with lines, as long as no line is longer."""
    document = (LONG * 7).encode()
    parts = c4.pieces(document, longest)
    assert all(len(p) <= longest for p in parts)
    assert b"".join(parts).replace(b"\n", b"").replace(b" ", b"") == document.replace(b"\n", b"").replace(b" ", b"")
    assert [p.decode() for p in parts]
    rules = c4.LineRules(terminal=True, min_words=5, max_word=100, javascript=True, policy=True)
    whole, text = c4.judge([document], rules, True)
    monkeypatch.setattr(c4, "LONGEST", longest)
    monkeypatch.setattr(c4.pieces, "__defaults__", (longest,))
    summed, joined = c4.judge([document], rules, True)
    if longest > max(map(len, LONG.encode().split(b"\n"))):
        assert {n: v.tolist() for n, v in summed.items()} == {n: v.tolist() for n, v in whole.items()}
        assert joined == text


def test_characters_are_whole_where_a_long_text_ends() -> None:
    texts = pa.array(["é" * 10, "界" * 10, "ab" * 10], pa.large_string())
    assert [d.decode() for block in blocks(texts, 7) for d in block] == ["ééé", "界界", "abababa"]


def test_no_stop_word_is_too_long_to_be_found() -> None:
    for words in (*STOP_WORDS.values(), *COMMON.values()):
        assert all(len(w.encode()) <= 8 for w in words)
        assert len(set(words)) == len(words) >= 8
    assert STOP_WORDS["en"] == ("the", "be", "to", "of", "and", "that", "have", "with")
    assert set(STOP_WORDS["en"]) <= set(COMMON["en"])
