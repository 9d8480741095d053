"""S3 and what speaks like it: one client a process, every request tried again with waits, foreign errors as ours.

Credentials come from where botocore looks: the environment, a profile, the machine's role. No message shows them.
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64encode
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from cleanpipe.errors import ConfigError
from cleanpipe.io.remote import NOT_KNOWN, Again, Body, NoBody, Ranged, ReadAhead, Refused, persist, said
from cleanpipe.options import StorageOptions

END = 1 << 50  # behind the end of every object
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{2,62}")
_FIRST = 64 << 10  # bytes asked for when a file is opened: most heads lie there
_LATER = {"SlowDown", "RequestTimeout", "RequestTimeoutException", "InternalError", "ServiceUnavailable", "Throttling"}
_LATER |= {
    "ThrottlingException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "TooManyRequests",
    "OperationAborted",
}
_LATER |= {"ConditionalRequestConflict", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch", "RequestThrottled"}
_KEYS = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired"}
_KEYS |= {
    "RequestTimeTooSkewed",
    "ExpiredTokenException",
    "UnrecognizedClientException",
    "NoCredentials",
    "AuthFailure",
}
_OTHER_PLACE = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
_CREDENTIALS = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or --set storage.profile=NAME; "
    "for a public bucket --set storage.anonymous=true"
)


def split(url: str) -> tuple[str, str]:
    """Bucket and key of ``s3://bucket/key``.

    Raises:
        ConfigError: it names no bucket.
    """
    bucket, _, key = url.removeprefix("s3://").partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise ConfigError(
            "an S3 address is s3://bucket/prefix: 3 to 63 letters, figures, dots and hyphens, and no password in it"
        )
    return bucket, key


def client(options: StorageOptions) -> Client:
    """The client of this process: threads share it, a forked child makes its own."""
    return _client(options, os.getpid())


@lru_cache(maxsize=1)
def _loader() -> Any:
    """S3's description, parsed once a process."""
    from botocore.loaders import create_loader

    return create_loader()


@lru_cache(maxsize=8)
def _client(options: StorageOptions, _pid: int) -> Client:
    return Client(options)


