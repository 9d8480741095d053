"""A refused option is named with its value and with what it may be: every number that every stage checks."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cleanpipe.errors import ConfigError
from cleanpipe.registry import catalogue, load

CASES: list[tuple[str, dict[str, Any], str]] = [
    ("language_id", {"threshold": 1.9}, "threshold = 1.9: it must be from 0 to 1"),
    ("language_id", {"threshold": math.nan}, "threshold = nan: it must be from 0 to 1"),
    (
        "language_id",
        {"languages": ("en", "de"), "thresholds": {"en": 0.5, "de": -0.1}},
        "thresholds.de = -0.1: it must",
    ),
    ("language_id", {"chars": 0}, "chars = 0: it must be 1 or more"),
    ("language_id", {"languages": ()}, "languages is empty"),
    ("language_preview", {"confidence": 0.4}, "confidence = 0.4: it must be from 0.5 to 1"),
    ("language_preview", {"confidence": 1.1}, "confidence = 1.1: it must be from 0.5 to 1"),
    ("language_preview", {"letters": 0}, "letters = 0: it must be 1 or more"),
    ("language_preview", {"chars": -3}, "chars = -3: it must be 1 or more"),
    ("language_preview", {"languages": ()}, "languages is empty"),
    ("quality_score", {"max_digit_share": -0.2}, "max_digit_share = -0.2: it must be 0 or more"),
    ("quality_score", {"min_chars": -1}, "min_chars = -1: it must be 0 or more"),
    ("quality_score", {"min_deflate_ratio": math.nan}, "min_deflate_ratio = nan: it must be 0 or more"),
    ("quality_score", {"min_entropy": 5.9}, "max_entropy = 5.8: it must be above min_entropy = 5.9"),
    ("quality_score", {"perplexity": "kenlm"}, "perplexity = 'kenlm': choose one of"),
    ("quality_score", {"chars": 0}, "chars = 0: it must be 1 or more"),
    ("minhash_sign", {"bands": 0}, "bands = 0: it must be from 1 to 255"),
    ("minhash_sign", {"rows": 256}, "rows = 256: it must be from 1 to 255"),
    ("minhash_sign", {"characters": 1000}, "characters = 1,000: it must be from 1 to 255"),
    ("minhash_sign", {"scheme": "simhash"}, "scheme = 'simhash': choose one of"),
    ("minhash_drop", {"threshold": 0.0}, "threshold = 0.0: it must be above 0 and at most 1"),
    ("minhash_drop", {"threshold": 1.2}, "threshold = 1.2: it must be above 0 and at most 1"),
    ("minhash_drop", {"hot_bucket": 0}, "hot_bucket = 0: it must be 1 or more"),
    ("minhash_drop", {"cache_mb": 0}, "cache_mb = 0: it must be 1 or more"),
    ("html_scrub", {"max_depth": 0}, "max_depth = 0: it must be 1 or more"),
    ("html_scrub", {"max_elements": -5}, "max_elements = -5: it must be 1 or more"),
    ("html_scrub", {"fallback": -1}, "fallback = -1: it must be 0 or more"),
    ("http_filter", {"statuses": (99,)}, "statuses: 99 is no HTTP status"),
    ("windowing", {"size": 1 << 25}, "size = 33,554,432: it must be from 128 to 16,777,216"),
    ("windowing", {"size": 100}, "size = 100, overlap = 512"),
]


@pytest.mark.parametrize(("stage", "options", "says"), CASES, ids=lambda v: str(v) if isinstance(v, str) else "")
def test_it_names_the_option_its_value_and_its_range(stage: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(catalogue()[stage])(**options).open()
    assert says in str(refused.value)
    assert stage in str(refused.value)


def test_values_at_the_ends_of_the_range_are_taken() -> None:
    taken: list[tuple[str, dict[str, Any]]] = [
        ("language_id", {"threshold": 0.0}), ("language_id", {"threshold": 1.0, "chars": 1}),
        ("language_preview", {"confidence": 0.5, "letters": 1}), ("quality_score", {"min_entropy": 0.0}),
        ("minhash_sign", {"bands": 255, "rows": 1}), ("minhash_drop", {"threshold": 1.0, "hot_bucket": 1}),
        ("html_scrub", {"max_depth": 1, "fallback": 0}), ("windowing", {"size": 128, "overlap": 64}),
    ]  # fmt: skip
    for stage, options in taken:
        load(catalogue()[stage])(**options).open()
