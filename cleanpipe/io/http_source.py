"""Files of web servers, read by ranges: one pool of connections a process, every request tried again with waits."""

from __future__ import annotations

import os
import ssl
import urllib.request
import uuid
from contextlib import ExitStack, suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache
from pathlib import Path
from time import time
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError, SSLError
from urllib3.response import BaseHTTPResponse
from urllib3.util import Retry, Timeout, make_headers

from cleanpipe.io.remote import Again, Body, NoBody, Patience, Ranged, ReadAhead, Refused, persist, redacted, said
from cleanpipe.io.scratch import disk, scratch
from cleanpipe.options import StorageOptions

_FIRST = 64 << 10  # bytes asked for when a file is opened
_LATER = frozenset({408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524})
_NO_HEAD = frozenset({400, 401, 403, 405, 406, 501})  # answers of servers that like GET only
_REDIRECTS = Retry(total=None, connect=0, read=0, status=0, other=0, redirect=5)
_POOL = 32
_MET = set[str]()  # hosts that answered this process


@lru_cache(maxsize=4)
def _pool(proxy: str, _pid: int) -> urllib3.PoolManager:
    given: dict[str, Any] = {"num_pools": 64, "maxsize": _POOL, "retries": _REDIRECTS}
    given["ssl_context"] = ssl.create_default_context()
    return urllib3.ProxyManager(proxy, **given) if proxy else urllib3.PoolManager(**given)


@lru_cache(maxsize=1024)
def _proxy(scheme: str, host: str) -> str:
    """What http_proxy, https_proxy and no_proxy say."""
    return "" if urllib.request.proxy_bypass(host) else urllib.request.getproxies().get(scheme, "")


class _Server:
    """Requests for one URL. The user and password of a URL travel as a header."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        self.place, self.options = redacted(uri), options
        try:
            parts = urlsplit(uri)
            host = parts.hostname or ""
            self._headers = {"Accept-Encoding": "identity", "User-Agent": "cleanpipe"}
            if parts.username is not None:
                user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
                self._headers |= make_headers(basic_auth=user)
            self._url = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
        except ValueError as error:
            raise Refused(f"no URL: {said(error)}") from error
        if not host:
            raise Refused("no URL: it names no server")
        self._host, self._proxy = host, _proxy(parts.scheme.lower(), host)
        self._timeout = Timeout(connect=min(10.0, options.timeout), read=options.timeout)

    def once(self, method: str, **headers: str) -> BaseHTTPResponse:
        """One try: an answer of 200, 206, 412 or 416. Raises Again or Refused."""
        try:
            answer = _pool(self._proxy, os.getpid()).request(
                method,
                self._url,
                headers=self._headers | headers,
                timeout=self._timeout,
                preload_content=False,
                decode_content=False,
            )
        except LocationParseError as error:
            raise Refused(f"no URL: {said(error)}") from error
        except (HTTPError, OSError) as error:
            cause = getattr(error, "reason", None) or error
            if isinstance(cause, SSLError) and "CERTIFICATE" in str(cause).upper():
                raise Refused(said(cause)) from error
            raise Again(said(cause), unmet=self._host not in _MET) from error
        _MET.add(self._host)
        if answer.status in (200, 206, 412, 416):
            return answer
        _done(answer)
        if answer.status in _LATER:
            raise Again(f"{answer.status} {answer.reason or ''}".strip(), _after(answer.headers.get("Retry-After", "")))
        raise Refused(f"{answer.status} {answer.reason or ''}".strip(), answer.status)

    def ask(self, method: str, **headers: str) -> BaseHTTPResponse:
        """The same, tried again."""
        return persist(lambda _: self.once(method, **headers), self.options, self.place)


def _done(answer: BaseHTTPResponse) -> None:
    """Reads the little that is left, so that the connection can be used again."""
    with suppress(HTTPError, OSError):
        answer.read(1 << 14, decode_content=False)
    answer.close()


def _after(header: str) -> float:
    """Seconds of a Retry-After: a number or a date."""
    if header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time())
    except (TypeError, ValueError):
        return 0.0


def _tag(answer: BaseHTTPResponse) -> str:
    """What changes when the bytes do; "" where the server says nothing."""
    return answer.headers.get("ETag", "").removeprefix("W/").strip('"') or answer.headers.get("Last-Modified", "")


def _total(answer: BaseHTTPResponse) -> int:
    """Bytes of the whole file; -1: unknown."""
    if "Content-Range" in answer.headers:
        total = answer.headers["Content-Range"].rpartition("/")[2].strip()
    else:
        total = answer.headers.get("Content-Length", "") if answer.status == 200 else ""
    return int(total) if total.isdigit() else -1


class _Answer:
    def __init__(self, answer: BaseHTTPResponse) -> None:
        self._answer = answer

    def read(self, size: int, /) -> bytes:
        try:
            return self._answer.read(size, decode_content=False)
        except (HTTPError, OSError) as error:
            raise Again(said(error)) from error

    def close(self) -> None:
        self._answer.close()


class NoRanges(Exception):  # noqa: N818  # an answer, not a fault
    """The server sent the whole file where a part was asked for."""

    def __init__(self, answer: BaseHTTPResponse) -> None:
        super().__init__()
        self.answer = answer


class HttpFile(Ranged):
    """A file of a server that knows ranges."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        super().__init__(uri, options)
        self._server, self._strong, self._etag, self._date = _Server(uri, options), "", "", ""

    def ask(self, begin: int, stop: int) -> Body:
        """One GET. Raises NoRanges at the first."""
        condition = {"If-Range": self._strong} if self._strong else {}
        answer = self._server.once("GET", Range=f"bytes={begin}-{stop - 1}", **condition)
        if self.size < 0:
            return self._first(answer)
        if answer.status != 206 or not self._same(answer) or _total(answer) not in (self.size, -1):
            answer.close()
            raise self.changed()
        if not _begins(answer, begin):
            answer.close()
            raise Again("another range came than was asked for")
        return _Answer(answer)

    def _first(self, answer: BaseHTTPResponse) -> Body:
        if answer.status == 416 and _total(answer) == 0:
            answer.close()
            self.size, self.tag = 0, _tag(answer)
            return NoBody()
        if answer.status != 206 or _total(answer) < 0 or not _begins(answer, 0):
            if answer.status == 200:
                raise NoRanges(answer)
            answer.close()
            raise Refused(f"{answer.status}: the server's ranges are odd", answer.status)
        self.size, self.tag = _total(answer), _tag(answer)
        self._etag, self._date = answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", "")
        self._strong = self._etag if self._etag.startswith('"') else "" if self._etag else self._date
        return _Answer(answer)

    def _same(self, answer: BaseHTTPResponse) -> bool:
        """Whether nothing that it says speaks against it; of a cluster of servers some may say less than others."""
        etag, date = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
        if etag and self._etag:
            return etag.removeprefix("W/") == self._etag.removeprefix("W/")
        return not date or not self._date or date == self._date


