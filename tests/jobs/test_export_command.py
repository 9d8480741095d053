"""``cleanpipe export`` and ``cleanpipe verify`` of a token store, as they are typed."""

import json
from pathlib import Path

import pytest
from made_tokens import doc_id, make_store, url_of

from cleanpipe.tokens.decisions import Decision, append
from cleanpipe_jobs.cli import main


@pytest.fixture
def tokens(tmp_path):
    return make_store(tmp_path / "tokens", [[5, 6, 7], [8], [9, 10, 11, 12]], per_shard=2)


def _said(capsys):
    found = capsys.readouterr()
    return found.out, found.err


def test_a_store_is_exported_and_found_again(tmp_path, tokens, capsys):
    line = ["export", tokens, "--to", "mds", "--out", str(tmp_path / "mds")]
    assert main(line) == 0
    out = f"{tmp_path}/mds"
    assert _said(capsys)[0] == (
        f"{out}: written: 3 documents, 14 tokens, 0.0 MB\nprove it by `cleanpipe verify {out}`\n"
    )
    assert main(["verify", out]) == 0
    capsys.readouterr()
    assert main([*line, "--json"]) == 0
    about = json.loads(_said(capsys)[0])
    assert (about["already"], about["documents"], about["tokens"]) == (True, 3, 14)
    append(tokens, [Decision("quarantine", "url", url_of(1))])
    assert main(["export", tokens, "--to", "litdata", "--length", "4", "--out", str(tmp_path / "lit")]) == 0
    out = _said(capsys)[0]
    assert "written: 2 documents, 11 tokens" in out
    assert "1 document was left out" in out
    assert "the last 3 tokens fill no block of 4" in out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--to", "litdata", "--out", "x"], "needs --length"),
        (["--to", "mds", "--out", ""], "--out is empty"),
        (["--to", "mds", "--length", "5", "--out", "x"], "means nothing"),
        (["--to", "mds", "--out", "http://x/y"], "folder or to s3://"),
    ],
)
def test_wrong_lines_end_with_2_and_one_line(tokens, capsys, monkeypatch, tmp_path, args, said):
    monkeypatch.chdir(tmp_path)
    assert main(["export", tokens, *args]) == 2
    out, err = _said(capsys)
    assert said in err
    assert (out, err.count("\n")) == ("", 1)
    assert not (tmp_path / "x").exists()


def test_what_is_no_store_is_told(tmp_path, capsys):
    for given in (tmp_path, tmp_path / "nothing"):
        assert main(["export", str(given), "--to", "mds", "--out", str(tmp_path / "x")]) == 2
        assert "cleanpipe tokenize" in _said(capsys)[1]


def test_a_store_is_verified_as_one(tokens, capsys):
    assert main(["verify", tokens]) == 0
    out = _said(capsys)[0]
    assert "everything holds" in out
    assert "14 tokens, 3 documents, 3 windows" in out
    path = Path(tokens) / "tokens/tokens-00000-of-00002.bin"
    data = bytearray(path.read_bytes())
    data[0] ^= 1
    path.write_bytes(data)
    assert main(["verify", tokens, "--json"]) == 1
    found = json.loads(_said(capsys)[0])["findings"]
    assert any(doc_id(0).hex() in f and url_of(0) in f for f in found)
    assert main(["export", tokens, "--to", "mds", "--out", f"{tokens}-mds"]) == 3
    assert url_of(0) in _said(capsys)[1]


def test_an_unfinished_store_is_none(tokens, capsys):
    (Path(tokens) / "manifest.json").unlink()
    assert main(["verify", tokens]) == 1
    assert "manifest.json: missing" in _said(capsys)[0]
    assert main(["export", tokens, "--to", "mds", "--out", f"{tokens}-mds"]) == 2
    assert "is not finished" in _said(capsys)[1]
