"""The text of a page's first ``<p>`` elements, by a scan of the markup that stops as soon as it has enough.

A glance, not a parse: one pass, each step bounded, so that hostile markup (10^6 ``<p``, an attribute or a script that
never ends) costs no more than its length, and 10^7 ``<p>`` no more than 10^4.
"""

from __future__ import annotations

import html
import re

# Letters of either case are written out: with IGNORECASE no branch can be told apart by its first letter, which is what
# most tags are passed over by.
_START = re.compile(
    rb"<(?=[!pPsSnNtT])(?:!--|([sS](?:[cC][rR][iI][pP][tT]|[tT][yY][lL][eE]|[eE][lL][eE][cC][tT]|[vV][gG])"
    rb"|[nN][oO][sS][cC][rR][iI][pP][tT]|[tT][eE](?:[mM][pP][lL][aA][tT][eE]|[xX][tT][aA][rR][eE][aA]))\b"
    rb"|[pP](?:\s[^<>]*)?>)"
)
_STOP = re.compile(
    rb"<(?=[/pPdDaAsStTuUoOlLhHbBfFnN])(?i:/?(?:p|div|article|section|table|td|ul|ol|li|h[1-6]|body|html|form|footer"
    rb"|nav|script|style|noscript)\b)"
)
_TAG = re.compile(rb"<(?:!--[^<>]*--|[^<>]*)>")
_RAW = (b"script", b"style", b"noscript", b"template", b"textarea", b"select", b"svg")
_END = {name: re.compile(b"</" + name, re.IGNORECASE) for name in _RAW}
_COMMENT_END = re.compile(b"-->")
_LONGEST = 16384  # bytes of one paragraph's markup that are looked at
_MOST = 10_000  # paragraphs, scripts, comments that are looked at; of 1,492 real pages none had use for more than 3,016


def first_paragraphs(page: bytes | memoryview, chars: int) -> str:
    """Visible text of the first paragraphs of a page in UTF-8, one a line, references resolved.

    About ``chars`` characters, or fewer where there are not so many.
    """
    parts: list[str] = []
    have, at = 0, 0
    for _ in range(_MOST):
        found = _START.search(page, at) if have < chars else None
        if found is None:
            break
        at = found.end()
        if found[1] or found[0] == b"<!--":
            end = (_END[found[1].lower()] if found[1] else _COMMENT_END).search(page, at)
            if end is None:
                break
            at = end.end()
            continue
        limit = min(at + _LONGEST, len(page))
        stop = _STOP.search(page, at, limit)
        inner = bytes(page[at : stop.start() if stop else limit])
        at = stop.start() if stop else limit
        text = html.unescape((_TAG.sub(b"", inner) if b"<" in inner else inner).decode(errors="ignore")).strip()
        if text:
            parts.append(text)
            have += len(text) + 1
    return "\n".join(parts)
