"""Repair of mojibake: cases as data, and the laws that hold for any text."""

from __future__ import annotations

import json
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cleanpipe.text.mojibake_repair import damaged_lines, mend, suspicious
from cleanpipe.text.normalise import WHITESPACE_RULES, normalise, text_facts

DATA = Path(__file__).parents[2] / "data" / "text" / "mojibake.jsonl"
CASES = [json.loads(line) for line in DATA.read_text(encoding="utf-8").split("\n") if line]


@pytest.mark.parametrize("case", CASES, ids=[case["comment"] for case in CASES])
def test_cases(case: dict[str, str]) -> None:
    assert ascii(normalise(case["in"], mojibake=True)) == ascii(case["out"])
    assert normalise(case["out"], mojibake=True) == case["out"]


def test_it_is_asked_for() -> None:
    assert normalise("cafÃ©") == "cafÃ©"
    assert normalise("cafÃ©", "space", True) == "café"


DAMAGE = ["latin-1", "cp1252", "cp1251", "cp1250", "cp1257", "cp437", "mac_roman"]
PROSE = st.text(alphabet="abc éàüßñçœ’“”…–ąłśčřžпривετα漢 \xa0\n.,?\u200b\xad\x85", max_size=30)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Pieces of prose, some of them damaged once or twice, with odd characters between."""
    pieces = []
    for _ in range(draw(st.integers(1, 4))):
        piece = draw(PROSE)
        for _ in range(draw(st.integers(0, 2))):
            codec, errors = draw(st.sampled_from(DAMAGE)), draw(st.sampled_from(["replace", "ignore"]))
            piece = piece.encode().decode(codec, errors)
        pieces.append(piece)
        pieces.append(draw(st.sampled_from(["", " ", "\n", "\u200b", "\u0301", "\x85", "\ud800", "Ã", "â€"])))
    return "".join(pieces)


@given(damaged() | st.text(max_size=40), st.sampled_from(WHITESPACE_RULES))
@example("Ã\u200b©a", "paragraphs")
@example("Ã\x83Â\u200b©", "space")
@settings(max_examples=400, deadline=None)
def test_the_result_is_stable_valid_and_composed(text: str, whitespace: str) -> None:
    done = normalise(text, whitespace, mojibake=True)
    assert normalise(done, whitespace, mojibake=True) == done
    assert normalise(done, whitespace) == done
    assert unicodedata.is_normalized("NFC", done)
    done.encode("utf-8")


@given(st.lists(damaged().map(lambda t: t.replace("\n", " ").replace("\x85", " ")), max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_line_does_not_depend_on_its_neighbours(lines: list[str]) -> None:
    assert mend("\n".join(lines)) == "\n".join(map(mend, lines))


@given(damaged())
@settings(max_examples=200, deadline=None)
def test_only_what_is_suspicious_is_mended(text: str) -> None:
    if not suspicious(text):
        assert mend(text) == text
        assert damaged_lines(text) == 0
    if mend(text) != text:
        assert damaged_lines(text) > 0


@given(st.text(alphabet=st.characters(max_codepoint=0x7F), max_size=60))
def test_ascii_is_never_touched(text: str) -> None:
    assert not suspicious(text)
    assert mend(text) == text


def test_the_audit_is_told_what_was_damaged_and_what_still_is() -> None:
    before = "cafÃ© fermÃ©\nall is well\nUTF-8: cafÃ©\nthÃ© vert"
    after = normalise(before, mojibake=True)
    assert after == "café fermé\nall is well\nUTF-8: cafÃ©\nthé vert"
    facts = text_facts(before, after)
    assert facts["mojibake_documents_before"] == 1
    assert facts["mojibake_lines_before"] == 2  # the line that speaks of encodings is none
    assert "mojibake_lines_after" not in facts
    left = text_facts(before, normalise(before))
    assert (left["mojibake_lines_before"], left["mojibake_lines_after"], left["mojibake_documents_after"]) == (2, 2, 1)
    assert not {n for n in text_facts("Größe – “ça”", "Größe – “ça”") if "mojibake" in n}


@pytest.mark.parametrize(
    "pattern", ["Ã©", "â€™ ", "ÃƒÂ©", "Ã", "â€", "\x80", "Р°", "Ã\u200b©", "ðŸ˜", "√©a", "├⌐a", "Ã "]
)
def test_cost_grows_with_length(pattern: str) -> None:
    began = time.process_time()
    done = normalise("x" + pattern * 100_000 + " end.", mojibake=True)
    assert time.process_time() - began < 10  # a second at most
    assert normalise(done, mojibake=True) == done
