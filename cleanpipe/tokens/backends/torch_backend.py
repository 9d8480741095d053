"""The GPU stage of tokenization: pieces on the CPU by the tokenizer's own rules, everything after them on a device.

A text is split by the tokenizer's pre-tokenizer. Of its pieces those that were never met are merged on the device, all
at once; the ids of all pieces lie there in a table, from which texts are put together by one gather. Copies overlap
with the splitting of the next texts. What the device could not do exactly is refused, or goes to the reference: texts
that a normalizer would change, and single long pieces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.tokens.backend import Backend, Encoded
from cleanpipe.tokens.backends.device_checks import IdChecks
from cleanpipe.tokens.backends.pieces import PieceNumbers, Split, Splitter, SplitterPool
from cleanpipe.tokens.backends.starts import starts_of
from cleanpipe.tokens.backends.torch_bpe import Merger, PieceTable
from cleanpipe.tokens.backends.torch_device import Device, Fetched
from cleanpipe.tokens.backends.torch_scope import Rules, read_rules, refusal
from cleanpipe.tokens.tokenizer.model import Tokenizer
from cleanpipe.tokens.tokenizer.needs import tokenizers
from cleanpipe.tokens.tokenizer.policy import never_in_text

LONGEST = 512  # bytes of a piece that the device merges: a round costs the same however few pieces are left in it
_AHEAD = 1  # batches under way on the device while the next is split


@dataclass(slots=True)
class _Batch:
    """Texts whose ids are on their way here. ids, ends: of the texts not aside."""

    texts: Sequence[str]
    aside: list[int]
    ids: Fetched
    ends: Fetched


class TorchBackend(Backend):
    """Byte-level BPE on a torch device, ids as those of the `tokenizers` package."""

    name = "torch"

    def __init__(
        self,
        tokenizer: Tokenizer,
        device: str = "cpu",
        *,
        splitters: int = 0,
        cache_bytes: int = 256 << 20,
        batch_chars: int = 1 << 20,
        longest: int = LONGEST,
        timed: bool = False,
    ) -> None:
        """Args:
            tokenizer: a ``Tokenizer`` of cleanpipe.tokens.tokenizer.
            device: "cpu", "cuda" or "cuda:N".
            splitters: processes that split texts; 0: this one does, as it does once one of them died.
            cache_bytes: about what pieces may take here before they are forgotten; 0: forgotten with each batch.
            batch_chars: code points that go to the device together; a longer text goes alone.
            longest: bytes of the longest piece that the device merges.
            timed: count seconds by step, each waiting for the device.

        Raises:
            ConfigError: this tokenizer cannot be encoded exactly this way (says why), or there is no such device.
        """
        self._tokenizer = tokenizer
        self._device = Device(device, timed=timed)
        self._library = tokenizers()
        self._reference = self._library.Tokenizer.from_str(_spec(tokenizer))
        spec = self._reference.to_str()
        self._rules: Rules = read_rules(spec)
        self._splitter = Splitter(spec)
        self._pool = SplitterPool(spec, splitters) if splitters else None
        with self._device.work("start"):
            self._merger = Merger(self._rules, self._device.at)
            self._table = PieceTable(self._device.at)
        self._numbers = PieceNumbers(cache_bytes)
        self._batch_chars, self._longest = batch_chars, longest
        never = never_in_text(tokenizer.bos, tokenizer.eos, tokenizer.unk, tokenizer.controls)
        self.checks, self._theirs = (IdChecks(max(self._rules.size, tokenizer.vocabulary), never) for _ in range(2))
        self._hf: Backend | None = None
        self._counts = {"texts": 0, "texts_by_reference": 0, "pieces": 0, "pieces_merged": 0, "pieces_by_reference": 0}

    def encode(self, texts: Sequence[str], *, starts: bool = False) -> Encoded:
        """The ids of each text; see ``Backend``."""
        if starts and not self._rules.placed:
            self._counts["texts"] += len(texts)
            return self._by_reference(texts, "places", starts=True)
        waiting: deque[_Batch | Encoded] = deque()
        done: list[Encoded] = []
        groups = list(self._groups(texts))
        try:
            for group, split in zip(groups, self._splits(groups), strict=True):
                waiting.append(self._begun(group, split, starts))
                if len(waiting) > _AHEAD:
                    done.append(self._finish(waiting.popleft(), starts))
        except BaseException:  # numbers and table may no longer belong together
            self.forget()
            raise
        done.extend(self._finish(batch, starts) for batch in waiting)
        return _joined(done, starts)

    def facts(self) -> Mapping[str, Any]:
        """What a report should say of it."""
        import torch

        return {
            "device": self._device.name,
            "device_bytes": self._device.peak_bytes or self._table.bytes,
            "torch": str(torch.__version__),
            "tokenizers": str(self._library.__version__),
            **self._counts,
            "rounds": self._merger.rounds,
            "cache": {
                "pieces": len(self._numbers),
                "bytes": self._numbers.bytes,
                "asked": self._numbers.asked,
                "missing": self._numbers.missing,
                "clears": self._numbers.clears,
            },
            "checks": self.checks.found().facts(),
            "checks_by_reference": self._theirs.found().facts(),
            **({"seconds": dict(self._device.seconds)} if self._device.seconds else {}),
        }

    def forget(self) -> None:
        """Empty the cache of pieces."""
        with self._device.work("look_up"):
            self._numbers.clear()
            self._table.clear()

    def close(self) -> None:
        """End the splitting processes, if there are any."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _groups(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        """Neighbouring texts that go to the device together."""
        began = chars = 0
        for index, text in enumerate(texts):
            if index > began and chars + len(text) > self._batch_chars:
                yield texts[began:index]
                began, chars = index, 0
            chars += len(text)
        if began < len(texts):
            yield texts[began:]

    def _splits(self, groups: Sequence[Sequence[str]]) -> Iterator[Split]:
        done = 0
        if self._pool is not None:
            try:
                for split in self._pool.split(groups):
                    done += 1
                    yield split
            except BrokenExecutor:  # a process died: its memory, or somebody's hand
                self.close()
                self._counts["splitters_lost"] = 1
        for group in groups[done:]:
            with self._device.work("split"):
                split = self._splitter.split(group)
            yield split

    def _begun(self, texts: Sequence[str], split: Split, starts: bool) -> _Batch | Encoded:
        """A batch that the device has; where its memory does not do for it, the reference's ids."""
        try:
            return self._begin(texts, split)
        except self._device.out_of_memory:
            self.forget()
            self._device.release()
        self._counts["texts"] += len(texts)
        self._counts["batches_out_of_memory"] = self._counts.get("batches_out_of_memory", 0) + 1
        return self._by_reference(texts, "out_of_memory", starts=starts)

    def _begin(self, texts: Sequence[str], split: Split) -> _Batch:
        """Hand a batch to the device."""
        device, table = self._device, self._table
        with device.work("look_up"):
            if self._numbers.renew():
                table.clear()
            self._learn(self._numbers.unknown(split.pieces))
            numbers = self._numbers.of(split.pieces)
            often = np.bincount(split.which, minlength=len(numbers))
            total = int(often @ table.counts[numbers])
        with device.work("copy"):
            there = device.send(numbers), device.send(split.which), device.send(split.ends)
        with device.work("expand"):
            numbered, which, ends = there
            ids, closes = table.expand(numbered[which.long()], total)
            ends = _take_or_zero(closes, ends)
        with device.work("check"):
            self.checks.add(ids)
        with device.work("copy"):
            batch = _Batch(texts, split.aside, device.fetch(ids), device.fetch(ends))
        self._counts["texts"] += len(texts)
        self._counts["pieces"] += len(split.which)
        return batch

    def _learn(self, pieces: Sequence[str]) -> None:
        """Put the ids of pieces that were never met into the table."""
        whole = self._rules.vocabulary if self._rules.ignore_merges else {}
        plain: list[str] = []
        long: list[str] = []
        single: dict[str, int] = {}
        for piece in pieces:
            if piece.startswith(" "):  # an added token
                single[piece] = int(piece)
            elif piece in whole:
                single[piece] = whole[piece]
            else:
                (long if len(piece) > self._longest else plain).append(piece)
        self._merge(plain)
        ids = [[one] for one in single.values()]
        ids += [[token.id for token in self._reference.model.tokenize(piece)] for piece in long]
        if ids:
            counts = np.fromiter(map(len, ids), np.int64, len(ids))
            flat = np.fromiter((one for each in ids for one in each), np.int32, int(counts.sum()))
            self._table.add(self._device.send(flat), self._device.send(counts), counts)
        self._numbers.add([*plain, *single, *long])
        self._counts["pieces_by_reference"] += len(long)

    def _merge(self, pieces: Sequence[str]) -> None:
        if not pieces:
            return
        letters = np.frombuffer("".join(pieces).encode("utf-16-le"), np.uint16)
        ids = self._rules.alphabet[letters]
        assert ids.min() >= 0, "a piece holds a character that is no byte"
        lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        with self._device.work("merge"):
            merged, counts = self._merger.merge(self._device.send(ids.astype(np.int64)), self._device.send(lengths))
            self._table.add(merged, counts, self._device.fetch(counts).array())
        self._counts["pieces_merged"] += len(pieces)

    def _finish(self, batch: _Batch | Encoded, starts: bool) -> Encoded:
        if isinstance(batch, Encoded):
            return batch
        with self._device.work("copy"):
            ids, ends = batch.ids.array().view(np.uint32), batch.ends.array()
        lengths = self._rules.byte_lengths
        if not batch.aside:
            return Encoded(ids, ends, starts_of(ids, ends, batch.texts, lengths) if starts else None)
        aside = set(batch.aside)
        places = [index for index in range(len(batch.texts)) if index not in aside]
        own = Encoded(ids, ends[places] if len(ends) else ends)
        if starts:
            texts = [batch.texts[index] for index in places]
            own = Encoded(ids, own.ends, starts_of(ids, own.ends, texts, lengths))
        other = self._by_reference([batch.texts[index] for index in batch.aside], "normalized", starts=starts)
        return _woven(len(batch.texts), places, own, batch.aside, other)

    def _by_reference(self, texts: Sequence[str], why: str, *, starts: bool) -> Encoded:
        if self._hf is None:
            from cleanpipe.tokens.backends.hf import HfBackend

            self._hf = HfBackend(self._tokenizer)
        for name in ("texts_by_reference", f"texts_by_reference_{why}"):
            self._counts[name] = self._counts.get(name, 0) + len(texts)
        encoded = self._hf.encode(texts, starts=starts)
        self.checks.add(encoded.ids)
        self._theirs.add(encoded.ids)
        return encoded


