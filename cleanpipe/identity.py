"""What a run is: the hash of everything that decides its bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cleanpipe.recipe import fingerprint

_PARTS = ("settings", "models", "code")
_MIXED = ("kept_code", "again")  # of a run that was completed by other code: what the other units were read by


def config_hash(identity: Mapping[str, Any], inputs: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 (hex) of settings, models and code version, and of each input's source, size and content digest."""
    parts = (*_PARTS, *_MIXED) if _MIXED[0] in identity else _PARTS
    return fingerprint({**{name: identity.get(name) for name in parts}, "inputs": inputs})
