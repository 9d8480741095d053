"""``cleanpipe doctor --cluster``: reach a Ray cluster, look at every node of it, and hand the facts to the judge."""

from __future__ import annotations

import json
import logging
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cleanpipe.errors import ConfigError
from cleanpipe.registry import OWN_PACKAGES
from cleanpipe_jobs import doctor_node
from cleanpipe_jobs.doctor import Finding, told
from cleanpipe_jobs.doctor_driver import MARK
from cleanpipe_jobs.doctor_judge import AUTH, judge, missing, refused
from cleanpipe_jobs.reach import storage_options

KNOCK, HANDSHAKE = 4.0, 5.0  # seconds for a connection to be taken, and for its server to speak as Ray does
CONNECT, ANSWER = 60.0, 60.0  # seconds to join the cluster; for all nodes to answer
ATTEMPTS, TIMEOUT = 3, 10.0  # of storage: a doctor has no patience for storms


@dataclass(slots=True)
class Visit:
    """What came back from a cluster."""

    address: str
    here: dict[str, Any]  # facts of this machine
    connected: str = ""
    driver: dict[str, Any] = field(default_factory=dict)
    beacon: dict[str, Any] = field(default_factory=dict)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    left: str = ""
    carried: bool = False  # cleanpipe is not on the head: the job brought it along
    ended: bool = False

    def take(self, facts: dict[str, Any]) -> None:
        """One line of the driver's."""
        if "node" in facts:
            self.nodes.append(facts["node"])
        self.connected = facts.get("connected", self.connected)
        self.driver = facts.get("driver", self.driver)
        self.beacon = facts.get("beacon", self.beacon)
        self.failed = facts.get("failed", self.failed)
        self.left = facts.get("left", self.left)
        self.ended = self.ended or "end" in facts


def doctor_cluster(args: Namespace) -> int:
    """Print all findings; 1 if something is wrong.

    Raises:
        ConfigError: an address or a storage option that cannot be meant.
    """
    options = storage_options(args.sets)
    storage = None
    if args.storage:
        root = args.storage if "://" in args.storage else str(Path(args.storage).resolve())
        patient = {"attempts": min(options.attempts, ATTEMPTS), "timeout": min(options.timeout, TIMEOUT)}
        storage = {"root": root.rstrip("/"), "options": {**asdict(options), **patient}}
    address = args.address or os.environ.get("RAY_ADDRESS") or "auto"
    findings = examine(address, storage)
    return told(findings, as_json=args.json)


def examine(address: str, storage: dict[str, Any] | None) -> list[Finding]:
    """All findings about the cluster at an address: HOST:PORT, http:// (as a job there), or "auto"."""
    if (silent := knock(address)) is not None:
        return [silent]
    token = secrets.token_hex(6)
    here = doctor_node.look(token, None)
    if not here["ray"]:
        return [Finding("ray here", "wrong", "not installed", "pip install 'ray[default]'")]
    asked = {"token": token, "patience": ANSWER, "storage": storage}
    visit = Visit(address, here)
    if address.startswith(("http://", "https://")):
        _by_job(visit, {**asked, "address": "auto"}, carry=False)
        if not visit.nodes and missing(visit.failed):  # of those whose code travels with the job
            first, visit.failed, visit.carried = visit.failed, {}, True
            _by_job(visit, {**asked, "address": "auto"}, carry=True)
            if not visit.nodes:
                visit.failed, visit.carried = first, False
    else:
        for facts in _child({**asked, "address": address}):
            visit.take(facts)
    if not visit.failed and not visit.nodes:
        visit.failed = {"kind": "Driver", "error": "the program that was to look at it ended without an answer"}
    if visit.failed:
        return [*refused(visit.address, visit.failed, here), *(judge(visit, storage) if visit.nodes else [])]
    return judge(visit, storage)


def _by_job(visit: Visit, asked: dict[str, Any], *, carry: bool) -> None:
    job = _Job(visit.address, asked, carry=carry)
    try:
        for facts in job.lines():
            visit.take(facts)
    except Exception as error:  # of Ray's client, of many kinds
        visit.failed = {"kind": type(error).__name__, "error": " ".join(str(error).split())[:1000]}
    finally:
        job.end()


def knock(address: str) -> Finding | None:
    """What is wrong with an address that nobody answers at; None if somebody does."""
    if address in ("auto", "local"):
        return None
    parts = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if parts.scheme == "ray":
        raise ConfigError(f"--address {address}: Ray Client loses its run with its connection: use http://{host}:8265")
    known = {"http": 8265, "https": 443, "": None}
    if host is None or parts.scheme not in known or (port := port or known[parts.scheme]) is None:
        raise ConfigError(
            f"--address {address}: HOST:6379 from inside the cluster, http://HOST:8265 from outside, or auto"
        )
    mend = (
        "is the head up, and is this its address? On the head: ray start --head --port 6379 --dashboard-host 0.0.0.0; "
        "from outside use the dashboard: --address http://HEAD:8265"
    )
    if why := _silent(host, port):
        return Finding("address", "wrong", f"nothing behind {address}: {why}", mend)
    if parts.scheme in ("http", "https"):
        return _dashboard(address)
    if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
        return None
    return _head(address, f"{host}:{port}", mend)


def _silent(host: str, port: int) -> str:
    """Why a connection was not taken in time, the finding of its name included; "" if it was."""
    answer = ["no answer"]

    def connect() -> None:
        try:
            with socket.create_connection((host, port), timeout=KNOCK):
                answer[0] = ""
        except OSError as error:
            answer[0] = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)

    thread = threading.Thread(target=connect, name="knock", daemon=True)  # a resolver has no time-out
    thread.start()
    thread.join(KNOCK)
    return answer[0]