class Client:
    """Requests to one server. Raises, from any request: Refused for its no, StopError once the tries are used up."""

    def __init__(self, options: StorageOptions) -> None:
        try:
            import botocore.session
        except ImportError as error:
            raise ConfigError("s3:// needs botocore: pip install botocore") from error
        self.options, self._met = options, False
        try:
            session = botocore.session.Session(profile=options.profile or None)
            session.register_component("data_loader", _loader())
            endpoint = options.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
            self._raw = self._made(session, endpoint)
            if not endpoint and not _aws(self._raw.meta.endpoint_url):  # the profile names one
                self._raw = self._made(session, self._raw.meta.endpoint_url)
        except ConfigError:
            raise
        except Exception as error:  # botocore's, of many kinds: no such profile, a file that does not parse
            raise ConfigError(f"the S3 client cannot be set up: {said(error)}") from error

    def _made(self, session: Any, endpoint: str | None) -> Any:
        from botocore import UNSIGNED
        from botocore.config import Config

        options = self.options
        config = Config(
            signature_version=UNSIGNED if options.anonymous else None,
            connect_timeout=min(10.0, options.timeout),
            read_timeout=options.timeout,
            retries={"total_max_attempts": 1},  # we count the tries: its own do not resume a body, nor wait out a storm
            max_pool_connections=32,
            request_checksum_calculation="when_required",  # others than AWS refuse its trailers; Content-MD5 they know
            response_checksum_validation="when_required",
            s3={"addressing_style": "path"} if endpoint and not _aws(endpoint) else None,
            user_agent_extra="cleanpipe",
        )
        region = options.region or session.get_config_variable("region") or "us-east-1"
        made = session.create_client("s3", region_name=region, endpoint_url=endpoint, config=config)
        made.meta.events.register("before-sign.s3.DeleteObjects", _with_md5)
        return made

    @property
    def endpoint(self) -> str:
        """Where requests go, for messages."""
        return said(ValueError(self._raw.meta.endpoint_url))

    def once(self, operation: str, **given: Any) -> Any:
        """One try. Raises Again or Refused."""
        try:
            answer = getattr(self._raw, operation)(**given)
        except Exception as error:
            raise self.translated(error) from error
        self._met = True
        return answer

    def ask(self, operation: str, **given: Any) -> Any:
        """A request that may be made twice."""
        return persist(lambda _: self.once(operation, **given), self.options, self.place(given))

    def place(self, given: Any) -> str:
        """Bucket, key and server of a request, for messages."""
        name = f"s3://{given['Bucket']}/{given.get('Key', given.get('Prefix', ''))}"
        return name if _aws(self._raw.meta.endpoint_url) else f"{name} at {self.endpoint}"

    def pages(self, operation: str, field: str, **given: Any) -> Iterator[Any]:
        """The entries ``field`` of every page of a listing."""
        tokens = {"list_objects_v2": (("NextContinuationToken", "ContinuationToken"),)}.get(
            operation, (("NextKeyMarker", "KeyMarker"), ("NextUploadIdMarker", "UploadIdMarker"))
        )
        while True:
            page = self.ask(operation, **given)
            yield from page.get(field) or ()
            following = {to: page[token] for token, to in tokens if page.get(token)}
            if not page.get("IsTruncated") or not following:
                return
            given |= following

    def translated(self, error: Exception) -> Exception:
        """An error of botocore as Again or Refused; any other as it is."""
        from botocore import exceptions as known

        if isinstance(error, known.ClientError):
            self._met = True
            return _judged(error.response, said(error))
        if isinstance(
            error,
            known.NoCredentialsError | known.PartialCredentialsError | known.ProfileNotFound | known.NoAuthTokenError,
        ):
            return Refused(f"no credentials: {_CREDENTIALS}", 403, "NoCredentials", everywhere=True)
        if isinstance(error, known.TokenRetrievalError | known.UnauthorizedSSOTokenError | known.InvalidConfigError):
            return Refused(f"{said(error)}: {_CREDENTIALS}", 403, "NoCredentials", everywhere=True)
        if isinstance(error, known.ParamValidationError):
            return Refused(said(error), 400, "InvalidName")
        line = known.ConnectionError, known.HTTPClientError, known.ConnectTimeoutError, known.ReadTimeoutError
        broken = known.CredentialRetrievalError, known.MetadataRetrievalError, known.IncompleteReadError
        cut = type(error).__name__ == "ResponseParserError"  # an answer that ends in its middle
        if isinstance(error, (*line, *broken, OSError)) or cut:
            return Again(said(error), unmet=not self._met)
        return error


def _with_md5(request: Any, **_: Any) -> None:
    """Servers that do not know CRC32 want Content-MD5 where S3 wants a checksum."""
    body = request.data if isinstance(request.data, bytes) else request.data.encode()
    request.headers["Content-MD5"] = b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def _aws(endpoint: str) -> bool:
    host = endpoint.partition("://")[2].partition("/")[0].partition(":")[0]
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn"))


def _judged(response: Any, why: str) -> Exception:
    """An answer that is no success."""
    code = str(response.get("Error", {}).get("Code", ""))
    meta = response.get("ResponseMetadata", {})
    status, headers = int(meta.get("HTTPStatusCode") or 0), meta.get("HTTPHeaders", {})
    if code.isdigit():  # a HEAD has no body that could name it
        code = {"404": "NoSuchKey", "403": "AccessDenied", "412": "PreconditionFailed", "301": "PermanentRedirect"}.get(
            code, code
        )
    if code in _LATER or status == 429 or (status >= 500 and code not in NOT_KNOWN and status != 501):
        after = str(headers.get("retry-after", ""))
        return Again(f"{status or ''} {code}".strip(), float(after) if after.isdigit() else 0.0)
    if code == "NoSuchBucket":
        why = "no such bucket: its name, or --set storage.endpoint=URL, is another"
    elif code == "RequestTimeTooSkewed":
        why = "the clock of this machine is wrong: S3 refuses its signatures"
    elif code in _KEYS:
        why = f"credentials refused ({code}): {_CREDENTIALS}"
    elif code in _OTHER_PLACE or status == 301:
        region = headers.get("x-amz-bucket-region") or response.get("Error", {}).get("Region") or "NAME"
        why = f"the bucket lies in another region: --set storage.region={region}"
    elif code == "AccessDenied":
        why = f"access denied: these credentials, or none, do not do: {_CREDENTIALS}"
    return Refused(why, status, code, everywhere=code in _KEYS or code in _OTHER_PLACE or code == "NoSuchBucket")


