"""A model's perplexities of a named reference, so that limits can be said as percentiles of it.

A table is a JSON file beside the model: ``sha256`` of the model and ``chars`` read tie it to the figures it is of;
``reference`` says which texts; ``perplexity`` gives the value at each of some percentiles, between which the value's
logarithm is drawn straight; ``limits`` are those in force where nothing else is set (``judge.Bounds``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cleanpipe.errors import ConfigError
from cleanpipe_stages.quality.judge import Bounds

AT = (
    0.0,
    0.1,
    0.5,
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    30.0,
    40.0,
    50.0,
    60.0,
    70.0,
    80.0,
    90.0,
    95.0,
    98.0,
    99.0,
    99.5,
    99.9,
    100.0,
)


@dataclass(frozen=True, slots=True)
class Table:
    """One model's table."""

    sha256: str
    chars: int
    reference: str
    documents: int
    values: tuple[float, ...]  # at AT
    limits: Bounds

    def at(self, percentile: float) -> float:
        """The perplexity that ``percentile`` % of the reference are at or below; 6 decimals."""
        return round(float(np.exp(np.interp(percentile, AT, np.log(self.values)))), 6)


def read(path: Path) -> Table:
    """Raises ConfigError where the file is missing or is no table."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        values = {float(k): float(v) for k, v in found["perplexity"].items()}
        low, high, *easiest = map(float, found["limits"])
        table = Table(
            sha256=str(found["sha256"]),
            chars=int(found["chars"]),
            reference=str(found["reference"]),
            documents=int(found["documents"]),
            values=tuple(values[x] for x in AT),
            limits=(low, high, easiest[0] if easiest else 0.0),
        )
    except OSError as e:
        raise ConfigError(f"percentile table not found: {path}") from e
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise ConfigError(f"{path} is no percentile table: {type(e).__name__}: {e}") from e
    if not all(0 < a <= b for a, b in zip(table.values, table.values[1:], strict=False)):
        raise ConfigError(f"{path} is no percentile table: its perplexities do not rise")
    return table


def write(path: Path, model: Path, chars: int, reference: str, figures: Sequence[float], limits: Bounds) -> None:
    """Write the table of one model. figures: the reference's perplexities, in any order."""
    told = {
        "model": model.name,
        "sha256": digest(model),
        "chars": chars,
        "reference": reference,
        "documents": len(figures),
        "perplexity": {f"{q:g}": round(float(v), 3) for q, v in zip(AT, np.percentile(figures, AT), strict=True)},
        "limits": list(limits),
    }
    path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def digest(model: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with model.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()
