"""Inputs of web servers: the bytes as they are whatever the line does, or one clear error; never other bytes."""

from __future__ import annotations

import gzip
import hashlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from web_server import WebServer

from cleanpipe.errors import CleanpipeError, ConfigError, RetryableError, ShardError, StopError
from cleanpipe.io import http_source, remote
from cleanpipe.io.bytesource import CHUNK, ByteSource
from cleanpipe.io.inputs import resolve_inputs
from cleanpipe.options import StorageOptions

DATA = hashlib.shake_128(b"web").digest(3 * CHUNK + 12345)
SHA = hashlib.sha256(DATA).hexdigest()
WARC = b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 0\r\n\r\n\r\n\r\n"
OPTIONS = StorageOptions(attempts=4, timeout=0.5)


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(remote, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(remote, "LONGEST_WAIT", 0.1)
    monkeypatch.setattr(remote, "AHEAD", 1 << 20)
    with WebServer() as server:
        server.files["/a/x.warc.gz"] = DATA
        yield server


def source(web: WebServer, name: str = "/a/x.warc.gz", **given: Any) -> ByteSource:
    return ByteSource(web.url + name, storage=OPTIONS, **given)


def whole(web: WebServer, name: str = "/a/x.warc.gz") -> bytes:
    with source(web, name) as file:
        parts, at = [], 0
        while data := bytes(file.at(at)):
            parts.append(data)
            at += len(data)
        assert file.finish() == hashlib.sha256(b"".join(parts)).hexdigest()
        assert not file.changed()
    return b"".join(parts)


def test_read_in_order(web: WebServer) -> None:
    assert whole(web) == DATA
    assert len([r for r in web.requests if r[0] == "GET"]) == 4
    assert {r[0] for r in web.requests} == {"GET"}


def test_the_tag_is_the_stamp(web: WebServer) -> None:
    for tags in ("etag", "weak", "date", "none"):
        web.tags = tags
        (found,) = resolve_inputs([web.url + "/a/x.warc.gz"], source_root=None, storage=OPTIONS)
        assert (found.source, found.size) == ("x.warc.gz", len(DATA))
        with source(web) as file:
            assert file.modified == found.stamp
        assert bool(found.stamp) is (tags != "none")


FAULTS = [
    ("503", 3),
    ("503 after 0", 3),
    ("500", 3),
    ("429", 3),
    ("408", 1),
    ("reset", 3),
    ("cut", 3),
    ("cut", 9),
    ("drip 1", 1),
    ("stall 1", 1),
]


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("lengths", [True, False])
@pytest.mark.parametrize(("fault", "times"), FAULTS)
def test_faults_cost_time_only(fault: str, times: int, lengths: bool, ranges: bool, web: WebServer) -> None:
    web.ranges, web.lengths = ranges, lengths
    if not (ranges and lengths):  # then a try does not begin where the last one broke, or not exactly
        times = min(times, 3)
    web.fail("GET", "x", fault, times)
    assert whole(web) == DATA


def test_a_body_is_asked_for_again_from_where_it_broke(web: WebServer) -> None:
    web.fail("GET", "x", "cut", 1, skip=1)
    assert whole(web) == DATA
    begins = [int(asked.removeprefix("bytes=").partition("-")[0]) for _, _, asked in web.requests]
    assert len(begins) == len(set(begins))


def test_a_server_that_gives_a_byte_at_a_time_is_lost(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    real = web.give_part
    with source(web) as file:
        web.give_part = lambda body: real(body[:1])  # type: ignore[method-assign]
        web.fail("GET", "x", "cut", 99)
        with pytest.raises(RetryableError, match="storage lost"):
            file.read_at(CHUNK, CHUNK)


@pytest.mark.parametrize("fault", ["503", "reset", "500", "429"])
def test_storage_that_is_lost(fault: str, web: WebServer) -> None:
    with source(web) as file:
        web.fail("GET", "x", fault, 99)
        with pytest.raises(
            RetryableError, match=r"storage lost: http://.*/a/x\.warc\.gz: .*\(4 tries\); start the same line"
        ):
            file.read_at(CHUNK, CHUNK)
    with pytest.raises(RetryableError, match="storage lost"):
        source(web)


@pytest.mark.parametrize("status", ["400", "401", "403", "404", "410", "451"])
def test_one_file_that_cannot_be_had(status: str, web: WebServer) -> None:
    web.fail("GET", "x", status, 99)
    with pytest.raises(ShardError, match=f"cannot be read: {status}") as caught:
        source(web)
    assert not isinstance(caught.value, StopError)
    assert len(web.requests) == 1


def test_retry_after_is_heeded_and_capped(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    for after, least, most in (("7", 7, 7), ("86400", 60, 60), ("-1", 0, 1), ("soon", 0, 1), ("", 0, 1)):
        web.fail("GET", "x", f"503 after {after}", 1)
        waits.clear()
        source(web).close()
        assert len(waits) == 1
        assert least <= waits[0] <= most
    ahead = "Fri, 01 Jan 2100 00:00:00 GMT"
    web.fail("GET", "x", f"503 after {ahead}", 1)
    source(web).close()
    assert waits[-1] == 60


class TestChanges:
    @pytest.mark.parametrize("tags", ["etag", "weak", "date", "none"])
    def test_another_content_in_the_middle(self, tags: str, web: WebServer) -> None:
        web.tags = tags
        with source(web) as file:
            file.read_at(0, CHUNK)
            web.files["/a/x.warc.gz"] = DATA[::-1] + (b"!" if tags == "none" else b"")  # without a tag the size tells
            with pytest.raises(StopError, match="changed while it was read; start the same line again"):
                file.read_at(2 * CHUNK, CHUNK)

    def test_gone_in_the_middle(self, web: WebServer) -> None:
        with source(web) as file:
            del web.files["/a/x.warc.gz"]
            with pytest.raises(ShardError, match="404"):
                file.read_at(2 * CHUNK, CHUNK)

    def test_shorter_in_the_middle(self, web: WebServer) -> None:
        with source(web) as file:
            web.files["/a/x.warc.gz"] = DATA[:CHUNK]
            with pytest.raises(StopError, match="changed"):
                file.read_at(2 * CHUNK, CHUNK)


class TestOddServers:
    def test_without_ranges(self, web: WebServer) -> None:
        web.ranges = False
        assert whole(web) == DATA
        assert len(web.requests) == 1

    def test_a_copy_serves_the_next_part_of_the_same_file(self, web: WebServer, tmp_path: Path) -> None:
        web.ranges = False
        options = StorageOptions(attempts=3, timeout=1, scratch=str(tmp_path))
        web.files["/b/y.warc.gz"] = DATA[::-1]
        for _ in range(3):
            with ByteSource(web.url + "/a/x.warc.gz", storage=options) as file:
                assert file.read_at(CHUNK, 9) == DATA[CHUNK : CHUNK + 9]
        assert len(list(tmp_path.rglob("spooled-*"))) == 1
        for name, data in (("/b/y.warc.gz", DATA[::-1]), ("/a/x.warc.gz", DATA)):
            with ByteSource(web.url + name, storage=options) as file:
                assert file.read_at(CHUNK, 9) == data[CHUNK : CHUNK + 9]
        web.files["/a/x.warc.gz"] = DATA[1:]
        with ByteSource(web.url + "/a/x.warc.gz", storage=options) as file:
            assert file.finish() == hashlib.sha256(DATA[1:]).hexdigest()
        assert len(list(tmp_path.rglob("spooled-*"))) == 1
        web.tags = "none"
        with ByteSource(web.url + "/a/x.warc.gz", storage=options) as file:
            assert file.finish() == hashlib.sha256(DATA[1:]).hexdigest()
        assert list(tmp_path.rglob("spooled-*")) == []

    def test_a_scratch_that_cannot_be_is_no_fault_of_the_file(self, web: WebServer) -> None:
        web.ranges = False
        with pytest.raises(ConfigError, match="scratch"):
            ByteSource(web.url + "/a/x.warc.gz", storage=StorageOptions(scratch="/proc/none"))

    def test_an_empty_file(self, web: WebServer) -> None:
        web.files["/a/0.warc"] = b""
        for web.ranges in (True, False):
            with source(web, "/a/0.warc") as file:
                assert (file.size, file.read_at(0, 1), bytes(file.at(0))) == (0, b"", b"")
                assert file.finish() == hashlib.sha256().hexdigest()

    def test_gzip_is_not_undone_on_the_way(self, web: WebServer) -> None:
        web.files["/a/y.warc.gz"] = packed = gzip.compress(WARC)
        assert whole(web, "/a/y.warc.gz") == packed

    @pytest.mark.parametrize("status", [403, 405, 501])
    def test_heads_refused(self, status: int, web: WebServer) -> None:
        web.head = status
        (found,) = resolve_inputs([web.url + "/a/x.warc.gz"], source_root=None, storage=OPTIONS)
        assert found.size == len(DATA)
        assert web.requests[-1] == ("GET", "/a/x.warc.gz", "bytes=0-0")

    def test_redirects(self, web: WebServer) -> None:
        web.redirects["/old.warc.gz"] = "/a/x.warc.gz"
        assert whole(web, "/old.warc.gz") == DATA
        web.redirects["/old.warc.gz"] = "/old.warc.gz"
        with pytest.raises(CleanpipeError):
            source(web, "/old.warc.gz")

    def test_a_user_and_a_password(self, web: WebServer) -> None:
        web.password = "Basic dXNlcjpzM2NyM3Q="  # user:s3cr3t
        url = web.url.replace("http://", "http://user:s3cr3t@") + "/a/x.warc.gz"
        (found,) = resolve_inputs([url], source_root=None, storage=OPTIONS)
        with ByteSource(found.uri, storage=OPTIONS) as file:
            assert file.read_at(5, 5) == DATA[5:10]
        web.fail(".*", "x", "403", 99)
        with pytest.raises(ShardError) as caught:
            ByteSource(url, storage=OPTIONS)
        assert "s3cr3t" not in str(caught.value)
        with pytest.raises(ConfigError) as refused:
            resolve_inputs([url], source_root=None, storage=OPTIONS)
        assert "s3cr3t" not in str(refused.value)

    def test_signatures_are_not_shown(self, web: WebServer) -> None:
        url = web.url + "/a/x.warc.gz?X-Amz-Signature=s3cr3t&token=s3cr3t"
        (found,) = resolve_inputs([url], source_root=None, storage=OPTIONS)
        assert (found.source, found.uri) == ("x.warc.gz", url)
        (found,) = resolve_inputs([url], source_root=web.url, storage=OPTIONS)
        assert found.source == "a/x.warc.gz"
        with ByteSource(url, storage=OPTIONS) as file:
            assert file.read_at(5, 5) == DATA[5:10]
            web.fail(".*", "x", "503", 99)
            with pytest.raises(RetryableError) as caught:
                file.read_at(CHUNK, 5)
        assert "s3cr3t" not in str(caught.value)
        for name in (url, url.replace("/a/x", "/a/gone")):
            with pytest.raises(CleanpipeError) as refused:
                resolve_inputs([name], source_root=None, storage=OPTIONS)
            assert "s3cr3t" not in str(refused.value)


class TestLists:
    """As a crawl has them: a packed list at a folder, its entries relative to the server's root."""

    @pytest.fixture
    def crawl(self, web: WebServer) -> list[str]:
        names = [f"crawl-data/CC-1/segments/{i % 7}/warc/{i:05}.warc.gz" for i in range(300)]
        web.files |= {f"/{name}": WARC for name in names}
        web.files["/crawl-data/CC-1/warc.paths.gz"] = gzip.compress("".join(f"{n}\n" for n in names).encode())
        return names

    def test_entries_are_looked_for_above(self, crawl: list[str], web: WebServer) -> None:
        url = web.url + "/crawl-data/CC-1/warc.paths.gz"
        found = resolve_inputs([url], source_root=web.url, storage=OPTIONS)
        assert [item.source for item in found] == sorted(crawl)
        assert {item.size for item in found} == {len(WARC)}
        assert all(item.stamp for item in found)
        assert len([r for r in web.requests if r[0] == "HEAD"]) < len(crawl) + 10  # one each, once the place is known

    def test_a_local_list_of_urls(self, crawl: list[str], web: WebServer, tmp_path: Path) -> None:
        path = tmp_path / "list.paths"
        path.write_text("".join(f"{web.url}/{name}\n" for name in crawl))
        found = resolve_inputs([str(path)], source_root=None, storage=OPTIONS)
        assert [item.uri for item in found] == [f"{web.url}/{name}" for name in sorted(crawl, key=lambda n: n[-13:])]

    def test_storms(self, crawl: list[str], web: WebServer) -> None:
        web.fail(".*", "", "503", 40, skip=8)
        options = StorageOptions(attempts=10, timeout=1)
        assert (
            len(resolve_inputs([web.url + "/crawl-data/CC-1/warc.paths.gz"], source_root=None, storage=options)) == 300
        )

    def test_one_that_is_missing(self, crawl: list[str], web: WebServer) -> None:
        url = web.url + "/crawl-data/CC-1/warc.paths.gz"
        del web.files["/" + crawl[200]]
        with pytest.raises(ConfigError, match=rf"manifest .*: input {crawl[200]} does not exist"):
            resolve_inputs([url], source_root=None, storage=OPTIONS)
        web.files["/" + crawl[200]] = WARC
        web.fail("(GET|HEAD)", crawl[150], "403", 99)
        with pytest.raises(ConfigError, match="403") as caught:
            resolve_inputs([url], source_root=None, storage=OPTIONS)
        assert "\n" not in str(caught.value)

    def test_a_list_that_is_cut(self, crawl: list[str], web: WebServer) -> None:
        packed = web.files["/crawl-data/CC-1/warc.paths.gz"]
        web.files["/crawl-data/CC-1/warc.paths.gz"] = packed[:-9]
        with pytest.raises(ConfigError, match="no list of paths"):
            resolve_inputs([web.url + "/crawl-data/CC-1/warc.paths.gz"], source_root=None, storage=OPTIONS)

    def test_globs_and_folders_are_refused(self, crawl: list[str], web: WebServer) -> None:
        for name in ("/crawl-data/*.warc.gz", "/crawl-data/", "/none.warc"):
            with pytest.raises(ConfigError, match="does not exist"):
                resolve_inputs([web.url + name], source_root=None, storage=OPTIONS)
        with pytest.raises(ConfigError, match=r"no globs.*\.paths"):
            resolve_inputs([web.url + "/crawl-data/*.warc.gz"], source_root=None, storage=OPTIONS)


def test_a_proxy_of_the_environment(web: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", web.url)
    monkeypatch.setenv("no_proxy", "direct.example.org")
    http_source._proxy.cache_clear()
    web.files["http://crawl.example.org/x.warc.gz"] = DATA  # a proxy is asked for the whole URL
    try:
        with ByteSource("http://crawl.example.org/x.warc.gz", storage=OPTIONS) as file:
            assert file.finish() == SHA
        assert http_source._proxy("http", "direct.example.org") == ""
    finally:
        http_source._proxy.cache_clear()


def test_servers_of_a_cluster_that_say_less(web: WebServer) -> None:
    for first, then in (("etag", "none"), ("weak", "none"), ("date", "weak"), ("etag", "weak")):
        web.tags = first
        with source(web) as file:
            web.tags = then
            assert file.finish() == SHA


@pytest.mark.parametrize("url", ["http://[bad/x.warc.gz", "http:///x.warc.gz", "http://h:99999/x.warc", "http://a b/x"])
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(ConfigError, match="no URL"):
        resolve_inputs([url], source_root=None, storage=OPTIONS)
    with pytest.raises(ShardError, match="no URL"):
        ByteSource(url, storage=OPTIONS)


def test_threads_share_connections(web: WebServer) -> None:
    digests = []

    def read() -> None:
        with source(web) as file:
            digests.append(file.finish())

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert digests == [SHA] * 4
