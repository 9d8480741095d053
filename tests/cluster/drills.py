"""A drill: a job on the cluster, a fault at a chosen moment, and the proof that it did no harm."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drillproof import prove
from netcluster import HEAD, NetCluster, Process
from s3_server import S3Server

BUCKET = "drills"
UNIT_BYTES = 160 << 10  # some fifty units
OPTIONS = (f"--set=read.unit_bytes={UNIT_BYTES}",)
TABLE = Path(__file__).parents[2] / "build" / "drills.md"
ENDS = 240.0  # seconds in which a run of this size ends, whatever happened to it; a quarter of that on an idle machine
CLIENT = "s3"  # the host that jobs are submitted from: it outlives every fault


@dataclass
class Job:
    """One `ray job submit`, followed to its end from another host than the cluster's."""

    name: str
    number: int
    command: subprocess.Popen[bytes]
    log: Path

    @property
    def id(self) -> str:
        """The submission id."""
        return f"{self.name}-{self.number}"

    @property
    def text(self) -> str:
        """What the driver, and the command that follows it, have printed."""
        return self.log.read_text(errors="replace")


@dataclass
class Drills:
    """cluster, S3, and what was measured."""

    cluster: NetCluster
    s3: S3Server
    folder: Path
    reference: Path
    rows: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    calm: float = 0.0

    def upload(self, folder: Path, prefix: str) -> None:
        """Put the files of a folder below a prefix of the bucket."""

        def put() -> None:
            for path in sorted(folder.iterdir()):
                self.s3.client.put_object(Bucket=BUCKET, Key=f"{prefix}/{path.name}", Body=path.read_bytes())

        self.cluster.within("s3", put)

    def names(self, prefix: str) -> list[str]:
        """Objects below a prefix."""

        def ask() -> list[str]:
            pages = self.s3.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{prefix}/")
            return [entry["Key"] for page in pages for entry in page.get("Contents", ())]

        return self.cluster.within("s3", ask)

    def uploads(self, prefix: str) -> list[str]:
        """Uploads in parts that nobody ended, below a prefix."""

        def ask() -> list[str]:
            answer = self.s3.client.list_multipart_uploads(Bucket=BUCKET)
            return [u["Key"] for u in answer.get("Uploads", ()) if u["Key"].startswith(f"{prefix}/")]

        return self.cluster.within("s3", ask)

    def fetch(self, prefix: str) -> Path:
        """All objects below a prefix, as files."""
        target = self.folder / "fetched" / prefix
        shutil.rmtree(target, ignore_errors=True)
        names = self.names(prefix)

        def get() -> None:
            for name in names:
                path = target / name.removeprefix(f"{prefix}/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.s3.client.get_object(Bucket=BUCKET, Key=name)["Body"].read())

        self.cluster.within("s3", get)
        return target

    def drill(self, name: str) -> Drill:
        """A new one, on a whole cluster and a faultless store; what a failed one left is ended."""
        self.s3.forget()
        for node in (CLIENT, HEAD):
            for process in self.cluster.processes(node, "cleanpipe", "run", f"s3://{BUCKET}/"):
                process.send(signal.SIGKILL)
        self.cluster.mend()
        return Drill(self, name)

    def report(self) -> None:
        """Write the table of times."""
        lines = [
            "| fault | at unit | ended by | seconds from the fault to the end | seconds in all |",
            "|---|---|---|---|---|",
        ]
        TABLE.parent.mkdir(exist_ok=True)
        TABLE.write_text("\n".join([*lines, *(f"| {' | '.join(row)} |" for row in self.rows)]) + "\n")


@dataclass
class Drill:
    """One run folder."""

    of: Drills
    name: str
    jobs: list[Job] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    struck: float = 0.0
    at: int = 0
    retries: int = 0  # tries that the fault cost the run that ended
    _read: int = 0  # of the server's log
    _finished: set[str] = field(default_factory=set)

    @property
    def out(self) -> str:
        """The run folder."""
        return f"s3://{BUCKET}/{self.name}"

    @property
    def line(self) -> list[str]:
        """The command, the same at each start."""
        given = f"s3://{BUCKET}/crawl/"
        return ["cleanpipe", "run", "web", given, "--out", self.out, "--engine", "ray", *OPTIONS]

    def submit(self) -> Job:
        """Start the line as a job, and follow it."""
        number = len(self.jobs) + 1
        log = self.of.folder / f"{self.name}-{number}.log"
        command = ["ray", "job", "submit", "--address", self.of.cluster.dashboard]
        command += ["--submission-id", f"{self.name}-{number}", "--", *self.line]
        job = Job(self.name, number, self.of.cluster.start_program(CLIENT, command, log), log)
        self.jobs.append(job)
        return job

    def units(self) -> int:
        """Units of the first pass that were finished, as the server has seen it."""
        pattern = rf"^/{BUCKET}/{self.name}/work/done/pass0/[0-9a-f]+\.json$"
        requests = self.of.s3.app.requests
        for request in requests[self._read :]:
            if request.status == "":
                break  # not answered yet: looked at again
            self._read += 1
            if request.method == "PUT" and request.status == "200" and re.match(pattern, request.path):
                self._finished.add(request.path)
        return len(self._finished)

    def wait(self, true: Callable[[], Any], what: str, seconds: float = ENDS) -> None:
        """Until something is true, while the last job is at work.

        Raises:
            AssertionError: it ended, or the time is over; with its log.
        """
        end, job = time.monotonic() + seconds, self.jobs[-1]
        while not true():
            assert time.monotonic() < end, f"waited {seconds:.0f} s for {what}\n{job.text[-3000:]}"
            assert job.command.poll() is None, f"the job ended before {what}\n{job.text[-3000:]}"
            time.sleep(0.05)

    def wait_units(self, count: int) -> None:
        """Until so many units of the first pass are finished."""
        self.wait(lambda: self.units() >= count, f"{count} units")

    def strike(self) -> None:
        """The moment of the fault."""
        self.struck, self.at = time.monotonic(), self.units()

    def end(self, seconds: float = ENDS) -> int:
        """Wait for the last job; its exit status."""
        job = self.jobs[-1]
        try:
            return job.command.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the job does not end in {seconds:.0f} s\n{job.text[-3000:]}") from None

    def finish(self, *, again: bool = False, how: str = "itself") -> None:
        """The run ends well: by itself, or, if ``again``, by the same line once more; then it is proven."""
        if again:
            failed = self.end() != 0  # the command ends with 0 after a job that was stopped
            assert failed or "was stopped" in self.jobs[-1].text, self.jobs[-1].text[-3000:]
            self.of.cluster.mend()
            self.submit()
            how = "the same line again"
        status = self.end()
        assert status == 0, self.jobs[-1].text[-4000:]
        now = time.monotonic()
        self.prove()
        since = f"{now - self.struck:.1f}" if self.struck else ""
        self.of.rows.append((self.name, str(self.at or ""), how, since, f"{now - self.began:.1f}"))

    def prove(self) -> None:
        """Fetched whole, the run is what the serial one is, and no upload was left."""
        folder = self.of.fetch(self.name)
        prove(folder, self.of.reference)
        facts = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        if len(self.jobs) > 1:  # what was done before the fault was not done again
            assert facts["units"]["resumed"] >= self.at, facts["units"]
        self.retries = int(facts["units"]["retries"])
        assert not self.of.uploads(self.name)

    def processes(self, node: str, *words: str) -> list[Process]:
        """Of a node; see NetCluster."""
        return self.of.cluster.processes(node, *words)

    def find(self, node: str, *words: str) -> Process:
        """The youngest such process, once there is one."""
        found: list[Process] = []

        def look() -> bool:
            found[:] = self.processes(node, *words)
            return bool(found)

        self.wait(look, f"a process {words} on {node}", 30)
        return found[-1]

    def driver(self) -> Process:
        """The driver's process, on the head."""
        return next(
            p
            for p in self.processes(HEAD, "cleanpipe", "run", self.out)
            if re.search(r"python", p.words[0]) and p.words[1] != "-c"
        )

    def stop(self) -> None:
        """`ray job stop`: SIGTERM, and SIGKILL three seconds later."""
        job = self.jobs[-1]
        self.of.cluster.run(CLIENT, "ray", "job", "stop", "--address", self.of.cluster.dashboard, job.id)


def kill(process: Process) -> None:
    """SIGKILL; the process is there to be killed."""
    assert process.send(signal.SIGKILL), "it had ended already: the fault did not happen"
