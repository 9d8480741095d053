"""Calibration curves: what they say of a threshold, and which threshold a precision asks for."""

from __future__ import annotations

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe_stages.lid.curve import BINS, LEAST, Curve, curve_of, thresholds_for
from cleanpipe_stages.lid.model import digest, find_model


def bins(**at):
    out = [0] * BINS
    for place, n in at.items():
        out[int(place[1:])] = n
    return tuple(out)


CURVE = Curve(
    "a model",
    "made up",
    {"": bins(b0=100, b10=200, b19=300), "en": bins(b0=50, b10=100, b19=100), "so": bins(b19=5)},
    {"": bins(b0=10, b10=190, b19=300), "en": bins(b0=5, b10=90, b19=99), "so": bins(b19=5)},
)


@pytest.mark.parametrize(
    ("code", "at", "expected"),
    [
        ("en", 0.0, (250, 194)),
        ("en", 0.01, (200, 189)),  # part of a bin: from the next one on
        ("en", 0.5, (200, 189)),
        ("en", 0.51, (100, 99)),
        ("en", 1.0, (100, 99)),
        ("xx", 0.5, (0, 0)),
    ],
)
def test_counts_at_a_threshold(code, at, expected):
    assert CURVE.at(code, at) == expected


@pytest.mark.parametrize(
    ("code", "precision", "expected"),
    [
        ("en", 0.7, 0.0),
        ("en", 0.9, 0.05),
        ("en", 0.95, 0.55),
        ("en", 0.99, 0.55),
        ("en", 0.995, None),
        ("so", 0.95, 0.05),  # five texts say nothing: all languages together
        ("xx", 0.999, 0.55),
    ],
)
def test_the_lowest_threshold_of_a_precision(code, precision, expected):
    assert CURVE.threshold(code, precision) == expected


def test_what_is_not_reached_is_said():
    with pytest.raises(ConfigError, match=r"en by a\.ftz is right 99\.0% of the time at best"):
        thresholds_for(CURVE, ["en"], 0.999, "a.ftz")
    with pytest.raises(ConfigError, match="nothing was measured"):
        thresholds_for(None, ["en"], 0.9, "a.ftz")


def test_the_shipped_curve_belongs_to_the_packaged_model():
    found = curve_of(digest(find_model("")))
    assert found is not None
    assert found.model == "lid.176.ftz"
    assert set(found.labelled) == set(found.right)
    for code, labelled in found.labelled.items():
        assert len(labelled) == len(found.right[code]) == BINS
        assert sum(labelled) >= LEAST
        assert all(r <= n for n, r in zip(labelled, found.right[code], strict=True))
    assert sum(found.labelled[""]) > 5000
    assert curve_of("0" * 64) is None
