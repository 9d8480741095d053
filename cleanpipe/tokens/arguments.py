"""What is asked of an argument: one rule for whole numbers, and how a wrong one is shown."""

from __future__ import annotations

import operator
from typing import Any

from cleanpipe.errors import ConfigError

END = 1 << 60  # sequences that no run comes to: sums and small multiples of places stay below 2^63
_SHOWN = 60  # characters of a value in a message


def whole(name: str, value: Any, low: int, high: int | None = None, *, said: str = "") -> int:
    """A whole number of any type (NumPy's too, no bool) as an int: low ≤ it ≤ high, by default no bound but ``END``.

    said: the range in words, by default its numbers.

    Raises:
        ConfigError: it is none, or out of its range; name, value and range are said.
    """
    wanted = said or (f"at least {low:,}" if high is None else f"{low:,} to {high:,}")
    try:
        found = operator.index(value)
    except TypeError:
        found = None
    if found is None or type(value).__name__ in ("bool", "bool_"):
        raise ConfigError(f"{name} {shown(value)}: a whole number, {wanted}")
    if not low <= found <= (END if high is None else high):
        raise ConfigError(f"{name} {shown(found)}: {wanted if found < low or high is not None else f'at most {END:,}'}")
    return found


def shown(value: object) -> str:
    """A value as it was given, of a bounded length."""
    try:
        return cut(repr(value))
    except ValueError:  # a number of more digits than Python spells
        return "a number of thousands of digits"


def cut(text: str) -> str:
    """A text of a bounded length."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
