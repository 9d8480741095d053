"""Tallies: nested mappings of whole numbers that add up. N workers report what one would, in any order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# JSON-like: {"stage": {"dropped": {"bad_status": 3}}}; leaves are int
Tally = dict[str, Any]


def add(into: Tally, other: Mapping[str, Any]) -> Tally:
    """Add ``other`` to ``into``, leaf by leaf, and return it. Commutative and associative; ``{}`` is the zero."""
    for key, value in other.items():
        if isinstance(value, Mapping):
            add(into.setdefault(key, {}), value)
        else:
            into[key] = into.get(key, 0) + value
    return into
