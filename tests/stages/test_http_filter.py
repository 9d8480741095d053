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
