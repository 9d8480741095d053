"""What turns texts into ids: the contract of every backend. Nothing is added to a text's own ids, nothing removed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Encoded:
    """ids: of all texts, one after another. ends: (texts,) where each text's ids end in it. starts: (ids,) the code
    point of its text at which a token begins (of a token that begins within a character, that character); None where
    nobody asked. stops: (ids,) the code point at which it ends, of tokenizers that drop blanks between tokens; None:
    where the next one begins.
    """

    ids: Ids
    ends: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64] | None = None
    stops: npt.NDArray[np.int64] | None = None


def is_failure(error: BaseException) -> bool:
    """Whether a library failed: its errors, and panics of those in Rust, which are no ``Exception``."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def first_line(error: BaseException) -> str:
    """What it says, short and printable."""
    line = (str(error).strip().splitlines() or [""])[0][:200]
    return f"{type(error).__name__}: " + "".join(c if c.isprintable() else "\ufffd" for c in line)


class Backend(ABC):
    """Encodes whole documents. Control strings in a text are text: no id of a control token ever comes out of one."""

    name = ""

    @abstractmethod
    def encode(self, texts: Sequence[str], *, starts: bool = False) -> Encoded:
        """The ids of each text, without BOS, EOS or anything that a post-processor would add.

        texts: valid Unicode without lone surrogates, of any length, "" too; starts: see ``Encoded``.
        """

    def close(self) -> None:  # noqa: B027  # most have nothing to end
        """End what it started, processes say; it encodes on, without."""

    def facts(self) -> Mapping[str, Any]:
        """What a report should say of it: versions, device, cache, how many texts took another way."""
        return {}
