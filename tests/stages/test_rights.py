"""rights: what markup and HTTP head say, what must not deceive it, and what is unknown."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, check_stage, run
from cleanpipe_stages.permissions.judge import DROPS, family
from cleanpipe_stages.permissions.licences import SEVERAL, conditions, strictest
from cleanpipe_stages.permissions.page import HEADERS
from cleanpipe_stages.permissions.robots import DIRECTIVES, directives
from cleanpipe_stages.permissions.scan import scan
from cleanpipe_stages.rights import Rights

CASES = [
    json.loads(line) for line in (Path(__file__).parent / "cases" / "rights.jsonl").read_text("utf-8").splitlines()
]
NAMES = {
    "robots": "rights_robots",
    "bots": "rights_bots",
    "noindex": "rights_noindex",
    "noai": "rights_noai",
    "tdm": "rights_tdm_reservation",
    "policy": "rights_tdm_policy",
    "licence": "rights_licence",
    "source": "rights_licence_source",
}


def rows_of(inputs: list[dict[str, Any]]) -> pa.RecordBatch:
    heads: dict[str, Any] = {name: [i.get(name) for i in inputs] for name in HEADERS}
    return batch(
        markup=[i["markup"] for i in inputs],
        media_type=[i.get("media_type", "text/html") for i in inputs],
        is_http=[i.get("is_http", True) for i in inputs],
        **heads,
    )


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["comment"][:50])
def test_cases(case: dict[str, Any]) -> None:
    done = run(Rights(), rows_of([case["input"]]))
    found = {name: done.scores[NAMES[name]][0] for name in case["expected"]}
    assert found == case["expected"]
    assert done.reasons == [None]


def test_all_cases_in_one_batch_in_any_order_and_cut() -> None:
    chosen = list(CASES)
    random.Random(5).shuffle(chosen)
    done = check_stage(Rights(), rows_of([c["input"] for c in chosen]))
    for row, case in enumerate(chosen):
        assert {n: done.scores[NAMES[n]][row] for n in case["expected"]} == case["expected"], case["comment"]


def test_what_is_unknown_is_null() -> None:
    wet = {"markup": '<meta name="robots" content="noindex"> is text here', "media_type": None, "is_http": None}
    plain = {"markup": '<meta name="robots" content="noindex">', "media_type": "text/plain", "x_robots_tag": "noai"}
    bare = {"markup": '<meta name="robots" content="noindex">', "is_http": None}  # a resource: no HTTP head
    done = run(Rights(drop=("noindex",), licences=("cc-by",)), rows_of([wet, plain, bare]))
    assert [done.scores[name][0] for name in NAMES.values()] == [None] * len(NAMES)
    assert done.scores["rights_robots"][1:] == ["noai", "noindex"]
    assert done.reasons == [None, "other_licence", "noindex"]
    assert done.flowed.tally["rights"]["skipped"] == 1


def page(robots: str = "", licence: str = "", tdm: str = "") -> dict[str, Any]:
    link = f'<a rel="license" href="https://creativecommons.org/licenses/{licence}/4.0/">x</a>' if licence else ""
    reserved = f'<meta name="tdm-reservation" content="{tdm}">' if tdm else ""
    return {"markup": f'<head><meta name="robots" content="{robots}">{reserved}</head><p>x</p>{link}'}


PAGES = [
    page(),
    page("noindex"),
    page("noai, noindex"),
    page("nofollow", tdm="1"),
    page(tdm="0"),
    page(licence="by-nc"),
]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [None] * 6),
        ({"drop": ("noindex",)}, [None, "noindex", "noindex", None, None, None]),
        ({"drop": ("noai",)}, [None, None, "noai", None, None, None]),
        ({"drop": ("tdm", "noai", "noindex")}, [None, "noindex", "noindex", "tdm", None, None]),
        ({"drop": ("nofollow", "tdm")}, [None, None, None, "nofollow", None, None]),
        ({"licences": ("cc-by-nc",)}, ["other_licence"] * 5 + [None]),
        (
            {"licences": ("cc-by",), "drop": ("noindex",)},
            ["other_licence", "noindex", "noindex"] + ["other_licence"] * 3,
        ),
        ({"licences": ("cc-by-nc",), "licence_sources": ("jsonld",)}, ["other_licence"] * 6),
    ],
)
def test_only_an_option_drops_and_the_ledger_decides_alike(options: Any, expected: list[str | None]) -> None:
    stage = Rights(**options)
    done = check_stage(stage, rows_of(PAGES))
    assert done.reasons == expected
    ledger = pa.RecordBatch.from_pydict({n: pa.array(done.scores[n], t) for n, t in stage.scores.items()})
    assert stage.judge().judge(ledger).to_pylist() == expected


def test_crawlers_that_count_as_all() -> None:
    rows = rows_of([{"markup": '<meta name="CCBot" content="noindex">'}])
    assert run(Rights(drop=("noindex",)), rows).reasons == [None]
    assert run(Rights(drop=("noindex",), crawlers=("CCBot",)), rows).reasons == ["noindex"]


@pytest.mark.parametrize("options", [{"drop": ("nothing",)}, {"licence_sources": ("text",)}])
def test_unknown_words_are_refused(options: Any) -> None:
    with pytest.raises(ConfigError, match="choose one of"):
        Rights(**options).open()


LICENCES = st.sampled_from(["cc-by-4.0", "cc-by-3.0-de", "cc-by-sa-4.0", "cc-by-nc-nd-4.0", "cc-by-nc-4.0", "cc0-1.0"])


@given(st.lists(LICENCES, min_size=1, max_size=5))
def test_the_strictest_licence_asks_for_all_that_any_asks_for(licences: list[str]) -> None:
    found = strictest(licences)
    asked = frozenset[str]().union(*map(conditions, licences))
    assert found == strictest(licences[::-1])
    assert found == SEVERAL or (found in licences and conditions(found) == asked)
    assert (found == SEVERAL) == all(conditions(licence) != asked for licence in licences)


def test_families() -> None:
    names = ["cc-by-4.0", "cc-by-sa-3.0-de", "cc0-1.0", "cc-pdm-1.0", "cc-by", "several", "cc-by-nc-nd-2.5"]
    assert [family(n) for n in names] == ["cc-by", "cc-by-sa", "cc0", "cc-pdm", "cc-by", "several", "cc-by-nc-nd"]


@given(st.text(max_size=80))
def test_directives_of_any_text(text: str) -> None:
    assert directives(text) <= set(DIRECTIVES)
    assert set(DROPS) - {"tdm"} <= set(DIRECTIVES)


TAGS = [
    "<meta ", 'name="robots" ', 'content="noindex"', ">", "<!--", "-->", "<script>", "</script>", "<", '"', "'", "=",
    " ", "creativecommons.org", "<a rel=license href=//", "/licenses/by/4.0/", "x", "é", "<template>", "</template>",
]  # fmt: skip


@given(st.lists(st.lists(st.sampled_from(TAGS), max_size=12).map("".join), min_size=1, max_size=4))
def test_neighbours_change_nothing(pages: list[str]) -> None:
    whole = run(Rights(), rows_of([{"markup": p} for p in pages])).scores
    for row, one in enumerate(pages):
        alone = run(Rights(), rows_of([{"markup": one}])).scores
        assert {n: v[row] for n, v in whole.items()} == {n: v[0] for n, v in alone.items()}


@pytest.mark.parametrize(
    "markup",
    [
        "<meta name=robots content=noindex " * 20_000,
        '<a href="//creativecommons.org/licenses/by/4.0/' * 20_000,
        "<!--" * 100_000 + '<meta name="robots" content="noindex">',
        "<" * 300_000 + '<meta name="robots" content="noindex">',
        '<a b="' * 100_000 + '<meta name="robots" content="noindex">',
        "<script>" * 50_000 + '<meta name="robots" content="noindex">',
        "mm" * 300_000,
        '<script type="application/ld+json">' + "[" * 100_000 + '"//creativecommons.org"</script>',
        "<a =" * 100_000 + ' href="//creativecommons.org/licenses/by/4.0/">',
    ],
)
def test_hostile_markup_costs_no_more_than_its_length(markup: str) -> None:
    began = time.process_time()
    run(Rights(), rows_of([{"markup": markup}]))
    assert time.process_time() - began < 3  # some 0.1 s here; a square would be minutes


def test_a_page_that_says_nothing_is_not_tokenised() -> None:
    rows = rows_of([{"markup": '<meta name="robots" content="index, follow"><meta name="viewport" content="none">'}])
    found = scan(rows.column(col.MARKUP), rows.column(col.MARKUP).is_valid().to_numpy(zero_copy_only=False))
    assert not found.metas
    assert not found.licences
