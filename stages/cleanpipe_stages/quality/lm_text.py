r"""What the n-gram model reads: the normaliser and tokeniser its corpus went through, versioned with the model.

A model that is asked through another normaliser gives figures that mean nothing (1e6 where 1e2 is right), so
``LM_TEXT_VERSION`` stands in the model's file name, and golden scores in the tests hold the two together. Any change
of a result here is a new version and a new model.

Version 1, line by line:

1. curly quotes, dashes, the ellipsis and blanks of every kind become their ASCII neighbours, soft hyphens vanish;
   lower case;
2. every decimal digit becomes ``0``; control characters become blanks;
3. a token is a run of letters and digits (``\w`` without the underscore), or one other visible character.
"""

from __future__ import annotations

import re

LM_TEXT_VERSION = 1

_PUNCTUATION = tuple(bytes([c]) for c in b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_TABLE = bytes(
    c if c == 10 or c > 127 else 32 if c < 33 or c == 127 else 48 if 48 <= c <= 57 else c + 32 if 65 <= c <= 90 else c
    for c in range(256)
)
_FOLDS = (("‘", "'"), ("’", "'"), ("“", '"'), ("”", '"'), ("–", "-"), ("—", "-"), ("…", "..."), ("\u00ad", ""))
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]+")


def head(text: str, chars: int) -> str:
    """The first ``chars`` code points, less a word that the cut went through (unless nothing else is there)."""
    if len(text) <= chars:
        return text
    cut = text[:chars]
    if text[chars].isspace() or cut[-1:].isspace():
        return cut
    return cut[: max(cut.rfind(" "), cut.rfind("\n"))] if " " in cut or "\n" in cut else cut


def lines(text: str) -> list[bytes]:
    """The text's lines as the model reads them: UTF-8, tokens parted by one or more blanks. Blank lines are there too.

    Bytes do the work: an English page has few other characters, and they alone are looked at one by one.
    """
    if not text.isascii():
        text = text.lower()
        for old, new in _FOLDS:
            text = text.replace(old, new)
        if not text.isascii():
            text = _BEYOND_ASCII.sub(_beyond_ascii, text)
    folded = text.encode("utf-8", "replace").translate(_TABLE)
    for mark in _PUNCTUATION:
        if mark in folded:
            folded = folded.replace(mark, b" " + mark + b" ")
    return folded.split(b"\n")


def _beyond_ascii(run: re.Match[str]) -> str:
    found = run[0]
    return found if found.isalpha() else "".join(map(_one, found))


def _one(c: str) -> str:
    return "0" if c.isdecimal() else c if c.isalnum() else " " if c.isspace() else f" {c} "
