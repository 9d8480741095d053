"""Random processes of a local run are killed at random moments; in the end the run must be what an undisturbed one is.

    python tests/cluster/chaos.py --kills 500 --seed 7
    python tests/cluster/chaos.py --kills 200 --s3      # the run folders in an S3 that this program serves

Sends SIGKILL, SIGTERM, or SIGSTOP with a SIGKILL later, to the driver and to what it started. A driver that died is
started again with the same line, at once, while what it left may still be at work. Moments are drawn over the progress
of the run (finished units of every kind, as the run folder shows them), so that no phase is spared, with a random wait
on top. What is killed descends from the driver that was started here: no other process is looked at.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "support"))
from drillcrawl import build
from drillproof import CLEANPIPE, prove, records, serial_run, units
from s3_server import KEYS, S3Server

PATIENCE = 5.0  # seconds without a finished unit after which the next kill comes all the same
QUIET = 120.0  # seconds without a finished unit after which a run is held for stuck
ENDING = 15.0  # seconds for what a dead driver left to end by itself
SIGNALS = (("SIGKILL", 16), ("SIGTERM", 2), ("SIGSTOP", 2))  # and how often, of twenty
DRIVER_SHARE = 0.12  # of the kills
Identity = tuple[int, str]  # of a process: its pid, and when it began


@dataclass
class Toll:
    """What was done to the runs, and what came of them."""

    hits: collections.Counter[str] = field(default_factory=collections.Counter)  # "worker SIGKILL" → times
    starts: int = 0  # of drivers
    runs: int = 0
    units: int = 0
    records: int = 0
    seconds: float = 0.0

    @property
    def kills(self) -> int:
        """All of them."""
        return self.hits.total()

    def table(self) -> str:
        """The lines of a Markdown table."""
        kinds = sorted({hit.split()[0] for hit in self.hits})
        lines = ["| hit | SIGKILL | SIGTERM | SIGSTOP, then SIGKILL |", "|---|---|---|---|"]
        for kind in kinds:
            lines.append(f"| {kind} | " + " | ".join(str(self.hits[f"{kind} {s}"]) for s, _ in SIGNALS) + " |")
        return "\n".join(lines)


class Folders:
    """Run folders on this machine's disk."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.environment: dict[str, str] = {}

    def out(self, name: str) -> str:
        """What --out is given."""
        return str(self.work / name)

    def finished(self, name: str) -> int:
        """Units of every kind that a run folder holds as finished."""
        done = self.work / name / "work" / "done"
        return _count(file for _, _, files in os.walk(done) for file in files)

    def fetch(self, name: str) -> Path:
        """A run folder to look into."""
        return self.work / name


class Bucket(Folders):
    """Run folders in an S3 that is served from here."""

    def __init__(self, work: Path, server: S3Server) -> None:
        super().__init__(work)
        self.server, self.bucket = server, server.bucket("chaos")
        self.environment = {**KEYS, "AWS_ENDPOINT_URL": server.url}

    def out(self, name: str) -> str:
        """What --out is given."""
        return f"s3://{self.bucket}/{name}"

    def _names(self, prefix: str) -> list[str]:
        pages = self.server.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [str(entry["Key"]) for page in pages for entry in page.get("Contents", ())]

    def finished(self, name: str) -> int:
        """By listing."""
        return _count(key.rpartition("/")[2] for key in self._names(f"{name}/work/done/"))

    def fetch(self, name: str) -> Path:
        """Downloaded."""
        for key in self._names(f"{name}/"):
            path = self.work / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.server.client.get_object(Bucket=self.bucket, Key=key)["Body"].read())
        return self.work / name


def _count(names: Iterable[str]) -> int:
    return sum(1000 if name.startswith("book-") else name.endswith(".json") for name in names)


