"""71 small inputs modelled on bug reports of other pipelines (tests/data/bugs/README.md), each with its outcome."""

import importlib.util
import json
from pathlib import Path

import pytest

from cleanpipe.run import run

FOLDER = Path(__file__).parents[1] / "data" / "bugs"
CASES = [json.loads(line) for line in (FOLDER / "cases.jsonl").read_text(encoding="utf-8").splitlines()]


def checker():
    spec = importlib.util.spec_from_file_location("check_bugs", FOLDER / "check_bugs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECK = checker()


# the checker came with the cases, and leaves files to the collector
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("case", CASES, ids=[f"{c['id']}-{c['kind']}" for c in CASES])
def test_outcome(case, tmp_path):
    names = case["file"] if isinstance(case["file"], list) else [case["file"]]
    paths = [str(FOLDER / n) for n in names]
    kept = []
    for turn, given in enumerate([paths, paths[::-1]] if case.get("both_orders") else [paths]):
        done = run("web", given, tmp_path / str(turn), engine="serial", sets=case.get("set", []))
        found = CHECK.Run(str(done.out))
        assert not found.bad
        assert CHECK.check_run(case["expect"], found, done.exit_code) == []
        kept.append(sorted(found.urls("kept")))
    assert kept[0] == kept[-1]
