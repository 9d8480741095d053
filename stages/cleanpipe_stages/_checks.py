"""Checks of options: each names the option, its value and what it may be."""

from __future__ import annotations

from collections.abc import Sized

from cleanpipe.errors import ConfigError

Number = int | float


def within(stage: str, option: str, value: Number, least: Number, most: Number | None = None) -> None:
    """Raises ConfigError unless ``least <= value <= most``; None: no upper limit. NaN is outside."""
    if not (least <= value and (most is None or value <= most)):
        allowed = f"{least:,} or more" if most is None else f"from {least:,} to {most:,}"
        raise ConfigError(f"{option} = {value:,}: it must be {allowed}", stage=stage)


def not_empty(stage: str, option: str, value: Sized) -> None:
    """Raises ConfigError where nothing is named."""
    if not value:
        raise ConfigError(f"{option} is empty: it must name at least one, or nothing is kept", stage=stage)


def one_of(stage: str, option: str, value: str, known: tuple[str, ...]) -> None:
    """Raises ConfigError for an unknown word."""
    if value not in known:
        raise ConfigError(f"{option} = {value!r}: choose one of {', '.join(known)}", stage=stage)
