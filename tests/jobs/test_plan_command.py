"""``cleanpipe plan`` at the prompt: what it prints, its JSON, its errors in one line."""

import json
import re
import sys

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe_jobs.cli import main
from cleanpipe_jobs.plan import _cores, _size, _starting, clock

TIMES = ("cpu_seconds", "wall_seconds", "starting_seconds")


def ask(capsys, *words):
    status = main(["plan", *map(str, words)])
    out, err = capsys.readouterr()
    return status, out, err


def test_what_a_person_reads(crawl, capsys):
    status, out, err = ask(capsys, "web", crawl, "--cores", "1,8")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("web over 3 archives, ")
    assert "sample: all of them" in lines[1]
    assert [line.split()[0] for line in lines[4:6]] == ["documents", "kept"]
    assert any(line.startswith("wall, 1 core ") for line in lines)
    assert any(line.startswith("wall, 8 cores") for line in lines)
    assert any(line.startswith("http_filter / bad_status") for line in lines)
    assert any("exact" in line for line in lines if line.startswith("- "))
    assert all(len(line) <= 100 for line in lines)


def test_starting_is_measured_by_a_run(crawl, capsys, tmp_path):
    """A run of one record takes what is told of it, give or take what else the machine does."""
    _, out, _ = ask(capsys, "web", crawl, "--json", "--cores", "1")
    told = json.loads(out)
    took = _starting("web", [], tmp_path)
    assert took is not None
    assert (tmp_path / "starting" / "audit" / "audit.html").is_file()
    facts = json.loads((tmp_path / "starting" / "run.json").read_bytes())
    assert told["starting_seconds"] > facts["work"]["opening_seconds"]  # at least the models of one worker
    assert told["wall_seconds"]["1"]["estimate"] >= told["starting_seconds"]
    assert _starting("nowhere", [], tmp_path) is None


def test_one_is_no_plural(make, capsys, tmp_path):
    path = make.write_gz(tmp_path / "x.warc.gz", [make.response("http://x.example/", make.page(["One."]))])
    _, out, err = ask(capsys, "web", path)
    assert "over 1 archive," in out
    assert not re.search(r"\b1 (archives|units|places|documents|inputs)\b", out + err)


def test_what_a_program_reads(crawl, capsys):
    told = []
    for _ in range(2):
        status, out, err = ask(capsys, "web", crawl, "--json", "--seed", "3", "--sample-bytes", "4kB", "--places", "8")
        assert status == 0
        told.append(json.loads(out))
        assert all(line.startswith("warning: ") for line in err.splitlines())
    one, two = told
    assert one["format"] == 1
    assert one["level"] == 0.9
    assert (one["recipe"], one["sample"]["seed"], one["sample"]["whole"]) == ("web", 3, False)
    for name, figure in one["figures"].items():
        assert set(figure) == {"estimate", "low", "high", "unit"}, name
        assert figure["low"] <= figure["estimate"] <= figure["high"], name
    for plan in told:  # what the clock and the kernel tell
        for name in TIMES:
            del plan[name]
        for name in ("cpu_seconds", "worker_memory", "driver_memory"):
            del plan["figures"][name]
        del plan["sample"]["cpu_seconds"], plan["sample"]["seconds"]
    assert one == two


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["web", "nowhere.warc.gz"], "nowhere.warc.gz does not exist"),
        (["nowhere"], "nowhere"),
        (["web"], "no input"),
        (["web", "IN", "--cores", "two"], "--cores two: whole numbers above 0"),
        (["web", "IN", "--cores", "1,0"], "--cores 1,0: whole numbers above 0"),
        (["web", "IN", "--sample-bytes", "much"], "--sample-bytes much: a number of bytes"),
        (["web", "IN", "--places", "0"], "1 to 20,000 places"),
        (["web", "IN", "--set", "windowing.size=5"], "size = 5"),
    ],
)
def test_errors_in_one_line(crawl, capsys, words, told):
    status, out, err = ask(capsys, *(crawl if w == "IN" else w for w in words))
    assert status == 2
    assert told in err
    assert len(err.splitlines()) == 1
    assert not out


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", 1), ("64MiB", 64 << 20), ("100MB", 10**8), ("1.5 kb", 1500), ("2g", 2 * 10**9), ("3KiB", 3072)],
)
def test_sizes(text, size):
    assert _size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-3", "0", "5x", "1e400", "nan"])
def test_no_sizes(text):
    with pytest.raises(ConfigError):
        _size(text)


def test_cores_of_their_own_and_those_of_this_machine():
    assert _cores("8,1,64") == [8, 1, 64]
    assert {8, 64} < set(_cores("")) | {0}


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (99.94, "99.9 s"), (100, "1.7 min"), (5999, "100.0 min"), (7200, "2.0 h")]
)
def test_clock(seconds, text):
    assert clock(seconds) == text


def test_progress_is_on_standard_error_alone(crawl, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    status, out, err = ask(capsys, "web", crawl, "--json")
    assert status == 0
    json.loads(out)
    assert err == "" or err.endswith("\r\x1b[K")


def test_nothing_is_left_behind(crawl, capsys, monkeypatch, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = sorted(tmp_path.rglob("*"))
    assert ask(capsys, "web", crawl)[0] == 0
    assert sorted(tmp_path.rglob("*")) == before
