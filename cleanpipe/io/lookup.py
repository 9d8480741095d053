"""What lies in storage: one name, many names at a time, what lies in a folder, what matches a pattern."""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from typing import Any

from cleanpipe.io.bytesource import ByteSource, is_remote
from cleanpipe.io.remote import Refused
from cleanpipe.options import StorageOptions

Found = tuple[str, int, str]  # URI, size, stamp

_THREADS = 16
_LISTED = 32  # so many names in one folder are listed, not asked for one by one


def is_web(uri: str) -> bool:
    """A file of a web server: no folders, no globs."""
    return is_remote(uri) and not uri.startswith("s3://")


def look(uri: str, storage: StorageOptions) -> Found | None:
    """One object or file; None if it is not there, or a folder. Raises Refused, StopError, and what fsspec raises."""
    if uri.startswith("s3://"):
        from cleanpipe.io import s3  # lazily: local runs do without these clients

        key = s3.split(uri)[1]
        return s3.found(uri, storage) if key and not key.endswith("/") else None
    if is_web(uri):
        from cleanpipe.io import http_source

        return http_source.found(uri, storage)
    fs, path = _fsspec(uri)
    return _info(uri, fs.info(path)) if fs.isfile(path) else None


def look_all(uris: Sequence[str], storage: StorageOptions) -> list[Found | None]:
    """The same of many, with 16 requests under way; objects that lie together are listed, where listing is allowed."""
    known = _listings(uris, storage)
    rest = [uri for uri in uris if uri not in known]
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="cleanpipe-look") as pool:
        answers = [pool.submit(look, uri, storage) for uri in rest]
        try:
            known |= {uri: found for uri, answer in zip(rest, answers, strict=True) if (found := answer.result())}
        finally:
            pool.shutdown(cancel_futures=True)
    return [known.get(uri) for uri in uris]


def _listings(uris: Sequence[str], storage: StorageOptions) -> dict[str, Found]:
    folders: dict[str, set[str]] = defaultdict(set)
    for uri in uris:
        if uri.startswith("s3://"):
            folders[uri.rpartition("/")[0] + "/"].add(uri)
    known: dict[str, Found] = {}
    for folder, wanted in folders.items():
        if len(wanted) < _LISTED:
            continue
        with suppress(Refused):  # who may read need not be allowed to list
            most = 1_000 + 2 * len(wanted)  # a folder of many more names is not worth it
            known |= {entry[0]: entry for entry in islice(_listed(folder, storage), most) if entry[0] in wanted}
    return known


def _listed(prefix: str, storage: StorageOptions) -> Iterator[Found]:
    from cleanpipe.io import s3

    return s3.listed(prefix, storage)


def below(url: str, storage: StorageOptions) -> Iterator[Found]:
    """Every object of the folder ``url`` and of those in it. Raises as ``look`` does."""
    if url.startswith("s3://"):
        yield from _listed(url.rstrip("/") + "/", storage)
        return
    fs, path = _fsspec(url)
    for file, info in fs.find(path, detail=True).items():
        yield _info(_url(fs, url, file), info)


def matching(pattern: str, storage: StorageOptions) -> Iterator[Found]:
    """Every object whose URL matches a glob; ``**`` matches folders too. Raises as ``look`` does."""
    if not pattern.startswith("s3://"):
        fs, path = _fsspec(pattern)
        for file, info in fs.glob(path, detail=True).items():
            if info.get("type") != "directory":
                yield _info(_url(fs, pattern, file), info)
        return
    import fsspec

    matches = re.compile(fsspec.utils.glob_translate(pattern)).match
    for entry in _listed(re.split(r"[*?\[]", pattern, maxsplit=1)[0], storage):
        if matches(entry[0]):
            yield entry


def _fsspec(url: str) -> tuple[Any, str]:
    import fsspec  # lazily, too

    fs, path = fsspec.core.url_to_fs(url)
    return fs, str(path)


_STAMPS = (
    "ETag",
    "etag",
    "e_tag",
    "mtime",
    "LastModified",
    "last_modified",
    "updated",
    "modified",
    "created",
    "md5Hash",
)


def _info(uri: str, info: dict[str, Any]) -> Found:
    stamp = next((str(info[key]).strip('"') for key in _STAMPS if info.get(key)), "")
    return uri, int(info.get("size") or 0), stamp


def _url(fs: Any, name: str, path: str) -> str:
    """The URL of a path that the file system of ``name`` gave, chained as ``name`` is."""
    _, chain, rest = name.partition("::")
    return str(fs.unstrip_protocol(path)) + chain + rest


class Reader(io.RawIOBase):
    """A remote file from its start, for what reads streams."""

    def __init__(self, uri: str, storage: StorageOptions) -> None:
        super().__init__()
        self._source, self._at = ByteSource(uri, storage=storage), 0

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]  # one kind of buffer
        """The next bytes."""
        data = self._source.read_at(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def close(self) -> None:
        """Closes the source too."""
        self._source.close()
        super().close()


def opened(uri: str, storage: StorageOptions) -> io.BufferedReader:
    """A remote file to read in order. Raises ShardError, StopError."""
    return io.BufferedReader(Reader(uri, storage), 1 << 16)
