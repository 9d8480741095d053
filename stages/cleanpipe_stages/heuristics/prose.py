"""Figures of words, symbols and line ends: those of Gopher's quality filter and of FineWeb's own filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from cleanpipe_stages.heuristics import code_points as cp
from cleanpipe_stages.heuristics import stop_words
from cleanpipe_stages.heuristics.units import CHARACTERS_A_WORD, Flags, Ints, Spans, Units, quotient

Figure = npt.NDArray[np.float64]
FIGURES: Mapping[str, str] = {
    "words": "words with a letter or a digit",
    "mean_word_length": "mean length of the words with a letter or a digit, in characters",
    "hash_ratio": "number of # by words and marks",
    "ellipsis_ratio": "number of ... and … by words and marks",
    "bullet_lines": "lines that begin with a bullet point, 0 to 1",
    "ellipsis_lines": "lines that end with an ellipsis, 0 to 1",
    "alpha_words": "words with a letter by words and marks, 0 to 1",
    "stops": "different stop words of its language",
}
_DOTS, _DOT = b"...", 0x2E
_ELLIPSIS = "…".encode()


def figures(units: Units, languages: Sequence[str]) -> dict[str, Figure]:
    """FIGURES of each document; NaN where one cannot be said. languages: ISO 639-1, of each document."""
    words, kinds, lines = units.words, units.kinds, units.lines
    alone = kinds & cp.ALONE != 0
    real = (kinds & cp.ALNUM != 0) & ~alone
    count = words.total(real)
    letters = words.total(units.characters(words.starts, words.ends) * real)
    everything = np.diff(words.at)
    packed = np.rint(words.total(alone) / CHARACTERS_A_WORD)
    mean = quotient(letters, count)
    mean[units.unspaced()] = np.nan
    hashes = np.array([d.count(b"#") for d in units.documents], np.int64)
    ellipses = np.array([d.count(_DOTS) + d.count(_ELLIPSIS) for d in units.documents], np.int64)
    rows = np.diff(lines.at)
    return {
        "words": (count + packed).astype(np.float64),
        "mean_word_length": mean,
        "hash_ratio": quotient(hashes, everything),
        "ellipsis_ratio": quotient(ellipses, everything),
        "bullet_lines": quotient(lines.total(units.flags[lines.starts] & cp.BULLET != 0), rows),
        "ellipsis_lines": quotient(lines.total(ends_in_ellipsis(units, lines)), rows),
        "alpha_words": quotient(words.total(kinds & cp.LETTER != 0), everything),
        "stops": stop_words.different(units, languages),
    }


def ends_in_ellipsis(units: Units, spans: Spans) -> Flags:
    """Spans whose last characters are ``...`` or ``…``."""
    data, ends = units.data, spans.ends
    dots: Flags = (
        (data[ends - 1] == _DOT) & (data[ends - 2] == _DOT) & (data[ends - 3] == _DOT) & (ends - 3 >= spans.starts)
    )
    mark: Flags = (ends - 3 >= spans.starts) & (data[ends - 1] == _ELLIPSIS[2])
    both: Flags = dots | (mark & (data[ends - 2] == _ELLIPSIS[1]) & (data[ends - 3] == _ELLIPSIS[0]))
    return both


def ends_a_sentence(units: Units, spans: Spans) -> Flags:
    """Spans whose last character may end a sentence (Unicode's Sentence_Terminal), or is a quotation mark."""
    last = units.last(spans)
    made: Flags = units.flags[last] & (cp.TERMINAL | cp.QUOTE) != 0
    bracket = np.zeros(256, np.bool_)
    bracket[[ord(")"), ord("]")]] = True
    return made & ~bracket[units.data[last]]


def line_figures(units: Units, short: int) -> dict[str, Figure]:
    """Figures of FineWeb's own filter. short: longest short line, in characters."""
    lines, words = units.lines, units.words
    rows = np.diff(lines.at)
    sizes = units.characters(lines.starts, lines.ends)
    breaks = np.array([d.count(b"\n") for d in units.documents], np.int64)
    return {
        "line_punct_ratio": quotient(lines.total(ends_a_sentence(units, lines)), rows),
        "short_line_ratio": quotient(lines.total(sizes <= short), rows),
        "char_dup_ratio": quotient(lines.total(sizes * units.repeats(lines)), units.lengths - breaks),
        "list_ratio": quotient(breaks, _words(units, words.at)),
    }


def _words(units: Units, at: Ints) -> Ints:
    """Words and marks of each document; of letters in scripts without blanks 1.6 are one."""
    alone = units.words.total(units.kinds & cp.ALONE != 0)
    made: Ints = np.diff(at) - alone + np.rint(alone / CHARACTERS_A_WORD).astype(np.int64)
    return made
