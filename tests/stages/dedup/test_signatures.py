"""MinHash values against plain integers, and the estimate's error against theory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from cleanpipe_stages.dedup import plain
from cleanpipe_stages.dedup import signatures as module
from cleanpipe_stages.dedup.shingles import ShingleSets, shingle_sets
from cleanpipe_stages.dedup.signatures import EMPTY, Family, datasketch_signatures


def random_sets(seed: int, sizes: list[int]) -> ShingleSets:
    rng = np.random.default_rng(seed)
    values = [np.unique(rng.integers(0, 1 << 64, size, dtype=np.uint64)) for size in sizes]
    offsets = np.concatenate(([0], np.cumsum([len(v) for v in values])))
    return ShingleSets(np.concatenate(values), offsets, np.zeros(len(sizes), dtype=bool))


def test_each_value_is_the_least_of_its_function() -> None:
    family, sets = Family.of(7, 16), random_sets(0, [5, 0, 1, 40, 0])
    found = family.signatures(sets)
    for row in range(len(sets)):
        upper = [int(v) >> 32 for v in sets[row]]
        for k in range(16):
            a, b = int(family.multiply[k]), int(family.add[k])
            assert found[row, k] == min(((a * x + b) % (1 << 32) for x in upper), default=int(EMPTY))


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    family, sets = Family.of(1, 8), random_sets(1, [0, 30, 1, 0, 500, 2, 2, 0])
    whole = family.signatures(sets)
    for size in (1, 3, 31, 100):
        monkeypatch.setattr(module, "_BLOCK", size)
        assert np.array_equal(family.signatures(sets), whole)


def test_multipliers_are_odd_and_unlike() -> None:
    family = Family.of(1, 128)
    assert np.all(family.multiply % 2 == 1)
    assert len(set(family.multiply.tolist())) == len(set(family.add.tolist())) == 128
    assert not np.array_equal(family.add, Family.of(2, 128).add)


@pytest.mark.parametrize("jaccard", [0.5, 0.75, 0.85, 0.95])
@pytest.mark.parametrize("size", [20, 1000])
def test_the_estimate_has_no_bias_and_the_error_of_theory(jaccard: float, size: int) -> None:
    """400 pairs: mean error within four standard errors of 0, spread within 15 % of sqrt(J (1 - J) / 128)."""
    rng, errors, common = np.random.default_rng(size), [], round(size * jaccard)
    real = common / size
    for _ in range(400):
        values = rng.integers(0, 1 << 64, size, dtype=np.uint64)
        only = (size - common) // 2
        one, other = (
            np.sort(values[: common + only]),
            np.sort(np.concatenate((values[:common], values[common + only :]))),
        )
        offsets = np.array([0, len(one), len(one) + len(other)])
        found = Family.of(1, 128).signatures(
            ShingleSets(np.concatenate((one, other)), offsets, np.zeros(2, dtype=bool))
        )
        errors.append(np.mean(found[0] == found[1]) - real)
    theory = (real * (1 - real) / 128) ** 0.5
    assert abs(np.mean(errors)) < 4 * theory / 400**0.5
    assert 0.85 * theory < np.std(errors) < 1.15 * theory


def test_datasketch_values_are_those_of_datasketch() -> None:
    minhash = pytest.importorskip("datasketch").MinHash
    texts = ["One two three four five six seven", "", "中文字日本語ひらがな", "too short"]
    found, counts = datasketch_signatures(
        pa.array([*texts, None], pa.large_string()), values=32, seed=3, words=5, characters=8
    )
    assert counts.tolist() == [3, 0, 3, 0, 0]
    for row, text in enumerate(texts):
        sketch = minhash(num_perm=32, seed=3)
        for shingle in plain.shingles(text):
            sketch.update(shingle.encode())
        assert np.array_equal(found[row], sketch.hashvalues)


def test_golden_signature() -> None:
    """In the keys of finished runs: may never change."""
    sets = shingle_sets(pa.array(["The quick brown fox jumps over the lazy dog"], pa.large_string()))
    assert Family.of(1, 4).signatures(sets).tolist() == [[785013173, 1459305068, 543127321, 256715377]]
