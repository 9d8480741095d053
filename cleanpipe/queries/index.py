"""The index beside the ledger: for each ledger part a small file in which a key finds its rows without reading them.

``index/part-00000.keys``, little-endian: MAGIC, u32 rows of the part, u32 bytes of a row number (2 or 4), u32 entries
of each of the four lists below; then the lists, each of them all keys, ascending, then the row of each key; keys and
rows begin at a multiple of 8 bytes. Equal keys stand by row; a null has no entry.

    doc_id      u32  its first 4 bytes, big-endian: so that a prefix is a range
    record_id   u32  the first 8 hex digits of a UUID, else 4 bytes of BLAKE2b of ``bare_id``
    url         u64  BLAKE2b of parts of ``bare_url``: 4 bytes of the host, 2 of the first folder, 2 of the whole path
    kept_doc_id u32  as doc_id, of duplicates: the rows that a kept document stands for

A key narrows down to a few rows; what decides is the ledger's row itself. Spellings of a URL that are easily mistaken
for one another have one key, so a near miss is found as quickly as a hit.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe import batch as col

MAGIC = b"cpindex1"
KEYED = (col.DOC_ID, col.RECORD_ID, col.URL, col.KEPT_DOC_ID)
_KINDS: tuple[np.dtype[Any], ...] = (np.dtype("<u4"), np.dtype("<u4"), np.dtype("<u8"), np.dtype("<u4"))
_HEAD = struct.Struct("<8sII4I")
_PART = re.compile(r"ledger/part-\d{5,}\.parquet")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PORTS = {"http": ":80", "https": ":443", "": ""}
_Rows = npt.NDArray[np.int64]


def index_name(part: int) -> str:
    """Of a ledger part's index, in the run folder."""
    return f"index/part-{part:05d}.keys"


# --- keys


def bare_id(record_id: str) -> str:
    """A record id without brackets, ``urn:uuid:`` and capitals, which people leave out."""
    return record_id.strip().removeprefix("<").removesuffix(">").strip().lower().removeprefix("urn:uuid:")


def bare_url(url: str) -> tuple[str, str]:
    """Host and what is behind it, without what spellings of one page differ in: scheme (of the web), ``www.``, default
    port, capitals, percent-encoding, fragment, a slash or a bare ``?`` at the end. Never fails.
    """
    scheme, found, rest = url.partition("://")
    scheme = scheme.lower() if found else ""
    rest = rest if found else url
    rest = rest.partition("#")[0]
    cut = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    host, path = rest[:cut].rpartition("@")[2].lower(), rest[cut:]
    host = (unquote(host) if "%" in host else host).removesuffix(_PORTS.get(scheme, "")).rstrip(".")
    if scheme not in _PORTS:
        host = f"{scheme}://{host}"
    elif not host.isascii() and len(host) < 254:  # longer ones are no names
        host = _ascii(host)
    path = (unquote(path) if "%" in path else path).lower().rstrip("?").rstrip("/")
    return host.removeprefix("www."), path.removeprefix("/")


@lru_cache(maxsize=1024)
def _ascii(host: str) -> str:
    try:
        return host.encode("idna").decode("ascii")
    except UnicodeError:
        return host


def _hashed(text: str, size: int) -> int:
    """BLAKE2b of the text in UTF-8, made with that digest size, big-endian."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest(), "big")


_held = lru_cache(maxsize=1 << 14)(_hashed)  # hosts and folders come again and again; long ones are not held


def _often(text: str, size: int) -> int:
    return _held(text, size) if len(text) < 256 else _hashed(text, size)


def id_key(record_id: str) -> int:
    """See the module."""
    bare = bare_id(record_id)
    return int(bare[:8], 16) if UUID.fullmatch(bare) else _hashed(bare, 4)


def url_key(host: str, path: str) -> int:
    """See the module; of what ``bare_url`` gives."""
    return _often(host, 4) << 32 | path_key(path)


def host_key(host: str) -> int:
    """The upper 4 bytes of its URLs' keys."""
    return _hashed(host, 4)


def path_key(path: str) -> int:
    """The lower 4 bytes of the keys of all URLs of this path."""
    return _often(path.partition("/")[0].partition("?")[0], 2) << 16 | _hashed(path, 2)


# --- writing


def index_of(table: pa.Table) -> bytes:
    """The index of a ledger part: the same bytes for the same rows."""
    lists = [_doc_keys(_whole(table, col.DOC_ID))]
    ids = _whole(table, col.RECORD_ID).to_pylist()
    lists.append(_keys([None if i is None else id_key(i) for i in ids]))
    urls = _whole(table, col.URL).to_pylist()
    lists.append(_keys([None if u is None else url_key(*bare_url(u)) for u in urls]))
    lists.append(_doc_keys(_whole(table, col.KEPT_DOC_ID)))
    width = 2 if table.num_rows <= 1 << 16 else 4
    out = bytearray(_HEAD.pack(MAGIC, table.num_rows, width, *(len(keys) for keys, _ in lists)))
    for (keys, rows), kind in zip(lists, _KINDS, strict=True):
        order = np.lexsort((rows, keys))
        for values in (keys[order].astype(kind), rows[order].astype(f"<u{width}")):
            out += bytes(-len(out) % 8) + values.tobytes()
    return bytes(out)


