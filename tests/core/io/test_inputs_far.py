"""Inputs that lie elsewhere: URLs, object stores, and nobody there."""

from __future__ import annotations

import gzip
import hashlib
import socket
from collections.abc import Callable, Iterator
from typing import Any

import fsspec
import pytest

from cleanpipe.errors import ConfigError, StopError
from cleanpipe.io.bytesource import ByteSource
from cleanpipe.io.inputs import Input, resolve_inputs
from cleanpipe.options import StorageOptions

WARC = b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 0\r\n\r\n\r\n\r\n"


def sources(*names: object, root: object = None) -> list[str]:
    found = resolve_inputs([str(name) for name in names], source_root=None if root is None else str(root))
    assert [item.source for item in found] == sorted(item.source for item in found)
    return [item.source for item in found]


def refused(*names: object, root: object = None) -> str:
    with pytest.raises(ConfigError) as caught:
        sources(*names, root=root)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestUrls:
    @pytest.fixture(autouse=True)
    def store(self) -> Iterator[None]:
        fs = fsspec.filesystem("memory")
        for name in ("crawl/a/x.warc.gz", "crawl/b/y.warc", "crawl/b/notes.md"):
            fs.pipe(f"/inputs-test/{name}", gzip.compress(WARC) if name.endswith("gz") else WARC)
        fs.pipe("/inputs-test/crawl/a/list.paths", b"x.warc.gz\nb/y.warc\n")
        yield
        fs.rm("/inputs-test", recursive=True)

    def test_files_folders_globs_and_manifests(self) -> None:
        base = "memory://inputs-test/crawl"
        (found,) = resolve_inputs([f"{base}/b/y.warc"], source_root=None)
        assert (found.source, found.uri, found.size) == ("y.warc", f"{base}/b/y.warc", len(WARC))
        assert found.stamp
        assert sources(base) == ["x.warc.gz", "y.warc"]
        assert sources(f"{base}/*/*") == ["x.warc.gz", "y.warc"]
        assert sources(f"{base}/a/list.paths") == ["x.warc.gz", "y.warc"]

    def test_below_a_source_root(self) -> None:
        base = "memory://inputs-test/crawl"
        assert sources(f"{base}/b/y.warc", f"{base}/a/list.paths", root=base) == ["a/x.warc.gz", "b/y.warc"]

    def test_what_is_refused(self) -> None:
        base = "memory://inputs-test/crawl"
        assert "does not exist" in refused(f"{base}/no.warc")
        assert "matches no archive" in refused(f"{base}/*.warc")
        assert "unknown kind" not in refused(f"{base}/b/*.md")
        assert "cannot be read" in refused("nosuchscheme://a/b.warc")


