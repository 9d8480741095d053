"""One shard's payload, read once: its digest, its checksums, its ids, and the indexes that other readers have of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from cleanpipe.errors import CleanpipeError
from cleanpipe.tokens.layout import BLOCK, TOKENIZER
from cleanpipe.tokens.store.damage import documents, holds
from cleanpipe.tokens.store.dialects import INDEXES
from cleanpipe.tokens.store.names import LINK, TOKENS, offsets_name, payload_name, sums_name
from cleanpipe.tokens.store.shard import Sides

Finding = tuple[str, str]
_PIECE = 64 * BLOCK  # bytes at a time
_SHOWN = 5


class Payload:
    """Of the shard ``entry`` of store.json. named: the manifest's files. sound: which of them are as it says."""

    def __init__(
        self,
        folder: Path,
        info: Mapping[str, Any],
        entry: dict[str, Any],
        named: Mapping[str, Mapping[str, Any]],
        sound: set[str],
    ) -> None:
        self.folder, self.info, self.entry, self.named, self.sound = folder, info, entry, named, sound
        self.name = str(entry["name"])
        self.file = payload_name(self.name)
        self.dtype = np.dtype(info["dtype"]).newbyteorder("<")
        self.sides = Sides(entry, self.dtype, folder.joinpath, proof=True)
        self.bos, self.eos = info["bos"], info["eos"]

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64] | None:
        """None where the file cannot be believed."""
        try:
            return self.sides.offsets
        except CleanpipeError:
            return None

    def lost(self, size: int) -> str:
        """What a payload of ``size`` bytes does not hold any more."""
        start = size // self.dtype.itemsize
        return f"; lost: {holds(self.sides, start, self.sides.tokens)}" if start < self.sides.tokens else ""

    # digests

    def digests(self) -> Iterator[Finding]:
        """SHA-256 and every block's checksum. What differs is told by its documents."""
        try:
            sums = np.frombuffer((self.folder / sums_name(self.name)).read_bytes(), "<u8")
        except (OSError, ValueError):
            sums = np.empty(0, "<u8")
        digest, bad, block = hashlib.sha256(), list[int](), 0
        for piece in self._pieces():
            digest.update(piece)
            for at in range(0, len(piece), BLOCK):
                found = xxhash.xxh3_64_intdigest(piece[at : at + BLOCK])
                if block >= len(sums) or found != int(sums[block]):
                    bad.append(block)
                block += 1
        same = digest.hexdigest() == self.entry["sha256"] == self.named.get(self.file, {}).get("sha256")
        sums_sound = sums_name(self.name) in self.sound
        if same:
            self.sound.add(self.file)
            if bad and sums_sound:
                yield sums_name(self.name), f"checksum of block {bad[0]:,} is not that of the payload"
            return
        if (self.folder / self.file).exists():
            yield self.file, "SHA-256 differs from the manifest: the file was changed after it was written"
        if sums_sound:
            width = self.dtype.itemsize
            for one in bad[:_SHOWN]:
                start, stop = one * BLOCK // width, min((one + 1) * BLOCK // width, self.sides.tokens)
                yield self.file, f"block {one:,} is damaged; it holds {holds(self.sides, start, stop)}"
            if len(bad) > _SHOWN:
                yield self.file, f"{len(bad) - _SHOWN:,} more damaged blocks"

    def _pieces(self) -> Iterator[bytes]:
        try:
            with (self.folder / self.file).open("rb") as file:
                while piece := file.read(_PIECE):
                    yield piece
        except OSError:
            return  # told with the manifest's files

    # content

    def content(self) -> Iterator[Finding]:
        """Ids, borders of documents, and the other readers' indexes, as far as the files are sound."""
        offsets = self.offsets
        if offsets is None:
            return
        if bool((np.diff(offsets) < 0).any()):
            yield offsets_name(self.name), "documents overlap"
            return
        yield from self._indexes(offsets)
        if self.file in self.sound:
            yield from self._ids(offsets)

    def _indexes(self, offsets: npt.NDArray[np.int64]) -> Iterator[Finding]:
        for suffix, made in INDEXES.items():
            name = f"{TOKENS}{self.name}{suffix}"
            if name not in self.sound:
                continue
            with (self.folder / name).open("rb") as file:
                same = all(file.read(len(piece)) == piece for piece in made(offsets, self.dtype.itemsize))
                if not same or file.read(1):
                    yield name, f"tells of other documents than {offsets_name(self.name)}"
        link = f"{TOKENS}{self.name}{LINK}"
        if link in self.sound and self.named[link]["sha256"] != self.entry["sha256"]:
            yield link, "is not the payload"

    def _ids(self, offsets: npt.NDArray[np.int64]) -> Iterator[Finding]:
        """Every id is in the vocabulary; BOS begins and EOS ends each document, and no control id is elsewhere."""
        special = np.zeros(int(self.info["vocabulary"]), bool)
        special[[i for i in (*_numbers(self.info.get("controls")), self.bos, self.eos) if i is not None]] = True
        starts, ends = offsets[:-1], offsets[1:] - 1
        inside: list[tuple[int, int]] = []
        begun = ended = base = 0
        for piece in self._pieces():
            ids = np.frombuffer(piece, self.dtype)
            beyond = np.flatnonzero((ids < 0) | (ids >= len(special)))
            if len(beyond):
                token, number = base + int(beyond[0]), int(ids[beyond[0]])
                yield self.file, f"id {number} at token {token:,} is none: {self._of(token, offsets)}"
                return
            here = np.flatnonzero(special[ids])
            place, found = here + base, ids[here].astype(np.int64)
            first = _among(place, starts) & (found == (-1 if self.bos is None else self.bos))
            last = _among(place, ends) & (found == (-1 if self.eos is None else self.eos))
            begun, ended = begun + int(first.sum()), ended + int(last.sum())
            wrong = ~(first | last)
            if wrong.any():
                wrong &= found != self.unk
                inside += list(zip(place[wrong][:_SHOWN].tolist(), found[wrong][:_SHOWN].tolist(), strict=True))
            base += len(ids)
        for token, number in inside[:_SHOWN]:
            yield self.file, f"control id {number} inside a document, token {token:,}: {self._of(token, offsets)}"
        for what, id_, n in (("BOS", self.bos, begun), ("EOS", self.eos, ended)):
            if id_ is not None and n != self.sides.documents:
                yield self.file, f"{n:,} {what} for {self.sides.documents:,} documents"

    @cached_property
    def unk(self) -> int:
        """The id of what the tokenizer does not know, which may be in any document; -1 where there is none."""
        if "unk" in self.info:
            return -1 if self.info["unk"] is None else int(self.info["unk"])
        from cleanpipe.tokens.tokenizer import Tokenizer

        files = {n.removeprefix(TOKENIZER): self.folder / n for n in self.named if n.startswith(TOKENIZER)}
        try:
            known = Tokenizer.from_files({n: path.read_bytes() for n, path in files.items()}).unk
        except (CleanpipeError, OSError, LookupError):
            known = None
        return -1 if known is None else known

    def _of(self, token: int, offsets: npt.NDArray[np.int64]) -> str:
        number = int(np.searchsorted(offsets, token, side="right")) - 1
        return documents(self.sides, range(number, number + 1))[0]


def _among(values: npt.NDArray[np.int64], ascending: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which of the values are in the array."""
    if not len(ascending):
        return np.zeros(len(values), bool)
    at = np.minimum(np.searchsorted(ascending, values), len(ascending) - 1)
    found: npt.NDArray[np.bool_] = ascending[at] == values
    return found


def _numbers(controls: Any) -> list[int]:
    values = controls.values() if isinstance(controls, dict) else controls or ()
    return [int(v) for v in values]
