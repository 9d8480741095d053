"""Pages sent as XHTML, which browsers read as XML: ``<script src="a.js"/>`` is a whole element there.

To a parser of HTML it opens one whose text is all that follows, and the page would be empty.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_XHTML = "application/xhtml+xml"
_CLOSED = re.compile(
    r"<((?:script|style|title|textarea|iframe|noscript|noframes|noembed|xmp|plaintext|template|select|object|div|span|p|a)"
    r"(?:\s+[\w:.-]+\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*)\s*/>"
)


def closed(markup: pa.LargeStringArray, media_type: pa.StringArray) -> pa.LargeStringArray:
    """The column with ``<name ... />`` as ``<name ...></name>`` on pages of XHTML, for names that HTML leaves open."""
    rows = pc.indices_nonzero(pc.equal(media_type, _XHTML)).to_pylist()
    if not rows:
        return markup
    texts = {row: found for row in rows if "/>" in (found := markup[row].as_py() or "")}
    made = {
        row: _CLOSED.sub(lambda tag: f"<{tag[1]}></{tag[1].split(None, 1)[0]}>", text) for row, text in texts.items()
    }
    made = {row: text for row, text in made.items() if text != texts[row]}
    if not made:
        return markup
    mask = pa.array([row in made for row in range(len(markup))])
    return pc.replace_with_mask(markup, mask, pa.array([made[row] for row in sorted(made)], pa.large_string()))
