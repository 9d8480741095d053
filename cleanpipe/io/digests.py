"""WARC-Block-Digest: the one checksum that speaks of a single record."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping

_NAMES = {"sha1": "sha1", "sha-1": "sha1", "sha256": "sha256", "sha-256": "sha256", "md5": "md5"}


def block_digest_holds(headers: Mapping[str, str], block: bytes) -> bool | None:
    """Whether the block gives the digest its head states; None where none is stated that can be understood.

    Digests are written in base 32 (the custom), hexadecimal, base 64 or its URL form, in any case where case is free.
    """
    name, _, value = headers.get("warc-block-digest", "").partition(":")
    kind = _NAMES.get(name.strip().lower())
    if kind is None:
        return None
    stated = _decoded(value.strip(), hashlib.new(kind, usedforsecurity=False).digest_size)
    return hashlib.new(kind, block, usedforsecurity=False).digest() in stated if stated else None


def _decoded(value: str, size: int) -> list[bytes]:
    """Every reading of ``value`` that has ``size`` bytes."""
    found = []
    padded = value + "=" * (-len(value) % 4)
    for decode, text in (
        (bytes.fromhex, value),
        (base64.b32decode, value.upper() + "=" * (-len(value) % 8)),
        (base64.b64decode, padded),
        (base64.urlsafe_b64decode, padded),
    ):
        try:
            raw = decode(text)
        except (ValueError, binascii.Error):
            continue
        if len(raw) == size:
            found.append(raw)
    return found
