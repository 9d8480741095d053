"""A finished token store, opened: ids by global token number, documents by number or token, spans by shard.

Nothing is read before it is asked for. What is read is proven first: each 64 KiB block of a payload by its checksum
when it is first touched, the small files by their SHA-256.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cleanpipe.errors import CleanpipeError, DamagedFileError
from cleanpipe.options import StorageOptions
from cleanpipe.tokens.layout import BLOCK
from cleanpipe.tokens.store.damage import damaged
from cleanpipe.tokens.store.fetched import Files
from cleanpipe.tokens.store.loading import load_again, load_info, made_again, place_of, refuse_other, whole
from cleanpipe.tokens.store.names import offsets_name, payload_name, spans_name, sums_name
from cleanpipe.tokens.store.offsets import Offsets
from cleanpipe.tokens.store.shard import Shard

_OPEN = 8_192  # shards whose files are mapped at once: up to four maps each, of the 65,530 that Linux gives a process
_FETCHED = 128  # of a store whose shards lie in a temporary cache as long as they are open
_HERE = StorageOptions()
Numbers = npt.NDArray[np.int64]


def open_tokens(
    root: str | Path,
    storage: StorageOptions = _HERE,
    *,
    tokenizer: Any = None,
    check: str = "read",
    cache: str = "",
) -> TokenStore:
    """Open a finished store: a folder, or ``s3://bucket/prefix``, whose shards are fetched when they are first touched.

    tokenizer: whose ids it must hold: a name or path as ``open_tokenizer`` takes it, a ``Tokenizer``, or the digest of
    a fingerprint; None: whatever it holds. check: "read" proves what is read as it is read; "all" proves every file of
    the manifest here, before this returns, and then trusts; "none" trusts. cache: a folder that keeps fetched files;
    "": a temporary one, in which shards stay as long as they are open.

    Raises:
        ConfigError: there is no store, it is not finished, its format is a later one, or its tokenizer is another.
        DamagedFileError: a file is cut short, gone or changed.
    """
    place = place_of(root)
    info = load_info(place, storage, sizes=check != "none")
    if check not in ("read", "all", "none"):
        raise ValueError(f"check is 'read', 'all' or 'none', not {check!r}")
    if tokenizer is not None:
        refuse_other(place, storage, info, tokenizer)
    if check == "all":
        whole(place, storage)
    return TokenStore(place, info, storage, proof=check == "read", cache=cache)


class TokenStore:
    """Made by ``open_tokens``. Picklable, in some hundred bytes: another process reads store.json again, and maps and
    proves for itself; forks share what was mapped before.

    Attributes:
        root, path: where it lies.
        info: store.json.
        digest: what the tokens are (payloads, tokenizer, policy), not which decisions were built in.
        dtype: of an id as it is stored. vocabulary: ids lie below it. bos, eos: their ids, or None.
        tokens, documents: of the whole store. shards: their names.
        token_starts, document_starts: (shards + 1,) how many come before each shard.
    """

    def __init__(
        self, root: str, info: Mapping[str, Any], storage: StorageOptions, *, proof: bool = True, cache: str = ""
    ) -> None:
        self.root = self.path = root
        self.info, self.storage, self._proof, self._cache = info, storage, proof, cache
        self.digest: str = info["tokens_digest"]
        self.dtype = np.dtype(info["dtype"]).newbyteorder("<")
        self.vocabulary: int = info["vocabulary"]
        self.bos: int | None = info["bos"]
        self.eos: int | None = info["eos"]
        self.tokens: int = info["tokens"]
        self.documents: int = info["documents"]
        self._entries: list[dict[str, Any]] = info["shards"]
        self.shards: list[str] = [e["name"] for e in self._entries]
        self.token_starts = _sums(self._entries, "tokens")
        self.document_starts = _sums(self._entries, "documents")
        self._starts: list[int] = self.token_starts.tolist()
        self._document_starts: list[int] = self.document_starts.tolist()
        self._width = self.dtype.itemsize
        self._files = Files(root, storage, cache, f"tokens-{self.digest[:16]}")
        self._open: OrderedDict[int, Shard] = OrderedDict()
        self._most = _OPEN if self._files.keeps else _FETCHED
        self._seen: dict[int, bytearray] = {}  # blocks that were proven, by shard
        self._sound: set[str] = set()  # small files that were

    def __reduce__(self) -> tuple[Any, ...]:
        digests = str(self.info["digest"]), self.digest  # store.json is read again there: it may have 100,000 shards
        return _again, (self.root, self.storage, digests, self._proof, self._cache)

    def __repr__(self) -> str:
        return f"TokenStore({self.root!r}: {self.tokens:,} tokens, {self.documents:,} documents)"

    def _shard(self, number: int) -> Shard:
        try:
            return self._open[number]
        except KeyError:
            pass
        entry = self._entries[number]
        seen = self._seen.get(number)
        place, sound = self._files.path, self._sound
        shard = Shard(entry, self.dtype, place, proof=self._proof, sound=sound, seen=seen, fault=self._fault)
        self._seen[number], self._open[number] = shard.seen, shard
        while len(self._open) > self._most:
            try:
                old, closed = self._open.popitem(last=False)
            except KeyError:  # another thread took it
                break
            if not self._files.keeps:
                self._forget(old, closed.name)
        return shard

    def _fault(self, error: DamagedFileError) -> CleanpipeError:
        """The error itself, or that the store is another one since it was opened."""
        return made_again(self.root, self.storage, str(self.info["digest"])) or error

    def _forget(self, number: int, name: str) -> None:
        """Give up fetched files of a shard; what is fetched again is proven again."""
        names = [payload_name(name), offsets_name(name), sums_name(name), spans_name(name)]
        self._files.forget(names)
        self._sound.difference_update(names)
        self._seen.pop(number, None)

    def read(self, start: int, stop: int) -> npt.NDArray[Any]:
        """Ids of tokens start ≤ t < stop of the whole store, across shards; (stop - start,), to be read only.

        Raises:
            IndexError: they are not all in the store. DamagedFileError: a block is not as it was written; its shard,
                its documents and their URLs are named. ConfigError: the store was made again since it was opened.
        """
        if not 0 <= start <= stop <= self.tokens:
            raise IndexError(f"tokens {start:,} to {stop:,} of {self.tokens:,}")
        if start == stop:
            return np.empty(0, self.dtype)
        number = bisect_right(self._starts, start) - 1
        base = self._starts[number]
        if stop <= self._starts[number + 1]:
            return self._of_shard(number, start - base, stop - base)
        parts = []
        while start < stop:
            number = bisect_right(self._starts, start) - 1
            base, end = self._starts[number], min(stop, self._starts[number + 1])
            parts.append(self._of_shard(number, start - base, end - base))
            start = end
        return np.concatenate(parts)

    def _of_shard(self, number: int, start: int, stop: int) -> npt.NDArray[Any]:
        shard = self._open.get(number) or self._shard(number)
        ids = shard.ids
        if ids is None:
            ids = shard.mapped_ids()
        if self._proof:
            bad = shard.bad_block(start * self._width // BLOCK, (stop * self._width - 1) // BLOCK)
            if bad >= 0:
                raise self._fault(damaged(shard, bad))
        return ids[start:stop]

    def offsets(self, shard: int) -> Offsets:
        """(documents + 1,) where each document of a shard begins in its payload, and the end of the last; mapped."""
        return self._shard(shard).offsets

    def spans(self, shard: int) -> pa.Table:
        """The windows of a shard, in the payload's order: ``layout.SPAN_COLUMNS`` and the run's own columns; mapped."""
        return self._shard(shard).spans

    def document_of(self, token: Any) -> Any:
        """The global number of the document that holds a global token; of an array of tokens, an array."""
        if np.ndim(token):
            return self._documents_of(np.asarray(token, np.int64))
        if not 0 <= token < self.tokens:
            raise IndexError(f"token {token:,} of {self.tokens:,}")
        number = bisect_right(self._starts, token) - 1
        within = np.searchsorted(self._shard(number).offsets, token - self._starts[number], side="right")
        return self._document_starts[number] + int(within) - 1

    def _documents_of(self, tokens: Numbers) -> Numbers:
        if tokens.size and not (tokens.min() >= 0 and tokens.max() < self.tokens):
            raise IndexError(f"tokens {tokens.min():,} to {tokens.max():,} of {self.tokens:,}")
        numbers = np.searchsorted(self.token_starts, tokens, side="right") - 1
        found = np.empty(tokens.shape, np.int64)
        for number in np.unique(numbers).tolist():
            at = numbers == number
            within = np.searchsorted(self._shard(number).offsets, tokens[at] - self._starts[number], side="right")
            found[at] = within + (self._document_starts[number] - 1)
        return found

    def shard_of_document(self, document: int) -> tuple[int, int]:
        """The shard of a global document, and its number there."""
        if not 0 <= document < self.documents:
            raise IndexError(f"document {document:,} of {self.documents:,}")
        number = bisect_right(self._document_starts, document) - 1
        return number, document - self._document_starts[number]

    def document_range(self, document: int) -> tuple[int, int]:
        """First global token of a global document, and the one after its last; BOS and EOS included."""
        number, within = self.shard_of_document(document)
        offsets, base = self._shard(number).offsets, self._starts[number]
        return base + int(offsets[within]), base + int(offsets[within + 1])


def _again(root: str, storage: StorageOptions, digests: tuple[str, str], proof: bool, cache: str) -> TokenStore:
    return TokenStore(root, load_again(root, storage, *digests), storage, proof=proof, cache=cache)


def _sums(entries: list[dict[str, Any]], key: str) -> Numbers:
    starts = np.zeros(len(entries) + 1, np.int64)
    np.cumsum(np.array([e[key] for e in entries], np.int64), out=starts[1:])
    starts.flags.writeable = False
    return starts
