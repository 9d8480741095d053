"""What an object store says that cannot be opened or used, in one line, and without a secret."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cleanpipe.errors import ConfigError, StopError
from cleanpipe.io import object_store, upload
from cleanpipe.io.object_store import ObjectStore
from cleanpipe.io.store import Store
from cleanpipe.options import StorageOptions

KIB = 1 << 10


PART = 256 * KIB  # of an upload, in these tests; one of them sends real ones


BLOB = hashlib.shake_128(b"blob").digest(640 * KIB)


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
