"""A whole run with a page that crashes its worker: it alone is set aside, and its list of limits gives equal bytes."""

import json
from pathlib import Path

from cleanpipe.opening import ledger
from cleanpipe.run import run
from cleanpipe.verify import verify

CRASHER = """
import os, signal
from dataclasses import dataclass
from typing import ClassVar
from cleanpipe.stage import Outcome, Stage


@dataclass(frozen=True, kw_only=True)
class Crasher(Stage):
    name: ClassVar[str] = "crasher"
    reads: ClassVar = frozenset({"text"})

    def open(self):
        def step(rows):
            if any("crash here" in text for text in rows.column("text").to_pylist()):
                os.kill(os.getpid(), signal.SIGSEGV)
            return Outcome(rows)

        return step
"""
READER = """
import os, signal
from cleanpipe.io import documents

if os.environ.get("DEADLY_TO_READ"):  # stands for a fault of a library that reads a response
    real = documents.parse_response

    def parse_response(block, *args, **more):
        if b"crash here" in block:
            os.kill(os.getpid(), signal.SIGSEGV)
        return real(block, *args, **more)

    documents.parse_response = parse_response
"""
STAGES = ["http_filter", "html_scrub", "crasher.py", "windowing"]


def test_a_page_that_crashes_the_interpreter_costs_itself(make, tmp_path):
    pages = [make.prose(i) for i in range(12)]
    pages[7][3] += " crash here"
    records = [make.response(f"http://a.example.org/{i}", make.page(p)) for i, p in enumerate(pages)]
    source = str(make.write_gz(tmp_path / "pages.warc.gz", [make.warcinfo(), *records]))
    (tmp_path / "crasher.py").write_text(CRASHER, encoding="utf-8")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'name = "crash"\nstages = {json.dumps(STAGES)}\n[read]\nbatch_rows = 5\n', encoding="utf-8")

    met = run(str(recipe), [source], tmp_path / "met", engine="local", workers=1)
    assert met.exit_code == 0
    assert met.audit["conservation"]["balanced"]
    rows = ledger(met.out).to_table(columns=["url", "fate", "stage", "reason"]).to_pylist()
    assert len(rows) == 12
    gone = [tuple(r.values()) for r in rows if r["fate"] != "kept"]
    assert gone == [("http://a.example.org/7", "quarantined", "http_filter", "resource_limit")]

    limits = Path(met.out, "quarantine", "limits.json")
    ((listed),) = json.loads(limits.read_text(encoding="utf-8"))["documents"]
    assert (listed["error"], listed["message"]) == ("WorkerCrash", "SIGSEGV, at crasher.py:16 in step")
    told = run(str(recipe), [source], tmp_path / "told", engine="serial", limits=limits)
    for pattern in ("data/*.arrow", "ledger/*.parquet"):
        (one,), (other,) = (sorted(Path(r.out).glob(pattern)) for r in (met, told))
        assert one.read_bytes() == other.read_bytes()


def test_a_page_that_crashes_whoever_reads_it_costs_itself(make, tmp_path, monkeypatch):
    pages = [make.prose(i) for i in range(12)]
    pages[4][3] += " crash here"
    pages[7][3] += " crash here"
    records = [make.response(f"http://a.example.org/{i}", make.page(p)) for i, p in enumerate(pages)]
    source = str(make.write_gz(tmp_path / "pages.warc.gz", [make.warcinfo(), *records]))
    (tmp_path / "crasher.py").write_text(READER + CRASHER.replace("crash here", "not here"), encoding="utf-8")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f'name = "crash"\nstages = {json.dumps(STAGES)}\n[read]\nbatch_rows = 5\n', encoding="utf-8")

    monkeypatch.setenv("DEADLY_TO_READ", "1")
    met = run(str(recipe), [source], tmp_path / "met", engine="local", workers=1)
    assert met.exit_code == 0
    assert met.audit["conservation"]["balanced"]
    rows = ledger(met.out).to_table(columns=["url", "fate", "stage", "reason"]).to_pylist()
    gone = [tuple(r.values()) for r in rows if r["fate"] != "kept"]
    lost = ("quarantined", "read", "resource_limit")
    assert gone == [("http://a.example.org/4", *lost), ("http://a.example.org/7", *lost)]
    assert len(rows) == 12
    assert verify(Path(met.out)).findings == []

    monkeypatch.delenv("DEADLY_TO_READ")
    limits = Path(met.out, "quarantine", "limits.json")
    told = run(str(recipe), [source], tmp_path / "told", engine="serial", limits=limits)
    for name in ("data/*.arrow", "ledger/*.parquet", "quarantine/*", "audit/*.json"):
        ours, theirs = (sorted(Path(r.out).glob(name)) for r in (met, told))
        assert [p.name for p in ours] == [p.name for p in theirs]
        assert [p.read_bytes() for p in ours] == [p.read_bytes() for p in theirs]
