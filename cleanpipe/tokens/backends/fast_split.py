r"""Which splitting patterns a regex engine without lookahead can follow exactly, and where its Unicode differs.

Published patterns end in ``\s+(?!\S)|\s+``: of a run of blanks before a word the last blank belongs to the word. That
lookahead keeps engines from their fastest way. Here it is left out, and texts are cut before that last blank instead,
where the pattern begins a new piece in any case, and where no piece looks back. The most common patterns need no regex
engine at all (``fast_pieces``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backends.fast_pieces import APART, BLANK, END, LETTER, LINE, NUMBER, STOP, Shape
from cleanpipe.tokens.tokenizer.json_file import steps
from cleanpipe.tokens.tokenizer.needs import tiktoken, tokenizers
from cleanpipe.tokens.tokenizer.patterns import GPT2

Flags = npt.NDArray[np.bool_]
POINTS = 0x110000
# Code points on which the two engines are compared. All others (planes without characters, private ones) are never
# given to the second engine.
_COMPARED = ((0, 0xD800), (0xE000, 0x323B0), (0xE0000, 0xE1000))
_LONG_S = 0x17F  # lower-case s of old print: the letter s to (?i)

_MARKS = re.compile(r"'?\(\?i?:['a-zA-Z|\[\]]+\)|'[a-z]{1,2}")  # contractions, however spelled
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_FRONT = r"[^\r\n\p{L}\p{N}]?"
# Alternatives that begin with one blank at most, never look around, and hold no other blank but line ends at their end.
_PLAIN = (
    {r" ?\p{L}+", rf"{_FRONT}\p{{L}}+", rf"{_FRONT}[\p{{L}}\p{{M}}]+"}
    | {rf"{_FRONT}{_UPPER}{a}{_LOWER}{b}" for a, b in ("*+", "+*")}
    | {r" ?\p{N}+", r"\p{N}+", r"\p{N}", r"\p{N}{1,2}", r"\p{N}{1,3}"}
    | {r" ?[^\s\p{L}\p{N}]+", r" ?[^\s\p{L}\p{M}\p{N}]+"}
)
_EATERS = {
    rf" ?[^\s{marks}]+[{ends}]*" for marks in (r"\p{L}\p{N}", r"\p{L}\p{M}\p{N}") for ends in (r"\r\n", r"\r\n/")
}
_LINES = {r"\s*[\r\n]+", r"\s*[\r\n]"}
_LAST = {r"\s+", r"\s"}
_CLASSES = (r"\p{Lu}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}", r"\p{Ll}", r"\p{L}", r"\p{N}", r"\p{M}")


@dataclass(frozen=True, slots=True)
class Rule:
    """pattern: without lookahead. lines: no cut before a line end (the pattern takes blanks up to it as one piece).
    digits: digits were split off before, so that no cut is made before one. classes: what the pattern tells apart.
    folds: it ignores case somewhere. shape: the same for ``fast_pieces``, if that knows it.
    """

    pattern: str
    lines: bool
    digits: bool
    classes: tuple[str, ...]
    folds: bool
    shape: Shape | None = None


def rule_of(pre_tokenizer: Mapping[str, Any] | None) -> Rule:
    """The rule of a pre-tokenizer as it stands in a tokenizer.json.

    Raises:
        ConfigError: none of those that can be followed exactly.
    """
    found = steps(pre_tokenizer, "pretokenizers")
    kinds = [step.get("type") for step in found]
    if not found or kinds[-1] != "ByteLevel":
        raise ConfigError(f"its pre-tokenizer is {' + '.join(map(str, kinds)) or 'none'}, not byte-level")
    last = found[-1]
    if last.get("add_prefix_space", True):
        raise ConfigError("its pre-tokenizer puts a space before the text")
    own = bool(last.get("use_regex", True))
    if kinds == ["ByteLevel"] and own:
        return _rule(GPT2)
    if kinds == ["Digits", "ByteLevel"] and own:
        number = r"\p{N}" if found[0].get("individual_digits") else r"\p{N}+"
        rule = _rule(GPT2)
        shape = Shape(lines=False, digits=len(number) == 5, spaced=False, first=True, marks=True, folds=False)
        return replace(rule, pattern=rule.pattern.replace(r" ?\p{N}+", number), digits=True, shape=shape)
    if kinds == ["Split", "ByteLevel"] and not own:
        return _rule(_split(found[0]))
    raise ConfigError(f"its pre-tokenizer is {' + '.join(map(str, kinds))}, of which no exact form is known here")


def _split(step: Mapping[str, Any]) -> str:
    pattern = (step.get("pattern") or {}).get("Regex")
    behavior, invert = str(step.get("behavior")).lower(), bool(step.get("invert"))
    if not isinstance(pattern, str) or not (behavior == "isolated" or (behavior == "removed" and invert)):
        raise ConfigError("its Split is of a kind of which no exact form is known here")
    return pattern


def _rule(pattern: str) -> Rule:
    parts = alternatives(pattern)
    head, tail = parts[:-2], parts[-2:]
    if len(tail) < 2 or tail[0] != r"\s+(?!\S)" or tail[1] not in _LAST:
        raise ConfigError(f"its pattern does not end in a known way: …{pattern[-40:]}")
    kept, eats = [], False
    for part in head:
        plain = _plain(part)
        eats |= plain in _EATERS
        kept.append(plain)
    lines = any(part in _LINES for part in kept)
    if (eats and not lines) or any(part in _LINES for part in kept[:-1]) or not _complete(kept):
        raise ConfigError(f"its pattern is none of those known here: {pattern[:80]}")
    made = "|".join([*kept, r"\s+"])
    classes = (r"\s", *(name for name in _CLASSES if name in made))
    return Rule(made, lines, False, classes, "(?i" in made, _shape(kept))


_SPELLED = {
    "": False,
    "'s|'t|'re|'ve|'m|'ll|'d": False,
    "'(?:[sdmt]|ll|ve|re)": False,
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)": True,
    "'(?i:[sdmt]|ll|ve|re)": True,
}
_NUMBERS = {r" ?\p{N}+": 0, r"\p{N}+": 0, r"\p{N}": 1, r"\p{N}{1,2}": 2, r"\p{N}{1,3}": 3}


def _shape(parts: list[str]) -> Shape | None:
    marks = "|".join(part for part in parts if part.startswith(("'", "(")))
    rest = [part for part in parts if not part.startswith(("'", "("))]
    if marks not in _SPELLED or parts[-len(rest) :] != rest or len(rest) not in (3, 4) or rest[1] not in _NUMBERS:
        return None
    for inner in (r"\p{L}\p{N}", r"\p{L}\p{M}\p{N}"):
        word = r"[\p{L}\p{M}]+" if "M" in inner else r"\p{L}+"
        spaces = [f" ?{word}", rest[1], rf" ?[^\s{inner}]+"]
        lines = [f"{_FRONT}{word}", rest[1], rf" ?[^\s{inner}]+[\r\n]*"]
        spaced = rest[1].startswith(" ")
        if rest == spaces or (rest[:3] == lines and rest[3:] and rest[3] in _LINES and not spaced):
            digits, folds = _NUMBERS[rest[1]], _SPELLED[marks]
            return Shape(rest != spaces, digits, spaced=spaced, first=False, marks=bool(marks), folds=folds)
    return None


def _plain(part: str) -> str:
    """An alternative without possessive marks (nothing follows to which it could give back); raises if unknown."""
    tail = re.search(r"(\(\?i:['a-z|]+\))\?\Z", part)
    stem = part[: tail.start()] if tail and part.startswith("[") else part
    plain = re.sub(r"(?<=[+*?])\+", "", stem)
    words = plain in _PLAIN or plain in _EATERS or plain in _LINES
    marks = _MARKS.fullmatch(plain) is not None and not re.search(r"\|\||[:(]\||\|\)|\[\]", plain)
    if not words and not marks:
        raise ConfigError(f"its pattern has a part that is not known here: {part[:60]}")
    return plain + (tail.group(0) if tail and stem != part else "")


def _complete(parts: list[str]) -> bool:
    """Every character is taken by some part: letters, numbers, and all that is neither these nor blank."""
    joined = [part for part in parts if not part.startswith("'")]
    letters = any(r"\p{L}+" in part or r"[\p{L}\p{M}]+" in part for part in joined)
    cased = all(any(rf"{_UPPER}{a}{_LOWER}{b}" in part for part in joined) for a, b in ("*+", "+*"))
    numbers = any(re.fullmatch(r"( \?)?\\p\{N\}(\+|\{1,[23]\})?", part) for part in joined)
    marked = any(r"[^\s\p{L}\p{M}\p{N}]+" in part for part in joined)
    others = any(r"[^\s\p{L}\p{N}]+" in part for part in joined) or (
        marked and any(r"[\p{L}\p{M}]+" in p for p in joined)
    )
    return (letters or cased) and numbers and others


def alternatives(pattern: str) -> list[str]:
    """The parts of a pattern between its outermost ``|``."""
    made, depth, inside, place, begin = [], 0, False, 0, 0
    while place < len(pattern):
        letter = pattern[place]
        if letter == "\\":
            place += 1
        elif inside:
            inside = letter != "]"
        elif letter == "[":
            inside = True
        elif letter in "()":
            depth += 1 if letter == "(" else -1
        elif letter == "|" and not depth:
            made.append(pattern[begin:place])
            begin = place + 1
        place += 1
    return [*made, pattern[begin:]]


def _every() -> npt.NDArray[np.uint32]:
    return np.concatenate([np.arange(*part, dtype="<u4") for part in _COMPARED])


@lru_cache(maxsize=16)
def reference_class(name: str) -> Flags:
    r"""(POINTS,) which code points the reference's engine counts to a class such as ``\p{L}``."""
    return _reference(name, _every())


