"""Pages looked at together are judged and mended as each would be alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleanpipe_stages.html import guard, look, mend
from cleanpipe_stages.html.guard import Limits
from cleanpipe_stages.html.tags import Tags

PIECES = [
    *("<", ">", "/", '"', "'", " ", "\n", "b", "é", "–", "東", "&ndash;", "&#8211;", "x" * 300),
    *("<b>", "</b>", "<strong>", "</strong>", "<bold>", "</bold>", "<font size=1>", "<a>", "</a>", "<p>", "<br>"),
    *("<ul>", "</ul>", "<ol>", "<li>", "<nav>", "<section class=x>", "<header>", "<div>", "</div>", "<td>"),
    *("<body>", "<body a=1>", "<html>", "<pre>", "</pre>", "<figure>", "</figure>", "<noscript>", "</noscript>"),
    *("<!--", "-->", "<script>", "</script>", "<style>", "</style>", "<FIGURE\t>", "<preface>", "</p>"),
]
pages = st.lists(st.lists(st.sampled_from(PIECES), max_size=80).map("".join), max_size=6)
LIMITS = Limits(8, 40)


def alone(page: str, limits: Limits) -> str | tuple[bytes, bool]:
    data = np.frombuffer(page.encode(), np.uint8)
    if guard.crowded(data, limits):
        return guard.TOO_MANY_ELEMENTS
    tags = Tags(data)
    return guard.refusal(tags, limits) or mend.mended(tags)


def together(all_pages: list[str], limits: Limits) -> list[str | tuple[bytes, bool]]:
    column = pa.array(all_pages, pa.large_string())
    seen = list(look.look(column, range(len(all_pages)), limits))
    assert [row for row, _ in seen] == list(range(len(all_pages)))
    return [tags if isinstance(tags, str) else mend.mended(tags) for _, tags in seen]


@settings(max_examples=300, deadline=None)
@given(pages)
def test_company_changes_nothing(some: list[str]) -> None:
    assert together(some, LIMITS) == [alone(page, LIMITS) for page in some]


def test_neither_does_the_size_of_a_sheet(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [f"<p>{n}</p><ul><li>{'x' * n}</ul>" for n in range(0, 2000, 100)]
    whole = together(some, LIMITS)
    monkeypatch.setattr(look, "_AT_ONCE", 64)
    assert together(some, LIMITS) == whole


def test_rows_between_are_passed_over() -> None:
    column = pa.array(["<p>one", "text < text", "<p>three", "<nav>"], pa.large_string())
    seen = dict(look.look(column, [0, 2], LIMITS))
    assert list(seen) == [0, 2]
    assert [tags.data.tobytes() for tags in seen.values() if not isinstance(tags, str)] == [b"<p>one", b"<p>three"]


@pytest.mark.parametrize(
    ("page", "closed"),
    [
        ("<b>word</b> and more text", 1),
        ("<STRONG>word</STRONG> and more text", 1),
        ("<b class=x>word</b> and more text", 0),  # attributes are the second look's business
        ("<b>word</bold> and more text", 0),
        ("<b><i>word</i></b> and more text", 1),  # the inner one
        ("<strike>word</strong> and more text", 0),
        ("<b>" + "x" * 5000 + "</b> and more text", 0),  # out of sight
    ],
)
def test_tags_that_surely_hold_nothing(page: str, closed: int) -> None:
    sheet = Tags(np.frombuffer(page.encode(), np.uint8)).sheet
    formats = guard.MAY_FORMAT[sheet.pairs] & sheet.opens
    gaps = np.diff(sheet.at, append=len(page))
    assert int(np.count_nonzero(look._closed(sheet, formats, gaps))) == closed
