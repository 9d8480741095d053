"""benchmarks/gpu_tokenize.sh runs from the repository alone, on a machine that has five packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

for package in ("torch", "tokenizers", "tiktoken"):
    pytest.importorskip(package)

ROOT = Path(__file__).parents[3]
ELSEWHERE = {
    "xxhash",
    "resiliparse",
    "fastwarc",
    "warcio",
    "fsspec",
    "zstandard",
    "brotli",
    "kenlm",
    "fasttext",
    "rich",
}


def test_it_needs_five_packages() -> None:
    code = (
        "import sys, gpu_tokenize as g\n"
        "for name in ('hf', 'fast', 'torch'): g.digest(g.backend('gpt2', name).encode(['a text'], starts=True))\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    paths = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not ELSEWHERE & set(done.stdout.split())
    assert {"torch", "tokenizers", "numpy"} <= set(done.stdout.split())


@pytest.mark.slow
def test_it_measures_and_all_ids_are_the_same(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    asked = ["--mb", "0.3", "--rounds", "1", "--tokenizer", "cleanpipe-16k", "--json", str(report)]
    done = subprocess.run(
        ["sh", str(ROOT / "benchmarks" / "gpu_tokenize.sh"), *asked],
        env={**os.environ, "PYTHON": sys.executable, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.rstrip().endswith("all ids are the same")
    (found,) = json.loads(report.read_text())["tokenizers"]
    assert {"hf", "fast", "torch"} <= set(found["parity"]["differing"])
    assert not any(found["parity"]["differing"].values())
    assert found["parity"]["MB"] >= 0.3
    assert {"one", "all", "steps", "caps"} <= set(found)
