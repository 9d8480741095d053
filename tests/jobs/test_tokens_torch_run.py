"""``cleanpipe tokenize --backend torch``: who splits, what the device found, and where that is told."""

import json
import os

import pytest
from token_runs import made_run, small_crawl, tokens, tree

from cleanpipe.tokens.backends import pieces, torch_backend
from cleanpipe.tokens.making.opened import close_backends
from cleanpipe.tokens.making.run import tokenize
from cleanpipe_jobs.cli import main

torch = pytest.importorskip("torch")
torch.set_num_threads(1)
TOLD = ("run.json", "manifest.json", "store.json", "audit/audit.json", "audit/audit.md", "audit/audit.html")
MARKS = ("--bos", "<|bos|>", "--eos", "<|eos|>")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("torch")
    made_run(small_crawl(folder / "crawl"), folder / "out")
    tokens(folder / "out", folder / "tokens")
    return folder


@pytest.fixture
def splitting(monkeypatch):
    """Processes that split, as they are started, and how many texts they are given."""
    seen = {"pids": set(), "texts": 0}

    class Seen(pieces.SplitterPool):
        def split(self, groups):
            groups = list(groups)
            seen["texts"] += sum(map(len, groups))
            yield from super().split(groups)
            seen["pids"] |= set(self._pool._processes)

    monkeypatch.setattr(torch_backend, "SplitterPool", Seen)
    return seen


@pytest.mark.slow
def test_processes_split_for_the_device(made, tmp_path, splitting):
    target = tmp_path / "tokens"
    line = ["tokenize", made / "out", "--tokens", target, "--backend", "torch", "--splitters", 2, *MARKS]
    try:
        assert main([*map(str, line), "--engine", "serial", "--quiet"]) == 0
    finally:
        close_backends()
    assert os.getpid() not in splitting["pids"] and 1 <= len(splitting["pids"]) <= 4  # a pool to prove, one to encode
    facts = json.loads((target / "run.json").read_bytes())
    said = facts["backend"]["work"]["torch"]
    assert "splitters_lost" not in said
    assert said["texts"] >= facts["units"]["total"]
    assert splitting["texts"] >= said["texts"]
    assert tree(target, without=TOLD) == tree(made / "tokens", without=TOLD)


@pytest.mark.parametrize("engine", ["serial", pytest.param("local", marks=pytest.mark.slow)])
def test_what_the_backend_says_is_told_with_the_run(made, tmp_path, engine):
    result = tokenize(
        made / "out", tmp_path / "tokens", backend="torch", bos="<|bos|>", eos="<|eos|>", engine=engine, workers=1
    )
    assert result.info["backend"] == {"asked": "torch", "used": "torch", "reason": ""}
    (name, said), *more = result.facts["backend"]["work"].items()
    assert (name, more, said["shards"]) == ("torch", [], len(result.info["shards"]))
    audit = result.audit["totals"]
    assert said["texts"] == audit["documents"]
    assert said["checks"] == {"ids": audit["tokens"], "outside_vocabulary": 0, "control_ids": 0}
    assert said["texts_by_reference"] == 0 and said["pieces"] > said["pieces_merged"] > 0
    assert said["device"] == "cpu" and said["device_bytes"] > 0
    assert said["rounds"] > 0 and said["cache"]["asked"] >= said["cache"]["missing"] > 0
    assert "work" not in result.audit["backend"] and "work" not in result.info["backend"]
    assert tree(tmp_path / "tokens", without=TOLD) == tree(made / "tokens", without=TOLD)


@pytest.mark.parametrize(("wrong", "said"), [("outside", "beyond the vocabulary"), ("control", "of controls")])
def test_an_id_that_only_the_device_saw_ends_its_use(made, tmp_path, monkeypatch, wrong, said):
    """Here all ids look right: what is counted there is believed."""
    real, began = torch_backend.IdChecks.add, []

    def add(checks, ids):
        real(checks, ids)
        if began:
            real(checks, torch.tensor([checks.vocabulary if wrong == "outside" else checks._controls[0]]))

    monkeypatch.setattr(torch_backend.IdChecks, "add", add)
    from cleanpipe.tokens.making import work

    def told(*args, made=work.documents_of):
        began.append(1)
        return made(*args)

    monkeypatch.setattr(work, "documents_of", told)
    try:
        result = tokens(made / "out", tmp_path / "tokens", backend="torch")
    finally:
        close_backends()
    assert result.info["backend"]["used"] == "hf"
    assert result.info["backend"]["reason"].startswith("torch was found wrong")
    (found,) = result.facts["distrusted"]["torch"].values()
    assert said in found
    assert tree(tmp_path / "tokens", without=TOLD) == tree(made / "tokens", without=TOLD)
