"""Perplexity behind one interface: an engine by name gives a scorer, and every scorer gives one schema.

Each engine is a module of this package, imported when it is asked for: ``files`` names what decides its figures,
``open_scorer`` loads it. Figures of two engines, or of two models, cannot be compared: which they are of is in the
run's identity (the options and the files' digests), in the cuts and in the audit's words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

ENGINES = ("ngram", "mlm", "causal", "off")


@dataclass(frozen=True, slots=True)
class Scored:
    """Of one text: ``perplexity`` of a token of its beginning (None: not measured), and of each of its ``paragraphs``,
    the lines that hold a token, in their order (none where not measured).
    """

    perplexity: float | None
    paragraphs: Sequence[float] = ()


NOT_MEASURED = Scored(None)

Scorer = Callable[[Sequence[str], Sequence[str]], list[Scored]]
"""Of (texts, their languages; "" for unknown), one Scored each. What stands beside a text in a batch changes nothing
beyond the last bits of a float."""


@dataclass(frozen=True, kw_only=True)
class ScorerOptions:
    """What quality_score passes on.

    model: a file (ngram) or a folder (mlm, causal) in place of the shipped one; "" for the shipped.
    language: what that model reads, as language_id labels it; "" for every language.
    chars: code points at a text's beginning that are read.
    device: where a neural model runs: "auto" (CUDA where there is one), "cpu" or "cuda".
    dtype: of a neural model's weights: "float32", "bfloat16" or "float16".
    batch_tokens: tokens that a neural model is given at once, padding among them.
    mlm_passes: 0 masks each token alone; k every k-th token of a sentence at once, in k passes.
    context: tokens of a causal model's window; 0: the model's own length, at most 1,024.
    stride: tokens between the starts of windows; 0: half of context.
    """

    model: str = ""
    language: str = "en"
    chars: int = 1024
    device: str = "auto"
    dtype: str = "float32"
    batch_tokens: int = 8192
    mlm_passes: int = 0
    context: int = 0
    stride: int = 0


class Engine(Protocol):
    """What a module of this package offers."""

    def files(self, options: ScorerOptions) -> Mapping[str, Path]:
        """Every file that decides results, by name (ngram: by language). Not checked to exist."""

    def open_scorer(self, options: ScorerOptions) -> Scorer:
        """Load the model. Raises ConfigError where it, or a library it needs, is missing or cannot be read."""

    def percentiles(self, options: ScorerOptions) -> Mapping[str, Path]:
        """The shipped model's percentile tables (``quality.percentiles``), by language; none for another model."""


def engine(name: str) -> Engine:
    """The module of ENGINES' ``name`` (any but "off")."""
    return cast("Engine", import_module(f"{__name__}.{name}"))
