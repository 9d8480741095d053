"""LitData's chunks for its TokensLoader: ``chunk-0-N.bin`` and ``index.json``, as litdata 0.2.76 reads them.

A chunk is: uint32 number of items (here one); uint32 places where it begins and ends; the ids. The loader cuts a chunk
into blocks and forgets what is left, so a chunk here is a whole number of blocks, but the last. It needs no package.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from cleanpipe.errors import ConfigError
from cleanpipe.io.hashing import HashingFile
from cleanpipe.recipe import fingerprint
from cleanpipe.tokens.store.export import Numbers, Planned
from cleanpipe.tokens.store.opened import TokenStore

_HEAD = 12  # bytes of a chunk before its ids
_LARGEST = (1 << 32) - 1
_TYPES = {2: "no_header_tensor:20", 4: "no_header_tensor:16"}  # bytes of an id → LitData's names of uint16, int32
_PIECE = 1 << 20  # tokens at a time


class Litdata:
    """One stream of the tokens of all documents, but those in ``gone`` (global numbers, ascending)."""

    def __init__(self, tokens: TokenStore, gone: Numbers, length: int, limit: int) -> None:
        self.tokens, self.length, self.limit = tokens, length, limit
        self.width = tokens.dtype.itemsize
        if length * self.width + _HEAD > _LARGEST:
            raise ConfigError(f"--length {length:,}: a block must be smaller than 4 GiB")
        holes = [tokens.document_range(int(d)) for d in gone]
        self.starts = np.array([0, *(stop for _, stop in holes)], np.int64)  # of what stays, in the store
        stops = np.array([*(start for start, _ in holes), tokens.tokens], np.int64)
        self.ends = np.cumsum(stops - self.starts)  # of these, in the stream
        self.total = int(self.ends[-1])

    def files(self) -> Iterator[Planned]:
        """Every chunk in its order."""
        blocks = max((self.limit - _HEAD) // (self.length * self.width), 1)
        size = blocks * self.length
        for number, start in enumerate(range(0, self.total, size)):
            stop = min(start + size, self.total)
            write = partial(self._write, start, stop)
            yield Planned(f"chunk-0-{number}.bin", _HEAD + (stop - start) * self.width, write, {"dim": stop - start})

    def _write(self, start: int, stop: int, out: HashingFile) -> None:
        out.write(np.array([1, _HEAD, _HEAD + (stop - start) * self.width], "<u4").tobytes())
        while start < stop:
            run = int(np.searchsorted(self.ends, start, side="right"))
            end = min(stop, int(self.ends[run]), start + _PIECE)
            shift = int(self.starts[run]) - (int(self.ends[run - 1]) if run else 0)
            out.write(np.ascontiguousarray(self.tokens.read(start + shift, end + shift)).tobytes())
            start = end

    def index(self, files: Sequence[tuple[Planned, str]]) -> bytes:
        """index.json. Its date, by which LitData names its cache, is a number that the tokens give."""
        chunks = [
            {"chunk_bytes": file.size, "chunk_size": 1, "dim": file.about["dim"], "filename": file.name}
            for file, _ in files
        ]
        config: dict[str, Any] = {
            "chunk_bytes": self.limit,
            "chunk_size": None,
            "compression": None,
            "compression_batch_size": None,
            "compression_level": None,
            "data_format": [_TYPES[self.width]],
            "data_spec": json.dumps([1, {"type": None, "context": None, "children_spec": []}]),  # one leaf
            "encryption": None,
            "ipc_compression": None,
            "item_loader": "TokensLoader",
            "types": "tensor",
        }
        mark = int(fingerprint([digest for _, digest in files])[:13], 16) + 1
        return json.dumps({"chunks": chunks, "config": config, "updated_at": str(mark)}, sort_keys=True).encode()