def _reference(name: str, points: npt.NDArray[np.uint32]) -> Flags:
    library = tokenizers()
    split = library.pre_tokenizers.Split(library.Regex(f"{name}+"), "removed", invert=True)
    found = np.zeros(POINTS, bool)
    for _, (begin, end) in split.pre_tokenize_str(points.tobytes().decode("utf-32-le")):
        found[points[begin:end]] = True
    return found


@lru_cache(maxsize=1)
def reference_digits() -> Flags:
    """(POINTS,) which code points the pre-tokenizer ``Digits`` splits off."""
    points = _every()
    split = tokenizers().pre_tokenizers.Digits(individual_digits=False)
    found = np.zeros(POINTS, bool)
    pieces = split.pre_tokenize_str(points.tobytes().decode("utf-32-le"))
    for _, (begin, end) in pieces[1::2]:  # in turns, and U+0000 is no digit
        found[points[begin:end]] = True
    return found


@lru_cache(maxsize=16)
def engine_class(name: str) -> Flags:
    """(POINTS,) which code points the fast engine counts to a class."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    core = tiktoken().Encoding("class", pat_str=name, mergeable_ranks=ranks, special_tokens={"\x01\x02": 256})
    text = _every().tobytes().decode("utf-32-le")
    data = core._core_bpe.encode_to_tiktoken_buffer(text, set())
    taken = np.frombuffer(data, np.uint32).astype(np.uint8).tobytes().decode()
    found = np.zeros(POINTS, bool)
    found[np.frombuffer(taken.encode("utf-32-le"), "<u4")] = True
    return found


@lru_cache(maxsize=8)
def aside(rule: Rule) -> Flags:
    """(POINTS,) code points on which the engines differ or were not compared: a text with one goes to the reference."""
    differ = np.ones(POINTS, bool)
    for begin, end in _COMPARED:
        differ[begin:end] = False
    for name in rule.classes:
        differ |= reference_class(name) != engine_class(name)
    if rule.digits:
        differ |= reference_digits() != engine_class(r"\p{N}")
    if rule.folds:
        differ[_LONG_S] = True
    differ.flags.writeable = False
    return differ


@lru_cache(maxsize=1)
def blanks() -> Flags:
    """(POINTS,) what counts as blank."""
    return engine_class(r"\s")


@lru_cache(maxsize=8)
def byte_classes(rule: Rule) -> bytes:
    """Class of each ASCII byte, for ``fast_pieces``."""
    table = _classes(rule, np.arange(128, dtype="<u4"))[:256].copy()
    table[ord(STOP)] = END
    return table.tobytes()


@lru_cache(maxsize=8)
def point_classes(rule: Rule) -> npt.NDArray[np.uint8]:
    """(POINTS,) class of each code point as the reference's engine has it; APART: was not asked."""
    table = _classes(rule, None)
    compared = np.zeros(POINTS, bool)
    for begin, end in _COMPARED:
        compared[begin:end] = True
    table[~compared] = APART
    if rule.digits:
        table[reference_digits() != reference_class(r"\p{N}")] = APART
    if rule.folds:
        table[_LONG_S] = APART
    table.flags.writeable = False
    return table


def _classes(rule: Rule, points: npt.NDArray[np.uint32] | None) -> npt.NDArray[np.uint8]:
    """One pass finds runs of one class, a second over their first characters which class that is."""
    library, every = tokenizers(), _every() if points is None else points
    split = library.pre_tokenizers.Split(library.Regex("|".join(f"{name}+" for name in rule.classes)), "isolated")
    runs = [span for _, span in split.pre_tokenize_str(every.tobytes().decode("utf-32-le"))]
    begins = np.array([begin for begin, _ in runs])
    firsts = np.zeros(len(runs), np.uint8)  # OTHER
    for name in rule.classes:
        # apart from each other, so that none is part of a longer match
        found = _reference(name, np.stack([every[begins], np.full(len(begins), 0x21, "<u4")], 1).reshape(-1))
        firsts[found[every[begins]]] = {r"\s": BLANK, r"\p{N}": NUMBER}.get(name, LETTER)
    table = np.zeros(POINTS, np.uint8)
    table[every] = np.repeat(firsts, np.diff(begins, append=len(every)))
    table[[0x0A, 0x0D]] = LINE if rule.lines else BLANK
    return table
