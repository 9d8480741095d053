"""The index that a best-fit plan of one store is, and the folder that keeps it between runs."""

from __future__ import annotations

import errno
import json
import os
import stat
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import xxhash

from cleanpipe.errors import ConfigError, StopError
from cleanpipe.tokens.arguments import shown
from cleanpipe.tokens.reading.packing import GROUP, VERSION, pack_groups
from cleanpipe.tokens.reading.source import Source

_MAGIC = b"cleanpipe best-fit 1\n"
_HEAD = 4096  # bytes of magic and facts before the arrays
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FACTS = ("stores", "length", "group", "version")


@dataclass(frozen=True, slots=True)
class Packed:
    """Sequences as pieces: ends (sequences,), where each one's pieces end in the others; starts (pieces,), the first
    token of each in the store; tokens (pieces,) int32; goes_on (pieces,) bool: its document has tokens behind it.
    fingerprint: of all of them.
    """

    ends: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    tokens: npt.NDArray[np.int32]
    goes_on: npt.NDArray[np.bool_]
    fingerprint: str

    def pieces(self, sequence: int) -> slice:
        """The pieces of a sequence."""
        return slice(int(self.ends[sequence - 1]) if sequence else 0, int(self.ends[sequence]))


def checked_cache(cache: Any) -> Path | None:
    """The folder that keeps indexes.

    Raises:
        ConfigError: it is none.
    """
    if cache is None:
        return None
    if not isinstance(cache, str | os.PathLike):
        raise ConfigError(f"cache {shown(cache)}: the path of a folder")
    path = Path(cache)
    try:
        folder = stat.S_ISDIR(path.stat().st_mode)
    except FileNotFoundError:
        folder = True  # it will be made
    except (OSError, ValueError) as error:
        raise ConfigError(f"cache {shown(str(path))}: {getattr(error, 'strerror', '') or error}") from error
    if not folder:
        raise ConfigError(f"cache {path}: is a file; name a folder")
    return path


def packed(source: Source, length: int, *, cache: Path | None = None, workers: int = 1) -> Packed:
    """The index of a store, from the folder ``cache`` where it is there and whole, else made and put there."""
    about = {"stores": str(source.store.digest), "length": length, "group": GROUP, "version": VERSION}
    path = None
    if cache is not None:
        path = cache / f"best-fit-{xxhash.xxh3_64_hexdigest(json.dumps(about).encode())}.plan"
        if (found := _load(path, about)) is not None:
            return found
    made = _make(source, length, workers)
    if path is not None:
        _save(path, about, made)
        return _load(path, about) or made  # mapped: it need not stay in memory
    return made


def _make(source: Source, length: int, workers: int) -> Packed:
    ends = source.ends()
    pieces = pack_groups(ends, length, workers=workers)
    starts = (ends[pieces.document - 1] * (pieces.document > 0)) + pieces.begin
    goes_on = starts + pieces.tokens < ends[pieces.document]
    arrays = pieces.ends, starts, pieces.tokens, goes_on
    return Packed(*arrays, _digest(arrays))


def _digest(arrays: tuple[npt.NDArray[Any], ...]) -> str:
    state = xxhash.xxh3_128()
    for array in arrays:
        state.update(np.ascontiguousarray(array).view(np.uint8).data)
    return state.hexdigest()


def _save(path: Path, about: dict[str, Any], made: Packed) -> None:
    """Under another name first, then renamed: whoever opens it finds all of it. Ranks may write it at once."""
    arrays = made.ends, made.starts, made.tokens, made.goes_on
    facts = {**about, "sequences": len(made.ends), "pieces": len(made.starts), "fingerprint": made.fingerprint}
    head = _MAGIC + json.dumps(facts).encode() + b"\n"
    draft = path.with_name(f".tmp-{path.name}-{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as file:
            file.write(head.ljust(_HEAD, b" "))
            for array in arrays:
                file.write(np.ascontiguousarray(array).view(np.uint8).data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        why = f"cache {path.parent}: cannot be written: {error.strerror or error}"
        raise (StopError(why) if error.errno in _FULL else ConfigError(why)) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _load(path: Path, about: dict[str, Any]) -> Packed | None:
    """The index that lies there, mapped; None where there is none, or it is of something else, or damaged."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
        facts = json.loads(head.removeprefix(_MAGIC)) if head.startswith(_MAGIC) else {}
        if {name: facts.get(name) for name in about} != about:
            return None
        sequences, pieces = int(facts["sequences"]), int(facts["pieces"])
        body = np.memmap(path, np.uint8, "r", offset=_HEAD)
        edges = np.cumsum([0, 8 * sequences, 8 * pieces, 4 * pieces, pieces])
        if len(body) != edges[-1]:
            return None
        parts = [
            np.frombuffer(body[a:b], t) for a, b, t in zip(edges, edges[1:], ("<i8", "<i8", "<i4", "?"), strict=False)
        ]
        if _digest(tuple(parts)) != facts["fingerprint"]:
            return None
        return Packed(parts[0], parts[1], parts[2], parts[3], facts["fingerprint"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
