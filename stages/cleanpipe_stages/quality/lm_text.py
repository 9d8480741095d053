r"""What the n-gram models read: the normaliser and tokenisers their corpora went through, versioned with the models.

A model that is asked through another normaliser gives figures that mean nothing (1e6 where 1e2 is right), so
``LM_TEXT_VERSION`` stands in the models' file names, and golden scores in the tests hold the two together. Any change
of a result here is a new version and a new set of models.

Version 2, line by line:

1. curly quotes, dashes and the ellipsis become their ASCII neighbours, soft hyphens vanish; nothing else is folded
   (cc_net's table makes a quote of a fullwidth digit one), and line breaks are kept (datatrove strips them with the
   control characters, before it splits lines);
2. a line that has capitals and no small letter is lowered: it is shouted, not another language. Else case stays, for
   it tells names and menus from prose;
3. a number is ``0``: digits with points, commas, colons, slashes or hyphens between them are one token, or a table of
   contents would be likely for its numbers; control characters and blanks of every kind become blanks;
4. words: a token is a run of letters and digits (``\w`` without the underscore), or one other visible character.
   characters: a token is a run of Latin letters and digits, or one other visible code point, or ``▁`` for blanks that
   do not stand between two such runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LM_TEXT_VERSION = 2

CHARACTER_LANGUAGES = frozenset({"zh", "ja", "th", "km", "lo", "my", "bo", "dz", "yue", "wuu"})
"""Languages written without blanks between words, by lid.176's labels: their models read characters."""

Lines = list[tuple[bytes, int]]
"""Lines that hold a token: UTF-8, tokens parted by one or more blanks, and how many they are."""

_PUNCTUATION = tuple(bytes([c]) for c in b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_TABLE = bytes(
    c if c == 10 or c > 127 else 32 if c < 33 or c == 127 else 48 if 48 <= c <= 57 else c for c in range(256)
)
_FOLDS = (("‘", "'"), ("’", "'"), ("“", '"'), ("”", '"'), ("–", "-"), ("—", "-"), ("…", "..."), ("\u00ad", ""))
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")
_NUMBER = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NUMBER_BYTES = re.compile(rb"0+(?:[.,:/-]0+)*")
_LATIN = "0A-Za-z\\u00aa\\u00b5\\u00ba\\u00c0-\\u00d6\\u00d8-\\u00f6\\u00f8-\\u024f"
_CHARACTER = re.compile(rf"[{_LATIN}]+|\S")
_BETWEEN_WORDS = re.compile(rf"(?<=[{_LATIN}])▁(?=[{_LATIN}])")
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f]+")


def head(text: str, chars: int) -> str:
    """The first ``chars`` code points, less a word that the cut went through (unless nothing else is there).

    A language without blanks has no such words: there ``text[:chars]`` is what is read.
    """
    if len(text) <= chars:
        return text
    cut = text[:chars]
    if text[chars].isspace() or cut[-1:].isspace():
        return cut
    return cut[: max(cut.rfind(" "), cut.rfind("\n"))] if " " in cut or "\n" in cut else cut


def tokeniser(language: str) -> Callable[[str], Lines]:
    """``words`` or ``characters``, whichever a model of the language reads."""
    return characters if language in CHARACTER_LANGUAGES else words


def words(text: str) -> Lines:
    """The text's lines in words. Bytes do the work: code points beyond ASCII alone are looked at one by one."""
    text = _folded(text)
    if not text.isascii():
        text = _BEYOND_ASCII.sub(_beyond_ascii, text)
    plain = text.encode("utf-8", "replace").translate(_TABLE)
    if b"0" in plain:
        plain = _NUMBER_BYTES.sub(b"0", plain)
    for mark in _PUNCTUATION:
        if mark in plain:
            plain = plain.replace(mark, b" " + mark + b" ")
    return [(line, n) for line in plain.split(b"\n") if (n := len(line.split()))]


def characters(text: str) -> Lines:
    """The text's lines in code points; Latin words among them are words, or English would be likelier than Chinese."""
    found: Lines = []
    for line in _NUMBER.sub("0", _folded(text)).split("\n"):
        if tokens := _CHARACTER.findall(_BETWEEN_WORDS.sub(" ", _BLANKS.sub("▁", line).strip("▁"))):
            found.append((" ".join(tokens).encode("utf-8", "replace"), len(tokens)))
    return found


def _folded(text: str) -> str:
    if not text.isascii():
        for old, new in _FOLDS:
            if old in text:
                text = text.replace(old, new)
    lines = text.split("\n")
    if any(map(str.isupper, lines)):
        text = "\n".join([line.lower() if line.isupper() else line for line in lines])
    return text


def _beyond_ascii(run: re.Match[str]) -> str:
    found = run[0]
    return found if found.isalpha() else "".join(map(_one, found))


def _one(c: str) -> str:
    return "0" if c.isdecimal() else c if c.isalnum() else " " if c.isspace() else f" {c} "
