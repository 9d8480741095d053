"""docker/health.py: which processes are a Ray node, and what an agent's answer means."""

import importlib.util
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docker" / "health.py"
spec = importlib.util.spec_from_file_location("health", SCRIPT)
health = importlib.util.module_from_spec(spec)
spec.loader.exec_module(health)

RAYLET = [
    "/opt/x/ray/core/src/ray/raylet/raylet",
    "--node_id=1",
    "--dashboard_agent_command=python agent.py --listen-port=52366 --a=1",
]
PROCESSES = [
    ("nothing", [], ([], False)),
    ("one command", [["/opt/x/python", "/opt/x/bin/cleanpipe", "run", "sample"]], ([], False)),
    ("a node", [["python", "/opt/x/bin/ray", "start", "--block"], RAYLET], ([52366], True)),
    ("a node that is not there yet", [["/opt/x/python", "/opt/x/bin/ray", "start", "--head", "--block"]], ([], True)),
    ("two nodes", [RAYLET, [*RAYLET[:2], "--listen-port=52400"]], ([52366, 52400], False)),
    ("a raylet that names no port", [RAYLET[:1]], ([52365], False)),
    ("a shell that speaks of them", [["bash", "-c", "ulimit -n 65536; ray start --head # raylet"]], ([], False)),
    ("a job", [["ray", "job", "submit", "--", "cleanpipe", "run", "web"]], ([], False)),
    ("a kernel thread", [[]], ([], False)),
]


@pytest.mark.parametrize(("what", "commands", "expected"), PROCESSES, ids=[p[0] for p in PROCESSES])
def test_processes_are_told_apart(what, commands, expected):
    assert health.agents(commands) == expected


def test_processes_are_read_as_they_are(tmp_path):
    for number, raw in ((1, b"ray\0start\0--block\0"), (22, b""), (333, b"\xff\xfe\0x\0")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "cmdline").write_bytes(raw)
    (tmp_path / "44").mkdir()
    (tmp_path / "44" / "cmdline").symlink_to("gone")  # it ended between the two looks
    (tmp_path / "self").mkdir()
    assert sorted(health.processes(tmp_path)) == [[], ["ray", "start", "--block"], ["\ufffd\ufffd", "x"]]


@pytest.fixture
def agent():
    """A function that serves one answer, and gives its port."""
    servers = []

    def serve(status, body, wait=0.0):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                time.sleep(wait)
                self.send_response(status if self.path == "/api/healthz" else 404)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        servers.append((server, thread))
        return server.server_port

    yield serve
    for server, thread in servers:
        server.shutdown()
        server.server_close()
        thread.join()


ANSWERS = [
    (200, b"raylet: success\ngcs: success", ""),
    (503, b"raylet: success\ngcs: RPC error", "503 raylet: success; gcs: RPC error"),
    (404, b"", "404"),
    (500, b"\xff" * 5000, "500"),
]


@pytest.mark.parametrize(("status", "body", "expected"), ANSWERS, ids=[str(a[0]) for a in ANSWERS])
def test_answers_of_an_agent(agent, status, body, expected):
    said = health.ask(agent(status, body))
    assert said.startswith(expected) and bool(said) == bool(expected)
    assert len(said) < 2100


def test_an_agent_that_is_not_there_or_says_nothing(agent, monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert "refused" in health.ask(free.getsockname()[1])
    monkeypatch.setattr(health, "SECONDS", 0.2)
    assert "timed out" in health.ask(agent(200, b"", wait=0.6))


def test_its_time_is_below_the_limit_of_the_image():
    text = SCRIPT.with_name("Dockerfile").read_text()
    assert f"--timeout={health.SECONDS + 2:.0f}s" in text


def test_it_runs_with_nothing_but_python(tmp_path):
    source = SCRIPT.read_text().replace('"/proc"', repr(str(tmp_path)))
    (tmp_path / "health.py").write_text(source)
    quiet = subprocess.run([sys.executable, "-I", "-S", tmp_path / "health.py"], capture_output=True, text=True)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "well\n", "")
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cmdline").write_bytes(b"python\0/usr/bin/ray\0start\0--block\0")
    wrong = subprocess.run([sys.executable, "-I", "-S", tmp_path / "health.py"], capture_output=True, text=True)
    assert (wrong.returncode, wrong.stdout) == (1, "ray start has no raylet\n")
