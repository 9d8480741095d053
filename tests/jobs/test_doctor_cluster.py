"""The doctor's visit: to addresses with nothing behind them, to what is no Ray, and to a real one."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cleanpipe_jobs import doctor_cluster
from cleanpipe_jobs.cli import main

pytest.importorskip("ray")


def ask(capsys, *args):
    """Status and the findings by name."""
    status = main(["doctor", "--cluster", "--json", *args])
    return status, {f["what"]: f for f in json.loads(capsys.readouterr().out)}


@pytest.fixture
def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "http://127.0.0.1:{}", "no-such-host.invalid:{}"])
def test_nothing_behind_an_address_is_told_soon(form, free_port, capsys):
    began = time.monotonic()
    status, found = ask(capsys, "--address", form.format(free_port))
    assert time.monotonic() - began < 10
    assert status == 1
    assert found["address"]["found"].startswith("nothing behind")
    assert "ray start --head" in found["address"]["mend"]


@pytest.fixture
def short(monkeypatch):
    """Short waits; the real ones end in time too."""
    assert doctor_cluster.KNOCK + doctor_cluster.HANDSHAKE < 10
    monkeypatch.setattr(doctor_cluster, "KNOCK", 0.5)
    monkeypatch.setattr(doctor_cluster, "HANDSHAKE", 0.5)


def test_an_address_that_swallows_everything(capsys, short):
    with socket.socket() as s:  # its queue is full: connections are not taken
        s.bind(("127.0.0.1", 0))
        s.listen(0)
        with socket.socket() as one, socket.socket() as two:
            for filler in (one, two):
                filler.setblocking(False)
                filler.connect_ex(s.getsockname())
            began = time.monotonic()
            status, found = ask(capsys, "--address", f"127.0.0.1:{s.getsockname()[1]}")
    assert time.monotonic() - began < 10
    assert status == 1
    assert found["address"]["state"] == "wrong"


def test_a_server_that_never_speaks(capsys, short):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(8)
        began = time.monotonic()
        status, found = ask(capsys, "--address", f"127.0.0.1:{s.getsockname()[1]}")
        assert time.monotonic() - began < 10
        assert status == 1
        assert "does not answer as the head" in found["address"]["found"]


@pytest.fixture
def web():
    """A web server that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(self.server.status)
            self.end_headers()
            self.wfile.write(b"<html>a printer</html>")

        def log_message(self, *args):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.status = 200
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def test_a_web_server_is_no_dashboard(web, capsys):
    status, found = ask(capsys, "--address", f"http://127.0.0.1:{web.server_port}")
    assert (status, "no Ray dashboard" in found["address"]["found"]) == (1, True)


def test_a_dashboard_that_wants_a_token(web, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    web.status = 401
    status, found = ask(capsys, "--address", f"http://127.0.0.1:{web.server_port}")
    assert (status, "wants a token (401)" in found["auth"]["found"]) == (1, True)
    assert "RAY_AUTH_MODE" in found["auth"]["mend"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--cluster", "--address", "head"], "--address head: HOST:6379"),
        (["--cluster", "--address", "ftp://head:1"], "HOST:6379"),
        (["--cluster", "--address", "ray://head:10001"], "use http://head:8265"),
        (["--cluster", "--address", "head:port"], "HOST:6379"),
        (["--cluster", "--address", "h:1", "--set", "guards.memory=1"], "only storage.…"),
        (["--address", "h:1"], "--address needs --cluster"),
        (["--storage", "s3://bucket/x"], "--storage needs --cluster"),
    ],
)
def test_what_is_asked_wrongly(args, said, capsys):
    assert main(["doctor", *args]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "kind"),
    [
        ("exit 1", "Driver"),
        ("while :; do echo a line without an end in sight; done", "TimeoutError"),
        ("exec sleep 600", "TimeoutError"),
        ("echo 'cleanpipe-doctor: {'; echo 'cleanpipe-doctor: []'; kill -9 $$", "Driver"),
    ],
)
def test_a_driver_that_dies_or_hangs_does_not_take_the_doctor_along(program, kind, monkeypatch, tmp_path):
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\n{program}\n")
    script.chmod(0o755)
    monkeypatch.setattr(doctor_cluster, "CONNECT", 1.0)
    monkeypatch.setattr(sys, "executable", str(script))
    began = time.monotonic()
    (finding,) = doctor_cluster.examine("auto", None)
    assert time.monotonic() - began < 20
    assert finding.state == "wrong"
    assert {"Driver": "without an answer", "TimeoutError": "no answer in 1 s"}[kind] in finding.found


@pytest.mark.ray
@pytest.mark.slow
def test_a_real_ray(tmp_path):
    ray = pytest.importorskip("ray")
    (tmp_path / "shared").mkdir()
    env = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    keep = ("RAY_grpc_client_keepalive_time_ms", "RAY_grpc_client_keepalive_timeout_ms")
    before = {name: os.environ.get(name) for name in ("RAY_AUTH_MODE", *keep)}
    os.environ.update(RAY_AUTH_MODE="disabled", **dict.fromkeys(keep, "10000"))
    try:
        ray.init(
            num_cpus=1,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="error",
            object_store_memory=80 << 20,
        )
        address = ray.get_runtime_context().gcs_address

        def ask(**more):
            command = [
                sys.executable,
                "-m",
                "cleanpipe_jobs.cli",
                "doctor",
                "--cluster",
                "--json",
                "--address",
                address,
            ]
            done = subprocess.run(
                [*command, "--storage", str(tmp_path / "shared")], env={**env, **more}, capture_output=True, text=True
            )
            return done.returncode, {f["what"]: f for f in json.loads(done.stdout)}

        status, found = ask(**dict.fromkeys(keep, "10000"))
        assert [
            f for f in found.values() if f["state"] == "wrong" and f["what"] not in ("open files", "temp disk")
        ] == []
        assert "1 node alive, 1 processors" in found["cluster"]["found"]
        assert found["ray"]["found"] == ray.__version__
        assert found["keep-alive"]["state"] == "ok"
        assert found[f"storage {tmp_path / 'shared'}"]["state"] == "ok"
        assert list((tmp_path / "shared").iterdir()) == []
        (tmp_path / "shared").rmdir()
        (tmp_path / "shared").write_text("a file")
        status, found = ask(**{keep[0]: "300000"})
        assert (status, found["keep-alive"]["state"]) == (1, "wrong")
        assert (status, found[f"storage {tmp_path / 'shared'}"]["state"]) == (1, "wrong")
    finally:
        ray.shutdown()
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
