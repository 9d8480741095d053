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
_FOLD_ASCII = bytes(
    c if c == 10 else 32 if c < 33 or c > 126 else 48 if 48 <= c <= 57 else c + 32 if 65 <= c <= 90 else c
    for c in range(256)
)
_FOLDS = (("‘", "'"), ("’", "'"), ("“", '"'), ("”", '"'), ("–", "-"), ("—", "-"), ("…", "..."), ("\u00ad", ""))
_BLANK = re.compile(r"(?:[^\S\n]|[\x00-\x08\x0e-\x1b\x7f])+")
_DIGIT = re.compile(r"\d")
_SINGLE = re.compile(r"[^\w\s]|_")


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

    ASCII text, most of an English crawl, goes through byte tables; the result is the same as by the rules above.
    """
    if text.isascii():
        folded = text.encode("ascii").translate(_FOLD_ASCII)
        for mark in _PUNCTUATION:
            if mark in folded:
                folded = folded.replace(mark, b" " + mark + b" ")
        return folded.split(b"\n")
    for old, new in _FOLDS:
        text = text.replace(old, new)
    text = _DIGIT.sub("0", _BLANK.sub(" ", text.lower()))
    return _SINGLE.sub(r" \g<0> ", text).encode("utf-8", "replace").split(b"\n")
