"""Ctrl-C before a command has begun: while modules are still being imported, it ends as later on."""

import signal
import subprocess
import sys

import pytest

CODE = """
import os, signal, sys
kind, wanted, line = signal.Signals[sys.argv[1]], sys.argv[2], sys.argv[3:]
def hook(event, args):
    if event == "import" and args[0] == wanted and not seen:
        seen.append(1)
        os.kill(os.getpid(), kind)
seen = []
sys.addaudithook(hook)
from cleanpipe_jobs.cli import main
sys.exit(main(line))
"""


def interrupted(kind, module, *line):
    done = subprocess.run(
        [sys.executable, "-c", CODE, kind.name, module, *line], capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("argparse", ["--help"]),
        ("cleanpipe.errors", ["stages"]),
        ("cleanpipe_jobs.cli_parser", ["recipe", "web"]),
        ("cleanpipe_jobs.output", ["stages"]),
        ("cleanpipe.tokens.audit.limits", ["tokenize", "RUN", "--tokens", "DIR"]),
        ("cleanpipe.tokens.making.run", ["tokenize", "RUN", "--tokens", "DIR"]),
        ("numpy", ["tokenize", "RUN", "--tokens", "DIR"]),
        ("pyarrow", ["run", "sample", "--out", "DIR"]),
        ("cleanpipe_jobs.tokens_asked", ["trace", "DIR", "--token", "1"]),
        ("cleanpipe_jobs.reach", ["decide", "DIR"]),
        ("cleanpipe.verify", ["verify", "DIR"]),
    ],
)
def test_an_import_is_no_place_for_a_traceback(tmp_path, module, line):
    line = [str(tmp_path / word) if word.isupper() else word for word in line]
    status, out, err = interrupted(signal.SIGINT, module, *line)
    assert (status, out) == (130, "")
    assert err.startswith("cleanpipe: stopped by SIGINT") and len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_sigterm_while_words_are_read(tmp_path):
    line = ["tokenize", str(tmp_path / "run"), "--tokens", str(tmp_path / "tokens")]
    status, out, err = interrupted(signal.SIGTERM, "cleanpipe.tokens.audit.limits", *line)
    assert (status, out) == (143, "")
    assert err.startswith("cleanpipe: stopped by SIGTERM") and len(err.splitlines()) == 1