def _spec(tokenizer: Tokenizer) -> str:
    if tokenizer.kind == "sentencepiece":
        raise refusal("a SentencePiece model merges characters across what other tokenizers split")
    return tokenizer.body_json()


def _take_or_zero(closes: Any, ends: Any) -> Any:
    """Where texts' ids end, from where their pieces end: 0 for texts before the first piece."""
    import torch

    return torch.cat([closes.new_zeros(1), closes])[ends]


def _woven(texts: int, places: Sequence[int], own: Encoded, aside: Sequence[int], other: Encoded) -> Encoded:
    """Two encodings of parts of a list of texts, in the order of the list."""
    source: list[tuple[Encoded, int]] = [(own, 0)] * texts
    for part, at in ((own, places), (other, aside)):
        for index, place in enumerate(at):
            source[place] = part, index
    spans = [(part, int(part.ends[index - 1]) if index else 0, int(part.ends[index])) for part, index in source]
    ids = np.concatenate([part.ids[begin:end] for part, begin, end in spans])
    ends = np.cumsum([end - begin for _, begin, end in spans])
    if own.starts is None or other.starts is None:
        return Encoded(ids, ends)
    starts = [part.starts[begin:end] for part, begin, end in spans if part.starts is not None]
    return Encoded(ids, ends, np.concatenate(starts))


def _joined(parts: Sequence[Encoded], starts: bool) -> Encoded:
    """Encodings of lists of texts, as of one list."""
    if len(parts) == 1:
        return parts[0]
    before = np.cumsum([0, *(len(part.ids) for part in parts)])
    none: list[npt.NDArray[Any]] = [np.zeros(0, np.int64)]
    ids = np.concatenate([np.zeros(0, np.uint32), *(part.ids for part in parts)])
    ends = np.concatenate([*none, *(part.ends + begin for part, begin in zip(parts, before, strict=False))])
    if not starts:
        return Encoded(ids, ends)
    return Encoded(ids, ends, np.concatenate([*none, *(part.starts for part in parts if part.starts is not None)]))
