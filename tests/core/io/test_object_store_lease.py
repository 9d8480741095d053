"""One run at a time in an object store: a lease that is taken, kept, refused, taken over and lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cleanpipe.errors import ConfigError, StopError
from cleanpipe.io import lease
from cleanpipe.io.lease import LEASE, Lease
from cleanpipe.io.object_store import ObjectStore
from cleanpipe.options import StorageOptions

KEY = f"runs/one/{LEASE}"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Lease, "BEAT", 0.1)
    monkeypatch.setattr(Lease, "TTL", 1.0)


@pytest.fixture
def store(s3: Any, tmp_path: Path) -> Iterator[ObjectStore]:
    yield ObjectStore(
        "s3://crawls/runs/one", StorageOptions(endpoint=s3.url, attempts=3, timeout=1, scratch=str(tmp_path))
    )
    assert not [t for t in threading.enumerate() if t.name == "cleanpipe-lease" and not t.join(1) and t.is_alive()]


def silent(line: str) -> None:
    raise AssertionError(f"no reason to wait: {line}")


def put(s3: Any, **facts: Any) -> None:
    s3.client.put_object(Bucket="crawls", Key=KEY, Body=json.dumps(facts).encode())


def there(s3: Any) -> dict[str, Any]:
    return dict(json.loads(s3.client.get_object(Bucket="crawls", Key=KEY)["Body"].read()))


def eventually(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_taken_kept_and_released(s3: Any, store: ObjectStore) -> None:
    hold = store.hold(silent)
    first = there(s3)
    assert {"id", "host", "pid", "beat"} <= first.keys()
    eventually(lambda: there(s3)["beat"] >= first["beat"] + 2)
    hold.check()
    assert list(store.names()) == []  # it is no file of the run
    store.delete_below("work/")
    assert there(s3)["id"] == first["id"]
    hold.release()
    hold.release()
    assert store.size(LEASE) == -1
    store.hold(silent).release()


def test_a_second_one_is_refused_while_the_first_is_at_work(store: ObjectStore) -> None:
    hold = store.hold(silent)
    said: list[str] = []
    with pytest.raises(ConfigError, match=r"another run is at work in s3://crawls/runs/one \(process \d+ on .+\)"):
        store.hold(said.append)
    assert len(said) == 1
    assert "1 s" in said[0]
    hold.check()
    hold.release()


def test_a_silent_one_is_taken_over(s3: Any, store: ObjectStore) -> None:
    put(s3, id="other", host="far-away", pid=7, process="boot ns 7 1", beat=3)
    said: list[str] = []
    start = time.monotonic()
    hold = store.hold(said.append)
    assert 1.0 <= time.monotonic() - start < 5
    assert "process 7 on far-away" in said[0]
    hold.check()
    hold.release()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"id": 1}', b"\xff"])
def test_a_lease_that_says_nothing(content: bytes, s3: Any, store: ObjectStore) -> None:
    s3.client.put_object(Bucket="crawls", Key=KEY, Body=content)
    said: list[str] = []
    store.hold(said.append).release()
    assert "process unknown on an unknown host" in said[0]


def test_a_process_that_died_here_is_not_waited_for(s3: Any, store: ObjectStore) -> None:
    code = (
        "import os, sys\nfrom cleanpipe.io.object_store import ObjectStore\n"
        "from cleanpipe.options import StorageOptions\n"
        "ObjectStore('s3://crawls/runs/one', StorageOptions(endpoint=sys.argv[1])).hold(print)\nos._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, s3.url], check=False).returncode == 9
    assert there(s3)["pid"]
    store.hold(silent).release()


def test_a_released_one_is_free_at_once(s3: Any, store: ObjectStore) -> None:
    put(s3, id="other", host="far-away", pid=7, beat=3)
    threading.Timer(0.3, lambda: store.delete(LEASE)).start()
    store.hold(lambda _: None).release()


def test_no_right_to_write(s3: Any, store: ObjectStore) -> None:
    s3.fail("PUT", "lease", "403", 9)
    with pytest.raises(ConfigError, match=r"s3://crawls/runs/one cannot be written: access denied.*AWS_PROFILE"):
        store.hold(silent)


@pytest.mark.parametrize("process", ["", "x", 7, None, "boot pid:[1] x 9"])
def test_odd_words_in_a_lease(process: Any, s3: Any, store: ObjectStore) -> None:
    here = lease._process(os.getpid())
    put(s3, id=None, pid="none", process=" ".join(here.split()[:2]) if process == "x" else process, beat=None)
    said: list[str] = []
    store.hold(said.append).release()
    assert len(said) == 1


@pytest.mark.parametrize("held", [True, False])
def test_of_many_at_a_time_one_takes_over(held: bool, s3: Any, store: ObjectStore) -> None:
    if held:
        put(s3, id="other", host="far-away", pid=7, beat=3)

    def hold(_: int) -> Any:
        try:
            return store.hold(lambda _: None)
        except ConfigError:
            return None

    with ThreadPoolExecutor(8) as pool:
        holds = [hold for hold in pool.map(hold, range(8)) if hold is not None]
    assert len(holds) == 1
    holds[0].check()
    holds[0].release()


class TestLost:
    def test_to_another(self, s3: Any, store: ObjectStore) -> None:
        hold = store.hold(silent)
        put(s3, id="other", host="far-away", pid=7, beat=1)
        with pytest.raises(StopError, match="no longer held by this process, but by process 7 on far-away"):
            hold.check()
        hold.release()
        assert there(s3)["id"] == "other"  # what is another's is not removed

    def test_to_nobody(self, store: ObjectStore) -> None:
        hold = store.hold(silent)
        store.delete(LEASE)
        eventually(lambda: bool(hold._lost))  # type: ignore[attr-defined]  # the thread saw it
        with pytest.raises(StopError, match="by nobody"):
            hold.check()
        hold.release()
        assert store.size(LEASE) == -1

    def test_storage_that_does_not_answer_takes_it_from_nobody(self, s3: Any, store: ObjectStore) -> None:
        hold = store.hold(silent)
        before = there(s3)["beat"]
        s3.fail("PUT", "lease", "503", 20)
        eventually(lambda: len([r for r in s3.log("PUT", "lease") if r.status == "503"]) == 20)
        eventually(lambda: there(s3)["beat"] > before)
        hold.check()
        hold.release()

    def test_answers_that_are_lost(self, s3: Any, store: ObjectStore) -> None:
        hold = store.hold(silent)
        for fault in ("lost", "reset", "lost"):
            s3.fail("PUT", "lease", fault)
            hold.check()
        hold.release()


def test_a_release_that_storage_does_not_hear_is_no_error(s3: Any, store: ObjectStore) -> None:
    hold = store.hold(silent)
    s3.fail("(GET|DELETE)", "lease", "503", 3)
    hold.release()
    assert store.size(LEASE) > 0


@pytest.mark.parametrize("how", ["refused", "ignored"])
def test_a_store_without_conditions(how: str, s3: Any, store: ObjectStore) -> None:
    s3.app.conditions = how
    hold = store.hold(silent)
    with pytest.raises(ConfigError):
        store.hold(lambda _: None)
    hold.check()
    put(s3, id="other", host="far-away", pid=7, beat=1)
    with pytest.raises(StopError):
        hold.check()
    hold.release()
