"""The literal rule: script and style out by a regular expression, then html2text with body_width 0."""

from __future__ import annotations

import re

from cleanpipe_stages.html.engines import Engine, Extract, Options, library
from cleanpipe_stages.html.tags import Tags

_SCRIPT = re.compile(r"<(script|style)\b", re.IGNORECASE)
_SCRIPT_END = {n: re.compile(rf"</{n}[^>]*>", re.IGNORECASE) for n in ("script", "style")}


def open_engine(_: Options) -> Engine:
    """All text of a page; what html2text writes is Markdown already, and is the same in both formats."""
    html2text = library("html2text", "html2text")

    def engine(tags: Tags) -> Extract:
        markup = tags.markup()
        reader = html2text.HTML2Text(bodywidth=0)
        reader.ignore_links = reader.ignore_images = True  # addresses are no text of the page
        return Extract(reader.handle(_without_scripts(markup)), tags.paragraphs())

    return engine


def _without_scripts(markup: str) -> str:
    """The page less its <script> and <style> elements; an element that is never closed ends with the page."""
    parts, at = [], 0
    while found := _SCRIPT.search(markup, at):
        parts.append(markup[at : found.start()])
        end = _SCRIPT_END[found[1].lower()].search(markup, found.end())
        if end is None:
            at = len(markup)
            break
        at = end.end()
    return "".join([*parts, markup[at:]])
