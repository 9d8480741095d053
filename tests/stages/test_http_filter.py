"""http_filter: the verdicts of cases/http_filter.jsonl, and the contract."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe.testing import batch, check_stage
from cleanpipe_stages.http_filter import HttpFilter

FILE = Path(__file__).parent / "cases" / "http_filter.jsonl"
CASES = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def rows(cases):
    return batch(**{name: [c["columns"][name] for c in cases] for name in cases[0]["columns"]})


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["comment"][:50])
def test_case(case):
    outcome = HttpFilter(**{k: tuple(v) for k, v in case.get("set", {}).items()}).open()(rows([case]))
    assert outcome.drops.to_pylist() == [case["reason"]]
    assert outcome.skipped.to_pylist() == [case.get("skipped", False)]


def test_all_cases_in_one_batch():
    plain = [c for c in CASES if "set" not in c]
    checked = check_stage(HttpFilter(), rows(plain))
    assert checked.reasons == [c["reason"] for c in plain]
    facts = HttpFilter().open()(rows(plain)).facts
    assert facts == {"status_not_applicable": 6, "type_not_applicable": 3}


def test_a_batch_of_no_rows():
    outcome = HttpFilter().open()(rows(CASES).slice(0, 0))
    assert len(outcome.drops) == 0
    assert outcome.facts == {"status_not_applicable": 0, "type_not_applicable": 0}


@pytest.mark.parametrize(
    "options",
    [
        {"statuses": ()},
        {"types": ()},
        {"types": ("text/HTML",)},
        {"types": ("text/html; charset=utf-8",)},
        {"types": ("html",)},
    ],
)
def test_options_that_cannot_work(options):
    with pytest.raises(ConfigError, match="http_filter"):
        HttpFilter(**options).check()


DECLARED = [  # declared, what the table makes of it, kept by the table, kept by the declared type
    ("text/html", "text/html", True, True),
    ("application/octet-stream", "text/html", True, False),
    (None, "text/html", True, False),
    ("text/html", "application/pdf", False, True),
    ("image/png", "image/png", False, False),
]


@pytest.mark.parametrize(("declared", "made", "by_table", "by_declared"), DECLARED)
def test_which_type_is_judged(declared, made, by_table, by_declared):
    columns = {"record_type": ["response"], "http_status": [200], "is_http": [True]}
    given = batch(**columns, media_type=[made], declared_type=[declared])
    assert (HttpFilter().open()(given).drops.to_pylist() == [None]) is by_table
    assert (HttpFilter(type_from="declared").open()(given).drops.to_pylist() == [None]) is by_declared
