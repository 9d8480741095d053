"""The other commands: stages, recipe, verify, doctor, and what run prints."""

import importlib.util
import json
import tomllib

import pytest

from cleanpipe.opening import ledger
from cleanpipe.registry import catalogue
from cleanpipe_jobs.cli import main


def test_stages_lists_all_and_one_in_full(capsys):
    assert main(["stages"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in [*catalogue(), "decode", "normalise"])
    assert main(["stages", "language_id"]) == 0
    one = capsys.readouterr().out
    assert "threshold" in one
    assert "low_confidence" in one
    assert main(["stages", "language_di"]) == 2
    assert "did you mean 'language_id'" in capsys.readouterr().err


def test_stages_and_recipes_as_json(capsys):
    assert main(["stages", "--json"]) == 0
    assert {s["name"] for s in json.loads(capsys.readouterr().out)} == {*catalogue(), "decode", "normalise"}
    assert main(["recipe", "--json"]) == 0
    assert "web" in json.loads(capsys.readouterr().out)


def test_recipe_prints_what_runs(capsys):
    assert main(["recipe", "web", "--set", "language_id.threshold=0.8"]) == 0
    recipe = tomllib.loads(capsys.readouterr().out)
    assert recipe["language_id"]["threshold"] == 0.8
    assert recipe["windowing"]["size"] == 2048
    assert recipe["stages"][0] == "http_filter"


def test_run_prints_a_funnel_or_json_or_nothing(crawl, tmp_path, capsys):
    line = ["run", "web", str(crawl), "--out", str(tmp_path / "out"), "--engine", "serial"]
    assert main(line) == 0
    shown = capsys.readouterr().out
    assert "bad_status 1" in shown
    assert "closes" in shown
    assert str(tmp_path / "out" / "data") in shown
    assert main(line) == 0
    assert "is finished: nothing to do" in capsys.readouterr().out
    assert main([*line, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["already_finished"] is True
    assert main([*line, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_doctor_finds_this_environment_well(capsys):
    assert main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [f for f in found if f["state"] == "wrong"] == []
    assert main(["doctor"]) == 0


def test_doctor_tells_what_tokenizing_needs_and_the_line_that_mends_it(monkeypatch, capsys):
    from cleanpipe_jobs import doctor

    def told():
        assert main(["doctor", "--json"]) == 0
        found = {f["what"]: f for f in json.loads(capsys.readouterr().out)}
        return found["extra tokenize"], found["extra gpu"], found.get("cuda")

    real = importlib.util.find_spec
    for away, state, said, mend in (
        ((), "ok", "tokenizers ", ""),
        (("tiktoken",), "note", "tiktoken not installed (needed for cleanpipe tokenize)", "pip install tiktoken"),
        (("tokenizers", "tiktoken", "sentencepiece"), "note", "not installed", "pip install tokenizers tiktoken"),
    ):
        monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda n, gone=away: None if n in gone else real(n))
        tokenize, _, _ = told()
        assert (tokenize["state"], said in tokenize["found"]) == (state, True)
        assert tokenize["mend"].startswith(mend) and bool(tokenize["mend"]) == bool(mend)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda n: None if n == "torch" else real(n))
    assert told()[1:] == (
        {
            "what": "extra gpu",
            "state": "note",
            "found": "not installed (needed for tokenize --backend torch, and reading tokens in PyTorch)",
            "mend": "pip install torch",
        },
        None,
    )
    monkeypatch.setattr(doctor.importlib.util, "find_spec", real)
    if real("torch") is not None:
        _, gpu, cuda = told()
        assert gpu["state"] == "ok" and gpu["found"].startswith("torch ")
        import torch

        here = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "--device cpu only"
        assert here in cuda["found"]


def test_doctor_says_what_each_missing_package_is_for(monkeypatch, capsys):
    from cleanpipe_jobs import doctor

    gone, version, find = {"turbohtml", "ftfy"}, doctor.version, importlib.util.find_spec

    def installed(name):
        if name in gone:
            raise doctor.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "version", installed)
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda n: None if n == "transformers" else find(n))
    assert main(["doctor", "--json"]) == 1
    found = {f["what"]: f for f in json.loads(capsys.readouterr().out)}
    for name, what in (("turbohtml", "html_scrub.engine = blocks"), ("ftfy", "mending mojibake")):
        said = {"what": name, "state": "wrong", "found": f"not installed (needed for {what})"}
        assert found[name] == {**said, "mend": f"pip install {name}"}
    neural = found["extra neural"]
    assert neural["state"] == "note" and "transformers" in neural["mend"]
    assert "perplexity by RoBERTa or causal models of your own" in neural["found"]


def test_doctor_names_two_fasttext_builds_and_the_mend(monkeypatch, capsys):
    from cleanpipe_jobs import doctor

    real = doctor.version
    monkeypatch.setattr(doctor, "version", lambda name: "0.9.3" if name == "fasttext" else real(name))
    assert main(["doctor"]) == 1
    said = capsys.readouterr().out
    assert "share the import name" in said
    assert "pip uninstall -y fasttext-predict fasttext" in said


def test_version_and_help(capsys):
    for flag, word in (("--version", "cleanpipe "), ("--help", "examples:")):
        with pytest.raises(SystemExit) as end:
            main([flag])
        assert end.value.code == 0
        assert word in capsys.readouterr().out


def test_a_wrong_command_line_is_status_2(capsys):
    with pytest.raises(SystemExit) as end:
        main(["clean"])
    assert end.value.code == 2


def test_inputs_may_stand_after_options(crawl, tmp_path):
    files = sorted(map(str, crawl.iterdir()))
    assert main(["run", "web", files[0], "--out", str(tmp_path / "out"), "--engine", "serial", "-q", *files[1:]]) == 0
    assert ledger(tmp_path / "out").count_rows() == 15


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["run", "web", "x", "--out", "o", "--sett", "a.b=1"], "did you mean '--set'"),
        (["run", "web", "x", "--out", "o", "--wrokers=2"], "did you mean '--workers'"),
        (["verify", "o", "p"], "unknown argument 'p'"),
    ],
)
def test_an_unknown_argument_is_one_line_with_the_nearest(args, said, capsys):
    with pytest.raises(SystemExit) as end:
        main(args)
    assert end.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
