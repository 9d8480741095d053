"""utf8_normalize: what it repairs early, and that it stops at a row that was not."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError, StageContractError
from cleanpipe.testing import batch, check_stage
from cleanpipe.text.normalise import INVISIBLE, NEVER, WHITESPACE_RULES
from cleanpipe_stages.utf8_normalize import Utf8Normalize
from cleanpipe_stages.windowing import Windowing

LINES = (Path(__file__).parent / "cases" / "utf8_normalize.jsonl").read_text(encoding="utf-8").splitlines()
CASES = [json.loads(line) for line in LINES]


def rows(texts: list[str], **columns: Any) -> Any:
    n = len(texts)
    return batch(text=texts, source=["crawl/a.warc.gz"] * n, record_offset=[100 * i for i in range(n)], **columns)


@pytest.mark.parametrize("case", CASES, ids=[case["comment"] for case in CASES])
def test_cases(case: dict[str, str]) -> None:
    stage = Utf8Normalize(whitespace=case.get("whitespace", "paragraphs"))
    given = rows(["A good row.", case["text"]])
    if "fault" not in case:
        assert check_stage(stage, given).rows.equals(given)
        return
    with pytest.raises(StageContractError, match=case["fault"]) as caught:
        stage.open()(given)
    assert (caught.value.stage, caught.value.source, caught.value.offset) == ("utf8_normalize", "crawl/a.warc.gz", 100)
    assert f"document {1:032x}: " in caught.value.message


def test_length_is_proven() -> None:
    with pytest.raises(StageContractError, match="length is 4, the text has 3"):
        Utf8Normalize().open()(rows(["日本語"], length=[4]))


def test_facts_add_up() -> None:
    outcome = Utf8Normalize().open()(rows(["abc", "日本", ""]))
    assert outcome.facts == {"rows": 3, "characters": 5, "bytes": 9}
    assert Utf8Normalize().open()(rows([])).facts == {"rows": 0, "characters": 0, "bytes": 0}


def test_rule_is_the_option() -> None:
    text = "a\u200b  b\u00a0\n\n\n c\0"
    for whitespace, want in (("paragraphs", "a b\n\n c"), ("space", "a b c")):
        rule = Utf8Normalize(whitespace=whitespace).text_rule()
        assert rule is not None
        assert rule(text) == want
        assert pickle.loads(pickle.dumps(rule))(text) == want


@pytest.mark.parametrize(("mojibake", "want", "word"), [(True, "café – ça", "mended"), (False, "cafÃ© – ça", "left")])
def test_mojibake_is_an_option(mojibake: bool, want: str, word: str) -> None:
    stage = Utf8Normalize(mojibake=mojibake)
    rule = stage.text_rule()
    assert rule is not None
    assert rule("cafÃ©  – ça") == want
    assert f"mojibake: {word}" in stage.in_words()
    assert Utf8Normalize().mojibake


def test_unknown_option() -> None:
    stage = Utf8Normalize(whitespace="lines")
    with pytest.raises(ConfigError, match="lines"):
        stage.open()
    with pytest.raises(ConfigError, match="lines"):
        stage.text_rule()


SURROGATES = set(map(chr, range(0xD800, 0xE000)))
ODD = sorted((INVISIBLE | NEVER) - SURROGATES)
PIECES = st.one_of(
    st.sampled_from(
        [
            "👩‍👩‍👧‍👦",
            "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
            "e\u0301\u0323",
            "\u0301" * 40,
            "\u1100\u1161",
            "\r\n",
            "क्षि",
            "שלום\u200f",
            "می\u200cکند",
            "  x",
            "\n",
            "\ud800",
        ]
    ),
    st.sampled_from(ODD),
    st.characters(),
)


@given(st.lists(PIECES, max_size=40).map("".join), st.sampled_from(WHITESPACE_RULES))
@settings(max_examples=200, deadline=None)
def test_every_window_of_a_repaired_text_is_proven(text: str, whitespace: str) -> None:
    stage = Utf8Normalize(whitespace=whitespace)
    rule = stage.text_rule()
    assert rule is not None
    windows = Windowing(size=128, overlap=64).open()(rows([rule(text * 5)]))
    assert stage.open()(windows.batch).facts["rows"] == windows.batch.num_rows


@given(st.text(max_size=40), st.sampled_from(sorted(NEVER - SURROGATES)), st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_what_is_always_removed_is_always_found(before: str, odd: str, after: str) -> None:
    with pytest.raises(StageContractError):
        Utf8Normalize().open()(rows([before + odd + after]))


def test_columns() -> None:
    assert Utf8Normalize.writes == {}
    assert col.TEXT in Utf8Normalize.reads
