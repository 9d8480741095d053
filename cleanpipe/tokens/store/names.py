"""What a shard's files are called, and how large each must be."""

from __future__ import annotations

from cleanpipe.tokens.layout import BLOCK
from cleanpipe.tokens.store.offsets import size_of

MANIFEST = "manifest.json"
TOKENS, SPANS, LEDGER = "tokens/", "spans/", "ledger/"
PAYLOAD, LINK, OFFSETS, SUMS, ARROW = ".bin", ".ds", ".offsets.npy", ".sums", ".arrow"
MEGATRON, DATATROVE = ".idx", ".ds.index"


def payload_name(shard: str) -> str:
    """``tokens/NAME.bin``."""
    return f"{TOKENS}{shard}{PAYLOAD}"


def offsets_name(shard: str) -> str:
    """``tokens/NAME.offsets.npy``."""
    return f"{TOKENS}{shard}{OFFSETS}"


def sums_name(shard: str) -> str:
    """``tokens/NAME.sums``."""
    return f"{TOKENS}{shard}{SUMS}"


def spans_name(shard: str) -> str:
    """``spans/NAME.arrow``."""
    return f"{SPANS}{shard}{ARROW}"


def blocks(size: int) -> int:
    """How many blocks a payload of ``size`` bytes has."""
    return -(-size // BLOCK)


def sizes(shard: str, tokens: int, documents: int, width: int) -> dict[str, int]:
    """Bytes of each file of a shard that its counts fix. width: bytes of an id."""
    size = tokens * width
    return {
        payload_name(shard): size,
        f"{TOKENS}{shard}{LINK}": size,
        f"{TOKENS}{shard}{DATATROVE}": 8 * documents,
        f"{TOKENS}{shard}{MEGATRON}": 34 + 20 * documents + 8,
        offsets_name(shard): size_of(documents),
        sums_name(shard): 8 * blocks(size),
    }
