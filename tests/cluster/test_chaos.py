"""Random kills of a local run; two drivers on one folder."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from chaos import Folders, campaign
from drillcrawl import build
from drillproof import CLEANPIPE, prove, serial_run

UNIT_BYTES = 32 << 10


@pytest.mark.slow
def test_fifty_random_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    toll = campaign(tmp_path, 50, per_run=60, seed=1, workers=3, archives=6, unit_bytes=UNIT_BYTES)
    assert toll.kills >= 50
    assert toll.starts > toll.runs, toll.table()  # the driver was hit too
    assert toll.units >= 200 * toll.runs


@pytest.mark.slow
def test_a_second_driver_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    crawl, out, log = build(tmp_path / "crawl", 3, 200), tmp_path / "out", tmp_path / "first.log"
    options = [f"--set=read.unit_bytes={UNIT_BYTES}"]
    reference = serial_run(crawl, tmp_path / "serial", options)
    line = [*CLEANPIPE, "run", "web", str(crawl), "--out", str(out), "--workers=1", *options]
    with log.open("wb") as file, subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=file, stderr=file) as first:
        while Folders(tmp_path).finished("out") < 3:
            assert first.poll() is None, log.read_text()
            time.sleep(0.01)
        second = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert first.poll() is None, "the first was done before the second asked"
    assert second.returncode == 2, second.stderr
    assert second.stderr.count("\n") == 1, second.stderr
    assert f"another run is at work in {out} (process {first.pid} on " in second.stderr
    assert first.returncode == 0, log.read_text()
    prove(out, reference)
    again = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "is finished: nothing to do" in again.stdout
