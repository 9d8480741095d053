"""Scores of damage: shares of lost and private characters, the longest run, lines that were mojibake."""

from __future__ import annotations

import pytest

from cleanpipe.text.damage import MEANINGS, SCORES, damage_scores
from cleanpipe.text.normalise import normalise, text_facts

CASES = [
    ("plain text", {}),
    ("", {}),
    ("naïve café – “ok”", {}),
    ("a\ufffdb\ufffd", {"replacement_share": 0.5}),
    ("abc\ud800", {"replacement_share": 0.25}),  # a lone surrogate is lost
    ("\ue000ab\uf8ff\U000f0001\U0010fffdcd", {"private_share": 0.5, "private_run": 3}),
    ("\ufffd\ue000\ufffd", {"replacement_share": 0.666667, "private_share": 0.333333, "private_run": 1}),
    ("cafÃ© noir\n\nfine\nthÃ© vert\nfine", {"mojibake_share": 0.5}),
    ("\U000fffff\U0010ffffx", {}),  # noncharacters are removed, and no private use
]


@pytest.mark.parametrize("mojibake", [False, True])
@pytest.mark.parametrize(("raw", "scores"), CASES)
def test_scores(raw: str, scores: dict[str, float], mojibake: bool) -> None:
    text = normalise(raw, mojibake=mojibake)
    assert damage_scores(text, text_facts(raw, text)) == scores


def test_each_score_has_a_meaning() -> None:
    assert set(MEANINGS) == set(SCORES)