def _whole(table: pa.Table, name: str) -> pa.Array:
    values = table.column(name)
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.nulls(0, values.type)


def _doc_keys(ids: pa.Array) -> tuple[npt.NDArray[np.uint64], _Rows]:
    rows = np.flatnonzero(ids.is_valid().to_numpy(zero_copy_only=False)).astype(np.int64)
    data = np.frombuffer(ids.buffers()[1] or b"", np.uint8)[ids.offset * 16 : (ids.offset + len(ids)) * 16]
    first = np.ascontiguousarray(data.reshape(-1, 16)[:, :4]).view(">u4").reshape(-1)
    return first[rows].astype(np.uint64) if len(rows) else np.zeros(0, np.uint64), rows


def _keys(values: Sequence[int | None]) -> tuple[npt.NDArray[np.uint64], _Rows]:
    rows = np.array([i for i, v in enumerate(values) if v is not None], np.int64)
    return np.array([v for v in values if v is not None], np.uint64), rows


# --- reading


@dataclass(frozen=True, slots=True)
class Index:
    """One part's lists, over bytes that may be mapped; a look touches a few pages. rows: of the ledger part."""

    rows: int
    lists: dict[str, tuple[npt.NDArray[np.unsignedinteger], npt.NDArray[np.unsignedinteger]]]

    @classmethod
    def of(cls, data: bytes | memoryview) -> Index:
        """Raises ValueError where the bytes are no index."""
        if len(data) < _HEAD.size:
            raise ValueError("too short for an index")
        magic, rows, width, *counts = _HEAD.unpack_from(data)
        if magic != MAGIC or width not in (2, 4):
            raise ValueError("not an index of a ledger part, or of another version")
        lists, at = {}, _HEAD.size
        for name, count, kind in zip(KEYED, counts, _KINDS, strict=True):
            pair = []
            for of in (kind, np.dtype(f"<u{width}")):
                at += -at % 8
                pair.append(np.frombuffer(data, of, count, at))  # a ValueError where it is too short
                at += count * of.itemsize
            lists[name] = (pair[0], pair[1])
        if at != len(data):
            raise ValueError("longer than its lists")
        return cls(rows, lists)

    def between(self, name: str, low: int, high: int) -> list[int]:
        """Rows whose key is low ≤ key ≤ high, by key."""
        keys, rows = self.lists[name]
        first = np.searchsorted(keys, keys.dtype.type(low), "left")
        last = np.searchsorted(keys, keys.dtype.type(high), "right")
        return [int(r) for r in rows[first:last]]

    def has_hosts(self, hosts: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which of these (``host_key``) have a URL here, or one whose host has the same key."""
        keys, low = self.lists[col.URL][0], hosts << np.uint64(32)
        return np.searchsorted(keys, low) < np.searchsorted(keys, low | np.uint64(0xFFFFFFFF), "right")

    def same_path(self, path: str) -> list[int]:
        """Rows of this path on any host, by key; all keys are read."""
        keys, rows = self.lists[col.URL]
        found = np.flatnonzero((keys & np.uint64(0xFFFFFFFF)) == np.uint64(path_key(path)))
        return [int(r) for r in rows[found]]


def prefix_range(prefix: str) -> tuple[int, int]:
    """Keys of the ids that begin with these hex digits (as far as 8 of them tell)."""
    low = prefix[:8]
    return int(low.ljust(8, "0"), 16), int(low.ljust(8, "f"), 16)


def url_ranges(host: str, path: str) -> Iterator[tuple[int, int]]:
    """Keys of the same page, of the same host and first folder, and of the same host."""
    key = url_key(host, path)
    for bits in (0, 16, 32):
        yield key >> bits << bits, key | (1 << bits) - 1


# --- proof


def check_indexes(out: Path, named: Collection[str], sound: Collection[str]) -> Iterator[tuple[str, str]]:
    """Faults of the indexes of a run folder as (file, what): each is what its ledger part gives, and none is left out.

    named: files of the manifest. sound: those that are as it says. A run without any index is of an older version.
    """
    import pyarrow.parquet as pq

    parts = {index_name(int(n[12:-8])): n for n in sorted(named) if _PART.fullmatch(n)}
    have = [n for n in sorted(named) if n.startswith("index/")]
    for name in have:
        if name not in parts:
            yield name, "is the index of no ledger part"
    for name, ledger in parts.items() if have else ():
        if name not in named:
            yield ledger, f"has no index: {name} is not in the manifest"
        if name not in sound or ledger not in sound:
            continue
        try:
            if index_of(pq.read_table(out / ledger, columns=list(KEYED))) != (out / name).read_bytes():
                yield name, f"is not the index of {ledger}"
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
            continue  # the ledger part cannot be read: that is said of it
