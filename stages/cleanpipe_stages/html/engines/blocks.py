"""The project's own engine: the blocks of a page, each kept or left by a learned model, as text or Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from cleanpipe_stages.html.blocks import model, rules
from cleanpipe_stages.html.blocks.balanced import balanced, written
from cleanpipe_stages.html.blocks.gaps import filled, headed
from cleanpipe_stages.html.blocks.render import rendered
from cleanpipe_stages.html.blocks.segment import Blocks, forest
from cleanpipe_stages.html.blocks.tables import Flags
from cleanpipe_stages.html.engines import Engine, Extract, Options, Reader, library, resiliparse
from cleanpipe_stages.html.tags import Tags

# Of so many characters one is asked for: on held-out hosts 10, 20 or no fallback make no difference.
_TRUST = 5
# The parser opens formatting again in each block: beyond this the page it writes is not looked at.
_BLOCKS = 20_000  # of one reading; the model needs 8 kB for each
Page = tuple[bytes, bytes]
"""Its markup, and what the parser made of it."""
_LARGER, _ANYWAY = 4, 1 << 20  # times its size, and bytes that any page may have
_HUGE = 16 << 20  # bytes of a page that is not parsed here at all
_MOST = 4 << 20  # bytes of a page as the parser writes it: arrays over its text take 30 times as much


# One character of a private area alone in an element is a picture out of an icon font. U+E000 to U+F8FF in UTF-8.
_ICON = re.compile(rb"(?<=>)\s*(?:\xee[\x80-\xbf]|\xef[\x80-\xa3])[\x80-\xbf]\s*(?=</)")


def _unscripted(tags: Tags) -> bytes:
    """A page with ``<noscript>`` in its head as ``<template>``: a parser without scripts begins the body there."""
    markup = tags.data.tobytes()
    rows = np.flatnonzero(tags.pairs == _NO)
    if not len(rows):
        return markup
    places = tags.at[rows].tolist()
    bodies = (at for at in tags.at[tags.pairs == _BO].tolist() if markup[at + 1 : at + 5].lower() == b"body")
    end = next(bodies, len(markup))
    names = [at + 1 + (markup[at + 1] == 0x2F) for at in places if at < end]
    names = [at for at in names if markup[at : at + 8].lower() == b"noscript"]
    if not names or 2 * sum(markup[at - 1] == 0x2F for at in names) != len(names):
        return markup  # one that nothing closes would take the page with it
    changed = bytearray(markup)
    for at in names:
        changed[at : at + 8] = b"template"
    return bytes(changed)


_NO, _BO = (np.uint16(int.from_bytes(two, "big")) for two in (b"no", b"bo"))  # as ``Tags.pairs`` holds them


def open_engine(options: Options) -> Engine:
    """``open_reader`` for one page."""
    reader = open_reader(options)

    def engine(tags: Tags) -> Extract:
        (found,) = reader([tags])
        if found is None:
            raise ValueError("a page that no engine reads")
        return found

    return engine


def open_reader(options: Options) -> Reader:
    """Main content by the learned model; resiliparse's text where the parser fails on a page or blows it up.

    A main part of fewer characters than a fifth of ``options.fallback`` is not believed: the page less its furniture is
    taken instead, if that gives more. Raises ConfigError: turbohtml is missing.
    """
    library("turbohtml", "turbohtml (or --set html_scrub.engine=resiliparse)")
    other = resiliparse.open_engine(replace(options, format="text"))
    model.judged(forest([balanced(b"<p>A model that does not fit is no fault of a page.")]))

    def small(html: bytes, markup: bytes) -> bytes:
        if len(html) > min(_LARGER * len(markup) + _ANYWAY, _MOST):
            raise ValueError("too large, or formatting opened again and again")
        return html

    def parsed(tags: Tags) -> Page | None:
        if len(tags.data) > _HUGE:
            return None
        markup = _unscripted(tags)
        try:
            html = written(markup)
            if b"\xee" in html or b"\xef" in html:
                html = _ICON.sub(b"", html)
            return markup, small(html, markup)
        except Exception:  # the parser's own fault
            return None

    def by_other(tags: Tags) -> Extract | None:
        try:
            return replace(other(tags), fallback=True)
        except Exception:  # one bad page costs one page, whatever its engine says
            return None

    def texts(blocks: Blocks, keep: Flags) -> list[str]:
        return rendered(blocks, keep, options.format, bullets=options.bullets)

    def main(blocks: Blocks, unseen: Flags, furniture: Flags) -> list[str]:
        share, keep = model.judged(blocks)
        never = unseen | furniture
        return texts(blocks, headed(blocks, filled(blocks, keep & ~unseen, share, never), share, never))

    def read(pages: Sequence[Page]) -> list[tuple[str, bool] | None]:
        """The text of each page and whether the whole page was taken."""
        try:
            together = forest([html for _, html in pages], lambda page: small(balanced(pages[page][0]), pages[page][0]))
            if len(together) > _BLOCKS:
                raise ValueError("too many blocks for the model")
            unseen, hidden = rules.both(together, main=options.main)
            furniture = rules.furniture(together)
            found = main(together, unseen, furniture) if options.main else [""] * len(pages)
            short = np.array([not options.main or len(text) * _TRUST < options.fallback for text in found], bool)
            if not short.any():
                return [(text, False) for text in found]
            shown = short[together.page] & ~hidden
            if options.main:
                shown &= ~furniture
            whole = texts(together, shown)
            return [
                (page, options.main) if len(page) > len(text) else (text, False)
                for text, page in zip(found, whole, strict=True)
            ]
        except Exception:  # one of them is to blame: each for itself
            return [found for page in pages for found in read([page])] if len(pages) > 1 else [None]

    def reader(group: Sequence[Tags]) -> Iterator[Extract | None]:
        html = [parsed(tags) for tags in group]
        found = iter(read([page for page in html if page is not None]))
        for tags, page in zip(group, html, strict=True):
            if page is None or (one := next(found)) is None:
                yield by_other(tags)
            else:
                yield Extract(one[0], tags.paragraphs(), whole=one[1])

    return reader
