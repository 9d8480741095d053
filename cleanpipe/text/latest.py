"""A memory of two: for what several ask of the same text, one after the other, before and after its repair."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def latest(function: Callable[[str], T]) -> Callable[[str], T]:
    """A pure function that keeps its last two answers, known by the texts' identity: no hashing, no comparing."""
    held: list[tuple[str, T]] = []

    def ask(text: str) -> T:
        for known, answer in held:
            if known is text:
                return answer
        answer = function(text)
        held[:] = [(text, answer), *held[:1]]
        return answer

    ask.__doc__, ask.__name__ = function.__doc__, function.__name__
    return ask
