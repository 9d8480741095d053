"""Texts to ids by a backend that is not believed: every id is looked at, what it cannot do the reference does, and what
it does in another way than the reference ends its use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cleanpipe.errors import CleanpipeError
from cleanpipe.tokens.backend import Backend, Encoded, first_line, is_failure
from cleanpipe.tokens.tokenizer.policy import never_in_text

CONTROL, RANGE, FAILED = "control_id", "id_out_of_range", "encoding_failed"  # why a document is set aside
REFERENCE = "hf"
Numbers = npt.NDArray[np.int64]


class Differs(Exception):  # noqa: N818  # told to the unit, which begins again with the reference
    """A backend gave other ids than the reference for a text of this shard."""


class Refusal(NamedTuple):
    """Why nobody could encode a text; detail: of an error its first line."""

    reason: str
    detail: str | None = None


class Encoder:
    """backend: the one in use. reference: another one, for texts that it fails on; the same object where it is it.

    rescued: texts that the reference had to encode.
    """

    def __init__(self, tokenizer: Any, backend: Backend, reference: Backend) -> None:
        self.tokenizer, self.backend, self.reference = tokenizer, backend, reference
        self.rescued = 0
        self._vocabulary = int(tokenizer.vocabulary)
        self._forbidden = np.zeros(self._vocabulary, bool)
        for number in never_in_text(tokenizer.bos, tokenizer.eos, tokenizer.unk, tokenizer.controls):
            if 0 <= number < self._vocabulary:
                self._forbidden[number] = True

    @property
    def doubtful(self) -> bool:
        """Whether the backend is another one than the reference."""
        return self.backend is not self.reference

    def encode(self, texts: Sequence[str], *, starts: bool = False) -> tuple[Encoded, dict[int, Refusal]]:
        """The ids of each text, and which texts nobody could encode, with the reason: those have no ids.

        Raises:
            Differs: an id that may not be there came from the backend, and none from the reference.
        """
        if not texts:
            return _none(0, starts), {}
        found = _tried(self.backend, texts, starts)
        if isinstance(found, Encoded) and not (bad := self._bad(found)):
            return found, {}
        if isinstance(found, Refusal):  # which text it is, asking them one by one tells
            return self._each(texts, None, dict.fromkeys(range(len(texts)), ""), starts)
        return self._each(texts, found, bad, starts)

    def _bad(self, found: Encoded) -> dict[int, str]:
        """Texts with an id that may not be there. One comparison of all ids, as a rule."""
        if not len(found.ids):
            return {}
        beyond = found.ids >= self._vocabulary
        wrong = beyond | self._forbidden[np.where(beyond, 0, found.ids)] if beyond.any() else self._forbidden[found.ids]
        if not wrong.any():
            return {}
        places = np.flatnonzero(wrong)
        of_text = np.searchsorted(found.ends, places, side="right")
        reasons = np.where(beyond[places], RANGE, CONTROL)
        return {int(t): str(r) for t, r in zip(of_text[::-1], reasons[::-1], strict=True)}  # a text's first one stays

    def _each(
        self, texts: Sequence[str], found: Encoded | None, bad: dict[int, str], starts: bool
    ) -> tuple[Encoded, dict[int, Refusal]]:
        parts, refused = list[Encoded](), dict[int, Refusal]()
        for at, text in enumerate(texts):
            if at not in bad:
                assert found is not None
                parts.append(part_of(found, at))
                continue
            own = self._alone(text, bad[at], starts)
            if isinstance(own, Refusal):
                refused[at] = own
                own = _none(1, starts)
            parts.append(own)
        return joined(parts, starts), refused

    def _alone(self, text: str, wrong: str, starts: bool) -> Encoded | Refusal:
        """One text, by the backend, then by the reference; the reason where neither can. wrong: what the backend gave
        that may not be there, in company with other texts.
        """
        why = Refusal(wrong or FAILED)
        for backend in [self.reference] if wrong and self.doubtful else dict.fromkeys((self.backend, self.reference)):
            found = _tried(backend, [text], starts)
            if isinstance(found, Refusal):
                why = found if why == Refusal(FAILED) else why
                continue
            bad = self._bad(found)
            if not bad:
                if wrong:
                    raise Differs(f"a text of {len(text):,} code points: {wrong}, which {backend.name} does not give")
                self.rescued += backend is not self.backend
                return found
            why, wrong = Refusal(bad[0]), bad[0]
        return why

    def prove(self, doc_id: bytes, text: str, ids: npt.NDArray[np.uint32]) -> None:
        """The same ids come from the reference, where it can encode this.

        Raises:
            Differs: they do not.
        """
        if not self.doubtful:
            return
        found = _tried(self.reference, [text], starts=False)
        if isinstance(found, Refusal):
            return
        theirs = found.ids
        if len(ids) == len(theirs) and bool((ids == theirs).all()):
            return
        short = min(len(ids), len(theirs))
        apart = np.flatnonzero(ids[:short] != theirs[:short])
        at = int(apart[0]) if len(apart) else short
        told = f"{ids[at : at + 4].tolist()}, not {theirs[at : at + 4].tolist()}"
        raise Differs(f"document {doc_id.hex()}, token {at:,}: {told}")


def _tried(backend: Backend, texts: Sequence[str], starts: bool) -> Encoded | Refusal:
    """What it gives, or how it failed."""
    try:
        return backend.encode(texts, starts=starts)
    except (CleanpipeError, MemoryError):
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        return Refusal(FAILED, first_line(error))


def _none(texts: int, starts: bool) -> Encoded:
    """Texts without any ids."""
    return Encoded(np.zeros(0, np.uint32), np.zeros(texts, np.int64), np.zeros(0, np.int64) if starts else None)


def part_of(found: Encoded, at: int) -> Encoded:
    """One text of many."""
    begin, end = int(found.ends[at - 1]) if at else 0, int(found.ends[at])
    starts = None if found.starts is None else found.starts[begin:end]
    stops = None if found.stops is None else found.stops[begin:end]
    return Encoded(found.ids[begin:end], np.array([end - begin], np.int64), starts, stops)


def joined(parts: Sequence[Encoded], starts: bool) -> Encoded:
    """Many texts, in order; ``stops`` only if all have them."""
    if not parts:
        return _none(0, starts)
    ids = np.concatenate([p.ids for p in parts])
    ends = np.cumsum([len(p.ids) for p in parts], dtype=np.int64)
    if not starts:
        return Encoded(ids, ends)
    own = [p.starts if p.starts is not None else np.zeros(0, np.int64) for p in parts]
    stops = [p.stops for p in parts if p.stops is not None]
    whole = len(stops) == sum(bool(len(p.ids)) or p.stops is not None for p in parts) and bool(stops)
    return Encoded(ids, ends, np.concatenate(own), np.concatenate(stops) if whole else None)
