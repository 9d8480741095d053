"""What a neural scorer reads of a text: its paragraphs, and the sentences of each.

A paragraph is a line that is not blank. A sentence ends behind one of ``. ! ? …`` (and closing quotes or brackets)
where a blank and no lower-case letter follows, unless a single letter stands before the full stop (an initial: ``J.
Smith``); and behind ``。 ！ ？ ｡ ।`` wherever they stand. The rule knows no language and no abbreviations: a cut too
many or too few shifts a score a little, the same way in every run.
"""

from __future__ import annotations

import re

_END = re.compile(
    r"(?:(?<!\b[^\W\d_])[.]|[!?…])[.!?…]*[\"'”’»)\]]*\s+(?=[^\sa-zß-öø-ÿа-яё])"
    r"|[。！？｡।][。！？｡।」』”’）]*"
)


def paragraphs(text: str) -> list[str]:
    """The lines that are not blank, stripped. Lone surrogates, which no tokenizer reads, become question marks."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return [line for line in map(str.strip, text.split("\n")) if line]


def sentences(paragraph: str) -> list[str]:
    """The paragraph's sentences, stripped, in order; none is empty."""
    found, start = [], 0
    for end in _END.finditer(paragraph):
        found.append(paragraph[start : end.end()].strip())
        start = end.end()
    found.append(paragraph[start:].strip())
    return [x for x in found if x]