class _S3Body:
    def __init__(self, client: Client, body: Any) -> None:
        self._client, self._body = client, body

    def read(self, size: int, /) -> bytes:
        try:
            return bytes(self._body.read(size))
        except Exception as error:  # botocore's and urllib3's
            translated = self._client.translated(error)
            raise translated if isinstance(translated, Again) else Again(said(error)) from error

    def close(self) -> None:
        self._body.close()


class S3File(Ranged):
    """An object, read by ranges. Its first answer tells sha256 too, where its metadata have that."""

    def __init__(self, uri: str, options: StorageOptions) -> None:
        super().__init__(uri, options)
        self._bucket, self._key = split(uri)
        self._client, self.etag = client(options), ""
        self.place = self._client.place({"Bucket": self._bucket, "Key": self._key})
        self.sha256 = ""

    def ask(self, begin: int, stop: int) -> Body:
        """One GET, on the condition that the object has the tag that it had at the first."""
        at = {"Bucket": self._bucket, "Key": self._key}
        given = at | {"Range": f"bytes={begin}-{stop - 1}"} | ({"IfMatch": self.etag} if self.etag else {})
        try:
            answer = self._client.once("get_object", **given)
        except Refused as error:
            if self.etag and error.status in (412, 416):
                raise self.changed() from error
            if begin or error.status != 416:
                raise
            self._learn(self._client.once("head_object", **at), 0)
            return NoBody()
        if not self.etag:
            self._learn(answer, begin)
        elif answer.get("ETag") != self.etag:
            answer["Body"].close()
            raise self.changed()
        if not str(answer.get("ContentRange", "bytes 0-")).startswith(f"bytes {begin}-"):
            answer["Body"].close()
            raise Again(f"another range came than was asked for: {answer.get('ContentRange')}")
        return _S3Body(self._client, answer["Body"])

    def _learn(self, answer: Any, begin: int) -> None:
        total = str(answer.get("ContentRange", "")).rpartition("/")[2]
        self.size = int(total) if total.isdigit() else begin + int(answer["ContentLength"])
        self.etag, self.sha256 = answer.get("ETag", ""), answer.get("Metadata", {}).get("sha256", "")
        self.tag = self.etag.strip('"')


def open_file(uri: str, options: StorageOptions) -> tuple[ReadAhead, int, str]:
    """An object to read, its size and its tag. Raises Refused, StopError."""
    file = S3File(uri, options)
    start = b"".join(file.stream(0, _FIRST))
    return ReadAhead(file, start), file.size, file.tag


def listed(url: str, options: StorageOptions) -> Iterator[tuple[str, int, str]]:
    """URL, size and tag of every object whose key begins as ``url`` says. Raises Refused, StopError."""
    bucket, prefix = split(url)
    for entry in client(options).pages("list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix):
        if not entry["Key"].endswith("/"):
            yield f"s3://{bucket}/{entry['Key']}", int(entry["Size"]), str(entry.get("ETag", "")).strip('"')


def found(url: str, options: StorageOptions) -> tuple[str, int, str] | None:
    """The same of one object; None if it is not there."""
    bucket, key = split(url)
    try:
        answer = client(options).ask("head_object", Bucket=bucket, Key=key)
    except Refused as error:
        if error.missing:
            return None
        raise
    return url, int(answer["ContentLength"]), str(answer.get("ETag", "")).strip('"')
