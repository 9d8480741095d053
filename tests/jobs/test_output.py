"""What is printed moves no terminal, and what was lost of it is told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe_jobs.output import harmless, outside

HARMLESS = [
    ("plain text\twith a tab\nand lines", None),
    ("\x1b[31mred", "\\x1b[31mred"),
    ("a\rb", "a\\x0db"),
    ("\x9b31m", "\\x9b31m"),
    ("\u202eevil\u2066", "\\u202eevil\\u2066"),
    ("naïve 中文 🙂", None),
]


@pytest.mark.parametrize(("text", "becomes"), HARMLESS)
def test_controls_are_escapes(text, becomes):
    assert harmless(text) == (text if becomes is None else becomes)


def cleanpipe(*words, stdout, **env):
    command = [sys.executable, "-m", "cleanpipe_jobs.cli", *words]
    return subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, text=True, env={**os.environ, **env}, timeout=60
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_device_is_told():
    with Path("/dev/full").open("w") as full:
        done = cleanpipe("recipe", "web", stdout=full)
    assert (done.returncode, "No space left" in done.stderr) == (3, True)


def test_a_reader_that_goes_away_is_no_error():
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        done = cleanpipe("recipe", "web", stdout=pipe)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_locale_of_ascii_gets_escapes():
    done = cleanpipe("stages", stdout=subprocess.PIPE, LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_goes_to_no_run(tmp_path):
    (tmp_path / "run").mkdir()
    assert outside(tmp_path / "x.html", "--out", tmp_path / "run", "s3://b/run") == tmp_path / "x.html"
    for inside in ("x.html", "audit/x.html", "../run/x.html"):
        with pytest.raises(ConfigError, match="lies in the run"):
            outside(tmp_path / "run" / inside, "--out", tmp_path / "run")
    with pytest.raises(ConfigError, match="is a folder"):
        outside(tmp_path, "--out")
