"""Commands asked as a person asks them, and token stores to ask about."""

import json
import shutil

import pytest
from made_tokens import make_store
from traced_runs import make_run, make_tokens

from cleanpipe_jobs.cli import main


@pytest.fixture
def ask(capsys):
    """Runs a command: exit status, what was printed, what was warned of."""

    def asked(*args):
        try:
            status = main([*map(str, args)])
        except SystemExit as error:  # argparse's own
            status = error.code
        said = capsys.readouterr()
        return status, said.out, said.err

    return asked


@pytest.fixture
def as_json(ask):
    def asked(*args):
        status, out, err = ask(*args, "--json")
        return status, json.loads(out), err

    return asked


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A run of many languages and its store."""
    folder = tmp_path_factory.mktemp("traced")
    out = make_run(folder)
    return out, make_tokens(out, folder / "tokens")


@pytest.fixture
def made(tmp_path):
    """50 documents of 10 ids, 52 … each, in three shards."""
    return make_store(tmp_path / "made", [[n] * 10 for n in range(10, 60)], per_shard=20)


@pytest.fixture
def store(many, tmp_path):
    """A store of its own, to decide about."""
    shutil.copytree(many[1], tmp_path / "tokens")
    return str(tmp_path / "tokens")
