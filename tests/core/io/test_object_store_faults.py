"""A run folder in an object store whose network fails: done or nothing, damage is told, nothing dangles."""

from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cleanpipe.errors import DamagedFileError, StopError
from cleanpipe.io import object_store, upload
from cleanpipe.io.object_store import ObjectStore
from cleanpipe.io.store import Store
from cleanpipe.options import StorageOptions

KIB = 1 << 10


PART = 256 * KIB  # of an upload, in these tests; one of them sends real ones


BLOB = hashlib.shake_128(b"blob").digest(640 * KIB)


FACTS = {"bytes": len(BLOB), "sha256": hashlib.sha256(BLOB).hexdigest()}


SMALL = BLOB[: 40 * KIB]


SMALL_FACTS = {"bytes": len(SMALL), "sha256": hashlib.sha256(SMALL).hexdigest()}


@pytest.fixture
def options(s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StorageOptions:
    for module in (upload, object_store):
        monkeypatch.setattr(module, "PART", PART)
    return StorageOptions(endpoint=s3.url, attempts=5, timeout=1.0, scratch=str(tmp_path / "scratch"))


@pytest.fixture
def store(s3: Any, options: StorageOptions) -> Iterator[ObjectStore]:
    made = ObjectStore("s3://crawls/runs/one", options)
    s3.forget()
    yield made
    scratch = Path(options.scratch)
    assert [p for p in scratch.rglob("*") if p.is_file() and p.name != "in-use"] == []  # no draft, no copy is left


def put(store: Store, name: str, data: bytes = BLOB) -> None:
    draft = store.draft(name, "attempt-1")
    draft.write_bytes(data)
    store.publish(draft, name, {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
    assert not draft.exists()


def lost(store: Store, name: str, data: bytes = BLOB) -> str:
    draft = store.draft(name, "attempt-1")
    draft.write_bytes(data)
    with pytest.raises(StopError) as caught:
        store.publish(draft, name, {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
    assert draft.read_bytes() == data  # it can be published again
    draft.unlink()
    return str(caught.value)


# what fails, how often, and what must come of it: done, or storage lost
STORMS = [
    ("PUT", "partNumber", "503", 3, True),
    ("PUT", "partNumber", "500", 3, True),
    ("PUT", "partNumber", "429", 3, True),
    ("PUT", "partNumber=2", "reset", 2, True),
    ("PUT", "partNumber=2", "lost", 1, True),
    ("PUT", "partNumber=2", "stall 2", 1, True),
    ("PUT", "partNumber=2", "503", 99, False),
    ("PUT", "partNumber=3", "reset", 99, False),
    ("PUT", "partNumber=1", "403", 99, False),
    ("POST", "uploads", "503", 2, True),
    ("POST", "uploads", "lost", 1, True),
    ("POST", "uploads", "503", 99, False),
    ("POST", "uploadId", "reset", 1, True),
    ("POST", "uploadId", "lost", 1, True),
    ("POST", "uploadId", "500", 2, True),
    ("POST", "uploadId", "503", 99, False),
    ("HEAD", "x", "503", 2, True),
]


@pytest.mark.parametrize(
    ("method", "path", "fault", "times", "done"), STORMS, ids=[" ".join(map(str, s)) for s in STORMS]
)
def test_an_upload_in_parts_is_done_or_leaves_nothing(
    method: str, path: str, fault: str, times: int, done: bool, s3: Any, store: ObjectStore
) -> None:
    s3.fail(method, path, fault, times)
    if done:
        put(store, "data/x")
    else:
        assert "start the same line again" in lost(store, "data/x")
    s3.forget()
    assert list(store.leftovers()) == []
    assert store.size("data/x") == (len(BLOB) if done else -1)
    if done:
        with store.fetch("data/x", FACTS) as fetched:
            assert fetched.read_bytes() == BLOB


PUTS = [("503", 3, True), ("reset", 3, True), ("lost", 2, True), ("500", 99, False), ("stall 2", 1, True)]


@pytest.mark.parametrize(("fault", "times", "done"), PUTS)
def test_a_put_is_done_or_leaves_nothing(fault: str, times: int, done: bool, s3: Any, store: ObjectStore) -> None:
    s3.fail("PUT", "runs/one", fault, times)
    if done:
        put(store, "x", SMALL)
    else:
        lost(store, "x", SMALL)
    s3.forget()
    assert store.size("x") == (len(SMALL) if done else -1)


GETS = [("503", 3), ("500", 3), ("reset", 3), ("truncate", 3), ("stall 2", 1), ("drip 2", 1), ("corrupt", 1)]


@pytest.mark.parametrize(("fault", "times"), GETS)
def test_a_fetch_gets_the_bytes(fault: str, times: int, s3: Any, store: ObjectStore) -> None:
    put(store, "x")
    s3.fail("GET", "/x", fault, times)
    with store.fetch("x", FACTS) as path:
        assert path.read_bytes() == BLOB
    assert len(s3.log("GET", "/x")) == times + 1


def test_a_body_that_breaks_off_again_and_again_is_read_in_the_end(s3: Any, store: ObjectStore) -> None:
    put(store, "x")
    s3.fail("GET", "/x", "truncate", 14)  # more than there are tries: each brought bytes
    with store.fetch("x", FACTS) as path:
        assert path.read_bytes() == BLOB
    assert len({r.range for r in s3.log("GET", "/x")}) > 10  # from where it broke, not from the start


class TestDamage:
    def test_another_content_another_size_nothing_there(self, s3: Any, store: ObjectStore) -> None:
        put(store, "work/x", SMALL)
        client = s3.client
        for body in (SMALL[:-1] + b"!", SMALL[:-1], b""):
            client.put_object(Bucket="crawls", Key="runs/one/work/x", Body=body)
            with (
                pytest.raises(DamagedFileError, match="work/x: is not as it was written"),
                store.fetch("work/x", SMALL_FACTS),
            ):
                pass
        store.delete("work/x")
        with (
            pytest.raises(DamagedFileError, match="work/x: cannot be read: not there"),
            store.fetch("work/x", SMALL_FACTS),
        ):
            pass

    def test_metadata_speak_where_no_facts_are_given(self, s3: Any, store: ObjectStore) -> None:
        wrong = {"sha256": SMALL_FACTS["sha256"]}
        s3.client.put_object(Bucket="crawls", Key="runs/one/x", Body=b"other", Metadata=wrong)
        with pytest.raises(DamagedFileError), store.fetch("x"):
            pass

    def test_bytes_turned_on_the_way_there(self, s3: Any, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
        turned = iter([True])
        real = type(s3.app)._sound

        def sound(app: Any, env: dict[str, Any]) -> bool:
            if env["REQUEST_METHOD"] == "PUT" and next(turned, False):
                env["HTTP_CONTENT_MD5"] = "AAAAAAAAAAAAAAAAAAAAAA=="  # as if the body were another
            return bool(real(app, env))

        monkeypatch.setattr(type(s3.app), "_sound", sound)
        put(store, "x", SMALL)
        assert [r.status for r in s3.log("PUT")] == ["400", "200"]

    def test_a_store_that_keeps_other_bytes(self, s3: Any, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
        """One that checks no MD5 and answers with an ETag of its own: what it has is read back."""
        real = type(s3.app)._done
        for kept, sound in ((SMALL, True), (SMALL[:-1] + b"!", False), (SMALL[:-1], False)):

            def done(app: Any, env: dict[str, Any], kept: bytes = kept) -> Any:
                import io

                if env["REQUEST_METHOD"] == "PUT":
                    env |= {"wsgi.input": io.BytesIO(kept), "CONTENT_LENGTH": str(len(kept))}
                status, headers, body = real(app, env)
                return status, [(k, '"own"' if k.lower() == "etag" else v) for k, v in headers], body

            monkeypatch.setattr(type(s3.app), "_done", done)
            monkeypatch.setattr(type(s3.app), "_sound", lambda *_: True)
            if sound:
                put(store, "x", SMALL)
            else:
                assert "not what was sent" in lost(store, "x", SMALL)
            assert (store.size("x") == len(SMALL)) is sound  # nothing false stays


class TestInterrupts:
    @pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, ValueError])
    def test_an_exception_in_the_middle_ends_the_upload(
        self, kind: type[BaseException], s3: Any, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = upload.Target._part

        def part(self: Any, operation: str, **given: Any) -> Any:
            if given.get("PartNumber") == 2:
                raise kind
            return real(self, operation, **given)

        monkeypatch.setattr(upload.Target, "_part", part)
        draft = store.draft("x", "1")
        draft.write_bytes(BLOB)
        with pytest.raises(kind):
            store.publish(draft, "x", FACTS)
        draft.unlink()
        assert len(s3.log("POST", "uploads")) == 1
        assert list(store.leftovers()) == []
        assert store.size("x") == -1

    def test_a_kill_leaves_an_upload_that_is_found(self, s3: Any, store: ObjectStore, options: StorageOptions) -> None:
        code = (
            "import sys, hashlib\nfrom cleanpipe.io.object_store import ObjectStore\n"
            "from cleanpipe.options import StorageOptions\n"
            "store = ObjectStore('s3://crawls/runs/one', StorageOptions(endpoint=sys.argv[1], scratch=sys.argv[2]))\n"
            "data = bytes(40 << 20)\ndraft = store.draft('data/x', '1')\ndraft.write_bytes(data)\n"
            "print('ready', flush=True)\n"
            "store.publish(draft, 'data/x', {'bytes': len(data), 'sha256': hashlib.sha256(data).hexdigest()})\n"
        )
        s3.fail("PUT", "partNumber=2", "stall 30", 1)
        args = [sys.executable, "-c", code, options.endpoint, options.scratch]
        with subprocess.Popen(args, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            while not s3.log("PUT", "partNumber=2"):
                assert process.poll() is None
            process.send_signal(signal.SIGKILL)
        assert list(store.leftovers()) == [("data/x", 0, "upload")]
        store.remove_leftovers()
        assert list(store.leftovers()) == []
        assert store.size("data/x") == -1
        assert len(list(Path(options.scratch).glob("*"))) == 1
        subprocess.run(  # the next process there removes the dead one's drafts, and its own at its end
            [sys.executable, "-c", code.partition("data = ")[0] + "store.free()", *args[3:]], check=True
        )
        assert list(Path(options.scratch).glob("*")) == []

    def test_uploads_below_a_prefix(self, s3: Any, store: ObjectStore) -> None:
        client = s3.client
        for key in ("runs/one/work/a", "runs/one/work/a", "runs/one/data/b", "runs/one-other/c"):
            client.create_multipart_upload(Bucket="crawls", Key=key)
        assert sorted(store.leftovers()) == [(n, 0, "upload") for n in ("data/b", "work/a", "work/a")]
        store.delete_below("work/")
        assert list(store.leftovers()) == [("data/b", 0, "upload")]
        store.remove_leftovers()
        assert [u["Key"] for u in client.list_multipart_uploads(Bucket="crawls")["Uploads"]] == ["runs/one-other/c"]
