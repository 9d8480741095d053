"""C4's rules of lines (Raffel et al. 2020, section 2.2, and what its published code adds), over whole batches.

A line goes for the first of these that it meets, in the published order: a word that is too long; no mark at its end;
too few words; it holds "javascript"; it speaks of policies. Of the lines that are left by then, one that holds "lorem
ipsum" or "{" condemns the document, as the code has it (the paper speaks of any place of the page).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.heuristics import code_points as cp
from cleanpipe_stages.heuristics.prose import ends_a_sentence, ends_in_ellipsis
from cleanpipe_stages.heuristics.units import BLANKS, LONGEST, Flags, Ints, Spans, Units, border, quotient

CITATION = re.compile(rb" ?\[(?:\d*|edit|citation needed)\]")
POLICIES = (b"terms of use", b"privacy policy", b"cookie policy", b"uses cookies", b"use of cookies", b"use cookies")
_SHARES = ("removed_lines", "unended_lines", "few_word_lines", "long_word_lines", "javascript_lines", "policy_lines")
_LINES, _CHARS = "lines", "chars"
_JAVASCRIPT, _LOREM, _CURLY = b"javascript", b"lorem ipsum", b"{"
Figure = npt.NDArray[np.float64]

FIGURES: Mapping[str, str] = {
    "removed_lines": "lines that the line rules remove, 0 to 1",
    "removed_chars": "characters in these lines, by those of all lines, 0 to 1",
    "kept_lines": "lines that they leave",
    "sentences": "sentences in the lines that they leave",
    "unended_lines": "lines without a sentence's mark at their end, 0 to 1",
    "few_word_lines": "lines of fewer than min_words_per_line words, 0 to 1",
    "long_word_lines": "lines with a word of more than max_word_length characters, 0 to 1",
    "javascript_lines": "lines that hold the word javascript, 0 to 1",
    "policy_lines": "lines that speak of cookies, terms of use or a privacy policy, 0 to 1",
    "curly_lines": "lines with {, of those not removed before",
    "lorem_ipsum_lines": "lines with lorem ipsum, of those not removed before",
}


@dataclass(frozen=True, slots=True)
class LineRules:
    """Which lines go. min_words, max_word: 0 is off."""

    terminal: bool
    min_words: int
    max_word: int
    javascript: bool
    policy: bool


@dataclass(slots=True)
class Judged:
    """counts: lines (characters, sentences) by FIGURES, of each document. kept: of ``lines``, those that stay."""

    counts: dict[str, Ints]
    lines: Spans
    kept: Flags


def uncited(document: bytes) -> bytes:
    """The document without marks of citations, as Wikipedia has them: ``[1]``, ``[edit]``, ``[citation needed]``."""
    return CITATION.sub(b"", document) if b"[" in document else document


def judge_lines(documents: Sequence[bytes], rules: LineRules) -> Judged:
    """Every line against every rule.

    Args:
        documents: UTF-8, the marks of citations taken out.
        rules: which lines go.
    """
    units = Units(documents, BLANKS)
    lines, words = units.lines, units.words
    count = np.diff(units.first_words) if lines.starts.size else np.zeros(0, np.int64)
    sizes = units.characters(words.starts, words.ends)
    longest = np.maximum.reduceat(sizes, units.first_words[:-1]) if lines.starts.size else count
    lower = b"\0".join((b"", *documents)).lower()  # of ASCII alone, which is what is looked for
    held = {text: _holding(lower, text, lines) for text in (_JAVASCRIPT, _LOREM, _CURLY, *POLICIES)}
    policy = np.any([held[text] for text in POLICIES], axis=0)
    unended = ~ends_a_sentence(units, lines) | ends_in_ellipsis(units, lines)
    few, long = count < rules.min_words, (longest > rules.max_word) & (rules.max_word > 0)
    gone = long | few | (unended & rules.terminal)
    lorem, curly = held[_LOREM] & ~gone, held[_CURLY] & ~gone
    gone |= held[_JAVASCRIPT] & rules.javascript
    curly &= ~gone
    gone |= policy & rules.policy
    characters = units.characters(lines.starts, lines.ends)
    counted = {
        "removed_lines": gone, "removed_chars": characters * gone, "kept_lines": ~gone,
        "sentences": _sentences(units) * ~gone, "unended_lines": unended, "few_word_lines": few,
        "long_word_lines": long, "javascript_lines": held[_JAVASCRIPT], "policy_lines": policy, "curly_lines": curly,
        "lorem_ipsum_lines": lorem, _LINES: np.ones(gone.size, np.bool_), _CHARS: characters,
    }  # fmt: skip
    counts = {name: lines.total(values) for name, values in counted.items()}
    return Judged(counts, Spans(lines.starts, lines.ends, lines.at), ~gone)


def judge(documents: Sequence[bytes], rules: LineRules, text: bool) -> tuple[dict[str, Ints], list[bytes]]:
    """What was counted in each document, a long one taken in pieces, and, where ``text`` is wanted, what is left."""
    if len(documents) != 1 or len(documents[0]) <= LONGEST:
        judged = judge_lines(documents, rules)
        return judged.counts, left(documents, judged) if text else []
    found, stays = list[dict[str, Ints]](), list[bytes]()
    for piece in pieces(documents[0]):
        judged = judge_lines([piece], rules)
        found.append(judged.counts)
        stays += [kept for kept in left([piece], judged) if kept] if text else []
    return {n: np.sum([f[n] for f in found], axis=0) for n in found[0]}, [b"\n".join(stays)] if text else []


def figures(counts: Sequence[Mapping[str, Ints]]) -> dict[str, Figure]:
    """FIGURES of all documents from what was counted in each block of them."""
    names = (*FIGURES, _LINES, _CHARS)
    none = np.zeros(0, np.int64)
    total = {n: np.concatenate([none, *(c[n] for c in counts)]) for n in names}
    made = {name: total[name].astype(np.float64) for name in FIGURES}
    made |= {name: quotient(total[name], total[_LINES]) for name in _SHARES}
    return made | {"removed_chars": quotient(total["removed_chars"], total[_CHARS])}


def pieces(document: bytes, longest: int = LONGEST) -> list[bytes]:
    """A long document in parts of at most ``longest`` bytes that end with lines; a longer line is parted at a blank, or
    anywhere between characters.
    """
    made, at = list[bytes](), 0
    while len(document) - at > longest:
        end = document.rfind(b"\n", at + 1, at + longest)
        end = end if end > 0 else document.rfind(b" ", at + 1, at + longest)
        blank = end > 0
        end = end if blank else border(document, at + longest)
        made.append(document[at:end])
        at = end + blank
    return [*made, document[at:]]


def left(documents: Sequence[bytes], judged: Judged) -> list[bytes]:
    """The lines of each document that stay, one below the other."""
    joined = b"\0".join((b"", *documents))
    lines, made = judged.lines, list[bytes]()
    for first, last in zip(lines.at[:-1].tolist(), lines.at[1:].tolist(), strict=True):
        stay = np.flatnonzero(judged.kept[first:last]) + first
        spans = zip(lines.starts[stay].tolist(), lines.ends[stay].tolist(), strict=True)
        made.append(b"\n".join(joined[a:b] for a, b in spans))
    return made


def _holding(lower: bytes, text: bytes, lines: Spans) -> Flags:
    """Lines in which ``text`` stands."""
    made = np.zeros(lines.starts.size, np.bool_)
    at = lower.find(text)
    places = []
    while at >= 0:
        places.append(at)
        at = lower.find(text, at + len(text))
    if places:
        made[np.searchsorted(lines.starts, np.array(places), side="right") - 1] = True
    return made


def _sentences(units: Units) -> npt.NDArray[np.int64]:
    """Sentences of each line: one for each run of ending marks before a blank, and one for words behind the last.

    In scripts without blanks a mark ends a sentence wherever it stands; quotation marks and brackets may close behind.
    """
    lines, flags, data = units.lines, units.flags, units.data
    ends = lines.ends
    if not ends.size:
        return np.zeros(0, np.int64)
    wide = np.flatnonzero((flags & cp.TERMINAL != 0) & ((data & 0xC0) != 0x80))
    after = wide + 1
    for _ in range(3):
        after = after + ((data[after] & 0xC0) == 0x80)
    full = after - wide > 1  # a mark beyond ASCII: no blank need follow
    for _ in range(3):  # what closes behind the mark
        closes = (flags[after] & cp.QUOTE != 0) & (flags[after] & cp.TERMINAL == 0)
        after = np.where(closes, after + 1, after)
        for _ in range(2):
            after = after + (closes & ((data[after] & 0xC0) == 0x80))
    done = np.where(full, flags[after] & cp.TERMINAL == 0, flags[after] & (cp.WORD | cp.OTHER) == 0)
    ended = wide[done]
    line = np.searchsorted(lines.starts, ended, side="right") - 1
    count = np.bincount(line, minlength=ends.size)
    last = lines.starts.copy()
    last[line] = after[done]  # ascending: the last one of each line stays
    words = np.concatenate((np.zeros(1, np.int64), np.cumsum(flags & cp.ALNUM != 0)))
    made: npt.NDArray[np.int64] = count + (words[ends] > words[np.minimum(last, ends)])
    return made