def _head(address: str, place: str, mend: str) -> Finding | None:
    """What is wrong with a server that is no Ray head, or wants a token that we do not show: Ray itself would try to
    join it for 20 seconds and then not say why it could not. None too where that cannot be asked.
    """
    try:
        grpc: Any = import_module("grpc")
    except ImportError:
        return None
    channel = grpc.insecure_channel(place, options=[("grpc.enable_http_proxy", 0)])
    try:
        channel.unary_unary("/ray.rpc.NodeInfoGcsService/CheckAlive")(b"", timeout=HANDSHAKE)
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.UNAUTHENTICATED:
            mode = os.environ.get("RAY_AUTH_MODE")
            found = f"{address} wants a token, and RAY_AUTH_MODE here is {mode or 'not set'}"
            return None if (mode or "").lower() == "token" else Finding("auth", "wrong", found, AUTH)
        return Finding("address", "wrong", f"{address} does not answer as the head of a Ray cluster does", mend)
    finally:
        channel.close()
    return None


def _dashboard(address: str) -> Finding | None:
    import http.client

    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=HANDSHAKE)
    try:
        connection.request("GET", parts.path.rstrip("/") + "/api/version")
        answer = connection.getresponse()
        if answer.status in (401, 403):
            return (
                Finding("auth", "wrong", f"{address} wants a token ({answer.status})", AUTH) if not _token() else None
            )
        json.loads(answer.read(1 << 16))["ray_version"]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        found = f"{address} is no Ray dashboard"
        return Finding("address", "wrong", found, "--address http://HEAD:8265, the dashboard's port")
    finally:
        connection.close()
    return None


def _token() -> bool:
    place = os.environ.get("RAY_AUTH_TOKEN_PATH") or str(Path.home() / ".ray" / "auth_token")
    there = bool(os.environ.get("RAY_AUTH_TOKEN")) or Path(place).is_file()
    return there and os.environ.get("RAY_AUTH_MODE", "").lower() == "token"


def _facts(line: str) -> dict[str, Any] | None:
    if not line.startswith(MARK):
        return None
    with suppress(ValueError):
        return dict(json.loads(line[len(MARK) :]))
    return None


def _child(asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Lines of a process that joins the cluster from here; it is ended when its time is up."""
    command = [sys.executable, "-m", "cleanpipe_jobs.doctor_driver", json.dumps(asked)]
    quiet = subprocess.DEVNULL
    child = subprocess.Popen(command, stdin=quiet, stdout=subprocess.PIPE, stderr=quiet, start_new_session=True)
    assert child.stdout is not None
    os.set_blocking(child.stdout.fileno(), False)
    stop, held = time.monotonic() + CONNECT, b""
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(child.stdout, selectors.EVENT_READ)
            while (left := stop - time.monotonic()) > 0:
                if not ready.select(left):
                    continue
                data = os.read(child.stdout.fileno(), 1 << 16)
                if not data:
                    return
                *lines, held = (held + data).split(b"\n")
                for line in lines:
                    facts = _facts(line.decode("utf-8", "replace"))
                    if facts is not None:
                        stop = time.monotonic() + ANSWER + 30 if "connected" in facts else stop
                        yield facts
        yield {"failed": {"kind": "TimeoutError", "error": f"no answer in {CONNECT:.0f} s"}}
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()


def _own_code() -> dict[str, Any]:
    """Our code as a runtime environment."""
    folders = [next(iter(import_module(name).__path__)) for name in OWN_PACKAGES]
    return {"py_modules": folders}


class _Job:
    """The same as a job of the cluster: what ``ray job submit`` would do, so what breaks that is found too.

    carry: the code lying here travels along.
    """

    def __init__(self, address: str, asked: dict[str, Any], *, carry: bool) -> None:
        self.address, self.asked, self.carry = address, asked, carry
        self._client: Any = None
        self._id = ""

    def lines(self) -> Iterator[dict[str, Any]]:
        """Facts, once the job has ended."""
        import shlex

        jobs = import_module("ray.job_submission")
        logging.getLogger("ray").setLevel(logging.ERROR)  # it tells of each upload
        self._client = jobs.JobSubmissionClient(self.address)
        entry = f"python -m cleanpipe_jobs.doctor_driver {shlex.quote(json.dumps(self.asked))}"
        self._id = self._client.submit_job(entrypoint=entry, runtime_env=_own_code() if self.carry else None)
        stop = time.monotonic() + CONNECT + ANSWER + 30
        ends = (jobs.JobStatus.SUCCEEDED, jobs.JobStatus.FAILED, jobs.JobStatus.STOPPED)
        while (status := self._client.get_job_status(self._id)) not in ends and time.monotonic() < stop:
            time.sleep(0.5)
        logs = self._client.get_job_logs(self._id)
        found = [f for line in logs.splitlines() if (f := _facts(line)) is not None]
        yield from found
        if not found:
            last = [line for line in logs.splitlines() if line.strip()][-1:]
            why = last[0] if last else self._client.get_job_info(self._id).message or "no output"
            yield {"failed": {"kind": "Job", "error": f"the job is {status}: {' '.join(why.split())[:500]}"}}

    def end(self) -> None:
        """Stopped, if it still runs, and removed from the cluster's list."""
        if self._client is not None and self._id:
            with suppress(Exception):
                self._client.stop_job(self._id)
            with suppress(Exception):
                self._client.delete_job(self._id)
