"""The ways to take the text out of pages. An engine is a pure function of one page; it keeps nothing between pages."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from cleanpipe.errors import ConfigError
from cleanpipe_stages.html.tags import Tags

Format = Literal["text", "markdown"]
Engine = Callable[[Tags], "Extract"]
Reader = Callable[[Sequence[Tags]], Iterator["Extract | None"]]
NAMES = ("blocks", "resiliparse", "trafilatura", "html2text")


@dataclass(frozen=True, slots=True)
class Extract:
    """text: lines; a blank line between paragraphs; blanks begin a line only in code and in nested lists.

    paragraphs: ``<p>`` elements of the page. whole: the whole page was taken for want of a main part. fallback: the
    engine itself could not, and resiliparse did.
    """

    text: str
    paragraphs: int
    whole: bool = False
    fallback: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the engines can be told; each reads what concerns it.

    main: the main part of a page only. fallback: characters below which a main part is not believed. bullets: a mark or
    number before each item of a list.
    """

    format: Format = "text"
    main: bool = True
    fallback: int = 500
    bullets: bool = True


def open_engine(name: str, options: Options) -> Engine:
    """The engine of one of ``NAMES``.

    Raises ConfigError: no such engine, its package is missing, or it cannot write the format.
    """
    engine: Engine = _module(name).open_engine(options)
    return engine


def open_reader(name: str, options: Options) -> Reader:
    """The engine as a function of several pages, each read as if it were alone; None for one on which it raised.

    Raises ConfigError as ``open_engine`` does.
    """
    module = _module(name)
    if hasattr(module, "open_reader"):
        reader: Reader = module.open_reader(options)
        return reader
    engine: Engine = module.open_engine(options)

    def one_by_one(pages: Sequence[Tags]) -> Iterator[Extract | None]:
        for tags in pages:
            try:
                found = engine(tags)
            except Exception:  # one bad page costs one page, whatever its engine says
                yield None
            else:
                yield found

    return one_by_one


def _module(name: str) -> Any:
    if name not in NAMES:
        raise ConfigError(f"unknown engine {name!r}: {', '.join(NAMES[:-1])} or {NAMES[-1]}")
    return importlib.import_module(f"{__name__}.{name}")


def library(name: str, packages: str) -> Any:
    """The module an engine stands on. Raises ConfigError that says what to install."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(f"the engine {name} is not installed ({error}): pip install {packages}") from error
