"""A run folder in an object store. A file is written to local scratch and uploaded whole: with checksums, in parts
above 16 MiB, and proven to be there as it was sent. Nothing is streamed: an object under a name is complete.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import disk_usage
from typing import Any

from cleanpipe.errors import ConfigError, DamagedFileError, StopError
from cleanpipe.io import s3
from cleanpipe.io.lease import LEASE, Lease
from cleanpipe.io.remote import ChangedError, Refused
from cleanpipe.io.scratch import disk, scratch
from cleanpipe.io.store import TEMPORARY, Hold, Store
from cleanpipe.io.upload import PART, Target, same, uploads
from cleanpipe.options import StorageOptions

_BATCH = 1_000  # names of one deletion


class ObjectStore(Store):
    """``s3://bucket/prefix``. Workers make their own from root and options.

    ``write_new`` puts with If-None-Match, after a look whether the name is there: exact where the store knows that
    header, a look and a put where it does not: there two writers at the same moment may both be told true.

    Raises:
        ConfigError: no such bucket, or no right to it: found when the store is opened, by one listing.
    """

    def __init__(self, root: str, options: StorageOptions) -> None:
        super().__init__(root.rstrip("/"))
        self.options = options
        self._bucket, prefix = s3.split(self.root)
        self._prefix = f"{prefix}/" if prefix else ""
        try:
            self._client.ask("list_objects_v2", Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)
        except Refused as error:
            raise ConfigError(f"{self.root} cannot be used: {error.why}") from error

    @property
    def _client(self) -> s3.Client:
        return s3.client(self.options)

    def _at(self, name: str) -> dict[str, str]:
        return {"Bucket": self._bucket, "Key": self._prefix + name}

    def _ask(self, operation: str, name: str, **given: Any) -> Any:
        """A request about a name; FileNotFoundError where that is not there, any other refusal stops the run."""
        try:
            return self._client.ask(operation, **self._at(name), **given)
        except Refused as error:
            raise self._stopped(error, name) from error

    def _stopped(self, error: Refused, name: str) -> Exception:
        if error.missing:
            return FileNotFoundError(2, "not there", f"{self.root}/{name}")
        return StopError(f"{self.root}/{name}: {error.why}; then start the same line again")

    def _target(self, name: str) -> Target:
        return Target(self._client, self._bucket, self._prefix + name)

    # reading

    def file(self, name: str) -> s3.S3File:
        """An object to read, not yet opened."""
        return s3.S3File(f"s3://{self._bucket}/{self._prefix}{name}", self.options)

    def read(self, name: str) -> bytes:
        """One GET."""
        file = self.file(name)
        try:
            return b"".join(file.stream(0, s3.END))
        except Refused as error:
            raise self._stopped(error, name) from error

    def size(self, name: str) -> int:
        """One HEAD."""
        try:
            return int(self._ask("head_object", name)["ContentLength"])
        except FileNotFoundError:
            return -1

    @contextmanager
    def fetch(self, name: str, facts: Mapping[str, Any] | None = None) -> Iterator[Path]:
        """Downloaded to scratch, its digest taken on the way; deleted after the ``with``."""
        path = self._scratch() / f"fetched-{uuid.uuid4().hex}"
        try:
            wrong = ""
            for _ in range(2):  # once more: a byte that was turned on the way is none of the object's
                wrong = self._fetched(name, path, facts)
                if not wrong:
                    break
            if wrong:
                raise DamagedFileError(wrong, source=name)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _fetched(self, name: str, path: Path, facts: Mapping[str, Any] | None) -> str:
        """What is wrong with it, "" if nothing."""
        file, digest, size = self.file(name), hashlib.sha256(), 0
        try:
            with disk(path.parent), path.open("wb") as out:
                for piece in file.stream(0, s3.END):
                    digest.update(piece)
                    out.write(piece)
                    size += len(piece)
        except Refused as error:
            stopped = self._stopped(error, name)
            if isinstance(stopped, FileNotFoundError):
                raise DamagedFileError("cannot be read: not there", source=name) from error
            raise stopped from error
        except ChangedError:
            return "changes while it is read"
        wanted = str(facts["sha256"]) if facts is not None else file.sha256
        if (facts is not None and size != facts["bytes"]) or (wanted and digest.hexdigest() != wanted):
            return "is not as it was written"
        return ""

    def names(self, prefix: str = "") -> Iterator[tuple[str, int]]:
        """Listed by the thousand; the lease, which is no file of the run, left out."""
        for name, size in self._listed(prefix):
            if name != LEASE and not name.rpartition("/")[2].startswith(TEMPORARY):
                yield name, size

    def _listed(self, prefix: str) -> Iterator[tuple[str, int]]:
        given = {"Bucket": self._bucket, "Prefix": self._prefix + prefix}
        try:
            for entry in self._client.pages("list_objects_v2", "Contents", **given):
                if not entry["Key"].endswith("/"):
                    yield entry["Key"][len(self._prefix) :], int(entry["Size"])
        except Refused as error:
            raise self._stopped(error, prefix) from error

    # writing

    def write(self, name: str, data: bytes) -> dict[str, Any]:
        """One PUT, checked by its answer."""
        sha256 = hashlib.sha256(data).hexdigest()
        try:
            self._target(name).put(data, sha256)
        except Refused as error:
            raise self._stopped(error, name) from error
        return {"bytes": len(data), "sha256": sha256}

    def write_new(self, name: str, data: bytes) -> bool:
        """A put on the condition that nothing has the name."""
        return self.size(name) < 0 and self.put_if(name, data, None) is not None

    def put_if(self, name: str, data: bytes, tag: str | None) -> str | None:
        """The ETag after a put that demands the ETag ``tag`` (None: nothing there); None if the demand failed."""
        try:
            return self._target(name).put_if(data, hashlib.sha256(data).hexdigest(), uuid.uuid4().hex, tag)
        except Refused as error:
            raise self._stopped(error, name) from error

    def draft(self, name: str, attempt: str) -> Path:
        """In local scratch, all in one folder."""
        parent, _, base = name.rpartition("/")
        return self._scratch() / f"{TEMPORARY}{attempt}-{hashlib.sha256(parent.encode()).hexdigest()[:8]}-{base}"

    def publish(self, draft: Path, name: str, facts: Mapping[str, Any]) -> None:
        """Uploaded and proven; then the draft is removed."""
        with disk(draft):
            size = draft.stat().st_size
            if size != facts["bytes"]:
                raise StopError(f"the draft of {name} has {size:,} bytes, not {facts['bytes']:,}; start again")
            try:
                if size <= PART:
                    data = draft.read_bytes()
                    same(hashlib.sha256(data).hexdigest(), facts["sha256"], name)
                    self._target(name).put(data, facts["sha256"])
                else:
                    self._target(name).put_parts(draft, size, facts["sha256"])
            except Refused as error:
                raise self._stopped(error, name) from error
            draft.unlink()

    # removing

    def delete(self, name: str) -> None:
        """S3 deletes what is not there without a word."""
        with suppress(FileNotFoundError):
            self._ask("delete_object", name)

    def delete_below(self, prefix: str) -> None:
        """By the thousand, uploads too; the lease is its holder's to delete."""
        batch: list[str] = []
        for name, _ in self._listed(prefix):
            if name != LEASE:
                batch.append(name)
            if len(batch) == _BATCH:
                self._delete(batch)
                batch = []
        self._delete(batch)
        self._abort(prefix)

    def _delete(self, batch: list[str]) -> None:
        if not batch:
            return
        keys = [{"Key": self._prefix + name} for name in batch]
        try:
            given = {"Bucket": self._bucket, "Delete": {"Objects": keys, "Quiet": True}}
            failed = self._client.ask("delete_objects", **given).get("Errors") or ()
        except Refused as error:
            if not error.unknown:
                raise self._stopped(error, batch[0]) from error
            failed = keys  # a store without deletion by the batch
        for entry in failed:
            self.delete(entry["Key"][len(self._prefix) :])

    def leftovers(self) -> Iterator[tuple[str, int, str]]:
        """Uploads that nobody ended. Drafts lie in local scratch, which the next run of their user there removes."""
        try:
            for key, _ in uploads(self._client, self._bucket, self._prefix):
                yield key[len(self._prefix) :], 0, "upload"
        except Refused as error:
            raise self._stopped(error, "") from error

    def remove_leftovers(self) -> None:
        """Ends them."""
        self._abort("")

    def _abort(self, prefix: str) -> None:
        try:
            for key, upload in list(uploads(self._client, self._bucket, self._prefix + prefix)):
                Target(self._client, self._bucket, key).abort(upload)
        except Refused as error:
            raise self._stopped(error, prefix) from error

    def _scratch(self) -> Path:
        return scratch(self.options.scratch)

    def free(self) -> int:
        """Of the scratch folder's file system."""
        return disk_usage(self._scratch()).free

    def hold(self, tell: Callable[[str], None]) -> Hold:
        """A lease, ``work/lease.json``: its first writing also proves the right to write here."""
        try:
            return Lease(_LeaseObject(self, LEASE), self.root, tell)
        except StopError as error:
            if isinstance(error.__cause__, Refused):
                raise ConfigError(f"{self.root} cannot be written: {error.__cause__.why}") from error
            raise


class _LeaseObject:
    """The object of a lease, for io/lease.py."""

    def __init__(self, store: ObjectStore, name: str) -> None:
        self._store, self._name = store, name

    def get(self) -> tuple[bytes, str] | None:
        file = self._store.file(self._name)
        try:
            data = b"".join(file.stream(0, s3.END))
        except Refused as error:
            if error.missing:
                return None
            raise StopError(f"{self._store.root}/{self._name}: {error.why}") from error
        return data, file.etag

    def put(self, data: bytes, tag: str | None) -> str | None:
        return self._store.put_if(self._name, data, tag)

    def remove(self) -> None:
        self._store.delete(self._name)
