"""What every drill and the chaos test prove in the end: the disturbed run made what an undisturbed one makes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

CLEANPIPE = (sys.executable, "-m", "cleanpipe_jobs.cli")
EQUAL = (
    "data",
    "ledger",
    "index",
    "quarantine",
    "audit",
)  # folders that are byte-identical whatever happened to the run


def cleanpipe(*words: str, seconds: float = 600) -> subprocess.CompletedProcess[str]:
    """The command, to its end; standard error lies in its output."""
    return subprocess.run(
        [*CLEANPIPE, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
        check=False,
    )


def serial_run(crawl: Path, out: Path, options: Sequence[str] = ()) -> Path:
    """An undisturbed run of one process."""
    done = cleanpipe("run", "web", str(crawl), "--out", str(out), "--engine", "serial", "--quiet", *options)
    assert done.returncode == 0, done.stdout
    return out


def digests(out: Path) -> dict[str, str]:
    """SHA-256 of every published file that must be the same in every run of the same line."""
    files = [path for folder in EQUAL for path in sorted((out / folder).rglob("*")) if path.is_file()]
    files = [path for path in files if path.name != "audit.html"]  # it has the costs of the run
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def differences(out: Path, reference: Path) -> list[str]:
    """Files that are missing, too many or other than in the reference; in words."""
    ours, theirs = digests(out), digests(reference)
    lines = [f"{name}: missing" for name in sorted(theirs.keys() - ours.keys())]
    lines += [f"{name}: not in the serial run" for name in sorted(ours.keys() - theirs.keys())]
    return lines + [
        f"{name}: other bytes" for name in sorted(ours.keys() & theirs.keys()) if ours[name] != theirs[name]
    ]


def condemned(out: Path) -> int:
    """Records that were set aside because a guard or the death of a worker was laid to them."""
    count = 0
    for path in sorted((out / "ledger").glob("*.parquet")):
        reasons = pq.read_table(path, columns=["reason"]).column("reason").to_pylist()
        count += sum(reason == "resource_limit" for reason in reasons)
    return count


def records(out: Path) -> int:
    """Rows of the ledger."""
    return sum(pq.read_metadata(path).num_rows for path in sorted((out / "ledger").glob("*.parquet")))


def prove(out: Path, reference: Path) -> None:
    """`cleanpipe verify` passes, nothing was condemned, and the published bytes are those of the reference.

    Raises:
        AssertionError: with what differs.
    """
    verified = cleanpipe("verify", str(out))
    assert verified.returncode == 0, verified.stdout
    assert condemned(out) == 0, f"{condemned(out)} records were set aside for resource_limit"
    found = differences(out, reference)
    assert not found, "\n".join(found)
    assert records(out) == records(reference)


def units(out: Path) -> int:
    """How many units a finished run had, by its run.json."""
    facts = json.loads((out / "run.json").read_text(encoding="utf-8"))
    return int(facts["units"]["total"])
