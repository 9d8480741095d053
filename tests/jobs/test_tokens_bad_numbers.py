"""Numbers of sequences, steps and epochs that lie beyond what 64 bits hold: one line, not an internal error."""

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe.run import run
from cleanpipe.tokens import Plan, open_tokens
from cleanpipe.tokens.making.run import tokenize
from cleanpipe_jobs.cli import main


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    run("sample", [], folder / "run", engine="serial")
    tokenize(folder / "run", folder / "tokens", engine="serial")
    return folder / "tokens"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--step", "9223372036854775", "--batch", "1024"], "the numbers of sequences end at 2^62"),
        (["--step", "4503599627370496", "--batch", "1024"], "the numbers of sequences end at 2^62"),
        (["--doc", "{doc}", "--epoch", "99999999999999999"], "epoch 99,999,999,999,999,999: the numbers of sequences"),
        (["--doc", "{doc}", "--epoch", str(1 << 62)], "the numbers of sequences end at 2^62"),
        (["--doc", "{doc}", "--weights", "0"], "weights sum to 0"),
        (["--step", "0", "--batch", "1", "--weights", "0"], "weights sum to 0"),
    ],
)
def test_numbers_that_no_plan_has(tokens, capsys, asked, said):
    doc = open_tokens(tokens).spans(0).column("doc_id")[0].as_py().hex()
    line = ["trace", tokens, "--length", "128", *(word.replace("{doc}", doc) for word in asked)]
    assert main(list(map(str, line))) == 2
    told = capsys.readouterr()
    assert (told.out, len(told.err.splitlines())) == ("", 1)
    assert said in told.err


def test_the_last_numbers_that_a_plan_has(tokens):
    plan = Plan(open_tokens(tokens), length=128)
    assert plan.locate(1 << 62)
    with pytest.raises(ConfigError, match="2\\^62"):
        plan.locate((1 << 62) + 1)
    with pytest.raises(IndexError):
        plan.locate(-1)
    last = (1 << 62) // plan.sequences - 1
    found = plan.sequences_of(0, 0, 5, last)
    assert last * plan.sequences <= found.min() <= found.max() < 1 << 62
    with pytest.raises(ConfigError, match="2\\^62"):
        plan.sequences_of(0, 0, 5, last + 1)
