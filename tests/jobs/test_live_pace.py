"""When ``cleanpipe watch`` speaks, and what it leaves in the stream when it is ended; real processes."""

import json
import shutil
import signal
import subprocess
import sys
import time

import pytest

from cleanpipe.observer import Observer
from cleanpipe.run import run
from cleanpipe_jobs.cli import main


class Stop(Observer):
    def phase(self, name, tasks):
        if name == "meet":
            raise KeyboardInterrupt


def watching(*args):
    return subprocess.Popen(
        [sys.executable, "-m", "cleanpipe_jobs.cli", "watch", *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def stopped(crawl, out):
    with pytest.raises(KeyboardInterrupt):
        run("web", [str(crawl)], out, engine="serial", observer=Stop())


def test_one_look_is_one_line(crawl, tmp_path, capsys):
    stopped(crawl, tmp_path / "out")
    for phase in ("meeting", "finished"):
        assert main(["watch", str(tmp_path / "out"), "--once", "--json"]) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert json.loads(line)["phase"] == phase
        run("web", [str(crawl)], tmp_path / "out", engine="serial")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_run_that_starts_is_told_when_it_starts(form, crawl, tmp_path):
    """Without a terminal a line comes every 30 seconds, and so it does with --every 60: not the first one."""
    out = tmp_path / "out"
    for pace in ([], ["--every", "60"]):
        with watching(out, *form, *pace) as watch:
            assert "waiting" in watch.stdout.readline()
            stopped(crawl, out)
            began = time.monotonic()
            line = watch.stdout.readline()
            assert time.monotonic() - began < 20
            assert "meeting" in line or "reading" in line or "comparing" in line
            watch.send_signal(signal.SIGINT)
            assert watch.communicate(timeout=30) == ("", "")
        shutil.rmtree(out)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_an_ended_watch_leaves_looks_alone(number, status, form, tmp_path):
    with watching(tmp_path / "out", *form, "--every", "0.2") as watch:
        first = watch.stdout.readline()
        assert "waiting" in first
        time.sleep(1)  # of several looks at a run that has not begun one is told
        watch.send_signal(number)
        said, wrong = watch.communicate(timeout=30)
    assert (watch.returncode, said, wrong) == (status, "", "")


def test_the_help_tells_every_pace(capsys):
    with pytest.raises(SystemExit):
        main(["watch", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "on a terminal 2, of s3:// 10; without one, and with --json, 30" in said
