"""Putting an object into a bucket: whole, proven to be what was sent, or not at all."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cleanpipe.errors import StopError
from cleanpipe.io.remote import Again, Patience, Refused, persist
from cleanpipe.io.s3 import Client, S3File

PART = 16 << 20  # bytes of a part of an upload, and the largest object sent in one
_PARTS = 9_000  # a larger file gets larger parts: S3 takes 10,000
_MANAGED = ("aws:kms", "aws:kms:dsse", "aws:fsx")  # encryptions after which an ETag is no MD5
_ABORTS = 4  # tries to end an upload: a program that is told to stop has no time for more


@dataclass(frozen=True, slots=True)
class Target:
    """One key of a bucket. Raises, from any method: Refused, and StopError once the tries are used up."""

    client: Client
    bucket: str
    key: str

    @property
    def _at(self) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.key}

    @property
    def _place(self) -> str:
        return self.client.place(self._at)

    def put(self, data: bytes, sha256: str, writer: str = "", **conditions: str) -> str:
        """One PUT; gives the ETag. conditions: IfMatch or IfNoneMatch. writer: goes into the metadata."""
        md5 = hashlib.md5(data, usedforsecurity=False)
        given = self._at | {"Body": data, "ContentMD5": base64.b64encode(md5.digest()).decode()} | conditions
        metadata = {"sha256": sha256} | ({"writer": writer} if writer else {})

        def put(_: int) -> str:
            answer = self.client.once("put_object", Metadata=metadata, **given)
            etag = str(answer.get("ETag", ""))
            if etag.strip('"') != md5.hexdigest():
                self._prove(md5.hexdigest(), len(data), sha256)
            return etag

        return persist(put, self.client.options, self._place)

    def put_if(self, data: bytes, sha256: str, writer: str, tag: str | None) -> str | None:
        """A put that demands the ETag ``tag`` (None: no object there); None if the demand failed.

        The answer to a try may be lost: the metadata of what lies there then tells who wrote it.
        """
        try:
            return self.put(data, sha256, writer, **({"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}))
        except Refused as error:
            if error.unknown or error.code in ("InvalidArgument", "InvalidRequest"):  # a store without conditions
                return self.put(data, sha256, writer)
            if error.status not in (404, 412) or error.code == "NoSuchBucket":
                raise
        head = self._head()
        ours = head is not None and head.get("Metadata", {}).get("writer") == writer
        return str(head["ETag"]) if head is not None and ours else None

    def _head(self) -> Any:
        try:
            return self.client.ask("head_object", **self._at)
        except Refused as error:
            if error.missing:
                return None
            raise

    def _prove(self, etag: str, size: int, sha256: str) -> None:
        """What lies there is what was sent. Where its ETag is no MD5, and nothing says why, it is read back.

        Raises:
            Again: it is not; it is removed.
        """
        head = self._head()
        if head is not None and head["ContentLength"] == size:
            if str(head.get("ETag", "")).strip('"') == etag:
                return
            if head.get("ServerSideEncryption") in _MANAGED or head.get("SSECustomerAlgorithm"):
                return  # the server compared each MD5 with what came in
            file, digest = S3File(f"s3://{self.bucket}/{self.key}", self.client.options), hashlib.sha256()
            for piece in file.stream(0, size):
                digest.update(piece)
            if digest.hexdigest() == sha256:
                return
        self.client.ask("delete_object", **self._at)
        raise Again("the object is not what was sent")

    def put_parts(self, draft: Path, size: int, sha256: str) -> None:
        """An upload in parts, of a local file; whatever goes wrong, an interrupt too, it is ended again."""
        patience = Patience(self.client.options, self._place)
        while True:
            upload = self._begin(sha256)
            try:
                self._parts(draft, size, sha256, upload)
                return
            except BaseException as error:
                with suppress(Exception):  # storage that is lost keeps it, for remove_leftovers
                    self.abort(upload)
                if not isinstance(error, Again):
                    raise
                patience.wait(error)

    def _begin(self, sha256: str) -> str:
        tries = 0

        def create(count: int) -> str:
            nonlocal tries
            tries = count
            return str(self.client.once("create_multipart_upload", **self._at, Metadata={"sha256": sha256})["UploadId"])

        upload = persist(create, self.client.options, self._place)
        if tries > 1:  # an upload whose answer was lost may have begun; another attempt's at this name begins anew
            with suppress(Refused):
                for key, other in list(uploads(self.client, self.bucket, self.key)):
                    if key == self.key and other != upload:
                        self.abort(other)
        return upload

    def _parts(self, draft: Path, size: int, sha256: str, upload: str) -> None:
        """Raises Again where all of it must be sent anew."""
        step = PART if size <= PART * _PARTS else -(-size // _PARTS)
        digest, whole, parts = hashlib.sha256(), hashlib.md5(usedforsecurity=False), list[dict[str, Any]]()
        with draft.open("rb") as file:
            while data := file.read(step):
                digest.update(data)
                md5 = hashlib.md5(data, usedforsecurity=False)
                whole.update(md5.digest())
                given = {"Body": data, "ContentMD5": base64.b64encode(md5.digest()).decode(), "UploadId": upload}
                answer = self._part("upload_part", PartNumber=len(parts) + 1, **given)
                parts.append({"PartNumber": len(parts) + 1, "ETag": answer["ETag"]})
        same(digest.hexdigest(), sha256, self.key)
        etag = f"{whole.hexdigest()}-{len(parts)}"
        try:
            self._part("complete_multipart_upload", UploadId=upload, MultipartUpload={"Parts": parts})
        except Again:  # an answer before it may have been lost, and the upload be complete
            head = self._head()
            if head is None or head["ContentLength"] != size or str(head.get("ETag", "")).strip('"') != etag:
                raise
            return
        self._prove(etag, size, sha256)

    def _part(self, operation: str, **given: Any) -> Any:
        try:
            return self.client.ask(operation, **self._at, **given)
        except Refused as error:
            if error.missing or error.code in ("InvalidPart", "NoSuchUpload"):
                raise Again("the upload is gone") from error
            raise

    def abort(self, upload: str) -> None:
        """Ends an upload; one that is gone is no error."""
        options = replace(self.client.options, attempts=min(self.client.options.attempts, _ABORTS))
        given = self._at | {"UploadId": upload}
        try:
            persist(lambda _: self.client.once("abort_multipart_upload", **given), options, self._place)
        except Refused as error:
            if not error.missing:
                raise


def uploads(client: Client, bucket: str, prefix: str) -> Iterator[tuple[str, str]]:
    """Key and id of every upload that was begun and not ended; none where the store cannot list them."""
    try:
        for entry in client.pages("list_multipart_uploads", "Uploads", Bucket=bucket, Prefix=prefix):
            yield entry["Key"], entry["UploadId"]
    except Refused as error:
        if not error.unknown:
            raise


def same(found: str, wanted: str, name: str) -> None:
    """Raises StopError: the local draft is not the one that was written."""
    if found != wanted:
        raise StopError(f"the local draft of {name} is not as it was written: is the disk sound?")
