"""What real pages say of their use, as the stage reads it and as a whole parser does."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from resiliparse.parse.html import HTMLTree

from cleanpipe.testing import batch, run
from cleanpipe_stages.permissions.licences import has_licence, licence_id, strictest
from cleanpipe_stages.permissions.robots import DIRECTIVES, directives
from cleanpipe_stages.rights import Rights

HEADS = ("x_robots_tag", "tdm_reservation", "tdm_policy", "link_licence")


def read(path: Path) -> str:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8", "replace")


def by_parser(page: str) -> tuple[str, str | None]:
    """Directives for all crawlers, and the licence of links that say so, else of meta tags, else of any link."""
    document = HTMLTree.parse(page).document
    assert document is not None
    found: set[str] = set()
    licences: dict[str, list[str]] = {"rel": [], "meta": [], "link": []}
    for tag in document.query_selector_all("meta"):
        content = tag.getattr("content", "") or ""
        if (tag.getattr("name", "") or "").strip().lower() == "robots":
            found |= directives(content)
        if licence := licence_id(content):
            licences["meta"].append(licence)
    for tag in document.query_selector_all("a, link, area"):
        if licence := licence_id(tag.getattr("href", "") or ""):
            sure = any(has_licence(tag.getattr(name, "")) for name in ("rel", "itemprop", "property"))
            licences["rel" if sure else "link"].append(licence)
    named = next((names for names in licences.values() if names), [])
    return ",".join(d for d in DIRECTIVES if d in found), strictest(named)


SETS = [
    pytest.param("article-extraction-benchmark/html", marks=pytest.mark.slow),  # the other parser's tree takes 0.1 s
    pytest.param("wcxb-dev/html", marks=pytest.mark.slow),
    "readability",
]


@pytest.mark.parametrize("part", SETS)
def test_a_whole_parser_finds_the_same(samples: Path, part: str) -> None:
    files = sorted(p for p in (samples / "pages" / part).rglob("*") if p.is_file() and re.search(r"\.html", p.name))
    pages = [read(path) for path in files]
    none: dict[str, Any] = dict.fromkeys(HEADS, [None] * len(pages))
    done = run(
        Rights(), batch(markup=pages, media_type=["text/html"] * len(pages), is_http=[True] * len(pages), **none)
    )
    scores = done.scores
    differ = []
    for path, page, robots, licence, source in zip(
        files, pages, scores["rights_robots"], scores["rights_licence"], scores["rights_licence_source"], strict=True
    ):
        expected = by_parser(page)
        if source == "jsonld":  # which the parser above does not read
            licence = expected[1]
        if (robots, licence) != expected:
            differ.append((path.name, (robots, licence), expected))
    assert not differ
    assert len(pages) >= 20
