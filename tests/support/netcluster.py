"""A real Ray cluster of several nodes on one Linux machine, with links to cut and nodes to kill.

Each node is ``ray start --block`` in network, PID and mount namespaces of its own (a PID namespace too: Ray looks
through /proc for other Rays, and ends processes by name), with an address on a bridge that lives in a namespace of its
own. The machine's own network is not touched and nothing can leave. More hosts, such as an S3 server, are namespaces on
the same bridge without a Ray. Needs root, iproute2 and util-linux.

All names hold the process id and start time of the program that made the cluster: two programs do not meet, and what a
killed one left is removed by the next. What is killed is what lives in a cluster's own namespaces, never a name.

    with NetCluster(workers=2, hosts=["s3"]) as cluster:
        cluster.start_program("s3", [sys.executable, "server.py"])
        cluster.run("head", "ray", "job", "submit", …)
        cluster.kill_node("w1"); cluster.cut("w2"); cluster.join("w2"); cluster.mend()
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")
BIN = Path(sys.executable).parent
NAME = re.compile(r"cpn(\d+)x(\d+)-")
NET = "10.99.0"
HEAD = "head"
STARTING = 90.0  # seconds for a node to join; eight on an idle machine

# a death is seen after seconds instead of a minute (Ray's defaults are for busy clusters), a call of a silent peer ends
RAY_ENVIRONMENT = {
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "1",
    "RAY_worker_niceness": "0",  # 15 by default: on a busy machine nothing would move
    "RAY_task_oom_retries": "1",
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1500",
    "RAY_health_check_timeout_ms": "1500",
    "RAY_health_check_failure_threshold": "5",  # with 3 a busy machine sees deaths that are none
    "RAY_memory_monitor_refresh_ms": "0",  # counts the whole machine's memory: three nodes here would each count all
}


def why_not() -> str:
    """What this machine lacks for a cluster; empty if nothing."""
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        return "network namespaces need root on Linux"
    missing = [name for name in ("ip", "nsenter", "unshare", "setpriv") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not installed (iproute2, util-linux)"
    probe = f"cpn{_mark(os.getpid())}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"no network namespace can be made here: {made.stderr.strip()}"
    _ip("netns", "del", probe)
    return ""


@dataclass(frozen=True)
class Process:
    """A process of a node, as this machine sees it."""

    pid: int
    started: str  # ticks after boot: with the pid, its identity
    words: tuple[str, ...]

    @property
    def line(self) -> str:
        """Its command line."""
        return " ".join(self.words)

    def send(self, number: int) -> bool:
        """Send a signal, unless the process has ended meanwhile."""
        if _started(self.pid) != self.started:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)
        return True


class NetCluster:
    """See the module. Nodes are named head, w1, w2, …"""

    def __init__(
        self,
        workers: int = 2,
        *,
        hosts: Sequence[str] = (),
        head_cpus: int = 0,
        cpus: int = 1,
        environment: Mapping[str, str] | None = None,
        store_bytes: int = 80_000_000,
    ) -> None:
        self.mark = f"cpn{_mark(os.getpid())}"
        self.folder = Path("/tmp") / self.mark  # short: the path of a Unix socket ends at 107 bytes
        self.cpus = {HEAD: head_cpus} | {f"w{n}": cpus for n in range(1, workers + 1)}
        self.hosts = tuple(hosts)
        self.store_bytes = store_bytes
        path = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
        self.environment = {**os.environ, "PATH": path, **RAY_ENVIRONMENT, **(environment or {})}
        self.environment.pop("RAY_ADDRESS", None)
        names = (*self.cpus, *self.hosts)
        self.addresses = {name: f"{NET}.{n}" for n, name in enumerate(names, 1)}
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._programs: list[subprocess.Popen[bytes]] = []
        self._threads: dict[str, ThreadPoolExecutor] = {}

    @property
    def address(self) -> str:
        """For RAY_ADDRESS of a driver."""
        return f"{self.addresses[HEAD]}:6379"

    @property
    def dashboard(self) -> str:
        """For `ray job submit --address`."""
        return f"http://{self.addresses[HEAD]}:8265"

    def space(self, name: str) -> str:
        """The network namespace of a node or host."""
        return f"{self.mark}-{name}"

    # life

    def __enter__(self) -> Self:
        sweep()
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        try:
            self._wire()
            self.mend()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in (*self.cpus, *self.hosts):
            self.kill_node(name)
        for program in self._programs:
            program.wait()
        for thread in self._threads.values():
            thread.shutdown()
        _remove(self.mark)

    def _wire(self) -> None:
        switch = self.space("sw")
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "br0", "type", "bridge")
        _ip("-n", switch, "link", "set", "br0", "up")
        for name, address in self.addresses.items():
            space = self.space(name)
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
            _ip("link", "add", "eth0", "netns", space, "type", "veth", "peer", "name", f"p-{name}", "netns", switch)
            _ip("-n", switch, "link", "set", f"p-{name}", "master", "br0", "up")
            _ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")

    def _start_node(self, name: str) -> None:
        log = self.folder / f"{name}.log"
        log.write_text("")
        role = ["--head", "--port=6379", "--dashboard-host=0.0.0.0"] if name == HEAD else [f"--address={self.address}"]
        command = [
            *("setpriv", "--pdeathsig", "KILL", "ip", "netns", "exec", self.space(name)),
            *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *(f"{BIN}/ray", "start", "--block", *role, f"--node-ip-address={self.addresses[name]}"),
            *(f"--num-cpus={self.cpus[name]}", f"--object-store-memory={self.store_bytes}"),
            *(f"--temp-dir={self.folder}/{name}", "--disable-usage-stats"),
        ]
        with log.open("ab") as out:
            given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out, "env": self.environment}
            # a driver's folder, which is this, comes first where its workers look for code
            self._nodes[name] = subprocess.Popen(command, cwd=self.folder, start_new_session=True, **given)

    def mend(self) -> None:
        """Every link up and every node there: what is missing is started, a cluster without its head anew."""
        for name in self.addresses:
            self.join(name)
        self.signal(self.cpus, signal.SIGCONT)
        if not self._up(HEAD):
            for name in self.cpus:
                self.kill_node(name)  # workers do not come back to a new head
            self._start_node(HEAD)
            self.wait(lambda: self.alive() >= {HEAD}, "the head to start")
        before = self._members()
        dead = {name for name in self.cpus if not self._up(name)} | (self.cpus.keys() - set(before.values()))
        for name in sorted(dead):
            self.kill_node(name)
            self._start_node(name)
        gone = {node for node, name in before.items() if name in dead}  # the head may not have seen it yet

        def whole() -> bool:
            members = self._members()
            return set(members.values()) == self.cpus.keys() and not members.keys() & gone

        self.wait(whole, f"{len(self.cpus)} nodes")

    def _up(self, name: str) -> bool:
        return name in self._nodes and self._nodes[name].poll() is None

    def alive(self) -> set[str]:
        """The nodes that the head holds for alive; empty if it does not answer."""
        return set(self._members().values())

    def _members(self) -> dict[str, str]:
        """Ray's id of each node that the head holds for alive → our name."""
        names = {address: name for name, address in self.addresses.items()}
        try:
            nodes = json.loads(self.get(f"{self.dashboard}/api/v0/nodes?limit=1000"))["data"]["result"]["result"]
        except (ValueError, KeyError, TypeError):
            return {}
        return {n["node_id"]: names[n["node_ip"]] for n in nodes if n["state"] == "ALIVE"}

    def get(self, url: str) -> str:
        """An HTTP answer as the head's host sees it; empty if there is none."""

        def ask() -> str:
            with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
                return str(answer.read().decode())
            return ""

        return self.within(HEAD, ask)

    def within(self, name: str, function: Callable[[], T]) -> T:
        """What a function gives that runs in a thread on the network of a node or host. Threads that it starts, and
        sockets that it opens, stay there.
        """
        if name not in self._threads:
            space = f"/var/run/netns/{self.space(name)}"
            self._threads[name] = ThreadPoolExecutor(1, initializer=_enter, initargs=(space,))
        return self._threads[name].submit(function).result()

    # programs

    def _inside(self, name: str) -> list[str]:
        """The words that put a command into a node: beside its `ray start`, which is process 1 there."""
        for process in self.processes(name):
            with suppress(OSError):
                status = Path(f"/proc/{process.pid}/status").read_text()
                spaces = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
                if len(spaces) > 2 and spaces[-1] == "1":
                    return ["nsenter", "-t", str(process.pid), "-p", "-n", "-m", "--"]
        return ["ip", "netns", "exec", self.space(name)]

    def run(
        self, name: str, *command: str, seconds: float = 120, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A command on a node or host, to its end; standard error lies in its output."""
        return subprocess.run(
            [*self._inside(name), *command],
            env={**self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )

    def start_program(
        self, name: str, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A command on a node or host that runs on; what it prints goes to ``log``."""
        with log.open("ab") as out:
            program = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self._inside(name), *command],
                env={**self.environment, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._programs.append(program)
        return program

    def processes(self, name: str, *words: str) -> list[Process]:
        """Processes of a node or host, oldest first; of those whose command line holds each of ``words``."""
        found = []
        for pid in map(int, _ip("netns", "pids", self.space(name), check=False).split()):
            with suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                found.append(Process(pid, _started(pid), tuple(line.rstrip("\0").split("\0"))))
        found.sort(key=lambda p: (int(p.started or 0), p.pid))
        return [p for p in found if all(word in p.line for word in words)]

    # faults

    def kill_node(self, name: str) -> None:
        """End every process of a node or host at once."""
        _end_all(self.space(name))
        if name in self._nodes:
            self._nodes.pop(name).wait()

    def signal(self, names: Iterable[str], number: int) -> None:
        """Send a signal to every process of some nodes."""
        for name in names:
            for process in self.processes(name):
                process.send(number)

    def cut(self, name: str) -> None:
        """Cut a node off: the switch's side of its link goes down, so that no packet and no reset arrives."""
        _ip("-n", self.space("sw"), "link", "set", f"p-{name}", "down")

    def join(self, name: str) -> None:
        """Mend the link of a node."""
        _ip("-n", self.space("sw"), "link", "set", f"p-{name}", "up")

    def wait(self, true: Callable[[], Any], what: str, seconds: float = STARTING) -> None:
        """Until something is true.

        Raises:
            TimeoutError: with what was waited for and the end of the nodes' logs.
        """
        end = time.monotonic() + seconds
        while not true():
            if time.monotonic() > end:
                logs = "\n".join(f"--- {p.name}\n{p.read_text()[-1500:]}" for p in sorted(self.folder.glob("*.log")))
                raise TimeoutError(f"waited {seconds:.0f} s for {what}\n{logs}")
            time.sleep(0.2)


def sweep() -> None:
    """Remove what killed programs left of their clusters."""
    found = {m.group(0)[:-1]: m for line in _ip("netns", "list", check=False).splitlines() if (m := NAME.match(line))}
    for path in Path("/tmp").glob("cpn*x*"):
        if m := NAME.match(f"{path.name}-"):
            found[path.name] = m
    for mark, m in found.items():
        if _started(int(m.group(1))) != m.group(2):
            _remove(mark)


def _end_all(space: str) -> None:
    """End every process of a network namespace at once."""
    for _ in range(100):
        pids = [int(p) for p in _ip("netns", "pids", space, check=False).split()]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not pids:
            break
        time.sleep(0.05)


def _remove(mark: str) -> None:
    for space in [line.split()[0] for line in _ip("netns", "list", check=False).splitlines() if line.strip()]:
        if space.startswith(f"{mark}-"):
            _end_all(space)
            _ip("netns", "del", space, check=False)
    shutil.rmtree(Path("/tmp") / mark, ignore_errors=True)


def _enter(space: str) -> None:
    """Put this thread into a network namespace."""
    handle = os.open(space, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(handle, 0x40000000):  # CLONE_NEWNET; os.setns is of Python 3.12
            raise OSError(ctypes.get_errno(), f"setns {space}")
    finally:
        os.close(handle)


def _started(pid: int) -> str:
    """When a process began, in ticks after boot; empty if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]


def _mark(pid: int) -> str:
    return f"{pid}x{_started(pid)}"


def _ip(*words: str, check: bool = True) -> str:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
