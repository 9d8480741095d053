"""``cleanpipe watch`` says of a run what lies there, at any moment; it writes nothing and ends with the run."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from cleanpipe.io.store import LocalStore
from cleanpipe.observer import Observer
from cleanpipe.options import StorageOptions
from cleanpipe.queries.standing import AT_WORK, NOBODY, NOT_KNOWN, Watched
from cleanpipe.run import run
from cleanpipe_jobs.cli import main

HERE = StorageOptions()


class Stop(Observer):
    """Ends the driver in a phase, after so many of its tasks; before that calls ``look`` after each."""

    def __init__(self, phase="", after=0, look=lambda: None):
        self.wanted, self.left, self.now, self.look = phase, after, "", look

    def phase(self, name, tasks):
        self.now = name
        self._count()

    def finished(self, label, documents, alive):
        self._count()

    def _count(self):
        self.look()
        if self.now == self.wanted:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt


def stopped(inputs, out, phase, after, sets=()):
    with pytest.raises(KeyboardInterrupt):
        run("web", inputs, out, engine="serial", sets=sets, observer=Stop(phase, after))
    return out


def state(folder):
    files = sorted(p for p in Path(folder).rglob("*"))
    return [
        (str(p), p.stat().st_mtime_ns, hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else "") for p in files
    ]


@pytest.fixture
def many(make, tmp_path):
    """Five archives of six documents: in each one is gone, and one is the same as in the others."""
    folder = tmp_path / "crawl"
    folder.mkdir()
    for n in range(5):
        pages = [make.response(f"http://h{n}.example.org/{i}", make.page(make.prose(n * 10 + i))) for i in range(4)]
        pages.append(make.response(f"http://h{n}.example.org/same", make.page(make.prose(3))))
        pages.append(make.response(f"http://h{n}.example.org/gone", make.page(make.prose(1)), status="404 Not Found"))
        make.write_gz(folder / f"{n}.warc.gz", [make.warcinfo(), *pages])
    return folder


def told(capsys, *args):
    """What the command prints, as data."""
    status = main(["watch", *map(str, args), "--once", "--json"])
    return status, json.loads(capsys.readouterr().out)


STOPS = [
    # where the driver ends; phase; done and of; documents read, still in
    ("read", 0, "reading", 0, 5, 0, 0),
    ("read", 2, "reading", 2, 5, 12, 10),
    ("meet", 0, "meeting", 0, 1, 30, 25),
    ("window", 2, "windows", 2, 5, 30, None),
    ("publish", 4, "publishing", 3, 6, 30, None),
]


@pytest.mark.parametrize(("phase", "after", "said", "done", "of", "read", "alive"), STOPS)
def test_a_look_tells_what_lies_there(phase, after, said, done, of, read, alive, many, tmp_path, capsys):
    out = stopped([str(many)], tmp_path / "out", phase, after)
    before = state(out)
    status, look = told(capsys, out)
    assert status == 0
    assert (look["phase"], look["units"]) == (said, {"done": done, "of": of})
    assert look["documents"]["read"] == read
    if alive is not None:
        assert look["documents"]["alive"] == alive
    sizes = sorted((p.stat().st_size for p in many.iterdir()), reverse=True)
    assert look["bytes"]["of"] == sum(sizes)
    assert look["bytes"]["read"] == sum(sizes[: done if said == "reading" else 5])
    assert look["driver"] == {"state": NOBODY, "holder": ""}
    assert look["left_seconds"] is None
    kept = sum(f.stat().st_size for f in (out / "work").rglob("*.arrow") if f.parents[1].name.startswith("pass"))
    assert look["bytes"]["work"] == kept
    if read:
        assert look["dropped"]["http_filter"] == {"bad_status": read // 6}
        assert 0 <= look["last_unit_seconds_ago"] < 600
    assert main(["watch", str(out), "--once"]) == 0
    text = capsys.readouterr().out
    assert "no driver is at work: start the same line again" in text
    if read:
        assert f"{read:,} documents read" in text
        assert f"bad_status {read // 6}" in text
    else:
        assert "no unit is finished yet" in text
    assert state(out) == before  # nothing was made, changed or touched


def test_what_is_still_in_before_the_shards_is_what_is_kept(many, tmp_path, capsys):
    out = stopped([str(many)], tmp_path / "out", "publish", 3)
    _, look = told(capsys, out)
    done = run("web", [str(many)], out, engine="serial")
    fates = ds.dataset(f"{done.out}/ledger").to_table(columns=["fate"]).column("fate").to_pylist()
    assert look["documents"]["alive"] == fates.count("kept")
    assert [r["documents"]["out"] for r in look["funnel"]] == [r["documents"]["out"] for r in done.audit["funnel"]]


def test_a_finished_run_is_told_with_its_funnel(many, tmp_path, capsys):
    done = run("web", [str(many)], tmp_path / "out", engine="serial")
    for more in ([], ["--once"]):
        assert main(["watch", done.out, *more]) == 0
        text = capsys.readouterr().out
        assert f"{done.out} is finished" in text
        assert "balance    closes" in text
        assert f"shards     {done.out}/data" in text
    status, look = told(capsys, done.out)
    assert (status, look["phase"], look["units"]) == (0, "finished", {"done": 5, "of": 5})
    assert look["funnel"] == json.loads(json.dumps(done.audit["funnel"]))


def test_looks_go_up_and_end_where_the_run_ends(many, tmp_path):
    """Looked at after every task, by one watcher: phases in order, numbers that never fall, nothing counted twice."""
    out = tmp_path / "out"
    watched, looks = Watched(LocalStore(str(out)), HERE), []
    assert watched.look().phase == "waiting"
    done = run("web", [str(many)], out, engine="serial", observer=Stop(look=lambda: looks.append(watched.look())))
    order = ["reading", "meeting", "windows", "publishing"]
    phases = [look.phase for look in looks]
    assert sorted(phases, key=order.index) == phases
    assert set(phases) == set(order)
    for name in order:
        units = [look.done for look in looks if look.phase == name]
        assert units == sorted(units)
    documents = [look.documents for look in looks]
    assert documents == sorted(documents)
    assert max(documents) == 30
    assert all(look.driver == AT_WORK and f"process {os.getpid()} on " in look.holder for look in looks)
    fresh = Watched(LocalStore(str(out)), HERE)
    assert fresh.look().phase == watched.look().phase == "finished"
    assert done.exit_code == 0


def test_rates_and_the_time_left_are_those_of_the_last_minutes(many, tmp_path):
    """Three units of known size ended 10, 20 and 30 seconds after the start; the clock stands at 40."""
    out = stopped([str(many)], tmp_path / "out", "read", 3)
    holder = LocalStore(str(out)).hold(print)
    try:
        now = 1_800_000_000.0
        for name in ("plan.json", "lock"):
            os.utime(out / "work" / name, (now, now))
        sizes = 0
        for n, path in enumerate(sorted((out / "work/done/pass0").iterdir())):
            os.utime(path, (now + 10 * n + 10,) * 2)
            sizes += json.loads(path.read_text())["facts"]["file_bytes"]
        look = Watched(LocalStore(str(out)), HERE, now=lambda: now + 40).look()
    finally:
        holder.release()
    assert look.driver == AT_WORK
    assert (look.unit_rate, look.byte_rate, look.document_rate) == (3 / 40, sizes / 40, 18 / 40)
    assert look.left == pytest.approx((look.size - sizes) / (sizes / 40))
    assert look.quiet == 10
    held = Watched(LocalStore(str(out)), HERE, now=lambda: now + 40).look()
    assert (held.driver, held.left, held.byte_rate) == (NOBODY, None, None)


def test_a_driver_on_another_machine_is_named_and_not_judged(many, tmp_path):
    out = stopped([str(many)], tmp_path / "out", "read", 1)
    (out / "work/lock").write_text("process 12 on elsewhere\n")
    look = Watched(LocalStore(str(out)), HERE).look()
    assert (look.driver, look.holder) == (NOT_KNOWN, "process 12 on elsewhere")


def test_what_is_no_run_is_waited_for_or_told(tmp_path, capsys):
    for place in (tmp_path, tmp_path / "nothing"):
        assert main(["watch", str(place), "--once"]) == 2
        assert "holds no run" in capsys.readouterr().err
    assert main(["watch", "", "--once"]) == 2
    assert main(["watch", str(tmp_path), "--every", "0"]) == 2
    assert "--every 0: 0.2 seconds or more" in capsys.readouterr().err
    assert main(["watch", str(tmp_path), "--every", "nan"]) == 2
    assert not (tmp_path / "nothing").exists()


def test_a_run_with_a_stage_of_ones_own_is_counted_though_it_is_not_here(make, tmp_path, capsys):
    stage = tmp_path / "plainly.py"
    stage.write_text(
        "from dataclasses import dataclass\nfrom typing import ClassVar\nfrom cleanpipe.stage import Outcome, Stage\n"
        "@dataclass(frozen=True, kw_only=True)\nclass Plainly(Stage):\n    '''Nothing.'''\n"
        "    name: ClassVar[str] = 'plainly'\n    def open(self):\n        return Outcome\n"
    )
    recipe = tmp_path / "mine.toml"
    recipe.write_text('stages = ["http_filter", "html_scrub", "plainly.py", "minhash_sign", "minhash_drop"]\n')
    path = make.write_gz(tmp_path / "a.warc.gz", [make.response("http://a.example.org", make.page(make.prose(1)))])
    for phase, after, said in (("meet", 0, "meeting"), ("publish", 1, "publishing")):
        with pytest.raises(KeyboardInterrupt):
            run(str(recipe), [str(path)], tmp_path / phase, engine="serial", observer=Stop(phase, after))
        plan = tmp_path / phase / "work/plan.json"
        told_of = json.loads(plan.read_text())
        told_of.pop("about", None)
        plan.write_text(json.dumps(told_of))
        _, look = told(capsys, tmp_path / phase)
        assert look["phase"] == said
        assert look["documents"] == {"read": 1, "alive": 1}
        assert "plainly" in [row["stage"] for row in look["funnel"]]


def test_nothing_from_a_run_breaks_a_terminal(make, tmp_path, capsys):
    """Stage names and reasons are the recipe's, inputs' names are the crawl's."""
    path = make.write_gz(tmp_path / "a.warc.gz", [make.response("http://a.example.org", make.page(make.prose(1)))])
    out = stopped([str(path)], tmp_path / "o\x1b[31mut", "meet", 0)
    for single in (out / "work/done/pass0").iterdir():
        manifest = json.loads(single.read_text())
        manifest["tally"]["http_filter"]["dropped"] = {"bad\x1b[2J_status": 3}
        single.write_text(json.dumps(manifest))
    assert main(["watch", str(out), "--once"]) == 0
    assert "\x1b" not in capsys.readouterr().out


