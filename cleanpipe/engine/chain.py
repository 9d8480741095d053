"""The chain of spans: where one unit of an input stopped, the next must have begun.

A unit that starts in the middle of a file finds its first member by itself, and may be deceived (a nested archive looks
like members). So the units of an input are walked in order: the first is right since it starts at 0, and each next one
is right if it began where the one before it stopped. One that did not is read again, told where to begin. Likewise one
whose offsets count inflated bytes, told how many lie before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cleanpipe.io.record import Span


@dataclass(frozen=True, slots=True)
class Link:
    """One unit as it was read: its span, and the reader's facts (first, next, inflated, relative); None where it could
    not be read.
    """

    unit: int
    span: Span
    facts: Mapping[str, Any] | None


def corrections(chain: Sequence[Link]) -> dict[int, Span]:
    """Units of one input that must be read again, with the span to read them by; empty if the chain is right."""
    out: dict[int, Span] = {}
    at, inflated = 0, 0  # where the next unit must begin; bytes inflated before it
    for link in chain:
        facts, span = link.facts, link.span
        if facts is None:  # it could not be read, so where it stops is what the next one found
            at = inflated = -1
            continue
        owns = int(facts["first"]) >= 0
        if at >= 0:
            right = int(facts["first"]) == at if owns else at >= span.end
            if not right:
                out[link.unit] = replace(span, start=at, inflated=inflated)
                return out  # what follows is judged when this one is right
        if owns and facts["relative"] and inflated >= 0 and span.inflated != inflated:
            out[link.unit] = replace(span, start=int(facts["first"]), inflated=inflated)
        if owns:
            at = int(facts["next"])
            inflated = inflated + int(facts["inflated"]) if inflated >= 0 else -1
    return out


def lost_range(chain: Sequence[Link], position: int, size: int) -> tuple[int, int]:
    """The bytes of a unit that could not be read: from where the one before it stopped to where the next one begins."""
    before = [link.facts["next"] for link in chain[:position] if link.facts is not None and link.facts["first"] >= 0]
    after = [
        link.facts["first"] for link in chain[position + 1 :] if link.facts is not None and link.facts["first"] >= 0
    ]
    neighbour_lost = position > 0 and chain[position - 1].facts is None
    first = chain[position].span.begin if neighbour_lost or not before else int(before[-1])
    following = position + 1 < len(chain) and chain[position + 1].facts is None
    stop = chain[position].span.end if following else int(after[0]) if after else size
    return min(first, stop), stop


def joined_digest(parts: Sequence[str]) -> str:
    """The digest of an input from those of its parts: of one part its own, of several SHA-256 over theirs, with their
    number behind it, as object stores write the checksum of a multipart object.
    """
    if len(parts) == 1:
        return parts[0]
    return f"{hashlib.sha256(b''.join(bytes.fromhex(p) for p in parts)).hexdigest()}-{len(parts)}"
