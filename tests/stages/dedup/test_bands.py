"""Band keys: equal where a band's rows are equal, stored with how they were made, and the curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cleanpipe.errors import ConfigError
from cleanpipe_stages.dedup.bands import Layout, band_keys, from_arrow, to_arrow


def layout(**other: Any) -> Layout:
    options: dict[str, Any] = {
        "bands": 4,
        "rows": 3,
        "words": 5,
        "characters": 8,
        "scheme": "cleanpipe",
        "seed": 1,
    } | other
    return Layout.of(**options)


def test_a_key_changes_with_any_of_its_rows_and_no_other() -> None:
    one = np.arange(12, dtype=np.uint32)[None, :]
    keys = band_keys(one, layout())
    for place in range(12):
        other = one.copy()
        other[0, place] += 1
        same = band_keys(other, layout())[0] == keys[0]
        assert same.tolist() == [band != place // 3 for band in range(4)]


def test_rows_in_another_order_and_equal_rows_in_another_band_are_other_keys() -> None:
    keys = band_keys(np.array([[1, 2, 3, 1, 2, 3, 3, 2, 1, 2, 1, 3]], dtype=np.uint32), layout())
    assert len(set(keys[0].tolist())) == 4


def test_there_and_back() -> None:
    keys = np.random.default_rng(0).integers(0, 1 << 64, (5, 4), dtype=np.uint64)
    filled = np.array([True, False, True, True, False])
    array = to_arrow(keys, filled, layout())
    array.validate(full=True)
    assert array.is_valid().to_pylist() == filled.tolist()
    assert {len(v) for v in array.to_pylist() if v is not None} == {layout().width}
    stored = from_arrow(array)
    assert np.array_equal(stored[:, 1:], keys[filled])
    assert Layout.read(int(stored[0, 0])) == layout()
    assert np.array_equal(from_arrow(array.slice(1, 3))[:, 1:], keys[2:4])
    assert np.array_equal(from_arrow(array.cast(pa.large_binary()))[:, 1:], keys[filled])
    assert len(from_arrow(array.slice(1, 1))) == 0
    assert len(from_arrow(pa.nulls(3))) == 0
    assert to_arrow(np.zeros((0, 4), np.uint64), np.zeros(0, bool), layout()).to_pylist() == []


@pytest.mark.parametrize(
    "other", [{"bands": 5}, {"rows": 4}, {"words": 4}, {"characters": 7}, {"scheme": "x"}, {"seed": 2}]
)
def test_unlike_layouts_do_not_meet(other: dict[str, object]) -> None:
    one, two = layout(), layout(**other)
    arrays = [to_arrow(np.ones((1, made.bands), np.uint64), np.ones(1, bool), made) for made in (one, two)]
    with pytest.raises(ConfigError, match="signed with different options"):
        from_arrow(pa.concat_arrays(arrays))


@pytest.mark.parametrize("bad", [{"bands": 0}, {"rows": 256}, {"words": -1}, {"characters": 0}])
def test_numbers_that_cannot_be(bad: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="from 1 to 255"):
        layout(**bad)


@pytest.mark.parametrize(
    ("bands", "rows", "even", "shares"),
    [  # design table: 50 % point, P(.70), P(.75), P(.80), P(.85), P(.90)
        (16, 8, 0.674, (0.613, 0.815, 0.947, 0.994, 1.00)),
        (8, 16, 0.856, (0.026, 0.077, 0.204, 0.461, 0.806)),
        (14, 9, 0.714, (0.438, 0.665, 0.867, 0.975, 0.999)),
    ],
)
def test_the_curve(bands: int, rows: int, even: float, shares: tuple[float, ...]) -> None:
    made = layout(bands=bands, rows=rows)
    assert made.even == pytest.approx(even, abs=0.0005)
    assert made.candidate_share(made.even) == pytest.approx(0.5)
    for jaccard, share in zip((0.7, 0.75, 0.8, 0.85, 0.9), shares, strict=True):
        assert made.candidate_share(jaccard) == pytest.approx(share, abs=0.0006)


def test_the_measured_curve_is_the_formula() -> None:
    """2,000 pairs at .80: share with a common key within four standard errors of .947."""
    from cleanpipe_stages.dedup.shingles import ShingleSets
    from cleanpipe_stages.dedup.signatures import Family

    made, rng = layout(bands=16, rows=8), np.random.default_rng(5)
    values = rng.integers(0, 1 << 64, (2000, 100), dtype=np.uint64)
    pairs = np.stack((values[:, :90], np.concatenate((values[:, :80], values[:, 90:]), axis=1)), axis=1)
    sets = ShingleSets(np.sort(pairs, axis=2).reshape(-1), np.arange(4001) * 90, np.zeros(4000, dtype=bool))
    keys = band_keys(Family.of(1, 128).signatures(sets), made).reshape(2000, 2, 16)
    share = float(np.mean(np.any(keys[:, 0] == keys[:, 1], axis=1)))
    assert share == pytest.approx(made.candidate_share(0.8), abs=4 * (0.947 * 0.053 / 2000) ** 0.5)


def test_golden_keys() -> None:
    """In finished runs: may never change."""
    keys = band_keys(np.arange(12, dtype=np.uint32)[None, :], layout())
    assert keys.tolist() == [[0x603D8BE222E1094D, 0x673B2440E88143C2, 0x07AB8DAE64C5B4AE, 0x18E582F32D413697]]
    assert int(layout()) == 0x52A75E4B08050304
