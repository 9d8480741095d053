"""The units and figures of the rules of published data sets, said again in plain Python: an object for every word."""

from __future__ import annotations

import re
from collections import Counter

from cleanpipe_stages.heuristics import code_points as cp


def flag(char: str) -> int:
    return int(cp.table()[ord(char)])


def tokens(text: str) -> list[str]:
    """Words and marks of ``words = "tokens"``."""
    kinds = []
    for i, char in enumerate(text):
        own = flag(char)
        kind = "w" if own & cp.WORD else "o" if own & cp.OTHER else " "
        around = [
            flag(text[j]) & (cp.ALNUM | cp.LETTER | cp.ALONE) if 0 <= j < len(text) else 0 for j in (i - 1, i + 1)
        ]
        letters = around == [cp.ALNUM | cp.LETTER] * 2
        digits = around == [cp.ALNUM] * 2
        mixed = sorted(around) == [cp.ALNUM, cp.ALNUM | cp.LETTER]
        if (char in "'’.@&" and letters) or (char in ".,:/" and digits) or (char == "-" and mixed):
            kind = "w"
        kinds.append(kind)
    for found in re.finditer("://[!#-;=?-Z_a-z~]*", text):
        size = max(3, len(found[0].rstrip("!%'(),.:;?")))
        kinds[found.start() : found.start() + size] = "w" * size
    return _cut(text, kinds, marks=True)


def blanks(text: str) -> list[str]:
    """Words of ``words = "blanks"``."""
    return _cut(text, [" " if not flag(c) & (cp.WORD | cp.OTHER) else "w" for c in text], marks=False)


def _cut(text: str, kinds: list[str], marks: bool) -> list[str]:
    made: list[str] = []
    for i, char in enumerate(text):
        if kinds[i] == " ":
            continue
        before = kinds[i - 1] if i else " "
        new = before != kinds[i]
        if marks and kinds[i] == "o" and i and (char != text[i - 1] or ord(char) > 127):
            new = True
        if flag(char) & cp.ALONE:
            new = True
        if i and flag(text[i - 1]) & cp.ALONE and flag(char) & (cp.ALNUM | cp.OTHER):
            new = True
        if new:
            made.append(char)
        else:
            made[-1] += char
    return made


def lines(text: str) -> list[str]:
    """Lines that are no blanks, less what is blank at both ends."""
    made = []
    for line in text.split("\n"):
        at = [i for i, c in enumerate(line) if flag(c) & (cp.WORD | cp.OTHER)]
        if at:
            made.append(line[at[0] : at[-1] + 1])
    return made


def repeated(parts: list[str]) -> tuple[int, int]:
    """How many stood before, and their characters."""
    seen: set[str] = set()
    again = characters = 0
    for part in parts:
        again += part in seen
        characters += len(part) if part in seen else 0
        seen.add(part)
    return again, characters


def top(words: list[str], n: int, between: str = " ") -> int:
    """Characters of all places of the most frequent run of n words; 0 where none is repeated."""
    counts = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    if not counts or max(counts.values()) == 1:
        return 0
    run, times = counts.most_common(1)[0]
    return len(between.join(run)) * times


def again(words: list[str], n: int) -> int:
    """Characters of runs of n words that stood before, none counted twice."""
    seen: set[tuple[str, ...]] = set()
    at = spent = 0
    while at + n <= len(words):
        run = tuple(words[at : at + n])
        if run in seen:
            spent += len("".join(run))
            at += n
        else:
            seen.add(run)
            at += 1
    return spent


def paragraphs(text: str) -> list[str]:
    """Runs of lines that no empty line parts, as they stand in the text."""
    return [p for p in (_trimmed(q) for q in re.split(r"\n[^\S\n]*(?:\n[^\S\n]*)+", text)) if p]


def _trimmed(text: str) -> str:
    at = [i for i, c in enumerate(text) if flag(c) & (cp.WORD | cp.OTHER)]
    return text[at[0] : at[-1] + 1] if at else ""
