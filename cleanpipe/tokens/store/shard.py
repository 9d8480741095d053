"""One shard of an opened store: its files mapped when they are first touched, and proven as they are."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from cleanpipe.errors import CleanpipeError, DamagedFileError, StopError
from cleanpipe.io.hashing import sha256_of
from cleanpipe.tokens.layout import BLOCK
from cleanpipe.tokens.store.mapping import mapped_bytes
from cleanpipe.tokens.store.names import blocks, offsets_name, payload_name, spans_name, sums_name
from cleanpipe.tokens.store.offsets import Offsets, mapped

Place = Callable[[str], Path]  # of a file's name, its local path
Fault = Callable[[DamagedFileError], CleanpipeError]  # what is told of a file that is not as it was written


def _itself(error: DamagedFileError) -> CleanpipeError:
    return error


class Sides:
    """The small files of one shard: where its documents lie, and where they came from.

    entry: of store.json. place: gives a file's local path. proof: whether their SHA-256 is compared when they are first
    touched. sound: names of files of which it was already, added to as it is done; outlives this object. fault: says
    why a file is not as it was written.
    """

    def __init__(
        self,
        entry: dict[str, Any],
        dtype: npt.DTypeLike,
        place: Place,
        *,
        proof: bool,
        sound: set[str] | None = None,
        fault: Fault = _itself,
    ) -> None:
        self.entry, self.name, self.dtype = entry, str(entry["name"]), np.dtype(dtype)
        self.tokens, self.documents = int(entry["tokens"]), int(entry["documents"])
        self._place, self._proof = place, proof
        self._sound = sound if sound is not None else set()
        self.fault = fault
        self._offsets: Offsets | None = None
        self._spans: pa.Table | None = None

    @property
    def offsets(self) -> Offsets:
        """(documents + 1,) where each document begins, and the end of the last; mapped."""
        if self._offsets is None:
            name = offsets_name(self.name)
            path = self._proven(name, "offsets")
            try:
                found = mapped(path)
            except (OSError, ValueError, SyntaxError) as error:
                raise self.fault(DamagedFileError(f"cannot be read: {error}", source=name)) from error
            if len(found) != self.documents + 1 or found[0] != 0 or found[-1] != self.tokens:
                raise self.fault(DamagedFileError("does not fit store.json", source=name))
            self._offsets = found
        return self._offsets

    @property
    def spans(self) -> pa.Table:
        """One row for each window, in the payload's order; mapped."""
        if self._spans is None:
            name = spans_name(self.name)
            path = self._proven(name, "spans")
            try:
                with pa.memory_map(str(path)) as source:
                    self._spans = pa.ipc.open_file(source).read_all()
            except (OSError, pa.ArrowException) as error:
                raise self.fault(DamagedFileError(f"cannot be read: {error}", source=name)) from error
        return self._spans

    def _proven(self, name: str, side: str) -> Path:
        path = self._place(name)
        try:
            if self._proof and name not in self._sound:
                if sha256_of(path) != self.entry["files"][side]:
                    what = "is not as it was written: `cleanpipe verify` tells what else"
                    raise self.fault(DamagedFileError(what, source=name))
                self._sound.add(name)
            path.stat()
        except OSError as error:
            raise self._unread(name, error) from error
        return path

    def _unread(self, name: str, error: OSError) -> CleanpipeError:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            return StopError("too many open files: raise `ulimit -n`", source=name)
        if error.errno == errno.ENOMEM:
            return StopError("too many files are mapped: raise `sysctl vm.max_map_count` or `ulimit -v`", source=name)
        return self.fault(DamagedFileError(f"cannot be read: {error.strerror or error}", source=name))


class Shard(Sides):
    """One with its payload. Threads may use it at once: the worst that happens is that something is proven twice.

    seen: one bit for each block that was proven; outlives this object.
    """

    def __init__(
        self,
        entry: dict[str, Any],
        dtype: npt.DTypeLike,
        place: Place,
        *,
        proof: bool,
        sound: set[str] | None = None,
        seen: bytearray | None = None,
        fault: Fault = _itself,
    ) -> None:
        super().__init__(entry, dtype, place, proof=proof, sound=sound, fault=fault)
        self._size = self.tokens * self.dtype.itemsize
        self.seen = seen if seen is not None else bytearray((blocks(self._size) + 7) >> 3)
        self.ids: npt.NDArray[Any] | None = None  # mapped by ``mapped_ids``
        self._bytes = memoryview(b"")
        self._sums: npt.NDArray[np.uint64] | None = None

    def mapped_ids(self) -> npt.NDArray[Any]:
        """(tokens,) of the payload; who asks for spans alone does not have it fetched."""
        self._bytes = self._map(payload_name(self.name), self._size)
        ids: npt.NDArray[Any] = np.frombuffer(self._bytes, self.dtype)
        self.ids = ids
        return ids

    def _map(self, name: str, size: int) -> memoryview:
        path = self._place(name)
        try:
            found = mapped_bytes(path)
        except OSError as error:
            raise self._unread(name, error) from error
        if len(found) != size:
            what = f"{len(found):,} bytes, {size:,} by store.json: cut short or changed"
            raise self.fault(DamagedFileError(what, source=name))
        return found

    def bad_block(self, first: int, last: int) -> int:
        """The first damaged one of the blocks from ``first`` to ``last``, both included; -1 if all are sound."""
        seen = self.seen
        for block in range(first, last + 1):
            if seen[block >> 3] & (1 << (block & 7)):
                continue
            if self._sums is None:
                name = sums_name(self.name)
                self._proven(name, "sums")
                self._sums = np.frombuffer(self._map(name, 8 * blocks(self._size)), "<u8")
            if xxhash.xxh3_64_intdigest(self._bytes[block * BLOCK : (block + 1) * BLOCK]) != self._sums[block]:
                return block
            seen[block >> 3] |= 1 << (block & 7)
        return -1
