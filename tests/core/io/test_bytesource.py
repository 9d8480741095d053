"""The bytes of an input, wherever it lies: read at any offset in any order, hashed once, the right part of them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from web_server import WebServer

from cleanpipe.errors import RetryableError, ShardError, StopError
from cleanpipe.io import remote
from cleanpipe.io.bytesource import CHUNK, ByteSource
from cleanpipe.io.remote import Ranged, ReadAhead, redacted
from cleanpipe.options import StorageOptions

DATA = hashlib.shake_128(b"source").digest(2 * CHUNK + 4321)
SIZE = len(DATA)


def sha(begin: int, stop: int) -> str:
    return hashlib.sha256(DATA[begin:stop]).hexdigest()


@pytest.fixture(params=["local", "memory", "http", "s3"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, StorageOptions]]:
    """One file in every kind of place."""
    options = StorageOptions(attempts=3, timeout=2)
    if request.param == "local":
        (tmp_path / "x").write_bytes(DATA)
        yield str(tmp_path / "x"), options
    elif request.param == "memory":
        fsspec.filesystem("memory").pipe("/source-test/x", DATA)
        yield "memory://source-test/x", options
        fsspec.filesystem("memory").rm("/source-test", recursive=True)
    elif request.param == "http":
        with WebServer() as web:
            web.files["/x"] = DATA
            yield web.url + "/x", options
    else:
        s3 = request.getfixturevalue("s3")
        s3.client.put_object(Bucket="crawls", Key="a/x", Body=DATA)
        yield "s3://crawls/a/x", StorageOptions(endpoint=s3.url, attempts=3, timeout=2)


def test_reads_and_hashes(where: tuple[str, StorageOptions]) -> None:
    uri, options = where
    told: list[int] = []
    with ByteSource(uri, told.append, storage=options) as file:
        assert file.size == SIZE
        order = random.Random(4)
        for _ in range(40):
            begin = order.randrange(SIZE + 10)
            size = order.choice([0, 1, 100, 70_000, CHUNK])
            assert file.read_at(begin, size) == DATA[begin : begin + size]
            assert bytes(file.at(begin)[:50]) == DATA[begin : begin + 50]
        assert file.find(DATA[1_500_000:1_500_008], 0) == 1_500_000
        assert file.finish() == sha(0, SIZE)
        assert not file.changed()
    assert told == sorted(told)
    assert told[-1] == SIZE


def test_a_span_is_hashed_alone(where: tuple[str, StorageOptions]) -> None:
    uri, options = where
    begin, end, stop = 1000, CHUNK + 500, CHUNK + 9000
    told: list[int] = []
    with ByteSource(uri, told.append, storage=options) as file:
        file.hash_until(end)
        file.at(10)  # the search for the first member
        file.hash_from(begin)
        at = begin
        while at < SIZE and (data := file.at(at)):  # reads far ahead
            at += len(data)
        assert file.finish(stop) == sha(begin, stop)
    assert told[-1] == stop - begin


CASES = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(0, SIZE), st.integers(0, CHUNK)),
        st.tuples(st.just("at"), st.integers(0, SIZE), st.just(0)),
        st.tuples(st.just("until"), st.integers(0, SIZE + 5), st.just(0)),
        st.tuples(st.just("from"), st.integers(0, SIZE), st.just(0)),
    ),
    max_size=12,
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=CASES, stop=st.one_of(st.none(), st.integers(0, SIZE + 5)))
def test_any_order_of_reads_gives_the_hash_of_the_span(
    steps: list[tuple[str, int, int]], stop: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    if not path.exists():
        path.write_bytes(DATA)
    begin = 0
    with ByteSource(str(path)) as file:
        for kind, offset, size in steps:
            if kind == "read":
                assert file.read_at(offset, size) == DATA[offset : offset + size]
            elif kind == "at":
                assert DATA.startswith(bytes(file.at(offset)), offset)
            elif kind == "until":
                file.hash_until(offset)
            else:
                begin = offset
                file.hash_from(offset)
        assert file.finish(stop) == sha(begin, SIZE if stop is None else stop)


def test_what_was_hashed_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(DATA)
    with ByteSource(str(tmp_path / "x")) as file:
        file.hash_until(SIZE - 10)
        bytes(file.at(100))
        file.hash_from(100)
        for at in range(100 + CHUNK, SIZE, CHUNK):
            file.at(at)
        reads: list[int] = []
        real = file._read
        monkeypatch.setattr(file, "_read", lambda offset, size: (reads.append(size), real(offset, size))[1])
        assert file.finish() == sha(100, SIZE)
        assert sum(reads) <= 10


class _Memory(Ranged):
    """A Ranged in memory that counts what it is asked for."""

    def __init__(self) -> None:
        super().__init__("mem", StorageOptions())
        self.size, self.asked = SIZE, list[tuple[int, int]]()

    def ask(self, begin: int, stop: int) -> Any:
        import io

        self.asked.append((begin, stop))
        return io.BytesIO(DATA[begin:stop])


class TestReadAhead:
    @pytest.fixture(autouse=True)
    def small(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(remote, "AHEAD", 100_000)

    def read(self, file: ReadAhead, offset: int, size: int) -> bytes:
        file.seek(offset)
        out = b""
        while len(out) < size and (data := file.read(size - len(out))):
            out += data
        return out

    def test_in_order_far_at_a_time_elsewhere_little(self) -> None:
        memory = _Memory()
        file = ReadAhead(memory, DATA[:1000])
        for at in range(0, 300_000, 500):
            assert self.read(file, at, 500) == DATA[at : at + 500]
            if at % 50_000 == 0:
                assert self.read(file, SIZE - 300, 10) == DATA[SIZE - 300 : SIZE - 290]
        assert [ask for ask in memory.asked if ask[0] < 400_000] == [
            (1000, 101_000),
            (101_000, 201_000),
            (201_000, 301_000),
        ]
        assert len(memory.asked) <= 3 + 7
        assert sum(len(data) for _, data in file._held) <= 200_000

    def test_not_behind_the_bound(self) -> None:
        memory = _Memory()
        file = ReadAhead(memory, DATA[:1000])
        file.bound = 50_000
        for at in range(0, 60_000, 1000):
            assert self.read(file, at, 1000) == DATA[at : at + 1000]
        assert memory.asked[0] == (1000, 50_000)
        assert max(stop for _, stop in memory.asked) == 60_000


class TestObjects:
    """Objects of S3 as inputs."""

    @pytest.fixture
    def options(self, s3: Any) -> StorageOptions:
        s3.client.put_object(Bucket="crawls", Key="a/x", Body=DATA)
        s3.forget()
        return StorageOptions(endpoint=s3.url, attempts=3, timeout=0.5)

    @pytest.mark.parametrize("fault", ["503", "500", "429", "reset", "truncate", "stall 1", "drip 1"])
    def test_faults_cost_time_only(self, fault: str, s3: Any, options: StorageOptions) -> None:
        s3.fail("GET", "a/x", fault, 2)
        with ByteSource("s3://crawls/a/x", storage=options) as file:
            s3.fail("GET", "a/x", fault, 2)
            assert file.finish() == sha(0, SIZE)
        assert len(s3.log("GET", "a/x")) <= 8

    def test_a_change_in_the_middle(self, s3: Any, options: StorageOptions) -> None:
        with ByteSource("s3://crawls/a/x", storage=options) as file:
            s3.client.put_object(Bucket="crawls", Key="a/x", Body=DATA[::-1])
            with pytest.raises(StopError, match="s3://crawls/a/x: changed while it was read"):
                file.finish()

    def test_one_that_is_gone_and_a_store_that_is_lost(self, s3: Any, options: StorageOptions) -> None:
        with pytest.raises(ShardError, match="cannot be read"):
            ByteSource("s3://crawls/a/none", storage=options)
        s3.fail("GET", "a/x", "403", 1)
        with pytest.raises(ShardError, match="access denied"):
            ByteSource("s3://crawls/a/x", storage=options)
        with pytest.raises(StopError, match="no such bucket"):
            ByteSource("s3://no-such-bucket/a/x", storage=options)
        s3.fail("GET", "a/x", "503", 99)
        with pytest.raises(RetryableError, match=r"storage lost: s3://crawls/a/x at http.*503 SlowDown \(3 tries\)"):
            ByteSource("s3://crawls/a/x", storage=options)

    def test_an_empty_one(self, s3: Any, options: StorageOptions) -> None:
        s3.client.put_object(Bucket="crawls", Key="a/0", Body=b"")
        with ByteSource("s3://crawls/a/0", storage=options) as file:
            assert (file.size, file.read_at(0, 9), file.finish()) == (0, b"", hashlib.sha256().hexdigest())


REDACTED = [
    ("https://user:pw@host/a?sig=1", "https://host/a"),
    ("https://host/a/b.warc.gz?X-Amz-Signature=abc&X-Amz-Credential=id", "https://host/a/b.warc.gz"),
    ("http://host:80/a#token=1", "http://host:80/a"),
    ("s3://key:secret@bucket/a", "s3://bucket/a"),
    ("s3://bucket/a?.warc", "s3://bucket/a?.warc"),  # a glob
    ("zip://a.warc::https://user:pw@host/a.zip?sig=1", "zip://a.warc::https://host/a.zip"),
    ("failed: GET 'https://h/a?x=1' and https://h/b?y=2.", "failed: GET 'https://h/a' and https://h/b"),
    ("/data/token=1/x?.warc", "/data/token=1/x?.warc"),  # a local path
    ("memory://a/secret=1", "memory://a/secret=…"),
    ("https://host/plain", "https://host/plain"),
    ("HTTPS://u@host/a?b", "HTTPS://host/a"),
    ("two (https://h/a?x=1 and so on", "two (https://h/a and so on"),
    (
        "of (https://h/a?x=1), (http://h/b?y=(2)) and (http://h/c#d).",
        "of (https://h/a), (http://h/b) and (http://h/c).",
    ),
    ("(https://h/a?sig=a)b&c=d)e", "(https://h/a"),
    ("https://h/a?x=1)", "https://h/a"),
]


@pytest.mark.parametrize(("text", "shown"), REDACTED)
def test_redacted(text: str, shown: str) -> None:
    assert redacted(text) == shown
    assert redacted(shown) == shown
