"""A run folder in an object store: what is under a name is whole, whatever the network does; nothing dangles."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cleanpipe.errors import ConfigError, DamagedFileError, StopError
from cleanpipe.io import object_store, upload
from cleanpipe.io.object_store import ObjectStore
from cleanpipe.io.store import Store, open_store
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


class TestFiles:
    def test_small_ones(self, store: ObjectStore) -> None:
        facts = store.write("a/b.json", b"hello")
        assert facts == {"bytes": 5, "sha256": hashlib.sha256(b"hello").hexdigest()}
        assert store.read("a/b.json") == b"hello"
        assert (store.size("a/b.json"), store.size("a/c.json"), store.size("a")) == (5, -1, -1)
        store.write("a/b.json", b"")
        assert (store.read("a/b.json"), store.size("a/b.json")) == (b"", 0)
        with pytest.raises(FileNotFoundError):
            store.read("a/c.json")

    @pytest.mark.parametrize("name", ["with blank.json", "ü/ö.json", "a+b&c=d?e#f.json", "per%20cent.json"])
    def test_odd_names(self, name: str, store: ObjectStore) -> None:
        store.write(name, b"x")
        assert store.read(name) == b"x"
        assert list(store.names()) == [(name, 1)]
        put(store, f"big-{name}")
        store.delete_below("")
        assert list(store.names()) == []

    def test_large_ones_travel_in_parts(self, s3: Any, store: ObjectStore) -> None:
        put(store, "data/x.arrow")
        assert len(s3.log("PUT", "partNumber")) == 3
        with store.fetch("data/x.arrow", FACTS) as path:
            assert path.read_bytes() == BLOB
        assert not path.exists()
        head = s3.client.head_object(Bucket="crawls", Key="runs/one/data/x.arrow")
        assert head["Metadata"] == {"sha256": FACTS["sha256"]}
        assert list(store.names("data/")) == [("data/x.arrow", len(BLOB))]
        assert list(store.leftovers()) == []

    @pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 2 * PART])
    def test_sizes_about_a_part(self, size: int, store: ObjectStore) -> None:
        put(store, "x", BLOB[:size])
        with store.fetch("x") as path:
            assert path.read_bytes() == BLOB[:size]

    def test_a_file_of_real_size(self, s3: Any, store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.undo()
        data = hashlib.shake_128(b"real").digest(40 << 20)
        put(store, "data/x.arrow", data)
        assert len(s3.log("PUT", "partNumber")) == 3
        with store.fetch("data/x.arrow") as path:
            assert path.read_bytes() == data

    def test_publishing_twice_is_no_error(self, store: ObjectStore) -> None:
        put(store, "x", SMALL)
        put(store, "x", SMALL)
        with store.fetch("x", SMALL_FACTS) as path:
            assert path.read_bytes() == SMALL

    def test_a_draft_that_is_not_what_was_written(self, store: ObjectStore) -> None:
        for data in (SMALL, BLOB):
            draft = store.draft("x", "1")
            for wrong, facts in ((data[:-1], "bytes, not"), (data[:-1] + b"!", "not as it was written")):
                draft.write_bytes(wrong)
                with pytest.raises(StopError, match=facts):
                    store.publish(draft, "x", {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
            draft.unlink()
        assert store.size("x") == -1
        assert list(store.leftovers()) == []

    def test_removing(self, s3: Any, store: ObjectStore, options: StorageOptions) -> None:
        client = s3.client
        s3.fill("crawls", (f"runs/one/work/{i:04}" for i in range(1003)))
        for key in ("runs/one/keep", "runs/one-other/work/0", "runs/oneself"):
            client.put_object(Bucket="crawls", Key=key, Body=b"x")
        assert len(list(store.names("work/"))) == 1003
        s3.forget()
        store.delete_below("work/")
        assert len(s3.log("POST", "delete")) == 2
        assert list(store.names()) == [("keep", 1)]
        store.delete("keep")
        store.delete("keep")
        left = [entry["Key"] for entry in client.list_objects_v2(Bucket="crawls")["Contents"]]
        assert left == ["runs/one-other/work/0", "runs/oneself"]
        assert list(ObjectStore("s3://crawls", options).names()) == [("runs/one-other/work/0", 1), ("runs/oneself", 1)]

    def test_a_store_without_deletion_by_the_batch(self, s3: Any, store: ObjectStore) -> None:
        store.write("work/a", b"x")
        s3.fail("POST", "delete", "501", times=99)
        store.delete_below("work/")
        assert list(store.names()) == []

    def test_open_store_and_one_scratch_a_process(self, store: ObjectStore, options: StorageOptions) -> None:
        assert isinstance(open_store("s3://crawls/runs/one/", options), ObjectStore)
        assert store.free() > 0
        assert store.draft("x", "1") == store.draft("x", "1") != store.draft("x", "2")
        assert len(list(Path(options.scratch).iterdir())) == 1
        assert len({store.draft(name, "1") for name in ("x", "a/x", "b/x", "a/b/x")}) == 4
        assert oct(store.draft("x", "1").parent.stat().st_mode)[-3:] == "700"


@pytest.mark.parametrize("fault", ["", "lost"])
def test_two_attempts_at_one_name_at_a_time(fault: str, s3: Any, store: ObjectStore) -> None:
    """The answer to the beginning of an upload is lost: what is ended for that may be the other attempt's."""
    drafts = [store.draft("data/x", f"attempt-{i}") for i in range(3)]
    for draft in drafts:
        draft.write_bytes(BLOB)
    s3.fail("POST", "uploads", fault or "503", 2 if fault else 0)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda draft: store.publish(draft, "data/x", FACTS), drafts))
    assert list(store.leftovers()) == []
    with store.fetch("data/x", FACTS) as path:
        assert path.read_bytes() == BLOB


