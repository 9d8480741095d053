"""How damaged a normalised text is, as scores of the ledger. Nothing is dropped for them."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa

REPLACEMENT_SHARE, PRIVATE_SHARE = "replacement_share", "private_share"
PRIVATE_RUN, MOJIBAKE_SHARE = "private_run", "mojibake_share"
SCORES: Mapping[str, pa.DataType] = {
    REPLACEMENT_SHARE: pa.float64(),
    PRIVATE_SHARE: pa.float64(),
    PRIVATE_RUN: pa.int32(),
    MOJIBAKE_SHARE: pa.float64(),
}
MEANINGS: Mapping[str, str] = {
    REPLACEMENT_SHARE: "share of characters that are U+FFFD: lost bytes and lone surrogates",
    PRIVATE_SHARE: "share of characters of private use, which mean nothing without their font",
    PRIVATE_RUN: "most characters of private use in a row",
    MOJIBAKE_SHARE: "share of lines with text that were mojibake as they came, mended since or not",
}

_PRIVATE_RUN = re.compile("[\ue000-\uf8ff\U000f0000-\U000ffffd\U00100000-\U0010fffd]+")


def damage_scores(text: str, facts: Mapping[str, int]) -> dict[str, float]:
    """Those of ``SCORES`` that are not 0, shares at 6 decimals. facts: what ``text_facts`` says of the same text."""
    scores: dict[str, float] = {}
    if lost := facts.get("invalid_after", 0):
        scores[REPLACEMENT_SHARE] = round(lost / len(text), 6)
    if facts.get("private_use") and (runs := [len(run) for run in _PRIVATE_RUN.findall(text)]):
        scores[PRIVATE_SHARE] = round(sum(runs) / len(text), 6)
        scores[PRIVATE_RUN] = max(runs)
    if broken := facts.get("mojibake_lines_before", 0):
        lines = sum(1 for line in text.split("\n") if line)
        scores[MOJIBAKE_SHARE] = round(min(1.0, broken / max(1, lines)), 6)
    return scores
