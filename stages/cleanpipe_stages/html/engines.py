"""The ways to take the text out of a page. An engine is a pure function of one page; it keeps nothing between pages."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe_stages.html import glyphs

Bytes = npt.NDArray[np.uint8]
Engine = Callable[[str, Bytes], "Extract"]
Views = Callable[[int], Bytes]


@dataclass(frozen=True, slots=True)
class Extract:
    """text: lines; a blank line between paragraphs; blanks at the start of a line only in preformatted blocks.

    paragraphs: ``<p>`` elements of the page. fallback: the whole page was taken for want of a main part.
    """

    text: str
    paragraphs: int
    fallback: bool = False


_OPEN, _CLOSE = "\ufdd1", "\ufdd2"  # noncharacters around preformatted blocks
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_PARAGRAPH = re.compile(r"<p[\s>]", re.IGNORECASE)

_NEAR = 3  # elements between a list and <body> below which resiliparse takes it for navigation
_LINKED = 0.5  # share of a list's characters in links above which it is

# what a page is without its furniture, and without what a browser hides
_FURNITURE = ["nav", "header", "footer", "aside", "[role=navigation]", "[role=contentinfo]"]
_HIDDEN = ["[hidden]", "dialog:not([open])", "[style*='display:none' i]", "[style*='display: none' i]"]


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

    def engine(markup: str, data: Bytes) -> Extract:
        tree = HTMLTree.parse(glyphs.mark(markup, data))
        body = tree.body
        if body is None:
            return Extract("", 0)
        _keep_figures(tree, body)
        if main:
            _keep_lists(tree, body)
        preformatted = _mark_preformatted(tree, body)
        paragraphs = len(body.get_elements_by_tag_name("p"))
        text = plain(tree, main=main, skip=[]) if main else ""
        short = len(text) < fallback if main else True
        if short:
            other = plain(tree, main=False, skip=[*_FURNITURE, *_HIDDEN] if main else _HIDDEN)
            short = len(other) > len(text)
            text = other if short else text
        return Extract(_flush_left(text.replace(glyphs.MARK, ""), preformatted), paragraphs, fallback=main and short)

    return engine


def _keep_figures(tree: Any, body: Any) -> None:
    """Tables, code and quotations stand in <figure> too, which resiliparse skips whole: it becomes a <div>."""
    for figure in list(body.get_elements_by_tag_name("figure")):
        block = tree.create_element("div")
        for child in list(figure.child_nodes):
            block.append_child(child)
        figure.replace_with(block)


def _keep_lists(tree: Any, body: Any) -> None:
    """A list close to <body> is navigation to resiliparse. One that is not mostly links is put deeper; where one stays
    to be skipped, the words before and after it are kept apart."""
    for found in list(body.get_elements_by_tag_name("ul")):
        if not _near_body(found):
            continue
        text = len(found.text)
        linked = sum(len(a.text) for a in found.get_elements_by_tag_name("a"))
        if linked <= _LINKED * text:
            outer = inner = tree.create_element("div")
            for _ in range(_NEAR - 1):
                block = tree.create_element("div")
                inner.append_child(block)
                inner = block
            found.replace_with(outer)
            inner.append_child(found)
        elif found.next_sibling is not None and found.previous_sibling is not None:
            found.parent_node.insert_before(tree.create_element("br"), found)


def _near_body(node: Any) -> bool:
    parent = node.parent_node
    for _ in range(_NEAR):
        if parent is None or parent.tag == "body":
            return parent is not None
        parent = parent.parent_node
    return False


def _mark_preformatted(tree: Any, body: Any) -> bool:
    blocks = list(body.get_elements_by_tag_name("pre"))
    for block in blocks:
        block.insert_before(tree.create_text_node(_OPEN), block.first_child) if block.first_child else None
        block.append_child(tree.create_text_node(_CLOSE))
    return bool(blocks)


def _flush_left(text: str, preformatted: bool) -> str:
    if not preformatted:
        return _INDENT.sub("", text)
    parts = re.split(f"[{_OPEN}{_CLOSE}]", text)
    return "".join(_INDENT.sub("", part) if n % 2 == 0 else part for n, part in enumerate(parts))


def html2text() -> Engine:
    """The literal rule: script and style out by a regular expression, then html2text with body_width 0."""
    library = _library("html2text", "literal")

    def engine(markup: str, data: Bytes) -> Extract:
        reader = library.HTML2Text(bodywidth=0)
        reader.ignore_links = reader.ignore_images = True  # addresses are no text of the page
        return Extract(reader.handle(_without_scripts(markup)), len(_PARAGRAPH.findall(markup)))

    return engine


def trafilatura() -> Engine:
    """Trafilatura's fast mode; its de-duplication stays off, for with it a text depends on the pages before it."""
    library = _library("trafilatura", "trafilatura")

    def engine(markup: str, data: Bytes) -> Extract:
        text = library.extract(markup, fast=True, include_comments=False, deduplicate=False)
        return Extract(text or "", len(_PARAGRAPH.findall(markup)))

    return engine


def _library(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"the engine {name} is not installed ({error}): pip install 'cleanpipe[{extra}]'") from error


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
