"""SentencePiece models: what the protocol buffer holds (sentencepiece_model.proto), read without its library."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator

from cleanpipe.errors import ConfigError
from cleanpipe.tokens.tokenizer.parts import Parts, canonical, check_ids

KIND = "SentencePiece model"
_UNKNOWN, _CONTROL, _BYTE = 2, 3, 6  # SentencePiece.Type
_NORMAL, _PIECES, _TRAINER, _NORMALIZER = 1, 1, 2, 3
_IRRELEVANT = frozenset({1, 2, 7, 8, 9, 10, 11, 12})  # of TrainerSpec: names of input files and the like


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field of a message; raises ValueError where it is none."""
    place, size = 0, len(data)

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            if place >= size or shift > 63:
                raise ValueError("cut short")
            byte = data[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < size:
        key = varint()
        number, wire = key >> 3, key & 7
        if wire == 0:
            yield number, varint()
            continue
        length = varint() if wire == 2 else {1: 8, 5: 4}.get(wire, -1)
        if length < 0 or place + length > size or not number:
            raise ValueError("no protocol buffer, or cut short")
        yield number, data[place : place + length]
        place += length


def read(data: bytes, pattern: str = "") -> Parts:
    """Raises: ConfigError: no such model, or a broken one."""
    if pattern:
        raise ConfigError("pattern is for ranks files: a SentencePiece model splits by itself; leave it out")
    pieces: list[tuple[str, bytes, int]] = []
    trainer: list[tuple[int, int | bytes]] = []
    normalizer: list[tuple[int, int | bytes]] = []
    try:
        for number, value in fields(data):
            if number == _PIECES and isinstance(value, bytes):
                message = dict(fields(value))
                text, kind = message.get(1, b""), message.get(3, _NORMAL)
                if not isinstance(text, bytes) or not isinstance(kind, int):
                    raise ValueError("a piece without a text")
                score = message.get(2, b"\0\0\0\0")
                pieces.append((text.decode(), score if isinstance(score, bytes) else b"", kind))
            elif number == _TRAINER and isinstance(value, bytes):
                trainer = list(fields(value))
            elif number == _NORMALIZER and isinstance(value, bytes):
                normalizer = list(fields(value))
    except ValueError as error:
        raise ConfigError(f"{KIND}: {error}; download it again") from error
    ids = {text: value for value, (text, _, _) in enumerate(pieces)}
    if len(ids) < len(pieces):
        raise ConfigError(f"{KIND}: a piece is there twice; train or download it again")
    size = check_ids(ids.values(), KIND)
    _load(data)
    kinds = [kind for _, _, kind in pieces]
    specials = {text: value for value, (text, _, kind) in enumerate(pieces) if kind == _CONTROL}
    unk = kinds.index(_UNKNOWN) if _UNKNOWN in kinds else None
    named = dict(trainer)
    content = canonical(
        {
            "pieces": [
                [text, struct.unpack("<f", score)[0].hex() if len(score) == 4 else "", kind]
                for text, score, kind in pieces
            ],
            "trainer": _plain([field for field in trainer if field[0] not in _IRRELEVANT]),
            "normalizer": _plain(normalizer),
        }
    )
    return Parts(
        ids=ids,
        specials=specials,
        vocabulary=size,
        unk=unk,
        byte_ids=tuple(value for value, kind in enumerate(kinds) if kind == _BYTE),
        fixed=frozenset(value for value, kind in enumerate(kinds) if kind not in (_CONTROL, _UNKNOWN)),
        content=content,
        bos=_named(specials, named.get(41), 1),
        eos=_named(specials, named.get(42), 2),
        facts={"model": {1: "Unigram", 2: "BPE", 3: "word", 4: "char"}.get(int(named.get(3, 1)), "?")},
    )


def _plain(found: list[tuple[int, int | bytes]]) -> list[list[int | str]]:
    return sorted(
        [number, value if isinstance(value, int) else hashlib.sha256(value).hexdigest()] for number, value in found
    )


def _named(specials: dict[str, int], value: int | bytes | None, default: int) -> int | None:
    wanted = value if isinstance(value, int) else default  # absent: the default of the proto
    return wanted if wanted in specials.values() else None


def _load(data: bytes) -> None:
    from cleanpipe.tokens.tokenizer.needs import sentencepiece

    try:
        sentencepiece().SentencePieceProcessor(model_proto=data)
    except Exception as error:
        raise ConfigError(f"{KIND}: sentencepiece cannot load it: {' '.join(str(error).split())[:160]}") from error
