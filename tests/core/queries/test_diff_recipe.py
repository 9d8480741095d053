"""Differences of what two runs were told, in the words that a person reads."""

import json

import pytest
from made_runs import population, rows, write_run

from cleanpipe.queries.diff_recipe import recipes, spelled
from cleanpipe.queries.diff_text import the_same
from cleanpipe.queries.opened_run import open_run


@pytest.fixture(scope="module")
def ledger():
    pages = population(1, pages=60, hosts=6, files=3)
    return rows({**pages, "twice": pages["twice"] & False})  # whatever stages are on


def told(tmp_path, ledger, a=(), b=(), mend=None, files=(None, None)):
    write_run(tmp_path / "a", ledger, sets=a, files=files[0])
    write_run(tmp_path / "b", ledger, sets=b, files=files[1])
    if mend:
        facts = json.loads((tmp_path / "b" / "run.json").read_text())
        mend(facts)
        (tmp_path / "b" / "run.json").write_text(json.dumps(facts))
    with open_run(tmp_path / "a") as one, open_run(tmp_path / "b") as other:
        return recipes(one, other)


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ([], [], []),
        (["language_id.threshold=0.65"], ["language_id.threshold=0.8"], ["language_id.threshold 0.65 → 0.8"]),
        ([], ["language_id.threshold=0.8"], ["language_id.threshold not set (0.65 in force) → 0.8"]),
        ([], ["minhash_drop.enabled=false"], ["stage minhash_drop on → switched off"]),
        ([], ['language_id.languages=["en", "de"]'], ['language_id.languages ["en"] → ["en", "de"]']),
        ([], ["read.max_body=1000000", "audit.seed=7"], ["audit.seed 0 → 7", "read.max_body 67108864 → 1000000"]),
        (["html_scrub.engine=html2text"], [], ["html_scrub.engine html2text → blocks"]),
    ],
)
def test_settings(tmp_path, ledger, a, b, want):
    assert [d["words"] for d in told(tmp_path, ledger, a, b)["settings"]] == want


def test_order_of_the_stages_and_stages_of_one_recipe_alone(tmp_path, ledger):
    def mend(facts):
        stages = facts["identity"]["settings"]["stages"]
        stages[:] = [stages[1], stages[0], *stages[2:-1], ["own", True, {"x": 1}]]

    found = [d["words"] for d in told(tmp_path, ledger, mend=mend)["settings"]]
    assert found[0].startswith("order of the stages http_filter, url_filter, rights")
    assert "→ url_filter, http_filter, rights" in found[0]
    assert found[1:] == ["stage utf8_normalize in the recipe → absent", "stage own absent → in the recipe"]


def test_models_code_versions(tmp_path, ledger):
    def mend(facts):
        facts["identity"]["models"] = {"language_id.language_id": "ab" * 32}
        facts["identity"]["code"] = "cd" * 32
        facts["versions"] = {"cleanpipe": "0.2.0", "kenlm-ex": "0.2.1"}

    found = told(tmp_path, ledger, mend=mend)
    assert [d["words"] for d in found["models"]] == ["language_id.language_id absent → abababababab"]
    assert [d["words"] for d in found["code"]] == ["code 000000000000 → cdcdcdcdcdcd"]
    assert [d["words"] for d in found["versions"]] == ["cleanpipe 0.1.0 → 0.2.0", "kenlm-ex absent → 0.2.1"]


def test_versions_of_an_unfinished_run_are_not_known(tmp_path, ledger):
    found = told(tmp_path, ledger, mend=lambda facts: facts.pop("versions"))
    assert (found["versions"], found["unknown"]) == ([], ["versions of B are not known before its end"])
    assert the_same(found) == "the same recipe, models and code"  # of packages nothing is said
    assert the_same({**found, "unknown": []}) == "the same recipe, models, code and packages"


def test_inputs(tmp_path, ledger):
    a = {"same": "1" * 64, "other": "2" * 64, "mine": "3" * 64, "old name": "4" * 64}
    b = {"same": "1" * 64, "other": "5" * 64, "yours": "6" * 64, "new name": "4" * 64}
    found = told(tmp_path, ledger, files=(a, b))["inputs"]
    assert found == {
        "both": 1, "changed": ["other"], "renamed": [["old name", "new name"]], "only_a": ["mine"],
        "only_b": ["yours"], "unread": [], "same": False,
    }  # fmt: skip


def test_the_same_inputs(tmp_path, ledger):
    assert told(tmp_path, ledger, files=({"x": "1" * 64}, {"y": "1" * 64}))["inputs"]["same"]


@pytest.mark.parametrize(
    ("value", "want"), [(None, "not set"), ("", '""'), ("table", "table"), (0.8, "0.8"), (True, "true"), ({}, "{}")]
)
def test_spelled(value, want):
    assert spelled(value) == want
