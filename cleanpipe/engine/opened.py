"""A recipe opened in a process: its passes, schemas and steps, made once and kept."""

from __future__ import annotations

import time

from cleanpipe import ledger
from cleanpipe.engine.rows import shard_schema
from cleanpipe.flow import Flow
from cleanpipe.pipeline import Pass
from cleanpipe.recipe import Recipe, fingerprint

_opening = 0.0  # CPU seconds this process spent on opening stages and importing what they need


def opening_seconds() -> float:
    """CPU seconds that went into opening stages; no part of the work itself."""
    return _opening


class Opened:
    """A recipe's passes and their opened flows, kept for the life of the worker."""

    def __init__(self, recipe: Recipe) -> None:
        pipeline = recipe.pipeline()
        self.passes: tuple[Pass, ...] = pipeline.validate()
        self.scores = ledger.score_columns(pipeline.scores())
        self.ledger = ledger.schema(pipeline.scores())
        self.shard = shard_schema(pipeline)
        self._flows: dict[int, Flow] = {}

    def flow(self, index: int) -> Flow:
        """The opened flow of one pass."""
        global _opening
        if index not in self._flows:
            began = time.process_time()
            self._flows[index] = Flow(self.passes[index].stages, self.scores)
            _opening += time.process_time() - began
        return self._flows[index]


_held: dict[str, Opened] = {}


def opened(recipe: Recipe) -> Opened:
    """The recipe opened in this process; the same object each time, the last one only."""
    key = fingerprint(recipe.canonical())
    if key not in _held:
        _held.clear()
        _held[key] = Opened(recipe)
    return _held[key]
