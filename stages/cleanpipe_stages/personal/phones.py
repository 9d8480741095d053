"""Telephone numbers: international ones, common national forms, and any group of digits that is said to be one.

A run of digits and separators is taken whole and judged by its shape, so that dates, ISBN, card and account numbers,
prices and thousands are known for what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cleanpipe_stages.personal import phone_shapes as shapes

Span = tuple[int, int]

_LEAST, _MOST = 7, 15  # digits of a number; E.164 ends at 15
_NAMED = re.compile(r"[^0-9\s:：.\-–=()/+]")  # what the words before a number have, and numbers do not
_NO_DIGITS = dict.fromkeys(map(ord, " \u00a0\u202f-./\u2010\u2011\u2012\u2013()+"))


def phones(text: str) -> Iterator[Span]:
    """Telephone numbers, in order."""
    for found in shapes.RUN.finditer(text):
        start, end = found.span()
        if text[start - 1 : start] in ("+", "("):
            front = shapes.FRONT.search(text, max(0, start - 4), start)
            start = front.start() if front else start
        yield from _judged(text, start, end)


def _judged(text: str, start: int, end: int) -> Iterator[Span]:
    """The run itself if it is a number, else those of its halves that are: two numbers may stand side by side."""
    run = text[start:end]
    if run.count("(") != run.count(")"):  # "(see 030 1234567)"
        if run.startswith("(") and ")" not in run:
            start, run = start + 1, run[1:]
        else:
            return
    digits = _digits(run)
    if len(digits) < _LEAST or len(set(digits)) < 3:  # nor has a half of it more
        return
    if len(digits) <= _MOST and _is_phone(text, start, end, run):
        yield start, end
        return
    if len(digits) < 2 * _LEAST:
        return
    for gap in re.finditer(r" ?/ ?|  | [-–] ", run):
        halves = (start, start + gap.start()), (start + gap.end(), end)
        if all(_is_phone(text, a, b, text[a:b]) for a, b in halves):
            yield from halves
            return


def _is_phone(text: str, start: int, end: int, run: str) -> bool:
    digits = _digits(run)
    if not _LEAST <= len(digits) <= _MOST or len(set(digits)) < 3:
        return False
    before, after = text[max(0, start - 32) : start], text[end : end + 12]
    if (shapes.DATE.search(run) and not shapes.FRANCE.match(run)) or shapes.YEARS.match(run):
        return False
    if run.startswith(("+", "(+")):
        return _is_international(digits, run)
    named = bool(_NAMED.search(before))
    said = named and bool(shapes.SAID.search(before))
    if not said and (
        (named and shapes.NOT.search(before))
        or shapes.UNIT.match(after)
        or before[-1:] in tuple(".,:;/-_=&?*^~@\\+")
        or _joined(after)
    ):
        return False
    if digits.startswith("00") and not digits.startswith("000") and re.match(r"00[ ]?\d{1,3}[ ()/-]", run):
        return _is_international(digits[2:], run)
    shape = re.sub(r"[\u00a0\u202f]", " ", re.sub(r"[\u2010-\u2013]", "-", run))
    if _thousands(shape) and not said:
        return False
    if shapes.NANP.match(shape) or (8 <= len(digits) <= 13 and any(form.match(shape) for form in shapes.NATIONAL)):
        return True
    return said and not shapes.NOT.search(before) and _plausible(shape, digits)


def _digits(run: str) -> str:
    return run.translate(_NO_DIGITS)


def _is_international(digits: str, run: str) -> bool:
    code = next((digits[:n] for n in (1, 2, 3) if digits[:n] in shapes.CODES), None)
    if code is None or not 8 <= len(digits) <= _MOST:
        return False
    rest = digits[len(code) :]
    if code == "1":
        return len(rest) == 10 and rest[0] > "1" and rest[3] > "1"
    return not (len(set(rest)) < 3) and not re.search(r"\d[.]\d{1,2}\Z", run)


def _joined(after: str) -> bool:
    """Whether the run goes on as something else: a decimal, a range, a path."""
    return bool(re.match(r"[.,:/_=-]\d|[-_/]\w", after))


def _thousands(shape: str) -> bool:
    """``12 345 678``, ``1.234.567``: groups of three behind a shorter or equal one that is no 0."""
    return bool(re.fullmatch(r"[1-9]\d{0,2}(?:([ .])\d{3})(?:\1\d{3})+", shape))


def _plausible(shape: str, digits: str) -> bool:
    """Digits that are said to be a number: in groups, or all in one."""
    return len(digits) <= 13 and not re.search(r"\d[.]\d{1,2}\Z", shape) and not re.match(r"(?:19|20)\d\d\b", shape)
