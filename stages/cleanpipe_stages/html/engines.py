"""The ways to take the text out of a page. An engine is a pure function of one page; it keeps nothing between pages."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe_stages.html.mend import mended, unmark
from cleanpipe_stages.html.tags import Tags

Engine = Callable[[Tags], "Extract"]


@dataclass(frozen=True, slots=True)
class Extract:
    """text: lines; a blank line between paragraphs; blanks at the start of a line only in preformatted blocks.

    paragraphs: ``<p>`` elements of the page. fallback: the whole page was taken for want of a main part.
    """

    text: str
    paragraphs: int
    fallback: bool = False


# what a page is without its furniture, and without what a browser hides
_FURNITURE = ["nav", "header", "footer", "aside", "[role=navigation]", "[role=contentinfo]"]
_OUTER = "body > div > div > div > "  # mend puts three blocks around all
_BESIDE_MAIN = ["title", "nav", "footer", f"{_OUTER}aside", f"{_OUTER}* > aside"]
_HIDDEN = ["title", "[hidden]", "dialog:not([open])", "[style*='display:none' i]", "[style*='display: none' i]"]


def resiliparse(*, main: bool, fallback: int, bullets: bool) -> Engine:
    """Main content by resiliparse's rules, mended where they lose text; else the whole page.

    fallback: a main part of fewer characters than this is not believed; the page less its furniture is taken instead,
    if that gives more.
    """
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    def plain(tree: HTMLTree, *, main: bool, skip: list[str]) -> str:
        return str(
            extract_plain_text(
                tree,
                main_content=main,
                list_bullets=bullets,
                alt_texts=False,
                comments=False,
                skip_elements=skip,
            )
        )

    def engine(tags: Tags) -> Extract:
        tree = HTMLTree.parse_from_bytes(mended(tags), "utf-8")
        if tree.body is None:
            return Extract("", 0)
        text = plain(tree, main=True, skip=_BESIDE_MAIN) if main else ""
        whole = not main or len(text) < fallback
        if whole:
            other = plain(tree, main=False, skip=[*_FURNITURE, *_HIDDEN] if main else _HIDDEN)
            whole = len(other) > len(text)
            text = other if whole else text
        paragraphs = tags.paragraphs()
        return Extract(unmark(text), paragraphs, fallback=main and whole)

    return engine


def html2text() -> Engine:
    """The literal rule: script and style out by a regular expression, then html2text with body_width 0."""
    library = _library("html2text", "html2text")

    def engine(tags: Tags) -> Extract:
        markup = tags.markup()
        reader = library.HTML2Text(bodywidth=0)
        reader.ignore_links = reader.ignore_images = True  # addresses are no text of the page
        return Extract(reader.handle(_without_scripts(markup)), tags.paragraphs())

    return engine


def trafilatura() -> Engine:
    """Trafilatura's fast mode; its de-duplication stays off, for with it a text depends on the pages before it."""
    library = _library("trafilatura", "trafilatura lxml-html-clean")

    def engine(tags: Tags) -> Extract:
        markup = tags.markup()
        text = library.extract(markup, fast=True, include_comments=False, deduplicate=False)
        return Extract(text or "", tags.paragraphs())

    return engine


def _library(name: str, packages: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"the engine {name} is not installed ({error}): pip install {packages}") from error


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


_SCRIPT = re.compile(r"<(script|style)\b", re.IGNORECASE)
_SCRIPT_END = {n: re.compile(rf"</{n}[^>]*>", re.IGNORECASE) for n in ("script", "style")}
