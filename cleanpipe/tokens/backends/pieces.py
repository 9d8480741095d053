"""Texts into pieces by a tokenizer's own rules, and a bounded memory of the pieces that were met."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import wait
from operator import itemgetter
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.tokenizer.needs import tokenizers

_ENTRY = 200  # bytes that a remembered piece costs beside its characters: a str, an int, a place in a dict


@dataclass(frozen=True, slots=True)
class Split:
    """Some texts in pieces.

    pieces: the distinct ones, in the byte alphabet of the tokenizer, or " 17" for the added token 17 (a space is no
    letter of that alphabet). which: (all pieces of all texts,) places in ``pieces``. ends: (texts,) where each text's
    end in ``which``. aside: texts whose normalizer changes them; they have no pieces.
    """

    pieces: list[str]
    which: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int64]
    aside: list[int]


class Splitter:
    """Splits texts by the pre-tokenizer of a `tokenizers.Tokenizer`, added tokens that are not special first."""

    def __init__(self, spec: str) -> None:
        """spec: the text of a ``tokenizer.json``."""
        reference = tokenizers().Tokenizer.from_str(spec)
        self._pre = reference.pre_tokenizer
        self._normalizer = reference.normalizer
        tokens = reference.get_added_tokens_decoder()
        added = {token.content: number for number, token in tokens.items() if not token.special}
        finder: Any = _finder(reference.normalizer, tokens) if added else None
        self._finder = finder
        # the finder has numbers of its own; what it calls a token's text may hold blanks beside it
        self._added = {finder.token_to_id(content): number for content, number in added.items()}
        normal = self._normalizer.normalize_str if self._normalizer is not None else str
        self._sought = {*added, *map(normal, added)}

    def split(self, texts: Sequence[str]) -> Split:
        """The pieces of some texts; each text by itself."""
        pieces: list[str] = []
        ends = np.zeros(len(texts), np.int64)
        aside = []
        pre, word = self._pre.pre_tokenize_str, itemgetter(0)
        for index, text in enumerate(texts):
            if self._normalizer is not None and self._normalizer.normalize_str(text) != text:
                aside.append(index)
            elif self._finder is not None and any(token in text for token in self._sought):
                pieces.extend(self._with_added(text))
            else:
                pieces.extend(map(word, pre(text)))
            ends[index] = len(pieces)
        distinct = dict.fromkeys(pieces)
        places = dict(zip(distinct, range(len(distinct)), strict=True))
        which = np.fromiter(map(places.__getitem__, pieces), np.int32, len(pieces))
        return Split(list(places), which, ends, aside)

    def _with_added(self, text: str) -> Iterator[str]:
        found = self._finder.encode(text, add_special_tokens=False)
        for one, (begin, end) in zip(found.ids, found.offsets, strict=True):
            number = self._added.get(one)
            if number is not None:
                yield f" {number}"
            else:
                yield from map(itemgetter(0), self._pre.pre_tokenize_str(text[begin:end]))


_REST = "\0rest"  # what lies between added tokens


def _finder(normalizer: Any, tokens: Mapping[int, Any]) -> Any:
    """A tokenizer that knows added tokens alone: their matching has rules (longest first, whole words, blanks beside
    them) that nothing else should do again. Special ones are matched and stay text, as in the reference.
    """
    library = tokenizers()
    finder = library.Tokenizer(library.models.WordLevel({_REST: 0}, unk_token=_REST))
    finder.normalizer = normalizer
    for number in sorted(tokens):
        token = tokens[number]
        (finder.add_special_tokens if token.special else finder.add_tokens)([token])
    finder.encode_special_tokens = True
    return finder


class SplitterPool:
    """Splits groups of texts in processes of its own, a few groups ahead; results come in order."""

    def __init__(self, spec: str, processes: int) -> None:
        """Raises:
        ConfigError: fewer than one process.
        """
        if processes < 1:
            raise ConfigError(f"splitters must be 1 or more, not {processes}; 0 splits in this process")
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        # spawned: a fork would share locks of threads that a device's library started
        self._pool = ProcessPoolExecutor(processes, get_context("spawn"), _start, (spec,))
        self._ahead = 2 * processes

    def split(self, groups: Iterable[Sequence[str]]) -> Iterator[Split]:
        """The pieces of each group of texts.

        Raises:
            concurrent.futures.BrokenExecutor: a process died.
        """
        from collections import deque

        waiting: deque[Any] = deque()
        for group in groups:
            waiting.append(self._pool.submit(_split, group))
            if len(waiting) > self._ahead:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)


_own: list[Splitter] = []  # of a process of the pool


def _start(spec: str) -> None:
    if (parent := parent_process()) is not None:  # killed, it can tell nobody to end
        Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()
    _own[:] = [Splitter(spec)]


def _split(texts: Sequence[str]) -> Split:
    return _own[0].split(texts)


class PieceNumbers:
    """Numbers for pieces, in the order in which they are met, until they take too much room: then all are forgotten.

    bytes: what it holds, about. asked, missing: pieces looked up, and those not found, since it was made. clears: how
    often it was emptied.
    """

    def __init__(self, limit: int) -> None:
        """limit: bytes; 0 remembers nothing from one call of ``renew`` to the next."""
        self._numbers: dict[str, int] = {}
        self._limit = limit
        self.bytes = self.asked = self.missing = self.clears = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def renew(self) -> bool:
        """Forget all if the limit is passed. Returns: whether it did."""
        if self.bytes <= self._limit:
            return False
        self.clear()
        return True

    def clear(self) -> None:
        """Forget all."""
        self._numbers.clear()
        self.bytes = 0
        self.clears += 1

    def unknown(self, pieces: Sequence[str]) -> list[str]:
        """Of distinct pieces those that have no number."""
        held = self._numbers
        found = [piece for piece in pieces if piece not in held]
        self.asked += len(pieces)
        self.missing += len(found)
        return found

    def add(self, pieces: Sequence[str]) -> None:
        """Give the next numbers to these, which have none."""
        began = len(self._numbers)
        self._numbers.update(zip(pieces, range(began, began + len(pieces)), strict=True))
        self.bytes += sum(map(len, pieces)) * 2 + len(pieces) * _ENTRY

    def of(self, pieces: Sequence[str]) -> npt.NDArray[np.int64]:
        """The numbers of pieces that all have one."""
        return np.fromiter(map(self._numbers.__getitem__, pieces), np.int64, len(pieces))
