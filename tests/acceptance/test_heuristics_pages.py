"""The published filters on labelled pages: main texts mostly stay, what else stands on the page mostly goes."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "quality" / "heuristics.py"
# share dropped by any rule of a stage, measured: WCXB-dev main, AEB main, WCXB-dev rest, AEB rest
MEASURED = {
    "gopher_repetition": ((0.100, 0.017), (0.417, 0.464)),
    "c4_quality": ((0.050, 0.017), (0.050, 0.011)),
    "fineweb_quality": ((0.325, 0.055), (0.992, 0.989)),
}
SLACK = 0.03  # what another version of resiliparse may move


@pytest.fixture(scope="module")
def bench() -> Any:
    spec = importlib.util.spec_from_file_location("bench_heuristics", FILE)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    return {}


def texts(bench: Any, samples: Path, kept: dict[str, Any]) -> dict[str, list[Any]]:
    if not kept:
        for name, page in bench.pages(samples):
            kept.setdefault(name, []).append(page)
    return kept


@pytest.mark.parametrize("stage", sorted(MEASURED))
def test_main_texts_stay_and_the_rest_goes(stage: str, bench: Any, samples: Path, kept: dict[str, Any]) -> None:
    found = texts(bench, samples, kept)
    for place, name in enumerate(("WCXB-dev", "AEB")):
        for part, shares in zip(("main", "rest"), MEASURED[stage], strict=True):
            given = [t for p in found[name] if (t := getattr(p, part))]
            failed, _ = bench.judge(stage, bench.FINEWEB[stage], given)
            share = float(np.any(list(failed.values()), axis=0).mean())
            assert share == pytest.approx(shares[place], abs=SLACK), (name, part)


def test_words_between_blanks_spare_main_texts(bench: Any, samples: Path, kept: dict[str, Any]) -> None:
    """Marks that count as words make Gopher's rule of letters drop a fifth of them, datatrove's too."""
    found = texts(bench, samples, kept)
    given = [p.main for one in found.values() for p in one if p.main]
    tokens, _ = bench.judge("gopher_quality", {}, given)
    blanks, _ = bench.judge("gopher_quality", {"words": "blanks"}, given)
    assert 0.12 <= float(tokens["few_alpha_words"].mean()) <= 0.22  # measured .18
    assert float(blanks["few_alpha_words"].mean()) <= 0.06  # measured .04


def test_furniture_is_rare_in_main_texts(bench: Any, samples: Path, kept: dict[str, Any]) -> None:
    from cleanpipe.registry import catalogue, load
    from cleanpipe.testing import batch

    found = texts(bench, samples, kept)
    step = load(catalogue()["text_shape"])().open()

    def medians(part: str) -> float:
        given = [t for one in found.values() for p in one if (t := getattr(p, part))]
        scores = step(batch(text=given, language=["en"] * len(given))).scores["text_shape_boilerplate_line_share"]
        return float(np.nanmean(scores.to_numpy(zero_copy_only=False)))

    assert medians("main") <= 0.012  # measured .004
    assert medians("rest") >= 0.035  # measured .046
