"""How often a model's label is right, by its score: curves measured on labelled texts, tied to the model's digest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from cleanpipe.errors import ConfigError

BINS = 20  # of scores 0..1, each 0.05 wide
LEAST = 24  # texts at or above a threshold, fewer say nothing of a language


@dataclass(frozen=True, slots=True)
class Curve:
    """Of one model: for each code, and "" for all together, texts with this label by score bin, and those of them that
    are right. source: of the texts, for people.
    """

    model: str
    source: str
    labelled: Mapping[str, tuple[int, ...]]
    right: Mapping[str, tuple[int, ...]]

    def at(self, code: str, threshold: float) -> tuple[int, int]:
        """Texts labelled so with at least this score, and the right ones among them; whole bins above it."""
        first = min(BINS - 1, -int(-threshold * BINS // 1))
        return sum(self.labelled.get(code, ())[first:]), sum(self.right.get(code, ())[first:])

    def threshold(self, code: str, precision: float) -> float | None:
        """The lowest score from which on labels are right at least this often; None: at none.

        A language of fewer than LEAST texts is judged by all languages together.
        """
        enough = self.at(code, 0.0)[0] >= LEAST
        for step in range(BINS):
            n, right = self.at(code if enough else "", step / BINS)
            if n >= LEAST and right >= precision * n:
                return step / BINS
        return None


@lru_cache(maxsize=1)
def _shipped() -> Mapping[str, Curve]:
    out = {}
    for entry in sorted(files("cleanpipe_stages.lid").joinpath("data").iterdir(), key=lambda e: e.name):
        if entry.name.endswith(".curve.json"):
            told = json.loads(entry.read_text("utf-8"))
            tables = [{k: tuple(v) for k, v in told[name].items()} for name in ("labelled", "right")]
            out[told["digest"]] = Curve(told["model"], told["source"], *tables)
    return out


def curve_of(digest: str) -> Curve | None:
    """The shipped curve of the model with this SHA-256."""
    return _shipped().get(digest)


def thresholds_for(curve: Curve | None, codes: Sequence[str], precision: float, model: str) -> dict[str, float]:
    """For each language the threshold of this precision.

    Raises:
        ConfigError: the model has no curve, or a language never is that sure.
    """
    if curve is None:
        raise ConfigError(f"precision = {precision:g}: nothing was measured of the model {model}; set thresholds")
    out = {}
    for code in codes:
        found = curve.threshold(code, precision)
        if found is None:
            best = max((r / n for n, r in (curve.at(code, s / BINS) for s in range(BINS)) if n >= LEAST), default=0.0)
            raise ConfigError(
                f"precision = {precision:g}: {code} by {model} is right {best:.1%} of the time at best, in the texts "
                "measured; ask for less, or set thresholds"
            )
        out[code] = found
    return out
