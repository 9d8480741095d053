"""Everything that can be wrong outside: each has one clear line, an exit status, and nothing lost."""

import subprocess
import sys

import pytest

from cleanpipe.opening import ledger
from cleanpipe.recipe import load_recipe
from cleanpipe.registry import find, load
from cleanpipe_jobs.cli import main


def command(*args, **more):
    return subprocess.run(
        [sys.executable, "-m", "cleanpipe_jobs.cli", *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        **more,
    )


QUALITY = ["--set", "quality_score.min_perplexity=1", "--set", "quality_score.max_perplexity=9"]
CUT = ["--set", "language_id.model={tmp}/cut.ftz", "--set", "language_id.threshold=0.5"]
CASES = [
    ("a missing file", ["web", "{tmp}/nothing.warc.gz"], "nothing.warc.gz", 2),
    ("a glob without a match", ["web", "{tmp}/*.warc.gz"], r"{tmp}/*.warc.gz", 2),
    ("a folder without archives", ["web", "{tmp}/bare"], "bare", 2),
    ("no input", ["web"], "no input", 2),
    ("an unknown recipe", ["wbe", "{crawl}"], "did you mean 'web'", 2),
    ("a recipe file that is not there", ["{tmp}/mine.toml", "{crawl}"], "recipe file not found", 2),
    ("an unknown option", ["web", "{crawl}", "--set", "language_id.treshold=0.5"], "did you mean 'threshold'", 2),
    ("an unknown stage", ["web", "{crawl}", "--set", "langage_id.threshold=0.5"], "did you mean 'language_id'", 2),
    ("a value of the wrong type", ["web", "{crawl}", "--set", "windowing.size=wide"], "windowing.size", 2),
    ("an impossible value", ["web", "{crawl}", "--set", "windowing.overlap=4096"], "overlap", 2),
    ("columns not written upstream", ["{tmp}/order.toml", "{crawl}"], "'html_scrub' writes it and stands after it", 2),
    ("signed after it is needed", ["{tmp}/swapped.toml", "{crawl}"], "move 'minhash_drop' down", 2),
    ("windows cut before dedup", ["{tmp}/early.toml", "{crawl}"], "'windowing' cuts them before it", 2),
    ("a language model that is cut off", ["web", "{crawl}", *CUT], "cut off", 2),
    (
        "a perplexity model that is none",
        ["web", "{crawl}", *QUALITY, "--set", "quality_score.model={tmp}/cut.ftz"],
        "cannot be read as a KenLM model",
        2,
    ),
    ("an unreadable model file", ["web", "{crawl}", "--set", "language_id.model={tmp}/no.ftz"], "no.ftz", 2),
    ("a model that is none", ["web", "{crawl}", "--set", "language_id.model={tmp}/order.toml"], "order.toml", 2),
    ("a full model is asked for", ["literal", "{crawl}"], "language_id.threshold=0.65", 2),
    ("an unknown engine", ["web", "{crawl}", "--engine", "spark"], "serial, local, ray", 2),
    ("no worker", ["web", "{crawl}", "--workers", "0"], "workers", 2),
    ("two inputs of one name", ["web", "{crawl}", "{tmp}/twin/one.warc.gz"], "--source-root", 2),
    (
        "an output folder with other things in it",
        ["web", "{crawl}", "--out", "{crawl}"],
        "not empty and holds no run",
        2,
    ),
    ("an output that is a file", ["web", "{crawl}", "--out", "{crawl}/one.warc.gz"], "is a file", 2),
]


@pytest.mark.parametrize(("what", "args", "message", "status"), CASES, ids=[c[0] for c in CASES])
def test_one_clear_line(what, args, message, status, crawl, tmp_path, capsys):
    (tmp_path / "bare").mkdir()
    (tmp_path / "twin").mkdir()
    (tmp_path / "twin" / "one.warc.gz").write_bytes((crawl / "one.warc.gz").read_bytes())
    (tmp_path / "order.toml").write_text('stages = ["http_filter", "own.py", "html_scrub"]\n')
    model = next(iter(load(find("language_id"))().models().values())).read_bytes()
    (tmp_path / "cut.ftz").write_bytes(model[: len(model) // 2])
    order = [s.ref.name for s in load_recipe("web").settings]
    for name, moved, place in (("swapped", "minhash_drop", 5), ("early", "windowing", 5)):
        stages = [s for s in order if s != moved]
        (tmp_path / f"{name}.toml").write_text(f"stages = {[*stages[:place], moved, *stages[place:]]}\n")
    (tmp_path / "own.py").write_text(
        "from cleanpipe.stage import Outcome, Stage\nclass Own(Stage):\n    name = 'own'\n"
        "    reads = frozenset({'scrubbed'})\n"
        "    def open(self):\n        return Outcome\n"
    )
    filled = [a.format(tmp=tmp_path, crawl=crawl) for a in args]
    out = [] if "--out" in filled else ["--out", str(tmp_path / "out")]
    before = sorted(crawl.iterdir())
    got = main(["run", *filled, *out, *([] if "--engine" in filled else ["--engine", "serial"])])
    said = capsys.readouterr().err.strip()
    assert got == status
    assert message.format(tmp=tmp_path) in said
    assert said.count("\n") == 0
    assert "Traceback" not in said
    assert sorted(crawl.iterdir()) == before
    assert not (tmp_path / "out").exists()  # the corrected line finds the folder free


def test_an_empty_file_is_reported_and_the_others_are_kept(crawl, tmp_path, capsys):
    (crawl / "void.warc.gz").write_bytes(b"")
    assert main(["run", "web", str(crawl), "--out", str(tmp_path / "out"), "--engine", "serial"]) in (0, 1)
    rows = ledger(tmp_path / "out").to_table().to_pylist()
    assert [(r["fate"], r["reason"]) for r in rows if r["source"] == "void.warc.gz"] == [
        ("quarantined", "damaged_range")
    ]
    assert sum(r["fate"] == "kept" for r in rows) > 3


def test_a_file_that_cannot_be_opened_is_set_aside_and_the_others_are_kept(crawl, tmp_path, capsys):
    files = [str(p) for p in sorted(crawl.iterdir()) if p.is_file()]
    gone = crawl / "one.warc.gz"
    code = (
        "import sys\nfrom pathlib import Path\nfrom cleanpipe import run as runs\n"
        "real = runs.prepare\n"
        "def prepare(*a):\n    out = real(*a)\n    Path(sys.argv[2]).unlink()\n    return out\n"
        "runs.prepare = prepare\n"
        "from cleanpipe_jobs.cli import main\n"
        "sys.exit(main(['run', 'web', *sys.argv[3:], '--out', sys.argv[1], '--engine', 'local', '--workers', '1']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "out"), str(gone), *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "one.warc.gz could not be read" in done.stderr
    rows = ledger(tmp_path / "out").to_table().to_pylist()
    assert [r["reason"] for r in rows if r["source"] == "one.warc.gz"] == ["damaged_range"]
    assert sum(r["fate"] == "kept" for r in rows) > 2


def test_a_full_disk_stops_the_run_and_the_same_line_finishes_it(crawl, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root only")
    try:
        line = ("run", "web", crawl, "--out", disk / "out", "--workers", "1")
        full = command(*line)
        assert full.returncode == 3, full.stderr
        assert "no space left" in full.stderr
        assert not (disk / "out" / "manifest.json").exists()
        subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
        assert command(*line).returncode == 0
        assert command("verify", disk / "out").returncode == 0
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_signal_leaves_a_run_that_goes_on(crawl, tmp_path):
    import signal
    import time

    arguments = ["run", "web", str(crawl), "--out", str(tmp_path / "out"), "--workers", "1"]
    line = [sys.executable, "-m", "cleanpipe_jobs.cli", *arguments]
    with subprocess.Popen(line, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        while not (tmp_path / "out" / "work" / "plan.json").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 143
    assert "start the same line again" in said
    assert command(*arguments).returncode == 0


def test_strict_turns_quarantine_into_a_failure(crawl, tmp_path):
    line = ["run", "web", str(crawl), "--out", str(tmp_path / "out"), "--engine", "serial", "--quiet"]
    assert main(line) == 0
    assert main([*line, "--strict"]) == 1