def _begins(answer: BaseHTTPResponse, begin: int) -> bool:
    return answer.headers.get("Content-Range", "").lower().removeprefix("bytes").strip(" =").startswith(f"{begin}-")


def open_file(uri: str, options: StorageOptions) -> tuple[BinaryIO | ReadAhead, int, str]:
    """A file to read, its size and its tag; from a server without ranges it is copied to scratch first.

    Raises:
        Refused, StopError.
    """
    file = HttpFile(uri, options)
    try:
        start = b"".join(file.stream(0, _FIRST))
    except NoRanges as whole:
        return _spooled(file, whole.answer, options)
    return ReadAhead(file, start), file.size, file.tag


_KEPT: dict[tuple[int, str], tuple[str, Path]] = {}  # of this process: the last URL copied, its tag, its copy


def _spooled(file: HttpFile, answer: BaseHTTPResponse, options: StorageOptions) -> tuple[BinaryIO, int, str]:
    """A body that cannot be asked for in parts: one that breaks off is copied anew from its start. The last copy is
    kept for the next part of the same file, as long as the server says by its tag that it is the same.
    """
    with ExitStack() as stack:
        stack.callback(answer.close)
        for key in [key for key in _KEPT if key[0] == os.getpid()]:  # others are a parent's
            tag, path = _KEPT.pop(key)
            with suppress(OSError):
                copy = path.open("rb")
                size = os.fstat(copy.fileno()).st_size
                if (key[1], tag) == (file.uri, _tag(answer)) and _total(answer) in (size, -1):
                    _KEPT[key] = tag, path
                    return copy, size, tag
                copy.close()
                path.unlink()
        folder, server, patience = scratch(options.scratch), _Server(file.uri, options), Patience(options, file.place)
        path = folder / f"spooled-{uuid.uuid4().hex}"
        stack.callback(path.unlink, missing_ok=True)
        while True:
            try:
                tag, size = _tag(answer), _copied(_Answer(answer), path)
                if _total(answer) not in (size, -1):
                    raise Again("the answer's body ended early")
                break
            except Again as error:
                patience.wait(error)
                answer = server.ask("GET")
                stack.callback(answer.close)
        copy = path.open("rb")
        if tag:
            stack.pop_all()
            _KEPT[os.getpid(), file.uri] = tag, path
    answer.close()
    return copy, size, tag


def _copied(body: Body, path: Path) -> int:
    with disk(path.parent), path.open("wb") as copy:
        while piece := body.read(1 << 20):
            copy.write(piece)
        return copy.tell()


def found(uri: str, options: StorageOptions) -> tuple[str, int, str] | None:
    """URL, size (0: unknown) and tag of a file by HEAD, or by a GET where the server refuses that; None: not there.

    Raises:
        Refused, StopError.
    """
    server = _Server(uri, options)
    try:
        answer = server.ask("HEAD")
        _done(answer)
        if answer.status == 200 and _total(answer) >= 0:
            return uri, _total(answer), _tag(answer)
    except Refused as error:
        if error.missing:
            return None
        if error.status not in _NO_HEAD:
            raise
    try:
        answer = server.ask("GET", Range="bytes=0-0")
    except Refused as error:
        if error.missing:
            return None
        raise
    if answer.status == 206:
        _done(answer)
    answer.close()
    return uri, max(_total(answer), 0), _tag(answer)
