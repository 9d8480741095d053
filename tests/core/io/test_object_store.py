"""A run folder in an object store: what is under a name is whole, one of many writers wins, nothing is left over."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cleanpipe.errors import StopError
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
