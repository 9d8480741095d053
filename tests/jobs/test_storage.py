"""What storage, other runs and the shell can do to a run: each costs time at most, never bytes or an input."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cleanpipe.errors import ConfigError, StopError
from cleanpipe.opening import ledger
from cleanpipe.run import run
from cleanpipe_jobs.cli import main


def line(*args):
    return [sys.executable, "-m", "cleanpipe_jobs.cli", *map(str, args)]


def published(out):
    folders = ("data", "ledger", "index", "quarantine", "audit")
    keep = [
        p for folder in folders for p in sorted((Path(out) / folder).iterdir()) if p.name != "audit.html"
    ]  # has costs
    return {p.name: p.read_bytes() for p in keep}


@pytest.fixture
def done(crawl, tmp_path):
    return run("web", [str(crawl)], tmp_path / "undisturbed", engine="serial")


def test_two_runs_into_one_folder_one_waits_outside(crawl, tmp_path, done):
    out = tmp_path / "shared"
    (out / "work").mkdir(parents=True)
    code = (
        "import sys, time\nfrom cleanpipe.io.store import LocalStore\n"
        "held = LocalStore(sys.argv[1]).hold(print)\nprint('held', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match=rf"another run is at work.*process {other.pid} on"):
            run("web", [str(crawl)], out, engine="serial")
        other.kill()  # its death gives the folder back
    run("web", [str(crawl)], out, engine="serial")
    assert published(out) == published(done.out)


def test_a_limit_on_file_size_is_no_fault_of_the_inputs(crawl, tmp_path, done):
    out = tmp_path / "limited"
    # room for what a start writes, of more than 9 kB; none for what a unit does
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (15_000, 15_000))  # noqa: E731
    args = line("run", "web", crawl, "--out", out, "--engine", "serial")
    stopped = subprocess.run(args, preexec_fn=limit, capture_output=True, text=True, check=False)
    assert stopped.returncode == 3, stopped.stderr
    assert "start the same line again" in stopped.stderr
    assert not (out / "manifest.json").exists()
    assert run("web", [str(crawl)], out, engine="serial").exit_code == 0
    assert published(out) == published(done.out)


def test_an_input_that_failed_is_tried_again_by_the_same_line(crawl, tmp_path, done):
    out, away = tmp_path / "out", tmp_path / "away.gz"
    code = (
        "import os, sys\nfrom cleanpipe import run as runs\n"
        "real = runs.prepare\n"
        "def prepare(*a):\n    found = real(*a)\n    os.rename(sys.argv[3], sys.argv[4])\n    return found\n"
        "runs.prepare = prepare\n"
        "sys.exit(runs.run('web', [sys.argv[1]], sys.argv[2], engine='serial').exit_code)\n"
    )
    victim = crawl / "one.warc.gz"
    first = subprocess.run([sys.executable, "-c", code, str(crawl), str(out), str(victim), str(away)], check=False)
    assert first.returncode == 1
    assert {r["reason"] for r in ledger(out).to_table().to_pylist() if r["source"] == victim.name} == {"damaged_range"}
    away.rename(victim)
    again = run("web", [str(crawl)], out, engine="serial")
    assert (again.already, again.exit_code, again.facts["units"]["resumed"]) == (False, 0, 2)
    assert published(out) == published(done.out)
    assert not (out / "work").exists()


@pytest.mark.slow
def test_workers_that_are_killed_cost_no_input(crawl, tmp_path, done):
    """Four kills at most: fewer than what condemns a document or a unit, wherever they strike."""
    out, kills = tmp_path / "killed", 0
    with subprocess.Popen(
        line("run", "web", crawl, "--out", out, "--engine", "local", "--workers", "2", "--quiet"),
        stderr=subprocess.DEVNULL,
    ) as driver:
        while driver.poll() is None:
            time.sleep(0.7)
            for child in Path(f"/proc/{driver.pid}/task/{driver.pid}/children").read_text().split():
                if kills < 4:
                    os.kill(int(child), signal.SIGKILL)
                    kills += 1
    assert kills >= 1
    assert run("web", [str(crawl)], out, engine="serial").exit_code == 0
    assert published(out) == published(done.out)


DAMAGE = [
    ("an empty manifest", "manifest.json", ""),
    ("another shape", "manifest.json", "[]"),
    ("nothing in it", "manifest.json", "{}"),
    ("a missing shard", "data", None),
    ("a missing file", "run.json", None),
]


@pytest.mark.parametrize(("what", "name", "content"), DAMAGE, ids=[d[0] for d in DAMAGE])
def test_a_damaged_finished_run_is_not_called_finished(crawl, done, what, name, content):
    path = Path(done.out) / name
    if content is not None:
        path.write_text(content)
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    with pytest.raises(ConfigError, match=r"cleanpipe verify|not what a run writes"):
        run("web", [str(crawl)], done.out, engine="serial")


@pytest.mark.parametrize("content", ["{}", "[]", "null", "{", ""])
def test_a_damaged_plan_is_one_clear_line(crawl, tmp_path, content):
    out = tmp_path / "out"
    (out / "work").mkdir(parents=True)
    (out / "work" / "plan.json").write_text(content)
    with pytest.raises(ConfigError, match=r"work/plan\.json"):
        run("web", [str(crawl)], out, engine="serial")


def test_a_flipped_byte_in_the_work_of_a_killed_run_is_done_again(crawl, tmp_path, done):
    out = tmp_path / "flipped"
    code = (
        "import os, sys\nfrom cleanpipe.engine.driver import Driver\nfrom cleanpipe.run import run\n"
        "Driver._meet = lambda *a: os._exit(9)\n"
        "run('web', [sys.argv[1]], sys.argv[2], engine='serial')\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(crawl), str(out)], check=False).returncode == 9
    for path in sorted(out.glob("work/pass0/*/*-rows.arrow")):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    again = run("web", [str(crawl)], out, engine="serial")
    assert again.facts["units"]["resumed"] == 0
    assert published(out) == published(done.out)


FOLDERS = [
    ("a URL of another kind", "gs://bucket/run", "a folder or to s3"),
    ("a bucket alone", "s3://bucket", "a bucket and a prefix"),
    ("no name", "", "is empty"),
    ("a file in the way", "{crawl}/one.warc.gz/run", "cannot be used"),
    ("a place where none can be made", "/proc/cleanpipe", "cannot be used"),
]


@pytest.mark.parametrize(("what", "out", "message"), FOLDERS, ids=[f[0] for f in FOLDERS])
def test_a_folder_that_cannot_be(crawl, what, out, message):
    with pytest.raises(ConfigError, match=message):
        run("web", [str(crawl)], out.format(crawl=crawl), engine="serial")


def test_nothing_is_claimed_before_everything_was_checked(crawl, tmp_path):
    for wrong in ({"workers": 0}, {"engine": "spark"}, {"reuse": tmp_path / "none"}):
        with pytest.raises(ConfigError):
            run("web", [str(crawl)], tmp_path / "out", **wrong)
    assert not (tmp_path / "out").exists()


OPTIONS = ["shards.batch_rows=0", "shards.max_bytes=1", "read.max_body=-1", "read.batch_rows=0", "read.expansion=0"]
OPTIONS += ["read.reader=quick", "audit.samples=-1", "audit.alarm=2.0", "http_filter.statuses=[70000]"]
OPTIONS += ["windowing.size=99999999999999999999"]


@pytest.mark.parametrize("given", OPTIONS)
def test_an_option_that_cannot_work_is_refused(crawl, tmp_path, given, capsys):
    out = tmp_path / "out"
    assert main(["run", "web", str(crawl), "--out", str(out), "--engine", "serial", "--set", given]) == 2
    assert given.partition("=")[0].partition(".")[2] in capsys.readouterr().err
    assert not (out / "manifest.json").exists()


def test_json_answers_errors_too(tmp_path, capsys):
    assert main(["run", "web", str(tmp_path / "no.warc.gz"), "--out", str(tmp_path / "out"), "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["exit_code"] == 2
    assert "no.warc.gz" in answer["error"]


SHELLS = ["{run} >&- 2>&-", "{run} 2>&-", "{run} > /dev/full", "{run} | head -n 1 > /dev/null; exit ${{PIPESTATUS[0]}}"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_closed_or_full_output_does_not_change_the_status(done, crawl, shell):
    words = " ".join(line("run", "web", crawl, "--out", done.out))
    assert (
        subprocess.run(["bash", "-c", shell.format(run=words)], stderr=subprocess.DEVNULL, check=False).returncode == 0
    )


def test_reuse_says_when_there_is_nothing_to_take(crawl, done, tmp_path, capsys):
    args = ["run", "web", str(crawl), "--out", str(tmp_path / "out"), "--engine", "serial", "--reuse", str(done.out)]
    assert main(args) == 0
    assert "nothing to take over" in capsys.readouterr().err


def test_storage_errors_stop_and_do_not_blame_the_input():
    from cleanpipe.engine.perform import translate

    for number in (5, 13, 28, 30, 116):  # EIO, EACCES, ENOSPC, EROFS, ESTALE
        assert isinstance(translate(OSError(number, os.strerror(number)), "x"), StopError)


class TestObjects:
    """The same over s3://, the network at its worst."""

    @pytest.fixture
    def sets(self, s3, crawl, tmp_path):
        for path in crawl.iterdir():
            s3.client.put_object(Bucket="crawls", Key=f"in/{path.name}", Body=path.read_bytes())
        given = {"endpoint": s3.url, "attempts": 6, "timeout": 2.0, "scratch": str(tmp_path / "scratch")}
        return [f"storage.{name}={value}" for name, value in given.items()]

    def objects(self, s3, prefix):
        pages = s3.client.get_paginator("list_objects_v2").paginate(Bucket="crawls", Prefix=prefix + "/")
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return {key[len(prefix) + 1 :]: s3.client.get_object(Bucket="crawls", Key=key)["Body"].read() for key in keys}

    def results(self, s3, prefix):
        keep = ("data/", "ledger/", "index/", "quarantine/", "audit/")
        found = {n: b for n, b in self.objects(s3, prefix).items() if n != "audit/audit.html"}  # that has costs
        return {n.rpartition("/")[2]: b for n, b in found.items() if n.startswith(keep)}

    def uploads(self, s3):
        return s3.client.list_multipart_uploads(Bucket="crawls").get("Uploads", [])

    def test_what_a_storm_cannot_change(self, s3, sets, done):
        s3.fail("GET", "in/.*", "truncate", 5)
        s3.fail("(GET|HEAD|DELETE)", "in/|out/", "503", 999, every=3)
        for fault in ("reset", "lost", "500"):
            s3.fail("(PUT|POST)", "out/", fault, 999, every=5)
        finished = run("web", ["s3://crawls/in"], "s3://crawls/out", engine="serial", sets=sets)
        assert (finished.exit_code, finished.out) == (0, "s3://crawls/out")
        assert {r.fault for r in s3.log()} >= {"503", "500", "reset", "lost", "truncate"}
        s3.forget()
        here, there = published(done.out), self.results(s3, "out")
        assert here.keys() == there.keys()
        assert {n for n in here if here[n] != there[n] and n.endswith((".arrow", ".parquet"))} == set()
        assert not [name for name in self.objects(s3, "out") if name.startswith("work/")]
        assert self.uploads(s3) == []
        again = run("web", ["s3://crawls/in"], "s3://crawls/out", engine="serial", sets=sets)
        assert again.already

    def test_storage_that_is_lost_in_the_middle(self, s3, sets, capsys):
        undisturbed = run("web", ["s3://crawls/in"], "s3://crawls/calm", engine="serial", sets=sets)
        writes = len(s3.log("PUT", "calm/"))
        args = ["run", "web", "s3://crawls/in", "--out", "s3://crawls/out", "--engine", "serial"]
        args += [word for given in sets for word in ("--set", given)]
        for part in (4, 2, 1):
            s3.forget()
            s3.fail("(PUT|POST)", "out/", "503", 10_000, skip=writes // part // 2)
            assert main(args) == 3
            assert "storage lost: s3://crawls/out/" in capsys.readouterr().err
            assert "manifest.json" not in self.objects(s3, "out")
        s3.forget()
        assert main(args) == 0
        assert self.results(s3, "out") == self.results(s3, "calm")
        assert undisturbed.exit_code == 0
        assert self.uploads(s3) == []

    def test_no_secret_is_written_or_said(self, s3, sets, crawl, monkeypatch, capfd):
        from web_server import WebServer

        for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"):
            monkeypatch.setenv(name, "mark3r")
        with WebServer() as web:
            web.files["/x.warc.gz"] = (crawl / "one.warc.gz").read_bytes()
            web.files["/y.warc.gz"] = b"\x1f\x8b broken"
            urls = [web.url.replace("//", "//user:mark3r@") + f"/{n}.warc.gz?X-Amz-Signature=mark3r" for n in "xy"]
            args = ["run", "web", *urls, "--out", "s3://crawls/out", "--engine", "serial", "--json"]
            args += [word for given in sets for word in ("--set", given)]
            assert main(args) == 0
            main([*args[:2], urls[0].replace("/x", "/gone"), *args[4:]])
        written = self.objects(s3, "out")
        assert "run.json" in written
        assert not [name for name, data in written.items() if b"mark3r" in data]
        said = capfd.readouterr()
        assert "mark3r" not in said.out + said.err

    def test_units_of_a_remote_file_are_those_of_a_local_one(self, s3, sets, tmp_path, make):
        from web_server import WebServer

        pages = [make.response(f"http://e{i}.example.org/", make.page(make.prose(i, 30))) for i in range(120)]
        path = make.write_gz(tmp_path / "a.warc.gz", pages)
        s3.client.put_object(Bucket="crawls", Key="one/a.warc.gz", Body=path.read_bytes())
        with WebServer() as web:
            web.files["/a.warc.gz"] = path.read_bytes()
            found = {}
            for name, source, ranges in (
                ("local", path, True),
                ("s3", "s3://crawls/one", True),
                ("web", web.url + "/a.warc.gz", True),
                ("web without ranges", web.url + "/a.warc.gz", False),
            ):
                web.ranges = ranges
                options = {"engine": "serial", "sets": [*sets, "read.unit_bytes=32768"]}
                finished = run("web", [str(source)], tmp_path / name, **options)
                assert finished.facts["units"]["total"] > 3
                found[name] = {
                    n: b for n, b in published(tmp_path / name).items() if not n.endswith((".json", ".html", ".md"))
                }
        assert found["local"]
        assert all(files == found["local"] for files in found.values())
