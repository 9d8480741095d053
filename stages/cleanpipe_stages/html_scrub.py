"""html_scrub: takes the text of a page out of its markup. Other rows (WET, text/plain) pass as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.stage import Outcome, Stage, Step, option
from cleanpipe_stages._checks import within
from cleanpipe_stages.html import engines
from cleanpipe_stages.html.guard import TOO_DEEP, TOO_MANY_ELEMENTS, Limits
from cleanpipe_stages.html.look import look
from cleanpipe_stages.html.tags import Tags
from cleanpipe_stages.html.xhtml import closed

EMPTY, UNPARSABLE = "empty", "unparsable"
_PAGES, _BYTES = 64, 1 << 21  # of a group that an engine reads at once; to it they are single pages all the same
_RESIDUAL = re.compile(r"</?[A-Za-z][A-Za-z0-9]{0,15}[\s/>]")


@dataclass(frozen=True, kw_only=True)
class HtmlScrub(Stage):
    """Judges HTML rows by the markup alone; ``scrubbed`` is null on all others.

    too_deep, too_many_elements: the parser was spared (html/guard.py says what is dear). unparsable: the engine raised.
    empty: no text was found. An escaped ``&lt;unk&gt;`` is text and stays.
    """

    name: ClassVar[str] = "html_scrub"
    reads: ClassVar[frozenset[str]] = frozenset({col.MARKUP, col.MEDIA_TYPE})
    writes: ClassVar[Mapping[str, pa.DataType]] = {col.SCRUBBED: pa.large_string()}
    meanings: ClassVar[Mapping[str, str]] = {
        "residual_tags": "tags that still stand in texts, as code samples show them",
        "whole_page": "pages whose main part was too short, so that all but the furniture was taken",
        "by_resiliparse": "pages that the blocks engine could not read and resiliparse did",
        "paragraphs_before": "<p> elements of the markup",
        "paragraphs_after": "blocks between empty lines in the texts; headings and list items are blocks too",
    }
    reasons: ClassVar[frozenset[str]] = frozenset({TOO_DEEP, TOO_MANY_ELEMENTS, EMPTY, UNPARSABLE})

    engine: Literal["blocks", "resiliparse", "trafilatura", "html2text"] = option(
        "blocks", "what reads the markup; html2text is the literal rule", source="stages/README.md, F1 and speed"
    )
    format: Literal["text", "markdown"] = option("text", "text or markdown; resiliparse writes text only")
    main_content: bool = option(True, "the main part of a page only (blocks, resiliparse)", source="F1 .95 against .69")
    fallback: int = option(
        500,
        "a main part of fewer characters (blocks: a fifth) is not believed: the page less its furniture is taken",
        source="resiliparse: F1 on wcxb-train .804 to .844, on news articles unchanged; with 1,000 these lose .032",
    )
    list_bullets: bool = option(True, "a mark or number before each item of a list (resiliparse, blocks)")
    max_depth: int = option(
        512, "deepest nesting; pages of up to 8,000 opening tags are not judged by it", source="Chromium's parser"
    )
    max_elements: int = option(300_000, "most opening tags; so many take half a second")

    def check(self) -> None:
        """Raises ConfigError: the engine's package is missing, or a limit cannot work."""
        within(self.name, "max_depth", self.max_depth, 1)
        within(self.name, "max_elements", self.max_elements, 1)
        within(self.name, "fallback", self.fallback, 0)
        self._reader()

    def in_words(self) -> str:
        """With the engine and the limits of the markup."""
        main = "the main content" if self.main_content or self.engine == "trafilatura" else "all visible text"
        main = "all text" if self.engine == "html2text" else main
        return (
            f"Takes {main} out of HTML by {self.engine}; pages nested deeper than {self.max_depth:,}, with more than "
            f"{self.max_elements:,} opening tags, or without text go; other records pass as they are."
        )

    def _reader(self) -> engines.Reader:
        options = engines.Options(
            format=self.format, main=self.main_content, fallback=self.fallback, bullets=self.list_bullets
        )
        return engines.open_reader(self.engine, options)

    def open(self) -> Step:
        """Raises ConfigError as ``check`` does."""
        self.check()
        read, limits = self._reader(), Limits(self.max_depth, self.max_elements)
        html_types = pa.array(sorted(col.HTML_TYPES))

        def judged(found: engines.Extract | None, facts: dict[str, int]) -> tuple[str | None, str | None]:
            if found is None:
                return None, UNPARSABLE
            text = found.text
            if not text.isascii():
                text = text.encode(errors="replace").decode()  # lone surrogates cannot enter Arrow
            if not text or text.isspace():
                return None, EMPTY
            facts["residual_tags"] += sum(1 for _ in _RESIDUAL.finditer(text)) if "<" in text else 0
            facts["paragraphs_before"] += found.paragraphs
            facts["paragraphs_after"] += text.count("\n\n") + 1
            facts["whole_page"] += found.whole
            facts["by_resiliparse"] += found.fallback
            return text, None

        def step(batch: pa.RecordBatch) -> Outcome:
            html = pc.is_in(batch.column(col.MEDIA_TYPE), html_types)
            column = closed(batch.column(col.MARKUP), batch.column(col.MEDIA_TYPE))
            facts = dict.fromkeys(self.meanings, 0)
            texts: list[str | None] = [None] * batch.num_rows
            drops: list[str | None] = [None] * batch.num_rows

            def finish(group: dict[int, Tags]) -> None:
                for row, found in zip(group, read(list(group.values())), strict=True):
                    texts[row], drops[row] = judged(found, facts)
                group.clear()

            group: dict[int, Tags] = {}
            size = 0
            rows = np.flatnonzero(html.to_numpy(zero_copy_only=False)).tolist()
            for row, tags in look(column, rows, limits):
                if isinstance(tags, str):
                    drops[row] = tags
                    continue
                group[row] = tags
                size += len(tags.data)
                if len(group) >= _PAGES or size >= _BYTES:
                    finish(group)
                    size = 0
            finish(group)
            scrubbed = {col.SCRUBBED: pa.array(texts, pa.large_string())}
            return Outcome(
                col.with_columns(batch, scrubbed),
                drops=pa.array(drops, pa.string()),
                skipped=pc.invert(html),
                facts={name: n for name, n in facts.items() if n},
            )

        return step
