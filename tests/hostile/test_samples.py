"""The larger samples (CLEANPIPE_SAMPLES, or ../shared/samples) that are hostile: broken archives, large bug cases.

They are read where they lie: some are under licences that this repository does not take in.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cleanpipe.run import run
from cleanpipe.verify import verify

HERE = Path(__file__).parent
TESTS = HERE.parent
SAMPLES = Path(os.environ.get("CLEANPIPE_SAMPLES") or TESTS.parents[1] / "shared" / "samples")
pytestmark = pytest.mark.skipif(not SAMPLES.is_dir(), reason=f"no samples at {SAMPLES} (set CLEANPIPE_SAMPLES)")
DOCUMENTS = ("response", "resource", "conversion")


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hostile_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SAID = _module(HERE / "test_hostile.py")
BUILD = SAID.BUILD


def large() -> list[dict[str, Any]]:
    path = SAMPLES / "bugs" / "cases.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [case for line in lines if (case := json.loads(line)).get("large_recipe")]


def test_broken_archives_lose_what_is_broken_and_nothing_else(tmp_path: Path) -> None:
    facts: dict[str, Any] = json.loads((TESTS / "data/archive/broken-facts.json").read_bytes())
    folder = tmp_path / "in"
    folder.mkdir()
    names = sorted(p.name for p in (SAMPLES / "broken").iterdir() if ".warc" in p.name or p.suffix == ".arc")
    assert len(names) >= 25
    for name in names:
        (folder / name).symlink_to(SAMPLES / "broken" / name)
    plain = {"end": ".warc.gz", "pack": "gzip", "around": "before, after"}
    good = [BUILD.made({"name": f"good-{i}", **plain}, 6000 + i) for i in range(3)]
    for archive in good:
        (folder / archive.name).write_bytes(archive.data)
    done = run("web", [str(folder)], tmp_path / "out", engine="serial")
    assert done.exit_code == 0
    outcome = SAID.Outcome(tmp_path / "out")
    bad = [fault for archive in good for fault in outcome.faults(archive)]
    for name in names:
        want, rows = facts[f"broken/{name}"], outcome.ledger.get(name, [])
        lost = [r for r in rows if r["record_type"] is None]
        found = [
            [r["record_offset"], r["record_length"], r["offset_kind"], outcome.quarantine[r["doc_id"]]["error"]]
            for r in lost
        ]
        if found != want["damages"]:
            bad.append(f"{name}: damages {found}, want {want['damages']}: {want['why']}")
        types = Counter(r["record_type"] for r in rows if r["record_type"] is not None)
        if types != {t: n for t, n in want["records"].items() if t in DOCUMENTS}:
            bad.append(f"{name}: documents {types}, want {want['records']}")
        bad += [f"{name}: {r['url']} has no reason" for r in rows if r["fate"] != "kept" and not r["reason"]]
        if any(r["reason"] != "damaged_range" or r["fate"] != "quarantined" for r in lost):
            bad.append(f"{name}: a damage with another fate")
    if bad:
        pytest.fail("\n".join(bad), pytrace=False)
    assert verify(tmp_path / "out").findings == []


@pytest.mark.slow
@pytest.mark.parametrize("case", large(), ids=lambda c: f"{c['id']}-{c['file']}")
def test_large_bug_cases(case: dict[str, Any], tmp_path: Path) -> None:
    check = _module(TESTS / "data/bugs/check_bugs.py")
    subprocess.run([sys.executable, SAMPLES / "bugs" / "gen_large.py", tmp_path, case["file"]], check=True)
    out, sets = tmp_path / "out", [part for one in case.get("set", ()) for part in ("--set", one)]
    line = ["run", "web", str(tmp_path / case["file"]), "--out", str(out), "--engine", "serial", "--quiet", *sets]
    status, cpu, memory = SAID.measured(line)
    sys.stdout.write(f"{case['id']}: {cpu:.1f} s CPU, {memory >> 20} MiB\n")
    found = check.Run(str(out))
    assert not found.bad
    assert check.check_run(case["expect"], found, status, cpu, memory / (1 << 20)) == []
    assert verify(out).findings == []


def test_the_large_bug_cases_are_there() -> None:
    assert len(large()) == 7