# real processes


def line(*args):
    return [sys.executable, "-m", "cleanpipe_jobs.cli", *map(str, args)]


def test_lines_without_a_terminal_until_the_run_ends(many, tmp_path):
    out = tmp_path / "out"
    with subprocess.Popen(
        line("watch", out, "--every", "0.2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdout.readline().endswith(f"waiting for a run in {out}\n")
        run("web", [str(many)], out, engine="serial")
        said, wrong = watch.communicate(timeout=60)
    assert (watch.returncode, wrong) == (0, "")
    assert "\x1b" not in said
    assert f"{out} is finished" in said
    lines = said.partition(f"{out} is finished")[0].splitlines()
    assert all(ln[2] == ln[5] == ":" for ln in lines if ln)


@pytest.mark.slow
def test_a_driver_that_is_killed_leaves_a_run_that_can_be_watched(make, tmp_path):
    """By SIGKILL, in the middle of reading; the watcher says that nobody is at work, and sees the next start."""
    folder = tmp_path / "crawl"
    folder.mkdir()
    for n in range(30):
        pages = [make.response(f"http://h{n}.example.org/{i}", make.page(make.prose(n * 10 + i))) for i in range(30)]
        make.write_gz(folder / f"{n:02d}.warc.gz", pages)
    out = tmp_path / "out"
    driver = subprocess.Popen(
        line("run", "web", folder, "--out", out, "--engine", "local", "--workers", "1", "--quiet"),
        start_new_session=True,
    )
    watched = Watched(LocalStore(str(out)), HERE)
    looks = []
    while not looks or looks[-1].done < 2:
        time.sleep(0.02)
        looks.append(watched.look())
    assert looks[-1].phase == "reading"
    assert (looks[-1].driver, looks[-1].holder.split(" on ")[0]) == (AT_WORK, f"process {driver.pid}")
    assert looks[-1].left is not None
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    look = watched.look()
    assert (look.phase, look.driver, look.left) == ("reading", NOBODY, None)
    assert 2 <= look.done < 30
    before = state(out)
    assert watched.look().documents == 30 * look.done
    assert state(out) == before
    run("web", [str(folder)], out, engine="serial", observer=Stop(look=lambda: looks.append(watched.look())))
    assert watched.look().phase == "finished"
    assert looks[-1].documents == 900


def test_watchers_and_the_driver_do_not_meet(many, tmp_path):
    """Any number of them, at any speed: the run is as without them."""
    out, end = tmp_path / "out", threading.Event()
    errors = []

    def watch():
        watched = Watched(LocalStore(str(out)), HERE)
        try:
            while not end.is_set():
                watched.look()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=watch) for _ in range(3)]
    for thread in threads:
        thread.start()
    done = run("web", [str(many)], out, engine="serial")
    end.set()
    for thread in threads:
        thread.join()
    alone = run("web", [str(many)], tmp_path / "alone", engine="serial")
    assert errors == []
    assert done.audit["funnel"] == alone.audit["funnel"]
    for part in sorted((tmp_path / "alone/ledger").iterdir()):
        assert (out / "ledger" / part.name).read_bytes() == part.read_bytes()
