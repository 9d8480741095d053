"""MosaicML's MDS: ``shard.NNNNN.mds`` and ``index.json``, version 2, as mosaicml-streaming 0.13 reads them.

A shard is: uint32 number of samples; uint32 place of each sample and of the end; the columns as JSON; the samples. A
sample is the uint32 sizes of its columns and then these, in the order of their names. ``tokens`` is an array of one
dimension (a byte that says so, and its length), ``doc_id`` and ``url`` are text. It needs no package to be written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cleanpipe import batch as col
from cleanpipe.errors import ConfigError
from cleanpipe.io.hashing import HashingFile
from cleanpipe.tokens.layout import DOCUMENT
from cleanpipe.tokens.store.export import Numbers, Planned
from cleanpipe.tokens.store.opened import TokenStore

_LARGEST = (1 << 32) - 1  # places in a shard are uint32
_ID = 32  # hex digits of a doc_id


class Mds:
    """Whole documents; a file holds documents of one shard of tokens.

    gone: global numbers of documents to leave out, ascending. limit: bytes of a file.
    """

    def __init__(self, tokens: TokenStore, gone: Numbers, limit: int) -> None:
        self.tokens, self.gone, self.limit = tokens, gone, limit
        names = ("doc_id", "tokens", "url")
        self.config = {
            "column_encodings": ["str", f"ndarray:{tokens.dtype.name}", "str"],
            "column_names": list(names),
            "column_sizes": [None] * len(names),
            "compression": None,
            "format": "mds",
            "hashes": ["sha256"],
            "size_limit": limit,
            "version": 2,
        }
        self.head = json.dumps(self.config, sort_keys=True).encode()

    def files(self) -> Iterator[Planned]:
        """Every shard in its order."""
        number = 0
        for shard in range(len(self.tokens.shards)):
            first = int(self.tokens.document_starts[shard])
            documents = np.arange(first, int(self.tokens.document_starts[shard + 1]))
            documents = documents[~np.isin(documents, self.gone)] - first
            if not len(documents):
                continue
            urls = self._urls(shard)
            sizes = self._sizes(shard, documents, urls)
            for start, stop in _packed(sizes + 4, self.limit - 8 - len(self.head)):
                if int(sizes[start:stop].sum()) + 8 + len(self.head) + 4 * (stop - start) > _LARGEST:
                    raise ConfigError(f"document {first + int(documents[start]):,} is larger than MDS can hold")
                yield self._planned(number, shard, documents[start:stop], sizes[start:stop], urls)
                number += 1

    def _planned(self, number: int, shard: int, documents: Numbers, sizes: Numbers, urls: pa.Array) -> Planned:
        size = 8 + len(self.head) + 4 * len(sizes) + int(sizes.sum())
        write = partial(self._write, shard, documents, sizes, urls)
        return Planned(f"shard.{number:05d}.mds", size, write, {"samples": len(documents)})

    def _urls(self, shard: int) -> pa.Array:
        """Of each document of a shard of tokens, "" where none is known."""
        table = self.tokens.spans(shard)
        rows = np.flatnonzero(np.diff(table.column(DOCUMENT).to_numpy(), prepend=-1))
        return pc.fill_null(table.column(col.URL).take(pa.array(rows)).combine_chunks(), "")

    def _ids(self, shard: int, documents: Numbers) -> list[bytes]:
        table = self.tokens.spans(shard)
        rows = np.searchsorted(table.column(DOCUMENT).to_numpy(), documents)
        return [v.hex().encode() for v in table.column(col.DOC_ID).take(pa.array(rows)).to_pylist()]

    def _sizes(self, shard: int, documents: Numbers, urls: pa.Array) -> Numbers:
        """Bytes of each document's sample."""
        tokens: Numbers = np.diff(self.tokens.offsets(shard))[documents]
        url: Numbers = pc.binary_length(urls).to_numpy(zero_copy_only=False).astype(np.int64)[documents]
        ids: Numbers = tokens * self.tokens.dtype.itemsize
        return 12 + _ID + 1 + _shape_bytes(tokens) + ids + url

    def _write(self, shard: int, documents: Numbers, sizes: Numbers, urls: pa.Array, out: HashingFile) -> None:
        places = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=places[1:])
        places += 8 + 4 * len(sizes) + len(self.head)
        out.write(np.uint32(len(sizes)).astype("<u4").tobytes() + places.astype("<u4").tobytes() + self.head)
        offsets = self.tokens.offsets(shard)
        base = int(self.tokens.token_starts[shard])
        addresses = urls.take(pa.array(documents)).to_pylist()
        shapes = _shape_bytes(np.diff(offsets)[documents]).tolist()
        for number, identity, url, width in zip(
            documents.tolist(), self._ids(shard, documents), addresses, shapes, strict=True
        ):
            start, stop = int(offsets[number]), int(offsets[number + 1])
            ids = self.tokens.read(base + start, base + stop).tobytes()
            address = url.encode()
            sample = np.array([_ID, 1 + width + len(ids), len(address)], "<u4").tobytes()
            shape = bytes([4 | width.bit_length() - 1]) + (stop - start).to_bytes(width, "little")
            out.write(b"".join((sample, identity, shape, ids, address)))

    def index(self, files: Sequence[tuple[Planned, str]]) -> bytes:
        """index.json."""
        shards: list[dict[str, Any]] = [
            {
                **self.config,
                "samples": file.about["samples"],
                "raw_data": {"basename": file.name, "bytes": file.size, "hashes": {"sha256": digest}},
                "zip_data": None,
            }
            for file, digest in files
        ]
        return json.dumps({"version": 2, "shards": shards}, sort_keys=True).encode()


def _shape_bytes(tokens: Numbers) -> Numbers:
    """Bytes of the number that says how many tokens there are: the fewest of 1, 2 and 4 that hold it."""
    few: Numbers = np.where(tokens < 1 << 8, 1, np.where(tokens < 1 << 16, 2, 4)).astype(np.int64)
    return few


def _packed(sizes: npt.NDArray[np.int64], room: int) -> Iterator[tuple[int, int]]:
    """Neighbours that fit into ``room`` together, as many as do; one that does not fit stands alone."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + room, side="right")), start + 1)
        yield start, stop
        start = stop
