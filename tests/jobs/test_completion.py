"""A finished run is completed after a fix; what killed attempts leave is tidied; two drivers do no harm."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from cleanpipe.complete import complete, quarantine
from cleanpipe.errors import ConfigError
from cleanpipe.io.store import LocalStore
from cleanpipe.opening import ledger
from cleanpipe.recipe import load_recipe, recipe_of
from cleanpipe.run import run
from cleanpipe.tidy import tidy
from cleanpipe.verify import verify
from cleanpipe_jobs.cli import main

STAGE = '''
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cleanpipe.stage import Outcome, Stage, option


@dataclass(frozen=True, kw_only=True)
class Brittle(Stage):
    """Raises on a marker, as long as the file that it names is not there."""

    name: ClassVar[str] = "brittle"
    reads: ClassVar[frozenset[str]] = frozenset({"text"})
    mended: str = option("", "a file; once it is there, nothing raises")

    def open(self):
        def step(rows):
            if not Path(self.mended).exists():
                for text in rows.column("text").to_pylist():
                    if "seized" in text and "marker7" in text:
                        raise ValueError("cannot stand marker7")
            return Outcome(rows)

        return step
'''


def published(out):
    out = Path(out)
    folders = ("data", "ledger", "index", "quarantine", "audit")
    keep = [p for folder in folders for p in sorted((out / folder).iterdir()) if p.name != "audit.html"]  # has costs
    return {str(p.relative_to(out)): p.read_bytes() for p in [*keep, out / "config_hash.txt"]}


@pytest.fixture
def brittle(tmp_path, make):
    """A recipe with a stage that cannot stand one page of the second archive, and three archives."""
    (tmp_path / "brittle.py").write_text(STAGE)
    recipe = tmp_path / "mine.toml"
    web = load_recipe("web")
    stages = [s.ref.name for s in web.settings]
    stages.insert(stages.index("quality_score"), "brittle.py")
    recipe.write_text(f'stages = {json.dumps(stages)}\n[brittle]\nmended = "{tmp_path}/mended"\n')
    crawl = tmp_path / "crawl"
    crawl.mkdir()
    for n in range(3):
        pages = [make.page(make.prose(n * 10 + i)) for i in range(4)]
        if n == 1:
            pages[2] = make.page([*make.prose(12), "It is marker7 that counts, for it seized the day."])
        make.write_gz(
            crawl / f"{n}.warc.gz", [make.response(f"http://a.example.org/{n}/{i}", p) for i, p in enumerate(pages)]
        )
    return str(recipe), str(crawl), tmp_path


def run_of(out):
    """What a finished run says of itself."""
    facts, audit = ((Path(out) / name) for name in ("run.json", "audit/audit.json"))
    return SimpleNamespace(facts=json.loads(facts.read_text()), audit=json.loads(audit.read_text()))


def own(out):
    store = LocalStore(str(out))
    return recipe_of(store, load_recipe("web"))


def test_after_a_fix_the_run_is_completed_not_restarted(brittle):
    recipe, crawl, tmp = brittle
    first = run(recipe, [crawl], tmp / "out", engine="serial")
    assert first.exit_code == 0
    assert (first.facts["quarantined"], first.facts["again"], first.facts["kept_work"]) == (1, 1, True)
    (part,) = [p for p in quarantine(LocalStore(first.out)) if p.rows.num_rows]
    assert (part.unit, part.rows.column("url").to_pylist()) == (1, ["http://a.example.org/1/2"])
    (tmp / "mended").touch()
    done = complete(own(first.out), first.out, engine="serial")
    assert done.facts["units"] == {"total": 3, "resumed": 2, "reused": 0, "retries": 0}
    assert (done.facts["quarantined"], done.facts["again"]) == (0, 0)
    fresh = run(recipe, [crawl], tmp / "fresh", engine="serial")
    assert published(done.out) == published(fresh.out)
    assert not (tmp / "out" / "work").exists()
    assert verify(done.out).findings == []


def test_the_same_line_finds_it_finished_and_says_what_is_left(brittle, capsys):
    recipe, crawl, tmp = brittle
    line = ["run", recipe, crawl, "--out", str(tmp / "out"), "--engine", "serial"]
    assert main(line) == 0
    assert "1 may end otherwise" in capsys.readouterr().out
    assert main(line) == 0
    said = capsys.readouterr().out
    assert "nothing to do" in said
    assert "cleanpipe quarantine" in said


def test_without_a_fix_completing_changes_nothing(brittle):
    recipe, crawl, tmp = brittle
    first = run(recipe, [crawl], tmp / "out", engine="serial")
    before = published(first.out)
    done = complete(own(first.out), first.out, engine="serial")
    assert published(done.out) == before
    assert done.facts["again"] == 1
    assert (tmp / "out" / "work").exists()  # for the next fix


def test_changed_code_is_refused_unless_accepted_and_then_named(brittle):
    recipe, crawl, tmp = brittle
    first = run(recipe, [crawl], tmp / "out", engine="serial")
    (tmp / "brittle.py").write_text(STAGE.replace("raise ValueError", "print"))
    with pytest.raises(ConfigError, match="--accept-code"):
        complete(own(first.out), first.out, engine="serial")
    line = [sys.executable, "-m", "cleanpipe_jobs.cli"]  # another process: this one has the old code in memory
    again = [*line, "quarantine", first.out, "--rerun", "--accept-code", "--engine", "serial"]
    assert subprocess.run(again, check=False, stdout=subprocess.DEVNULL).returncode == 0
    done = run_of(first.out)
    assert done.facts["units"]["resumed"] == 2
    assert done.facts["quarantined"] == 0
    assert verify(first.out).findings == []
    identity = done.audit["identity"]
    assert identity["kept_code"] == first.audit["identity"]["code"] != identity["code"]
    assert identity["config_hash"] != first.audit["identity"]["config_hash"]
    subprocess.run([*line, "run", recipe, crawl, "--out", f"{tmp}/fresh", "--engine", "serial", "-q"], check=True)
    ours, theirs = published(first.out), published(tmp / "fresh")
    assert {n: b for n, b in ours.items() if n.startswith(("data/data", "ledger/"))} == {
        n: b for n, b in theirs.items() if n.startswith(("data/data", "ledger/"))
    }


def test_completing_that_was_killed_goes_on(brittle):
    recipe, crawl, tmp = brittle
    first = run(recipe, [crawl], tmp / "out", engine="serial")
    (tmp / "mended").touch()
    code = (
        "import os, sys\nfrom cleanpipe.engine.driver import Driver\nfrom cleanpipe.complete import complete\n"
        "from cleanpipe.io.store import LocalStore\nfrom cleanpipe.recipe import load_recipe, recipe_of\n"
        "Driver._meet = lambda *a: os._exit(9)\n"
        "complete(recipe_of(LocalStore(sys.argv[1]), load_recipe('web')), sys.argv[1], engine='serial')\n"
    )
    assert subprocess.run([sys.executable, "-c", code, first.out], check=False).returncode == 9
    assert not (tmp / "out" / "manifest.json").exists()
    with pytest.raises(ConfigError, match="a --rerun was stopped"):  # the plain line would forget what was to be done
        run(recipe, [crawl], tmp / "out", engine="serial")
    done = complete(own(first.out), first.out, engine="serial")
    fresh = run(recipe, [crawl], tmp / "fresh", engine="serial")
    assert published(done.out) == published(fresh.out)


@pytest.mark.parametrize("fault", ["gone", "changed"])
def test_an_input_that_is_not_what_it_was_undoes_nothing(brittle, fault):
    recipe, crawl, tmp = brittle
    first = run(recipe, [crawl], tmp / "out", engine="serial")
    before = published(first.out)
    archive = Path(crawl) / "1.warc.gz"
    if fault == "gone":
        archive.rename(tmp / "away.warc.gz")
    else:
        archive.write_bytes(archive.read_bytes() + b"\n")
    (tmp / "mended").touch()
    with pytest.raises(ConfigError, match="nothing was changed" if fault == "gone" else "start a new run"):
        complete(own(first.out), first.out, engine="serial")
    assert published(first.out) == before
    assert verify(first.out).findings == []
    if fault == "gone":  # it lies elsewhere now, under its name
        (tmp / "elsewhere").mkdir()
        (tmp / "away.warc.gz").rename(tmp / "elsewhere" / "1.warc.gz")
        given = [str(tmp / "elsewhere" / "1.warc.gz")]
        assert complete(own(first.out), first.out, engine="serial", given=given).facts["quarantined"] == 0


def test_damaged_bytes_cannot_end_otherwise(crawl, tmp_path):
    done = run("web", [str(crawl)], tmp_path / "out", engine="serial")
    assert done.facts["quarantined"] == 1
    assert not (tmp_path / "out" / "work").exists()
    with pytest.raises(ConfigError, match="stay damaged"):
        complete(own(done.out), done.out, engine="serial")


def test_the_quarantine_is_listed_shown_and_tried_again_on_the_command_line(brittle, capsys):
    recipe, crawl, tmp = brittle
    out = str(tmp / "out")
    assert main(["run", recipe, crawl, "--out", out, "--engine", "serial", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["quarantine", out]) == 0
    listed = capsys.readouterr().out
    assert "brittle / stage_error / ValueError" in listed
    assert "cannot stand marker7" in listed
    assert main(["quarantine", out, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["url"] == "http://a.example.org/1/2"
    for key in (row["doc_id"], row["doc_id"][:8], str(row["record_offset"]), row["record_id"], row["url"]):
        assert main(["quarantine", out, "--show", key]) == 0
        shown = capsys.readouterr().out
        assert "warc-target-uri: http://a.example.org/1/2" in shown
        assert "It is marker7 that counts" in shown
    assert main(["quarantine", out, "--show", "nothing"]) == 2
    assert main(["quarantine", out, "--rerun", "--reason", "stage_error"]) == 2
    capsys.readouterr()
    assert main(["quarantine", out, "--reason", "damaged_range"]) == 0
    assert "nothing in the quarantine" in capsys.readouterr().out.replace("\n", " ")
    (tmp / "mended").touch()
    assert main(["quarantine", out, "--rerun", "--engine", "serial"]) == 0
    assert "0 records or ranges" in capsys.readouterr().out
    assert main(["quarantine", out]) == 0
    assert "nothing in the quarantine" in capsys.readouterr().out
    assert main(["quarantine", str(tmp / "none")]) == 2


def test_leftovers_are_found_and_removed(crawl, tmp_path, capsys):
    done = run("web", [str(crawl)], tmp_path / "out", engine="serial", keep_work=True)
    out = Path(done.out)
    good = {p for p in out.rglob("*") if p.is_file()}
    home = next((out / "work" / "pass0").iterdir())
    left = [out / "data" / ".tmp-1-x.arrow", home / "0123456789ab-rows.arrow", home / ".tmp-77-rows.arrow"]
    left.append(out / "work" / "pass0" / ("f" * 32) / "0123456789ab-rows.arrow")
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"left")
    assert main(["clean", str(out), "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["removed"] is False
    assert sorted(f["name"] for f in found["found"]) == sorted(str(p.relative_to(out)) for p in left)
    assert all(p.exists() for p in left)
    assert main(["clean", str(out)]) == 0
    assert {p for p in out.rglob("*") if p.is_file()} == good
    assert main(["clean", str(out)]) == 0
    assert "nothing to remove" in capsys.readouterr().out
    assert main(["clean", str(out), "--work"]) == 0
    assert not any((out / "work").glob("*"))
    assert verify(out).findings == []
    assert run("web", [str(crawl)], out, engine="serial").already
    with pytest.raises(ConfigError, match="holds no run"):
        tidy(LocalStore(str(tmp_path / "nothing")), print)


def test_a_second_driver_is_refused_and_harms_nothing(crawl, tmp_path):
    store = LocalStore(str(tmp_path / "out"))
    hold = store.hold(print)
    try:
        with pytest.raises(ConfigError, match="another run is at work"):
            run("web", [str(crawl)], tmp_path / "out", engine="serial")
        with pytest.raises(ConfigError, match=r"another run is at work|holds no run"):
            tidy(store, print)
    finally:
        hold.release()
    assert run("web", [str(crawl)], tmp_path / "out", engine="serial").exit_code == 0


def test_a_published_list_of_limits_sets_documents_aside_untreated(crawl, tmp_path):
    plain = run("web", [str(crawl)], tmp_path / "plain", engine="serial")
    row = next(r for r in ledger(plain.out).to_table().to_pylist() if r["url"] == "http://a.example.org/0")
    entry = {"doc_id": row["doc_id"].hex(), "source": row["source"], "error": "SIGSEGV", "message": "ended its worker"}
    path = tmp_path / "limits.json"
    path.write_text(json.dumps({"format": 1, "documents": [entry]}))
    done = run("web", [str(crawl)], tmp_path / "out", engine="serial", limits=path)
    got = {r["url"]: (r["fate"], r["stage"], r["reason"]) for r in ledger(done.out).to_table().to_pylist()}
    assert got["http://a.example.org/0"] == ("quarantined", "http_filter", "resource_limit")
    assert done.audit["conservation"]["balanced"]
    (said,) = json.loads((Path(done.out) / "quarantine" / "limits.json").read_text())["documents"]
    assert {k: said[k] for k in entry} == entry
    again = run(
        "web", [str(crawl)], tmp_path / "again", engine="local", limits=Path(done.out) / "quarantine" / "limits.json"
    )
    assert published(again.out) == published(done.out)
    assert verify(done.out).findings == []
    with pytest.raises(ConfigError, match="the list of --limits"):
        run("web", [str(crawl)], tmp_path / "out", engine="serial")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"documents": [1]}', '{"documents": [{"doc_id": "xyz"}]}'])
def test_a_list_of_limits_that_is_none(crawl, tmp_path, content):
    (tmp_path / "limits.json").write_text(content)
    with pytest.raises(ConfigError, match="is no list of limits"):
        run("web", [str(crawl)], tmp_path / "out", engine="serial", limits=tmp_path / "limits.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        run("web", [str(crawl)], tmp_path / "out", engine="serial", limits=tmp_path / "none.json")
    assert not (tmp_path / "out").exists()
