"""Limits beyond which a store is told loudly. All are ours; a build may be given others (``--max-…``)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Shares, at most. unk: of the tokens; a vocabulary that fits its text leaves no more than one in a thousand.
    byte_fallback: of the tokens; beyond, a script is spelled in bytes and costs several times its tokens. lost: of the
    documents, those that decisions leave out not counted; more is no page's fault.
    """

    unk: float = 0.001
    byte_fallback: float = 0.02
    lost: float = 0.01


OURS = Limits()
