"""The text of a page's first ``<p>`` elements, by a scan of the markup that stops as soon as it has enough.

A glance, not a parse: one pass, each step bounded, so that hostile markup (10^6 ``<p``, an attribute or a script that
never ends) costs no more than its length.
"""

from __future__ import annotations

import html
import re

_START = re.compile(r"<(?:!--|(script|style|noscript|template|textarea|select|svg)\b|p(?:\s[^<>]*)?>)", re.IGNORECASE)
_STOP = re.compile(
    r"</?(?:p|div|article|section|table|td|ul|ol|li|h[1-6]|body|html|form|footer|nav|script|style|noscript)\b",
    re.IGNORECASE,
)
_TAG = re.compile(r"<(?:!--[^<>]*--|[^<>]*)>")
_RAW = ("script", "style", "noscript", "template", "textarea", "select", "svg")
_END = {name: re.compile(f"</{name}", re.IGNORECASE) for name in _RAW}
_LONGEST = 8192  # characters of one paragraph's markup that are looked at


def first_paragraphs(markup: str, chars: int) -> str:
    """Visible text of the first paragraphs, one a line, references resolved; about ``chars`` characters, or fewer."""
    parts: list[str] = []
    have, at = 0, 0
    while have < chars and (found := _START.search(markup, at)):
        at = found.end()
        if name := found[1]:
            end = _END[name.lower()].search(markup, at)
            if end is None:
                break
            at = end.end()
        elif found[0] == "<!--":
            at = markup.find("-->", at)
            if at < 0:
                break
        else:
            limit = min(at + _LONGEST, len(markup))
            stop = _STOP.search(markup, at, limit)
            inner = markup[at : stop.start() if stop else limit]
            at = stop.start() if stop else limit
            text = html.unescape(_TAG.sub("", inner)).strip()
            if text:
                parts.append(text)
                have += len(text) + 1
    return "\n".join(parts)
