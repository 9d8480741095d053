"""A web server on this machine with faults to order, as crawls' servers have them: ranges or none, 503, cut bodies.

    with WebServer() as web:
        web.files["/a/x.warc.gz"] = data
        web.fail("GET", "x.warc", "503 after 1", times=3)
        ... web.url + "/a/x.warc.gz" ...

Faults: a status ("404", "503 after 2" with Retry-After), "cut" (half of the body, then the end), "drip 3" (half of the
body, then seconds of silence), "stall 3" (silence before the answer), "reset" (no answer).
"""

from __future__ import annotations

import hashlib
import re
import socket
import struct
import threading
from dataclasses import dataclass
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass
class Rule:
    method: str
    path: str
    fault: str
    times: int
    skip: int


class WebServer:
    """ranges: whether it knows them. head: the status of a HEAD, if not 200. tags: "etag", "weak", "date" or "none"."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str, str]] = []  # method, path, range
        self.rules: list[Rule] = []
        self.ranges, self.head, self.tags, self.lengths = True, 200, "etag", True
        self.password = ""
        self.redirects: dict[str, str] = {}
        self.awake, self._lock = threading.Event(), threading.Lock()
        server = self

        class Handler(_Handler):
            web = server

        self._http = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    def fail(self, method: str, path: str, fault: str, times: int = 1, skip: int = 0) -> None:
        self.rules.append(Rule(method, path, fault, times, skip))

    def fault(self, method: str, path: str) -> str:
        with self._lock:
            for rule in self.rules:
                if rule.times > 0 and re.fullmatch(rule.method, method) and re.search(rule.path, path):
                    if rule.skip:
                        rule.skip -= 1
                        continue
                    rule.times -= 1
                    return rule.fault
        return ""

    def give_part(self, body: bytes) -> bytes:
        """What comes of a body before it breaks off."""
        return body[: len(body) // 2]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.awake.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: Any) -> None:
        """Lines that were cut."""


class _Handler(BaseHTTPRequestHandler):
    web: WebServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def do_GET(self) -> None:
        web, path = self.web, self.path.partition("?")[0]
        asked = self.headers.get("Range", "")
        web.requests.append((self.command, self.path, asked))
        name, _, figure = web.fault(self.command, self.path).partition(" ")
        if name == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            socket.close(self.connection.detach())
            raise ConnectionResetError
        if name == "stall":
            web.awake.wait(float(figure))
        if name.isdigit():
            return self.refuse(int(name), figure.removeprefix("after "))
        if web.password and self.headers.get("Authorization") != web.password:
            return self.refuse(401)
        if path in web.redirects:
            self.send_response(302)
            self.send_header("Location", web.redirects[path])
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if path not in web.files:
            return self.refuse(404)
        if self.command == "HEAD" and web.head != 200:
            return self.refuse(web.head)
        return self.give(web.files[path], asked, name, float(figure or 0))

    do_HEAD = do_GET

    def refuse(self, status: int, after: str = "") -> None:
        self.send_response(status)
        if after:
            self.send_header("Retry-After", after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def give(self, data: bytes, asked: str, fault: str, silence: float) -> None:
        web = self.web
        etag = '"' + hashlib.md5(data).hexdigest() + '"'
        date = formatdate(int(hashlib.md5(data).hexdigest()[:7], 16), usegmt=True)
        condition = self.headers.get("If-Range")
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked) if web.ranges else None
        if match and condition not in (None, etag, date):
            match = None
        begin, stop = 0, len(data)
        if match:
            begin, stop = int(match[1]), min(int(match[2] or 1 << 60) + 1, len(data))
            if begin >= len(data):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(data)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
        self.send_response(206 if match else 200)
        if match:
            self.send_header("Content-Range", f"bytes {begin}-{stop - 1}/{len(data)}")
        if web.tags in ("etag", "weak"):
            self.send_header("ETag", etag if web.tags == "etag" else "W/" + etag)
        if web.tags in ("etag", "date"):
            self.send_header("Last-Modified", date)
        if web.lengths:
            self.send_header("Content-Length", str(stop - begin))
        else:
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.command == "HEAD":
            return None
        return self.send(data[begin:stop], fault, silence)

    def send(self, body: bytes, fault: str, silence: float) -> None:
        broken = fault in ("cut", "drip")
        body = self.web.give_part(body) if broken else body
        if self.web.lengths:
            self.wfile.write(body)
        else:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body) + (b"" if broken else b"0\r\n\r\n"))
        self.wfile.flush()
        if broken:
            self.web.awake.wait(silence)
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass
