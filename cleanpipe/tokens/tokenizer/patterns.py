"""The splitting patterns that ranks files name, and the byte alphabet of byte-level vocabularies."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + _BLANKS
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTIONS}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTIONS}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _BLANKS
)


@dataclass(frozen=True, slots=True)
class Known:
    """A published encoding: how it splits, how many ranks its file holds, its control tokens beside them."""

    pattern: str
    ranks: int
    controls: dict[str, int]


KNOWN = {
    "gpt2": Known(GPT2, 50_256, {"<|endoftext|>": 50_256}),
    "r50k": Known(GPT2, 50_256, {"<|endoftext|>": 50_256}),
    "p50k": Known(GPT2, 50_280, {"<|endoftext|>": 50_256}),
    "cl100k": Known(
        CL100K,
        100_256,
        {
            "<|endoftext|>": 100_257,
            "<|fim_prefix|>": 100_258,
            "<|fim_middle|>": 100_259,
            "<|fim_suffix|>": 100_260,
            "<|endofprompt|>": 100_276,
        },
    ),
    "o200k": Known(O200K, 199_998, {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}),
}


@lru_cache(maxsize=1)
def byte_alphabet() -> tuple[str, ...]:
    """The character that stands for each byte in byte-level vocabularies (GPT-2): printable ones for themselves,
    the others from U+0100 on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    letters, others = [], 0
    for byte in range(256):
        letters.append(chr(byte if byte in printable else 0x100 + others))
        others += byte not in printable
    return tuple(letters)


@lru_cache(maxsize=1)
def alphabet_bytes() -> dict[int, int]:
    """The byte of each code point of ``byte_alphabet``, as ``str.translate`` wants it (to Latin-1)."""
    return {ord(letter): byte for byte, letter in enumerate(byte_alphabet())}


def spelled(piece: bytes) -> str:
    """Bytes in the byte alphabet."""
    alphabet = byte_alphabet()
    return "".join([alphabet[byte] for byte in piece])


def unspelled(token: str) -> bytes | None:
    """The bytes of a token in the byte alphabet; None where it has other characters."""
    table = alphabet_bytes()
    if any(ord(letter) not in table for letter in token):
        return None
    return token.translate(table).encode("latin-1")
