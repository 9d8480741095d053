"""From tokens to the characters of the cleaned text, by the bytes that a lossless tokenizer's ids stand for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import DamagedFileError
from cleanpipe.io.store import open_store
from cleanpipe.tokens.layout import TOKENIZER

if TYPE_CHECKING:
    from cleanpipe.options import StorageOptions
    from cleanpipe.tokens.store import TokenStore
    from cleanpipe.tokens.tokenizer import Tokenizer
    from cleanpipe.tokens.tracing.origin import Origin, Window

_LONGEST = 4  # bytes of a character
_NEAR = 8  # tokens beside one that are looked at for the rest of a character; some have no bytes


@dataclass(frozen=True, slots=True)
class Characters:
    """Code points begin ≤ c < end of the cleaned text that hold the tokens' bytes.

    before, behind: bytes of the first of these characters that lie before the tokens, and of the last that lie behind
    them: a token may begin or end within a character. exact: false where only the window's span is known.
    """

    begin: int
    end: int
    before: int = 0
    behind: int = 0
    exact: bool = True

    def bytes_in(self, text: str) -> bytes:
        """The bytes of these tokens, of the document's cleaned text."""
        data = text[self.begin : self.end].encode()
        return data[self.before : len(data) - self.behind]


def tokenizer_of(store: TokenStore) -> Tokenizer:
    """The tokenizer that a store was made with, from the files in its folder.

    Raises:
        ConfigError: they are not there. DamagedFileError: they are another tokenizer's.
    """
    return _tokenizer(store.root, store.info["fingerprint"]["content"], store.storage)


@lru_cache(maxsize=4)
def _tokenizer(root: str, content: str, storage: StorageOptions) -> Tokenizer:
    from cleanpipe.tokens.tokenizer import Tokenizer  # lazily: it loads libraries

    files = open_store(root, storage)
    names = [name for name, _ in files.names(TOKENIZER)]
    found = Tokenizer.from_files({name.removeprefix(TOKENIZER): files.read(name) for name in sorted(names)})
    if found.fingerprint["content"] != content:
        raise DamagedFileError("is not the tokenizer that the store was made with", source=f"{root}/{TOKENIZER}")
    return found


def body_of(store: TokenStore, origin: Origin) -> tuple[int, int]:
    """The document's global tokens without BOS and EOS."""
    start = origin.token_start + (store.bos is not None)
    return start, max(start, origin.token_stop - (store.eos is not None))


def characters(
    store: TokenStore, origin: Origin, start: int, stop: int, tokenizer: Tokenizer | None = None
) -> Characters | None:
    """Of global tokens start ≤ t < stop of one document; None where there is none but BOS or EOS among them.

    A lossless tokenizer's ids from the begin of what was encoded on give exact bytes, hence exact characters. Without
    one, or where ``tokenizer`` is not lossless: the span of the windows that hold the tokens, ``exact`` false.

    Cost: O(tokens of the document up to ``stop``).
    """
    low, high = body_of(store, origin)
    start, stop = max(start, low), min(stop, high)
    if start >= stop:
        return None
    first, last = holders(origin, start)[0], holders(origin, stop - 1)[0]
    if tokenizer is None or not tokenizer.lossless:
        return Characters(first.char_start, last.char_end, exact=False)
    if not store.info.get("per_window"):
        return _exact(store, tokenizer, low, start, stop, high, first.stripped)
    begin = _exact(store, tokenizer, first.token_start, start, start + 1, first.token_stop, _base(first))
    end = _exact(store, tokenizer, last.token_start, stop - 1, stop, last.token_stop, _base(last))
    return Characters(begin.begin, end.end, begin.before, end.behind)


def holders(origin: Origin, token: int) -> list[Window]:
    """The windows that hold a global token, the first of them first; of BOS and EOS the nearest one."""
    found = [w for w in origin.windows if w.token_start <= token < w.token_stop]
    return found or [origin.windows[0] if token <= origin.token_start else origin.windows[-1]]


def _base(window: Window) -> int:
    """Where its text begins that was encoded by itself: blanks at the document's begin were left out."""
    return max(window.char_start, window.stripped)


def _exact(
    store: TokenStore, tokenizer: Tokenizer, low: int, start: int, stop: int, high: int, base: int
) -> Characters:
    """low: first token of what was encoded together, whose characters begin at ``base``; high: behind its last one."""
    begun = _begun(tokenizer)
    before = int(begun[store.read(low, start)].sum())
    mine = b"".join(map(tokenizer.token_bytes, store.read(start, stop).tolist()))
    inside = bool(mine) and _goes_on(mine[0])
    head = tail = 0
    if inside:
        head = _tail(b"".join(map(tokenizer.token_bytes, store.read(max(low, start - _NEAR), start).tolist())))
    if mine:
        behind = b"".join(map(tokenizer.token_bytes, store.read(stop, min(high, stop + _NEAR)).tolist()))
        tail = next((i for i, byte in enumerate(behind[:_LONGEST]) if not _goes_on(byte)), min(len(behind), _LONGEST))
    begin = base + before - inside
    return Characters(begin, base + before + sum(not _goes_on(byte) for byte in mine), head, tail)


def _goes_on(byte: int) -> bool:
    """A byte of UTF-8 that begins no character."""
    return byte & 0xC0 == 0x80


@lru_cache(maxsize=4)
def _begun(tokenizer: Tokenizer) -> npt.NDArray[np.int64]:
    """(vocabulary,) how many characters begin in the bytes of each id."""
    pieces = [tokenizer.token_bytes(i) for i in range(tokenizer.vocabulary)]
    data = np.frombuffer(b"".join(pieces), np.uint8)
    upto = np.concatenate([[0], np.cumsum(data & 0xC0 != 0x80, dtype=np.int64)])
    ends = np.cumsum([len(p) for p in pieces], dtype=np.int64)
    return np.diff(upto[ends], prepend=0)


def _tail(data: bytes) -> int:
    """Bytes of the last character that begins in them."""
    for size in range(1, _LONGEST + 1):
        if size <= len(data) and not _goes_on(data[-size]):
            return size
    return 0


def text_of(tokenizer: Tokenizer, store: TokenStore, ids: npt.NDArray[Any]) -> str:
    """Ids as text, BOS and EOS left out; broken characters at the ends as U+FFFD."""
    marks = [m for m in (store.bos, store.eos) if m is not None]
    text: str = tokenizer.decode(ids[~np.isin(ids, marks)].tolist())
    return text


def together(store: TokenStore, origin: Origin, start: int, stop: int) -> list[tuple[int, int]]:
    """Global tokens start ≤ t < stop of one document, less BOS and EOS, as ranges that were encoded together."""
    low, high = body_of(store, origin)
    start, stop = max(start, low), min(stop, high)
    if not store.info.get("per_window"):
        return [(start, stop)] if start < stop else []
    cut = [(max(start, w.token_start), min(stop, w.token_stop)) for w in origin.windows]
    return [(a, b) for a, b in cut if a < b]
