"""Trafilatura's fast mode; its de-duplication stays off, for with it a text depends on the pages before it."""

from __future__ import annotations

from cleanpipe_stages.html.engines import Engine, Extract, Options, library
from cleanpipe_stages.html.tags import Tags


def open_engine(options: Options) -> Engine:
    """Main content by trafilatura's rules."""
    trafilatura = library("trafilatura", "trafilatura lxml-html-clean")
    written = {"text": "txt", "markdown": "markdown"}[options.format]

    def engine(tags: Tags) -> Extract:
        text = trafilatura.extract(
            tags.markup(), fast=True, include_comments=False, deduplicate=False, output_format=written
        )
        return Extract(text or "", tags.paragraphs())

    return engine
