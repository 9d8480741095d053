"""Resiliparse: main content by its rules, mended where they lose text."""

from __future__ import annotations

from cleanpipe.errors import ConfigError
from cleanpipe_stages.html.engines import Engine, Extract, Options
from cleanpipe_stages.html.mend import mended, unmark
from cleanpipe_stages.html.tags import Tags

# what a page is without its furniture, and without what a browser hides
_FURNITURE = ["nav", "header", "footer", "aside", "[role=navigation]", "[role=contentinfo]"]
_BESIDE_MAIN = {  # by whether mend put three blocks around all
    wrapped: ["title", "nav", "footer", f"{outer}aside", f"{outer}* > aside"]
    for wrapped, outer in ((False, "body > "), (True, "body > div > div > div > "))
}
_HIDDEN = ["title", "[hidden]", "dialog:not([open])", "[style*='display:none' i]", "[style*='display: none' i]"]


def open_engine(options: Options) -> Engine:
    """Main content by resiliparse's rules, mended where they lose text; else the whole page.

    A main part of fewer characters than ``options.fallback`` is not believed; the page less its furniture is taken
    instead, if that gives more.
    """
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree

    if options.format != "text":
        raise ConfigError(
            'the engine resiliparse writes text only: take engine = "blocks" or "trafilatura" for Markdown'
        )
    only_main, fallback, bullets = options.main, options.fallback, options.bullets

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
        page, wrapped = mended(tags)
        tree = HTMLTree.parse_from_bytes(page, "utf-8")
        if tree.body is None:
            return Extract("", 0)
        text = plain(tree, main=True, skip=_BESIDE_MAIN[wrapped]) if only_main else ""
        whole = not only_main or len(text) < fallback
        if whole:
            other = plain(tree, main=False, skip=[*_FURNITURE, *_HIDDEN] if only_main else _HIDDEN)
            whole = len(other) > len(text)
            text = other if whole else text
        paragraphs = tags.paragraphs()
        return Extract(unmark(text), paragraphs, whole=only_main and whole)

    return engine
