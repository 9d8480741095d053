"""The log in JSON lines."""

import json
import os
import re
from argparse import Namespace

import pytest

from cleanpipe.errors import ConfigError, StopError
from cleanpipe_jobs.cli import main
from cleanpipe_jobs.tasklog import TaskLog
from cleanpipe_jobs.watch import log_target, watching


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def told(log):
    log.begun("run-1", {"recipe": "web", "out": "s3://key:secret@bucket/run", "inputs": 2})
    log.started(2, 1000, 1, 0)
    log.phase("read", 2)
    facts = {"documents": 10, "rows": 7, "bytes": 500, "quarantined": 1, "cpu_seconds": 1.23456, "wall_seconds": 2.0}
    log.finished("one", 10, 7)
    log.result(
        "pass", "one", "k1", {**facts, "peak_memory_bytes": 9, "host": "n1", "tries": 2, "stage_seconds": {"a": 1.0}}
    )
    log.warn("two: https://u:pw@host/x?X-Amz-Signature=abcdef: cannot be read\nat all")
    log.phase("window", 1)
    log.result("pass", "one", "k2", {"documents": 7, "rows": 12, "quarantined": 0})
    log.result("ledger", "one", "k3", {"quarantined": 1, "rows": 10})


def test_a_line_for_everything(tmp_path):
    log = TaskLog(str(tmp_path / "log"))
    told(log)
    log.close()
    found = lines(tmp_path / "log")
    assert [x["event"] for x in found] == ["run", "start", "phase", "task", "warning", "phase", "task", "task", "end"]
    assert {x["run"] for x in found} == {"run-1"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", x["time"]) for x in found)
    task = found[3]
    assert {k: task[k] for k in ("phase", "kind", "unit", "key", "seconds", "cpu_seconds", "documents", "rows")} == {
        "phase": "read", "kind": "pass", "unit": "one", "key": "k1", "seconds": 2.0, "cpu_seconds": 1.235,
        "documents": 10, "rows": 7,
    }  # fmt: skip
    assert (task["bytes"], task["quarantined"], task["tries"], task["host"], task["peak_memory_bytes"]) == (
        500,
        1,
        2,
        "n1",
        9,
    )
    end = found[-1]
    assert (end["status"], end["tasks"], end["warnings"], end["documents"], end["bytes"]) == ("done", 3, 1, 10, 500)
    assert end["quarantined"] == 1  # the ledger's count is the same records again
    text = (tmp_path / "log").read_text()
    assert not re.search(r"secret|pw@|abcdef", text)


@pytest.mark.parametrize(
    ("error", "status", "more"),
    [
        (
            StopError("storage lost: https://u:pw@h/x"),
            "stopped",
            {"exit_status": 3, "error": "storage lost: https://h/x"},
        ),
        (ConfigError("no such stage"), "failed", {"exit_status": 2, "error": "no such stage"}),
        (KeyboardInterrupt(), "stopped", {"error": "KeyboardInterrupt"}),
        (ZeroDivisionError("by 0"), "failed", {"error": "ZeroDivisionError: by 0"}),
    ],
)
def test_how_it_ended(tmp_path, error, status, more):
    log = TaskLog(str(tmp_path / "log"))
    log.close(error)
    (end,) = lines(tmp_path / "log")
    assert end["status"] == status
    assert {k: end.get(k) for k in more} == more


def test_lines_are_added_and_two_runs_do_not_mix_within_a_line(tmp_path):
    path = tmp_path / "log"
    first, second = TaskLog(str(path)), TaskLog(str(path))
    for i in range(200):
        first.warn(f"first {i} " + "x" * 300)
        second.warn(f"second {i} " + "y" * 300)
    first.close()
    second.close()
    assert len(lines(path)) == 402
    assert len({x["run"] for x in lines(path)}) == 2


def test_a_text_that_is_no_unicode_is_told_all_the_same(tmp_path):
    log = TaskLog(str(tmp_path / "log"))
    log.warn(os.fsdecode(b"caf\xe9.warc.gz") + " \x00 \u2028")
    log.close()
    assert lines(tmp_path / "log")[0]["message"] == "caf\udce9.warc.gz \x00 \u2028"


def test_a_file_that_cannot_be_opened_is_found_before_the_run(tmp_path, capsys):
    with pytest.raises(ConfigError, match="cannot be written: Is a directory"):
        TaskLog(str(tmp_path))
    args = ["run", "sample", "--out", str(tmp_path / "out"), "--log", str(tmp_path / "no" / "log")]
    assert main(args) == 2
    assert not (tmp_path / "out").exists()
    assert "cannot be written" in capsys.readouterr().err


def test_a_full_device_costs_the_log_and_not_the_run(capsys):
    log = TaskLog("/dev/full")
    log.warn("one")
    log.warn("two")
    log.close()
    assert capsys.readouterr().err == "warning: --log /dev/full ends here: No space left on device\n"


def test_where_the_log_goes(monkeypatch):
    args = Namespace(log=None, metrics=None, quiet=False, json=True)
    assert log_target(args) == ""
    monkeypatch.setenv("CLEANPIPE_LOG", "-")
    assert log_target(args) == "-"
    assert log_target(Namespace(log="x")) == "x"
    with pytest.raises(ConfigError, match="both write to standard output"), watching(args):
        pass


def test_a_run_with_a_log(crawl, tmp_path):
    path = tmp_path / "log.jsonl"
    line = ["run", "web", str(crawl), "--out", str(tmp_path / "out"), "--engine", "serial", "-q", "--log", str(path)]
    assert main(line) == 0
    found = lines(path)
    events = [x["event"] for x in found]
    assert events[0] == "run"
    assert events[-1] == "end"
    assert [x["phase"] for x in found if x["event"] == "phase"][:2] == ["read", "meet"]
    read = [x for x in found if x["event"] == "task" and x["phase"] == "read"]
    assert {x["unit"] for x in read} == {"one.warc.gz", "two.warc.gz", "three.warc.wet.gz"}
    assert sum(x["bytes"] for x in read) == sum(p.stat().st_size for p in crawl.iterdir())
    assert len({x["run"] for x in found}) == 1
    assert found[-1]["documents"] == 15
    assert main(line) == 0  # finished already
    assert lines(path)[-1]["status"] == "done"


def test_a_log_on_standard_output_is_alone_there(crawl, tmp_path, capsys):
    line = ["run", "web", str(crawl), "--out", str(tmp_path / "out"), "--engine", "serial", "--log", "-"]
    assert main(line) == 0
    assert [json.loads(x)["event"] for x in capsys.readouterr().out.splitlines()][-1] == "end"