def test_a_forked_child_makes_its_own(store: ObjectStore, options: StorageOptions) -> None:
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom cleanpipe.io.object_store import ObjectStore\n"
        "from cleanpipe.options import StorageOptions\n"
        "store = ObjectStore('s3://crawls/runs/one', StorageOptions(endpoint=sys.argv[1], scratch=sys.argv[2]))\n"
        "store.write('a', b'1')\nmine = store.draft('x', '1').parent\n"
        "if os.fork() == 0:\n"
        "    assert store.read('a') == b'1' and store.draft('x', '1').parent != mine\n"
        "    sys.exit(0)\n"
        "assert os.wait()[1] == 0\n"
        "assert store.read('a') == b'1' and mine.is_dir()\n"
    )
    subprocess.run([sys.executable, "-c", code, options.endpoint, options.scratch], check=True)
    assert list(Path(options.scratch).iterdir()) == []


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


class TestWriteNew:
    def test_the_first_wins(self, store: ObjectStore) -> None:
        assert store.write_new("manifest.json", b"1")
        assert not store.write_new("manifest.json", b"2")
        assert store.read("manifest.json") == b"1"

    def test_of_many_at_a_time_one_is_told_true(self, s3: Any, store: ObjectStore) -> None:
        start = threading.Barrier(8)

        def write(i: int) -> bool:
            start.wait()
            return store.write_new("manifest.json", b"%d" % i)

        for _ in range(5):
            with ThreadPoolExecutor(8) as pool:
                told = list(pool.map(write, range(8)))
            assert sum(told) == 1
            assert store.read("manifest.json") == b"%d" % told.index(True)
            store.delete("manifest.json")
        assert "412" in {r.status for r in s3.log("PUT", "manifest")}  # they did meet

    @pytest.mark.parametrize("fault", ["lost", "503", "reset", "stall 2"])
    def test_an_answer_that_is_lost(self, fault: str, s3: Any, store: ObjectStore) -> None:
        s3.fail("PUT", "manifest", fault, 1)
        assert store.write_new("manifest.json", b"1")  # the second try finds the name taken: by the first
        s3.fail("PUT", "manifest", fault, 1)
        assert not store.write_new("manifest.json", b"1")

    @pytest.mark.parametrize("how", ["ignored", "refused"])
    def test_stores_without_conditions(self, how: str, s3: Any, store: ObjectStore) -> None:
        s3.app.conditions = how
        assert store.write_new("manifest.json", b"1")
        assert not store.write_new("manifest.json", b"2")
        assert store.read("manifest.json") == b"1"


