"""From a sequence of a plan to its documents, the most suspect first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cleanpipe.tokens.tracing.characters import Characters, characters, tokenizer_of
from cleanpipe.tokens.tracing.figures import TAIL, Repeats, rare_ids, repeats
from cleanpipe.tokens.tracing.origin import Origin, origin_of

if TYPE_CHECKING:
    from cleanpipe.tokens.reading.plan import Plan
    from cleanpipe.tokens.store import TokenStore

Rare = Mapping[int, npt.NDArray[np.bool_]]  # store of the plan → its rare ids


@dataclass(frozen=True, slots=True)
class Part:
    """A document's tokens in a sequence.

    sequence: the global one. source: which store of the plan. token_start, token_stop: global numbers in that store.
    place: where they begin in the sequence. characters: of them in the cleaned text; None where they are BOS and EOS
    alone. tokens: without BOS and EOS. rare: how many of these are rare ids of the store. repeats: see ``Repeats``.
    """

    sequence: int
    source: int
    origin: Origin
    token_start: int
    token_stop: int
    place: int
    characters: Characters | None
    tokens: int
    rare: int
    repeats: Repeats

    @property
    def rare_share(self) -> float:
        """Of its tokens."""
        return self.rare / self.tokens if self.tokens else 0.0

    @property
    def rare_excess(self) -> float:
        """How many rare ids more than the one in a hundred tokens that chance gives at most; 0 where there are fewer.

        A count, not a share: one rare id among eleven tokens is nothing, five in a hundred of a long page are much.
        """
        return max(0, TAIL * self.rare - self.tokens) / TAIL

    @property
    def suspicion(self) -> tuple[bool, float, int]:
        """What they are ranked by, the highest first: n-grams repeated 32 times or more, rare excess, length."""
        return self.repeats.many, self.rare_excess, self.tokens


@dataclass(frozen=True, slots=True)
class TracedSequence:
    """sequence: its global number. source, epoch: of which store of the plan, and how often that was read before.

    tokens: in it, of ``length``; the rest is padding. parts: its documents, in their order there.
    """

    sequence: int
    source: int
    epoch: int
    length: int
    tokens: int
    parts: tuple[Part, ...]


def trace_sequence(plan: Plan, sequence: int, *, rare: Rare | None = None) -> TracedSequence:
    """The documents of a global sequence of a plan.

    rare: rare ids by store (``rare_of``), where several sequences are asked for; by default counted here.

    Raises:
        IndexError: the number is below 0. ConfigError: it is too large. DamagedFileError: what is read is not as it
            was written.
    """
    from cleanpipe.tokens.reading.plan import numbered

    rows = plan.rows(np.array([numbered(sequence)], np.int64))
    source = int(rows.source[0])
    store = plan.sources[source].store
    known = (rare_of(plan, [source]) if rare is None else rare)[source]
    parts: list[Part] = []
    count = 0
    for piece in plan.locate(sequence):
        count += piece.stop - piece.start
        token = piece.start
        while token < piece.stop:
            document = store.document_of(token)
            origin = origin_of(store, document)
            stop = min(origin.token_stop, piece.stop)
            parts.append(_part(store, sequence, source, origin, token, stop, piece.place + token - piece.start, known))
            token = stop
    return TracedSequence(sequence, source, int(rows.epoch[0]), plan.length, count, tuple(parts))


def _part(
    store: TokenStore, sequence: int, source: int, origin: Origin, start: int, stop: int, place: int, rare: Any
) -> Part:
    ids = np.asarray(store.read(start, stop))
    low = int(store.bos is not None and start == origin.token_start)
    high = len(ids) - int(store.eos is not None and stop == origin.token_stop)
    body = ids[low : max(low, high)]
    return Part(
        sequence=sequence,
        source=source,
        origin=origin,
        token_start=start,
        token_stop=stop,
        place=place,
        characters=characters(store, origin, start, stop, tokenizer_of(store)),
        tokens=len(body),
        rare=int(rare[body].sum()),
        repeats=repeats(body),
    )


def rare_of(plan: Plan, sources: Sequence[int] | None = None) -> dict[int, npt.NDArray[np.bool_]]:
    """The rare ids of a plan's stores, or of some of them."""
    return {at: rare_ids(plan.sources[at].store) for at in (range(len(plan.sources)) if sources is None else sources)}


def ranked(parts: Sequence[Part]) -> list[Part]:
    """The most suspect first; equal ones as they come."""
    return sorted(parts, key=lambda p: p.suspicion, reverse=True)