@dataclass
class Chaos:
    """The runs of one campaign. total: units of every kind that a run has finished in the end."""

    crawl: Path
    options: Sequence[str]
    folders: Folders
    total: int
    rng: random.Random
    toll: Toll = field(default_factory=Toll)

    def run(self, name: str, kills: int) -> None:
        """One run to its end under ``kills`` kills.

        Raises:
            AssertionError: a driver ended otherwise than well or by our signal, or the run does not end.
        """
        out, rng, toll = self.folders.out(name), self.rng, self.toll
        line = [*CLEANPIPE, "run", "web", str(self.crawl), "--out", out, "--engine", "local", *self.options]
        due = collections.deque(sorted(rng.uniform(0, self.total) for _ in range(kills)))
        log = self.folders.work / f"{name}.log"
        began = moved = time.monotonic()  # moved: the last kill or unit that was finished
        driver, family, struck, done = self._start(line, log), set[Identity](), False, 0
        try:
            while (code := driver.poll()) != 0:
                if code is not None:
                    assert struck, f"the driver ended by itself with {code}:\n{log.read_text()[-3000:]}"
                    driver, struck = self._start(line, log), False
                family |= _family(driver.pid)
                if done != (done := self.folders.finished(name)):
                    moved = time.monotonic()
                still = time.monotonic() - moved
                assert still < QUIET, f"the run does not end:\n{log.read_text()[-3000:]}"
                if due and (done >= due[0] or still > PATIENCE):
                    time.sleep(rng.uniform(0, 0.15))
                    if (hit := self._strike(driver)) is not None:
                        due.popleft()
                        struck, moved = struck or hit, time.monotonic()
                time.sleep(0.01)
            toll.seconds += time.monotonic() - began
            left = _outlive(family)
            assert not left, f"still there {ENDING:.0f} s after the end: {left}"
        finally:
            for pid, started in (*family, *_family(driver.pid)):
                _send(pid, started, signal.SIGKILL)
            driver.wait()
        toll.runs += 1

    def _start(self, line: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        self.toll.starts += 1
        environment = {**os.environ, **self.folders.environment}
        with log.open("ab") as out:
            return subprocess.Popen(
                line, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )

    def _strike(self, driver: subprocess.Popen[bytes]) -> bool | None:
        """Hit one process; whether it was the driver, which then has ended. None: there was nothing to hit."""
        rng, own = self.rng, (driver.pid, _started(driver.pid))
        below = sorted(_family(driver.pid) - {own})
        name = rng.choices([s for s, _ in SIGNALS], [w for _, w in SIGNALS])[0]
        kind = "driver" if rng.random() < DRIVER_SHARE else "worker"
        if kind == "worker" and not below:
            return None
        pid, started = own if kind == "driver" else rng.choice(below)
        if not _send(pid, started, getattr(signal, name)):
            return None
        self.toll.hits[f"{kind} {name}"] += 1
        if name == "SIGSTOP":
            time.sleep(rng.uniform(0.1, 1.5))
            _send(pid, started, signal.SIGKILL)
        if kind == "driver":
            driver.wait(30)
        return kind == "driver"


def _send(pid: int, started: str, number: int) -> bool:
    if not started or _started(pid) != started:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def _started(pid: int) -> str:
    """When a process began, in ticks after boot; empty if it ended."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] == "Z" else fields[19]
    return ""


def _family(pid: int) -> set[Identity]:
    """A process and all that descend from it."""
    found, todo = set[Identity](), [pid]
    while todo:
        pid = todo.pop()
        if started := _started(pid):
            found.add((pid, started))
        with suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += map(int, (task / "children").read_text().split())
    return found


def _outlive(family: set[Identity]) -> list[int]:
    """Those of a family that do not end."""
    end = time.monotonic() + ENDING
    while left := [pid for pid, started in family if _started(pid) == started]:
        if time.monotonic() > end:
            break
        time.sleep(0.1)
    return left


def campaign(
    work: Path, kills: int, *, per_run: int, seed: int, workers: int, archives: int, unit_bytes: int, s3: bool = False
) -> Toll:
    """Runs under chaos until so many kills were made, each proven; ``per_run`` are planned for one."""
    crawl = build(work / "crawl", archives, 700)
    common = [f"--set=read.unit_bytes={unit_bytes}"]
    reference = serial_run(crawl, work / "serial", [*common, "--keep-work"])
    total = Folders(work).finished("serial")
    assert units(reference) >= 200, units(reference)
    with contextlib.ExitStack() as stack:
        folders = Bucket(work, stack.enter_context(S3Server())) if s3 else Folders(work)
        chaos = Chaos(crawl, [*common, f"--workers={workers}", "--quiet"], folders, total, random.Random(seed))
        while chaos.toll.kills < kills:
            name = f"run{chaos.toll.runs}"
            chaos.run(name, min(per_run, kills - chaos.toll.kills + 3))
            out = folders.fetch(name)
            prove(out, reference)
            chaos.toll.units += units(out)
            chaos.toll.records += records(out)
            shutil.rmtree(out)
    return chaos.toll


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--per-run", type=int, default=100, help="kills of one run; as many runs as are needed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--archives", type=int, default=6, help="generated archives of about 1.2 MB")
    parser.add_argument("--unit-bytes", type=int, default=32 << 10)
    parser.add_argument("--s3", action="store_true", help="run folders in an S3 that is served from here")
    opt = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        began = time.monotonic()
        toll = campaign(
            Path(folder),
            opt.kills,
            per_run=opt.per_run,
            seed=opt.seed,
            workers=opt.workers,
            archives=opt.archives,
            unit_bytes=opt.unit_bytes,
            s3=opt.s3,
        )
    sys.stdout.write(
        f"{toll.table()}\n\n{toll.kills} kills in {toll.runs} runs of {toll.units // toll.runs} units, {toll.starts} "
        f"driver starts, {toll.records:,} ledger rows, {toll.seconds:.0f} s of runs, {time.monotonic() - began:.0f} s "
        "in all; every run byte-identical to the serial one: 0 records lost, doubled or condemned\n"
    )


if __name__ == "__main__":
    main()