class TestOpening:
    @pytest.mark.parametrize(
        ("root", "given", "message"),
        [
            ("s3://no-such-bucket/x", {}, "no such bucket"),
            ("s3:///x", {}, "s3://bucket/prefix"),
            ("s3://no/x", {}, "s3://bucket/prefix"),
            ("s3://no way!/x", {}, "s3://bucket/prefix"),
            ("s3://user:secret-marker@crawls/x", {}, "no password in it"),
            ("s3://crawls/x", {"profile": "nobody"}, "profile"),
        ],
    )
    def test_what_cannot_be(self, root: str, given: dict[str, Any], message: str, options: StorageOptions) -> None:
        with pytest.raises(ConfigError, match=message) as caught:
            ObjectStore(root, StorageOptions(**{**vars(options), **given}))
        assert "secret-marker" not in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_no_credentials(self, options: StorageOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            monkeypatch.delenv(name)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        other = StorageOptions(endpoint=options.endpoint, attempts=2)  # a client of its own
        with pytest.raises(ConfigError, match=r"AWS_PROFILE.*storage\.anonymous=true"):
            ObjectStore("s3://crawls/x", other)
        ObjectStore("s3://crawls/x", StorageOptions(endpoint=options.endpoint, attempts=2, anonymous=True))

    def test_refused(self, s3: Any, options: StorageOptions) -> None:
        s3.fail("GET", "list-type", "403", 1)
        with pytest.raises(ConfigError, match=r"access denied.*AWS_PROFILE"):
            ObjectStore("s3://crawls/x", options)

    def test_nobody_there(self, options: StorageOptions) -> None:
        import socket

        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            place = f"http://127.0.0.1:{closed.getsockname()[1]}"
            with pytest.raises(StopError, match="storage lost: s3://crawls/x/ at http://127"):
                ObjectStore("s3://crawls/x", StorageOptions(endpoint=place, attempts=3))

    def test_a_full_scratch(self, store: ObjectStore, options: StorageOptions) -> None:
        """A limit on the size of files stands for a disk that fills in the middle."""
        put(store, "x")
        code = (
            "import resource, sys\nfrom cleanpipe.errors import StopError\n"
            "from cleanpipe.io.object_store import ObjectStore\nfrom cleanpipe.options import StorageOptions\n"
            "store = ObjectStore('s3://crawls/runs/one', StorageOptions(endpoint=sys.argv[1], scratch=sys.argv[2]))\n"
            "store.free()\nresource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
            "try:\n    store.fetch('x').__enter__()\nexcept StopError as error:\n    print(error)\n"
        )
        args = [sys.executable, "-c", code, options.endpoint, options.scratch]
        said = subprocess.run(args, capture_output=True, text=True, check=True).stdout
        assert "is full: --set storage.scratch=FOLDER names another place" in said
        assert list(Path(options.scratch).rglob("fetched-*")) == []

    def test_a_scratch_that_cannot_be(self, s3: Any, store: ObjectStore) -> None:
        for place in ("/proc/none", "/dev/null"):
            other = ObjectStore("s3://crawls/runs/one", StorageOptions(endpoint=s3.url, scratch=place))
            with pytest.raises(ConfigError, match=r"no scratch folder can be made in .*storage\.scratch"):
                other.draft("x", "1")


def test_no_message_shows_a_secret(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    marker = "mark3r"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", f"secret-{marker}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", f"id-{marker}")
    monkeypatch.setenv("AWS_SESSION_TOKEN", f"token-{marker}")
    options = StorageOptions(endpoint=s3.url, attempts=2, timeout=1, scratch=str(tmp_path))
    store = ObjectStore("s3://crawls/x", options)
    shown = []
    for fault in ("503", "reset", "403", "500", "429", "400"):
        for action in (
            lambda: store.read("a"),
            lambda: store.write("a", b"1"),
            lambda: list(store.names()),
            lambda: store.write_new("b", b"1"),
            lambda: ObjectStore("s3://crawls/x", options),
            lambda: store.fetch("a").__enter__(),
        ):
            s3.forget()
            s3.fail(".*", ".", fault, 9)
            with pytest.raises((StopError, ConfigError)) as caught:
                action()
            shown.append(str(caught.value))
    assert len(shown) == 36
    assert not [text for text in shown if marker in text]
    assert not [text for text in shown if "\n" in text]
    assert marker not in caplog.text
