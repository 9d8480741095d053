"""Byte-level BPE by tiktoken's engine: the merges as ranks, many documents in one call, no lookahead in the pattern.

Exact by construction: what cannot be the same is refused when opened, a text for which it could differ goes to the
reference (a code point that the two regex engines class differently, an added token, a text that the engine fails on).
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.backend import Backend, Encoded, Ids
from cleanpipe.tokens.backends.fast_pieces import piece_begins
from cleanpipe.tokens.backends.fast_ranks import of_ranks, ranked
from cleanpipe.tokens.backends.fast_split import (
    Flags,
    aside,
    blanks,
    byte_classes,
    engine_class,
    point_classes,
    rule_of,
)
from cleanpipe.tokens.backends.fast_table import PieceTable
from cleanpipe.tokens.backends.hf import HfBackend
from cleanpipe.tokens.backends.starts import starts_of
from cleanpipe.tokens.tokenizer.json_file import steps
from cleanpipe.tokens.tokenizer.model import Tokenizer
from cleanpipe.tokens.tokenizer.needs import tiktoken
from cleanpipe.tokens.tokenizer.ranks_file import in_short, ranks_of

_CUT, _END = "\x01", "\x02"  # within a text, and after it; a text that holds one goes to the reference
_WHOLE = "(?s:.+)"  # what stands between cuts is one piece
_CALL = 2 << 20  # code points that are encoded at once
_BLANK, _LINE, _STOP, _WIDE = 1, 2, 4, 8  # classes of bytes: blank, line end, end of a text, first of a character

_NO_PLACES = np.empty(0, np.int64)


class FastBackend(Backend):
    """One thread."""

    name = "fast"

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raises: ConfigError: this tokenizer has something that would not be exact; says what."""
        if tokenizer.kind == "sentencepiece":
            raise ConfigError("SentencePiece models do not split before they merge")
        ranks = ranks_of(tokenizer.data) if tokenizer.kind == "tiktoken" else None
        document = json.loads(tokenizer.body_json()) if ranks is None else in_short(ranks, tokenizer.pattern)
        if document["model"].get("type", "BPE") != "BPE":
            raise ConfigError(f"its model is {document['model']['type']}, not BPE")
        if steps(document.get("normalizer"), "normalizers"):
            raise ConfigError("it has a normalizer")
        if not tokenizer.lossless:
            raise ConfigError("it is not lossless")
        self._tokenizer = tokenizer
        self._rule = rule_of(document.get("pre_tokenizer"))
        self._added = _added(document["added_tokens"])
        table = ranked(document, apart=self._rule.shape is not None) if ranks is None else of_ranks(ranks)
        self._special, self._whole = len(table.ids), table.whole
        self._ids = table.ids if not np.array_equal(table.ids, np.arange(len(table.ids))) else None
        library = tiktoken()
        self._version = str(library.__version__)
        specials = {_CUT: self._special, _END: self._special + 1}
        self._allowed = set(specials)
        try:
            self._engine = library.Encoding(
                "cleanpipe",
                pat_str=_WHOLE if self._rule.shape else self._rule.pattern,
                mergeable_ranks=dict(table.ranks),
                special_tokens=specials,
            )._core_bpe
        except (ValueError, AttributeError) as error:
            raise ConfigError(f"tiktoken {self._version} does not take its pattern: {error}") from error
        self._table = PieceTable(_END.encode(), self._new_pieces) if self._rule.shape else None
        self._reference: HfBackend | None = None
        self._slow: Counter[str] = Counter()
        self._texts = 0

    def encode(self, texts: Sequence[str], *, starts: bool = False) -> Encoded:
        """See ``Backend.encode``."""
        self._texts += len(texts)
        parts: list[Ids] = []
        counts: list[npt.NDArray[np.int64]] = []
        for group in _groups(texts):
            ids, lengths = self._group(group)
            parts.append(ids)
            counts.append(lengths)
        ids = np.concatenate(parts) if parts else np.empty(0, np.uint32)
        ends = np.cumsum(np.concatenate(counts)) if counts else np.empty(0, np.int64)
        begins = starts_of(ids, ends, texts, self._tokenizer.byte_lengths) if starts else None
        return Encoded(ids, ends, begins)

    def forget_counts(self) -> None:
        """Texts that were counted so far were a proof's, not the corpus's."""
        self._slow.clear()
        self._texts = 0

    def facts(self) -> Mapping[str, Any]:
        """Its libraries, and how many texts went to the reference, by reason."""
        made: dict[str, Any] = {
            "tiktoken": self._version,
            "texts": self._texts,
            "texts_by_reference": self._slow.total(),
        }
        return made | {f"texts_by_reference_{reason}": count for reason, count in sorted(self._slow.items())}

    def _group(self, texts: list[str]) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Ids of all these texts, and how many of each."""
        odd = self._odd(texts)
        try:
            while True:
                kept = [text for place, text in enumerate(texts) if place not in odd] if odd else texts
                data = (_END.join(kept) + _END).encode() if kept else b""
                cuts, apart = self._pieces(data) if self._table else self._scanned(data)
                if not len(apart):
                    break
                apart = np.unique(np.searchsorted(np.flatnonzero(np.frombuffer(data, np.uint8) == ord(_END)), apart))
                places = [place for place in range(len(texts)) if place not in odd]
                odd |= {places[place]: "code_points" for place in apart.tolist()}
            ids, counts = self._call(data, cuts, len(kept)) if kept else _nothing()
        except BaseException as error:  # a panic of the engine is no Exception
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            if len(texts) > 1:
                return _joined([self._group([text]) for text in texts])
            odd, (ids, counts) = {0: "engine"}, _nothing()
        return self._merged(texts, odd, ids, counts) if odd else (ids, counts)

    def _merged(
        self, texts: list[str], odd: Mapping[int, str], ids: Ids, counts: npt.NDArray[np.int64]
    ) -> tuple[Ids, npt.NDArray[np.int64]]:
        """The reference's ids for odd texts in between the others'."""
        self._slow.update(odd.values())
        if self._reference is None:
            self._reference = HfBackend(self._tokenizer)
        others = self._reference.encode([texts[place] for place in sorted(odd)])
        theirs = iter(np.split(others.ids, others.ends[:-1]))
        ours = iter(np.split(ids, np.cumsum(counts)[:-1]))
        merged = [next(theirs) if place in odd else next(ours) for place in range(len(texts))]
        return np.concatenate(merged), np.fromiter(map(len, merged), np.int64, len(merged))

    def _odd(self, texts: list[str]) -> dict[int, str]:
        """Place → why this text is one for the reference, as far as strings in it tell."""
        joined = "".join(texts)
        found: dict[int, str] = {}
        if self._added is not None and self._added.search(joined):
            found |= {place: "added_tokens" for place, text in enumerate(texts) if self._added.search(text)}
        if _CUT in joined or _END in joined:
            found |= {place: "control_characters" for place, text in enumerate(texts) if _CUT in text or _END in text}
        return found

    def _pieces(self, data: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(bytes at which pieces begin, places of code points that the reference was not asked about)."""
        if not data or self._rule.shape is None:
            return _NO_PLACES, _NO_PLACES
        points = None if data.isascii() else point_classes(self._rule)
        return piece_begins(data, byte_classes(self._rule), points, self._rule.shape)

    def _new_pieces(self, pieces: Sequence[bytes]) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Ids of single pieces, and how many of each."""
        whole = [self._whole.get(piece, -1) for piece in pieces] if self._whole else []
        rest = [piece for piece, found in zip(pieces, whole, strict=True) if found < 0] if whole else pieces
        ids, counts = self._called(_CUT.encode().join([*rest, b""]).decode(), self._special)
        if len(rest) == len(pieces):
            return ids, counts
        known = np.array(whole)
        every = np.ones(len(pieces), np.int64)
        every[known < 0] = counts
        places = (np.cumsum(every) - every)[known >= 0]
        merged = np.empty(int(every.sum()), np.uint32)
        engine = np.ones(len(merged), bool)
        engine[places] = False
        merged[places], merged[engine] = known[known >= 0], ids
        return merged, every

    def _scanned(self, data: bytes) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(bytes before which the text is cut, places of code points on which the engines differ)."""
        if not data:
            return _NO_PLACES, _NO_PLACES
        narrow = data.isascii()
        classes = np.frombuffer(bytearray(data).translate(self._narrow if narrow else self._wide), np.uint8)
        raw = np.frombuffer(data, np.uint8)
        if not narrow:
            leads = np.flatnonzero(classes & _WIDE)
            points, lengths = _points(raw, leads)
            apart = leads[self._aside[points]]
            if len(apart):
                return _NO_PLACES, apart
            blank = blanks()[points]
            for more in range(3):
                classes[(leads + more)[blank & (lengths > more)]] = _BLANK
        runs = (classes & (_BLANK if self._rule.lines else _BLANK | _LINE)) != 0
        over = classes & (_BLANK | _LINE | _STOP) == 0
        lasts = np.flatnonzero(runs[:-2] & runs[1:-1] & over[2:]) + 1  # last byte of each run of two bytes or more
        if not narrow and len(lasts):
            for _ in range(2):  # back to its character's first byte
                lasts = lasts - (raw[lasts] & 0xC0 == 0x80)
            lasts = lasts[runs[np.maximum(lasts - 1, 0)] & (lasts > 0)]
        if self._rule.digits and len(lasts):
            ends = lasts + np.where(raw[lasts] < 0x80, 1, np.where(raw[lasts] < 0xE0, 2, 3))
            lasts = lasts[~engine_class(r"\p{N}")[_points(raw, ends)[0]]]
        return lasts, _NO_PLACES

    def _call(self, data: bytes, cuts: npt.NDArray[np.int64], texts: int) -> tuple[Ids, npt.NDArray[np.int64]]:
        if self._table is not None:
            ids, counts = self._table.encode(data, cuts)
        else:
            places = [0, *cuts.tolist(), len(data)]
            pieces = [data[a:b] for a, b in itertools.pairwise(places)]
            ids, counts = self._called(_CUT.encode().join(pieces).decode(), self._special + 1)
        if len(counts) != texts or int(self._tokenizer.byte_lengths[ids].sum()) + texts != len(data):
            raise ValueError("the tokens' bytes are not those of the texts")
        return ids, counts

    def _called(self, joined: str, end: int) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Ids without the special ones, and how many stand before each ``end``."""
        found = np.frombuffer(self._engine.encode_to_tiktoken_buffer(joined, self._allowed), np.uint32)
        apart = found >= self._special
        special = np.flatnonzero(apart)
        ends = special[found[special] == end]
        counts = np.diff(ends - np.searchsorted(special, ends), prepend=0)
        ids: Ids = found[~apart]
        return (ids if self._ids is None else self._ids[ids]), counts

    @cached_property
    def _aside(self) -> Flags:
        return aside(self._rule)

    @cached_property
    def _narrow(self) -> bytes:
        return _byte_classes(())

    @cached_property
    def _wide(self) -> bytes:
        flagged = self._aside | blanks()
        flagged[0xD800:0xE000] = False  # no characters
        return _byte_classes(first_bytes(np.flatnonzero(flagged)))


def _nothing() -> tuple[Ids, npt.NDArray[np.int64]]:
    return np.empty(0, np.uint32), np.empty(0, np.int64)


def _joined(parts: Sequence[tuple[Ids, npt.NDArray[np.int64]]]) -> tuple[Ids, npt.NDArray[np.int64]]:
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([counts for _, counts in parts])


def _groups(texts: Sequence[str]) -> Iterator[list[str]]:
    group: list[str] = []
    size = 0
    for text in texts:
        if group and size + len(text) > _CALL:
            yield group
            group, size = [], 0
        group.append(text)
        size += len(text)
    if group:
        yield group


def _byte_classes(leads: Iterable[int]) -> bytes:
    table = bytearray(256)
    for byte in np.flatnonzero(blanks()[:128]).tolist():
        table[byte] = _LINE if byte in b"\r\n" else _BLANK
    for byte in leads:
        table[byte] |= _WIDE
    table[ord(_END)] = _STOP
    return bytes(table)


def first_bytes(points: npt.NDArray[np.int64]) -> list[int]:
    """The bytes with which these code points above U+007F begin in UTF-8."""
    far = points[points >= 0x80]
    lead = np.where(far < 0x800, 0xC0 | far >> 6, np.where(far < 0x10000, 0xE0 | far >> 12, 0xF0 | far >> 18))
    return [int(byte) for byte in np.unique(lead)]


def _points(
    raw: npt.NDArray[np.uint8], leads: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(code point, bytes) of the characters that begin at these places."""
    top = len(raw) - 1
    first = raw[leads].astype(np.int64)
    size = 1 + (first >= 0xC0) + (first >= 0xE0) + (first >= 0xF0)
    points = np.where(size == 1, first, first & (0xFF >> (size + 1)))
    for more in range(1, 4):
        following = raw[np.minimum(leads + more, top)] & 0x3F
        points = np.where(size > more, points << 6 | following, points)
    return points, size


def _added(tokens: Sequence[Mapping[str, Any]]) -> re.Pattern[str] | None:
    """Finds added tokens that are ordinary vocabulary."""
    contents = sorted(token["content"] for token in tokens if not token.get("special"))
    blank = next((content for content in contents if not content.strip()), None)
    if blank is not None:
        raise ConfigError(f"it has an added token of blanks, {blank!r}")
    return re.compile("|".join(map(re.escape, contents))) if contents else None