class TestObjects:
    """What s3:// names: objects, folders, globs, lists."""

    NAMES = (
        "a/x.warc.gz",
        "a/deep/y.warc",
        "b/z.warc.wet.gz",
        "b/n[1].warc",
        "b/README.md",
        "b/.hidden.warc",
        "ab.warc",
        "b/q?a=1.warc",
    )

    @pytest.fixture
    def found(self, s3: Any) -> Callable[..., list[Input]]:
        s3.fill("crawls", (f"c/{name}" for name in self.NAMES), WARC)
        s3.fill("crawls", ["c/b/folder.warc/"], b"")
        storage = StorageOptions(endpoint=s3.url, attempts=3, timeout=1)
        return lambda *names, root=None: resolve_inputs(names, source_root=root, storage=storage)

    def names(self, found: list[Input]) -> list[str]:
        return [item.uri.removeprefix("s3://crawls/c/") for item in sorted(found, key=lambda item: item.uri)]

    def test_an_object(self, s3: Any, found: Callable[..., list[Input]]) -> None:
        (item,) = found("s3://crawls/c/a/x.warc.gz")
        stamp = hashlib.md5(WARC).hexdigest()
        assert item == Input("x.warc.gz", "s3://crawls/c/a/x.warc.gz", len(WARC), stamp)
        with ByteSource(item.uri, storage=StorageOptions(endpoint=s3.url)) as source:
            assert source.modified == stamp

    @pytest.mark.parametrize("slash", ["", "/"])
    def test_folders(self, slash: str, found: Callable[..., list[Input]]) -> None:
        everything = ["a/deep/y.warc", "a/x.warc.gz", "ab.warc", "b/n[1].warc", "b/q?a=1.warc", "b/z.warc.wet.gz"]
        assert self.names(found("s3://crawls/c" + slash)) == everything
        assert self.names(found("s3://crawls" + slash)) == everything
        assert self.names(found("s3://crawls/c/a" + slash)) == ["a/deep/y.warc", "a/x.warc.gz"]
        assert [item.source for item in found("s3://crawls/c/a", root="s3://crawls/c" + slash)] == [
            "a/deep/y.warc",
            "a/x.warc.gz",
        ]

    @pytest.mark.parametrize(
        ("pattern", "names"),
        [
            ("*.warc", ["ab.warc"]),
            ("*/*.warc*", ["a/x.warc.gz", "b/n[1].warc", "b/q?a=1.warc", "b/z.warc.wet.gz"]),
            ("**/*.warc", ["a/deep/y.warc", "ab.warc", "b/n[1].warc", "b/q?a=1.warc"]),
            ("a?.warc", ["ab.warc"]),
            ("[ab]/[xz]*", ["a/x.warc.gz", "b/z.warc.wet.gz"]),
            ("b/n[1].warc", ["b/n[1].warc"]),
            ("b/q?a=1.warc", ["b/q?a=1.warc"]),
        ],
    )
    def test_globs(self, pattern: str, names: list[str], found: Callable[..., list[Input]]) -> None:
        items = found(f"s3://crawls/c/{pattern}")
        assert self.names(items) == names
        assert sorted(item.source for item in items) == sorted(name.rpartition("/")[2] for name in names)

    @pytest.mark.parametrize("listing", [True, False])
    def test_lists(self, listing: bool, s3: Any, found: Callable[..., list[Input]]) -> None:
        many = [f"data/{i % 2}/{i:03}.warc.gz" for i in range(100)]
        s3.fill("crawls", many, WARC)
        packed = gzip.compress("\n".join([*many, "c/a/x.warc.gz", "c/b/*.gz"]).encode())
        s3.client.put_object(Bucket="crawls", Key="data/list/warc.paths.gz", Body=packed)
        if not listing:
            s3.fail("GET", "data%2F[01]%2F", "403", 99)
        s3.forget() if listing else s3.app.requests.clear()
        items = found("s3://crawls/data/list/warc.paths.gz")
        assert [item.source for item in items] == sorted([n[-11:] for n in many] + ["x.warc.gz", "z.warc.wet.gz"])
        assert {item.stamp for item in items} == {hashlib.md5(WARC).hexdigest()}
        assert (len(s3.log("HEAD")) < 20) is listing

    def test_what_is_refused(self, s3: Any, found: Callable[..., list[Input]]) -> None:
        s3.fill("crawls", ["only/notes.md"], b"x")
        for name, message in (
            ("s3://crawls/c/none.warc", "input s3://crawls/c/none.warc does not exist"),
            ("s3://crawls/only", "holds no archive"),
            ("s3://crawls/only/notes.md", "unknown kind"),
            ("s3://crawls/c/*.md", "matches no archive"),
            ("s3://no-such-bucket/c", "no such bucket"),
            ("s3://", "s3://bucket/prefix"),
            ("s3://u:pass@crawls/x.warc", "no password in it"),
        ):
            with pytest.raises(ConfigError, match=message) as caught:
                found(name)
            assert "pass@" not in str(caught.value)
        s3.fail("HEAD", "x.warc", "403", 1)
        with pytest.raises(ConfigError, match="access denied"):
            found("s3://crawls/c/a/x.warc.gz")
        s3.fail("HEAD", "x.warc", "503", 9)
        with pytest.raises(StopError, match="storage lost"):
            found("s3://crawls/c/a/x.warc.gz")


@pytest.mark.parametrize("name", ["x.warc.gz", "list.paths", "*.warc"])
def test_nobody_there(name: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/{name}"
        with pytest.raises(StopError) as caught:
            resolve_inputs([url], source_root=None, storage=StorageOptions(attempts=2))
    assert "does not exist" not in str(caught.value)
    assert "Connection refused" in str(caught.value)
