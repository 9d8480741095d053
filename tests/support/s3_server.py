"""An S3 on this machine with faults to order: moto's application behind a layer that fails, logs and checks.

    with S3Server() as s3:                      # in a thread, one at a time; its buckets are gone at the end
        s3.fail("PUT", "partNumber=2", "503", times=3)
        ...
        assert [r.status for r in s3.log("PUT")] == [...]

    python tests/support/s3_server.py PORT [HOST]    # the same by itself: POST /_faults, GET /_log, POST /_forget

Faults: "503" "500" "429" (any status; "503 after 2" with Retry-After), "reset" (the line is cut before the request is
done), "lost" (it is done, then the line is cut), "truncate" (half of the body under the whole's length), "corrupt" (one
bit of the body turned), "stall 3" (seconds before the answer), "drip 3" (half of the body, then seconds of silence).
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import socket
import struct
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Self

os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
os.environ.setdefault("S3_IGNORE_SUBDOMAIN_BUCKETNAME", "true")
os.environ.setdefault("MOTO_S3_DEFAULT_KEY_BUFFER_SIZE", str(16 << 20))  # smaller objects in memory
KEYS = {"AWS_ACCESS_KEY_ID": "test-key", "AWS_SECRET_ACCESS_KEY": "test-secret", "AWS_DEFAULT_REGION": "us-east-1"}
_ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>{}</Message></Error>'
_NAMES = {"503": "SlowDown", "500": "InternalError", "501": "NotImplemented", "403": "AccessDenied"}


@dataclass
class Rule:
    """Requests whose method and path (with query) match get the fault: after the first ``skip``, one in ``every``, and
    ``times`` of them.
    """

    method: str
    path: str
    fault: str
    times: int = 1
    skip: int = 0
    every: int = 1
    seen: int = 0


@dataclass
class Request:
    method: str
    path: str
    range: str = ""
    status: str = ""
    fault: str = ""
    headers: dict[str, str] = field(default_factory=dict)


class Faulty:
    """A WSGI application before another one."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self.app, self.rules, self.requests = app, list[Rule](), list[Request]()
        self.conditions = "kept"  # If-Match and If-None-Match of a PUT; of some stores "ignored" or "refused"
        self._lock, self._conditional = threading.Lock(), threading.Lock()
        self.awake = threading.Event()  # ends every silence
        self._busy = 0

    def _fault(self, method: str, path: str) -> str:
        with self._lock:
            for rule in self.rules:
                if rule.times > 0 and re.fullmatch(rule.method, method) and re.search(rule.path, path):
                    rule.seen += 1
                    if rule.seen <= rule.skip or (rule.seen - rule.skip) % rule.every:
                        continue
                    rule.times -= 1
                    return rule.fault
        return ""

    def _control(self, env: dict[str, Any], start: Callable[..., Any], path: str) -> list[bytes]:
        given = env["wsgi.input"].read(int(env.get("CONTENT_LENGTH") or 0))
        if path == "/_faults":
            self.rules = [Rule(**rule) for rule in json.loads(given)]
        elif path == "/_forget":
            self.requests.clear()
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps([asdict(request) for request in self.requests]).encode() if path == "/_log" else b"[]"]

    def __call__(self, env: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        method, query = env["REQUEST_METHOD"], env.get("QUERY_STRING", "")
        path = env["PATH_INFO"] + (f"?{query}" if query else "")
        if path in ("/_faults", "/_log", "/_forget"):
            return self._control(env, start, path)
        with self._lock:
            self._busy += 1
        try:
            return self._answer(env, start, method, path)
        finally:
            with self._lock:
                self._busy -= 1

    def settle(self) -> None:
        """Returns when no request is under way; those that are silent are cut."""
        self.awake.set()
        while self._busy:
            time.sleep(0.005)
        self.awake.clear()

    def _answer(self, env: dict[str, Any], start: Callable[..., Any], method: str, path: str) -> Iterable[bytes]:
        fault = self._fault(method, path)
        headers = {k[5:].lower().replace("_", "-"): v for k, v in env.items() if k.startswith("HTTP_")}
        seen = Request(method, path, env.get("HTTP_RANGE", ""), fault=fault, headers=headers)
        self.requests.append(seen)
        name, _, figure = fault.partition(" ")
        if name == "reset":
            seen.status = "reset"
            _cut(env)
        if name == "stall" and self.awake.wait(float(figure)):
            _cut(env)
        if name.isdigit():
            seen.status = name
            env["wsgi.input"].read(int(env.get("CONTENT_LENGTH") or 0))
            return _refuse(start, name, _NAMES.get(name, "Error"), figure.removeprefix("after "))
        if self.conditions == "refused" and {"if-match", "if-none-match"} & headers.keys() and method == "PUT":
            seen.status = "501"
            env["wsgi.input"].read(int(env.get("CONTENT_LENGTH") or 0))
            return _refuse(start, "501", "NotImplemented", "")
        if not self._sound(env):
            seen.status = "400"
            return _refuse(start, "400", "BadDigest", "")
        status, answer, body = self._done(env)
        seen.status = status[:3]
        if name == "lost":
            _cut(env)
        if name == "corrupt" and body:
            body = body[: len(body) // 2] + bytes([body[len(body) // 2] ^ 1]) + body[len(body) // 2 + 1 :]
        start(status, answer)
        return self._cut_short(env, body, float(figure or 0)) if name in ("truncate", "drip") else [body]

    def _cut_short(self, env: dict[str, Any], body: bytes, silence: float) -> Iterable[bytes]:
        yield body[: len(body) // 2]
        self.awake.wait(silence)
        env["werkzeug.socket"].shutdown(socket.SHUT_RDWR)

    def _done(self, env: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        """The application's answer. A condition and the put that depends on it are one step, as in S3."""
        answers: list[tuple[str, list[tuple[str, str]]]] = []
        condition = env["REQUEST_METHOD"] == "PUT" and {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"} & env.keys()
        if condition and self.conditions == "ignored":
            for header in condition:
                del env[header]
        with self._conditional if condition else threading.Lock():
            try:
                result = self.app(env, lambda status, headers, _=None: answers.append((status, headers)))
                body = b"".join(result)
            except KeyError:  # moto's word for an upload that is gone
                body = _ERROR.format("NoSuchUpload", "it is gone").encode()
                answers.append(("404 Not Found", [("Content-Type", "application/xml"), _length(body)]))
        return *answers[-1], body

    def _sound(self, env: dict[str, Any]) -> bool:
        """Whether the body is what its Content-MD5 says, which moto does not look at."""
        if "HTTP_CONTENT_MD5" not in env:
            return True
        import io

        body = env["wsgi.input"].read(int(env["CONTENT_LENGTH"]))
        env["wsgi.input"] = io.BytesIO(body)
        return bool(base64.b64encode(hashlib.md5(body).digest()).decode() == env["HTTP_CONTENT_MD5"])


def _length(body: bytes) -> tuple[str, str]:
    return "Content-Length", str(len(body))


def _refuse(start: Callable[..., Any], status: str, code: str, after: str) -> list[bytes]:
    body = _ERROR.format(code, "as ordered").encode()
    headers = [("Content-Type", "application/xml"), _length(body)]
    start(f"{status} {code}", headers + ([("Retry-After", after)] if after else []))
    return [body]


def _cut(env: dict[str, Any]) -> None:
    line = env["werkzeug.socket"]
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, not an end
    os.close(line.detach())  # close() would wait for the files made of it
    raise ConnectionResetError


class S3Server:
    """Serves in a thread of this process. url: where. Attributes of ``app`` are its faults and its log."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        from moto.s3 import models
        from moto.server import create_backend_app
        from werkzeug.serving import WSGIRequestHandler, make_server

        class Quiet(WSGIRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log(self, *_: Any) -> None:
                """Says nothing."""

            def run_wsgi(self) -> None:
                try:
                    super().run_wsgi()
                except (ConnectionError, ValueError):  # cut, by a fault or by the client
                    self.close_connection = True

        models.S3_UPLOAD_PART_MIN_SIZE = 1  # tests with small parts are quick
        application = create_backend_app("s3")
        application.testing = True  # its exceptions reach us
        self.app = Faulty(application)
        self._server = make_server(host, port, self.app, threaded=True, request_handler=Quiet)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # a line that was cut
        self.url = f"http://{host}:{self._server.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.reset()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reset(self) -> None:
        """As new: no bucket, no fault, an empty log."""
        from moto.s3.models import s3_backends

        self.app.settle()
        s3_backends.reset()
        self.forget()
        self.app.conditions = "kept"

    def fail(self, method: str, path: str, fault: str, times: int = 1, skip: int = 0, every: int = 1) -> None:
        """One more rule; see Rule and the faults above."""
        self.app.rules.append(Rule(method, path, fault, times, skip, every))

    def forget(self) -> None:
        """No faults any more, and an empty log."""
        self.app.rules, self.app.requests = [], []

    def log(self, method: str = ".*", path: str = "") -> list[Request]:
        """The requests seen."""
        return [r for r in self.app.requests if re.fullmatch(method, r.method) and re.search(path, r.path)]

    @cached_property
    def client(self) -> Any:
        """A client of botocore that knows nothing of ours."""
        import botocore.session
        from botocore.config import Config

        session = botocore.session.Session()
        session.set_credentials(KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"])
        config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1})
        return session.create_client("s3", "us-east-1", endpoint_url=self.url, config=config)

    def bucket(self, name: str) -> str:
        """A new empty bucket."""
        self.client.create_bucket(Bucket=name)
        return name

    def fill(self, bucket: str, names: Iterable[str], body: bytes = b"x") -> None:
        """Many objects at once, past the network."""
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        for name in names:
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(bucket, name, body)


def order(url: str, *rules: Rule) -> None:
    """Faults for a server in another process."""
    urllib.request.urlopen(f"{url}/_faults", json.dumps([asdict(rule) for rule in rules]).encode(), timeout=10).close()


def logged(url: str) -> list[dict[str, Any]]:
    """Its log."""
    with urllib.request.urlopen(f"{url}/_log", timeout=10) as answer:
        return list(json.load(answer))


if __name__ == "__main__":
    with S3Server(int(sys.argv[1]) if len(sys.argv) > 1 else 0, *sys.argv[2:3]) as served:
        print(served.url, flush=True)  # noqa: T201
        threading.Event().wait()
